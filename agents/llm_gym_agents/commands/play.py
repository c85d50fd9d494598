"""``llm-gym play --model``: watch a model play, move by move."""

from contextlib import closing
from pathlib import Path
from typing import Any

from llm_gym.cli.common import build, check_model_path, import_modules, settings
from llm_gym.cli.parser import Parser
from llm_gym.cli.play import add_arguments
from llm_gym.cli.terminal_text import say
from llm_gym.core.errors import ConfigError
from llm_gym.episodes import Trajectory
from llm_gym.registry.lookup import find_spec
from llm_gym.registry.user_code import close_user_env


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    parser = Parser(prog="llm-gym play")
    add_arguments(parser)
    parser.set_defaults(seed=0)
    options = parser.parse_args(argv)
    import_modules(options)
    check_model_path(options.model)
    if options.env is not None:
        find_spec(options.env)

    from llm_gym_agents.commands.find_model import find_model
    from llm_gym_agents.engines.base import Sampling
    from llm_gym_agents.engines.transformers.engine import TransformersEngine
    from llm_gym_agents.model.load import limit_threads
    from llm_gym_agents.rollouts.evaluation import rollout
    from llm_gym_agents.rollouts.policy import LLMPolicy

    path, config = find_model(options.model, options.env, options.modules)
    env_id = options.env or next(iter(config.environment.env_ids), None)
    if env_id is None:
        is_there = Path(options.model).exists()
        why = "does not say what it plays; name an environment" if is_there else "is not there"
        raise ConfigError(f"{options.model} {why}")
    kwargs: dict[str, Any] = {"rules": "system"}
    if env_id in config.environment.env_ids:
        kwargs |= config.environment.kwargs_of(env_id)
    kwargs |= settings(options.set)
    close_user_env(build(env_id, kwargs))  # known to be there before a model is loaded
    inference = config.inference
    policy = LLMPolicy.from_pretrained(
        path,
        template_options=inference.template_options,
        context=inference.context,
        system_prompt=inference.system_prompt,
        sampling=Sampling(
            max_tokens=inference.max_tokens,
            temperature=options.temperature,
            stop_strings=tuple(inference.stop),
        ),
        run_seed=options.seed,
    )
    if isinstance(policy.engine, TransformersEngine):
        limit_threads(policy.engine.model)
    with closing(policy.engine):
        played = rollout(
            env_id, policy, 1, seed=options.seed, env_kwargs=kwargs, max_turns=inference.max_turns
        )
    for episode in played.episodes:
        show(episode)
    return 0


def show(episode: Trajectory) -> None:
    """Print an episode, move by move."""
    turns = zip(episode.states, episode.actions, strict=False)
    parts = [f"{state}\n> {action}" for state, action in turns]
    if len(episode.states) > len(episode.actions):
        parts.append(episode.states[-1])
    count = f"{episode.num_turns} turn{'s' * (episode.num_turns != 1)}"
    parts.append(f"[{episode.stop_reason} after {count}, return {episode.total_reward:g}]")
    say("\n\n".join(parts))
