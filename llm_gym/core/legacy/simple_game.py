"""A small game in the four-value shape: fetch a thing and bring it where it belongs."""

import re
from typing import Any, NamedTuple

from llm_gym.core.legacy.base import BaseEnvironment
from llm_gym.reading.formats import drop_thinking, parse_plain

SIZE = 3
ITEM = "sword"
_STEPS = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}
_MOVE = re.compile(r"(?:move|go|walk) (?:to the )?(north|south|east|west)")
_PICK_UP = re.compile(r"(?:pick up|take|get) (?:the )?(\S+)")
_COMPLETE = re.compile(r"(?:complete|finish) (?:the )?quest")
_MAX_COMMAND = 200


class ParsedCommand(NamedTuple):
    """What the player asked for."""

    verb: str
    object: str = ""


def parse_command(text: str) -> ParsedCommand | None:
    r"""Return the command in the last line of ``text``, or None if there is none.

    >>> parse_command("I need the sword.\nPick up the sword!")
    ParsedCommand(verb='pick up', object='sword')
    >>> parse_command("go north").object, parse_command("fly")
    ('north', None)
    """
    line = parse_plain(drop_thinking(text)) or ""
    if len(line) > _MAX_COMMAND:
        return None
    words = " ".join(line.lower().split()).rstrip(".!")
    if found := _MOVE.fullmatch(words):
        return ParsedCommand("move", found[1])
    if found := _PICK_UP.fullmatch(words):
        return ParsedCommand("pick up", found[1])
    return ParsedCommand("complete quest") if _COMPLETE.fullmatch(words) else None


class SimpleGameEnvironment(BaseEnvironment):
    """Pick up the sword, carry it to the altar and complete the quest.

    The board has 3 by 3 squares, north is up, and the player begins in the middle. Where sword
    and altar are is drawn from ``np_random``, so a seed fixes the episodes that follow. Eight
    steps are always enough. The steps that remain are part of the description, so running out of
    them is a loss by the rules. The reward is 1 for the quest and 0 for everything else.

    >>> game = SimpleGameEnvironment({"max_steps": 10, "seed": 0})
    >>> print(game.reset())
    Game State:
    - Position: (1, 1)
    - Sword: at (0, 2)
    - Altar: at (2, 2)
    - Inventory: empty
    - Steps remaining: 10
    >>> for action in ["move north", "move west", "pick up sword", "move east", "move east"]:
    ...     state, reward, done, info = game.step(action)
    >>> game.step("complete quest")[1:]
    (1.0, True, {'success': True})
    """

    def reset(self) -> str:
        self.done, self.step_count = False, 0
        middle = SIZE * SIZE // 2
        squares = [square for square in range(SIZE * SIZE) if square != middle]
        sword, altar = self.np_random.choice(squares, size=2, replace=False)
        self.position = (SIZE // 2, SIZE // 2)
        self.item_at: tuple[int, int] | None = (int(sword) % SIZE, int(sword) // SIZE)
        self.goal = (int(altar) % SIZE, int(altar) // SIZE)
        return self.get_state_description()

    def step(self, action: str) -> tuple[str, float, bool, dict[str, Any]]:
        self.step_count += 1
        command = parse_command(action)
        refusal = "I do not know that command." if command is None else self._play(command)
        info: dict[str, Any] = {"invalid_action": True} if refusal else {}
        success = self.done
        if success or self.step_count >= self.max_steps:
            self.done, info["success"] = True, success
        feedback = f"{refusal}\n" if refusal else ""
        state = feedback + self.get_state_description()
        return state, float(success), self.done, info

    def get_state_description(self) -> str:
        item = "carried" if self.item_at is None else f"at {self.item_at}"
        return (
            "Game State:\n"
            f"- Position: {self.position}\n"
            f"- {ITEM.capitalize()}: {item}\n"
            f"- Altar: at {self.goal}\n"
            f"- Inventory: {ITEM if self.item_at is None else 'empty'}\n"
            f"- Steps remaining: {self.max_steps - self.step_count}"
        )

    def get_prompt_prefix(self) -> str:
        return (
            f"You are on a board of {SIZE} by {SIZE} squares; north of (1, 1) is (1, 2), east of "
            f"it (2, 1). Bring the {ITEM} to the altar and complete the quest there, within "
            f"{self.max_steps} steps. Commands: move north, move south, move east, move west, "
            f"pick up {ITEM}, complete quest. Answer with one command; it must be the last line."
        )

    def _play(self, command: ParsedCommand) -> str:
        """Carry out ``command``; return why it cannot be done, or nothing."""
        if command.verb == "move":
            (x, y), (dx, dy) = self.position, _STEPS[command.object]
            if not (0 <= x + dx < SIZE and 0 <= y + dy < SIZE):
                return "The board ends here."
            self.position = (x + dx, y + dy)
            return ""
        if command.verb == "pick up":
            if command.object != ITEM or self.item_at != self.position:
                return "There is no such thing here."
            self.item_at = None
            return ""
        if self.item_at is not None:
            return f"You do not carry the {ITEM}."
        if self.position != self.goal:
            return "The altar is elsewhere."
        self.done = True
        return ""
