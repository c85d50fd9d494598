"""Inference engines with text in and text out: replies to a list of prompts.

    engine = create_inference_engine("path/to/model")
    output = engine.generate(["Hello, how are you?"], max_tokens=64, temperature=0.7)
    output.sequences, output.tokens

A thin layer over ``llm_gym_agents.engines``. Prompts are tokenised without a chat template;
``multi_turn`` holds conversations.

Shapes: B replies, S tokens of the longest.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from rich.progress import Progress
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from llm_gym.core.errors import ConfigError
from llm_gym.core.settings import check_range
from llm_gym_agents.engines.base import Completion, Engine, Request, Sampling, request_seed
from llm_gym_agents.engines.load import load_engine


@dataclass(frozen=True, slots=True)
class InferenceOutput:
    """Replies, in the order of the prompts."""

    sequences: list[str]
    """Texts without special tokens."""
    tokens: npt.NDArray[np.int64]
    """Ids ``[B, S]``, padded on the right with the tokenizer's padding or end-of-text id."""
    log_probs: npt.NDArray[np.float32]
    """Log-prob of each sampled token ``[B, S]``; 0 at padding."""
    lengths: npt.NDArray[np.int64]
    """Tokens of each reply ``[B]``, including a sampled end-of-text token."""
    finish_reasons: list[str]
    """``stop`` or ``length``."""


class BaseInferenceEngine:
    """Base class of the text engines."""

    def __init__(self, engine: Engine, tokenizer: PreTrainedTokenizerBase) -> None:
        self.engine, self.tokenizer = engine, tokenizer

    def generate(
        self,
        prompts: Sequence[str],
        max_tokens: int = 256,
        temperature: float = 0.7,
        top_p: float = 0.9,
        *,
        stop: Sequence[str] = (),
        n: int = 1,
        seed: int | None = None,
        batch_size: int | None = None,
        progress: bool = False,
    ) -> InferenceOutput:
        """Return a reply to each prompt.

        Args:
            prompts: A prompt that leaves no room for a reply raises an error; it is never cut.
            max_tokens: Of a reply.
            temperature: 0 takes the most likely token.
            top_p: Nucleus sampling: sample among the most likely tokens with this total
                probability.
            stop: Strings that end a reply and remain part of it.
            n: Replies to each prompt, one after another in the output.
            seed: The same seed gives the same replies, however the prompts are batched; None
                draws one.
            batch_size: Maximum replies that the engine computes at once; None for all.
            progress: Show a progress bar.
        """
        if isinstance(prompts, str):
            raise ConfigError("prompts must be a list of texts, got one text; put it into a list")
        check_range("n", n, 1)
        check_range("batch_size", batch_size, 1)
        strings = (stop,) if isinstance(stop, str) else tuple(stop)
        sampling = Sampling(max_tokens, temperature, top_p, stop_strings=strings)
        run = secrets.randbits(63) if seed is None else seed
        requests = [
            Request(ids, sampling, request_seed(run, at, 0, sample))
            for at, ids in enumerate(map(self._encode, prompts))
            for sample in range(n)
        ]
        size, done = batch_size or max(1, len(requests)), list[Completion]()
        with Progress(disable=not progress) as bar:
            task = bar.add_task("Generating", total=len(requests))
            for first in range(0, len(requests), size):
                done += self.engine.generate(requests[first : first + size])
                bar.update(task, completed=len(done))
        return self._output(done)

    def compute_log_probs(
        self, prompts: Sequence[str], responses: Sequence[str] | Sequence[Sequence[int]]
    ) -> Tensor:
        """Return the log-prob of each response after its prompt, summed over its tokens: ``[B]``.

        A response is a text, or token ids without padding: ``tokens[row, : lengths[row]]`` of an
        ``InferenceOutput``. A text is tokenised apart from its prompt, without an end of text. The
        temperature is 1.
        """
        if len(prompts) != len(responses):
            raise ConfigError(
                f"there must be a response for each prompt, got {len(prompts)} and {len(responses)}"
            )
        before = [self._encode(prompt) for prompt in prompts]
        after = [
            self.tokenizer.encode(response, add_special_tokens=False)
            if isinstance(response, str)
            else [int(token) for token in response]
            for response in responses
        ]
        scores = self.engine.score([[*one, *two] for one, two in zip(before, after, strict=True)])
        sums = [
            float(np.sum(score[len(ids) - 1 :], dtype=np.float64))
            for score, ids in zip(scores, before, strict=True)
        ]
        return torch.tensor(sums, dtype=torch.float32)

    def _output(self, completions: Sequence[Completion]) -> InferenceOutput:
        lengths = np.array([len(done.ids) for done in completions], dtype=np.int64)
        shape = (len(completions), int(lengths.max(initial=0)))
        ends = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id)
        padding = next((int(each) for each in ends if each is not None), 0)
        tokens = np.full(shape, padding, dtype=np.int64)
        log_probs = np.zeros(shape, dtype=np.float32)
        for row, done in enumerate(completions):
            tokens[row, : len(done.ids)] = done.ids
            log_probs[row, : len(done.ids)] = done.log_probs
        texts = [
            str(self.tokenizer.decode(done.ids, skip_special_tokens=True)) for done in completions
        ]
        finishes = [str(done.finish) for done in completions]
        return InferenceOutput(texts, tokens, log_probs, lengths, finishes)

    def close(self) -> None:
        self.engine.close()

    def _encode(self, prompt: str) -> list[int]:
        if not isinstance(prompt, str):
            raise ConfigError(f"a prompt must be a text, got {type(prompt).__name__}")
        ids = list(self.tokenizer.encode(prompt))
        if not ids:
            raise ConfigError(f"a prompt must have at least one token, got {prompt!r}")
        return ids


class VLLMInferenceEngine(BaseInferenceEngine):
    """Runs the model with vLLM."""

    def __init__(self, model_path: str, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(*load_engine(model_path, "vllm", config))


class SGLangInferenceEngine(BaseInferenceEngine):
    """Runs the model with SGLang."""

    def __init__(self, model_path: str, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(*load_engine(model_path, "sglang", config))


def create_inference_engine(
    model_path: str, backend: str = "transformers", config: Mapping[str, Any] | None = None
) -> BaseInferenceEngine:
    """Return an engine for the model at ``model_path``.

    Args:
        model_path: A model folder or a hub name.
        backend: transformers, vllm or sglang.
        config: Settings of the engine, as in ``llm_gym_agents.engines.load.load_engine``.
    """
    kinds = {"vllm": VLLMInferenceEngine, "sglang": SGLangInferenceEngine}
    if backend in kinds:
        return kinds[backend](model_path, config)
    return BaseInferenceEngine(*load_engine(model_path, backend, config))


class BatchInferenceManager:
    """Replies to many prompts, a bounded number at a time, with a progress bar."""

    def __init__(
        self, engine: BaseInferenceEngine, batch_size: int = 32, *, progress: bool = True
    ) -> None:
        check_range("batch_size", batch_size, 1)
        self.engine, self.batch_size, self.progress = engine, batch_size, progress

    def generate_batch(
        self, prompts: Sequence[str], *arguments: Any, **settings: Any
    ) -> InferenceOutput:
        """Return what ``BaseInferenceEngine.generate`` returns for the same arguments."""
        return self.engine.generate(
            prompts, *arguments, **settings, batch_size=self.batch_size, progress=self.progress
        )
