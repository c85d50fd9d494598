"""TextEnvPool: named episodes, partial resets, and environments that fail."""

import os

import gymnasium as gym
import pytest
import torch

import llm_gym
from llm_gym.core.errors import ConfigError
from llm_gym.core.legacy import SimpleGameEnvironment
from llm_gym.core.outcome import StopReason
from llm_gym.envs.deduction.guess_the_number import GuessTheNumberEnv
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import ObjectTable, TextEnvPool
from llm_gym_agents.rollouts.sampler import EpisodeCollector
from llm_gym_agents.rollouts.tasks import EVAL_IDS, IDLE, EpisodeTask, ReplyStatus
from tests.agents.odd import Crashing, CrashingAtReset, Dying, DyingAtReset, Hanging, Tagged

GUESS = "llm_gym/GuessTheNumber-v0"


def answer(pool, data, cut=()):
    """Reply to every row with its observation."""
    texts = pool.texts.read(data["observation"].tolist())
    actions = [pool.texts.add(f"reply to {text}") for text in texts]
    cuts = [ReplyStatus.NO_ROOM if at in cut else ReplyStatus.READY for at in range(len(texts))]
    data["action"], data["status"] = torch.tensor(actions), torch.tensor(cuts)
    return data


def play(pool, tasks, steps=40):
    """Play ``tasks`` through TorchRL's own stepping, with partial resets."""
    pool.assign(tasks)
    data = pool.reset()
    for _ in range(steps):
        _, data = pool.step_and_maybe_reset(answer(pool, data))
    return pool.take_finished()


