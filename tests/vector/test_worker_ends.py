"""Worker processes end with the program that started them, however it ends."""

import gc
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from gymnasium.error import ClosedEnvironmentError

from llm_gym.core.errors import WorkerError
from llm_gym.vector import make_vec, worker_pool
from tests.processes import is_running, still_running
from tests.vector.odd import GUESS, Odd, pause

ROOT = Path(__file__).parents[2]


def test_close_ends_every_process_also_after_a_failure(start):
    envs = start(Odd, 3, workers=3, timeout=1)
    pids = envs.get_attr("pid")
    with pytest.raises(WorkerError):
        envs.step(["raise x", "sleep 60", "exit 1"])
    envs.close()
    assert not any(map(is_running, pids))
    with pytest.raises(ClosedEnvironmentError):
        envs.step(["a"] * 3)
    envs.close()


def test_close_waits_a_limited_time_for_environments(tmp_path, monkeypatch):
    class Tidy(Odd):
        def close(self):
            (tmp_path / "closed").touch()

    monkeypatch.setattr(worker_pool, "CLOSE_SECONDS", 0.5)
    envs = make_vec([Tidy, partial(Odd, "stuck")], workers=2)
    pids = envs.get_attr("pid")
    envs.close()
    assert (tmp_path / "closed").exists()
    assert not any(map(is_running, pids))


def test_garbage_collection_ends_the_workers():
    envs = make_vec(Odd, 2, workers=2)
    pids = envs.get_attr("pid")
    del envs
    gc.collect()
    assert not any(map(is_running, pids))


SCRIPT = """
import sys, threading
from llm_gym.vector import make_vec
from tests.vector.odd import Odd
if __name__ == "__main__":
    envs = make_vec(Odd, 2, workers=2)
    envs.reset(seed=0)
    print(*envs.get_attr("pid"), flush=True)
    {ending}
"""


def run_script(folder, text):
    path = folder / "script.py"
    path.write_text(text)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, str(path)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("1 / 0", 1),
        pytest.param("pass", 0, marks=pytest.mark.slow),
        pytest.param("sys.exit(7)", 7, marks=pytest.mark.slow),
    ],
)
def test_the_end_of_the_program_ends_the_workers(tmp_path, ending, code):
    script = run_script(tmp_path, SCRIPT.format(ending=ending))
    output, errors = script.communicate(timeout=300)
    assert script.returncode == code, errors.decode()
    pids = [int(pid) for pid in output.split()]
    assert len(pids) == 2
    assert not still_running(pids)
    assert errors == b"" or code == 1


@pytest.mark.parametrize("hold", [pytest.param("sleep 60", marks=pytest.mark.slow), "backtrack"])
def test_killing_the_program_ends_even_a_worker_that_hangs_in_c(tmp_path, hold):
    with run_script(tmp_path, SCRIPT.format(ending=f'envs.step(["a", "{hold}"])')) as script:
        pids = [int(pid) for pid in script.stdout.readline().split()]
        assert len(pids) == 2
        pause(0.5)
        script.kill()
        assert not still_running(pids)


def test_workers_that_a_thread_started_outlive_the_thread(start):
    made = []
    thread = threading.Thread(target=lambda: made.append(start(Odd, 2, workers=1)))
    thread.start()
    thread.join()
    made[0].reset(seed=0)
    assert made[0].step(["a", "b"])[0] == ["a", "b"]


def test_a_script_without_a_main_guard_gets_an_error_that_names_it(tmp_path):
    text = f"from llm_gym.vector import make_vec\nmake_vec({GUESS!r}, 2, workers=1)\n"
    script = run_script(tmp_path, text)
    _, errors = script.communicate(timeout=300)
    assert script.returncode == 1
    assert b"a script must start workers under: if __name__ == '__main__'" in errors
