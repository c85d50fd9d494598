"""Saves of checkpoints that end badly.

``python checkpoint_run.py FOLDER MODE=NUMBER ...`` forks saves and kills them, in a process of its
own: the imports are paid once, and a fork must not inherit pytest's threads.
"""

import json
import os
import resource
import shutil
import signal
import sys
import traceback
from functools import partial
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from llm_gym_agents.run.checkpoints import (
    Checkpoints,
    TrainerState,
    load_checkpoint,
    save_checkpoint,
)
from llm_gym_agents.run.state import CheckpointError, Part

CHANGES = {"os.remove", "os.rmdir", "os.rename", "os.link", "os.mkdir", "os.chmod"}
SUCCESSES = (0.1, 0.4, 0.3, 0.6, 0.2)


def tiny_lm(seed=0, **settings):
    torch.manual_seed(seed)
    given = {"vocab_size": 20, "hidden_size": 16, "intermediate_size": 16} | settings
    config = LlamaConfig(num_hidden_layers=1, num_attention_heads=2, attention_dropout=0.1, **given)
    return LlamaForCausalLM(config)


def save(folder, until):
    """Save the checkpoints of a run that are missing until this iteration."""
    kept = Checkpoints(folder, keep_last_n=2)
    latest = kept.latest()
    done = 0 if latest is None else load_checkpoint(latest).iteration
    for at in range(done, until):
        kept.save(TrainerState(iteration=at + 1, success=SUCCESSES[at]), lm=tiny_lm(at))


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
        # Inside a tree that is being removed, names come without their folder.
        if event in CHANGES or (event == "open" and str(folder) in str(arguments)):
            touched += 1
            if touched == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def kill_everywhere(step, folder):
    """Kill a run at every ``step``-th touch of the disk in one save, and let it go on.

    The save is one that also replaces the best and removes an old checkpoint.
    """
    in_fork(lambda: save(folder / "base", 3))
    kills = 0
    for number in range(1, 10_000, step):
        run = folder / f"run-{number}"
        shutil.copytree(folder / "base", run)

        def one_save(run=run, number=number):
            die_at(run, number)
            save(run, 4)

        ended = in_fork(one_save)
        kills += ended == -signal.SIGKILL
        for place in run.glob("[!.]*"):
            load_checkpoint(place)
        assert in_fork(lambda run=run: save(run, 5)) == 0
        names = sorted(path.name for path in run.iterdir())
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


def fill_disk(count, folder):
    """Save where no file can grow beyond some bytes, ``count`` times; return the errors."""
    run = folder / "run"
    in_fork(lambda: save(run, 1))
    before = sorted(path.name for path in run.iterdir())
    limits = (10, 300, 1000, 4000, 12_000)[:count]
    for limit in limits:

        def save_again(limit=limit):
            wide = Part(tensors={"w": torch.zeros(5000)})  # more bytes than any limit
            state, lm = TrainerState(iteration=2, success=0.4, parts={"wide": wide}), tiny_lm()
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            free = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, free[1]))
            with pytest.raises(CheckpointError) as caught:
                Checkpoints(run).save(state, lm=lm)
            resource.setrlimit(resource.RLIMIT_FSIZE, free)
            (folder / f"error-{limit}").write_text(str(caught.value))

        ended = in_fork(save_again)
        assert ended == 0, (limit, ended)
        names = sorted(path.name for path in run.iterdir())
        assert names == before, names
    load_checkpoint(run / "iteration-000001")
    return [(folder / f"error-{limit}").read_text() for limit in limits]


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
