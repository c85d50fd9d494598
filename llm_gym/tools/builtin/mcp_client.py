"""Tools of MCP servers, through the official client. Only this module imports ``mcp``.

The client is asynchronous and a tool is not, so each server has a thread with an event loop. A
server is untrusted: connecting has a deadline, lists have a maximum length, and its program is
ended whenever this process ends.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from importlib import import_module
from typing import Any

from llm_gym.core.errors import ConfigError, require_package
from llm_gym.tools.definition import TIMEOUT, Tool, ToolDefinition, ToolError, check_timeout
from llm_gym.tools.sandbox.guard import guard_command

_START_S = 30.0
_END_S = 10.0
_MAX_PAGES = 100
_MAX_TOOLS = 1000
_LINE_BYTES = 16 << 20
"""Maximum size of a server's message, because the client keeps all of it in memory."""


class McpServer:
    """A connection to an MCP server; its tools are in ``tools``.

    Args:
        command: Program and arguments of a server that uses standard input and output.
        url: URL of a server that uses streamable HTTP, instead of a command.
        environment: Environment variables for the program, added to the few that the client passes
            on.
        timeout: Seconds a call may take.
        start_s: Seconds until the server must have listed its tools.

    Example::

        with McpServer(["uvx", "mcp-server-time"]) as server:
            registry = ToolRegistry(server.tools)
    """

    def __init__(
        self,
        command: Sequence[str] | None = None,
        *,
        url: str | None = None,
        environment: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
        start_s: float = _START_S,
    ) -> None:
        if (command is None) == (url is None):
            raise ConfigError("McpServer takes a command or a url: give one of them")
        self.command, self.url = list(command or ()), url
        self.environment, self.timeout = dict(environment or {}), timeout
        check_timeout(timeout)
        self.start_s = start_s
        if not 0.0 < start_s < float("inf"):
            raise ConfigError(f"start_s must be a number of seconds above 0, got {start_s!r}")
        require_package("mcp", "a tool of an MCP server")
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._ready: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._live, name="mcp", daemon=True)
        self._thread.start()
        try:
            # The loop keeps the deadline; this longer one is for a loop that hangs.
            self._session, listed = self._ready.result(start_s + _END_S)
            self.tools = [McpTool(self, row) for row in listed]
        except Exception as error:
            self.close()
            why = _reason(error, start_s)
            raise ConfigError(f"cannot connect to the MCP server {self}: {why}") from error

    def __str__(self) -> str:
        return self.url or " ".join(self.command)

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Call a tool of the server and return its text; raises ``ToolError`` with the reason."""
        if not self._thread.is_alive() or self._loop.is_closed():
            raise ToolError("The MCP server is closed.")
        call = self._session.call_tool(name, arguments)
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            answer = future.result(self.timeout).model_dump(by_alias=True)
        except TimeoutError:
            future.cancel()
            raise ToolError(f"{name} took longer than {self.timeout:g} s.") from None
        except Exception as error:
            raise ToolError(f"{name} failed: {_reason(error, self.timeout)}") from error
        text = "\n".join(_as_text(part) for part in answer.get("content") or ())
        if answer.get("isError"):
            raise ToolError(text or f"{name} failed.")
        return text

    def close(self) -> None:
        with suppress(RuntimeError):  # the loop has ended by itself, maybe just now
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(_END_S)

    def __enter__(self) -> McpServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _live(self) -> None:
        try:
            self._loop.run_until_complete(self._connect_and_wait())
        except BaseException as error:  # noqa: BLE001 - raised again in ``__init__``
            if not self._ready.done():
                self._ready.set_exception(error)
        finally:
            self._loop.close()

    async def _connect_and_wait(self) -> None:
        mcp: Any = import_module("mcp")
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self.start_s):
                streams = await stack.enter_async_context(self._transport())
                session = await stack.enter_async_context(mcp.ClientSession(*streams[:2]))
                await session.initialize()
                tools = await _all_tools(session)
            self._ready.set_result((session, tools))
            await self._closing.wait()

    def _transport(self) -> Any:
        mcp: Any = import_module("mcp")
        if self.url is None:
            program, *arguments = guard_command(self.command, line_bytes=_LINE_BYTES)
            return mcp.stdio_client(
                mcp.StdioServerParameters(
                    command=program, args=arguments, env=self.environment or None
                )
            )
        http: Any = import_module("mcp.client.streamable_http")
        # Versions of the package use different names.
        names = ("streamable_http_client", "streamablehttp_client")
        connect = next(getattr(http, name) for name in names if hasattr(http, name))
        return connect(self.url)


class McpTool(Tool):
    """One tool of an MCP server."""

    timeout = None  # the server's own is kept by ``McpServer.call``

    def __init__(self, server: McpServer, row: Mapping[str, Any]) -> None:
        self.server, self.remote_name = server, str(row["name"])
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", self.remote_name)[:64]
        if not re.match(r"[A-Za-z_]", name):
            name = f"_{name}"[:64]
        schema = {"type": "object", "properties": {}, **(row.get("inputSchema") or {})}
        self.definition = ToolDefinition(name, row.get("description") or "", schema)

    def execute(self, /, **params: Any) -> str:
        return self.server.call(self.remote_name, params)

    def close(self) -> None:
        self.server.close()


async def _all_tools(session: Any) -> list[dict[str, Any]]:
    types: Any = import_module("mcp.types")
    listed = (await session.list_tools()).model_dump(by_alias=True)
    tools: list[dict[str, Any]] = listed["tools"]
    for _ in range(_MAX_PAGES):
        if not (cursor := listed.get("nextCursor")):
            return tools
        if len(tools) > _MAX_TOOLS:
            break
        page = types.PaginatedRequestParams(cursor=cursor)
        listed = (await session.list_tools(params=page)).model_dump(by_alias=True)
        tools += listed["tools"]
    raise ConfigError(f"it lists more than {_MAX_PAGES} pages or {_MAX_TOOLS} tools")


def _reason(error: BaseException, start_s: float) -> str:
    """Return why the connection failed, from the first error in an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError | concurrent.futures.CancelledError):
        return f"it did not answer within {start_s:g} s"
    return " ".join(f"{error!s:.300}".split()) or type(error).__name__


def _as_text(part: Mapping[str, Any]) -> str:
    if part.get("type") == "text":
        return str(part.get("text", ""))
    return f"[{part.get('type', 'content')} that is not text]"
