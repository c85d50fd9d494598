"""The API key goes to the server and is shown nowhere."""

import json
import pickle
import subprocess
import traceback
from pathlib import Path

import pytest

from llm_gym.core.errors import ConfigError
from llm_gym.evaluate.endpoint import ChatClient, play
from llm_gym.evaluate.endpoint.http import Key, find_key
from tests.evaluate.endpoint.fake_server import EVAL, FakeServer, status

ROOT = Path(__file__).parents[3]
SECRET = "sk-proj-Ab/0123456789+cdef=="
FORMS = (SECRET, SECRET.replace("/", r"\/"), "sk-proj-Ab%2F0123456789%2Bcdef%3D%3D")
GUESS = "llm_gym/GuessTheNumber-v0"
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("LLM_GYM_API_KEY", SECRET)
    return SECRET


def shows_the_key(text):
    return any(form in text for form in (*FORMS, "01234567"))


def test_the_key_comes_from_an_environment_variable(monkeypatch):
    def sent(**how):
        with FakeServer(lambda messages: "3") as server:
            play(GUESS, server.url, "m", 1, **how)
        return {headers.get("Authorization") for headers in server.headers}

    assert sent() == {None}
    monkeypatch.setenv("LLM_GYM_API_KEY", SECRET)
    monkeypatch.setenv("MY_KEY", " mine-is-long-enough\n")
    assert sent() == {f"Bearer {SECRET}"}
    assert sent(key_env="MY_KEY") == {"Bearer mine-is-long-enough"}


def test_the_key_for_openai_is_sent_to_openai_only(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert find_key("https://api.openai.com/v1").headers()["Authorization"].endswith(SECRET)
    for other in ("https://openai.com.evil.org/v1", "https://notopenai.com", "http://127.0.0.1"):
        assert find_key(other) is None
    assert find_key("http://127.0.0.1", "OPENAI_API_KEY") is not None, "where it is named"
    monkeypatch.setenv("LLM_GYM_API_KEY", "own-key-0000")
    assert find_key("https://api.openai.com/v1").origin == "LLM_GYM_API_KEY"


@pytest.mark.parametrize("name", [SECRET, "sk0123456789", "NOT_SET_ANYWHERE", "A B", ""])
def test_a_key_given_as_a_variable_name_is_not_shown(name):
    with pytest.raises(ConfigError) as found:
        find_key("http://127.0.0.1", name)
    assert "environment variable" in str(found.value)
    assert not name or name not in str(found.value)


@pytest.mark.parametrize(
    "bad", ["sk-0123456789\r\nX-Evil: 1", "sk-0123456789 é", "sk-0123456789\0"]
)
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(bad):
    with pytest.raises(ConfigError, match="MY_KEY") as found:
        Key(bad, "MY_KEY")
    assert not shows_the_key("".join(traceback.format_exception(found.value)))


def test_the_key_is_in_no_repr_and_no_pickle(key):
    client = ChatClient("http://127.0.0.1", "m")
    held = find_key("http://127.0.0.1")
    assert repr(held) == "<key from LLM_GYM_API_KEY>"
    for thing in (held, client, client.http):
        assert not shows_the_key(f"{thing!r} {thing} {vars(thing)}")
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(held)


def test_a_word_as_key_is_not_cut_out_of_replies(monkeypatch):
    monkeypatch.setenv("LLM_GYM_API_KEY", "EMPTY")
    with FakeServer(lambda messages: "the box is EMPTY") as server:
        client = ChatClient(server.url, "m")
        assert client.reply(HELLO).text == "the box is EMPTY"
        client.stop()


@pytest.mark.parametrize("reply", [SECRET, f"It is {FORMS[1]}, or {FORMS[2]}."])
def test_a_key_in_a_reply_is_not_recorded(key, reply, tmp_path):
    with FakeServer(lambda messages: reply) as server:
        [episode] = play(GUESS, server.url, "m", 1, records=tmp_path / "x.jsonl").episodes
    assert "[key]" in episode.actions[0]
    assert not shows_the_key((tmp_path / "x.jsonl").read_text())


def test_the_command_shows_the_key_in_no_output_and_no_file(tmp_path):
    """The core alone plays here: nothing of the trainer can be imported."""
    with FakeServer(lambda messages: f"My key is {SECRET}") as server:
        server.faults += [status(500, {"error": "{key}"}), status(429, {"error": "{key}"})]
        server.faults += [None] * 12 + [status(400, {"error": "bad: {key}"})]
        command = [*EVAL, GUESS, "--endpoint", server.url, "--model", "m"]
        command += ["--episodes", "9", "--num-envs", "2", "--json"]
        done = subprocess.run(
            [*command, "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True,
            env={"LLM_GYM_API_KEY": SECRET, "PATH": ""},
        )  # fmt: skip
        assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {SECRET}"}
    assert done.returncode == 2, done.stderr
    assert "answered 400: bad: [key]" in done.stderr
    assert json.loads(done.stdout)[0]["episodes"] >= 1
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 1
    for text in (done.stdout, done.stderr, *(path.read_text() for path in files)):
        assert text
        assert not shows_the_key(text)
