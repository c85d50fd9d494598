"""SGLang as an engine, over its native HTTP interface: token ids in, token ids and log-probs out.

Every running request waits for its answer in its own thread, so the server can batch freely while
environments step. Answers are checked: ids must be in the vocabulary and not too many, and
log-probs must be finite and at most 0.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from llm_gym.core.errors import ConfigError
from llm_gym_agents.engines.base import Completion, Engine, EngineError, FinishReason, Request
from llm_gym_agents.engines.replies import check_prompt, end_ids_of, portable_pattern
from llm_gym_agents.engines.sglang.server import Calls, SGLangServer
from llm_gym_agents.model.load import load_config, load_generation_config

ABORT_S = 10.0
"""Maximum seconds for the server to drop cancelled requests."""
_PAUSE_S = 0.05


class SGLangEngine(Engine):
    """Samples with an SGLang server.

    Log-probs are those of ``softmax(logits / temperature)`` over the whole vocabulary. The server
    uses the seed of a request only with ``--enable-deterministic-inference`` in ``arguments``;
    otherwise two runs sample differently.

    Args:
        path: The model: a folder or a hub name.
        tokenizer: Adds its end-of-text ids to those in the model's folder.
        url: URL of a running server that serves ``path``; None starts one.
        arguments: More command-line arguments for a server that is started.
        dtype: float32, bfloat16, float16 or auto (as saved).
        max_model_len: Maximum tokens of prompt and reply; by default the model's context.
        tensor_parallel_size: GPUs to spread the model over.
        max_rows: Maximum replies that run at once; others wait.
        patterns: Enable ``Sampling.pattern``. A server at a ``url`` then needs a tokenizer.
        stall_s: Seconds without any reply after which the server counts as failed.
        trust_remote_code: Whether to run Python code that comes with the model.
    """

    def __init__(
        self,
        path: str,
        *,
        tokenizer: PreTrainedTokenizerBase | None = None,
        url: str | None = None,
        arguments: Sequence[str] = (),
        dtype: str = "auto",
        max_model_len: int | None = None,
        tensor_parallel_size: int = 1,
        max_rows: int = 256,
        patterns: bool = False,
        stall_s: float = 600.0,
        trust_remote_code: bool = False,
    ) -> None:
        if stall_s <= 0 or max_rows < 1:
            raise ConfigError(
                f"stall_s must be above 0 and max_rows at least 1, got {stall_s} and {max_rows}"
            )
        if url and arguments:
            raise ConfigError(
                f"arguments are for a server that is started here, got some for the one at {url}"
            )
        own = ["--dtype", dtype, "--tp-size", str(tensor_parallel_size)]
        own += ["--max-running-requests", str(max_rows)]
        own += [] if patterns else ["--skip-tokenizer-init"]
        own += ["--context-length", str(max_model_len)] if max_model_len else []
        own += ["--trust-remote-code"] if trust_remote_code else []
        self._config = load_config(path, trust_remote_code=trust_remote_code)
        text = self._config.get_text_config()  # of a model that reads pictures too
        self._vocabulary = int(text.vocab_size)
        self.path, self.tokenizer, self.stall_s = path, tokenizer, stall_s
        owners = (self._config, load_generation_config(path), tokenizer)
        self.end_ids = frozenset(end_ids_of(*owners))
        self._patterns = patterns or url is not None
        self._requests: dict[int, Request] = {}
        self._server = SGLangServer(url, path, [*own, *arguments])
        self._calls = Calls(self._server.http, "/generate", max_rows)
        try:
            about = self._server.about()
        except BaseException:
            self.close()
            raise
        lengths = [length for length in (max_model_len, about.get("context_length")) if length]
        self.context_length = min(lengths or [int(text.max_position_embeddings)])
        self.dtype = _dtype(str(about.get("dtype")), self._config)

    # --- sampling ------------------------------------------------------------------------

    def submit(self, requests: Iterable[Request]) -> None:
        self.need_open()
        bodies = [(request, self._body(request)) for request in requests]
        for request, body in bodies:
            self._requests[self._calls.begin(body)] = request

    def poll(self, timeout: float | None = None) -> list[Completion]:
        self.need_open()
        finished: list[Completion] = []
        patience = self.stall_s if timeout is None else max(0.0, timeout)
        while self._requests:
            found = self._calls.take(0.0 if finished else patience)
            if found is None:
                if not finished and timeout is None:
                    self._fail(f"it has said nothing for {self.stall_s:g} s")
                break
            name, answer = found
            finished.append(self._completion(self._requests.pop(name), answer))
        return finished

    @property
    def running(self) -> int:
        return len(self._requests)

    def cancel(self) -> list[Completion]:
        """Cancel all running requests; their partial replies are lost.

        A server that does not cancel them counts as failed.
        """
        dropped, self._requests = self._requests, {}
        self._calls.drop()
        deadline = time.monotonic() + ABORT_S
        try:
            while self._calls.busy and not self._closed:
                # Again and again: a request may still have been on its way there.
                self._server.ask("abort_request", ABORT_S, rid="", abort_all=True)
                if time.monotonic() > deadline:
                    self.close()
                time.sleep(_PAUSE_S)
        except EngineError:
            self.close()
        return [
            Completion([], [], FinishReason.CANCELLED, self.version, request.key)
            for request in dropped.values()
        ]

    def _body(self, request: Request) -> dict[str, Any]:
        sampling = request.sampling
        room = check_prompt(request.prompt, self.context_length, self._vocabulary)
        if sampling.stop_strings:
            raise ConfigError("SGLang gets token ids here and supports no stop_strings")
        if sampling.pattern is not None and not self._patterns:
            raise ConfigError("a pattern needs an engine that was started with patterns=True")
        parameters: dict[str, Any] = {
            "max_new_tokens": min(sampling.max_tokens, room),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "stop_token_ids": sorted(self.end_ids.union(sampling.stop_ids)),
            "ignore_eos": True,  # the list before says it all
            "sampling_seed": request.seed & 0x7FFFFFFF,
        }
        if sampling.pattern is not None:
            parameters["regex"] = portable_pattern(sampling.pattern)
        ids = [int(id) for id in request.prompt]
        return {"input_ids": ids, "sampling_params": parameters, "return_logprob": True}

    def _completion(self, request: Request, answer: Any) -> Completion:
        if isinstance(answer, Exception):
            self._fail(answer)
        try:
            kind, message, ids, log_probs = read_reply(
                answer, self._vocabulary, request.sampling.max_tokens
            )
        except ValueError as error:
            self._fail(f"its answer is no reply: {error}: {answer!r:.200}")
        if kind not in (FinishReason.STOP, FinishReason.LENGTH):
            self._fail(f"it ended a reply with {kind!r:.100}: {message:.300}")
        return Completion(ids, log_probs, FinishReason(kind), self.version, request.key)

    # --- scoring -------------------------------------------------------------------------

    def score(
        self, sequences: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> list[list[float]]:
        self.need_open()
        if temperature != 1.0:
            raise ConfigError(f"SGLang scores at temperature 1 only, got {temperature}")
        scores = []
        for ids in sequences:
            check_prompt(ids, self.context_length, self._vocabulary)
            answer = self._server.ask(
                "generate",
                input_ids=[int(id) for id in ids],
                sampling_params={"max_new_tokens": 1, "temperature": 1.0},
                return_logprob=True,
                logprob_start_len=0,
            )
            try:
                scores.append(read_scores(answer, len(ids), self._vocabulary))
            except ValueError as error:
                raise EngineError(f"SGLang gives no scores: {error}: {answer!r:.200}") from error
        return scores

    # --- weights -------------------------------------------------------------------------

    def update_weights(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Let the server load new weights and empty its cache.

        The weights go through a folder in shared memory, so the server must be on this machine.
        """
        self.need_open()
        self.need_idle()
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryDirectory(dir=memory, prefix="llm-gym-") as place:
            tensors = {
                name: tensor.to(self.dtype).cpu().contiguous() for name, tensor in named_tensors
            }
            save_file(tensors, f"{place}/model.safetensors")
            self._config.save_pretrained(place)
            answer = self._server.ask("update_weights_from_disk", model_path=place, timeout=600.0)
        if not isinstance(answer, dict) or not answer.get("success"):
            raise EngineError(f"SGLang did not take the weights: {answer!r:.300}")
        self._server.ask("flush_cache")
        self.version = version

    # --- life and death ------------------------------------------------------------------

    def close(self) -> None:
        """Cancel all requests, and end the server if it was started here. Safe to call twice."""
        self._closed = True
        self._requests.clear()
        self._calls.close()
        self._server.close()

    def _fail(self, what: object) -> NoReturn:
        lost, why = len(self._requests), self._server.reason(what)
        self.close()
        raise EngineError(
            f"SGLang failed: {why}; {lost} more replies were running; build a new engine to go on"
        )


