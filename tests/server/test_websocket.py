"""OpenEnv's protocol over a plain WebSocket: answers in order, and nobody disturbs the others."""

import json
import socket

import pytest

pytest.importorskip("websockets")
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from llm_gym.server.sessions import ServerLimits
from tests.server.servers import Caller, Hanging, serving

GAME = "llm_gym/TextGameEasy-v0"
RESET = json.dumps({"type": "reset", "data": {"seed": 3}})
LOOK = json.dumps({"type": "step", "data": {"message": "look"}})
STATE = '{"type": "state"}'


@pytest.fixture(scope="module")
def server():
    with serving(GAME) as server:
        yield server


def talk(server):
    return connect(server.url.replace("http", "ws") + "/ws", compression=None)


def receive(sock):
    return json.loads(sock.recv(10))["data"]


def test_messages_sent_at_once_are_answered_in_order_and_counted(server):
    caller = Caller(server)
    before = caller.count("requests"), caller.count("steps")
    with talk(server) as sock:
        for text in (RESET, *[LOOK] * 10, STATE):
            sock.send(text)
        answers = [receive(sock) for _ in range(12)]
    assert [one["observation"]["info"]["turn"] for one in answers[1:11]] == [*range(1, 11)]
    assert answers[-1]["step_count"] == 10
    after = caller.count("requests"), caller.count("steps")
    assert after == (before[0] + 12, before[1] + 10)


def test_a_heavy_game_is_played_in_threads_and_answers_in_order():
    with serving(make=Hanging) as server, talk(server) as sock:
        sock.send(RESET)
        for number in range(50):
            sock.send(json.dumps({"type": "step", "data": {"message": str(number)}}))
        echoed = [receive(sock)["observation"]["message"] for _ in range(51)]
    assert echoed[1:] == [str(number) for number in range(50)]


WRONG = {
    "{": "INVALID_JSON", "[" * 100_000: "INVALID_JSON", "[]": "UNKNOWN_TYPE",
    '{"type": "dance"}': "UNKNOWN_TYPE", '{"type": "step", "data": 3}': "VALIDATION_ERROR",
    '{"type": "step", "data": {"message": 3}}': "VALIDATION_ERROR",
    '{"type": "reset", "data": {"seed": "x"}}': "VALIDATION_ERROR",
    '{"type": "reset", "data": {"path": "/etc"}}': "EXECUTION_ERROR", LOOK: "EXECUTION_ERROR",
}  # fmt: skip


def test_an_invalid_message_gets_an_error_code_and_the_session_goes_on(server):
    with talk(server) as sock:
        for text, code in WRONG.items():
            sock.send(text)
            assert receive(sock)["code"] == code, text[:50]
        sock.send(RESET)
        assert receive(sock)["done"] is False
        sock.send('{"type": "close"}')
        with pytest.raises(ConnectionClosed):
            sock.recv(10)


def test_invalid_utf8_closes_only_its_own_socket(server):
    with talk(server) as polite, talk(server) as rude:
        for sock in (polite, rude):
            sock.send(RESET)
            sock.recv(10)
        rude.socket.sendall(bytes([0x81, 0x82, 0, 0, 0, 0, 0xFF, 0xFE]))
        with pytest.raises(ConnectionClosed):
            rude.recv(10)
        polite.send(LOOK)
        assert receive(polite)["observation"]["info"]["turn"] == 1


def frame(first, payload=b""):
    """A frame as a client sends it, masked by zeros."""
    return bytes([first, 0x80 | len(payload), 0, 0, 0, 0]) + payload


FLOODS = {
    "pings whose answers nobody reads": (b"", frame(0x89, b"x" * 125), ConnectionError),
    "a message of fragments without an end": (frame(0x01), frame(0x00), ConnectionError),
    "moves whose answers nobody reads": (frame(0x81, RESET.encode()), frame(0x81, LOOK.encode()),
                                         TimeoutError),
}  # fmt: skip


def send_often(rude, flood):
    for _ in range(20):  # buffers of the system may take the first ones
        rude.sendall(flood)


@pytest.mark.parametrize(("begin", "again", "ends"), FLOODS.values(), ids=FLOODS)
def test_a_flood_is_stopped_and_other_clients_play_on(begin, again, ends):
    with serving(GAME, limits=ServerLimits(body_bytes=100_000)) as server, socket.socket() as rude:
        rude.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        rude.settimeout(2 if ends is TimeoutError else 60)
        rude.connect((server.host, server.port))
        rude.sendall(
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
        )
        assert b" 101 " in rude.recv(4096)
        rude.sendall(begin)
        with pytest.raises(ends):
            send_often(rude, again * 500_000)  # where a hundred kilobytes may wait to be read
        with talk(server) as polite:
            polite.send(RESET)
            assert receive(polite)["done"] is False
