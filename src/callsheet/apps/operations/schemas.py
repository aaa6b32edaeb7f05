"""JSON Schemas (2020-12) of the results, for applications that declare their outputs.

Each describes the data that `to_json` of a result returns, with all possible keys.
"""

from __future__ import annotations

from callsheet.apps.operations.json_schema import (
    ANY_JSON,
    any_object,
    count,
    described,
    flag,
    optional,
    rows,
    table,
    text,
)

_TEXTS = rows(text())

DIAGNOSTIC = table(
    {
        "code": text("the diagnostic code, such as LTP012; `explain` shows its page"),
        "severity": {"type": "string", "enum": ["error", "warning", "hint"]},
        "message": text("the message"),
        "help": text("how to fix it"),
        "step": text("the id of the step"),
        "source": text("the name of the text, such as a file name"),
        "line": {"type": "integer", "minimum": 1},
        "column": {"type": "integer", "minimum": 1},
        "end_line": {"type": "integer", "minimum": 1},
        "end_column": {"type": "integer", "minimum": 1},
        "fix": table(
            {
                "title": text(),
                "edits": rows(table({"start": count(), "end": count(), "text": text()})),
            },
            description="edits of the text that fix it, by character offsets",
        ),
    },
    optional=("help", "step", "source", "line", "column", "end_line", "end_column", "fix"),
    description="an error, a warning or a hint",
)
DIAGNOSTICS = rows(DIAGNOSTIC)

_OK = flag("whether there are no errors")
_SYNTAX = optional(text("the syntax: ltp, micro, dag, or json for the canonical form"))
_HASH = text("the SHA-256 of the plan's canonical form")

STEP = table(
    {
        "id": text(),
        "title": optional(text()),
        "does": text("the action on one line"),
        "when": optional(text("the loop and the condition of the step")),
        "sets": optional(text("the variable that the result is stored in")),
        "on_fail": optional(text("how a failure is handled")),
        "group": optional(count("the number of the parallel group")),
        "depends_on": optional(rows(text(), "the ids of steps that it depends on, in a graph")),
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
        "steps": count("the number of steps"),
        "plan_hash": _HASH,
        "problems": rows(text(), "the problems of the plan itself as messages, without those of tools"),
        "diagnostics": DIAGNOSTICS,
    },
    optional=("steps", "plan_hash"),
)

FORMATTED = table(
    {
        "ok": _OK,
        "text": optional(text("the plan in canonical form")),
        "syntax": _SYNTAX,
        "changed": flag("whether the text differs from the input"),
        "diagnostics": DIAGNOSTICS,
    }
)

PICTURE = table(
    {
        "ok": _OK,
        "format": {"type": "string", "enum": ["terminal", "mermaid", "graph"]},
        "graph": text("the drawing"),
        "plan": any_object("steps and arrows with their positions, for the format graph"),
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
        "obligations": rows(any_object(), "what a run has to ensure"),
        "diagnostics": DIAGNOSTICS,
    },
    optional=("policy", "plan_hash", "violations", "obligations"),
)

COMPILED = table(
    {
        "ok": _OK,
        "goal": text(),
        "text": optional(text("the text of the plan")),
        "from": {"type": "string", "enum": ["model", "library"]},
        "id": text("the plan's id in the library"),
        "hash": _HASH,
        "near": rows(
            table({"id": text(), "goal": text(), "score": {"type": "number"}}),
            "plans of the library for similar goals",
        ),
        "answer": text("the answer of the model, if it is not a plan"),
        "accounting": any_object("the model calls, tokens and cost of compiling"),
        "saved": optional(table({"id": text(), "version": optional(count())})),
        "diagnostics": DIAGNOSTICS,
    },
    optional=("id", "hash", "answer", "accounting", "saved", "diagnostics"),
)

EXPLANATION = table({"code": text(), "title": text(), "page": text("Markdown")})

