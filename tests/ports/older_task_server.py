"""A server of 2025-11-25 whose tool takes calls as tasks only: `older_task_server.py FOLDER`.

Messages are read and written as they are: the SDK speaks the protocol of 2026 where the client can.
A task ends once FOLDER/go exists; what is begun and cancelled is in FOLDER/log.
"""

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
TOOL = {"name": "build", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}
WELCOME = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}},
    "serverInfo": {"name": "builder", "version": "1"},
}


class Refused(Exception):
    """What a request is answered with instead of a result."""


def note(text: str) -> None:
    with (FOLDER / "log").open("a") as file:
        file.write(f"{text}\n")


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    task = params.get("taskId", "")
    match method:
        case "initialize":
            return WELCOME
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call" if "task" in params:
            name = params["arguments"]["name"]
            note(f"began {name}")
            return {"task": {"taskId": 7 if name == "odd" else name, "status": "working", "pollInterval": 20}}
        case "tasks/get":
            ended = task == "lost" or (FOLDER / "go").exists()
            return {"taskId": task, "status": "completed" if ended else "working"}
        case "tasks/result" if task != "lost":
            return {"content": [{"type": "text", "text": f"built {task}"}]}
        case "tasks/cancel":
            note(f"cancelled {task}")
            return {"taskId": task, "status": "cancelled"}
        case _:
            raise Refused(f"there is no {method} here")


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        reply["result"] = answer(message["method"], message.get("params") or {})
    except Refused as refusal:
        reply["error"] = {"code": -32601, "message": str(refusal)}
    print(json.dumps(reply), flush=True)
