"""A server that speaks SGLang's native protocol, as far as ``SGLangEngine`` does.

``StandIn`` is a real HTTP server in this process. ``TinySampler`` makes it a real one altogether:
it computes with a tiny transformers model, and reads new weights from where it is pointed to.
``FixedSampler`` needs no torch, for a server in a process of its own, which ``main`` starts.

What SGLang 0.5 does not know is refused here too, so that a wrong name cannot pass unseen.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SAMPLING = {
    "max_new_tokens", "stop", "stop_token_ids", "temperature", "top_p",
    "ignore_eos", "sampling_seed", "regex",
}  # fmt: skip
ASKED = {"input_ids", "sampling_params", "return_logprob", "logprob_start_len"}


class FixedSampler:
    """Says 1, 2, 3, ... with a log-prob of -1."""

    about = {"dtype": "float32", "context_length": None}

    def reply(self, ids: list[int], params: dict[str, Any]) -> tuple[list[int], list[float]]:
        said = list(range(1, params["max_new_tokens"] + 1))
        return said, [-1.0] * len(said)

    def score(self, ids: list[int]) -> list[float]:
        return [-1.0] * (len(ids) - 1)

    def load(self, folder: str) -> None:
        """Nothing to load into."""


class TinySampler(FixedSampler):
    """Samples with the transformers model in ``folder``, one plain forward per token."""

    def __init__(self, folder: str) -> None:
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
        self.lock = threading.Lock()

    def _log_probs(self, ids: list[int], temperature: float = 1.0) -> Any:
        import torch

        with torch.no_grad():
            return (self.model(torch.tensor([ids])).logits[0] / temperature).log_softmax(-1)

    def reply(self, ids: list[int], params: dict[str, Any]) -> tuple[list[int], list[float]]:
        import torch

        chance = torch.Generator().manual_seed(params.get("sampling_seed", 0))
        greedy = params["temperature"] == 0
        said: list[int] = []
        sure: list[float] = []
        with self.lock:
            while len(said) < params["max_new_tokens"]:
                row = self._log_probs([*ids, *said], 1.0 if greedy else params["temperature"])[-1]
                drawn = (
                    row.argmax() if greedy else torch.multinomial(row.exp(), 1, generator=chance)
                )
                said.append(int(drawn))
                sure.append(float(row[said[-1]]))
                if said[-1] in params["stop_token_ids"]:
                    break
        return said, sure

    def score(self, ids: list[int]) -> list[float]:
        with self.lock:
            rows = self._log_probs(ids)
        return [float(row[after]) for row, after in zip(rows, ids[1:], strict=False)]

    def load(self, folder: str) -> None:
        from safetensors.torch import load_file

        with self.lock:
            self.model.load_state_dict(load_file(f"{folder}/model.safetensors"), strict=False)


class StandIn(ThreadingHTTPServer):
    """Serves at ``url`` until ``close``.

    Args:
        sampler: What replies.
        port: 0 for any.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, sampler: FixedSampler, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.sampler = sampler
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.asked: list[tuple[str, Any]] = []
        """Every path with its body, as they came."""
        self.held: set[int] = set()
        """Prompts that begin with one of these ids are not answered yet."""
        self.deaf = False
        """Says that it has taken new weights, and has not: a stale push."""
        self.refuses: dict[str, str] = {}
        """Paths that are answered with 400 and a sentence."""
        self.says: dict[str, bytes] = {}
        """Paths that are answered with these very bytes: whatever a stranger may send."""
        self.trickles: set[str] = set()
        """Paths whose answer comes a byte at a time, for ever."""
        self.dead = False
        self.aborts = 0
        self._changed = threading.Condition()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def bodies(self, path: str) -> list[Any]:
        """Return what was asked at ``path``, without the question whether the server is there."""
        found = [body for at, body in self.asked if at == path]
        return [body for body in found if body is None or body.get("input_ids") != [0]]

    def release(self, *first: int) -> None:
        """Answer prompts that begin with ``first``, or all."""
        with self._changed:
            self.held -= set(first) or set(self.held)
            self._changed.notify_all()

    def die(self) -> None:
        """End as a killed process does: no answer to anybody, and nobody at the door."""
        with self._changed:
            self.dead = True
            self._changed.notify_all()
        self.close()

    def close(self) -> None:
        """Stop serving."""
        self.release()
        self.shutdown()
        self.server_close()

    def wait_for(self, count: int) -> None:
        """Return when ``count`` prompts are being held."""
        with self._changed:
            held = self._changed.wait_for(lambda: self._holding == count, timeout=120)
        assert held, f"{self._holding} prompts arrived, not {count}"

    _holding = 0

    def is_aborted(self, ids: list[int]) -> bool:
        """Wait while a prompt is held; return whether it was aborted meanwhile."""
        with self._changed:
            if ids[0] not in self.held:
                return False
            before = self.aborts
            self._holding += 1
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self.dead or ids[0] not in self.held or self.aborts > before
            )
            self._holding -= 1
            return self.aborts > before

    def abort(self) -> None:
        """Break off every prompt that is held."""
        with self._changed:
            self.aborts += 1
            self._changed.notify_all()


