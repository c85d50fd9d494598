"""Folders of runs that came from somewhere: nothing in them runs, and nothing of them is lost."""

import os
import re
import shutil

import pytest

from llm_gym import cli
from llm_gym.core.errors import ConfigError
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.config.schema import SECTIONS
from llm_gym_agents.config.trust import untrusted
from llm_gym_agents.run.files import WRITTEN, RunLock, check_links
from llm_gym_agents.run.metrics import read_metrics
from tests.agents.commands.conftest import SMALL, changed
from tests.agents.small_run import config_with


@pytest.mark.parametrize(
    ("sections", "why"),
    [
        ({"model": {"trust_remote_code": True}}, "trust_remote_code"),
        ({"model": {"model_name": "somebody/model"}}, "model_name"),
        ({"environment": {"env_id": "planted:llm_gym/Echo-v0"}}, "'planted'"),
        ({"environment": {"env_kwargs": {"path": "/etc/passwd"}}}, "path"),
        ({"inference": {"backend": "sglang", "engine": {"arguments": ["--x"]}}}, "engine"),
        ({"ray": {"use_ray": True, "address": "ray://elsewhere:10001"}}, "ray.address"),
        ({"checkpoint": {"tracker": "wandb/stolen"}}, "tracker"),
        ({"warm_start": {"player": "/home/me/secrets.jsonl"}}, "warm_start.player"),
    ],
    ids=lambda part: str(part)[:40],
)
def test_resuming_a_foreign_folder_runs_none_of_its_code(run, capsys, monkeypatch, sections, why):
    changed(run, training={"num_epochs": 2}, **sections)
    planted = run.parent / "planted.py"
    planted.write_text(f"open({str(run.parent / 'ran')!r}, 'w')")
    monkeypatch.chdir(run.parent)
    assert cli.main(["resume", str(run)]) == 2
    printed = capsys.readouterr().err
    assert why in printed
    assert "--trust" in printed
    assert not (run.parent / "ran").exists()


HARMLESS_TEXT = {"inference.system_prompt", "checkpoint.output_dir", "model.device"}


def test_every_setting_is_harmless_by_its_type_or_needs_trust():
    """Of new settings, too: text that no type lists, and numbers that no machine has."""
    for section, cls in SECTIONS.items():
        for name in cls.model_fields:
            for value in ("elsewhere.example", "../../x", "/etc/passwd", "a:b", 10**9):
                config = ConfigStore()
                try:
                    setattr(getattr(config, section), name, value)
                except ConfigError:
                    continue
                full = f"{section}.{name}"
                expected = full not in {*HARMLESS_TEXT, "training.seed"}
                is_number = isinstance(getattr(getattr(config, section), name), float)
                assert bool(untrusted(config)) == (expected and not is_number), (full, value)


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("llm_gym/Dataset-v0", {"dataset": "/home/me/secrets.csv"}),
        ("llm_gym/Dataset-v0", {"dataset": "../secrets.csv"}),
        ("llm_gym/Dataset-v0", {"dataset": {"train": "hf://some/where.jsonl"}}),
        ("llm_gym/Remote-v0", {"url": "elsewhere"}),
        ("llm_gym/TextArena-v0", {"env_id": "Wordle"}),
        ("llm_gym/AsText-v0", {"env_id": "planted:X"}),
        ("llm_gym/Echo-v0", {"length": 10**7}),
        ("Nothing-v0", {}),
    ],
)
def test_unlisted_environments_and_kwargs_need_trust(env_id, kwargs):
    assert untrusted(config_with(environment__env_id=env_id, environment__env_kwargs=kwargs))


def test_harmless_settings_need_no_trust():
    config = ConfigStore()
    config.environment.env_id = "llm_gym/Echo-v0"
    config.environment.env_kwargs = {"length": 3, "words": "a b"}
    config.training.adv_estimator, config.training.seed = "grpo", 2**40
    config.inference.system_prompt = "Play well: https://example.com"
    config.warm_start.player = "solver"
    assert untrusted(config) == ""
    config.environment.env_id = "mine:llm_gym/Echo-v0"
    assert untrusted(config, ["mine"]) == ""
    assert untrusted(config, env="mine:llm_gym/Echo-v0") == ""


# --- links ---------------------------------------------------------------------------------


def outside(tmp_path):
    """A folder with a file that must not be lost."""
    place = tmp_path / "home"
    place.mkdir()
    (place / "key").write_text("my only key")
    return place


FILES = (".lock", "curve.png", "metrics.jsonl", "config.json", "warm_start.jsonl")
FOLDERS = ("tensorboard", "episodes", "checkpoints", "warm-start", "final", ".final.aside")
NESTED = ("episodes/before.jsonl", "checkpoints/iteration-000001/model", "tensorboard/more")


