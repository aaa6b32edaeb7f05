"""An MCP server that logs every call with its idempotency key; the first `pay` kills its client.

It uses no library, so that it starts in a moment.
"""

import json
import os
import signal
import sys
from pathlib import Path

NOTES = Path(sys.argv[1])
META = "dev.callsheet/idempotency-key"


def taken() -> list[dict[str, str]]:
    return [json.loads(line) for line in NOTES.read_text().splitlines()] if NOTES.exists() else []


def note(tool: str, key: str) -> None:
    with NOTES.open("a") as file:
        file.write(json.dumps({"tool": tool, "key": key}) + "\n")
    if len(taken()) == 1:
        os.kill(os.getppid(), signal.SIGKILL)


def pay(key: str, amount: int) -> str:
    """Take the key from `_meta`."""
    note("pay", key)
    return f"paid {amount}"


def pay_named(key: str, amount: int, reference: str) -> str:
    """Take the key from a named argument."""
    note("pay_named", reference)
    return f"paid {amount}"


def order(key: str, amount: int) -> str:
    """Not repeatable, but has a probe."""
    note("order", key)
    return f"ordered {amount}"


def pay_once(key: str, amount: int, idempotency_key: str) -> str:
    """Takes its key in an argument with the usual name, which nobody declares."""
    note("pay_once", idempotency_key)
    return f"paid {amount}"


def list_orders(key: str, amount: int) -> list[dict[str, str]]:
    """What was ordered, as a tracker lists it."""
    return [row for row in taken() if row["tool"] == "order"]


def find_order(key: str, reference: str) -> dict[str, object]:
    """Whether an order with this reference exists."""
    found = any(row == {"tool": "order", "key": reference} for row in taken())
    return {"happened": True, "value": "found"} if found else {"happened": False}


TOOLS = {tool.__name__: tool for tool in (pay, pay_named, order, pay_once, list_orders, find_order)}
TYPES = {"amount": "integer", "reference": "string", "idempotency_key": "string"}

ROWS = {"type": "object", "properties": {"result": {"type": "array"}}, "required": ["result"]}


def declared(name: str) -> dict[str, object]:
    code = TOOLS[name].__code__
    names = code.co_varnames[1 : code.co_argcount]
    schema = {
        "type": "object",
        "properties": {each: {"type": TYPES[each]} for each in names},
        "required": list(names),
    }
    told = {"name": name, "description": TOOLS[name].__doc__, "inputSchema": schema}
    return told | ({"outputSchema": ROWS} if name == "list_orders" else {})


def answered(name: str, arguments: dict[str, object], meta: dict[str, str]) -> dict[str, object]:
    value = TOOLS[name](meta.get(META, ""), **arguments)
    if isinstance(value, str):
        return {"content": [{"type": "text", "text": value}]}
    structured = value if isinstance(value, dict) else {"result": value}
    return {"content": [], "structuredContent": structured}


for line in sys.stdin:
    ask = json.loads(line)
    if "id" not in ask:
        continue
    asked = ask.get("params", {})
    match ask["method"]:
        case "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "till", "version": "1"}}
            result = {"protocolVersion": "2025-06-18", **about}
        case "tools/list":
            result = {"tools": [declared(name) for name in TOOLS]}
        case "tools/call":
            result = answered(asked["name"], asked["arguments"], asked.get("_meta", {}))
        case _:
            result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": result}), flush=True)
