"""What is learned from: nothing that failed, and nothing that is compared with what failed."""

import pytest

from llm_gym.episodes import Trajectory
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.iteration import BatchCollector, flat_groups
from llm_gym_agents.learn.single_process import SigtermListener
from llm_gym_agents.rollouts.rollout_data import assemble
from llm_gym_agents.rollouts.tasks import RESAMPLE_IDS, Rollout, Turn, training_tasks
from llm_gym_agents.run.metrics import SAMPLED_TOKENS
from tests.agents.small_run import small


class Player:
    """Plays one turn of each episode, worth 1."""

    def play(self, tasks, version):
        episodes = [
            Trajectory(episode_id=task.id, seed=task.seed, group=task.group, actions=["a"],
                       rewards=[1.0], terminated=[True])
            for task in tasks
        ]  # fmt: skip
        turns = [[Turn(one.episode_id, 0, [1], [2], [-1.0], "stop", version)] for one in episodes]
        return Rollout(episodes, turns, [None] * len(episodes), [], [])


def played(player, reward_fn):
    config = ConfigStore()
    config.training.adv_estimator, config.training.group_size = "grpo", 2
    config.training.resample_zero_variance_groups = 1
    tasks = training_tasks(0, 0, batch_size=8, group_size=2, options=None)
    collector = BatchCollector(config.training, player, reward_fn, "llm_gym/Echo-v0")
    return collector.collect_batch(0, tasks, 0, SigtermListener())


def batch_of(rewards, groups):
    """Return the tensors of episodes with these rewards of their turns, two tokens each."""
    episodes, turns = [], []
    for at, (paid, group) in enumerate(zip(rewards, groups, strict=True)):
        episode = Trajectory(episode_id=at, group=group, actions=[""] * len(paid), rewards=paid)
        episodes.append(episode)
        turns.append([Turn(at, n, [1], [2, 3], [-1.0] * 2, "stop", 0) for n in range(len(paid))])
    return assemble(Rollout(episodes, turns, [None] * len(episodes), [], [])), episodes


@pytest.mark.parametrize(
    ("estimator", "credit", "flat"),
    [
        ("grpo", "turn", {1, 2}),  # equal totals, but turn by turn group 0 teaches
        ("grpo", "episode", {0, 1, 2}),
        ("rloo", "turn", {1, 2}),
        ("reinforce_plus_plus_baseline", "episode", {0, 1, 2}),  # which whitens over the batch
        ("gae", "episode", {0, 1, 2}),  # which compares nothing: equal scores are flat
    ],
)
def test_flat_groups_depend_on_the_estimator(estimator, credit, flat):
    shaped = [[0.1, 0.2, -0.3], [0.3, -0.2, -0.1]]
    rounding = [[0.1, 0.2, -0.3], [0.1, -0.3, 0.2]]  # 5.6e-17 and 2.8e-17
    assert 0.1 + 0.2 - 0.3 != 0.1 - 0.3 + 0.2
    if credit == "turn":
        rounding[1] = [0.1, 0.2, -0.3 + 1e-17]
    data = batch_of([*shaped, *rounding, [1.0], [0.0], [1.0]], [0, 0, 1, 1, 3, 3, 2])
    training = ConfigStore().training
    training.adv_estimator, training.group_size = estimator, 2
    if credit == "turn":
        training.estimator_settings = {"credit": "turn"}
    assert flat_groups(*data, training) == flat


def test_resampled_groups_are_scored_by_the_reward_function():
    def only_anew(trajectory):
        return float(trajectory.episode_id >= RESAMPLE_IDS and trajectory.episode_id % 2)

    lesson = played(Player(), only_anew)
    assert lesson.metrics["group/replaced"] == 4
    assert [episode.total_reward for episode in lesson.rollout.episodes] == [0.0, 1.0] * 4


@pytest.mark.parametrize(
    ("estimator", "settings", "branches"),
    [("vine", {"branches": 2}, 2), ("state_td", {"branches": 1}, 1), ("gigpo", {}, 0)],
)
def test_an_estimator_gets_the_states_and_branches_that_it_needs(
    train, estimator, settings, branches, tmp_path
):
    config = small(
        tmp_path,
        training={"adv_estimator": estimator, "estimator_settings": settings, "group_size": 2},
        environment={"env_id": "llm_gym/CountdownEasy-v0"},
    )
    config.inference.max_tokens = 1
    trainer = train(config)
    (row,) = trainer.fit()
    episode = trainer.sampler.play(trainer.schedule.tasks(0)).episodes[0]
    assert episode.num_turns == 2
    assert "state_key" in episode.reset_info
    # Four episodes of two tokens; a branch from their first state has two, from the second one.
    assert row.get("branch/tokens", 0.0) == branches * 4 * 3
    assert row[SAMPLED_TOKENS] == 8 + branches * 4 * 3
    assert row["episode/tokens"] == 2.0
