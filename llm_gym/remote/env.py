"""``llm_gym/Remote-v0``: an environment that another machine plays."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import gymnasium as gym
from gymnasium.error import ResetNeeded

from llm_gym.errors import ActionTypeError, ConfigError, RemoteError
from llm_gym.remote import wire
from llm_gym.remote.connection import Connection
from llm_gym.remote.session import RemoteSession, any_seed, play, refusal


class RemoteEnv(gym.Env[str, str]):
    """Play the environment that ``llm-gym serve`` offers at ``url``.

    Episodes are those of the same environment here, to the bit. A connection that breaks is made
    again and no step is played twice; a server that was restarted in the middle of an episode is
    brought back to where it was. ``make_vec`` plays many in one request.

    Args:
        url: Where the server is, such as ``http://127.0.0.1:8765``.
        token_env: The environment variable that holds the server's token, if it wants one.
        timeout: Seconds until an answer must be there.
        tries: Requests for an answer before giving up.
        render_mode: ``ansi`` or ``human``.
    """

    metadata = {"render_modes": ["ansi", "human"], "render_fps": 4}

    def __init__(
        self,
        url: str | None = None,
        *,
        token_env: str = wire.TOKEN_VARIABLE,
        timeout: float = 60.0,
        tries: int = 5,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ConfigError(f"render_mode must be None, 'ansi' or 'human', got {render_mode!r}")
        self._how: dict[str, Any] = {"token_env": token_env, "timeout": timeout, "tries": tries}
        self._url, self.render_mode = needed(url), render_mode
        self._connection: Connection | None = Connection(self._url, **self._how)
        about = self._connection.about
        self.has_splits = about.has_splits
        self.observation_space, self.action_space = about.observation_space, about.action_space
        self._session = RemoteSession()
        self._waits = "has not begun"
        self._instance: str | None = None
        self._prompt, self._screen = about.system_prompt, ""

    # --- Gymnasium -----------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin a new episode; ``options`` as the environment there takes them."""
        super().reset(seed=seed)
        if seed is None and not self._session.history:
            seed = any_seed()
        answer = self._ask(wire.RESET, [seed, options])
        try:
            observation, packed, self._instance, self._prompt = answer
            info = wire.unpack_info(packed)
        except (TypeError, ValueError) as error:
            raise _nonsense(error) from error
        self._waits = ""
        return self._shown("", _text(observation)), info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play ``action`` there."""
        if not isinstance(action, str):
            raise ActionTypeError(
                f"{type(self).__name__} takes a str action, got {type(action).__name__}; "
                "decode token ids before calling step"
            )
        if self._waits:
            raise ResetNeeded(f"the episode {self._waits}; call reset() before step()")
        played = unpack_step(self._ask(wire.STEP, action))
        if played[2] or played[3]:
            self._waits = "is over"
        self._shown(action, played[0])
        return played

    def render(self) -> str | None:
        """Return the last action and observation (``ansi``); ``human`` prints as it plays."""
        if self.render_mode == "ansi":
            return self._screen
        if self.render_mode is None:
            gym.logger.warn('render() shows nothing without render_mode="ansi" or "human"')
        return None

    def close(self) -> None:
        """End the session there."""
        if self._connection is not None and self._session.number:
            with suppress(RemoteError):  # an idle session ends by itself
                self._ask(wire.CLOSE, None)
        if self._connection is not None:
            self._connection.close()
        self._waits, self._session = "has not begun", RemoteSession()

    # --- what text environments have beyond it ---------------------------------------------

    @property
    def system_prompt(self) -> str:
        """What the environment wants told before its first observation."""
        return self._prompt

    def instance_id(self) -> str:
        """Return the name of this instance."""
        if self._instance is None:
            raise NotImplementedError("the environment there does not name its instances")
        return self._instance

    def oracle_action(self) -> str:
        """Return the action of a best player who sees everything, if the server allows it."""
        return _text(self._call("oracle_action"))

    def oracle_value(self) -> float:
        """Return what the oracle expects to reach, if the server allows it."""
        return float(self._call("oracle_value"))

    def solver_action(self) -> str:
        """Return the action of a good player, if the server allows it."""
        return _text(self._call("solver_action"))

    def random_action(self) -> str:
        """Return a random usable action, if the server allows it."""
        return _text(self._call("random_action"))

    def legal_actions(self) -> list[str] | None:
        """Return every usable action in this state, or None where there are too many."""
        actions = self._call("legal_actions")
        return None if actions is None else [_text(action) for action in actions]

    def action_pattern(self) -> str:
        """Return a regex that usable actions match in full."""
        return _text(self._call("action_pattern"))

    def snapshot(self) -> bytes:
        """Return the episode as it stands, to be given to ``restore`` any number of times.

        It is a seed and the actions since, as JSON: nothing in it runs.
        """
        return self._session.saved()

    def restore(self, snapshot: bytes) -> None:
        """Go back to ``snapshot``, in this environment or another one of the same server."""
        self._session.restore(snapshot)
        self._waits = ""

    # --- inside --------------------------------------------------------------------------

    def _call(self, name: str) -> Any:
        answer = self._ask(wire.CALL, name)
        if len(answer) != 1:
            raise _nonsense("one value")
        return answer[0]

    def _ask(self, operation: str, argument: Any) -> list[Any]:
        if self._connection is None:
            self._connection = Connection(self._url, **self._how)
        (answer,) = play(self._connection, [(self._session, operation, argument)])
        if isinstance(answer, dict):
            if operation != wire.CALL:
                self._waits = "has failed"
            raise refusal(answer)
        return list(answer)

    def _shown(self, action: str, text: str) -> str:
        if self.render_mode is not None:
            self._screen = f"> {action}\n{text}" if action else text
            if self.render_mode == "human":
                sys.stdout.write(self._screen.encode("utf-8", "replace").decode() + "\n")
        return text

    def __getstate__(self) -> dict[str, Any]:
        # A copy plays on in a session of its own, which its history brings to the same place.
        return {**self.__dict__, "_connection": None, "_session": self._session.saved()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._session = RemoteSession()
        self._session.restore(state["_session"])


def needed(url: str | None) -> str:
    """Return ``url``; one sentence where there is none."""
    if not isinstance(url, str):
        raise ConfigError(
            "llm_gym/Remote-v0 needs url=, the address that llm-gym serve has printed"
        )
    return url


def unpack_step(answer: list[Any]) -> tuple[str, float, bool, bool, dict[str, Any]]:
    """Return what a step gave, checked to be that."""
    try:
        observation, reward, terminated, truncated, info = answer
        if type(terminated) is not bool or type(truncated) is not bool:
            raise TypeError("terminated and truncated must be true or false")
        number = wire.unpack_number(reward)
        return _text(observation), number, terminated, truncated, wire.unpack_info(info)
    except (TypeError, ValueError, RecursionError) as error:
        raise _nonsense(error) from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _nonsense(f"expected text, got {value!r:.80}")
    return value


def _nonsense(what: object) -> RemoteError:
    return RemoteError(f"the server's answer makes no sense: {what!s:.200}")
