"""A chat-completions server in this process: real HTTP, a scripted model, faults on demand.

``FakeServer(model)`` answers with what ``model(messages)`` returns. Before that it takes the next
of ``faults``: None, or a function of the request's handler that answers badly, or returns False to
have the request answered well.

    with FakeServer(solver) as server:
        server.faults.append(status(429, headers={"Retry-After": "3"}))
"""

import json
import socket
import struct
import sys
import threading
import time
from collections import deque

from llm_gym.envs.deduction.guess_the_number import GuessTheNumberEnv
from tests.local_http import LocalHandler, LocalServer

EVAL = [sys.executable, "-m", "tests.evaluate.endpoint.run_cli", "eval"]
"""The command, where nothing of the trainer can be imported."""


class FakeServer(LocalServer):
    def __init__(self, model, usage=True, keeps_alive=True):
        super().__init__(_Handler if keeps_alive else _OneRequest)
        self.url += "/v1"
        self.model, self.usage = model, usage
        self.faults = deque()
        self.always = None
        self.requests, self.headers, self.connections = [], [], 0
        self.lock = threading.Lock()

    def get_request(self):
        self.connections += 1
        return super().get_request()

    def handle_error(self, request, client_address):
        pass  # clients that hang up are part of the game


class _Handler(LocalHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        server, body = self.server, self.read()
        with server.lock:
            server.requests.append(body)
            server.headers.append(dict(self.headers))
            fault = server.always or (server.faults.popleft() if server.faults else None)
        if fault is not None and fault(self) is not False:
            return
        if self.path != "/v1/chat/completions":
            self.say(404, {"detail": "Not Found"})
            return
        reply = server.model(body["messages"])
        message = reply if isinstance(reply, dict) else {"role": "assistant", "content": reply}
        answer = {
            "id": "0", "object": "chat.completion", "created": 0, "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        }  # fmt: skip
        if server.usage:
            answer["usage"] = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
        if body.get("stream"):
            choice = {"index": 0, "delta": message, "finish_reason": "stop"}
            chunk = answer | {"object": "chat.completion.chunk", "choices": [choice]}
            events = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
            self.say(200, events, {"Content-Type": "text/event-stream"})
            return
        self.say(200, answer)


class _OneRequest(_Handler):
    protocol_version = "HTTP/1.0"


def status(code, body=None, headers=None):
    """Answer with the status ``code``; "{key}" in ``body`` becomes the key that came."""

    def fault(handler):
        key = handler.headers.get("Authorization", "").removeprefix("Bearer ")
        answer = {"error": {"message": f"status {code}"}} if body is None else body
        text = answer if isinstance(answer, str) else json.dumps(answer)
        handler.say(code, text.replace("{key}", key).encode(), headers)

    return fault


def is_slow(seconds):
    def fault(handler):
        time.sleep(seconds)
        return False

    return fault


def breaks_off(handler):
    """Promise more bytes than are sent."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [{"mess')
    handler.close_connection = True


def resets(handler):
    """Drop the connection with a TCP reset."""
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.connection.close()
    handler.close_connection = True


def hangs_up(handler):
    """Answer well, then close the connection unannounced, as an idle one is closed."""
    handler.close_connection = True
    return False


def solver(messages):
    """Play GuessTheNumber well, from nothing but the conversation."""
    seen = [message["content"] for message in messages if message["role"] == "user"]
    if messages[0]["role"] == "system":
        seen[0] = f"{messages[0]['content']}\n\n{seen[0]}"
    moves = [message["content"] for message in messages if message["role"] == "assistant"]
    return GuessTheNumberEnv.solve(seen, moves)
