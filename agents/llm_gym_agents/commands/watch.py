"""``llm-gym watch``: see a model play, move by move."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from llm_gym.cli.common import add_settings, build, import_modules, settings
from llm_gym.cli.parser import Parser, number, whole
from llm_gym.episodes import Trajectory
from llm_gym.errors import ConfigError
from llm_gym.registry.user_code import close_user_env
from llm_gym_agents.commands.find_model import find_model
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.model.load import limit_threads
from llm_gym_agents.rollouts.evaluation import rollout
from llm_gym_agents.rollouts.policy import LLMPolicy


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(argv)
    import_modules(options)
    path, config = find_model(options.model, options.env, options.modules)
    env_id = options.env or config.environment.env_id
    if env_id is None:
        is_there = Path(options.model).exists()
        why = "does not say what it plays; name an environment" if is_there else "is not there"
        raise ConfigError(f"{options.model} {why}")
    kwargs: dict[str, Any] = {"rules": "system"}
    if env_id == config.environment.env_id:
        kwargs |= config.environment.env_kwargs
    kwargs |= settings(options.set)
    close_user_env(build(env_id, kwargs))  # known to be there before a model is loaded
    inference = config.inference
    policy = LLMPolicy.from_pretrained(
        path,
        context=inference.context,
        system_prompt=inference.system_prompt,
        sampling=Sampling(max_tokens=inference.max_tokens, temperature=options.temperature),
        run_seed=options.seed,
    )
    if isinstance(policy.engine, TransformersEngine):
        limit_threads(policy.engine.model)
    with closing(policy.engine):
        played = rollout(
            env_id,
            policy,
            options.episodes,
            seed=options.seed,
            env_kwargs=kwargs,
            max_turns=inference.max_turns,
        )
    ask = input if options.wait else None
    for episode in played.episodes:
        show(episode, sys.stdout.write, ask)
    return 0


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


def _parser() -> Parser:
    parser = Parser(prog="llm-gym watch", description="See a model play.")
    parser.add_argument("env", nargs="?", help="what it plays (what it was trained on)")
    parser.add_argument("--model", required=True, help="the folder of a run, or of a model")
    parser.add_argument("--episodes", type=whole(1), default=1, help="episodes to play (1)")
    parser.add_argument("--seed", type=whole(0), default=0, help="seed of the first (0)")
    parser.add_argument("--temperature", type=number(0), default=1.0, help="0 is greedy (1)")
    parser.add_argument("--wait", action="store_true", help="wait for the return key at each move")
    add_settings(parser)
    return parser
