"""The viewer's server: who may read what, the API, and the command."""

import http.client
import json
import re
import subprocess
import sys
import webbrowser
from urllib.request import urlopen

import pytest

from llm_gym import cli
from llm_gym.core.errors import RecordError
from llm_gym.episodes import write_episodes
from llm_gym.view import live_server
from llm_gym.view import server as server_module
from llm_gym.view.api import play_on
from llm_gym.view.live_server import open_browser, serve_live
from tests.cli.errors import refused
from tests.processes import run_python
from tests.view.records import HOSTILE, METRICS, hostile, make_run, played, serving, with_tokens


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("view")
    run = make_run(folder / "run")
    (folder / "secret.txt").write_text("not for you")
    write_episodes(folder / "hostile.jsonl", [hostile()])
    with serving(run, folder / "hostile.jsonl") as server:
        yield server


def ask(server, path, method="GET", body=None, host=None, raw=False, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    headers["Host"] = host or f"127.0.0.1:{server.server_port}"
    if not raw:
        path = f"/{server.secret}/{path}"
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer, data


def ask_json(server, path):
    answer, data = ask(server, path)
    return answer.status, json.loads(data)


def ask_to_play(server, body, Content_Type="application/json", **headers):
    return ask(server, "api/play", "POST", body, Content_Type=Content_Type, **headers)


def test_the_page_and_its_modules_are_served_on_loopback_with_a_strict_policy(server):
    assert server.server_address[0] == "127.0.0.1"
    for name in ("", "index.html", "app.js", "style.css", "icon.svg"):
        answer, data = ask(server, name)
        assert answer.status == 200
        assert data
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http:" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "0.0.0.0:{port}"]
)
def test_another_host_header_is_refused(server, host):
    answer, data = ask(server, "", host=host.format(port=server.server_port))
    assert answer.status == 403
    assert b"own page alone" in data


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}"])
def test_a_page_of_another_origin_is_refused(server, origin):
    origin = origin.format(port=server.server_port)
    assert ask(server, "api/sources", Origin=origin)[0].status == 403
    body = json.dumps({"source": 0, "file": 0, "line": 1, "turn": 0, "moves": []})
    assert ask_to_play(server, body, Origin=origin)[0].status == 403
    assert ask(server, "api/sources", Sec_Fetch_Site="cross-site")[0].status == 403
    mine = f"http://127.0.0.1:{server.server_port}"
    assert ask(server, "api/sources", Origin=mine, Sec_Fetch_Site="same-origin")[0].status == 200


@pytest.mark.parametrize("path", ["/", "/index.html", "/wrong/", "/api/sources", "*", "//"])
def test_without_the_secret_every_path_is_refused(server, path):
    answer, data = ask(server, path, raw=True)
    assert answer.status == 403
    assert b"printed" in data


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt", "..%2fsecret.txt", "static/app.js", "/etc/passwd", "api/", "api/about",
        "api/play", "assets.py", "config.json",
    ],
)  # fmt: skip
def test_other_paths_are_not_served(server, path):
    answer, data = ask(server, path)
    assert answer.status == 404
    assert b"not for you" not in data


def test_the_api_returns_the_contents_of_the_files(server):
    status, about = ask_json(server, "api/sources")
    assert status == 200
    assert [source["name"] for source in about["sources"]] == ["run", "hostile.jsonl"]
    assert about["sources"][0]["config"] == {"training.gamma": 0.9}
    assert [row["loss"] for row in about["sources"][0]["warm_start"]] == [4.0, 2.0]
    _, metrics = ask_json(server, "api/metrics?source=0&from=0&generation=-1")
    assert metrics["rows"] == METRICS
    later = f"api/metrics?source=0&from=1&generation={metrics['generation']}"
    assert ask_json(server, later)[1]["rows"] == METRICS[1:]
    _, listed = ask_json(server, "api/episodes?source=0")
    names = [(file["name"], len(file["rows"])) for file in listed["files"]]
    assert names == [("before", 3), ("train-000001", 2), ("after", 3)]
    assert "files" not in ask_json(server, f"api/episodes?source=0&version={listed['version']}")[1]


def test_a_record_is_served_as_it_stands_in_its_file(server):
    path = server.api.sources[0].files[1].path
    lines = path.read_bytes().splitlines()
    for line, wanted in enumerate(lines, 1):
        assert ask(server, f"api/episode?source=0&file=1&line={line}")[1] == wanted


def test_search_finds_words_in_every_source(server):
    assert ask_json(server, "api/search?words=go+north")[1] == [[0, 1, 1], [0, 1, 2]]
    assert ask_json(server, "api/search?words=ONERROR")[1] == [[1, 0, 1]]


@pytest.mark.parametrize(
    "question",
    [
        *("api/episode?source=9&file=0&line=1", "api/episode?source=-1&file=0&line=1"),
        *("api/episode?source=0&file=-1&line=1", "api/episode?source=0&file=0&line=99"),
        *("api/episode?source=0&file=0", "api/episode?source=x"),
        *(f"api/metrics?source=0&from={'9' * 5000}", f"api/sources?{'a=b&' * 50}"),
    ],
)
def test_an_invalid_query_gets_one_sentence(server, question):
    status, answer = ask_json(server, question)
    assert status == 400
    assert len(answer["error"]) < 300


def test_play_on_is_a_json_post(server):
    request = {"source": 0, "file": 0, "line": 1, "turn": 1, "moves": ["3"]}
    answer, data = ask_to_play(server, json.dumps(request))
    assert answer.status == 200
    assert [turn["action"] for turn in json.loads(data)["turns"]] == ["3"]
    for broken in ("{", "[]", json.dumps(request | {"moves": [1]}), "[" * 100_000):
        assert ask_to_play(server, broken)[0].status == 400
    assert ask_to_play(server, "{}", Content_Type="text/plain")[0].status == 404


