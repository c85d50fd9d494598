"""``llm-gym eval`` of a local model; ``llm_gym.cli.evaluate`` defines the options."""

import argparse
import json
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from llm_gym.cli.common import import_modules, settings
from llm_gym.cli.evaluate import check_envs, chosen, eval_parser, show
from llm_gym.cli.terminal_text import say
from llm_gym.core.errors import ConfigError
from llm_gym.episodes import Trajectory, write_episodes
from llm_gym.evaluate import REPLY_TOKENS, THOUGHT_TOKENS
from llm_gym_agents.commands.find_model import as_trained, find_model, played_with
from llm_gym_agents.config import ConfigStore, TrainingConfig
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.model.load import limit_threads, load_tokenizer
from llm_gym_agents.rollouts.evaluation import Evaluation, rollout
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.text.codec import TokenTexts

if TYPE_CHECKING:
    from llm_gym_agents.commands.credit import Critic


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    parser = eval_parser()
    parser.set_defaults(template=None)
    options = parser.parse_args(argv)
    path, config = find_model(options.model, options.env, options.modules)
    if path != options.model or config != ConfigStore():  # of a run: as it was trained
        of_suite = options.suite is not None or bool(config.environment.mix)
        env = None if of_suite else config.environment.env_id
        parser.set_defaults(env=env, **as_trained(config.inference))
        options = parser.parse_args(argv)
    mix = [] if options.env or options.suite is not None else list(config.environment.mix)
    names = mix or chosen(options)
    import_modules(options)
    given = {name: played_with(config.environment, name) | settings(options.set) for name in names}
    splits = check_envs(given, options)
    if options.constrained and options.engine == "transformers":
        raise ConfigError("--constrained needs --engine vllm or sglang")
    patterns = {"patterns": True} if options.constrained else {}
    policy = LLMPolicy.from_pretrained(
        path,
        engine=options.engine,
        config=patterns | settings(options.engine_set, "--engine-set"),
        template_options=settings(options.template_set, "--template-set") or options.template,
        context=options.context,
        sampling=Sampling(
            max_tokens=options.max_tokens or REPLY_TOKENS,
            temperature=options.temperature,
            top_p=options.top_p,
            stop_strings=tuple(options.stop),
        ),
        run_seed=options.seed,
        system_prompt=options.system_prompt,
    )
    if options.max_tokens is None and policy.chat.thinks:
        policy.sampling = replace(policy.sampling, max_tokens=THOUGHT_TOKENS)
    if isinstance(policy.engine, TransformersEngine):
        limit_threads(policy.engine.model)
    with closing(policy.engine):
        if options.credit is not None:
            from llm_gym_agents.commands.credit import load_critic

            own = config.environment
            trained_on = {name: own.kwargs_of(name) for name in names if name in own.env_ids}
            how = (config.model, config.training, config.inference.temperature)
            critic = load_critic(path, *how) if trained_on else None
            return _judge_credit(splits, policy, config.training, trained_on, critic, path, options)
        results = [_play(name, policy, given[name], splits[name], options) for name in names]
    return show(results, options.json)


def _judge_credit(
    splits: Mapping[str, str | None],
    policy: LLMPolicy,
    training: TrainingConfig,
    trained_on: Mapping[str, dict[str, Any]],
    critic: "Critic | None",
    model: str,
    options: argparse.Namespace,
) -> int:
    """Judge environments; those of the run use the training rewards, which its critic predicts."""
    from llm_gym_agents.commands.credit import credit, credit_table

    reports, judged = [], list[Trajectory]()
    for name, split in splits.items():
        report, episodes = credit(
            name,
            policy,
            training,
            episodes=options.episodes,
            branches=options.credit,
            split=split,
            **_play_options(options),
            env_kwargs={"rules": "system"} | trained_on.get(name, {}) | settings(options.set),
            critic=critic if name in trained_on else None,
        )
        reports.append(asdict(report))
        judged += episodes
        if not options.json:
            say(credit_table(report))
    text = json.dumps(reports, indent=2)
    if options.json:
        say(text)
    folder = options.out or (options.model if model != options.model else None)
    if folder is not None:
        texts = TokenTexts(load_tokenizer(model))
        for episode in judged:
            assert episode.tokens is not None
            episode.tokens.texts = texts(episode.tokens.ids)
        write_episodes(Path(folder, "episodes", "credit.jsonl"), judged)
        Path(folder, "credit.json").write_text(text + "\n", "utf-8")
    return 0


def _play_options(options: argparse.Namespace) -> dict[str, Any]:
    names = ("num_envs", "seed", "workers", "max_turns")
    return {name: getattr(options, name) for name in names}


def _play(
    env_id: str,
    policy: LLMPolicy,
    given: dict[str, Any],
    split: str | None,
    options: argparse.Namespace,
) -> Evaluation:
    records = None
    if options.out:
        name = re.sub("[/:]", "_", env_id) + ".jsonl"
        Path(options.out).mkdir(parents=True, exist_ok=True)
        records = str(Path(options.out) / name)
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(env_id, total=options.episodes)
        return rollout(
            env_id,
            policy,
            options.episodes,
            split=split,
            **_play_options(options),
            records=records,
            on_end=lambda ended: bar.update(task, completed=ended),
            constrained=options.constrained,
            env_kwargs={"rules": "system", **given},
        )
