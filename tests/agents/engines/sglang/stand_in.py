"""A server that speaks SGLang's native protocol, as far as ``SGLangEngine`` does.

``StandIn`` is a real HTTP server in this process. ``TinySampler`` makes it a real one altogether:
it computes with a tiny transformers model, and reads new weights from where it is pointed to.
``FixedSampler`` needs no torch, for a server in a process of its own.

What SGLang 0.5 does not know is refused here too, so that a wrong name cannot pass unseen.
"""

import contextlib
import sys
import threading
import time

from tests.local_http import LocalHandler, LocalServer

SAMPLING = {
    "max_new_tokens", "stop", "stop_token_ids", "temperature", "top_p",
    "ignore_eos", "sampling_seed", "regex",
}  # fmt: skip
FIELDS = {"input_ids", "sampling_params", "return_logprob", "logprob_start_len"}


class FixedSampler:
    """Replies with the ids 1, 2, 3, ... and log-probs of -1."""

    about = {"dtype": "float32", "context_length": None}

    def reply(self, ids, params):
        new = list(range(1, params["max_new_tokens"] + 1))
        return new, [-1.0] * len(new)

    def score(self, ids):
        return [-1.0] * (len(ids) - 1)

    def load(self, folder):
        """Nothing to load into."""


class TinySampler(FixedSampler):
    """Samples with the transformers model in ``folder``, one plain forward per token."""

    def __init__(self, folder):
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
        self.lock = threading.Lock()

    def _log_probs(self, ids, temperature=1.0):
        import torch

        with self.lock, torch.no_grad():
            return (self.model(torch.tensor([ids])).logits[0] / temperature).log_softmax(-1)

    def reply(self, ids, params):
        import torch

        chance = torch.Generator().manual_seed(params.get("sampling_seed", 0))
        new, log_probs = [], []
        while len(new) < params["max_new_tokens"]:
            row = self._log_probs([*ids, *new], params["temperature"] or 1.0)[-1]
            drawn = torch.multinomial(row.exp(), 1, generator=chance)
            new.append(int(drawn if params["temperature"] else row.argmax()))
            log_probs.append(float(row[new[-1]]))
            if new[-1] in params["stop_token_ids"]:
                break
        return new, log_probs

    def score(self, ids):
        rows = self._log_probs(ids)
        return [float(row[after]) for row, after in zip(rows, ids[1:], strict=False)]

    def load(self, folder):
        from safetensors.torch import load_file

        with self.lock:
            self.model.load_state_dict(load_file(f"{folder}/model.safetensors"), strict=False)


class StandIn(LocalServer):
    """Serves at ``url`` until ``close``; ``sampler`` is what replies."""

    def __init__(self, sampler, port=0):
        super().__init__(_Handler, port)
        self.sampler = sampler
        self.requests = []
        """Every path with its body, as they came."""
        self.held = set()
        """Prompts that begin with one of these ids are not answered yet."""
        self.deaf = False
        """Confirms new weights without loading them: a stale push."""
        self.refuses = {}
        """Paths that are answered with 400 and a sentence."""
        self.answers = {}
        """Paths that are answered with exactly these bytes."""
        self.trickles = set()
        """Paths whose answer comes a byte at a time, for ever."""
        self.dead = False
        self.aborts = self._holding = 0
        self._changed = threading.Condition()
        self.__enter__()

    def bodies(self, path):
        """Return the bodies sent to ``path``, without the request that looks for a server."""
        found = [body for at, body in self.requests if at == path]
        return [body for body in found if body is None or body.get("input_ids") != [0]]

    def release(self, *first):
        """Answer prompts that begin with ``first``, or all."""
        with self._changed:
            self.held -= set(first) or set(self.held)
            self._changed.notify_all()

    def die(self):
        """End as a killed process does: no answers, and no connections."""
        with self._changed:
            self.dead = True
            self._changed.notify_all()
        self.close()

    def close(self):
        self.release()
        self.__exit__()

    def wait_for(self, count):
        """Return when ``count`` prompts are being held."""
        with self._changed:
            held = self._changed.wait_for(lambda: self._holding == count, timeout=120)
        assert held, f"{self._holding} prompts arrived, not {count}"

    def is_aborted(self, ids):
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

    def abort(self):
        """Break off every prompt that is held."""
        with self._changed:
            self.aborts += 1
            self._changed.notify_all()


class _Handler(LocalHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self._answer(None)

    def do_POST(self):
        self._answer(self.read())

    def _answer(self, body):
        server = self.server
        server.requests.append((self.path, body))
        known = {
            "/generate": self._generate,
            "/server_info": lambda body: {**server.sampler.about, "version": "0.5"},
            "/update_weights_from_disk": self._update,
            "/flush_cache": lambda body: b"Cache flushed.",
            "/abort_request": lambda body: server.abort(),
        }
        if self.path in server.answers:
            self.say(200, server.answers[self.path])
        elif self.path in server.trickles:
            self._trickle()
        elif self.path in server.refuses:
            self.say(400, {"success": False, "message": server.refuses[self.path]})
        elif self.path not in known:
            self.say(404, {"detail": "Not Found"})
        else:
            answer = known[self.path](body)
            if server.dead:
                self.close_connection = True
            else:
                is_text = answer is None or isinstance(answer, bytes)
                self.say(200, answer or b"", {"Content-Type": "text/plain"} if is_text else None)

    def _trickle(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            while not self.server.dead:
                self.wfile.write(b" ")
                self.wfile.flush()
                time.sleep(0.01)

    def _generate(self, body):
        params, ids = body["sampling_params"], body["input_ids"]
        assert not set(body) - FIELDS, set(body) - FIELDS
        assert not set(params) - SAMPLING, set(params) - SAMPLING
        params = {"temperature": 1.0, "stop_token_ids": [], **params}
        if self.server.is_aborted(ids) or self.server.dead:
            new, log_probs, finish = [], [], {"type": "abort", "message": "Aborted"}
        else:
            new, log_probs = self.server.sampler.reply(ids, params)
            ended = new[-1] in params["stop_token_ids"]
            stop = {"type": "stop", "matched": new[-1]}
            finish = stop if ended else {"type": "length", "length": len(new)}
        about = {
            "finish_reason": finish,
            "prompt_tokens": len(ids),
            "completion_tokens": len(new),
            "output_token_logprobs": [
                [one, id, None] for one, id in zip(log_probs, new, strict=True)
            ],
        }
        if "logprob_start_len" in body:
            scores = zip([None, *self.server.sampler.score(ids)], ids, strict=True)
            about["input_token_logprobs"] = [[score, id, None] for score, id in scores]
        return {"text": "", "output_ids": new, "meta_info": about}

    def _update(self, body):
        if not self.server.deaf:
            self.server.sampler.load(body["model_path"])
        return {"success": True, "message": "Succeeded", "num_paused_requests": 0}


if __name__ == "__main__":  # with SGLang's command line
    StandIn(FixedSampler(), int(sys.argv[sys.argv.index("--port") + 1]))
    threading.Event().wait()
