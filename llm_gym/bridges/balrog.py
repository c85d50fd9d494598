"""BALROG's games in language: ``llm_gym/BALROG-v0``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from llm_gym.bridges.base import CommonArgs, ForeignEnv, Played
from llm_gym.bridges.foreign import Foreign
from llm_gym.bridges.suites import need_package
from llm_gym.core.outcome import StopReason
from llm_gym.errors import ConfigError

_PACKAGE = "balrog.environments"
_DONE = 1.0


class BALROGEnv(ForeignEnv):
    """A game of BALROG, played by the names of its actions.

    Description:
        Any environment that BALROG's ``make_env`` makes; a new one for each episode, as BALROG's
        evaluator has it.

    Actions:
        The name of an action, such as ``go forward``. As in BALROG, the game's default action is
        played for a reply that is none, and the player is told.

    Observations:
        The game's instructions and its text: what is true now above what has happened.

    Rewards:
        The game's own.

    Episode end:
        The game's own, and after the turns that it allows. Won is a progression of 1, which is
        BALROG's measure.

    Info:
        The common keys; ``foreign`` has ``progression`` and whatever else ``get_stats`` tells.

    Args:
        env_name: The family: babyai, crafter, textworld, babaisai, minihack or nle.
        task: Such as ``BabyAI-MixedTrainLocal-v0/goto``.
        config: What is to differ from BALROG's ``config.yaml``, such as
            ``{"envs": {"babyai_kwargs": {"num_dists": 0}}}``.
        **common: See ``ForeignEnv``; ``action_format`` is ``plain`` here.

    Version history:
        v0: First release.
    """

    has_splits = False
    move_name = "action"

    def __init__(
        self,
        *,
        env_name: str = "babyai",
        task: str = "BabyAI-MixedTrainLocal-v0/goto",
        config: Mapping[str, Any] | None = None,
        **common: Unpack[CommonArgs],
    ) -> None:
        self._suite = need_package(_PACKAGE)
        self.env_name, self.task = env_name, task
        self._config = _read_config(config)
        self._names: list[str] = []
        self._instance: object = None
        with Foreign():
            self._game: Any = self._make()
        common.setdefault("action_format", "plain")
        common.setdefault("max_turns", int(self._game.max_steps))
        super().__init__(**common)

    def begin(self, seed: int) -> str:
        """Make a game and begin it, with the seed in every place that BALROG looks for one."""
        self._config.envs.env_kwargs.seed = seed
        if self._game is not None:
            self._game.close()
        self._game = self._make()
        seen, _ = self._game.reset(seed=seed)
        told = self._game.get_instruction_prompt(instructions=seen.get("mission"))
        shown = _text(seen)
        self._instance = self.env_name, self.task, told, shown
        return f"{told}\n\n{shown}".strip()

    def play(self, text: str) -> Played:
        """Play the action that ``text`` names, or the default one."""
        named = text.strip()
        action = self._game.check_action_validity(named)
        seen, reward, terminated, truncated, _ = self._game.step(action)
        stats = dict(self._game.get_stats())
        valid, stop = action == named, StopReason.PLAYING
        if terminated or truncated:
            won = float(stats.get("progression") or 0.0) >= _DONE
            lost = StopReason.LOST if terminated else StopReason.MAX_STEPS
            stop = StopReason.WON if won else lost
        refusal = "" if valid else f"That is no action; {action!r} was played.\n\n"
        return Played(refusal + _text(seen), float(reward), stop, valid, stats)

    def example_moves(self) -> Sequence[str]:
        """Return the names of the actions, where they can be counted."""
        return self._names or ["look", "help"]

    def legal_actions(self) -> list[str] | None:
        """Return every action, where they can be counted."""
        return [self.format.render(name) for name in self._names] or None

    def instance(self) -> object:
        """Return what the player is told first: the rest is hidden."""
        return self._instance

    def close(self) -> None:
        """Close the game."""
        super().close()
        game, self._game = self._game, None
        if game is not None:
            with self._foreign:
                game.close()

    def _make(self) -> Any:
        try:
            game = self._suite.make_env(self.env_name, self.task, self._config)
        except Exception as error:
            why = " ".join(str(error).split()) or type(error).__name__
            raise ConfigError(
                f"BALROG cannot make {self.task} of {self.env_name} here: {why:.200}"
            ) from error
        space = game.env.get_wrapper_attr("language_action_space")
        # TextWorld's takes whatever it is asked about, and cannot be counted.
        self._names = [str(name) for name in space] if isinstance(space, Iterable) else []
        return game


def _read_config(changes: Mapping[str, Any] | None) -> Any:
    """Return BALROG's own settings, with ``changes`` on top."""
    settings = need_package(_PACKAGE, "omegaconf").OmegaConf
    home = Path(str(need_package(_PACKAGE).__file__)).parents[1]
    base = settings.load(home / "config" / "config.yaml")
    return settings.merge(base, dict(changes or {}))


def _text(seen: Mapping[str, Any]) -> str:
    """Return the text of an observation."""
    text = seen["text"]
    parts = (text.get("short_term_context"), text.get("long_term_context"))
    return "\n\n".join(str(part).strip() for part in parts if part)
