"""The quick way of a WebSocket's message: the same answers, in the same order, for any packets."""

import json
import random
import socket

import pytest

pytest.importorskip("websockets", reason="make test-exports")
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode, apply_mask
from websockets.sync.client import connect

from llm_gym.serve.openenv import Talk
from llm_gym.serve.websocket import read_text, write_text
from tests.serve.servers import Caller, Hanging, serving

GAME = "llm_gym/TextGameEasy-v0"
RESET = json.dumps({"type": "reset", "data": {"seed": 3}})
LOOK = json.dumps({"type": "step", "data": {"message": "look"}})


def frame(text, opcode=Opcode.TEXT, fin=True, mask=True):
    data = text if isinstance(text, bytes) else text.encode()
    return Frame(opcode, data, fin).serialize(mask=mask)


@given(st.text(max_size=300))
def test_a_frame_of_the_library_is_read_and_nothing_else_is(text):
    whole = frame(text)
    assert read_text(whole, apply_mask) == text
    for at in range(len(whole)):
        assert read_text(whole[:at], apply_mask) is None
    assert read_text(whole + whole, apply_mask) is None
    assert read_text(frame(text, mask=False), apply_mask) is None
    assert read_text(frame(text, fin=False), apply_mask) is None
    assert read_text(frame(text, Opcode.BINARY), apply_mask) is None


@pytest.mark.parametrize("length", [0, 125, 126, 65535, 65536, 70000])
def test_a_frame_is_written_as_the_library_writes_it(length):
    assert write_text(b"x" * length) == frame(b"x" * length, mask=False)


@given(st.binary(max_size=400))
def test_no_bytes_raise(data):
    assert read_text(data, apply_mask) is None or data[0] == 0x81


@pytest.fixture(scope="module")
def server():
    with serving(GAME) as server:
        yield server


def talk(server):
    return connect(server.url.replace("http", "ws") + "/ws", compression=None)


def played(server, packets):
    """Send bytes to a WebSocket, packet by packet; return the answers, until the last."""
    with talk(server) as socket_:
        plug = socket_.socket
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for packet in packets:
            plug.sendall(packet)
        answers = []
        while len(answers) < 12:
            answers.append(json.loads(socket_.recv(10)))
    return answers


def test_packets_of_any_size_get_the_same_answers_in_order(server):
    messages = [RESET, *[LOOK] * 10, '{"type": "state"}']
    alone = [frame(text) for text in messages]
    expected = played(server, alone)
    assert expected[-1]["data"]["step_count"] == 10
    assert [one["data"]["observation"]["info"]["turn"] for one in expected[1:11]] == [*range(1, 11)]
    stream, rng = b"".join(alone), random.Random(0)
    assert played(server, [stream]) == expected
    for _ in range(5):
        cuts = sorted(rng.sample(range(len(stream)), 20))
        packets = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
        assert played(server, packets) == expected
    parts = [
        part
        for text in messages
        for part in (
            frame(text[:5], fin=False),
            frame(b"?", Opcode.PING),
            frame(text[5:], Opcode.CONT),
        )
    ]
    assert played(server, parts) == expected


def test_a_light_game_answers_without_waking_a_task(server, monkeypatch):
    async def never(self, text):
        raise AssertionError("the task was woken")

    caller = Caller(server)
    with talk(server) as socket_:
        socket_.send('{"type": "state"}')
        socket_.recv(10)  # the talk has begun
        before = caller.metric("llm_gym_requests_total")
        monkeypatch.setattr(Talk, "_answer", never)
        for text in (RESET, LOOK, "{", '{"type": "state"}'):
            socket_.send(text)
            assert json.loads(socket_.recv(10))["data"]
        monkeypatch.undo()
        after = caller.metric("llm_gym_requests_total")
    assert after - before == 4
    assert caller.metric("llm_gym_steps_total") > 0


def test_a_heavy_one_is_played_in_threads_and_answers_in_order():
    with serving(make=Hanging) as server, talk(server) as socket_:
        socket_.send(RESET)
        for number in range(50):
            socket_.send(json.dumps({"type": "step", "data": {"message": str(number)}}))
        told = [json.loads(socket_.recv(10))["data"]["observation"] for _ in range(51)]
        assert [one["message"] for one in told[1:]] == [str(number) for number in range(50)]


def test_bytes_that_are_no_text_end_that_socket_alone(server):
    from websockets.exceptions import ConnectionClosed

    with talk(server) as polite, talk(server) as rude:
        polite.send(RESET)
        polite.recv(10)
        rude.send(RESET)
        rude.recv(10)
        rude.socket.sendall(frame(b"\xff\xfe"))
        with pytest.raises(ConnectionClosed):
            rude.recv(10)
        polite.send(LOOK)
        assert json.loads(polite.recv(10))["data"]["observation"]["info"]["turn"] == 1