TASKS = [EpisodeTask(id=10 + seed, seed=seed, group=seed // 2) for seed in range(9)]


@pytest.mark.parametrize("workers", [0, 2])
def test_every_named_episode_is_played_once_and_whole(workers):
    pool = TextEnvPool(Tagged, 4, workers=workers)
    finished = play(pool, TASKS)
    assert sorted(finished) == [task.id for task in TASKS]
    assert pool.take_finished() == {}
    for task in TASKS:
        episode = finished[task.id]
        turns = task.seed % 4 + 1
        assert episode.states == [f"seed {task.seed} turn {at}" for at in range(turns + 1)]
        assert episode.rewards == [float(at + 1) for at in range(turns)]
        assert episode.dones == [False] * (turns - 1) + [True]
        assert (episode.seed, episode.group) == (task.seed, task.group)
    pool.close()


def test_rows_without_an_episode_are_idle():
    pool = TextEnvPool(Tagged, 4)
    pool.assign(TASKS[:2])
    data = pool.reset()
    assert data["episode"].tolist() == [10, 11, IDLE, IDLE]
    after = pool.step(answer(pool, data))["next"]
    assert after["done"].squeeze(-1).tolist() == [True, False, True, True]
    assert after["reward"].squeeze(-1).tolist() == [1.0, 0.0 + 1.0, 0.0, 0.0]


def test_a_cut_ends_the_episode_as_truncated_without_a_step():
    pool = TextEnvPool(Tagged, 2)
    pool.assign([EpisodeTask(0, 3), EpisodeTask(1, 7)])
    data = pool.step(answer(pool, pool.reset()))["next"]
    after = pool.step(answer(pool, data.exclude("reward"), cut=[0]))["next"]
    assert after["truncated"].squeeze(-1).tolist() == [True, False]
    assert after["terminated"].squeeze(-1).tolist() == [False, False]
    episode = pool.take_finished()[0]
    assert episode.stop_reason is StopReason.CONTEXT
    assert episode.num_turns == 1
    assert episode.truncated == [True]
    assert episode.final_state == "seed 3 turn 1"


def test_an_environment_that_raises_costs_its_own_episode_only(caplog):
    pool = TextEnvPool(Crashing, 3)
    finished = play(pool, TASKS)
    assert sorted(finished) == [task.id for task in TASKS]
    broken = finished[12]
    assert broken.stop_reason is StopReason.ERROR
    assert broken.truncated == [False, True]
    assert broken.rewards == [1.0, 0.0]
    assert finished[16].stop_reason is not StopReason.ERROR, "the same row plays on"
    assert "the database is gone" in pool.failures[0]
    assert "episode 12" in caplog.text
    pool = TextEnvPool(CrashingAtReset, 3)
    finished = play(pool, TASKS)
    assert finished[12].stop_reason is StopReason.ERROR
    assert finished[12].num_turns == 0
    assert sum(episode.num_turns > 0 for episode in finished.values()) == len(TASKS) - 1


@pytest.mark.slow
@pytest.mark.parametrize(("env", "timeout"), [(Hanging, 4.0), (Dying, 60.0)])
def test_an_environment_that_hangs_or_dies_is_replaced(env, timeout):
    pool = TextEnvPool(env, 3, workers=3, timeout=timeout)
    finished = play(pool, TASKS)
    assert sorted(finished) == [task.id for task in TASKS]
    assert finished[12].stop_reason is StopReason.ERROR
    others = [finished[task.id] for task in TASKS if task.seed % 3 != 2]
    assert all(episode.stop_reason is not StopReason.ERROR for episode in others)
    pool.close()


@pytest.mark.parametrize(
    ("env", "seeds", "waits"),
    [
        (Dying, [2, 0], False),  # the other row has no episode any more
        (Dying, [2, 3, 7], True),  # it waits for a reply
        (DyingAtReset, [3, 0, 2, 7], False),  # it plays while another one begins
    ],
)
def test_a_dying_worker_costs_only_the_episodes_that_it_was_playing(env, seeds, waits):
    pool = TextEnvPool(env, 2, workers=1)
    pool.assign([EpisodeTask(id=seed, seed=seed) for seed in seeds])
    data = pool.reset()
    for turn in range(8):
        data = answer(pool, data)
        if waits and turn == 1:
            data["status"][1] = ReplyStatus.PENDING
        _, data = pool.step_and_maybe_reset(data)
    ends = {seed: episode.stop_reason for seed, episode in pool.take_finished().items()}
    assert ends.pop(2) == StopReason.ERROR
    assert ends.pop(3, StopReason.ERROR) == StopReason.ERROR
    assert set(ends) == {*seeds} - {2, 3}
    assert StopReason.ERROR not in ends.values()
    pool.close()


def test_options_reach_the_environment():
    pool = TextEnvPool("llm_gym/TextGameEasy-v0", 2)
    pool.assign([EpisodeTask(0, 0, options={"split": "test"}), EpisodeTask(1, 1)])
    pool.reset()
    split = llm_gym.core.splits.split_of
    assert split(pool._rows.envs[0].unwrapped.instance_id()) == "test"


@pytest.mark.parametrize(
    "source",
    [
        GUESS,
        gym.spec(GUESS),
        GuessTheNumberEnv,
        lambda: GuessTheNumberEnv(high=9),
        gym.make(GUESS),
        GuessTheNumberEnv(high=9),
        SimpleGameEnvironment({"max_steps": 5}),
    ],
    ids=["id", "spec", "class", "factory", "instance with a spec", "bare instance", "legacy"],
)
def test_environments_come_in_many_forms(source):
    pool = TextEnvPool(source, 2)
    first = pool.texts.read(pool.reset()["observation"].tolist())
    assert all(first)
    assert pool._rows.envs[0].unwrapped is not pool._rows.envs[1].unwrapped


def test_an_environment_that_cannot_be_copied_is_refused():
    env = GuessTheNumberEnv()
    env.connection = open(os.devnull)  # noqa: SIM115
    with pytest.raises(ConfigError, match="function"):
        TextEnvPool(env, 2)
    env.connection.close()


def test_without_tasks_a_pool_plays_on_from_its_seed():
    observations = []
    for _ in range(2):
        pool = TextEnvPool(GUESS, 2)
        pool.set_seed(5)
        data = pool.reset()
        assert data["episode"].tolist() == [0, 1]
        observations.append(pool.texts.read(data["observation"].tolist()))
    assert observations[0] == observations[1]
    pool.rand_action(data)
    assert all(1 <= int(text) <= 20 for text in pool.texts.read(data["action"].tolist()))


def test_closing_a_collector_closes_every_environment_even_if_one_raises(caplog):
    closed = []

    class Clinging(Tagged):
        def close(self):
            closed.append(self)
            raise OSError("I stay")

    EpisodeCollector(TextEnvPool(Clinging, 3), LLMPolicy(None, None)).close()
    assert len(closed) == 3
    assert "I stay" in caplog.text


class OneInfo(Tagged):
    """Fills in the same dictionary at every step, as fast environments do."""

    info = {}

    def step(self, action):
        *step, _ = super().step(action)
        self.info["turn"] = self.info.get("turn", 0) + 1
        return *step, self.info


def test_a_record_copies_an_info_that_the_environment_reuses():
    episode = play(TextEnvPool(OneInfo, 1), [EpisodeTask(0, 3)])[0]
    assert [info["turn"] for info in episode.infos] == [1, 2, 3, 4]


# --- handles ------------------------------------------------------------------------------


def test_a_handle_gives_back_its_entry_and_is_never_misread():
    table = ObjectTable("")
    handles = [table.add(text) for text in ("a", "b")]
    assert table.read([*handles, 0]) == ["a", "b", ""]
    table.clear()
    assert table[table.add("new")] == "new"
    for unknown in (handles[0], 77):
        with pytest.raises(KeyError, match=str(unknown)):
            table[unknown]


def test_a_held_out_episode_is_named_as_one():
    pool = TextEnvPool(CrashingAtReset, 1)
    play(pool, [EpisodeTask(EVAL_IDS + 1, 2)])
    assert "held-out episode 1: its environment raised" in pool.failures[0]
