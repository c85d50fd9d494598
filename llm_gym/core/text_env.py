"""``TextEnv``: a game as a true ``gymnasium.Env`` whose observations and actions are text.

Read ``step`` first: find the move in the model's text (``ReplyReading``), play it, charge the turn,
add up the reward, and say what happened (``RulesTelling``). The rules of the game itself live in
``Game``.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded

from llm_gym.core import splits
from llm_gym.core.formats import get_format
from llm_gym.core.game import Game
from llm_gym.core.outcome import StopReason
from llm_gym.core.players import Players
from llm_gym.core.replies import ReplyReading
from llm_gym.core.spaces import AnyText
from llm_gym.core.typed import Typed
from llm_gym.errors import ActionTypeError, ConfigError, ContractError

MAX_ACTION_CHARS = 1_000_000
# Looking a member up in its enum costs more than a whole move.
_PLAYING, _WON, _LOST = StopReason.PLAYING, StopReason.WON, StopReason.LOST
# The info of most turns: filling in a copy is faster than building it.
_INFO = {
    "move": None,
    "reader": "format",
    "valid_action": True,
    "success": False,
    "stop_reason": _PLAYING,
    "reward_terms": None,
    "turn": 0,
    "invalid_actions": 0,
}
_ROUNDING = 1e-9
_NO_TURNS = "No turns left: you lost."
_OPTIONS = {"split", "difficulty"}


class CommonArgs(TypedDict, total=False):
    """Arguments that every text environment takes; ``TextEnv`` documents them."""

    action_format: str
    strict: bool
    rules: Literal["observation", "system"]
    invalid: Literal["feedback", "terminate"]
    penalty: float
    retries: int
    shaping: bool
    shaping_gamma: float
    difficulty: float | None
    render_mode: str | None


class TextEnv(Typed, Players, ReplyReading, gym.Env[str, str]):
    """Base class of every environment of the suite.

    A subclass sets its own settings as attributes, calls ``super().__init__(**common)`` last,
    and implements ``Game``.

    Args:
        action_format: How a move is written: plain, tag, boxed, json, react or raw.
        strict: Whether only a move written just as the format asks counts. By default the one
            legal move that a reply plainly names is that move.
        rules: Where the rules go: into the first observation, or into ``system_prompt``.
        invalid: What an unusable move does: ``feedback`` says why and costs a turn,
            ``terminate`` ends the episode.
        penalty: Taken from the reward at every unusable move, at least 0.
        retries: Unusable moves per turn that are answered without costing it.
        shaping: Add the potential-based term to the reward.
        shaping_gamma: Discount per turn of the shaping term; give the trainer's own.
        difficulty: In [0, 1]; replaces the settings that the game derives from it.
        render_mode: ``ansi`` or ``human``.
    """

    metadata = {"render_modes": ["ansi", "human"], "render_fps": 4}
    # CPython finds the attributes and methods of an object twice as fast while it has at most 30
    # attributes outside slots: these are left to the game.
    # The base's own are called ``_base_...``, so that no name of a game's can be one of them.
    __slots__ = (
        *("strict", "rules", "invalid", "penalty", "retries", "shaping", "shaping_gamma"),
        *("_base_format", "_base_parse", "_base_bare", "_base_reader", "_base_rules_cache"),
        *("_base_knobs", "_base_active_knobs", "_base_player_seed", "_base_player_rng"),
        *("_base_stop", "_base_turn", "_base_missed", "_base_invalid_actions"),
        *("_base_phi", "_base_phi_start"),
        *("_base_observations", "_base_moves", "_base_screen"),
    )

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
        if not 0.0 <= penalty < float("inf"):
            raise ConfigError(f"penalty must not be negative, got {penalty}")
        if retries < 0:
            raise ConfigError(f"retries must not be negative, got {retries}")
        if not 0.0 <= shaping_gamma <= 1.0:
            raise ConfigError(f"shaping_gamma must be in [0, 1], got {shaping_gamma}")
        if shaping and type(self).potential is Game.potential:
            raise ConfigError(f"shaping=True needs a potential; {type(self).__name__} has none")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ConfigError(f"render_mode must be None, 'ansi' or 'human', got {render_mode!r}")
        self._base_format = get_format(action_format)
        self._base_parse = self._base_format.parse
        self._base_bare = action_format in ("plain", "raw")
        self.strict, self._base_reader = strict, "format"
        self.rules, self.invalid, self.penalty, self.retries = rules, invalid, penalty, retries
        self.shaping, self.shaping_gamma = shaping, shaping_gamma
        self.render_mode = render_mode
        self.max_move_chars = self.max_move_chars  # faster to reach than that of the class
        if type(self).instance is Game.instance:
            self.has_splits = False  # what cannot be told apart cannot be kept apart
        self._base_settle_difficulty(difficulty)
        self.observation_space = AnyText(self.max_observation_chars)
        examples = [self._base_format.render(move) for move in self.example_moves()]
        self.action_space = AnyText(MAX_ACTION_CHARS, examples=examples)
        self._base_stop: StopReason | None = None
        self._base_turn = 0
        self._base_phi = self._base_phi_start = 0.0
        self._base_screen = ""
        self._base_player_seed: int | None = None
        self._base_player_rng: np.random.Generator | None = None

    # --- Gymnasium -----------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin a new episode.

        ``options`` may hold ``split`` (train, dev or test) and ``difficulty``, for this episode.
        """
        if seed is not None:
            super().reset(seed=seed)
            self._base_player_seed, self._base_player_rng = seed, None
        if options not in (None, {}) or self._base_active_knobs is not self._base_knobs:
            self._base_apply_knobs(_checked(options).get("difficulty"))
        split = options.get("split") if options else None
        if split is None:
            self.new_game(self.np_random)
        else:
            self._base_draw(split)
        self._base_stop, self._base_missed = _PLAYING, (0, 0)
        self._base_turn = self._base_invalid_actions = 0
        if self.shaping:
            self._base_phi, self._base_phi_start = 0.0, self._base_potential()
        rules, state = self._base_rules(), self.describe()
        self._base_observations, self._base_moves = [f"{rules}\n\n{state}"], []
        info = self._base_info(True, None, {})
        if self.rules == "system":
            info["system_prompt"] = rules  # for players at the other end of a process
        else:
            state = self._base_observations[0]
        if self.render_mode is not None:
            self._base_draw_screen("", state)
        return state, info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play the move that ``action`` holds."""
        if self._base_stop is not _PLAYING or not isinstance(action, str):
            raise self._base_refusal(action)
        one_word = self._base_bare and action.isalnum()  # as most players write it
        move = str(action) if one_word else self._base_first_reading(action)
        if move is None or len(move) > self.max_move_chars:
            text, valid, stop, reward = self._base_unreadable(move)
        else:
            text, valid, stop, reward = self.apply(move)
        if not valid and not self.strict:
            move, (text, valid, stop, reward) = self._base_read_on(action, move, text)
        terms = {"success": reward}
        if valid:
            self._base_turn += 1
        else:
            stop = self._base_charge_invalid(terms)
            reward -= self.penalty
        if stop is _PLAYING:
            if self._base_turn == self.max_turns:
                stop, reveal = _LOST, self.reveal()
                text = f"{text} {_NO_TURNS}" if text else _NO_TURNS
                text = f"{text} {reveal}" if reveal else text
            else:
                state = self.describe()
                text = f"{text}\n{state}" if text else state
        self._base_stop = stop
        if self.shaping:
            reward += self._base_shape(terms)
        self._base_observations.append(text)
        self._base_moves.append(move or "")
        if self.render_mode is not None:
            self._base_draw_screen(action, text)
        return text, reward, stop is not _PLAYING, False, self._base_info(valid, move, terms)

    def render(self) -> str | None:
        """Return the last action and observation (``ansi``); ``human`` prints as it plays."""
        if self.render_mode == "ansi":
            return self._base_screen
        if self.render_mode is None:
            gym.logger.warn('render() shows nothing without render_mode="ansi" or "human"')
        return None

    # --- the turn ------------------------------------------------------------------------

    def _base_refusal(self, action: object) -> Exception:
        if not isinstance(action, str):
            return ActionTypeError(
                f"{type(self).__name__} takes a str action, got {type(action).__name__}; "
                "decode token ids before calling step"
            )
        why = "has not begun" if self._base_stop is None else f"is over ({self._base_stop})"
        return ResetNeeded(f"the episode {why}; call reset() before step()")

    def _base_charge_invalid(self, terms: dict[str, float]) -> StopReason:
        self._base_invalid_actions += 1
        if self.penalty:
            terms["invalid"] = -self.penalty
        turn, misses = self._base_missed
        misses = misses + 1 if turn == self._base_turn else 1
        if misses <= self.retries:
            self._base_missed = self._base_turn, misses
            return _PLAYING
        self._base_turn += 1
        return StopReason.INVALID if self.invalid == "terminate" else _PLAYING

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
        if not -_ROUNDING <= phi <= 1.0 + _ROUNDING:  # not a number is not in between either
            raise ContractError(
                f"{type(self).__name__}.potential() must be in [0, 1], got {phi}; "
                "llm_gym.core.game.progress makes one of a distance"
            )
        return min(max(phi, 0.0), 1.0)

    def _base_info(self, valid: bool, move: str | None, terms: dict[str, float]) -> dict[str, Any]:
        info: dict[str, Any] = _INFO.copy()
        info["move"], info["reward_terms"], info["turn"] = move, terms, self._base_turn
        if self._base_reader != "format":
            info["reader"], self._base_reader = self._base_reader, "format"
        if self._base_stop is not _PLAYING:
            info["success"], info["stop_reason"] = self._base_stop is _WON, self._base_stop
        if self._base_invalid_actions:
            info["valid_action"], info["invalid_actions"] = valid, self._base_invalid_actions
        return info

    # --- the instance --------------------------------------------------------------------

    def instance_id(self) -> str:
        """Return 16 hex digits that name this instance, alike in every process."""
        return splits.digest(f"{type(self).__name__} {self.instance()!r}")

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


def _checked(options: dict[str, Any] | None) -> dict[str, Any]:
    options = {} if options is None else options
    if not isinstance(options, dict):
        raise ConfigError(f"reset options must be a dictionary, got {options!r:.200}")
    if unknown := options.keys() - _OPTIONS:
        raise ConfigError(
            f"reset options must be among split and difficulty, got {sorted(map(str, unknown))}"
        )
    return options
