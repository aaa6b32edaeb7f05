"""A server that reports its environment, arguments and calls; and prints them when it dies."""

from __future__ import annotations

import json
import os
import sys

KNOWN = f"env {os.environ.get('LEAKY_SECRET')} args {sys.argv[1:]}"
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [{"name": name, "inputSchema": SCHEMA} for name in ("echo", "perish")]


def say(ask: dict[str, object], **answer: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], **answer}), flush=True)


print(f"started with {KNOWN}", file=sys.stderr, flush=True)
for line in sys.stdin:
    ask = json.loads(line)
    if "id" not in ask:
        continue
    method, params = ask["method"], ask.get("params", {})
    if method == "initialize":
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "leaky", "version": "1"}}
        say(ask, result={"protocolVersion": "2025-06-18", **about})
    elif method == "tools/list":
        say(ask, result={"tools": TOOLS})
    elif method == "tools/call" and params["name"] == "perish":
        print(f"dying of {params['arguments']} with {KNOWN}", file=sys.stderr, flush=True)
        sys.exit(3)
    elif method == "tools/call":
        text = json.dumps(
            {"said": params["arguments"]["text"], "known": KNOWN, "more": os.environ.get("MORE")}
        )
        say(ask, result={"content": [{"type": "text", "text": text}]})
    else:
        say(ask, error={"code": -32601, "message": "no"})
