"""Playing ahead of learning: how far, with which weights, and the metrics of it."""

import threading

import pytest
import torch

from llm_gym_agents.engines.base import EngineError
from llm_gym_agents.learn.schedule import HeldOutSuccess
from llm_gym_agents.rollouts.tasks import EpisodeTask, Rollout, Turn
from llm_gym_agents.trainer.ray.sampler import staleness_metrics
from tests.agents.checks import copied, record_calls, same
from tests.agents.trainer.processes.echo_run import echo_trainer

LONGER = {"training.num_iters_per_epoch": 4, "environment.eval_interval": 0}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Train with each staleness; return the rows, and the versions that sampled each batch."""

    def train(staleness):
        folder = tmp_path_factory.mktemp("run")
        trainer = echo_trainer(folder, LONGER, in_process=True, num_actors=2, staleness=staleness)
        calls = record_calls(trainer.sampler, "play")
        rows = trainer.fit()
        trainer.cleanup()
        versions = [{turn.version for own in call.result.turns for turn in own} for call in calls]
        return rows, versions

    return [train(staleness) for staleness in range(3)]


def test_playing_runs_ahead_by_the_staleness_setting(played):
    # In one process what is dealt is played at once, so a batch is as old as it may be.
    ages = [[row["ray/staleness_max"] for row in rows] for rows, _ in played]
    assert ages == [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2]]
    assert [[min(each) for each in versions] for _, versions in played] == [
        [0, 1, 2, 3], [0, 0, 1, 2], [0, 0, 0, 1]
    ]  # fmt: skip
    assert all(len(each) == 1 for _, versions in played for each in versions)


def test_tokens_of_older_weights_are_weighed_by_the_policy_that_sampled_them(played):
    (fresh, _), (older, _), _ = played
    assert all(row["mismatch/log_prob_max"] < 1e-4 for row in fresh)
    # The first update was large enough to be seen in the log-probs of the batch it did not play.
    assert older[0]["mismatch/log_prob_max"] < 1e-4
    assert all(row["mismatch/log_prob_max"] > 1e-2 for row in older[1:])
    assert all(row["mismatch/ess"] < 1.0 for row in older[1:])


def test_a_batch_that_is_too_old_is_refused():
    turns = [[Turn(0, 0, [1], [2, 3], [0.0, 0.0], "stop", 4), Turn(0, 1, [1], [2], [0.0], "", 5)]]
    batch = Rollout([], turns, [], [], [])
    found = staleness_metrics(batch, 5, 1)
    assert found == {"ray/staleness_mean": 2 / 3, "ray/staleness_max": 1}
    with pytest.raises(EngineError, match=r"ray\.staleness"):
        staleness_metrics(batch, 5, 0)


def test_going_back_to_a_checkpoint_drops_what_was_played_ahead(cleaned, tmp_path):
    trainer = cleaned(echo_trainer(tmp_path / "run", LONGER, in_process=True, staleness=1))
    trainer.fit(num_iters_per_epoch=1)
    trainer.save_checkpoint(tmp_path / "run" / "one")
    trainer.fit(num_iters_per_epoch=3)
    trainer.load_checkpoint(tmp_path / "run" / "one")
    assert trainer.sampler._ahead == {}
    trainer.fit(num_iters_per_epoch=3)


def test_a_fall_drops_what_the_fallen_weights_played_ahead(cleaned, tmp_path):
    trainer = cleaned(echo_trainer(tmp_path / "run", LONGER, in_process=True, staleness=1))
    best, notices = tmp_path / "run" / "best", []
    trainer.files.best = lambda start: best
    trainer.on_notice = lambda sentence: notices.append((sentence, dict(trainer.sampler._ahead)))

    def fall(_, row):
        if trainer.iteration == 1:
            trainer.save_checkpoint(best)
        if trainer.iteration == 2:
            stop = trainer.early_stop
            stop.best, stop.now = HeldOutSuccess(0.9, 0.8, 1.0), HeldOutSuccess(0.1, 0.0, 0.2)
            assert trainer.sampler._ahead
            trainer._return_to_best()
            engine = trainer.sampler.pool.actors[0].actor.sampler.engine
            assert same(engine.model.state_dict(), trainer.learner.lm.state_dict())

    trainer.callbacks.append(fall)
    rows = trainer.fit()
    assert [ahead for _, ahead in notices] == [{}]
    assert [row["ray/staleness_max"] for row in rows] == [0, 1, 0, 1]


def test_episodes_that_were_not_played_ahead_are_played_on_request(cleaned, tmp_path):
    trainer = cleaned(echo_trainer(tmp_path, in_process=True, staleness=1))
    sampler = trainer.sampler
    sampler.upcoming = lambda iteration: [EpisodeTask(100 * iteration + at, at) for at in range(3)]
    sampler.play(sampler.upcoming(0), version=0)
    assert list(sampler._ahead) == [1]
    sampler.push(1)
    played = sampler.play(sampler.upcoming(7), version=1)
    assert [episode.episode_id for episode in played.all_episodes] == [700, 701, 702]


def test_weights_are_pushed_again_only_if_an_update_came_between(cleaned, tmp_path):
    trainer = cleaned(echo_trainer(tmp_path, in_process=True))
    publisher, pushes = trainer.publisher, []
    push = trainer.sampler.push
    trainer.sampler.push = lambda version: pushes.append(version) or push(version)
    publisher.sleep_until_published()
    publisher.publish(1)
    publisher.publish_if_outdated()
    assert pushes == [1]
    publisher.sleep_until_published()
    publisher.publish_if_outdated()
    assert pushes == [1, 1]


def test_weights_change_between_replies_and_each_turn_records_its_version(cleaned, tmp_path):
    trainer = cleaned(echo_trainer(tmp_path, in_process=True, staleness=1))
    actor, lm = trainer.sampler.pool.actors[0].actor, trainer.learner.lm
    engine = actor.sampler.engine
    before = copied(lm)
    with torch.no_grad():
        for weight in lm.parameters():
            weight += 0.05 * torch.sin(torch.arange(weight.numel()).float()).view(weight.shape)
    visitor = threading.Thread(target=trainer.sampler.push, args=(1,))
    submit = engine.submit

    def submitted(requests):
        submit(requests)
        if requests and visitor.ident is None:  # the first replies are running now
            visitor.start()
            while not actor.swap_lock.requested:
                pass

    engine.submit = submitted
    played = actor.play([EpisodeTask(id, id) for id in range(4)], None, False).rollout
    visitor.join()
    versions = [[turn.version for turn in own] for own in played.turns]
    assert all(own[0] == 0 for own in versions)
    assert {own[1] for own in versions if len(own) > 1} == {1}

    def score(turns):
        """Log-probs that the weights in ``lm`` give the last of ``turns``."""
        ids = [id for turn in turns for id in (*turn.prompt_ids, *turn.reply_ids)]
        with torch.no_grad():
            log_probs = lm(torch.tensor([ids])).logits[0].log_softmax(-1)
        first = len(ids) - len(turns[-1].reply_ids)
        return [log_probs[at - 1, ids[at]].item() for at in range(first, len(ids))]

    longer = [own for own in played.turns if len(own) > 1]
    for own in longer:
        assert own[1].log_probs == pytest.approx(score(own[:2]), abs=1e-4)
    lm.load_state_dict(before)
    for own in played.turns:
        assert own[0].log_probs == pytest.approx(score(own[:1]), abs=1e-4)
    assert any(own[1].log_probs != pytest.approx(score(own[:2]), abs=1e-3) for own in longer)
