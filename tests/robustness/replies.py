"""Answers of a hostile server, as bytes on the wire.

``{key}`` stands for the API key that came with the request; ``HostileServer`` fills it in.
"""

import json
import pickle
import socket
import threading
import time
import traceback
import urllib.parse
from collections.abc import Callable
from typing import Any

from llm_gym.evaluate.endpoint.client import ChatClient, ContextFullError, EndpointError

OK = b"HTTP/1.1 200 OK\r\n"
JSON = b"Content-Type: application/json\r\n"
FORMS = ("plain", "json", "url")
"""Ways to write a key."""
Reply = bytes | Callable[[socket.socket, bytes], None]


def plain(body: bytes, status: bytes = b"200 OK", more: bytes = b"") -> bytes:
    """Return a whole answer with ``body``."""
    length = b"Content-Length: %d\r\n" % len(body)
    return b"HTTP/1.1 " + status + b"\r\n" + JSON + length + more + b"\r\n" + body


def json_answer(value: Any) -> bytes:
    """Return a whole answer with JSON."""
    return plain(json.dumps(value).encode())


def choice(**changes: Any) -> bytes:
    """Return a good answer, but for some fields of its choice."""
    fields = {"message": {"content": "7"}, "finish_reason": "stop", **changes}
    return json_answer({"choices": [fields], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})


def escaped(form: str) -> str:
    """Return the key written in a form; the server replaces ``<form:key>``."""
    return f"<{form}:key>"


def trickle(part: bytes, pause: float = 0.05) -> Callable[[socket.socket, bytes], None]:
    """Send ``part`` again and again, slowly, for ever."""

    def send(sock: socket.socket, key: bytes) -> None:
        sock.sendall(OK + JSON + b"Content-Length: 100000\r\n\r\n")
        while True:
            sock.sendall(part)
            time.sleep(pause)

    return send


def flood(head: bytes, part: bytes) -> Callable[[socket.socket, bytes], None]:
    """Send ``part`` as fast as it is taken, for ever."""

    def send(sock: socket.socket, key: bytes) -> None:
        sock.sendall(head)
        while True:
            sock.sendall(part)

    return send


def silent(sock: socket.socket, key: bytes) -> None:
    """Take the request and send nothing."""
    while sock.recv(65536):
        pass


