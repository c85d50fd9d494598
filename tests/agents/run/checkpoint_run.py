"""A small run that saves checkpoints, and ways to end it badly.

``python checkpoint_run.py FOLDER MODE=NUMBER ...`` forks runs and kills them, in a process of its
own: the imports are paid once, and a fork must not inherit pytest's threads.
"""

import json
import os
import random
import resource
import shutil
import signal
import sys
import traceback
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from llm_gym_agents.algo import KLController
from llm_gym_agents.run.checkpoints import (
    Checkpoints,
    TrainerState,
    load_checkpoint,
    restore_lm,
    save_checkpoint,
)
from llm_gym_agents.run.metrics import MetricsLog
from llm_gym_agents.run.state import (
    CheckpointError,
    Part,
    module_state,
    optimizer_state,
    rng_state,
    set_module_state,
    set_optimizer_state,
    set_rng_state,
)

ITERATIONS = 5
CHANGES = {"os.remove", "os.rmdir", "os.rename", "os.link", "os.mkdir", "os.chmod"}
SUCCESSES = (0.1, 0.4, 0.3, 0.6, 0.2)


def tiny_lm(seed=0, **settings):
    torch.manual_seed(seed)
    given = {"vocab_size": 20, "hidden_size": 16, "intermediate_size": 16} | settings
    config = LlamaConfig(num_hidden_layers=1, num_attention_heads=2, attention_dropout=0.1, **given)
    return LlamaForCausalLM(config)


def equal(first, second):
    """Whether two dictionaries of tensors are the same to the last bit, dtypes included."""
    assert first.keys() == second.keys()
    return all(
        torch.equal(first[name], second[name]) and first[name].dtype == second[name].dtype
        for name in first
    )


class Model(nn.Module):
    def __init__(self, seed):
        super().__init__()
        self.lm = tiny_lm(seed)
        self.value_head = nn.Linear(16, 1)


class Run:
    """Everything that a checkpoint must bring back: every generator is drawn from."""

    def __init__(self, folder, seed=0):
        self.folder = Path(folder)
        self.model = Model(seed).train()
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - the global generator is part of the test
        self.optimizer = torch.optim.AdamW(
            [
                {"params": self.model.lm.parameters(), "lr": 1e-3},
                {"params": self.model.value_head.parameters(), "lr": 1e-2},
            ]
        )
        self.schedule = torch.optim.lr_scheduler.LinearLR(self.optimizer, 0.1, total_iters=4)
        self.kl = KLController(0.1, 0.01, adaptive=True, horizon=10)
        self.checkpoints = Checkpoints(self.folder / "checkpoints", keep_last_n=2)
        self.done = 0
        latest = self.checkpoints.latest()
        if latest is not None:
            self.restore(load_checkpoint(latest))
        self.log = MetricsLog(
            self.folder, resume_after=self.done if latest else -1, tensorboard=False
        )

    def state(self):
        return TrainerState(
            iteration=self.done,
            success=SUCCESSES[self.done - 1],
            parts={
                "critic": module_state(self.model, skip=("lm.",)),
                "optimizer": optimizer_state(self.optimizer, self.model),
                "schedule": Part(values=self.schedule.state_dict()),
                "kl": Part(values=self.kl.kl_coef),
                "rng": rng_state(),
            },
        )

    def restore(self, state):
        restore_lm(self.model.lm, state)
        set_module_state(self.model, state.parts["critic"], skip=("lm.",))
        set_optimizer_state(self.optimizer, self.model, state.parts["optimizer"])
        self.schedule.load_state_dict(state.parts["schedule"].values)
        self.kl.kl_coef = state.parts["kl"].values
        set_rng_state(state.parts["rng"])
        self.done = state.iteration

    def iterate(self):
        scale = random.random() + np.random.random()  # noqa: NPY002
        ids = torch.randint(0, 20, (4, 6))
        out = self.model.lm(ids, labels=ids, output_hidden_states=True)
        value = self.model.value_head(out.hidden_states[-1]).square().mean()
        loss = scale * out.loss + self.kl.kl_coef * value
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.kl.update(value.item(), 5)
        self.done += 1
        self.log.log(self.done, {"loss/policy": loss.item(), "kl/coef": self.kl.kl_coef})

    def fit(self, iterations=ITERATIONS):
        while self.done < iterations:
            self.iterate()
            self.checkpoints.save(self.state(), lm=self.model.lm)
        return self


def outcome(folder):
    """What a run came to: weights, optimizer, generators and metrics, to the last bit."""
    state = load_checkpoint(Checkpoints(Path(folder) / "checkpoints").latest())
    files = [state.folder / name for name in ("model/model.safetensors", "trainer.safetensors")]
    files += [state.folder / "trainer.json", Path(folder) / "metrics.jsonl"]
    return [path.read_bytes() for path in files]


