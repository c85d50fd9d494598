"""A fall is undone in full, with adapters and over processes, and a resume after it is exact."""

import pytest
from safetensors.torch import load_file

from llm_gym_agents.model.weights import full_tensor, served_weights
from tests.agents.checks import same
from tests.agents.learn.test_schedule import won
from tests.agents.small_run import untimed
from tests.agents.trainer.processes.echo_run import echo_trainer

WINS = [90, 20, 30, 95, 94]
"""Wins of 100 after each iteration: the second and the third fall from the first."""
LONG = {
    "training.num_epochs": len(WINS),
    "training.num_iters_per_epoch": 1,
    "training.kl": "loss",
    "training.kl_coef": 0.1,
    "environment.eval_interval": 1,
    "checkpoint.save_interval": 1,
}
LORA = {"model.lora_rank": 2}


def planted(folder, given):
    """Return a trainer with the evaluations of ``WINS``."""
    trainer = echo_trainer(folder, LONG | given)
    trainer.evaluate = lambda episodes=None, records=None: won(WINS[trainer.iteration])
    return trainer


def whole(tensors):
    return {name: full_tensor(each.detach()).clone() for name, each in tensors}


def snapshot(trainer):
    """Return what play and the next update depend on, gathered from all processes."""
    ppo, model = trainer.learner.ppo, trainer.learner.model
    states = ((name, ppo.optimizer.state.get(each, {})) for name, each in model.named_parameters())
    return {
        "weights": whole(model.named_parameters()),
        "optimizer": whole((f"{n} {key}", x) for n, own in states for key, x in own.items()),
        "played": whole(trainer.sampler.engine.model.named_parameters()),
        "limit": ppo.trust.limit,
    }


def holds(file, trainer):
    """Whether a model file has the weights that are in training, adapters merged."""
    served = whole(served_weights(trainer.learner.lm))
    return same({name: each for name, each in load_file(file).items() if name in served}, served)


def run(rank, folder, given):
    """Train; return the rows, and snapshots before each update and after the run.

    The best weights' file is compared with the weights after each fall, ``final`` after the run.
    """
    trainer = planted(folder, given)
    seen, files, update = [], [], trainer.learner.ppo.update

    def watched(data, **how):
        seen.append(snapshot(trainer))
        return update(data, **how)

    def compare_file(sentence):
        best = trainer.checkpoints.best()
        files.append((best.name, holds(best / "model" / "model.safetensors", trainer)))

    trainer.learner.ppo.update, trainer.on_notice = watched, compare_file
    try:
        rows = untimed(trainer.fit())
        seen.append(snapshot(trainer))
        files.append(("final", holds(folder / "final" / "model.safetensors", trainer)))
        return rows, seen, files
    finally:
        trainer.cleanup()


def check(seen, files):
    best, *again = seen[1:4]  # the first iteration's; the next two start there again
    for start in again:
        for kind in ("weights", "optimizer", "played"):
            assert best[kind], kind
            assert same(best[kind], start[kind]), kind
    assert not same(seen[0]["weights"], best["weights"])
    assert not same(seen[4]["weights"], best["weights"])
    assert not same(seen[4]["optimizer"], best["optimizer"])
    limits = [each["limit"] for each in seen]
    assert [limit / limits[0] for limit in limits] == [1, 1, 0.5, 0.25, 0.25, 0.25]
    assert files == [("best-000001", True), ("best-000001", True), ("final", True)]
    # The fifth is a little worse than the fourth, with which the run ends.
    assert same(seen[5]["weights"], seen[4]["weights"])
    assert same(seen[5]["played"], seen[4]["played"])


@pytest.fixture(scope="module")
def adapted(tmp_path_factory):
    """Train with adapters in one process."""
    return run(0, tmp_path_factory.mktemp("adapted"), LORA)


def test_adapters_go_back_to_the_best(adapted):
    rows, seen, files = adapted
    check(seen, files)
    assert [row["eval/falls"] for row in rows] == [0, 1, 2, 0, 0]


def test_all_weights_go_back_to_the_best(tmp_path):
    _, seen, files = run(0, tmp_path, {})
    check(seen, files)


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, LORA], ids=["whole", "adapters"])
@pytest.mark.parametrize("mode", ["fsdp", "ddp"])
def test_all_processes_go_back_to_the_best(group, tmp_path, mode, given):
    found = group(2).run(run, tmp_path, {"parallel.mode": mode} | given)
    for _, seen, files in found:
        check(seen, files)
    (ours, _, _), (theirs, _, _) = found
    assert ours == theirs


class Killed(Exception):
    """Ends a run before the iteration is saved, as a lost machine does."""


@pytest.mark.parametrize("at", [2, 3], ids=["with the fall", "after it"])
def test_a_run_with_adapters_resumes_from_a_fall_to_the_same_bits(adapted, tmp_path, at):
    def kill(trainer, row):
        if trainer.iteration == at:
            raise Killed

    first = planted(tmp_path, LORA)
    first.callbacks.append(kill)
    with pytest.raises(Killed):
        first.fit()
    first.cleanup()
    rows, seen, files = run(0, tmp_path, LORA | {"checkpoint.resume": True})
    straight, expected, _ = adapted
    assert rows == straight
    for ours, theirs in zip(reversed(seen), reversed(expected), strict=False):
        assert all(same(ours[kind], theirs[kind]) for kind in ("weights", "optimizer", "played"))
        assert ours["limit"] == theirs["limit"]
    assert files[-1] == ("final", True)
