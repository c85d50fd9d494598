"""An MCP server written out by hand: three tools over stdio, two to a page."""

import json
import sys
import time

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [
    {"name": "shout", "description": "Say it loudly.", "inputSchema": TEXT},
    {"name": "fail", "description": "Fail.", "inputSchema": TEXT},
    {"name": "sleep", "inputSchema": {"type": "object"}},
]


def call(name, arguments):
    if name == "sleep":
        time.sleep(5)
    if name == "fail":
        return {"content": [{"type": "text", "text": "It is broken."}], "isError": True}
    content = [
        {"type": "text", "text": arguments["text"].upper()},
        {"type": "image", "data": "", "mimeType": "image/png"},
    ]
    return {"content": content, "isError": False}


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "by hand", "version": "1"},
        }
    if method == "tools/list":
        if params.get("cursor") == "more":
            return {"tools": TOOLS[2:]}
        return {"tools": TOOLS[:2], "nextCursor": "more"}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {})
    return None


def reply(request):
    result = answer(request["method"], request.get("params") or {})
    if result is None:
        return {"error": {"code": -32601, "message": "unknown method"}}
    return {"result": result}


def serve(reply):
    """Write ``reply(request)`` for every request of stdin."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            answered = {"jsonrpc": "2.0", "id": request["id"], **reply(request)}
            sys.stdout.write(json.dumps(answered) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    serve(reply)