class _Handler(BaseHTTPRequestHandler):
    server: StandIn
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Any) -> None:
        server = self.server
        server.asked.append((self.path, body))
        known = {
            "/generate": self._generate,
            "/server_info": lambda body: {**server.sampler.about, "version": "0.5"},
            "/update_weights_from_disk": self._update,
            "/flush_cache": lambda body: "Cache flushed.",
            "/abort_request": lambda body: server.abort(),
        }
        if self.path in server.says:
            self._send(200, "application/json", server.says[self.path])
        elif self.path in server.trickles:
            self._trickle()
        elif self.path in server.refuses:
            self._say(400, {"success": False, "message": server.refuses[self.path]})
        elif self.path not in known:
            self._say(404, {"detail": "Not Found"})
        else:
            answer = known[self.path](body)
            if server.dead:
                self.close_connection = True
            else:
                self._say(200, answer)

    def _say(self, status: int, answer: Any) -> None:
        is_text = answer is None or isinstance(answer, str)
        text = (answer or "") if is_text else json.dumps(answer)
        self._send(status, "text/plain" if is_text else "application/json", text.encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _trickle(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            while not self.server.dead:
                self.wfile.write(b" ")
                self.wfile.flush()
                time.sleep(0.01)

    def _generate(self, body: Any) -> Any:
        params, ids = body["sampling_params"], body["input_ids"]
        assert not set(body) - ASKED, set(body) - ASKED
        assert not set(params) - SAMPLING, set(params) - SAMPLING
        params = {"temperature": 1.0, "stop_token_ids": [], **params}
        if self.server.is_aborted(ids) or self.server.dead:
            return _reply(ids, [], [], {"type": "abort", "message": "Aborted"})
        said, sure = self.server.sampler.reply(ids, params)
        ended = said[-1] in params["stop_token_ids"]
        stop = {"type": "stop", "matched": said[-1]}
        finish = stop if ended else {"type": "length", "length": len(said)}
        reply = _reply(ids, said, sure, finish)
        if "logprob_start_len" in body:
            scores = zip([None, *self.server.sampler.score(ids)], ids, strict=True)
            reply["meta_info"]["input_token_logprobs"] = [[s, id, None] for s, id in scores]
        return reply

    def _update(self, body: Any) -> Any:
        if not self.server.deaf:
            self.server.sampler.load(body["model_path"])
        return {"success": True, "message": "Succeeded", "num_paused_requests": 0}

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def _reply(ids: list[int], said: list[int], sure: list[float], finish: Any) -> dict[str, Any]:
    assert all(math.isfinite(one) for one in sure)
    pairs = [[log_prob, id, None] for log_prob, id in zip(sure, said, strict=True)]
    about = {
        "finish_reason": finish,
        "prompt_tokens": len(ids),
        "completion_tokens": len(said),
        "output_token_logprobs": pairs,
    }
    return {"text": "", "output_ids": said, "meta_info": about}


def main(argv: list[str]) -> None:
    """Serve with the ``--port`` of SGLang's command line until killed."""
    StandIn(FixedSampler(), int(argv[argv.index("--port") + 1]))
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv)
