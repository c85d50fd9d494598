"""``python``: runs code in the sandbox."""

from typing import Any

from llm_gym.tools.builtin.calculator import arithmetic
from llm_gym.tools.definition import Tool, ToolError, check_timeout, text_definition
from llm_gym.tools.sandbox import Sandbox, SandboxError, SandboxSession, shared

_ONCE = "Run Python code. What it prints is returned, and the value of a last expression."
_ON = f"{_ONCE} Variables are kept from call to call."


class PythonTool(Tool):
    """Runs Python in the sandbox that the process shares, or in one of your own.

    Plain arithmetic is computed without a process, with the same result.

    If a stateful tool is pickled or copied during an episode, the copy runs the earlier code again
    before its next call, to restore the variables.

    Args:
        stateful: Whether variables are kept from call to call, until ``reset``.
        timeout: Seconds a call may take.
        isolation: As in ``Sandbox``.
        memory_mb: As in ``Sandbox``.
        sandbox: Your own sandbox, instead of ``isolation`` and ``memory_mb``.

    >>> PythonTool(isolation="none").execute(code="2 ** 10")
    '1024'
    """

    timeout = None  # the sandbox limits the time, by ending the process

    def __init__(
        self,
        *,
        stateful: bool = False,
        timeout: float = 5.0,
        isolation: str = "auto",
        memory_mb: int = 512,
        sandbox: Sandbox | None = None,
    ) -> None:
        check_timeout(timeout)
        self.stateful, self.seconds = stateful, timeout
        self.isolation, self.memory_mb = isolation, memory_mb
        self._sandbox = sandbox
        self.definition = text_definition(
            "python", _ON if stateful else _ONCE, "code", "Python code."
        )
        self._past: list[str] = []
        self._session: SandboxSession | None = None

    def execute(self, /, **params: Any) -> str:
        code = params["code"]
        if not self.stateful and (value := arithmetic(code)) is not None:
            return value
        sandbox = self._sandbox or shared(isolation=self.isolation, memory_mb=self.memory_mb)
        try:
            if not self.stateful:
                result = sandbox.run(code, self.seconds)
            else:
                session = self._get_session(sandbox)
                losses = session.restarts
                result = session.run(code, self.seconds)
                self._past.append(code)
                if session.restarts > losses:
                    self._past = []
                    raise ToolError(f"{result.text()}\nAll variables were lost.")
        except SandboxError as error:
            raise ToolError(f"Python is not available: {error}.") from error
        if not result.ok:
            raise ToolError(result.text())
        return result.text()

    def _get_session(self, sandbox: Sandbox) -> SandboxSession:
        if self._session is None:
            self._session = sandbox.session()
            for code in self._past:
                self._session.run(code, self.seconds)
        return self._session

    def reset(self) -> None:
        self._past = []
        self.close()

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def __getstate__(self) -> dict[str, Any]:
        # A process cannot be pickled; the copy uses the shared sandbox.
        return {**vars(self), "_session": None, "_sandbox": None}
