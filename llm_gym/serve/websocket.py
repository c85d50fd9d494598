"""uvicorn's WebSocket, quicker for games that take microseconds.

A message goes through a parser for every kind of frame, and through a queue to a task, while
reading is paused until the task has taken it: together more than all the rest of a step. Here a
message that comes alone, whole, and with nothing waiting in front of it, is answered where it is
read. Everything else takes the usual way: who sends many messages at once takes turns with the
others, and answers keep their order.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from llm_gym.serve.openenv import ANSWERING

_TEXT = 0x81  # a text message in one frame; RFC 6455, 5.2
_MASKED, _TWO_BYTES, _EIGHT_BYTES = 0x80, 126, 127
_LONG = 1 << 16
_OF_UVICORN = "uvicorn.protocols.websockets.websockets_sansio_impl"
Mask = Callable[[bytes, bytes], bytes]


def answering(protocol: Any) -> Any:
    """Return uvicorn's class of WebSockets made quicker, or as it is where it is another one."""
    if getattr(protocol, "__module__", "") != _OF_UVICORN:
        return protocol
    unmask: Mask = importlib.import_module("websockets.frames").apply_mask
    is_open = importlib.import_module("websockets.protocol").State.OPEN

    class Answering(protocol):  # type: ignore[misc]
        answer: Callable[[str], str | None] | None = None

        def handle_connect(self, event: Any) -> None:
            super().handle_connect(event)
            if hasattr(self, "scope"):  # accepted so far: the task that reads it runs later
                self.scope["extensions"][ANSWERING] = self

        def data_received(self, data: bytes) -> None:
            if self.answer is not None and self._is_idle():
                text = read_text(data, unmask)
                told = None if text is None else self.answer(text)
                if told is not None:
                    self.transport.write(write_text(told.encode("ascii")))
                    return
            super().data_received(data)

        def _is_idle(self) -> bool:
            """Return whether nothing is half read, waiting, half written or closing."""
            whole = not self.conn.reader.buffer and not self.frames
            free = self.queue.empty() and self.writable.is_set() and not self.close_sent
            return whole and free and self.conn.state is is_open

    return Answering


def read_text(data: bytes, unmask: Mask) -> str | None:
    """Return the text of ``data`` if that is one frame of a client's, with a text, and no more.

    >>> plain = lambda data, mask: bytes(a ^ mask[at % 4] for at, a in enumerate(data))
    >>> read_text(bytes([0x81, 0x82, 1, 2, 3, 4]) + plain(b"hi", bytes([1, 2, 3, 4])), plain)
    'hi'
    """
    if len(data) < 6 or data[0] != _TEXT:
        return None
    length, at = data[1] - _MASKED, 2
    if length == _TWO_BYTES and len(data) > 8:
        length, at = int.from_bytes(data[2:4], "big"), 4
    if not 0 <= length == len(data) - at - 4:  # below 0 it is not masked, as it must be
        return None
    try:
        return unmask(data[at + 4 :], data[at : at + 4]).decode()
    except UnicodeDecodeError:
        return None


def write_text(text: bytes) -> bytes:
    """Return the frame of a server's for ``text``.

    >>> write_text(b"hi").hex(" "), write_text(b"x" * 300)[:4].hex(" ")
    ('81 02 68 69', '81 7e 01 2c')
    """
    length = len(text)
    if length < _TWO_BYTES:
        return bytes((_TEXT, length)) + text
    if length < _LONG:
        return bytes((_TEXT, _TWO_BYTES)) + length.to_bytes(2, "big") + text
    return bytes((_TEXT, _EIGHT_BYTES)) + length.to_bytes(8, "big") + text
