"""The JSON forms of runs, plans and tools as JSON Schema, as the OpenAPI document has them."""

from __future__ import annotations

from callsheet.apps.operations.schemas import (
    DIAGNOSTICS,
    Schema,
    any_object,
    count,
    flag,
    optional,
    rows,
    table,
    text,
)

ANY: Schema = {}
"""Any JSON value."""
_TIME = text("a time in UTC, ISO 8601")
_TEXTS = rows(text())
_NUMBER: Schema = {"type": "number"}
STATUS: Schema = {
    "type": "string",
    "enum": [
        "queued", "running", "interrupted", "waiting", "in_doubt", "done", "failed", "refused", "cancelled",
        "corrupt",
    ],
}  # fmt: skip

PROBLEM = table(
    {
        "type": text("the page that explains the code"),
        "title": text(),
        "status": {"type": "integer"},
        "detail": text("what is wrong"),
        "code": text("the first diagnostic's code"),
        "diagnostics": DIAGNOSTICS,
        "effects": rows(any_object(), "what a new run would change outside, where nobody has agreed to it"),
    },
    optional=("effects",),
    description="a mistake or a refusal, as RFC 9457 has it, with diagnostics",
)

RUN_ROW = table(
    {
        "run_id": text(),
        "status": STATUS,
        "plan": text("what its plan is called"),
        "plan_hash": text(),
        "created": _TIME,
        "updated": _TIME,
        "events": count("how many events its journal has"),
        "parent": optional(text("the run that it branched off from")),
        "forked_at": optional(count("the event of the parent up to which it has that run's events")),
    }
)
RUNS = table({"runs": rows(RUN_ROW)})

DOUBT = table(
    {
        "key": text(),
        "step": text(),
        "item": count(),
        "attempt": count(),
        "tool": text(),
        "args": any_object(),
        "since": _TIME,
        "why": text(),
    }
)

ASK = table(
    {
        "run_id": text(),
        "key": text(),
        "step": text(),
        "kind": {"type": "string", "enum": ["question", "approval"]},
        "since": _TIME,
        "until": optional(text()),
        "answered": flag(),
        "digest": text(),
        "tool": text(),
        "args": any_object(),
        "inputs": {"type": "array"},
        "plan_hash": text(),
        "why": _TEXTS,
        "labels": any_object(),
        "prompt": text(),
        "options": {"type": "array"},
        "schema": {"type": ["object", "null"]},
    },
    optional=("tool", "args", "inputs", "plan_hash", "why", "labels", "prompt", "options", "schema"),
)
INBOX = table({"asks": rows(ASK)})

_VISIT = table(
    {
        "step": text(),
        "outcome": text(),
        "started": _TIME,
        "seconds": {"type": ["number", "null"]},
        "calls": count(),
        "retries": count(),
        "detail": optional(text()),
        "var": optional(text()),
        "preview": optional(text()),
        "cuts": _TEXTS,
        "facts": {"type": "array"},
        "answers": _TEXTS,
        "turns": _TEXTS,
    }
)

RUN = table(
    {
        "run_id": text(),
        "status": STATUS,
        "plan": text(),
        "plan_hash": text(),
        "created": _TIME,
        "updated": _TIME,
        "journal": text("the journal's file"),
        "from": {"type": ["object", "null"]},
        "children": rows(any_object()),
        "events": count(),
        "chain": any_object("whether the chain of its events is whole"),
        "steps": rows(_VISIT),
        "warnings": _TEXTS,
        "late": rows(any_object()),
        "in_doubt": rows(DOUBT),
        "unanswered": rows(DOUBT),
        "waiting": rows(ASK),
        "variables": any_object(),
        "response": optional(text()),
        "error": optional(text()),
        "terminated": {},
        "steps_executed": count(),
        "refusal": {"type": ["object", "null"]},
        "usage": any_object(),
        "limits": any_object(),
        "problem": {
            "anyOf": [PROBLEM, {"type": "null"}],
            "description": "why it could not be carried on here the last time",
        },
    }
)

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
SESSION = table({"signed_in": flag(), "seconds": count("how long the sign-in holds")})

_PARAM = any_object()
PLAN_ROW = table(
    {
        "id": text(),
        "title": optional(text()),
        "goal": optional(text()),
        "syntax": text(),
        "steps": {"type": ["integer", "null"]},
        "version": {"type": ["integer", "null"]},
        "edited": flag(),
        "params": rows(_PARAM),
    }
)
PLANS = table({"plans": rows(PLAN_ROW)})
PLAN = table(
    {
        "id": text(),
        "path": text(),
        "syntax": text(),
        "title": optional(text()),
        "goal": optional(text()),
        "plan_hash": text(),
        "version": {"type": ["integer", "null"]},
        "edited": flag(),
        "params": rows(_PARAM),
        "tools": any_object(),
        "compiled": {"type": ["object", "null"]},
        "steps": rows(any_object()),
        "text": text(),
    }
)

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
            "description": "the policy that all runs are under, if there is one",
        },
        "shipped": _TEXTS,
    }
)
EXPLAINED = table(
    {
        "ok": flag(),
        "policy": text(),
        "steps": rows(any_object(), "whose data each step takes and gives"),
        "diagnostics": DIAGNOSTICS,
    }
)
