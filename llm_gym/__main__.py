"""``python -m llm_gym``, for those who start processes by module, as ``torchrun -m`` does."""

import sys

from llm_gym.cli import main

if __name__ == "__main__":
    sys.exit(main())
