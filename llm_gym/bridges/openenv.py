"""Environments behind a server of OpenEnv's: ``llm_gym/OpenEnv-v0``."""

import json
from collections.abc import Mapping
from typing import Any, Unpack

from llm_gym.bridges.base import BridgeArgs, BridgeEnv, BridgeStep, need_package, verdict
from llm_gym.core.errors import ConfigError, WorkerError


class OpenEnvEnv(BridgeEnv):
    """An environment that an OpenEnv server runs, through OpenEnv's own client.

    Description:
        One session of a server. The actions and observations of OpenEnv are records with fields of
        the environment's own; two settings say which of them hold the text.

    Actions:
        The reply, put into ``action_field``.

    Observations:
        The field ``observation_field``; without it, all fields with a value, by name.

    Rewards:
        The environment's own.

    Episode end:
        When the environment says that it is done. Won is a sum of rewards of at least
        ``success_reward``.

    Info:
        The common keys; ``foreign`` has the fields of the observation.

    Args:
        url: Where the server is, such as ``http://127.0.0.1:8000``.
        action_field: The field of the action that takes the reply.
        action: Further fields of every action.
        observation_field: The field of the observation that is shown.
        success_reward: The least sum of rewards that counts as a success.
        **common: See ``BridgeEnv``.
    """

    has_splits = False

    def __init__(
        self,
        *,
        url: str = "",
        action_field: str = "message",
        action: Mapping[str, Any] | None = None,
        observation_field: str = "",
        success_reward: float = 1.0,
        **common: Unpack[BridgeArgs],
    ) -> None:
        suite = need_package("openenv", "openenv.core.generic_client")
        if not url:
            raise ConfigError("url must say where the server is, got nothing")
        self.url, self.action_field, self.action = url, action_field, dict(action or {})
        self.observation_field, self.success_reward = observation_field, success_reward
        super().__init__(**common)
        self._client = suite.GenericEnvClient(base_url=url).sync()
        self._total = 0.0

    def begin(self, seed: int) -> str:
        self._total = 0.0
        with self._rng_guard.outside():
            try:
                result = self._client.reset(seed=seed)
            except Exception as error:
                raise WorkerError(f"no episode from {self.url}: {error!s:.200}") from error
        shown = self._observation_text(result.observation)
        self.instance = self.url, shown  # what the server hides is not known
        return shown

    def play(self, text: str) -> BridgeStep:
        sent = text.encode("utf-8", "replace").decode()
        with self._rng_guard.outside():
            try:
                result = self._client.step({**self.action, self.action_field: sent})
            except Exception as error:
                self._ask_if_alive(error)
                raise
        reward = float(result.reward or 0.0)
        self._total += reward
        stop = verdict(result.done, result.done and self._total >= self.success_reward)
        foreign = dict(result.observation)
        return BridgeStep(self._observation_text(result.observation), reward, stop, True, foreign)

    def close(self) -> None:
        super().close()
        self._client.close()

    def _ask_if_alive(self, error: Exception) -> None:
        """Raise where it is not the reply that was refused but the server that has gone."""
        try:
            self._client.state()
        except Exception as gone:
            raise WorkerError(f"the server at {self.url} has gone: {error!s:.200}") from gone

    def _observation_text(self, observation: Mapping[str, Any]) -> str:
        if self.observation_field:
            if self.observation_field not in observation:
                raise ConfigError(
                    f"observation_field must be one of {', '.join(sorted(observation))}, got "
                    f"{self.observation_field!r}"
                )
            return _as_text(observation[self.observation_field])
        fields = {name: value for name, value in observation.items() if name != "metadata"}
        return "\n".join(f"{name}: {_as_text(value)}" for name, value in fields.items() if value)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
