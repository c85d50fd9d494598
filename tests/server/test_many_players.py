"""Sixty-four clients play beside six hostile ones, undisturbed."""

import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import gymnasium as gym
import pytest

from llm_gym.server.sessions import ServerLimits
from tests.server.servers import Caller, raw_socket, serving

GAME = "llm_gym/TextGameEasy-v0"
PLAYERS = 64


def head(server, length):
    return (
        f"POST /v1/rows HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def slow(server, stop):
    """Sends a request byte by byte, and never ends."""
    with raw_socket(server) as sock:
        sock.sendall(head(server, 1000))
        while not stop.wait(0.01):
            sock.sendall(b" ")


def silent(server, stop):
    """Opens connections and sends nothing."""
    socks = [socket.create_connection((server.host, server.port)) for _ in range(50)]
    stop.wait()
    for sock in socks:
        sock.close()


def garbage(server, stop):
    """Sends what is no HTTP, no JSON, no rows."""
    texts = (
        b"\x16\x03\x01\x02\x00" * 100,
        b"GET / HTTP/9.9\r\n\r\n",
        head(server, 3) + b"\xff\xfe\xfd",
    )
    while not stop.wait(0.02):
        for text in texts:
            with raw_socket(server) as sock:
                sock.sendall(text)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass


def huge(server, stop):
    """Sends bodies that are too large, whatever is answered."""
    while not stop.wait(0.02):
        with raw_socket(server) as sock, suppress(OSError):  # the server closes it
            sock.sendall(head(server, 1 << 40))
            for _ in range(50):
                sock.sendall(b"x" * 65536)


def leaving(server, stop):
    """Asks for much and does not wait for the answer."""
    number = 0
    while not stop.wait(0.02):
        number += 1
        rows = b'{"rows":[["leaving-session-%06d",1,"reset",[1,null]]]}' % (number % 50)
        with raw_socket(server) as sock:
            # Closing with a reset, as a process does that is killed.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.sendall(head(server, len(rows)) + rows)


def flooding(server, stop):
    """Sends messages over WebSockets, and reads none of the answers."""
    client = pytest.importorskip("websockets.sync.client")
    from websockets.exceptions import ConnectionClosed

    url = server.url.replace("http", "ws") + "/ws"
    look = '{"type": "step", "data": {"message": "' + "look " * 100 + '"}}'
    while not stop.is_set():
        with (
            suppress(OSError, ConnectionClosed),
            client.connect(url, compression=None, close_timeout=0.1) as sock,
        ):
            sock.send('{"type": "reset", "data": {"seed": 3}}')
            sock.socket.settimeout(0.5)  # until its answers are in its way
            while not stop.is_set():
                sock.send(look)


def test_hostile_clients_do_not_disturb_the_others():
    limits = ServerLimits(body_bytes=1 << 20)
    with serving(GAME, limits=limits) as server:
        stop = threading.Event()
        with ThreadPoolExecutor(6) as hostile:
            attacks = [
                hostile.submit(attack, server, stop)
                for attack in (slow, silent, garbage, huge, leaving, flooding)
            ]
            try:
                with ThreadPoolExecutor(PLAYERS) as pool:
                    played = list(pool.map(lambda seed: play(server, seed), range(PLAYERS)))
            finally:
                stop.set()
        for attack in attacks:
            attack.result()
        local = gym.make(GAME)
        for seed, episode in enumerate(played):
            assert episode == solve(local, seed), seed
        assert Caller(server).count("steps") >= sum(map(len, played)) - PLAYERS


def solve(env, seed):
    game, trace, done = env.unwrapped, [env.reset(seed=seed)], False
    while not done:
        trace.append(env.step(game.solver_action()))
        done = trace[-1][2] or trace[-1][3]
    return trace


def play(server, seed):
    env = gym.make("llm_gym/Remote-v0", url=server.url)
    try:
        return solve(env, seed)
    finally:
        env.close()


def test_a_silent_connection_is_closed_in_time():
    with (
        serving(limits=ServerLimits(request_s=1.0)) as server,
        raw_socket(server) as silent,
        raw_socket(server) as slow,
    ):
        slow.sendall(head(server, 10) + b"{")
        assert silent.recv(10) == b""
        assert slow.recv(1000).startswith(b"HTTP/1.1 408")


def test_a_kept_connection_with_slow_headers_is_closed_in_time():
    with serving(limits=ServerLimits(request_s=1.0)) as server, raw_socket(server) as sock:
        for _ in range(2):  # a request that arrives at once may come at any time
            sock.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % server.port)
            assert sock.recv(1000).startswith(b"HTTP/1.1 200")
        sock.settimeout(0.1)
        sock.sendall(b"GET /health HTTP/1.1\r\nX: ")
        for _ in range(600):
            try:
                sock.sendall(b"x")
                assert sock.recv(1000) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                pass
            return
        pytest.fail("it drips for ever")


def test_connections_beyond_the_limit_are_closed_and_the_others_go_on():
    with serving(limits=ServerLimits(connections=5)) as server:
        caller = Caller(server)
        caller.rows()
        socks = [socket.create_connection((server.host, server.port)) for _ in range(10)]
        closed = sum(_is_closed(sock) for sock in socks[5:])
        assert closed == 5
        assert caller.rows() == []
        for sock in socks:
            sock.close()


def _is_closed(sock):
    sock.settimeout(10)
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True
