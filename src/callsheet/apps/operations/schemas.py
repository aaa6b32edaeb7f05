"""JSON Schemas (2020-12) of the results, for applications that declare their outputs.

Each describes the data that the result's `to_json` gives; every key that may stand there is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = "dict[str, Any]"


def text(description: str = "") -> Schema:
    """A text."""
    return _described({"type": "string"}, description)


def optional(schema: Schema) -> Schema:
    """What a schema says, or null."""
    bare = {key: value for key, value in schema.items() if key != "description"}
    return _described({"anyOf": [bare, {"type": "null"}]}, schema.get("description", ""))


def flag(description: str = "") -> Schema:
    """True or false."""
    return _described({"type": "boolean"}, description)


def count(description: str = "") -> Schema:
    """A whole number from 0."""
    return _described({"type": "integer", "minimum": 0}, description)


def rows(items: Schema, description: str = "") -> Schema:
    """A list."""
    return _described({"type": "array", "items": items}, description)


def any_object(description: str = "") -> Schema:
    """An object with any content."""
    return _described({"type": "object"}, description)


def table(properties: Mapping[str, Schema], optional: tuple[str, ...] = (), description: str = "") -> Schema:
    """An object with these keys, of which some may be left out."""
    required = [name for name in properties if name not in optional]
    return _described({"type": "object", "properties": dict(properties), "required": required}, description)


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description} if description else schema


ANY_JSON: Schema = {
    "anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "object", "array", "null")],
    "description": "any JSON",
}
"""Any value: schemas that say nothing are refused by some clients."""
_TEXTS = rows(text())

DIAGNOSTIC = table(
    {
        "code": text("such as LTP012; `explain` has a page for each"),
        "severity": {"type": "string", "enum": ["error", "warning", "hint"]},
        "message": text("what is wrong"),
        "help": text("the way out"),
        "step": text("the id of the step"),
        "source": text("what the text is called"),
        "line": {"type": "integer", "minimum": 1},
        "column": {"type": "integer", "minimum": 1},
        "end_line": {"type": "integer", "minimum": 1},
        "end_column": {"type": "integer", "minimum": 1},
        "fix": table(
            {
                "title": text(),
                "edits": rows(table({"start": count(), "end": count(), "text": text()})),
            },
            description="an edit of the text, by character offsets, that puts it right",
        ),
    },
    optional=("help", "step", "source", "line", "column", "end_line", "end_column", "fix"),
    description="something that is wrong, doubtful or could be better",
)
DIAGNOSTICS = rows(DIAGNOSTIC)

_OK = flag("whether nothing is wrong")
_SYNTAX = optional(text("the spelling: ltp, micro, dag, or json for the canonical form"))
_HASH = text("the SHA-256 of the plan's canonical form")

STEP = table(
    {
        "id": text(),
        "title": optional(text()),
        "does": text("the action in a line"),
        "when": optional(text("the loop and the condition before it")),
        "sets": optional(text("the variable that takes the result")),
        "on_fail": optional(text("what becomes of a failure")),
        "group": optional(count("the number of the parallel group")),
        "depends_on": optional(rows(text(), "in a graph")),
    }
)

PARSED = table(
    {
        "ok": _OK,
        "syntax": _SYNTAX,
        "title": optional(text()),
        "goal": optional(text()),
        "plan_hash": _HASH,
        "steps": rows(STEP),
        "plan": any_object("the plan in canonical JSON"),
        "diagnostics": DIAGNOSTICS,
    },
    optional=("title", "goal", "plan_hash", "steps", "plan"),
)

CHECKED = table(
    {
        "ok": _OK,
        "steps": count("how many steps the plan has"),
        "plan_hash": _HASH,
        "problems": rows(text(), "what is wrong with the plan, a message a problem; nothing of tools"),
        "diagnostics": DIAGNOSTICS,
    },
    optional=("steps", "plan_hash"),
)

FORMATTED = table(
    {
        "ok": _OK,
        "text": optional(text("the plan as it is written canonically")),
        "syntax": _SYNTAX,
        "changed": flag("whether the text was another one before"),
        "diagnostics": DIAGNOSTICS,
    }
)

PICTURE = table(
    {
        "ok": _OK,
        "format": {"type": "string", "enum": ["terminal", "mermaid", "graph"]},
        "graph": text("the drawing"),
        "plan": any_object("steps and arrows with their places, for the format graph"),
        "diagnostics": DIAGNOSTICS,
    },
    optional=("plan",),
)

PROVED = table(
    {
        "ok": _OK,
        "policy": text("the name of the policy"),
        "plan_hash": _HASH,
        "violations": rows(
            table(
                {
                    "step": optional(text()),
                    "code": text(),
                    "rule": text(),
                    "message": text(),
                    "argument": optional(text()),
                    "flow": _TEXTS,
                    "help": optional(text()),
                }
            )
        ),
        "obligations": rows(any_object(), "what the run has to see to"),
        "diagnostics": DIAGNOSTICS,
    },
    optional=("policy", "plan_hash", "violations", "obligations"),
)

COMPILED = table(
    {
        "ok": _OK,
        "goal": text(),
        "text": optional(text("the plan")),
        "from": {"type": "string", "enum": ["model", "library"]},
        "id": text("the plan's id in the library"),
        "hash": _HASH,
        "near": rows(
            table({"id": text(), "goal": text(), "score": {"type": "number"}}),
            "plans of the library for goals that are near",
        ),
        "answer": text("what the model wrote instead of a plan"),
        "accounting": any_object("what it took"),
        "saved": optional(table({"id": text(), "version": optional(count())})),
        "diagnostics": DIAGNOSTICS,
    },
    optional=("id", "hash", "answer", "accounting", "saved", "diagnostics"),
)

EXPLANATION = table({"code": text(), "title": text(), "page": text("Markdown")})

LCTL_CHECKED = table(
    {
        "ok": flag("whether no rule of level error is broken"),
        "documents": rows(any_object()),
        "findings": rows(
            table(
                {
                    "document": {"type": "integer", "minimum": 1},
                    "source": text(),
                    "rule": text("such as P01; `explain` has a page for each"),
                    "level": text(),
                    "message": text(),
                    "fact": text(),
                    "path": {"type": "array"},
                    "line": {"type": "integer", "minimum": 1},
                    "column": {"type": "integer", "minimum": 1},
                    "end_line": {"type": "integer", "minimum": 1},
                    "end_column": {"type": "integer", "minimum": 1},
                    "help": text(),
                },
                optional=("fact", "line", "column", "end_line", "end_column", "help"),
            )
        ),
        "effective": any_object("what each fact of the last document is worth"),
        "flagged": _TEXTS,
        "human_review": _TEXTS,
        "blocked": _TEXTS,
        "lost": rows(any_object()),
    }
)

# ---------------------------------------------------------------- plans of the library

_PARAM = table({"name": text(), "kind": text(), "default": ANY_JSON}, optional=("default",))

STORED = table(
    {
        "id": text(),
        "path": text(),
        "syntax": text(),
        "title": optional(text()),
        "goal": optional(text()),
        "plan_hash": _HASH,
        "version": optional(count()),
        "edited": flag("whether its file has changed since that version"),
        "params": rows(_PARAM, "the variables that a run is given"),
        "tools": any_object("the hashes of the declarations of the tools that it calls"),
        "compiled": optional(any_object("how it was made")),
        "steps": rows(
            table(
                {
                    "id": text(),
                    "title": optional(text()),
                    "does": text(),
                    "depends_on": optional(rows(text())),
                }
            )
        ),
        "text": text("the plan"),
    }
)

KEPT = {**STORED, "properties": {**STORED["properties"], "diagnostics": DIAGNOSTICS}}
"""A plan that was kept just now, with what is to be said of its text."""

LISTED = table(
    {
        "id": text(),
        "path": text(),
        "syntax": text(),
        "title": optional(text()),
        "goal": optional(text()),
        "steps": optional(count("null where its text has errors")),
        "version": optional(count()),
        "is_edited": flag(),
        "params": rows(_PARAM),
    }
)

# ---------------------------------------------------------------- runs

_MOMENT = text("ISO 8601, in UTC")
_STATUS = text("done, failed, refused, cancelled, waiting, in_doubt, interrupted or running")

DOUBT = table(
    {
        "key": text(),
        "step": text(),
        "item": count(),
        "attempt": count(),
        "tool": text(),
        "args": any_object(),
        "since": _MOMENT,
        "why": text(),
    },
    description="a call that left and gave no answer: whether it took place is not known",
)

ASK = table(
    {
        "run_id": text(),
        "key": text("what an answer names"),
        "step": text(),
        "kind": {"type": "string", "enum": ["question", "approval"]},
        "since": _MOMENT,
        "until": optional(_MOMENT),
        "answered": flag("whether an answer lies there that the run has not gone on from"),
        "digest": text("an answer is bound to it"),
        "tool": text(),
        "args": any_object("exactly what the call is made with"),
        "inputs": {"type": "array"},
        "plan_hash": text(),
        "why": _TEXTS,
        "labels": any_object(),
        "answer": _described(ANY_JSON, "the answer of an agent that is to be looked at"),
        "prompt": text(),
        "options": {"type": "array"},
        "schema": optional(any_object()),
    },
    optional=(
        "tool",
        "args",
        "inputs",
        "plan_hash",
        "why",
        "labels",
        "answer",
        "prompt",
        "options",
        "schema",
    ),
    description="what a person is asked: a question, or a yes to a call",
)

PREDICTION = table(
    {"ok": flag("whether the policy lets it run"), "plan": text(), "diagnostics": DIAGNOSTICS},
    description="and what it would do, step by step, as `callsheet dry-run --json` has it",
)

OUTCOME = table(
    {
        "run_id": optional(text()),
        "status": _STATUS,
        "response": optional(text("the answer of the plan")),
        "variables": optional(any_object()),
        "steps_executed": optional(count()),
        "terminated": optional(flag()),
        "error": optional(text()),
        "ended_at": optional(text("the id of a step")),
        "refusal": optional(any_object("the limit that ended it")),
        "objection": optional(any_object("what the policy refused")),
        "usage": any_object(),
        "replanned": flag(),
        "in_doubt": rows(DOUBT),
        "waiting": rows(ASK),
        "unanswered": rows(DOUBT),
        "journal": optional(text()),
        "diagnostics": DIAGNOSTICS,
    }
)

RUN_ROW = table(
    {
        "run_id": text(),
        "status": _STATUS,
        "plan": text("what the plan is called"),
        "plan_hash": _HASH,
        "created": _MOMENT,
        "updated": _MOMENT,
        "events": count(),
        "parent": optional(text()),
        "forked_at": optional(count()),
        "in_doubt": rows(DOUBT),
    }
)

RUN_DETAILS = table(
    {
        "run_id": text(),
        "status": _STATUS,
        "plan": text(),
        "plan_hash": _HASH,
        "created": _MOMENT,
        "updated": _MOMENT,
        "journal": text(),
        "from": optional(any_object("the run that it branched off from")),
        "children": rows(any_object()),
        "events": count(),
        "chain": any_object("whether the events are those that were written"),
        "steps": rows(any_object()),
        "warnings": _TEXTS,
        "late": rows(any_object()),
        "in_doubt": rows(DOUBT),
        "unanswered": rows(DOUBT),
        "waiting": rows(ASK),
        "variables": any_object(),
        "response": optional(text()),
        "error": optional(text()),
        "terminated": optional(flag()),
        "ended_at": optional(text("the id of a step")),
        "steps_executed": count(),
        "refusal": optional(any_object()),
        "usage": any_object(),
        "limits": any_object(),
    }
)
