"""Training episodes on disk: which, with what, and that they can be played again."""

import math
import re

import pytest
import torch

from llm_gym.episodes import read_episodes
from llm_gym_agents import PPOTrainer
from llm_gym_agents.rollouts import recorder
from llm_gym_agents.rollouts.recorder import episode_tokens
from llm_gym_agents.rollouts.tasks import BootstrapPrompt, Turn
from tests.agents.small_run import small, trained, untimed

GUESS = "llm_gym/GuessTheNumber-v0"


def length(episode):
    return float(len(episode.actions))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Three iterations, every second one recorded; returns the folder and the batches."""
    folder, batches = tmp_path_factory.mktemp("run"), []
    patch = pytest.MonkeyPatch()
    patch.setattr("llm_gym_agents.trainer.run_folder.RECORDED_EPISODES", 3)
    config = small(
        folder,
        environment={"env_id": GUESS},
        training={"num_iters_per_epoch": 3},
        checkpoint={"record_every": 2},
    )
    trainer = PPOTrainer(config, reward_fn=length)
    patch.undo()
    update = trainer.learner.ppo.update

    def noted(data, **how):
        learned = update(data, **how)
        batches.append((data, trainer.learner.ppo.trained))
        return learned

    trainer.learner.ppo.update = noted
    trainer.fit()
    trainer.cleanup()
    return folder, batches


def test_every_kth_iteration_records_at_most_n_episodes(run):
    folder, _ = run
    files = sorted(path.name for path in (folder / "episodes").iterdir())
    assert files == ["train-000001.jsonl", "train-000003.jsonl"]
    for at, name in enumerate(files):
        episodes = list(read_episodes(folder / "episodes" / name))
        assert [episode.episode_id for episode in episodes] == [8 * at, 8 * at + 1, 8 * at + 2]
        assert {episode.weights_version for episode in episodes} == {2 * at}


@pytest.mark.parametrize("iteration", [1, 3])
def test_a_record_holds_the_very_numbers_of_the_update(run, iteration):
    folder, batches = run
    data, trained = batches[iteration - 1]
    episodes = list(read_episodes(folder / f"episodes/train-{iteration:06d}.jsonl"))
    found = {name: [] for name in ("ids", "log_probs", *trained)}
    for episode in episodes:
        tokens = episode.tokens
        for name in found:
            column = zip(getattr(tokens, name), tokens.trained_on, strict=True)
            found[name] += [value for value, sampled in column if sampled]
        read = [at for at, sampled in enumerate(tokens.trained_on) if not sampled]
        assert all(math.isnan(tokens.values[at]) for at in read)
        assert set(tokens.weights_versions) == {iteration - 1}
    count = len(found["ids"])
    assert count == int(data.lengths_E[: len(episodes)].sum())
    assert found["ids"] == data.token_T[:count].tolist()
    wanted = {"log_probs": data.sampler_log_prob_T, **trained}
    for name, values in wanted.items():
        assert torch.tensor(found[name]).equal(values[:count].cpu()), name


def test_the_tokens_of_a_cut_episode_end_with_the_bootstrap_prompt():
    turns = [Turn(0, 0, [1, 2], [3], [-0.5], "stop", 4), Turn(0, 1, [5], [6, 7], [-1, -2], "s", 5)]
    tokens = episode_tokens(turns, BootstrapPrompt([8, 9], False), {"values": [10, 20, 30]})
    assert tokens.ids == [1, 2, 3, 5, 6, 7, 8, 9]
    assert tokens.turns == [0, 0, 0, 1, 1, 1, 2, 2]
    assert tokens.weights_versions == [4, 4, 4, 5, 5, 5, 5, 5]
    assert tokens.trained_on == [False, False, True, False, True, True, False, False]
    assert str(tokens.values) == "[nan, nan, 10, nan, 20, 30, nan, nan]"
    assert str(tokens.log_probs) == "[nan, nan, -0.5, nan, -1, -2, nan, nan]"


def test_a_record_that_cannot_be_written_ends_the_run(train, tmp_path, monkeypatch):
    def full(path, episodes):
        raise OSError("no space left on device")

    monkeypatch.setattr(recorder, "write_episodes", full)
    with pytest.raises(OSError, match="no space left"):
        train(small(tmp_path, environment={"env_id": GUESS})).fit()


def test_a_record_has_the_text_of_its_tokens(run):
    folder, _ = run
    for episode in read_episodes(folder / "episodes/train-000001.jsonl"):
        tokens = episode.tokens
        assert len(tokens.texts) == len(tokens.ids)
        for turn, action in enumerate(episode.actions):
            sampled = zip(tokens.texts, tokens.turns, tokens.trained_on, strict=True)
            reply = "".join(text for text, when, on in sampled if on and when == turn)
            assert re.sub(r" ?<\w+>", "", reply).strip() == action.strip()  # no control tokens


def test_recording_changes_nothing_that_is_learned(tmp_path):
    rows = []
    for every in (0, 1):
        config = small(tmp_path / str(every), environment={"env_id": GUESS})
        config.update({"checkpoint": {"record_every": every}})
        rows.append(untimed(trained(config).metrics_history))
    assert rows[0] == rows[1]
