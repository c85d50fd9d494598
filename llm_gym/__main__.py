"""``python -m llm_gym``: the command line, for launchers such as ``torchrun -m``."""

import sys

from llm_gym.cli import main

if __name__ == "__main__":
    sys.exit(main())
