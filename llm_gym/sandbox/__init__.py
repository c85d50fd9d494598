"""A sandbox for code that a model wrote.

>>> from llm_gym.sandbox import Sandbox
>>> with Sandbox(isolation="none") as sandbox:  # leave isolation out for code you did not write
...     sandbox.run("1 / 0").error
'ZeroDivisionError: division by zero (line 1)'
"""

from llm_gym.sandbox.result import Result, SandboxError
from llm_gym.sandbox.sandbox import Sandbox, Session, shared

__all__ = ["Result", "Sandbox", "SandboxError", "Session", "shared"]