@pytest.mark.parametrize("name", [*FILES, *FOLDERS, *NESTED])
@pytest.mark.parametrize("target", ["key", "new"])
def test_a_link_out_of_a_run_folder_is_refused_before_anything_is_written(
    run, tmp_path, capsys, name, target
):
    changed(run, training={"num_epochs": 2})
    home = outside(tmp_path)
    place = run / name
    if place.is_dir():
        shutil.move(place, tmp_path / "aside")
    place.unlink(missing_ok=True)
    place.symlink_to(home if name in FOLDERS else home / target)
    assert cli.main(["resume", str(run)]) == 2
    assert str(place) in capsys.readouterr().err
    with pytest.raises(ConfigError, match="own folder"):
        RunLock(run).acquire()  # as ``train --out`` and ``fit`` do
    assert [path.name for path in home.iterdir()] == ["key"]
    assert (home / "key").read_text() == "my only key"


def test_resume_ignores_a_folder_that_is_not_a_checkpoint(run):
    (run / "checkpoints/iteration-²").mkdir()  # a digit that is no number
    assert cli.main(["resume", str(run)]) == 0


@pytest.mark.parametrize(
    ("name", "command", "named"),
    [
        ("config.json", "resume RUN", "config.json"),
        ("metrics.jsonl", "train llm_gym/Echo-v0 --out RUN", "metrics.jsonl"),
        ("config.json", "play --model RUN", "run"),
        ("config.json", "eval llm_gym/Echo-v0 --episodes 1 --model RUN", "run"),
        ("final/tokenizer.json", "play --model RUN", "run"),
        ("final/config.json", "export hub RUN me/game", "run"),
    ],
)
def test_a_named_pipe_in_a_run_folder_is_an_error(run, capsys, name, command, named):
    (run / name).unlink()
    os.mkfifo(run / name)
    assert cli.main([word if word != "RUN" else str(run) for word in command.split()]) == 2
    assert named in capsys.readouterr().err


def test_named_pipes_are_neither_configs_nor_records(run, tmp_path, capsys):
    os.mkfifo(tmp_path / "a.yaml")
    with pytest.raises(ConfigError, match="pipe"):
        ConfigStore.load(tmp_path / "a.yaml")
    os.mkfifo(run / "episodes" / "train-000099.jsonl")
    assert cli.main(["export", "records", str(run), "--out", str(tmp_path / "data")]) == 0
    assert "episodes" in capsys.readouterr().out


def test_hard_linked_files_are_replaced_and_not_overwritten(run, tmp_path, capsys):
    changed(run, training={"num_epochs": 2})
    (run / ".lock").unlink()
    kept = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for number, path in enumerate(kept):
        (tmp_path / f"{number}").hardlink_to(path)
        (tmp_path / f"{number}").chmod(0o600)
    assert cli.main(["resume", str(run)]) == 0
    for number, data in enumerate(kept.values()):
        assert (tmp_path / f"{number}").read_bytes() == data
        assert (tmp_path / f"{number}").stat().st_mode & 0o777 == 0o600


def test_a_hard_linked_lock_is_refused(run, tmp_path):
    (run / ".lock").unlink(missing_ok=True)
    (tmp_path / "key").write_text("my only key")
    (run / ".lock").hardlink_to(tmp_path / "key")
    with pytest.raises(ConfigError, match="lock"):
        RunLock(run).acquire()
    assert (tmp_path / "key").read_text() == "my only key"


def test_written_files_are_listed_and_links_inside_the_folder_are_allowed(run, tmp_path):
    assert {path.name.lstrip(".").split(".")[0] for path in run.iterdir()} <= WRITTEN
    (run / "wandb").mkdir()
    (run / "wandb/latest-run").symlink_to("run-1")
    (tmp_path / "link").symlink_to(run)
    check_links(tmp_path / "link")


def test_a_run_killed_before_its_first_checkpoint_starts_over(run, capsys):
    shutil.rmtree(run / "checkpoints")
    shutil.rmtree(run / "warm-start", ignore_errors=True)
    assert cli.main(["resume", str(run)]) == 2
    assert "again" in capsys.readouterr().err
    again = ["train", "llm_gym/Echo-v0", "--smoke", *SMALL, "--checkpoint.output-dir", str(run)]
    assert cli.main(again) == 0
    assert "before its first checkpoint" in " ".join(capsys.readouterr().out.split())
    assert [row["iteration"] for row in read_metrics(run)] == [1]
    assert (run / "checkpoints/iteration-000001").is_dir()


def test_a_run_in_progress_is_refused_before_anything_is_told(run, capsys):
    changed(run, training={"num_epochs": 2})
    lock = RunLock(run)
    lock.acquire()
    assert cli.main(["resume", str(run)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert re.fullmatch(r"llm-gym: .* is being trained in by process \d+; wait for it\n", told.err)
    lock.release()
