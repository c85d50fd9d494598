"""Server errors: those that may pass are retried after a while, the others are raised."""

import pickle
import socket
import threading
from contextlib import suppress

import pytest

from llm_gym.core.errors import ConfigError
from llm_gym.evaluate.endpoint import Backoff, ChatClient, ContextFullError, EndpointError
from llm_gym.evaluate.endpoint.client import StoppedError
from llm_gym.evaluate.endpoint.http import HTTPError, JsonHTTP, jitter
from tests.evaluate.endpoint.fake_server import FakeServer, breaks_off, is_slow, resets, status

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture
def server():
    with FakeServer(lambda messages: "fine") as server:
        yield server


class Patient:
    """A client whose waits are recorded instead of waited."""

    def __init__(self, url, **settings):
        self.waits = []
        self.client = ChatClient(url, "m", **settings)
        self.client._pause = self._note

    def _note(self, seconds):
        self.waits.append(seconds)
        return False

    def ask(self, seed=0):
        try:
            return self.client.reply(HELLO, seed)
        finally:
            self.client.http.close()


HTML = {"Content-Type": "text/html"}


@pytest.mark.parametrize(
    "fault",
    [
        *map(status, (408, 429, 500, 503, 529)), breaks_off, resets,
        status(502, "<html>bad gateway</html>", HTML), status(200, "<html>", HTML),
        status(200, '{"choices": [{"mess'), status(200, {"error": {"message": "overloaded"}}),
        status(200, {"choices": []}), status(200, {"choices": [{"message": None}]}),
        status(200, [1]),
    ],
)  # fmt: skip
def test_transient_errors_are_retried(server, fault):
    server.faults += [fault, fault]
    patient = Patient(server.url)
    assert patient.ask().text == "fine"
    assert patient.client.usage.retries == 2
    assert patient.client.usage.requests == 1
    assert len(patient.waits) == 2


def test_waits_double_with_deterministic_jitter(server, caplog):
    server.always = status(503)
    patient = Patient(server.url, backoff=Backoff(tries=6, first_s=1.0, longest_s=6.0))
    with pytest.raises(EndpointError, match=r"6 tries.*503"):
        patient.ask(seed=11)
    whole = [1.0, 2.0, 4.0, 6.0, 6.0]
    expected = [s * (1 + jitter(11, at)) / 2 for at, s in enumerate(whole, 1)]
    assert patient.waits == expected
    assert all(s / 2 <= wait <= s for wait, s in zip(patient.waits, whole, strict=True))
    assert len(server.requests) == 6
    assert [record.levelname for record in caplog.records] == ["WARNING"], "the first wait alone"
    assert "answered 503" in caplog.text
    assert len({jitter(seed, 1) for seed in range(100)}) == 100
    for wrong in ({"tries": 0}, {"first_s": -1.0}, {"first_s": 9.0, "longest_s": 1.0}):
        with pytest.raises(ConfigError, match="tries"):
            Backoff(**wrong)


@pytest.mark.parametrize(
    ("retry_after", "least"),
    [
        ("17", 17.0), ("99999", 600.0), ("inf", 600.0), ("nan", 0.25), ("-5", 0.25),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 0.25),
    ],
)  # fmt: skip
def test_retry_after_is_obeyed_within_limits(server, retry_after, least):
    server.faults.append(status(429, headers={"Retry-After": retry_after}))
    patient = Patient(server.url)
    patient.ask()
    [wait] = patient.waits
    assert wait == least if least > 1 else least <= wait <= 0.5


def test_a_timeout_is_retried(server):
    server.faults.append(is_slow(3.0))
    patient = Patient(server.url, timeout=1.5)
    assert patient.ask().text == "fine"
    assert patient.client.usage.retries == 1


