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


def main():
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(request["method"], request.get("params") or {})
        reply = {"jsonrpc": "2.0", "id": request["id"]}
        if result is None:
            reply["error"] = {"code": -32601, "message": "unknown method"}
        else:
            reply["result"] = result
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
