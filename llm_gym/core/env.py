"""``TextEnv``: a game as a ``gymnasium.Env`` with text observations and text actions.

Read ``step`` first. It finds the move in the model's text, lets the game play it, charges the
turn, adds up the reward and says what happened. A subclass implements the rules of one game: the
methods of ``Game``. Private names begin with ``_base_``, so they never clash with a game's names.
"""

import pickle
import sys
from collections.abc import Mapping
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from llm_gym.core import splits
from llm_gym.core.errors import ConfigError, ContractError
from llm_gym.core.game import Game, settings_at
from llm_gym.core.infos import Info, Options, check_options
from llm_gym.core.outcome import Outcome, StopReason, refuse_step, reject
from llm_gym.core.settings import check_range, get_format
from llm_gym.core.spaces import AnyText
from llm_gym.core.text import shown
from llm_gym.reading.answer import has_one_reading, is_settled, readings
from llm_gym.reading.formats import drop_thinking
from llm_gym.reading.markup import END_OF_THOUGHT, visible

MAX_ACTION_CHARS = 1_000_000
# Looking a member up in its enum costs more than a whole move.
_PLAYING, _WON, _LOST = StopReason.PLAYING, StopReason.WON, StopReason.LOST
_BEGINNING: Info = {
    "move": None,
    "reader": "format",
    "valid_action": True,
    "success": False,
    "stop_reason": _PLAYING,
    "reward_terms": {},
    "turn": 0,
    "invalid_actions": 0,
}