@pytest.mark.parametrize("head", ["X: ", "Content-Length: 9999\r\n\r\n"], ids=["headers", "body"])
def test_a_dripping_answer_times_out(head):
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip():
            sock, _ = listener.accept()
            with sock, suppress(OSError):
                sock.sendall(f"HTTP/1.1 200 OK\r\n{head}".encode())
                for _ in range(400):
                    if not over.wait(0.05):
                        sock.sendall(b"x")

        threading.Thread(target=drip, daemon=True).start()
        http = JsonHTTP(f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(HTTPError, match="timed out"):
            http.get("/", 0.5)
        over.set()
        http.close()


def test_a_refused_connection_is_one_sentence():
    with socket.socket() as taken:  # held without listening, so that nobody else answers there
        taken.bind(("127.0.0.1", 0))
        patient = Patient(f"http://127.0.0.1:{taken.getsockname()[1]}", backoff=Backoff(tries=3))
        with pytest.raises(EndpointError, match=r"3 tries.*[Rr]efused") as found:
            patient.ask()
    assert len(patient.waits) == 2
    assert "\n" not in str(found.value)
    assert str(pickle.loads(pickle.dumps(found.value))) == str(found.value)
    assert isinstance(found.value, ConnectionError)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (status(400, {"error": {"message": "bad\ntemperature"}}), "answered 400: bad temperature"),
        (status(400, {"message": "no such field"}), "answered 400: no such field"),
        (status(400, {"detail": [{"loc": 1}]}), "answered 400: .*loc"),
        (status(422, "[" * 100_000), r"answered 422: \[\["),
        (status(400, ""), "answered 400: and nothing else"),
        (status(400, {"error": {"message": "max_tokens=8 > max_model_len=4"}}), "max_tokens=8 >"),
        (status(401), "answered 401: it wants a key; set LLM_GYM_API_KEY"),
        (status(403), "answered 403: it wants a key"),
        (status(404, {"error": {"message": "no m"}}), "404: it has no model 'm', or no API.*no m"),
        (status(307, headers={"Location": "http://elsewhere"}), "answered 307: it has moved"),
        (status(429, {"error": {"code": "insufficient_quota"}}), "429.*insufficient_quota"),
    ],
)
def test_permanent_errors_raise_one_sentence_without_a_retry(server, fault, message):
    server.faults.append(fault)
    patient = Patient(server.url)
    with pytest.raises(EndpointError, match=message) as found:
        patient.ask()
    assert "\n" not in str(found.value)
    assert len(str(found.value)) < 500
    assert patient.waits == []
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "error",
    [
        "This model's maximum context length is 1024 tokens. However, your prompt contains 1025.",
        "The input (1200 tokens) is longer than the model's context length (1024 tokens).",
        "the request exceeds the available context size, try increasing it",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Input validation error: `inputs` must have less than 1024 tokens. Given: 1200",
        "The input token count (1200) exceeds the maximum number of tokens allowed (1024).",
        {"message": "Please reduce the messages.", "code": "context_length_exceeded"},
    ],
)
def test_the_messages_of_many_servers_mean_a_full_context(server, error):
    server.faults.append(status(400, {"error": error}))
    with pytest.raises(ContextFullError):
        Patient(server.url).ask()


def test_an_https_url_uses_tls(server):
    patient = Patient(server.url.replace("http:", "https:"), backoff=Backoff(tries=1))
    with pytest.raises(EndpointError, match=r"one try.*(SSL|ssl)"):
        patient.ask()
    assert server.requests == []


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
def test_the_url_may_end_in_any_part_of_the_path(server, path):
    assert Patient(server.url.removesuffix("/v1") + path).ask().text == "fine"


def test_stop_ends_a_pending_request(server):
    arrived, release = threading.Event(), threading.Event()

    def fault(handler):
        arrived.set()
        release.wait(120)
        return False

    server.faults += [None, fault]
    client = ChatClient(server.url, "m")
    found = []

    def ask():
        client.reply(HELLO)  # what is cut below is a connection that would be opened again
        try:
            client.reply(HELLO)
        except StoppedError as error:
            found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert arrived.wait(120)
    client.stop()
    thread.join(20)
    release.set()
    assert len(found) == 1
    with pytest.raises(StoppedError):
        client.reply(HELLO)
    assert len(server.requests) == 2


def test_stop_ends_a_wait(server):
    server.always = status(429, headers={"Retry-After": "500"})
    client = ChatClient(server.url, "m")
    threading.Timer(0.2, client.stop).start()
    with pytest.raises(StoppedError):
        client.reply(HELLO)
