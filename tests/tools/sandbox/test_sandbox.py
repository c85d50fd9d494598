"""Results of the sandbox, and its limits."""

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from llm_gym.tools.sandbox import Sandbox, SandboxError, SandboxResult
from tests.tools.sandbox.sandboxes import need


def test_stdout_and_stderr_both_come_back(sandbox):
    result = sandbox.run("import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert (result.stdout, result.stderr, result.ok) == ("out\n", "err\n", True)
    assert result.text() == "out\nerr"


def test_control_characters_in_results_are_escaped(sandbox):
    result = sandbox.run(
        "import sys\nbad = '\\x1b]0;x\\x07\\u202e\\r'\nprint(bad, 'é\\t\\r\\n')\n"
        "sys.stderr.write(bad)\n"
        "raise ValueError(bad + '\\ud800')"  # half a character
    )
    assert result.stdout == "\\x1b]0;x\\x07\\u202e\\r é\t\n\n"
    for text in (result.stdout, result.stderr, result.error, result.text()):
        assert not set("\x1b\x07\u202e\r\ud800") & set(text)


def test_a_last_expression_is_shown_like_in_a_notebook(sandbox):
    assert sandbox.run("x = 6\nx * 7").stdout == "42\n"
    assert sandbox.run("None").stdout == ""
    assert sandbox.run("").text() == "(no output)"
    assert sandbox.run("import sys\nsys.stdout.write('abc')").stdout.startswith("abc")
    assert sandbox.run("import numpy\nint(numpy.arange(4).sum())").stdout == "6\n"
    code = "import asyncio\nasync def f(): return 3\nprint(asyncio.run(f()))"
    assert sandbox.run(code).stdout == "3\n", "without a network"


def test_an_exception_is_a_short_traceback_and_one_line(sandbox):
    result = sandbox.run("def f():\n    return 1 / 0\n\nprint('before')\nf()")
    assert not result.ok
    assert result.exit_code == 1
    assert result.error == "ZeroDivisionError: division by zero (line 2)"
    assert result.stdout == "before\n"
    assert "runner.py" not in result.stderr
    assert "    return 1 / 0\n" in result.stderr
    assert result.text().endswith("ZeroDivisionError: division by zero")


def test_errors_name_the_line_and_stay_short(sandbox):
    result = sandbox.run("x = 1\nif x\n    print(x)")
    assert result.error == "SyntaxError: expected ':'"
    assert "line 2" in result.stderr
    result = sandbox.run("def f(): f()\nf()")
    assert "RecursionError" in result.error
    assert len(result.stderr) < 2000


@pytest.mark.parametrize(
    "code", ["def (", "x = '\0'", "x = '\ud800'", "import json\njson.loads('{')", "return"]
)
def test_no_error_shows_the_path_of_python(sandbox, code):
    stderr = sandbox.run(code).stderr
    assert "Error" in stderr
    assert os.path.dirname(os.__file__) not in stderr
    assert "ast.py" not in stderr


@pytest.mark.parametrize(
    ("code", "exit_code", "ok"),
    [
        ("import sys; sys.exit()", 0, True),
        ("import sys; sys.exit(3)", 3, False),
        ("import sys; sys.exit('why')", 1, False),
        ("import os; os._exit(0)", 0, True),
        ("import os; os._exit(4)", 4, False),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV, False),
    ],
)
def test_exit_codes_are_reported(sandbox, code, exit_code, ok):
    result = sandbox.run(code)
    assert (result.exit_code, result.ok) == (exit_code, ok)
    assert bool(result.error) is not ok


def test_a_timeout_ends_a_call_and_keeps_its_output(sandbox):
    code = "import time\nprint('so far', flush=True)\nwhile True: time.sleep(9)"
    for limit in ("0.3", "2", "20"):  # a busy machine needs longer for a word
        result = sandbox.run(code, timeout=float(limit))
        assert result.timed_out
        assert result.error.endswith(f" {limit} s")
        if result.stdout:
            break
    assert result.stdout == "so far\n"


