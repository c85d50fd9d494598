"""Training every family: examples are found, rows survive."""

import json

import pytest

from benchmarks.learn import train_all as script
from benchmarks.learn import train_one as one


def row(after=0.9):
    return {"success": {"trained": after}}


def test_examples_are_the_training_commands_of_code_blocks_that_need_nothing_else():
    page = """`llm-gym train in/Prose-v0` and
```bash
llm-gym train a/B-v0   # a comment
llm-gym train a/C-v0 --view
llm-gym train a/D-v0 \\
    --model path/to/model
llm-gym train ENV --help-settings
llm-gym eval a/E-v0 --model x
```
"""
    assert list(script.examples_in(page)) == ["llm-gym train a/B-v0", "llm-gym train a/C-v0"]


def test_readme_and_docs_have_examples_and_every_family_is_there():
    commands = script.commands()
    assert len(script.FAMILIES) == 30
    assert len(script.FOREIGN) == 8
    assert len(commands) == len(set(commands))
    assert set(script.examples()) < set(commands)
    assert "llm-gym train llm_gym/Echo-v0" in script.examples()


@pytest.mark.slow
def test_a_training_command_gives_a_row_of_numbers():
    made = one.train("llm-gym train llm_gym/Echo-v0 --smoke --warm-start.turns 50")
    assert made["exit"] == 0
    assert made["env_id"] == "llm_gym/Echo-v0"
    assert made["solver"] == {"success": 1.0}
    assert made["cpu_s"] > 0
    assert 0.0 <= made["success"]["warm_start"] <= 1.0
    assert 0.0 <= made["success"]["trained"] <= 1.0
    assert made["fresh"]
    assert made["imitated"] == "solver"
    assert len(made["curve"]) == 1


def test_a_failed_repeat_keeps_the_old_row(monkeypatch, tmp_path):
    place = tmp_path / "rows.json"
    place.write_text(json.dumps({"rows": {"llm-gym train a": row(), "llm-gym train b": row()}}))
    monkeypatch.setattr(script, "ONE", (str(tmp_path / "one.py"),))
    (tmp_path / "one.py").write_text(
        "import json, sys\nif sys.argv[1].endswith('b'): raise OSError('no such thing')\n"
        "print(json.dumps({'success': {'trained': 0.5}}))"
    )
    monkeypatch.setattr(script.sys, "argv", ["x", "a", "b", "c", "--results", str(place)])
    script.main()
    kept = json.loads(place.read_text())["rows"]
    assert kept.keys() == {"llm-gym train a", "llm-gym train b", "llm-gym train c"}
    assert kept["llm-gym train a"]["success"] == kept["llm-gym train c"]["success"]
    assert kept["llm-gym train b"] == row()


@pytest.mark.parametrize(
    ("lows", "end"), [([], 0.7), ([0.4, 0.5], 0.7), ([0.4, 0.8, 0.75], 0.9), ([0.6], 0.7)]
)
def test_a_stopped_run_reports_the_weights_that_it_keeps(lows, end):
    evaluated = [{"eval/success": low + 0.1, "eval/success_low": low} for low in lows]
    found = one.kept({"eval/success": 0.7}, {"warm_start/success_low": 0.6}, evaluated)
    assert found["eval/success"] == pytest.approx(end)
