"""A run's model and episodes on a hub; a local stand-in answers its HTTP API."""

import base64
import json

import gymnasium as gym
import pytest

import llm_gym
from llm_gym.core.errors import ConfigError
from llm_gym.episodes import write_episodes
from llm_gym_agents.commands.export import main
from tests.local_http import LocalHandler, LocalServer

GUESS = "llm_gym/GuessTheNumber-v0"


class _Hub(LocalHandler):
    """Creates repositories and takes commits, as huggingface_hub asks for."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/api/repos/create":
            repository = json.loads(body)
            self.server.created.append(repository)
            name = f"{repository.get('organization', 'me')}/{repository['name']}"
            kind = "datasets/" * (repository.get("type") == "dataset")
            return self.say(200, {"url": f"{self.server.url}/{kind}{name}", "name": name})
        if "/preupload/" in self.path:
            files = json.loads(body)["files"]
            regular = {"uploadMode": "regular", "shouldIgnore": False}
            return self.say(200, {"files": [{"path": one["path"], **regular} for one in files]})
        if "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    content = base64.b64decode(line["value"]["content"])
                    self.server.files[line["value"]["path"]] = content
            return self.say(
                200,
                {
                    "commitUrl": f"{self.server.url}/me/game/commit/0",
                    "commitOid": "0",
                    "success": True,
                },
            )
        return self.say(200, {"errors": [], "warnings": []})

    def do_GET(self):
        self.say(404, {"error": "not here"})


@pytest.fixture
def hub(monkeypatch):
    hf = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hf.constants, "HF_HUB_OFFLINE", False)
    with LocalServer(_Hub) as server:
        server.created, server.files = [], {}
        api = hf.HfApi(endpoint=server.url, token="hf_test")
        for name in ("create_repo", "upload_folder"):
            monkeypatch.setattr(hf, name, getattr(api, name))
        yield server


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    (folder / "final").mkdir(parents=True)
    for name in ("config.json", "README.md", "manifest.json"):
        (folder / "final" / name).write_text("{}")
    env = gym.make(GUESS)
    played = [
        llm_gym.play_episode(env, lambda _: env.unwrapped.solver_action(), seed)
        for seed in range(3)
    ]
    write_episodes(folder / "episodes" / "train-000001.jsonl", played[:2])
    write_episodes(folder / "episodes" / "after.jsonl", played[2:])
    return folder


def test_the_model_of_a_run_reaches_the_hub(run, hub, capsys):
    assert main(["hub", str(run), "me/game"]) == 0
    assert "me/game" in capsys.readouterr().out
    assert hub.created[0].get("visibility", "private") == "private"
    assert sorted(hub.files) == ["README.md", "config.json"]


@pytest.mark.parametrize("name", ["final/notes.txt", "final"])
def test_a_link_uploads_nothing_from_elsewhere(run, hub, tmp_path, name):
    secrets = tmp_path / "secrets"
    (run / "final").rename(secrets)
    (secrets / "key").write_text("my only key")
    if name != "final":
        (run / "final").mkdir()
        (run / "final/config.json").write_text("{}")
    (run / name).symlink_to(secrets if name == "final" else secrets / "key")
    with pytest.raises(ConfigError, match="a link to"):
        main(["hub", str(run), "me/game"])
    assert hub.files == {}


def test_recorded_episodes_are_uploaded_as_a_dataset(run, hub, tmp_path):
    out = tmp_path / "records"
    assert main(["records", str(run), "--out", str(out)]) == 0
    rows = [json.loads(line) for line in (out / "data/train.jsonl").read_text().splitlines()]
    assert [row["seed"] for row in rows] == [0, 1]
    assert rows[0]["messages"][-1]["role"] in ("assistant", "user")
    assert main(["hub", str(out), "me/episodes"]) == 0
    assert hub.created[0]["type"] == "dataset"
    assert sorted(hub.files) == ["README.md", "data/after.jsonl", "data/train.jsonl"]
    datasets = pytest.importorskip("datasets")
    loaded = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))
    assert {name: len(split) for name, split in loaded.items()} == {"train": 2, "after": 1}


def test_wrong_folders_and_names_are_refused(run, hub, tmp_path):
    for arguments, what in (
        (["hub", str(run)], "OWNER/NAME"),
        (["hub", str(tmp_path), "me/game"], "finished run"),
        (["records", str(tmp_path)], "recorded episodes"),
    ):
        with pytest.raises(ConfigError, match=what):
            main(arguments)
    with pytest.raises(ConfigError, match="hub did not take"):
        main(["hub", str(run), "no/such/name"])
    assert hub.created == []
