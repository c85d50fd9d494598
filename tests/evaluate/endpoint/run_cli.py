"""``llm-gym`` without torch and the like, which this process cannot import, stoppable by Ctrl-C."""

import signal
import sys

HEAVY = ("torch", "torchrl", "tensordict", "transformers", "vllm", "rich", "tyro", "requests")

if __name__ == "__main__":
    # A shell's background jobs ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.modules.update(dict.fromkeys(HEAVY))
    from llm_gym.cli import main

    sys.exit(main())