def test_threads_and_exit_functions_are_waited_for(sandbox):
    code = (
        "import atexit, threading, time\natexit.register(print, 'last')\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()"
    )
    assert sandbox.run(code).stdout == "thread\nlast\n"


def test_long_output_is_cut_and_marked():
    with Sandbox(isolation="none", output_chars=10) as sandbox:
        result = sandbox.run("print('é' * 50)")
        assert (result.stdout, result.truncated, result.ok) == ("é" * 10, True, True)
        assert "left out" in result.text()
        assert not sandbox.run("print('x' * 9)").truncated
        assert sandbox.run("while True: print('x' * 1000)").error == "wrote far too much output"


def test_bytes_that_are_no_text_become_text(sandbox):
    result = sandbox.run("import os\nos.write(1, bytes([255, 254, 65]))\nprint('\\ud800')\nNone")
    assert result.stdout.encode()
    assert "A" in result.stdout


def test_code_that_is_not_code_is_a_result(sandbox):
    assert sandbox.run(None).error == "code must be text, got NoneType"
    assert "at most" in sandbox.run("#" * 1_000_001).error
    for code in ("\x00", "\ud800", "'" * 3, "\\", "é = 1; é", "(" * 10_000):
        assert isinstance(sandbox.run(code), SandboxResult)


def test_calls_share_no_state(sandbox):
    sandbox.run("import builtins\nbuiltins.print = None\nx = 1")
    result = sandbox.run("print('x' in globals())")
    assert result.stdout == "False\n"
    code = "import random\nprint(random.random(), hash('a'), {'b', 'c', 'd'})"
    assert sandbox.run(code).stdout == sandbox.run(code).stdout


def test_memory_is_bounded(sandbox):
    with Sandbox(isolation=sandbox.isolation, memory_mb=128) as small:
        code = "x = bytearray(200 * 2**20)"
        assert small.run(code).error == "MemoryError"
        assert sandbox.run(code).ok


def test_processor_time_is_bounded_too(walled):
    code = "import resource\nprint(resource.getrlimit(resource.RLIMIT_CPU))"
    assert walled.run(code, timeout=20.5).stdout == "(22, 22)\n"


def test_disk_files_and_tasks_are_bounded():
    need("namespaces")
    disk = "n = open('f', 'wb').write(b'x' * 3 * 2**20)"
    many = "import os\nfor i in range(99): os.mkdir(str(i))"
    threads = (
        "import threading\nn = 0\ntry:\n    for n in range(40):\n"
        "        threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "except RuntimeError: pass\nprint(n)"
    )
    with Sandbox(isolation="namespaces", disk_mb=1, files=20, tasks=8) as small:
        assert "OSError" in small.run(disk).error
        assert "No space left" in small.run(many).error
        assert small.run(threads).stdout == "7\n"
    with Sandbox(isolation="namespaces", disk_mb=8, files=200) as larger:
        assert larger.run(disk).ok
        assert larger.run(many).ok
        assert larger.run(threads).stdout == "31\n"


def test_the_read_setting_opens_more_folders(sandbox, tmp_path):
    tmp_path.chmod(0o755)  # the code of a root user runs as nobody
    (tmp_path / "helper_module.py").write_text("value = 17\n")
    code = "import helper_module\nhelper_module.value"
    assert "ModuleNotFoundError" in sandbox.run(code).error
    with Sandbox(isolation=sandbox.isolation, read=[str(tmp_path)]) as wider:
        assert wider.run(code).stdout == "17\n"


def test_modules_can_be_preloaded():
    with Sandbox(isolation="none", preload=["calendar"]) as warm:
        assert warm.run("import sys\n'calendar' in sys.modules").stdout == "True\n"
    with Sandbox(isolation="none") as cold:
        assert cold.run("import sys\n'calendar' in sys.modules").stdout == "False\n"
    with pytest.raises(SandboxError, match="no_such_module"):
        Sandbox(isolation="none", preload=["no_such_module"]).run("1")