class TextEnv(Game, gym.Env[str, str]):
    """Base class of every environment of the suite.

    A subclass sets its own settings as attributes, calls ``super().__init__(**common)`` last,
    and implements ``Game``.

    Info:
        ``move`` and ``reader``: the move that was read, and how; ``valid_action``; ``success``;
        ``stop_reason``; ``reward_terms``, which add up to the reward; ``turn``;
        ``invalid_actions`` so far. ``system_prompt`` after ``reset`` with ``rules="system"``.

    Args:
        action_format: How a move is written: plain, tag, boxed, json, react or raw.
        strict: Accept only a move in the exact format. By default, a reply that names exactly
            one legal move plays that move.
        rules: Where the rules go: into the first observation, or into ``system_prompt``.
        invalid: What an unusable move does: ``feedback`` says why and costs a turn,
            ``terminate`` ends the episode.
        penalty: Subtracted from the reward at every unusable move, at least 0.
        retries: Unusable moves per turn that do not cost the turn.
        shaping: Add the potential-based term to the reward.
        shaping_gamma: Discount per turn of the shaping term; use the trainer's.
        difficulty: In [0, 1]; replaces the settings that the game derives from it.
        render_mode: ``ansi`` or ``human``.
    """

    metadata = {"render_modes": ["ansi", "human"], "render_fps": 4}
    # CPython finds the attributes and methods of an object twice as fast while it has at most 30
    # attributes outside slots: these are left to the game.
    __slots__ = (
        *("strict", "rules", "invalid", "penalty", "retries", "shaping", "shaping_gamma"),
        *("turns_left", "_base_format", "_base_parse", "_base_bare", "_base_rules_cache"),
        *("_base_own", "_base_active", "_base_stop", "_base_turn", "_base_missed", "_base_phi"),
        *("_base_phi_start", "_base_invalid_actions", "_base_observations", "_base_moves"),
        *("_base_screen", "_base_player_seed", "_base_player_rng"),
    )
    _base_not_state = frozenset(
        {"spec", "observation_space", "action_space", "render_mode"}
        | {"_base_format", "_base_parse", "_base_bare"}
    )
    """Attributes of the environment, not of the episode; snapshots leave them out."""
    turns_left: int
    """Turns until ``max_turns``."""

    def __init__(
        self,
        *,
        action_format: str = "plain",
        strict: bool = False,
        rules: Literal["observation", "system"] = "observation",
        invalid: Literal["feedback", "terminate"] = "feedback",
        penalty: float = 0.0,
        retries: int = 0,
        shaping: bool = False,
        shaping_gamma: float = 1.0,
        difficulty: float | None = None,
        render_mode: str | None = None,
    ) -> None:
        check_range("penalty", penalty, 0)
        check_range("retries", retries, 0)
        check_range("shaping_gamma", shaping_gamma, 0, 1)
        if shaping and type(self).potential is Game.potential:
            raise ConfigError(f"shaping=True needs a potential; {type(self).__name__} has none")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ConfigError(f"render_mode must be None, 'ansi' or 'human', got {render_mode!r}")
        self.strict, self.rules, self.invalid = strict, rules, invalid
        self.penalty, self.retries = penalty, retries
        self.shaping, self.shaping_gamma = shaping, shaping_gamma
        self.render_mode = render_mode
        if type(self).instance is Game.instance:
            self.has_splits = False  # without an instance() there is nothing to split by
        self._base_format = get_format(action_format)
        self._base_parse = self._base_format.parse
        self._base_bare = action_format in ("plain", "raw")  # a reply may be a move and no more
        self._base_rules_cache: str | None = None
        self._base_set({} if difficulty is None else settings_at(self, difficulty, is_alone=True))
        self._base_own = {name: getattr(self, name) for name in self.at_difficulty(0.0)}
        self._base_active = self._base_own
        self.observation_space = AnyText(self.max_observation_chars)
        examples = [self._base_format.render(move) for move in self.example_moves()]
        self.action_space = AnyText(MAX_ACTION_CHARS, examples=examples)
        self._base_stop: StopReason | None = None
        self._base_turn, self.turns_left = 0, self.max_turns or 0
        self._base_screen = ""
        self._base_player_seed: int | None = None
        self._base_player_rng: np.random.Generator | None = None

    # --- Gymnasium -----------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, Info]:
        """Begin a new episode.

        ``options`` may hold ``split`` (train, dev or test) and ``difficulty``, for this episode.
        """
        if seed is not None:
            super().reset(seed=seed)
            self._base_player_seed, self._base_player_rng = seed, None
        is_own = self._base_active is self._base_own
        if not is_own or (options is not None and options != {}):
            level = check_options(options).get("difficulty")
            self._base_active = self._base_own if level is None else settings_at(self, level)
            self._base_set(self._base_active)
        split = options.get("split") if options else None
        if split is None:
            self.new_game(self.np_random)
        else:
            self._base_draw(split)
        self._base_stop, self._base_missed = _PLAYING, (0, 0)
        self._base_turn = self._base_invalid_actions = 0
        self.turns_left = self.max_turns or 0
        if self.shaping:
            self._base_phi, self._base_phi_start = 0.0, self._base_potential()
        rules, state = self._base_rules(), self.describe()
        self._base_observations: list[str] = [f"{rules}\n\n{state}"]
        self._base_moves: list[str] = []
        info = _BEGINNING.copy()
        info["reward_terms"] = {}
        if self.rules == "system":
            info["system_prompt"] = rules  # players in another process cannot read the attribute
        else:
            state = self._base_observations[0]
        if self.render_mode is not None:
            self._base_draw_screen("", state)
        return state, info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play the move in ``action``, which may be any text."""
        if self._base_stop is not _PLAYING or not isinstance(action, str):
            raise refuse_step(type(self).__name__, action, self._base_stop)
        move: str | None
        move = reply = action.strip()
        # Words alone need no reading. Most are a single one, which is faster to find out.
        is_words = action.isalnum() or action.replace(" ", "").isalnum()
        if not (is_words and self._base_bare) or END_OF_THOUGHT in action:
            reply = drop_thinking(action) if self.strict else visible(action)
            move = self._base_first_reading(action, reply)
        if move is None or len(move) > self.max_move_chars:
            text, valid, stop, reward = self._base_unreadable(move)
        else:
            text, valid, stop, reward = self.apply(move)
        info = _BEGINNING.copy()  # in half the time of a dictionary written out
        if not valid and not (self.strict or self._base_is_settled(reply, move)):
            move, info["reader"], (text, valid, stop, reward) = self._base_read_on(
                reply, move, text
            )
        terms = info["reward_terms"] = {"success": reward}
        if valid:
            self._base_turn += 1
            self.turns_left -= 1
        else:
            info["valid_action"] = False
            stop, paid = self._base_charge_invalid(terms)
            reward += paid
        if stop is _PLAYING:
            if self._base_turn == self.max_turns:
                stop = _LOST
                text = " ".join(filter(None, (text, "No turns left: you lost.", self.reveal())))
            else:
                state = self.describe()
                text = f"{text}\n{state}" if text else state
        self._base_stop = info["stop_reason"] = stop
        if self.shaping:
            reward += self._base_shape(terms)
        self._base_observations.append(text)
        self._base_moves.append(move or "")
        if self.render_mode is not None:
            self._base_draw_screen(action, text)
        info["move"], info["turn"] = move, self._base_turn
        info["invalid_actions"] = self._base_invalid_actions
        info["success"] = stop is _WON
        return text, reward, stop is not _PLAYING, False, info

    def render(self) -> str | None:
        """Return the last action and observation (``ansi``); ``human`` prints as it plays."""
        if self.render_mode == "ansi":
            return self._base_screen
        if self.render_mode is None:
            gym.logger.warn('render() shows nothing without render_mode="ansi" or "human"')
        return None

    # --- players: all answer with actions in the environment's own format ------------------

    def oracle_action(self) -> str:
        """Return the best action, computed from the full state, including hidden parts."""
        self._base_need_episode()
        return self._base_format.render(self.oracle_move())

    def solver_action(self) -> str:
        """Return a good action, computed only from the observations of this episode."""
        self._base_need_episode()
        return self._base_format.render(self.solve(self._base_observations, self._base_moves))

    def random_action(self) -> str:
        """Return a random usable action.

        It uses its own generator, seeded by ``reset``, so it never changes what happens next.
        """
        self._base_need_episode()
        return self._base_format.render(self.random_move(self._base_dice()))

    def reflex_action(self) -> str:
        """Return the action of a simple rule-based player."""
        self._base_need_episode()
        return self._base_format.render(self.reflex_move(self._base_dice()))

    def _base_need_episode(self) -> None:
        if self._base_stop is None:
            raise refuse_step(type(self).__name__, "", None)

    def _base_dice(self) -> np.random.Generator:
        if self._base_player_rng is None:
            entropy = None if self._base_player_seed is None else (self._base_player_seed, 1)
            self._base_player_rng = np.random.default_rng(entropy)
        return self._base_player_rng

    def legal_actions(self) -> list[str] | None:
        """Return every usable action in this state, or None if there are too many."""
        self._base_need_episode()
        moves = self.legal_moves()
        return None if moves is None else [self._base_format.render(move) for move in moves]

    def action_pattern(self) -> str:
        """Return a regex that usable actions match in full, for constrained decoding."""
        self._base_need_episode()
        moves = self.legal_moves()
        if moves is not None:
            return self._base_format.pattern(moves)
        return self._base_format.pattern(self.move_pattern() or r"[^\n]{1,200}")

    # --- the episode -----------------------------------------------------------------------

    @property
    def system_prompt(self) -> str:
        """The rules if ``rules="system"``; else "", because the first observation has them."""
        return self._base_rules() if self.rules == "system" else ""

    def instance_id(self) -> str:
        """Return 16 hex digits that identify this instance; they are the same in every process."""
        return splits.digest(f"{type(self).__name__} {self.instance()!r}")

    def state_key(self) -> str:
        """Return a text that is equal in equal states, for estimators that compare turns.

        By default it consists of the observation and the turns that are left. Override it if an
        observation shows more than the state (such as the last move) or less.
        """
        self._base_need_episode()
        left = f"{self.turns_left} left\n" if self.max_turns else ""
        return f"{left}{self._base_observations[-1]}"

    def snapshot(self) -> bytes:
        """Return the state of the episode; ``restore`` accepts it any number of times.

        The bytes are a pickle: restore only what you trust.
        """
        return pickle.dumps(self._base_state(), protocol=pickle.HIGHEST_PROTOCOL)

    def restore(self, snapshot: bytes) -> None:
        """Go back to ``snapshot``, taken here or in an environment with the same settings."""
        state: dict[str, Any] = pickle.loads(snapshot)
        for name in self._base_state().keys() - state.keys():
            delattr(self, name)
        for name, value in state.items():
            setattr(self, name, value)

    def _base_state(self) -> dict[str, Any]:
        slots = {name: getattr(self, name) for name in TextEnv.__slots__ if hasattr(self, name)}
        state = slots | vars(self)
        return {name: one for name, one in state.items() if name not in self._base_not_state}

    # --- reading the reply -------------------------------------------------------------------

    def _base_first_reading(self, action: str, reply: str) -> str | None:
        """Return the move that the format's own parser finds, if no other reading is possible."""
        move = self._base_parse(reply)
        if self.strict or move is None:
            return move
        settled = is_settled(action, reply, move, self._base_format, self.free_text)
        return move if settled else None

    def _base_is_settled(self, reply: str, move: str | None) -> bool:
        """Return whether a reply can mean no other move than ``move``, which was refused."""
        if move is None:
            return False
        find = self.finder() if reply == move and not self.free_text else None
        return self.is_understood(move) or (find is not None and has_one_reading(move, find))

    def _base_read_on(
        self, reply: str, move: str | None, text: str
    ) -> tuple[str | None, str, Outcome]:
        """Search a reply for another move if the first one cannot be played."""
        refused: tuple[str | None, str, Outcome] = move, "format", (text, False, _PLAYING, 0.0)
        context = (self._base_rules_cache or "", self._base_observations[-1])
        for found in readings(reply, self, context):
            if found.move == move and move:
                continue
            if found.move is None:
                return None, found.how, reject(found.problem)
            if len(found.move) > self.max_move_chars:
                continue
            outcome = self.apply(found.move)
            if outcome[1] or found.is_final:
                is_own = found.move == self._base_parse(reply)
                return found.move, "format" if is_own else found.how, outcome
            if refused[0] is None and (self._base_bare or found.how != "last line"):
                refused = found.move, found.how, outcome
        return (None, "nothing", refused[2]) if refused[0] is None else refused

    def _base_unreadable(self, move: str | None) -> Outcome:
        if move is None:
            return reject(f"I found no move in your reply. {self._base_how()}".rstrip())
        return reject(f"A move has at most {self.max_move_chars} characters.")

    # --- what the player is told ---------------------------------------------------------------

    def _base_rules(self) -> str:
        if self._base_rules_cache is None:
            self._base_rules_cache = self._base_write_rules()
        return self._base_rules_cache

    def _base_write_rules(self) -> str:
        parts = [self.rules_text()]
        if self.max_turns is not None:
            parts.append(f"You have {self.max_turns} turn{'s' * (self.max_turns != 1)}.")
        if self.retries:
            parts.append(f"Up to {self.retries} unusable replies per turn are forgiven.")
        cost = "costs a turn" if self.invalid == "feedback" else "ends the game"
        parts.append(f"An unusable reply {cost}.")
        if self.penalty:
            parts.append(f"Each unusable reply costs {self.penalty:g} points.")
        return f"{' '.join(parts)}\n{self._base_how()}".rstrip("\n")

    def _base_how(self) -> str:
        return self._base_format.tell(self.example_moves()[0], self.move_name)

    def _base_draw_screen(self, action: str, text: str) -> None:
        self._base_screen = f"> {action}\n{text}" if action else text
        if self.render_mode == "human":
            sys.stdout.write(shown(self._base_screen, keep="\n\t") + "\n")

    # --- what a turn costs and earns -----------------------------------------------------------

    def _base_charge_invalid(self, terms: dict[str, float]) -> tuple[StopReason, float]:
        """Charge an unusable reply; return whether it ends the game, and what it pays."""
        self._base_invalid_actions += 1
        paid = 0.0
        if self.penalty:
            paid = terms["invalid"] = -self.penalty
        if self.retries:
            turn, misses = self._base_missed
            misses = misses + 1 if turn == self._base_turn else 1
            if misses <= self.retries:
                self._base_missed = self._base_turn, misses
                return _PLAYING, paid
        self._base_turn += 1
        self.turns_left -= 1
        ends = self.invalid == "terminate"
        if self.worst_reward:
            terms["given_up"] = self.worst_reward + (self.quitting_cost() if ends else 0.0)
            paid += terms["given_up"]
        return StopReason.INVALID if ends else _PLAYING, paid

    def quitting_cost(self) -> float:
        """Return the lowest total reward of the turns that are left: at most 0."""
        return self.worst_reward * max(self.turns_left, 0)

    def _base_shape(self, terms: dict[str, float]) -> float:
        # Counted from the first state, and 0 in a terminal state by definition: the sum over an
        # episode is 0, so no behaviour can farm it, and a term is at most 1 either way.
        playing = self._base_stop is _PLAYING
        phi = self._base_potential() - self._base_phi_start if playing else 0.0
        term = terms["shaping"] = self.shaping_gamma * phi - self._base_phi
        self._base_phi = phi
        return term

    def _base_potential(self) -> float:
        phi = self.potential()
        if not -1e-9 <= phi <= 1.0 + 1e-9:  # rounding may leave it; not a number is not in between
            raise ContractError(
                f"{type(self).__name__}.potential() must be in [0, 1], got {phi}; "
                "llm_gym.core.game.progress turns a distance into a potential"
            )
        return min(max(phi, 0.0), 1.0)

    # --- difficulty and splits -------------------------------------------------------------------

    def _base_set(self, settings: Mapping[str, Any]) -> None:
        for name, value in settings.items():
            setattr(self, name, value)
        self._base_rules_cache = None
        for name, one in self._declared_settings.items():
            if one.least is not None:
                self.check_range(name, one.least, one.most)
        self.check_settings()

    def _base_draw(self, split: object) -> None:
        wanted = splits.check_split(split)
        if not self.has_splits:
            unnamed = type(self).instance is Game.instance
            why = "does not define instance()" if unnamed else "has too few instances for splits"
            raise ConfigError(f"{type(self).__name__} {why}; reset without a split")
        for _ in range(splits.DRAWS):
            self.new_game(self.np_random)
            if splits.split_of(self.instance_id()) == wanted:
                return
        raise ConfigError(
            f"no {wanted} instance among {splits.DRAWS} draws; choose harder settings"
        )
