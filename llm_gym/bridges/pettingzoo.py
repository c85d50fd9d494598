"""PettingZoo's multi-agent games, played by one agent in text: ``llm_gym/PettingZoo-v0``."""

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded

from llm_gym.bridges.base import building, need_package
from llm_gym.bridges.rng_guard import GlobalRngGuard
from llm_gym.core.errors import ConfigError, WorkerError
from llm_gym.core.infos import Info, Options
from llm_gym.core.outcome import StopReason
from llm_gym.registry.user_code import import_object
from llm_gym.wrappers.as_text import AsText
from llm_gym.wrappers.as_text.env import AsTextEnv

_OTHERS_TURNS = 10_000
_TRIES = 5  # moves of an opponent in one turn
_LONGEST_RULES = 2000
_TECHNICAL = re.compile(r"observation|mask|reward|version|argument|usage", re.IGNORECASE)
Policy = Callable[[Any, Any, gym.Space[Any]], Any]
"""A function of observation, action mask (or None) and action space that returns an action."""


class _NoLegalMove(WorkerError):
    """An opponent has made no legal move in several tries."""


class OneSeat(gym.Env[Any, Any]):
    """An AEC game as an environment for one agent; the others play by a policy.

    Observations and actions are the game's own; ``info`` has ``action_mask`` if the game has one.
    The reward of a turn is the sum of the agent's rewards since its last turn.
    """

    def __init__(self, game: Any, seat: str, policy: Policy | None) -> None:
        self.game, self.seat, self.policy = game, seat, policy
        self.observation_space = _observation_space(game, seat)
        self._masked = self.observation_space is not game.observation_space(seat)
        self.action_space = game.action_space(seat)
        self.metadata = {"render_modes": []}
        self._rng_guard = GlobalRngGuard()

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[Any, Info]:
        """Begin a game, and let the others play until it is the seat's turn."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31))
        self._rng_guard.seed(drawn)
        with self._rng_guard:
            self.game.reset(seed=drawn, options=options)
            for at, agent in enumerate(self.game.possible_agents):
                self.game.action_space(agent).seed((drawn + at) % 2**31)
            self._others()
            observation, _, _, _, info = self._look()
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        with self._rng_guard:
            self.game.step(action)
            try:
                self._others()
            except _NoLegalMove as error:  # truncate without a reward
                observation, _, _, _, info = self._look()
                failed = {**info, "stop_reason": StopReason.ERROR, "reason": str(error)}
                return observation, 0.0, False, True, failed
            return self._look()

    def render(self) -> Any:
        with self._rng_guard:
            return self.game.render()

    def close(self) -> None:
        with self._rng_guard:
            self.game.close()

    def _look(self) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        game, seat = self.game, self.seat
        observation, info = game.observe(seat), dict(game.infos.get(seat, {}))
        if self._masked:
            info["action_mask"] = np.asarray(observation["action_mask"], dtype=np.int8)
            observation = observation["observation"]
        # Lists can be compared and recorded.
        for key, value in info.items():
            if isinstance(value, np.ndarray):
                info[key] = value.tolist()
        # With no agent left the game is over for the seat as well.
        over = not game.agents or game.terminations.get(seat, True)
        cut = not over and game.truncations.get(seat, False)
        return observation, self._paid, bool(over), bool(cut), info

    def _others(self) -> None:
        game = self.game
        self._paid = 0.0
        for _ in range(_OTHERS_TURNS):
            if not game.agents:
                return
            agent = game.agent_selection
            observation, reward, terminated, truncated, info = game.last()
            if agent == self.seat:
                self._paid = float(reward)
                return
            game.step(None if terminated or truncated else self._choose(agent, observation, info))
        raise RuntimeError(f"it was not the turn of {self.seat} in {_OTHERS_TURNS} turns")

    def _choose(self, agent: str, observation: Any, info: Mapping[str, Any]) -> Any:
        space = self.game.action_space(agent)
        mask = info.get("action_mask")
        if isinstance(observation, Mapping) and "action_mask" in observation:
            mask, observation = observation["action_mask"], observation["observation"]
        if self.policy is None:
            return space.sample(mask if isinstance(space, gym.spaces.Discrete) else None)
        for _ in range(_TRIES):
            with self._rng_guard.outside():
                action = self.policy(observation, mask, space)
            if space.contains(action) and (mask is None or mask[action]):
                return action
        raise _NoLegalMove(f"the opponent made no legal move, but {action!r:.60}")


class PettingZooEnv(AsTextEnv):
    """A game of PettingZoo from one seat, in words.

    Description:
        Any AEC game, by the module that makes it. The other agents are played by ``opponent``.

    Actions:
        Those of the game, by name or number, as ``AsText`` reads them; those that the game's mask
        excludes are refused.

    Observations:
        What the game draws as text (``ansi``) where it can; else its arrays, in words.

    Rewards:
        The game's own: all that the seat got since its last turn.

    Episode end:
        The game's own. Won is a sum of rewards above 0. If an opponent makes no legal move in
        five tries, the episode is truncated as ``error`` without a reward.

    Info:
        The game's own, and the common keys of ``AsText``.

    Args:
        env_id: The module with the game's ``env``, such as ``pettingzoo.classic.tictactoe_v3``.
        seat: Which agent the model is, by name or number.
        opponent: ``random``, or ``module:function`` or a function from observation, mask and
            action space to an action.
        env_kwargs: Settings of the game.
        render_mode: ``ansi`` or None.
        **settings: Of ``AsText``.
    """

    has_splits = False
    metadata = {"render_modes": ["ansi"], "render_fps": 4}

    def __init__(
        self,
        *,
        env_id: str = "pettingzoo.classic.tictactoe_v3",
        seat: str | int = 0,
        opponent: str | Policy = "random",
        env_kwargs: Mapping[str, Any] | None = None,
        render_mode: Literal["ansi"] | None = None,
        **settings: Any,
    ) -> None:
        need_package("pettingzoo")
        with GlobalRngGuard():
            game, drawn = _make(env_id, dict(env_kwargs or {}))
        agents = list(game.possible_agents)
        by_number = isinstance(seat, int) and 0 <= seat < len(agents)
        name = str(agents[int(seat)] if by_number else seat)
        if name not in agents:
            raise ConfigError(f"seat must be one of {', '.join(agents)}, got {seat!r}")
        # AsText shows the name of the class and its docstring.
        title = env_id.rpartition(".")[2].rpartition("_v")[0] or "Game"
        seat_class = type(title, (OneSeat,), {"__doc__": _rules(game, name)})
        self.seat: OneSeat = seat_class(game, name, _policy(opponent))
        settings.setdefault("masked", "refuse")
        settings.setdefault("invalid", "feedback")  # a fallback could be an illegal move
        settings.setdefault("success", _won)
        if drawn or _is_board(self.seat.observation_space):
            settings.setdefault("describe", self._draw_text if drawn else self._draw_board)
        self.text = AsText(self.seat, **settings)
        self.render_mode, self._closed = render_mode, False
        self.observation_space = self.text.observation_space
        self.action_space = self.text.action_space

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, Info]:
        text, info = super().reset(seed=seed, options=options)
        self._closed = False
        return text, info

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        if self._closed:
            raise ResetNeeded("the episode has not begun; call reset() before step()")
        return super().step(action)

    def render(self) -> str | None:
        return self.text._state if self.render_mode == "ansi" else None

    def close(self) -> None:
        self._closed = True
        super().close()

    def _draw_text(self, observation: Any, info: Mapping[str, Any]) -> str:
        return _with_moves(str(self.seat.render() or "").strip("\n"), info)

    def _draw_board(self, observation: Any, info: Mapping[str, Any]) -> str:
        mine, theirs = observation[..., 0], observation[..., 1]
        cells = np.where(mine, "X", np.where(theirs, "O", "."))
        return _with_moves("\n".join(" ".join(row) for row in cells), info)


def _is_board(space: gym.Space[Any]) -> bool:
    """Return whether observations are two planes: the player's pieces, and those of others."""
    return isinstance(space, gym.spaces.Box) and len(space.shape) == 3 and space.shape[2] == 2