LCTL_CHECKED = table(
    {
        "ok": flag("whether no rule of level error is violated"),
        "documents": rows(any_object()),
        "findings": rows(
            table(
                {
                    "document": {"type": "integer", "minimum": 1},
                    "source": text(),
                    "rule": text("the rule, such as P01; `explain` shows its page"),
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
        "effective": any_object("the effective confidence of each fact of the last document"),
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
        "params": rows(_PARAM, "the variables that a run needs"),
        "tools": any_object("the hashes of the declarations of its tools, by name"),
        "compiled": optional(any_object("how it was compiled")),
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
        "text": text("the text of the plan"),
    }
)

KEPT = {**STORED, "properties": {**STORED["properties"], "diagnostics": DIAGNOSTICS}}
"""A plan that was just saved, with diagnostics about its text."""

LISTED = table(
    {
        "id": text(),
        "path": text(),
        "syntax": text(),
        "title": optional(text()),
        "goal": optional(text()),
        "steps": optional(count("null if its text has errors")),
        "version": optional(count()),
        "is_edited": flag(),
        "params": rows(_PARAM),
    }
)

# ---------------------------------------------------------------- runs

_MOMENT = text("a time as ISO 8601, in UTC")
_STATUS = text("done, failed, refused, cancelled, waiting, in_doubt, interrupted or running")
OUTCOME_WORD = text("the status, or done_with_failures if the run is done and steps failed on the way")
_FAILED_STEPS = optional(rows(text(), "the ids of the steps that failed and that the plan went past"))

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
    description="a call in doubt: it was sent without an answer, and may have taken place",
)

RUN_DOUBT = table(
    {"run_id": text(), "kind": {"type": "string", "enum": ["doubt"]}, **DOUBT["properties"]},
    description="a call in doubt, with its run",
)

ASK = table(
    {
        "run_id": text(),
        "key": text("the key of the question, which an answer names"),
        "step": text(),
        "kind": {"type": "string", "enum": ["question", "approval"]},
        "since": _MOMENT,
        "until": optional(_MOMENT),
        "answered": flag("whether it was answered and the run has not continued yet"),
        "digest": text("the digest that an answer is bound to"),
        "tool": text(),
        "args": any_object("the exact arguments of the call"),
        "inputs": {"type": "array"},
        "plan_hash": text(),
        "why": _TEXTS,
        "labels": any_object(),
        "answer": described(ANY_JSON, "the answer of an agent that needs review"),
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
    description="a question to a person, or a request to approve a call",
)

PREDICTION = table(
    {"ok": flag("whether the policy allows the plan"), "plan": text(), "diagnostics": DIAGNOSTICS},
    description="the predicted run, with all keys of `callsheet dry-run --json`",
)

OUTCOME = table(
    {
        "run_id": optional(text()),
        "status": _STATUS,
        "outcome": OUTCOME_WORD,
        "response": optional(text("the answer of the plan")),
        "variables": optional(any_object()),
        "steps_executed": optional(count()),
        "terminated": optional(flag()),
        "error": optional(text()),
        "ended_at": optional(text("the id of a step")),
        "failed_steps": _FAILED_STEPS,
        "refusal": optional(any_object("the exceeded limit")),
        "objection": optional(any_object("the call that the policy refused")),
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
        "outcome": OUTCOME_WORD,
        "plan": text("the name of the plan"),
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
        "outcome": OUTCOME_WORD,
        "plan": text(),
        "plan_hash": _HASH,
        "created": _MOMENT,
        "updated": _MOMENT,
        "journal": text(),
        "from": optional(any_object("the run that it was branched off")),
        "children": rows(any_object()),
        "events": count(),
        "chain": any_object("whether the hash chain of the events is intact"),
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
        "failed_steps": _FAILED_STEPS,
        "steps_executed": count(),
        "refusal": optional(any_object()),
        "usage": any_object(),
        "limits": any_object(),
    }
)
