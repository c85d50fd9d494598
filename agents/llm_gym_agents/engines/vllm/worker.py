"""What runs inside vLLM's workers: writing new weights into the model, and summing them.

vLLM imports this module by name in the process of each worker, before it builds the model.
"""

import contextlib
import os
import sys
import threading
import time
from typing import Any

import torch

from llm_gym_agents.engines.vllm.runtime import keep_weights_in_place
from llm_gym_agents.engines.weight_push import Bucket, weight_sums, weights_in

_LOOK_EVERY_S = 1.0
if "vllm" in sys.modules:  # not where a test only imports this module
    # Here, because a worker's process runs nothing else of ours in time.
    keep_weights_in_place()


class WorkerSide:
    """What is mixed into vLLM's worker class, in whichever process that lives."""

    model_runner: Any
    """The worker's own."""

    def llm_gym_load(self, bucket: Bucket | bytes) -> list[str]:
        """Put weights into the model, in place; return the names of what was written."""
        written = sorted(self.model_runner.model.load_weights(weights_in(bucket)))
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # the sender frees its buffer when this returns
        return written

    def llm_gym_parameters(self) -> dict[str, str]:
        """Return the names of all that a push has to reach, and the type of each."""
        model = self.model_runner.model
        return {name: str(weight.dtype) for name, weight in model.named_parameters()}

    def llm_gym_packed(self) -> dict[str, list[str]]:
        model = self.model_runner.model
        packed = getattr(model, "packed_modules_mapping", {})
        return {name: list(parts) for name, parts in packed.items()}

    def llm_gym_sums(self) -> dict[str, tuple[int, ...]]:
        model = self.model_runner.model
        return {name: tuple(each) for name, each in weight_sums(model.named_parameters()).items()}

    def llm_gym_follow(self, owner: int) -> None:
        """End, and with it all of vLLM, when the process that started it is gone."""
        if os.getpid() != owner:
            threading.Thread(target=_end_with, args=(owner,), daemon=True).start()


def _end_with(owner: int) -> None:
    """End this process soon after ``owner``: one that is killed cannot end it any more."""
    parent = os.getppid()
    with contextlib.suppress(ProcessLookupError):
        while os.getppid() == parent:
            os.kill(owner, 0)
            time.sleep(_LOOK_EVERY_S)
    os._exit(1)