def _with_moves(shown: str, info: Mapping[str, Any]) -> str:
    mask = info.get("action_mask")
    if mask is None:
        return shown
    legal = ", ".join(str(at) for at in np.flatnonzero(mask))
    return f"{shown}\nLegal moves: {legal or 'none'}."


def _rules(game: Any, seat: str) -> str:
    """Return the game's description and actions from its page, without tables and pictures."""
    page = inspect.getdoc(inspect.getmodule(type(game.unwrapped))) or ""
    parts = re.split(r"^#+ *(.*)$", page, flags=re.M)
    sections = dict(zip(parts[1::2], parts[2::2], strict=False))
    wanted = [text for name, text in sections.items() if not _TECHNICAL.search(name)]
    text = "\n\n".join(wanted) if sections else page
    text = re.sub(r"^(\||```|:).*$|<[^>]*>|```.*?```", "", text, flags=re.M)
    lines = [line for line in text.split("\n\n") if "is part of the" not in line]
    rules = " ".join(" ".join(lines).split())[:_LONGEST_RULES]
    is_board = _is_board(_observation_space(game, seat))
    pieces = " Your pieces are X, those of others O." if is_board else ""
    return f"You are {seat}.{pieces} {rules}"


def _observation_space(game: Any, seat: str) -> Any:
    space = game.observation_space(seat)
    return space["observation"] if "action_mask" in getattr(space, "spaces", {}) else space


def _won(total: float, terminated: bool, reward: float, info: Mapping[str, Any]) -> bool:
    return total > 0.0


def _policy(opponent: str | Policy) -> Policy | None:
    if opponent == "random":
        return None
    if isinstance(opponent, str) and ":" in opponent:
        opponent = import_object(opponent)
    if not callable(opponent):
        raise ConfigError(f"opponent must be 'random' or a function, got {opponent!r}")
    return opponent


def _make(env_id: str, settings: dict[str, Any]) -> tuple[Any, bool]:
    try:
        make = importlib.import_module(env_id).env
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"env_id must be a module with a game's env, got {env_id}: {error}"
        ) from error
    with building(f"{env_id} cannot be made with {settings}"):
        game = make(**settings)
        modes = game.metadata.get("render_modes") or []
        if "ansi" in modes and "render_mode" not in settings:
            return make(**settings, render_mode="ansi"), True
        return game, False
