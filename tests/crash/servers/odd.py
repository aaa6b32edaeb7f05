"""A hand-written server whose tool `give` logs its call, then answers in the requested odd way.

Arguments: the file of the log. `give` takes a number of bytes, or the name of an oddity.
"""

import json
import sys
import time

NOTES = sys.argv[1]
TOOLS = [
    {
        "name": "give",
        "inputSchema": {"type": "object", "properties": {"what": {}}},
    }
]


def say(ask, **answer):
    write(json.dumps({"jsonrpc": "2.0", "id": ask["id"], **answer}, ensure_ascii=False).encode())


def write(line):
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def give(ask, what):
    with open(NOTES, "a") as file:
        file.write(f"{what}\n")
    head = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % ask["id"]
    tail = b'"}]}}'
    match what:
        case int():
            write(head + b"x" * what + tail)
        case "not utf-8":
            write(head + b"caf\xe9" + tail)
        case "nan":
            write(
                b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"n":NaN}}}' % ask["id"]
            )
        case "repeated keys":
            structured = b'{"n":1,"rows":[{"a":1,"b":2,"a":3}],"n":-Infinity}'
            line = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":%b}}'
            write(line % (ask["id"], structured))
        case "no json":
            write(b"Segmentation fault")
        case "no result":
            say(ask, result={"content": "a text in the place of a list"})
        case "too late":
            time.sleep(1)
            write(head + b"late" + tail)
        case "300 MB" | "300 MB, then whose":
            is_last = what.endswith("whose")
            sys.stdout.buffer.write(head if not is_last else b'{"result":{"content":[{"type":"text","text":"')
            for _ in range(300):
                sys.stdout.buffer.write(b"x" * 1_000_000)
            write(tail if not is_last else b'"}]},"jsonrpc":"2.0","id":%d}' % ask["id"])
        case "no end of line":
            for _ in range(270):
                sys.stdout.buffer.write(b"x" * (1 << 20))
            sys.stdout.buffer.flush()
            time.sleep(60)


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    match request["method"]:
        case "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
            say(request, result={"protocolVersion": "2025-06-18", **about})
        case "tools/list":
            say(request, result={"tools": TOOLS})
        case "tools/call":
            give(request, request["params"]["arguments"]["what"])
        case _:
            say(request, error={"code": -32601, "message": "no"})
