"""A changing server: `changeling.py STATE` declares and answers what the JSON file STATE says.

STATE is {"tools": [wire objects], "answers": {tool: text}, "name": …, "version": …}, read anew for every
request. An answer "poke" says that the list of tools has changed, "huge" is 20 MB, "environment" tells which
variables the server sees, "odd" sends messages that are none of the protocol, "flood" asks 20,000 things and
reads no answer, "asks" asks for what clients may offer to servers and tells what came of it, an object is the
whole result; with "fails" the tools are not listed, with "hangs" they never
come. Each call that arrives is noted in STATE.calls.
"""

import json
import os
import sys
import time
from pathlib import Path

STATE = Path(sys.argv[1])


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def initialize(state, params):
    about = {"name": state.get("name", "changeling"), "version": state.get("version", "1")}
    capabilities = {"tools": {"listChanged": True}}
    return {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": about}


def list_tools(state, params):
    time.sleep(60 if "hangs" in state else 0)
    return None if "fails" in state else {"tools": state["tools"]}


QUESTIONS = (
    ("sampling/createMessage", {"messages": [], "maxTokens": 9}),
    (
        "elicitation/create",
        {"message": "Your password?", "requestedSchema": {"type": "object", "properties": {}}},
    ),
    ("roots/list", {}),
)


def asked(method, params):
    say(id=method, method=method, params=params)
    answer = json.loads(sys.stdin.readline())
    return "refused" if "error" in answer else f"given {answer}"


def call(state, params):
    with Path(f"{STATE}.calls").open("a") as calls:
        calls.write(f"{params['name']} {json.dumps(params.get('arguments'))}\n")
    text = state["answers"].get(params["name"], "ok")
    if text == "poke":
        say(method="notifications/tools/list_changed")
    if text == "odd":
        say(method="notifications/progress", params={"x": 1})
        say(method="notifications/tools/list_changed", params={"_meta": 5})
        say(method="nothing/known")
    if text == "flood":
        for number in range(20_000):
            say(id=number, method="roots/list")
    if text == "asks":
        text = " ".join(asked(*question) for question in QUESTIONS)
    if isinstance(text, dict):
        return text
    if text == "environment":
        text = " ".join(sorted(os.environ))
    return {"content": [{"type": "text", "text": "x" * 20_000_000 if text == "huge" else text}]}


REQUESTS = {"initialize": initialize, "tools/list": list_tools, "tools/call": call}
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request or "method" not in request:
        continue
    handler = REQUESTS.get(request["method"])
    result = handler and handler(json.loads(STATE.read_text()), request.get("params", {}))
    if result is None:
        say(id=request["id"], error={"code": -32601, "message": "no such method"})
    else:
        say(id=request["id"], result=result)
