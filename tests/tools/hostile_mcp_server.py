"""A faulty MCP server: its first argument is the fault; its second is a file for its process."""

import json
import os
import sys
import time

from mcp_server import reply, serve  # beside this file


def wrong_result(how):
    """Return what no tool may return, or nothing, or end."""
    if how == "ends":
        os._exit(3)
    if how == "silent":
        time.sleep(600)
    if how == "flood":
        sys.stdout.write("x" * (20 << 20) + "\n")
    if how == "noise":
        note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": "x"}}
        sys.stdout.write(f"no JSON\n[]\n{json.dumps(note)}\n" * 100)
        return None
    return {
        "shapes": {"content": "none"},
        "parts": {"content": [3, {"type": "dance"}]},
        "numbers": {"content": [{"type": "text", "text": float("nan")}]},
        "deep": {"content": [], "structuredContent": json.loads('{"a":' * 400 + "1" + "}" * 400)},
        "nothing": {"content": [], "isError": True},
        "error": {"error": {"code": "x", "message": 7}},
        "other id": {"id": 10**9},
    }[how]


T, SCHEMA = {"name": "t", "inputSchema": {"type": "object"}}, {"minimum": "zero", "enum": 7}
ODD = {"type": "object", "properties": {"n": {"type": "integer", **SCHEMA}}}
LISTS = {
    "endless": {"tools": [], "nextCursor": "more"},
    "many": {"tools": [T] * 500, "nextCursor": "more"},
    "schema": {"tools": [{"name": "odd", "inputSchema": ODD}]},
    "shapes": {"tools": "none"},
}


def faulty(kind, request):
    """Return a wrong answer, or None where the right one is sent."""
    method = request["method"]
    if kind == "silent" and method == "initialize":
        time.sleep(600)
    if kind == method == "tools/call":
        return wrong_result(request["params"]["arguments"]["text"])
    if method != "tools/list":
        return None
    if kind == "flood":
        block = "x" * (1 << 20)
        for _ in range(4096):  # a reader that goes on reading holds 4 GiB in the end
            sys.stdout.write(block)
        sys.stdout.flush()
    if kind == "ends":
        os._exit(3)
    return LISTS.get(kind)


def main():
    kind, place = sys.argv[1:3]
    with open(place, "a") as file:
        file.write(f"{os.getpid()}\n")
    if kind == "deaf":
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.stdout.write('{"no": "protocol"}\n')
        sys.stdout.flush()
        time.sleep(600)

    def faulty_reply(request):
        result = faulty(kind, request)
        if result is None:
            return reply(request)
        return {"result": result, **(result if "error" in result or "id" in result else {})}

    serve(faulty_reply)


if __name__ == "__main__":
    main()