def _bodies() -> dict[str, Reply]:
    shapes: dict[str, Any] = {
        "null": None, "a number": 7, "a string": "yes", "a list": [], "an object": {},
        "no choices": {"choices": []}, "choices of null": {"choices": [None]},
        "choices as text": {"choices": "abc"}, "choices as a number": {"choices": 5},
        "a choice as a list": {"choices": [[]]},
        "a message of null": {"choices": [{"message": None}]},
        "a message as text": {"choices": [{"message": "x"}]},
        "content parts of null": {"choices": [{"message": {"content": [None]}}]},
        "content parts of numbers": {"choices": [{"message": {"content": [{"text": 7}]}}]},
        "usage as a list": {"choices": [{"message": {"content": "x"}}], "usage": [1]},
        "usage as text": {"choices": [{"message": {"content": "x"}}], "usage": "many"},
    }  # fmt: skip
    found: dict[str, Reply] = {name: json_answer(value) for name, value in shapes.items()}
    found |= {
        "content as a number": choice(message={"content": 7}),
        "content as an object": choice(message={"content": {"a": [1]}}),
        "a lone surrogate": choice(message={"content": "\ud800 7"}),
        "escapes for a terminal": choice(message={"content": "\x1b[2J\x07\x00"}),
        "a million characters": choice(message={"content": "7 " * 500_000}),
        "a finish as a list": choice(finish_reason=[1, 2]),
        "a finish of a megabyte": choice(finish_reason="x" * 2**20),
        "tokens below zero": json_answer({"choices": [{"message": {"content": "7"}}],
                                   "usage": {"prompt_tokens": -5, "completion_tokens": -1}}),
        "tokens of 400 digits": plain(b'{"choices": [{"message": {"content": "7"}}], "usage": '
                                      b'{"prompt_tokens": 1' + b"0" * 400 + b"}}"),
        "tokens as true": json_answer({"choices": [{"message": {"content": "7"}}],
                                "usage": {"prompt_tokens": True, "completion_tokens": 1.5}}),
        "deep lists": plain(b"[" * 100_000 + b"]" * 100_000),
        "deep objects": plain(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
        "a deep finish": plain(b'{"choices": [{"message": {"content": "7"}, "finish_reason": '
                               + b"[" * 900 + b"]" * 900 + b"}]}"),
        "deep content": plain(b'{"choices": [{"message": {"content": ' + b"[" * 900 + b"]" * 900
                              + b"}}]}"),
        "half of JSON": plain(b'{"choices": [{"mess'), "no JSON": plain(b"<html>busy</html>"),
        "an empty body": plain(b""), "only spaces": plain(b" " * 5000),
        "a number of 10,000 digits": plain(b"1" * 10_000), "NaN": plain(b"NaN"),
        "bytes that are no text": plain(b"\xff\xfe\x00\xd8" * 100),
        "a byte-order mark": plain(b'\xef\xbb\xbf{"choices": []}'),
        "two values": plain(b"{} {}"),
        "a key twice": plain(b'{"choices": 1, "choices": 2}'),
    }  # fmt: skip
    return found


def _wires() -> dict[str, Reply]:
    good = b'{"choices": [{"message": {"content": "7"}}]}'
    return {
        "nothing": b"", "no status line": b"hello\r\n\r\n",
        "a status of letters": b"HTTP/1.1 xyz\r\n\r\n",
        "a status of 99999": b"HTTP/1.1 99999 No\r\n\r\n",
        "a status of 000": b"HTTP/1.1 000 No\r\n\r\n",
        "another protocol": b"SSH-2.0-OpenSSH\r\n", "another version": b"HTTP/9.9 200 OK\r\n\r\n",
        "zeros": b"\0" * 5000, "a status line without end": b"HTTP/1.1 200 " + b"x" * 200_000,
        "a header line without end": OK + b"X: " + b"y" * 200_000,
        "a thousand headers": OK + b"A: b\r\n" * 1000 + b"\r\n",
        "a header without a colon": OK + b"nonsense\r\n\r\n",
        "a length of 10**30": OK + JSON + b"Content-Length: 1" + b"0" * 30 + b"\r\n\r\n" + good,
        "a length of 10**18": OK + JSON + b"Content-Length: 1" + b"0" * 18 + b"\r\n\r\n" + good,
        "a length below zero": OK + JSON + b"Content-Length: -5\r\n\r\n" + good,
        "a length of letters": OK + JSON + b"Content-Length: many\r\n\r\n" + good,
        "two lengths": OK + JSON + b"Content-Length: 3\r\nContent-Length: 44\r\n\r\n" + good,
        "a length that is too long": OK + JSON + b"Content-Length: 9999\r\n\r\n" + good,
        "a length that is too short": OK + JSON + b"Content-Length: 5\r\n\r\n" + good,
        "a broken chunk": OK + JSON + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "a huge chunk": OK + JSON + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 30 + b"\r\nabc",
        "a chunk below zero": OK + JSON + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\n",
        "chunks without an end": OK + JSON + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n",
        "an encoding of its own": OK + JSON + b"Content-Encoding: br\r\n"
                                  b"Content-Length: 5\r\n\r\nhello",
        "a redirect elsewhere": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n"
                                b"Content-Length: 0\r\n\r\n",
        "a redirect to itself": b"HTTP/1.1 307 Again\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
        "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
        "switching protocols": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n\0\0\0",
        "a question of its own": b"GET / HTTP/1.1\r\nHost: you\r\n\r\n",
        "silence": silent, "a trickle": trickle(b" "), "a trickle of JSON": trickle(b"["),
        "an endless body": flood(OK + JSON + b"\r\n", b" " * 65536),
        "an endless chunked body": flood(OK + JSON + b"Transfer-Encoding: chunked\r\n\r\n",
                                         b"10000\r\n" + b" " * 65536 + b"\r\n"),
        "endless headers": flood(OK, b"X: y\r\n"),
    }  # fmt: skip


def _keys() -> dict[str, Reply]:
    """Return answers that repeat the key, as it is and as JSON and URLs may write it."""
    found: dict[str, Reply] = {}
    for form in FORMS:
        key = escaped(form)
        quoted = f'"{key}"'.encode()
        found |= {
            f"the key ({form}) as the content": plain(
                b'{"choices": [{"message": {"content": %s}}]}' % quoted
            ),
            f"the key ({form}) as the finish": plain(
                b'{"choices": [{"message": {"content": "7"}, "finish_reason": %s}]}' % quoted
            ),
            f"the key ({form}) in an error": plain(
                b'{"error": {"message": %s}}' % quoted, b"400 Bad"
            ),
            f"the key ({form}) in a passing error": plain(b"%s" % key.encode(), b"503 Busy"),
        }
    found |= {
        "the key cut in the middle": plain(b"x" * 290 + b" {key} {key}", b"400 No"),
        "the key without a quota": plain(b'{"error": "{key}: insufficient_quota"}', b"429 No"),
        "the key in the status line": b"HTTP/1.1 {key}\r\n\r\n",
        "the key in the reason": plain(b"{}", b"400 {key}"),
        "the key in a header": plain(b"{}", b"500 No", b"Retry-After: {key}\r\n"),
        "the key in broken JSON": plain(b'{"a": {key}'),
        "the key as the only word": plain(b"{key}", b"401 No"),
        "the key in an odd shape": json_answer({"choices": "{key}"}),
    }
    return found


def _waits() -> dict[str, Reply]:
    waits = (b"inf", b"nan", b"-1", b"1e400", b"9" * 400, b"Mon, 99999999999 Jan 2020 00:00:00 GMT",
             b"Sun, 06 Nov 99999 08:49:37 GMT", b"\xff\xff", b"soon")  # fmt: skip
    return {
        f"to wait {wait[:20]!r}": plain(b"{}", b"429 Busy", b"Retry-After: " + wait + b"\r\n")
        for wait in waits
    }


REPLIES: dict[str, Reply] = {**_bodies(), **_wires(), **_keys(), **_waits()}


def _write(form: str, key: bytes) -> bytes:
    text = key.decode()
    forms = {
        "plain": lambda: text,
        "json": lambda: "".join(f"\\u{ord(sign):04x}" for sign in text),
        "url": lambda: urllib.parse.quote(text, safe=""),
    }
    return forms[form]().encode()


class HostileServer:
    """Answers every request at ``url`` with ``reply``, then hangs up."""

    def __init__(self) -> None:
        self.reply: Reply = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(sock,), daemon=True).start()

    def _answer(self, sock: socket.socket) -> None:
        with sock:
            sock.settimeout(5)
            try:
                request = sock.recv(1 << 20)
                key = request.partition(b"Bearer ")[2].partition(b"\r\n")[0]
                if callable(self.reply):
                    self.reply(sock, key)
                    return
                data = self.reply.replace(b"{key}", key)
                for form in FORMS:
                    data = data.replace(escaped(form).encode(), _write(form, key))
                sock.sendall(_refit(data) if b":key>" in self.reply else data)
            except OSError:
                return

    def close(self) -> None:
        self._listener.close()


def ask(server: HostileServer, name: str, **settings: Any) -> str:
    """Return the client's reply, or its error, as text that must not hold the key."""
    server.reply = REPLIES[name]
    client = ChatClient(server.url, "m", **settings)
    client._pause = lambda seconds: False
    try:
        reply = client.reply([{"role": "user", "content": "Guess."}])
        return f"{reply!r} {reply.finish} {reply.text}"
    except (EndpointError, ContextFullError) as error:
        return "".join(traceback.format_exception(error)) + repr(pickle.dumps(error))
    finally:
        client.stop()


def _refit(data: bytes) -> bytes:
    """Return an answer whose body has grown, with its new length."""
    head, _, body = data.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body)]) + b"\r\n\r\n" + body
