"""After Ctrl-C, a dead server or an exception the finished episodes are kept."""

import signal
import subprocess
import threading
from pathlib import Path

import pytest

from llm_gym import read_episodes
from llm_gym.evaluate.endpoint import Backoff, ChatClient, EndpointError, Interrupted, play
from tests.evaluate.endpoint.fake_server import EVAL, FakeServer, status

ROOT = Path(__file__).parents[3]
GUESS = "llm_gym/GuessTheNumber-v0"
AT_ONCE = Backoff(tries=2, first_s=0.0)


def test_episodes_before_the_server_died_are_kept(tmp_path):
    with FakeServer(lambda messages: "3") as server:
        server.faults += [None] * 12 + [status(503)] * 2
        records = tmp_path / "played.jsonl"
        with pytest.raises(EndpointError, match="2 tries") as found:
            play(GUESS, server.url, "m", 50, num_envs=1, records=records, backoff=AT_ONCE)
    result = found.value.result
    assert [episode.num_turns for episode in result.episodes] == [5, 5]
    assert result.usage.requests == 12, "the third episode's two turns were paid for too"
    assert list(read_episodes(records)) == result.episodes
    assert "48 of 50 episodes did not end" in result.notes()[0]


def test_a_server_that_refuses_everything_overwrites_no_records(tmp_path):
    (tmp_path / "played.jsonl").write_text("from yesterday")
    with FakeServer(lambda messages: "3") as server:
        server.always = status(404)
        with pytest.raises(EndpointError) as found:
            play(GUESS, server.url, "m", 5, records=tmp_path / "played.jsonl")
    assert found.value.result is None
    assert (tmp_path / "played.jsonl").read_text() == "from yesterday"
    assert len(list(tmp_path.iterdir())) == 1


def test_ctrl_c_keeps_the_finished_episodes_and_drops_the_requests(tmp_path):
    with FakeServer(lambda messages: "3") as server:
        records = tmp_path / "played.jsonl"

        def on_end(ended):
            if ended == 3:
                raise KeyboardInterrupt

        with pytest.raises(Interrupted) as found:
            play(GUESS, server.url, "m", 500, num_envs=2, records=records, on_end=on_end)
        requests = len(server.requests)
    assert isinstance(found.value, KeyboardInterrupt)
    assert [e.episode_id for e in found.value.result.episodes] == sorted(
        e.episode_id for e in read_episodes(records)
    )
    assert len(found.value.result.episodes) == 3
    assert requests < 200
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("llm-gym-")]


def test_episodes_are_on_disk_while_others_are_being_played(tmp_path):
    seen = []

    def on_end(ended):
        seen.append(len(list(read_episodes(tmp_path / "played.partial.jsonl"))))

    records = tmp_path / "played.jsonl"
    with FakeServer(lambda messages: "3") as server:
        play(GUESS, server.url, "m", 3, num_envs=1, records=records, on_end=on_end)
    assert seen == [1, 2, 3]
    assert not (tmp_path / "played.partial.jsonl").exists()


def test_an_exception_in_a_client_thread_is_raised(monkeypatch):
    def broken(client, messages, seed=0):
        raise IndexError("a bug")

    monkeypatch.setattr(ChatClient, "reply", broken)
    with pytest.raises(IndexError, match="a bug"):
        play(GUESS, "http://127.0.0.1:9", "m", 4)


def test_ctrl_c_in_the_terminal_shows_what_was_played(tmp_path):
    stuck, release = threading.Event(), threading.Event()

    def model(messages):
        if len(server.requests) > 12:
            stuck.set()
            release.wait(60)
        return "3"

    with FakeServer(model) as server:
        command = [*EVAL, GUESS, "--endpoint", server.url, "--model", "m"]
        command += ["--num-envs", "1", "--out", str(tmp_path)]
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert stuck.wait(60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
        release.set()
    assert process.returncode == 130
    assert "llm_gym/GuessTheNumber-v0" in out
    played = len(list(read_episodes(tmp_path / "llm_gym_GuessTheNumber-v0.jsonl")))
    assert 1 <= played <= 2  # a busy machine may ask for a reply twice
    assert f"{100 - played} of 100 episodes did not end" in err
    assert "Traceback" not in err
