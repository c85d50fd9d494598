"""Refused settings, machines that cannot isolate code, and ``llm-gym check sandbox``."""

import pytest

from llm_gym.cli import main
from llm_gym.core.errors import ConfigError
from llm_gym.tools.sandbox import Sandbox, SandboxError, check, sandbox
from llm_gym.tools.sandbox.check import PROBES, Finding
from tests.tools.sandbox.sandboxes import ISOLATED, refusal


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("isolation", "jail"), ("timeout", 0), ("timeout", float("inf")), ("memory_mb", 1),
        ("disk_mb", 0), ("files", 3), ("tasks", 0), ("output_chars", 0),
    ],
)  # fmt: skip
def test_bad_settings_are_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        Sandbox(**{name: value})


def test_nothing_runs_without_isolation_or_outside_linux(monkeypatch):
    def refuse(*_):
        raise SandboxError("not on this machine")

    monkeypatch.setattr(sandbox, "SandboxWorker", refuse)
    with pytest.raises(SandboxError, match=r'namespaces: not.*landlock: not.*isolation="none"'):
        Sandbox().run("print(1)")
    monkeypatch.setattr("sys.platform", "win32")
    for isolation in ("auto", "none"):
        with pytest.raises(SandboxError, match="Linux"):
            Sandbox(isolation=isolation).run("print(1)")


def test_auto_runs_isolated_or_not_at_all():
    if all(refusal(isolation) for isolation in ISOLATED):
        with pytest.raises(SandboxError, match="cannot be isolated"):
            Sandbox().run("print(1)")
        return
    with Sandbox() as sandbox:
        assert sandbox.mechanism in ISOLATED
        assert not sandbox.run("open('/etc/passwd')").ok


def test_check_sandbox_names_the_isolation_and_counts_contained_attempts(monkeypatch, capsys):
    if refusal("auto"):
        assert main(["check", "sandbox"]) == 2
        assert "cannot be isolated" in capsys.readouterr().err
        return
    probes = {name: PROBES[name] for name in ("read a file outside", "start a process")}
    monkeypatch.setattr(check, "PROBES", {**probes, "do nothing": "1"})
    assert main(["check", "sandbox"]) == 0
    out = capsys.readouterr().out
    assert "isolated by " in out
    assert "held     read a file outside" in out
    assert "held     do nothing" in out
    assert "2 of 2 ways" in out  # what fails without isolation too is not counted
    assert main(["check", "sandbox", "--isolation", "none"]) == 2
    assert "--isolation must be one of" in capsys.readouterr().err


def test_check_sandbox_fails_after_an_escape(monkeypatch, capsys):
    if refusal("auto"):
        pytest.skip(refusal("auto"))
    found = [Finding("a way out", False, "it is out"), Finding("another", True)]
    monkeypatch.setattr(check, "check_isolation", lambda sandbox: found)
    assert main(["check", "sandbox"]) == 1
    assert "ESCAPED  a way out: it is out" in capsys.readouterr().out
