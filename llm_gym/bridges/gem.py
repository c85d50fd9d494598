"""GEM's games and data sets: ``llm_gym/GEM-v0``."""

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np

from llm_gym.bridges import base
from llm_gym.bridges.rng_guard import GlobalRngGuard
from llm_gym.core.outcome import StopReason


class GEMEnv(base.BridgeEnv):
    r"""An environment of GEM.

    Description:
        Any environment that ``gem.make`` makes: games, and questions from data sets.

    Actions:
        As the rules say, mostly in ``\boxed{}``.

    Observations:
        GEM's own, with the line that it calls a suffix below.

    Rewards:
        GEM's own. Some games pay a share for coming close in the last turn.

    Episode end:
        GEM calls the last turn terminated and truncated at once. The limit is in its rules, so it
        is terminated here. Won is a last reward of 1; GEM says nothing else about success.

    Info:
        The common keys; ``foreign`` has GEM's.

    Args:
        env_id: An environment of GEM's, such as ``game:GuessTheNumber-v0-easy``.
        splits: Whether ``reset`` takes a ``split``, which the state at the beginning decides. Only
            for games with hundreds of beginnings.
        env_kwargs: Settings of the environment.
        **common: See ``BridgeEnv``.
    """

    examples = (r"\boxed{1}", r"\boxed{5}", r"\boxed{up}", r"\boxed{A B}")

    def __init__(
        self,
        *,
        env_id: str = "game:GuessTheNumber-v0-easy",
        splits: bool = False,
        env_kwargs: Mapping[str, Any] | None = None,
        **common: Unpack[base.BridgeArgs],
    ) -> None:
        suite = base.need_package("gem")
        known = base.need_package("gem", "gem.envs.registration").ENV_REGISTRY
        base.choose("env_id", env_id, known)
        constants = base.need_package("gem", "gem.utils.constants")
        rewards = constants.LanguageGameReward
        # Rewards that only an unusable reply gets.
        usual = {rewards.internal_step_reward, rewards.fail_reward, rewards.success_reward}
        self._refusal_rewards = {rewards.format_error_reward, rewards.invalid_action_reward} - usual
        self._full_reward, self._terminal_state = rewards.success_reward, constants.TERMINAL_STATE
        self.env_id, self.has_splits = env_id, splits
        super().__init__(**common)
        with self._rng_guard, base.building(f"GEM cannot make {env_id} here"):
            self._made = self._game = suite.make(env_id, **(env_kwargs or {}))
        self._sampler = GlobalRngGuard()

    def begin(self, seed: int) -> str:
        self._game = base.fresh_copy(self._made)
        text, info = self._game.reset(seed=seed)
        self.instance = base.stable((self.env_id, text, vars(self._game)))
        return _with_suffix(text, info)

    def play(self, text: str) -> base.BridgeStep:
        observation, reward, terminated, truncated, info = self._game.step(text)
        reward = float(reward)
        shown = str(observation).replace(self._terminal_state, "")
        foreign = {name: value for name, value in info.items() if name != "suffix"}
        valid = reward not in self._refusal_rewards
        if not (terminated or truncated):
            return base.BridgeStep(_with_suffix(shown, info), reward, valid=valid, info=foreign)
        won = reward >= self._full_reward
        stop = base.verdict(True, won) if terminated else StopReason.MAX_STEPS
        return base.BridgeStep(shown, reward, stop, valid, foreign)

    def random_move(self, rng: np.random.Generator) -> str:
        """Return one of GEM's own random actions, drawn without touching the game's randomness."""
        self._sampler.seed(int(rng.integers(2**31)))
        with self._sampler:
            try:
                move = str(self._game.sample_random_action())
            except NotImplementedError:
                return super().random_move(rng)
        # Some of its games sample a bare word, which they then refuse to read.
        return move if "\\boxed" in move or self.format.how else rf"\boxed{{{move}}}"


def _with_suffix(text: object, info: Mapping[str, Any]) -> str:
    suffix = info.get("suffix") or ""
    return f"{text}\n{suffix}".strip() if suffix else str(text)
