"""A training run of two iterations on ``Echo``, and what it left behind."""

import copy
from typing import Any, NamedTuple

from llm_gym.episodes import read_episodes
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.trainer.ppo_trainer import PPOTrainer
from tests.agents.checks import copied, record_calls
from tests.agents.players import player_at_chance
from tests.agents.small_run import untimed

ECHO, GAME = "llm_gym/Echo-v0", "llm_gym/TextGameEasy-v0"
BASE = {
    "training.num_epochs": 1,
    "training.num_iters_per_epoch": 2,
    "training.batch_size": 8,
    "training.mini_batch_size": 4,
    "training.learning_rate": 0.01,
    "inference.max_tokens": 2,
    "inference.num_envs": 8,
    "inference.system_prompt": "",
    "environment.env_id": ECHO,
    "environment.env_kwargs": {"rules": "system", "words": 4, "max_turns": 2},
    "environment.eval_interval": 0,
    "checkpoint.save_interval": 0,
}


class Outcome(NamedTuple):
    """What a run left behind."""

    weights: dict[str, Any]
    metrics: list[dict[str, float]]
    samples: list[str]
    starts: list[str]
    evaluated: list[str]
    files: set[str]
    recorded: list[int]
    passes: int
    rows: int


def settings(**changed):
    """Name settings as keywords, with two underscores for the dot."""
    return {name.replace("__", ".", 1): value for name, value in changed.items()}


WARM = settings(warm_start__player="random", warm_start__turns=16, warm_start__steps=2)


def configured(given, folder):
    config = ConfigStore()
    for name, value in (BASE | {"checkpoint.output_dir": str(folder)} | given).items():
        section, setting = name.split(".")
        setattr(getattr(config, section), setting, value)
    return config


def make_trainer(given, folder, env=None):
    """Return the trainer of a player that begins at chance."""
    lm, tokenizer = player_at_chance(ECHO, words=4, max_turns=2)
    return PPOTrainer(configured(given, folder), env, model=copy.deepcopy(lm), tokenizer=tokenizer)


def play(given, folder):
    """Train for two iterations and return what came of it."""
    trainer = make_trainer(given, folder)
    played, passes = record_calls(trainer.sampler, "play"), []
    trainer.learner.model.register_forward_hook(lambda *_: passes.append(1))
    try:
        history = trainer.fit()
    finally:
        trainer.cleanup()
    episodes, evaluated = (
        [
            episode
            for call in played
            if call.kwargs.get("held_out", False) is held_out
            for episode in call.result.episodes
        ]
        for held_out in (False, True)
    )
    return Outcome(
        weights=copied(trainer.learner.model),
        metrics=untimed(history),
        samples=[str(episode.actions) for episode in episodes],
        starts=[f"{episode.states[0]} {episode.num_turns}" for episode in episodes],
        evaluated=[f"{episode.states[0]} {episode.actions}" for episode in evaluated],
        files={
            str(path.relative_to(folder))
            for path in folder.rglob("*")
            if path.is_file() and "tfevents" not in path.name  # their names hold the time
        },
        recorded=[
            len(list(read_episodes(path))) for path in sorted(folder.glob("episodes/train-*"))
        ],
        passes=len(passes),
        rows=trainer.sampler.collector.pool.batch_size[0],
    )


def differs(shows, one, other):
    if shows != "weights":
        return getattr(one, shows) != getattr(other, shows)
    return one.weights.keys() != other.weights.keys() or any(
        not weight.equal(other.weights[name]) for name, weight in one.weights.items()
    )