def _dtype(name: str, config: Any) -> torch.dtype:
    """Return the precision that a server works in, which may call it "auto"."""
    if name == "auto":
        own = config.dtype or torch.float32
        return torch.float16 if own == torch.float32 else own
    found = getattr(torch, name, None)
    return found if isinstance(found, torch.dtype) else torch.float32


_SLACK = 1e-3
"""Rounding error by which the log-prob of a certain token may exceed 0."""
_LEAST = -sys.float_info.max


def read_reply(answer: Any, vocabulary: int, most: int) -> tuple[str, str, list[int], list[float]]:
    """Return a reply's finish reason, the server's message, its ids and their log-probs."""
    finish = _part(answer, dict, "meta_info", "finish_reason")
    kind, message = _part(finish, str, "type"), str(finish.get("message"))
    if kind == "abort":  # such a reply has no tokens
        return kind, message, [], []
    ids, log_probs = _tokens(_part(answer, list, "meta_info", "output_token_logprobs"), vocabulary)
    if len(ids) > most:
        raise ValueError(f"{len(ids)} tokens where {most} were asked for")
    return kind, message, ids, log_probs


def read_scores(answer: Any, count: int, vocabulary: int) -> list[float]:
    """Return the log-probs of a prompt of ``count`` tokens, of all but its first."""
    rows = _part(answer, list, "meta_info", "input_token_logprobs")
    if len(rows) != count:
        raise ValueError(f"scores of {len(rows)} tokens where {count} were asked for")
    return _tokens(rows[1:], vocabulary)[1]


def _tokens(rows: list[Any], vocabulary: int) -> tuple[list[int], list[float]]:
    if not all(isinstance(row, list) and len(row) >= 2 for row in rows):
        raise ValueError("a token without id and log-prob")
    pairs = [row[:2] for row in rows]
    for log_prob, id in pairs:
        if type(id) is not int or not 0 <= id < vocabulary:
            raise ValueError(f"{id!r:.40} is not a token id")
        if type(log_prob) not in (int, float) or not _LEAST <= log_prob <= _SLACK:
            raise ValueError(f"{log_prob!r:.40} is not a log-prob")
    return [id for _, id in pairs], [float(log_prob) for log_prob, _ in pairs]


def _part(answer: Any, kind: type, *names: str) -> Any:
    """Return the part of a JSON object under ``names``, which must be of this kind."""
    for name in names:
        answer = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(answer, kind):
        raise ValueError(f"it has no {'.'.join(names)}")
    return answer
