"""One process at a time trains in a folder."""

import os
import signal
import subprocess
import sys

import pytest

from llm_gym import cli
from llm_gym.core.errors import ConfigError
from llm_gym_agents import PPOTrainer
from llm_gym_agents.run.files import RunLock, is_locked
from tests.agents.small_run import Odd, small


def test_a_run_folder_is_locked_by_one_process_until_released(tmp_path):
    first, second = RunLock(tmp_path / "run"), RunLock(tmp_path / "run")
    assert not is_locked(tmp_path / "run")
    first.acquire()
    first.acquire()
    with pytest.raises(ConfigError, match=f"process {os.getpid()}"):
        second.acquire()
    assert is_locked(tmp_path / "run")
    first.release()
    first.release()
    second.acquire()
    second.release()


@pytest.mark.parametrize("where", ["file", "file/run", "/proc/run"])
def test_an_impossible_output_folder_is_refused(tmp_path, where):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"checkpoint\.output_dir"):
        RunLock(tmp_path / where).acquire()
    assert (tmp_path / "file").read_bytes() == b""


def test_a_command_writes_nothing_into_a_locked_run_folder(tmp_path, capsys):
    first = PPOTrainer(small(tmp_path / "run"), Odd)
    first.lock_folder()
    (tmp_path / "run/config.json").write_text("of the first")
    where = ["--checkpoint.output-dir", str(tmp_path / "run")]
    assert cli.main(["train", "llm_gym/Echo-v0", "--smoke", *where]) == 2
    first.cleanup()
    assert "process" in capsys.readouterr().err
    assert (tmp_path / "run/config.json").read_text() == "of the first"


def test_a_lock_ends_when_its_process_is_killed(tmp_path):
    code = f"""
import sys, time
from pathlib import Path
from llm_gym_agents.run.files import RunLock
RunLock.kept = RunLock(Path({str(tmp_path)!r}))
RunLock.kept.acquire()
print("held", flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ConfigError, match=f"process {holder.pid}"):
            RunLock(tmp_path).acquire()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    RunLock(tmp_path).acquire()


def test_a_second_trainer_in_a_locked_folder_changes_nothing(tmp_path):
    first = PPOTrainer(small(tmp_path), Odd)
    first.fit()
    before = (tmp_path / "metrics.jsonl").read_bytes()
    config = small(tmp_path, checkpoint={"resume": True})
    second = PPOTrainer(config, Odd)
    with pytest.raises(ConfigError, match="output_dir"):
        second.fit(num_epochs=2)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before
    first.cleanup()
    second.fit(num_epochs=2)
    second.cleanup()