def in_fork(function):
    """Run ``function`` in a fork; return how it ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            function()
            code = 0
        except BaseException as error:  # noqa: BLE001 - a fork must not go on in our frames
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at(folder, number):
    """Kill this process just before it touches ``folder`` for the ``number``-th time."""
    touched = 0

    def hook(event, arguments):
        nonlocal touched
        # Inside a tree that is being removed, names are told without their folder.
        if event in CHANGES or (event == "open" and str(folder) in str(arguments)):
            touched += 1
            if touched == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def counting(function, last=None):
    """Run ``function``, die at its ``last``-th call of anything; return how many there were."""
    called = 0

    def profile(frame, event, argument):
        nonlocal called
        called += event in ("call", "c_call")
        if called == last:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return called


def kill_everywhere(step, folder):
    """Kill runs at every ``step``-th touch of the disk in one save; each must end as the whole.

    The save is one that also replaces the best and removes an old checkpoint.
    """
    whole, base = folder / "whole", folder / "base"
    in_fork(lambda: Run(whole).fit())
    in_fork(lambda: Run(base).fit(3))
    kills = 0
    for number in range(1, 10_000, step):
        run = folder / f"run-{number}"
        shutil.copytree(base, run)

        def one_save(run=run, number=number):
            started = Run(run)
            die_at(run, number)
            started.fit(4)

        ended = in_fork(one_save)
        kills += ended == -signal.SIGKILL
        for place in (run / "checkpoints").glob("[!.]*"):
            load_checkpoint(place)
        assert in_fork(lambda run=run: Run(run).fit()) == 0
        assert outcome(run) == outcome(whole), number
        names = sorted(path.name for path in (run / "checkpoints").iterdir())
        assert names == ["best-000004", "iteration-000004", "iteration-000005"], names
        shutil.rmtree(run)
        if ended == 0:
            return {"kills": kills}
        assert ended == -signal.SIGKILL, ended
    return None


def kill_replacing(step, folder):
    """Kill saves to a place where a checkpoint is; there must always be the old or the new one."""
    place = folder / "here"
    seen = []
    for number in range(1, 10_000, step):
        in_fork(lambda: save_checkpoint(place, TrainerState(iteration=1), lm=tiny_lm()))

        def replace(number=number):
            lm = tiny_lm(1)
            die_at(folder, number)
            save_checkpoint(place, TrainerState(iteration=2), lm=lm)

        ended = in_fork(replace)
        seen.append(load_checkpoint(place).iteration)
        if ended == 0:
            in_fork(lambda: save_checkpoint(place, TrainerState(iteration=3), lm=tiny_lm()))
            assert [path.name for path in folder.iterdir()] == ["here"]
            return {"kills": len(seen) - 1, "seen": sorted(set(seen))}
        assert ended == -signal.SIGKILL, ended
    return None


def kill_any_time(kills, folder):
    """Kill one run again and again, whatever it is doing; it must end as the whole."""
    whole, run, noted = folder / "whole", folder / "run", folder / "calls"
    in_fork(lambda: noted.write_text(str(counting(lambda: Run(whole).fit()))))
    dice = random.Random(0)
    killed = 0
    for _ in range(kills):
        last = dice.randrange(2 * int(noted.read_text()) // ITERATIONS)
        ended = in_fork(lambda last=last: counting(lambda: Run(run).fit(), last))
        killed += ended == -signal.SIGKILL
        if (run / "checkpoints").exists():
            for place in (run / "checkpoints").glob("[!.]*"):
                load_checkpoint(place)
    assert in_fork(lambda: Run(run).fit()) == 0
    assert outcome(run) == outcome(whole)
    return {"kills": killed}


def fill_disk(count, folder):
    """Save where no file can grow beyond some bytes, ``count`` times; return what was said."""
    in_fork(lambda: Run(folder / "run").fit(1))
    before = sorted(path.name for path in (folder / "run/checkpoints").iterdir())
    limits = (10, 300, 1000, 4000, 12_000)[:count]
    for limit in limits:

        def save(limit=limit):
            run = Run(folder / "run")
            run.iterate()
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            free = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, free[1]))
            with pytest.raises(CheckpointError) as caught:
                run.checkpoints.save(run.state(), lm=run.model.lm)
            resource.setrlimit(resource.RLIMIT_FSIZE, free)
            (folder / f"said-{limit}").write_text(str(caught.value))

        ended = in_fork(save)
        assert ended == 0, (limit, ended)
        names = sorted(path.name for path in (folder / "run/checkpoints").iterdir())
        assert names == before, names
    load_checkpoint(folder / "run/checkpoints/iteration-000001")
    return [(folder / f"said-{limit}").read_text() for limit in limits]


def report(place, jobs):
    """Give each job a folder; write what each found, or how it failed, as JSON."""
    found = {}
    for name, job in jobs.items():
        folder = Path(place) / name
        folder.mkdir(parents=True)
        try:
            found[name] = job(folder)
        except Exception:  # noqa: BLE001 - it is a finding, and the other jobs go on
            found[name] = traceback.format_exc()
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    numbers = dict(mode.split("=") for mode in sys.argv[2:])
    report(sys.argv[1], {name: partial(globals()[name], int(n)) for name, n in numbers.items()})
