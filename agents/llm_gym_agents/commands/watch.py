"""``llm-gym watch``: see a model play, move by move."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from llm_gym.cli.common import add_settings, import_modules, settings
from llm_gym.episodes import Trajectory
from llm_gym.errors import ConfigError
from llm_gym_agents.checkpoint import Checkpoints
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.rollouts.evaluation import rollout
from llm_gym_agents.rollouts.policy import LLMPolicy


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(argv)
    import_modules(options)
    path, config = find_model(options.model)
    env_id = options.env or config.environment.env_id
    if env_id is None:
        is_there = Path(options.model).exists()
        why = "does not say what it plays; name an environment" if is_there else "is not there"
        raise ConfigError(f"{options.model} {why}")
    kwargs: dict[str, Any] = {"rules": "system", **config.environment.env_kwargs}
    inference = config.inference
    policy = LLMPolicy.from_pretrained(
        path,
        context=inference.context,
        system_prompt=inference.system_prompt,
        sampling=Sampling(max_tokens=inference.max_tokens, temperature=options.temperature),
        run_seed=options.seed,
    )
    with closing(policy.engine):
        played = rollout(
            env_id,
            policy,
            options.episodes,
            seed=options.seed,
            env_kwargs=kwargs | settings(options.set),
            max_turns=inference.max_turns,
        )
    ask = input if options.wait else None
    for episode in played.episodes:
        show(episode, sys.stdout.write, ask)
    return 0


def find_model(place: str) -> tuple[str, ConfigStore]:
    """Return the model in ``place``, a run's folder or a model's, and how it was trained to play.

    Of a run it is the best that was kept, or else the newest.
    """
    folder = Path(place)
    if not (folder / "config.json").exists() or (folder / "tokenizer.json").exists():
        return place, ConfigStore()
    kept = Checkpoints(folder / "checkpoints")
    found = kept.best() or kept.latest()
    if found is None:
        raise ConfigError(f"{folder} holds a run without a checkpoint yet; wait for the first one")
    return str(found / "model"), ConfigStore.load(folder / "config.json")


def show(
    episode: Trajectory,
    write: Callable[[str], object],
    ask: Callable[[str], str] | None = None,
) -> None:
    """Write an episode down, move by move; ``ask`` is called before each."""
    for state, action in zip(episode.states, episode.actions, strict=False):
        write(f"\n{state}\n")
        if ask is not None:
            ask("")
        write(f"> {action}\n")
    if len(episode.states) > len(episode.actions):
        write(f"\n{episode.states[-1]}\n")
    write(
        f"\n[{episode.stop_reason} after {episode.num_turns} turn{'s' * (episode.num_turns != 1)}, "
        f"return {episode.total_reward:g}]\n"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="llm-gym watch", description="See a model play.")
    parser.add_argument("env", nargs="?", help="what it plays (what it was trained on)")
    parser.add_argument("--model", required=True, help="the folder of a run, or of a model")
    parser.add_argument("--episodes", type=int, default=1, help="episodes to play (1)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first (0)")
    parser.add_argument("--temperature", type=float, default=1.0, help="0 is greedy (1)")
    parser.add_argument("--wait", action="store_true", help="wait for the return key at each move")
    add_settings(parser)
    return parser
