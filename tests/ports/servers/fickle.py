"""A hand-written server of the 2025 protocol: paged lists, fields of its own, changing tools."""

import json
import sys

PAGE = 7
tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("look", "change", "drop", "large")]
tools += [
    {"x-own": {"a": 2, "b": 1}, "inputSchema": {"type": "object"}, "name": f"spare{n}"} for n in range(20)
]


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False), flush=True)


def answer(method, params):
    match method:
        case "initialize":
            info = {"name": "fickle", "version": "1"}
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": info,
            }
        case "tools/list":
            start = int(params.get("cursor", 0))
            rest = {"nextCursor": str(start + PAGE)} if start + PAGE < len(tools) else {}
            return {"tools": tools[start : start + PAGE], **rest}
        case "tools/call":
            return {"content": [{"type": "text", "text": call(params["name"], params.get("arguments", {}))}]}
    return None


def call(name, arguments):
    if name == "large":
        return "ä" * arguments["size"]
    if name == "change":
        tools[0]["description"] = "Now with other words."
    elif name == "drop":
        tools[:] = [tool for tool in tools if tool["name"] != "spare1"]
    else:
        return "ok"
    say(method="notifications/tools/list_changed")
    return "changed"


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params", {}))
        if result is None:
            say(id=request["id"], error={"code": -32601, "message": "no such method"})
        else:
            say(id=request["id"], result=result)