def test_code_can_write_in_its_own_folder(walled):
    code = (
        "import os, tempfile\nopen('mine.py', 'w').write('x = 4')\nimport mine\n"
        "tempfile.TemporaryFile().write(b'x')\n"
        "print(mine.x, os.listdir('.'), os.getcwd() == os.path.expanduser('~'))"
    )
    assert walled.run(code).stdout == "4 ['mine.py'] True\n"


@pytest.mark.skipif(sys.prefix.startswith("/tmp/"), reason="the interpreter lies in /tmp")
def test_files_written_to_tmp_are_in_its_own_folder(walled):
    code = "import os\nopen('/tmp/f', 'w').write('x')\nprint(os.listdir('.'))"
    assert walled.run(code).stdout == "['f']\n"
    assert not os.path.exists("/tmp/f")


def test_calls_from_many_threads_do_not_mix(sandbox):
    with ThreadPoolExecutor(8) as threads:
        code = "import time\ntime.sleep(0.01 * {0})\nprint({0})"
        results = threads.map(lambda n: sandbox.run(code.format(n % 5)).stdout, range(24))
        assert list(results) == [f"{n % 5}\n" for n in range(24)]


def test_a_worker_that_was_killed_is_replaced(sandbox):
    sandbox.run("1")
    process = sandbox._worker.process
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = threading.Event()
    for _ in range(1000):
        try:
            assert sandbox.run("print(2)").stdout == "2\n"
            break
        except SandboxError:  # its socket closes a moment after it is gone
            deadline.wait(0.02)
    else:
        pytest.fail("the sandbox did not recover")
    assert sandbox._worker.process.pid != process.pid


def test_a_closed_sandbox_opens_again():
    sandbox = Sandbox(isolation="none")
    sandbox.run("1")
    folder = sandbox._worker.folder
    sandbox.close()
    sandbox.close()
    assert not os.path.exists(folder)
    assert sandbox.run("print(3)").stdout == "3\n"
    sandbox.close()


def test_a_session_keeps_its_variables_over_errors_and_exits(sandbox):
    with sandbox.session() as session, sandbox.session() as other:
        assert session.run("x = 20\ndef double(): return 2 * x").ok
        assert session.run("x += 1\ndouble()").stdout == "42\n"
        assert "NameError" in other.run("x").error
    with sandbox.session() as session:
        session.run("x = 5")
        assert not session.run("1 / 0").ok
        assert session.run("import sys; sys.exit(2)").exit_code == 2
        assert session.run("x").stdout == "5\n"
        assert session.restarts == 0


def test_a_session_restarts_after_a_timeout_or_exit(sandbox):
    with sandbox.session() as session:
        session.run("x = 5")
        assert session.run("while True: pass", timeout=0.2).timed_out
        assert session.restarts == 1
        assert "NameError" in session.run("x").error
        assert session.run("import os; os._exit(0)").ok
        assert session.restarts == 2


def test_a_session_quotes_the_run_that_defined_a_function(sandbox):
    with sandbox.session() as session:
        session.run("def f():\n    return 1 / 0")
        assert "    return 1 / 0" in session.run("x = 1\nf()").stderr


def test_a_session_does_nothing_between_runs(sandbox):
    pauses = (
        "import threading, time\nlongest = 0.0\ndef tick():\n    global longest\n"
        "    last = time.monotonic()\n    while True:\n        time.sleep(0.001)\n"
        "        last, before = time.monotonic(), last\n"
        "        longest = max(longest, last - before)\n"
        "threading.Thread(target=tick, daemon=True).start()\n"
        "while not longest: time.sleep(0.001)"
    )
    with sandbox.session() as session:
        assert session.run(pauses).ok
        threading.Event().wait(0.5)
        assert session.run("while longest < 0.4: time.sleep(0.001)").ok  # or it runs out of time
