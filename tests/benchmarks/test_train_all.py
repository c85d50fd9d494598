"""Training every family: examples are found, rows survive, the page says what is."""

import json
from types import SimpleNamespace

import pytest

from benchmarks.learn import train_all as script
from benchmarks.learn import train_all_page as made
from benchmarks.learn import train_one as one


def row(env_id="llm_gym/Echo-v0", before=0.1, after=0.9, **other):
    at = {"random_weights": 0.0, "warm_start": before, "trained": after, "best": after}
    return {
        "env_id": env_id,
        "cpu_s": 12.3,
        "exit": 0,
        "episodes": 640,
        "success": at,
        "return": at,
        "unusable": {"random_weights": 1.0, "warm_start": 0.1, "trained": 0.0},
        "solver": {"success": 1.0},
        "curve": [before, after],
        "advice": [],
        "fresh": True,
        "stopped": False,
        **other,
    }


def test_examples_are_the_training_commands_of_code_blocks_that_need_nothing_else():
    page = """`llm-gym train in/Prose-v0` and
```bash
llm-gym train a/B-v0   # a comment
llm-gym train a/C-v0 --view
llm-gym train a/D-v0 \\
    --model.model-name path/to/model
llm-gym train ENV --help-settings
llm-gym eval a/E-v0 --model x
```
"""
    assert list(script.examples_in(page)) == ["llm-gym train a/B-v0", "llm-gym train a/C-v0"]


def test_readme_and_docs_have_examples_and_every_family_is_there():
    commands = script.commands()
    assert len(script.FAMILIES) == 30
    assert len(script.FOREIGN) == 4
    assert len(commands) == len(set(commands))
    assert set(script.examples()) < set(commands)
    assert "llm-gym train llm_gym/Echo-v0" in script.examples()


@pytest.mark.slow
def test_a_command_that_fails_is_a_row_that_says_so():
    failed = one.train("llm-gym train llm_gym/NoSuchGame-v0")
    assert failed["exit"] == 2
    assert "NoSuchGame" in failed["error"]


@pytest.mark.slow
def test_a_command_that_runs_is_a_row_with_its_numbers():
    made = one.train("llm-gym train llm_gym/Echo-v0 --smoke --warm-start.turns 50")
    assert made["exit"] == 0
    assert made["env_id"] == "llm_gym/Echo-v0"
    assert made["solver"] == {"success": 1.0}
    assert made["cpu_s"] > 0
    assert 0.0 <= made["success"]["warm_start"] <= 1.0
    assert 0.0 <= made["success"]["trained"] <= 1.0
    assert made["fresh"]
    assert made["imitated"] == "random"
    assert len(made["curve"]) == 1


def test_what_is_missing_comes_first_and_then_what_was_cut_without_a_word():
    rows = {
        "learned": row(planned=40),
        "said": row(after=0.1, planned=40, advice=["take an easier level"]),
        "mute": row(after=0.1, planned=40),
        "broken": {"error": "killed"},
    }
    assert script.missing(["mute", "said", "learned", "broken", "new"], rows) == [
        "broken",
        "new",
        "mute",
    ]


def test_the_page_in_the_docs_is_that_of_the_results():
    kept = script.load(script.RESULT)
    unknown = {"error": "not measured yet"}
    rows = {each: kept["rows"].get(each, unknown) for each in script.commands()}
    shown = made.page(rows, set(script.examples()), kept["provenance"])
    assert made.PAGE.read_text() == shown, "run: python -m benchmarks.learn.train_all --page"


def test_what_is_done_again_keeps_its_row_until_it_is_known_better(monkeypatch, tmp_path):
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


def test_a_command_gets_no_more_time_than_is_left(monkeypatch):
    monkeypatch.setattr(script, "time", SimpleNamespace(time=lambda: 1000.0))
    job = next(iter(script.jobs(["llm-gym train a"], 60)))
    assert job.key == job.command[-2] == "llm-gym train a"
    assert float(job.command[-1]) == 1060 - script.SUMMED_UP


def test_advice_is_what_was_printed_each_sentence_once():
    said = "advice: raise it\nsomething\nadvice: raise it\nadvice: lower it\nno advice: here\n"
    assert one.advice(said) == ["raise it", "lower it"]


def test_the_page_counts_gains_and_explains_what_gained_little():
    little = row("llm_gym/Count-v0", 0.1, 0.2, advice=["take an easier level"], solver=None)
    paid = {"random_weights": 12.0, "warm_start": 40.75, "trained": 100.0}
    cart = row("CartPole-v1", 0.0, 0.0, **{"return": paid})
    rows = {
        "llm-gym train llm_gym/Echo-v0": row(),
        "llm-gym train llm_gym/Count-v0": little,
        "llm-gym train CartPole-v1": cart,
        "llm-gym train text-game-easy": row("llm_gym/TextGameEasy-v0"),
        "llm-gym train llm_gym/Memory-v0": {"error": "killed"},
    }
    shown = {"llm-gym train llm_gym/Echo-v0", "llm-gym train text-game-easy"}
    page = made.page(rows, shown, None)
    assert "on 1 of 2 families and on 1 of 1 other environments" in page
    assert "| `CartPole-v1`\\* | 0 (12) | 25 (41) | 100 (100) | +75 |" in page
    assert "- `llm_gym/Count-v0`: take an easier level" in page
    assert "| `llm-gym train text-game-easy` | 10 | 90 | 12 |" in page
    assert "- `llm-gym train llm_gym/Memory-v0`: killed" in page


def test_the_page_marks_what_is_not_like_the_rest():
    high = {"random_weights": 0.0, "warm_start": 0.3, "trained": 0.8, "best": 0.83}
    rows = {
        "llm-gym train llm_gym/Echo-v0": row(success=high),
        "llm-gym train llm_gym/Count-v0": row(stopped=True, imitated="solver"),
        "llm-gym train llm_gym/Memory-v0": row(cpus=2, fresh=False),
    }
    page = made.page(rows, set(), None)
    assert "| `llm_gym/Echo-v0` |" in page
    assert "| `llm_gym/Count-v0`‡ |" in page
    assert "| `llm_gym/Memory-v0`†§ |" in page
    assert "on average 3.0 points above what the same weights" in page
    assert "Over 1 runs" in page