def test_a_body_that_is_too_large_is_not_read(server, monkeypatch):
    monkeypatch.setattr(server_module, "MAX_BODY", 10)
    assert ask_to_play(server, "x" * 11)[0].status == 413
    assert ask_json(server, "api/sources")[0] == 200


def test_wrong_arguments_of_view_are_explained(tmp_path, capsys):
    nothing = str(tmp_path / "nothing")
    assert "there is no such file or folder" in refused(capsys, "view", nothing)
    run, error = str(make_run(tmp_path / "run")), refused(capsys, "view", str(tmp_path))
    assert f"holds no run and no episodes; name a run in it, such as {run}" in error
    assert "--limit" in refused(capsys, "view", run, "--limit", "3")
    assert "--port" in refused(capsys, "view", run, "--port", "99999")


def test_view_exports_a_single_file(tmp_path, capsys):
    write_episodes(tmp_path / "mine.jsonl", [played(1)])
    page = tmp_path / "pages/report.html"
    assert cli.main(["view", str(tmp_path / "mine.jsonl"), "--export", str(page)]) == 0
    assert "open it in any browser" in capsys.readouterr().out
    assert page.stat().st_size > 10_000


def test_play_on_gives_the_state_before_the_turn_and_the_recorded_end():
    episode = played(1)
    for turn, state in enumerate(episode.states[:-1]):
        play = play_on(episode, turn, [])
        assert (play["state"], play["done"], play["note"], play["turns"]) == (state, False, "", [])
    play = play_on(episode, 1, episode.actions[1:])
    assert [turn["state"] for turn in play["turns"]] == episode.states[2:]
    assert [turn["reward"] for turn in play["turns"]] == episode.rewards[1:]
    assert play["done"]
    assert play["turns"][-1]["stop"] == episode.stop_reason


def test_play_on_accepts_other_moves_and_notes_changed_observations():
    episode = played(1, high=50)
    play = play_on(episode, 1, [HOSTILE, "3"])
    assert len(play["turns"]) == 2
    assert play["turns"][0]["action"] == HOSTILE
    episode = played(1)
    episode.states[1] = "something else"
    assert "before turn 1 it says something else" in play_on(episode, 2, [])["note"]


@pytest.mark.parametrize(
    ("turn", "moves", "why"),
    [(-1, [], "turn"), (99, [], "turn"), (0, ["1"] * 501, "at most"), (0, ["1" * 20_001], "most")],
)
def test_wrong_arguments_of_play_on_are_refused(turn, moves, why):
    with pytest.raises(RecordError, match=why):
        play_on(played(1), turn, moves)


def test_code_that_a_record_names_is_not_run(tmp_path):
    episode = played(1)
    episode.env_spec["entry_point"] = "os:system"
    episode.env_spec["kwargs"] = {"command": f"touch {tmp_path}/owned"}
    with pytest.raises(RecordError, match="registered"):
        play_on(episode, 0, [])
    assert not (tmp_path / "owned").exists()
    with pytest.raises(RecordError, match="no seed"):
        play_on(with_tokens(), 0, [])


def metrics(url):
    with urlopen(f"{url}api/metrics?source=0&from=0") as answer:
        return json.load(answer)


def test_the_live_page_follows_a_new_run_and_ends_with_it(tmp_path):
    folder = tmp_path / "runs/new"
    with serve_live(folder, browser=False) as url:
        assert metrics(url)["rows"] == []
        (folder / "metrics.jsonl").write_text(json.dumps(METRICS[0]) + "\n")
        assert metrics(url)["rows"] == METRICS[:1]
    with pytest.raises(OSError, match="refused"):
        metrics(url)


@pytest.mark.slow
def test_a_killed_parent_ends_the_live_page(tmp_path):
    program = (
        "import os, sys\nfrom pathlib import Path\n"
        "from llm_gym.view.live_server import serve_live\n"
        f"with serve_live(Path({str(tmp_path)!r}), browser=False) as url:\n"
        "    sys.stdout.write(url); sys.stdout.flush(); os._exit(9)\n"
    )
    # The page inherits the pipe for errors: run() returns when it is gone as well.
    done = run_python(program)
    assert done.returncode == 9
    child = [sys.executable, "-m", "llm_gym.view.live_server", str(tmp_path)]
    ended = subprocess.run(child, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert ended.returncode == 0
    for url in (done.stdout, ended.stdout.strip()):
        with pytest.raises(OSError, match="refused"):
            metrics(url)


@pytest.mark.slow
def test_train_view_prints_the_address_of_its_page(tmp_path, capsys, monkeypatch):
    pytest.importorskip("torch", reason="needs the trainer")
    opened = []
    monkeypatch.setattr(live_server, "open_browser", lambda url: opened.append(metrics(url)))
    run = ["text-game-easy", "--smoke", "--view", "--checkpoint.output-dir", str(tmp_path / "run")]
    assert cli.main(["train", *run]) == 0
    printed = re.search(r"live: +(http://127\.0\.0\.1:\S+)", capsys.readouterr().out)
    assert opened == [{"generation": 0, "from": 0, "rows": []}]
    with pytest.raises(OSError, match="refused"):
        metrics(printed[1])


@pytest.mark.parametrize(
    ("displays", "platform", "opened"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "darwin", True),
    ],
)
def test_a_browser_is_opened_where_there_is_a_display(monkeypatch, displays, platform, opened):
    urls = []
    monkeypatch.setattr(webbrowser, "open", lambda url: urls.append(url) or True)
    monkeypatch.setattr(sys, "platform", platform)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.setenv(name, displays.get(name, ""))
    assert open_browser("http://127.0.0.1/") is opened
    assert len(urls) == opened
