"""A sandbox for code that a model wrote.

>>> from llm_gym.tools.sandbox import Sandbox
>>> with Sandbox(isolation="none") as sandbox:  # leave isolation out for code you did not write
...     sandbox.run("1 / 0").error
'ZeroDivisionError: division by zero (line 1)'
"""

from llm_gym.tools.sandbox.process import SandboxError, SandboxResult
from llm_gym.tools.sandbox.sandbox import Sandbox, SandboxSession, shared

__all__ = ["Sandbox", "SandboxError", "SandboxResult", "SandboxSession", "shared"]
