"""JSON Schemas of runs, plans and tools for the OpenAPI document."""

from __future__ import annotations

from callsheet.apps.operations.json_schema import Schema, any_object, count, flag, optional, rows, table, text
from callsheet.apps.operations.schemas import (
    ASK,
    DIAGNOSTICS,
    DOUBT,
    LISTED,
    OUTCOME_WORD,
    RUN_DETAILS,
    RUN_DOUBT,
)

_TIME = text("a time in UTC, ISO 8601")
_TEXTS = rows(text())
STATUS: Schema = {
    "type": "string",
    "enum": [
        "queued", "running", "interrupted", "waiting", "in_doubt", "done", "failed", "refused", "cancelled",
        "corrupt",
    ],
}  # fmt: skip

PROBLEM = table(
    {
        "type": text("the address of the page that explains the code"),
        "title": text(),
        "status": {"type": "integer"},
        "detail": text("what is wrong"),
        "code": text("the first diagnostic's code"),
        "diagnostics": DIAGNOSTICS,
        "effects": rows(any_object(), "effects of the new run that need consent"),
        "consent": text("the code that allows exactly these effects"),
    },
    optional=("effects", "consent"),
    description="an error as in RFC 9457, with diagnostics",
)

RUN_ROW = table(
    {
        "run_id": text(),
        "status": STATUS,
        "outcome": OUTCOME_WORD,
        "plan": text("the name of the plan"),
        "plan_hash": text(),
        "created": _TIME,
        "updated": _TIME,
        "events": count("the number of its events"),
        "parent": optional(text("the run that it branched off from")),
        "forked_at": optional(count("the last event shared with the parent")),
    }
)
RUNS = table({"runs": rows(RUN_ROW), "more": flag("whether there are older ones")})

INBOX = table({"asks": rows(ASK), "in_doubt": rows(RUN_DOUBT)})

RUN: Schema = {
    **RUN_DETAILS,
    "properties": {
        **RUN_DETAILS["properties"],
        "problem": {
            "anyOf": [PROBLEM, {"type": "null"}],
            "description": "why the last attempt to run it on this server failed",
        },
    },
    "required": [*RUN_DETAILS["required"], "problem"],
}

STARTED = table(
    {
        "run_id": text(),
        "status": STATUS,
        "diagnostics": DIAGNOSTICS,
    }
)

EVENT = table(
    {
        "seq": {"type": "integer", "minimum": 1},
        "time": _TIME,
        "type": text(),
        "key": optional(text()),
        "step": optional(text()),
        "epoch": count(),
        "body": {},
        "hash": text(),
    }
)

CANCELLED = table({"run_id": text(), "status": STATUS, "in_doubt": rows(DOUBT)})
DECIDED = table({"run_id": text(), "status": STATUS, "in_doubt": rows(DOUBT)})

HEALTH = table({"ok": flag(), "version": text(), "running": count(), "queued": count()})
SESSION = table({"signed_in": flag(), "seconds": count("how long the session lasts")})

PLANS = table({"plans": rows(LISTED)})

TOOLS = table(
    {
        "tools": rows(
            table(
                {
                    "name": text(),
                    "executor": text(),
                    "origin": text(),
                    "effect": text(),
                    "description": text(),
                    "arguments": _TEXTS,
                    "parameters": any_object(),
                    "pin": optional(text()),
                    "refusal": optional(text()),
                }
            )
        ),
        "servers": rows(table({"name": text(), "protocol": optional(text()), "tools": count()})),
        "configs": _TEXTS,
        "diagnostics": DIAGNOSTICS,
    }
)

POLICY = table(
    {
        "in_force": {
            "anyOf": [table({"name": text(), "policy": any_object(), "hash": text()}), {"type": "null"}],
            "description": "the policy of the server, if any",
        },
        "shipped": _TEXTS,
    }
)
EXPLAINED = table(
    {
        "ok": flag(),
        "policy": text(),
        "steps": rows(any_object(), "the labels of the data that each step reads and writes"),
        "diagnostics": DIAGNOSTICS,
    }
)

WHY = table(
    {
        "run_id": text(),
        "variable": text(),
        "path": {"type": "array"},
        "direction": {"type": "string", "enum": ["forward", "backward"]},
        "more": flag("whether there are further places"),
        "nodes": rows(any_object()),
        "calls": rows(any_object()),
    },
    optional=("calls",),
)
MOMENT = table(
    {
        "run_id": text(),
        "event": any_object(),
        "status": text(),
        "turn": optional(text("the next step")),
        "done": {"type": ["array", "null"], "items": text()},
        "failed": {"type": ["object", "null"]},
        "open": rows(any_object(), "calls in progress"),
        "variables": any_object(),
        "visits": any_object(),
        "response": optional(text()),
        "error": optional(text()),
        "usage": any_object(),
    }
)
DIFF = table(
    {
        "a": text(),
        "b": text(),
        "same_plan": flag(),
        "equal": flag(),
        "from": any_object(),
        "inputs": any_object(),
        "alike": count("the number of equal visits"),
        "first": {"type": ["object", "null"]},
        "differing": rows(any_object()),
    }
)
