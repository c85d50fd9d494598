"""``WorldEnv``: base class of the games in a generated world.

A game draws a ``World`` and a ``Goal`` in ``draw_world``; those that cannot be won are drawn again.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from llm_gym import ConfigError, Outcome, TextEnv, go_on, progress, reject, win
from llm_gym.core.splits import DRAWS
from llm_gym.envs.navigation.text_game.commands import VERBS, WAY, find_commands, read, settle
from llm_gym.envs.navigation.text_game.view import View, look, prose, terse
from llm_gym.envs.navigation.text_game.world import (
    DIRECTIONS,
    Command,
    Goal,
    World,
    distance,
    next_command,
)
from llm_gym.reading.moves import Named

Style = Literal["prose", "terse"]
_TRIALS = 50  # worlds drawn to see whether settings can be won


class WorldEnv(TextEnv):
    """A goal in a world of rooms and things."""

    max_turns: int
    hints: int = 0
    verbs: Mapping[str, str] = VERBS
    style: Style
    _world: World
    _quest: Goal

    @property
    def is_markov(self) -> bool:
        """Whether no memory is needed: with hints, the observation says where to go."""
        return self.hints > 0

    # --- worlds that can be won ----------------------------------------------------------

    @abstractmethod
    def draw_world(self, rng: np.random.Generator) -> tuple[World, Goal]:
        """Return a world and a goal."""

    @abstractmethod
    def most_turns(self) -> int:
        """Return a number of turns that is enough in every world of these settings."""

    def check_winnable(self) -> None:
        """Raise ``ConfigError`` if almost no world can be won in ``max_turns``."""
        if self.max_turns < self.most_turns():
            rng = np.random.default_rng(0)
            if not any(self._fits(*self.draw_world(rng)) for _ in range(_TRIALS)):
                raise ConfigError(
                    f"max_turns must leave time for the goal, got {self.max_turns}: none of "
                    f"{_TRIALS} worlds of these settings can be won in so few; "
                    f"{self.most_turns()} are always enough"
                )

    def new_game(self, rng: np.random.Generator) -> None:
        for _ in range(DRAWS):
            world, quest = self.draw_world(rng)
            # Skip the plan, which costs more than the draw, if the turns are always enough.
            if self.max_turns >= self.most_turns() or self._fits(world, quest):
                return self.begin(world, quest)
        raise ConfigError(f"no world among {DRAWS} can be won in max_turns={self.max_turns}")

    def _fits(self, world: World, quest: Goal) -> bool:
        return distance(world, quest) <= self.max_turns

    # --- the game ------------------------------------------------------------------------

    def begin(self, world: World, quest: Goal) -> None:
        self._world, self._quest = world, quest
        self._start, self._way = world.clone(), 0
        self._visited = {world.here}

    def example_moves(self) -> Sequence[str]:
        return ["go north", "go east", "go south", "go west", "look", "inventory"]

    def view(self) -> View:
        return look(self._world, self._quest, self.hints, self.turns_left)

    def describe(self) -> str:
        return prose(self.view()) if self.style == "prose" else terse(self.view())

    def understand(self, move: str) -> Command | str:
        """Return the usable command that ``move`` means, or why there is none."""
        return settle(self._world, read(move))

    def apply(self, move: str) -> Outcome:
        command = self.understand(move)
        if isinstance(command, str):
            return reject(command)
        self._world.do(command)
        self._visited.add(self._world.here)
        if self._quest.is_done(self._world):
            return win("Your quest is done.")
        return go_on(feedback(command) if self.style == "prose" else "")

    def instance(self) -> object:
        # Worlds with the same first view are one instance, so no memorised path helps in a split.
        return look(self._start, self._quest, self.hints, self.max_turns)

    def named_moves(self, text: str) -> Iterator[Named]:
        return find_commands(text, self.verbs, self.understand)

    def is_understood(self, move: str) -> bool:
        verb, _, thing = move.lower().partition(" ")
        thing = thing.partition(" in ")[0].partition(" with ")[0]
        if verb not in self.verbs:
            return False
        if " " not in thing:
            return thing in DIRECTIONS or WAY.match(thing) is None
        world = self._world
        return any(thing in known for known in (world.place, world.containers, world.doors))

    def legal_moves(self) -> Sequence[str]:
        return [str(command) for command in self._world.usable()]

    def oracle_move(self) -> str:
        return str(next_command(self._world, self._quest))

    def potential(self) -> float:
        if not self._way:  # the whole length, needed only for shaping: once per episode
            self._way = distance(self._start, self._quest)
        return progress(distance(self._world, self._quest), self._way)


def feedback(command: Command) -> str:
    """Return a sentence that says what a command did.

    >>> feedback(Command("put", "lamp", "box"))
    'You put the lamp in the box.'
    """
    verb, noun, other = command
    if verb == "go":
        return f"You go {noun}."
    if verb == "put":
        return f"You put the {noun} in the {other}."
    if verb == "look":
        return "You look around."
    if verb == "inventory":
        return "You check what you carry."
    return f"You {'defeat' if verb == 'attack' else verb} the {noun}."
