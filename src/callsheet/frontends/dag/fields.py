"""The fields of a JSON plan: one table for the parser, the JSON Schema and the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callsheet.frontends.dag.json_tree import MAX_DEPTH, MAX_DIGITS
from callsheet.frontends.dag.texts import NAME

ID = r"[a-z0-9][a-z0-9._-]{0,63}"
"""The id of a plan, as a pattern."""
INDEX = r"(?! )[^\u0000-\u001f\u007f-\u009f\u2028\u2029]{1,64}(?<! )"
"""The index of a step, as a pattern: no control characters, no leading or trailing blanks."""
TOOL = r"@?[A-Za-z0-9_](?:[A-Za-z0-9_ .:/-]{0,126}[A-Za-z0-9_])?"
"""The name of a tool, as a pattern; names of MCP servers' tools may have dots, dashes and slashes."""
MOST_RETRIES = 10**9
MOST_SECONDS = 10**9


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its type in words and as JSON Schema, its purpose, and whether it is required."""

    name: str
    holds: str
    meaning: str
    schema: Mapping[str, Any]
    is_required: bool = False


_TEXT = {"type": "string"}
_NUMBER = {"type": "number", "minimum": 0, "maximum": MOST_SECONDS}
_INDEX = {"anyOf": [{"type": "string", "pattern": f"^{INDEX}$"}, {"type": "integer"}]}
_ARGS = {"type": "object"}
_TOOL = {"type": "string", "pattern": f"^{TOOL}$"}

FAILURE_FIELDS = (
    Field(
        "retry",
        "a whole number",
        "the number of further attempts",
        {"type": "integer", "minimum": 0, "maximum": MOST_RETRIES},
    ),
    Field(
        "delay", "a number", "the seconds before the first of them; default: the setting of the run", _NUMBER
    ),
    Field("backoff", "a number", "the factor by which each wait is longer than the one before", _NUMBER),
    Field("terminate", "a text", "ends the plan with this message; its references are filled in", _TEXT),
)
CALL_FIELDS = (
    Field("name", "a text", "the tool", _TOOL, is_required=True),
    Field("args", "an object", "the tool's arguments by name", _ARGS, is_required=True),
    Field("id", "a text", "the call's id, which is ignored", {}),
)
STEP_FIELDS = (
    Field(
        "index", "a text or a whole number", "the step's name, unique in the plan", _INDEX, is_required=True
    ),
    Field("title", "a text", "what the step does, for people", _TEXT, is_required=True),
    Field("tool", "a text", "the tool that is called", _TOOL, is_required=True),
    Field(
        "args",
        "an object",
        "the tool's arguments by name; their references are filled in",
        _ARGS,
        is_required=True,
    ),
    Field(
        "depends_on",
        "a list of indexes",
        "the steps that have to be done before this one starts",
        {"type": "array", "items": _INDEX},
        is_required=True,
    ),
    Field(
        "result_variable",
        "a text",
        "the variable that takes the step's result",
        {"anyOf": [{"type": "string", "pattern": f"^{NAME}$"}, {"type": "null"}]},
    ),
    Field(
        "when",
        "a condition as text",
        "the step is skipped if this is not true",
        {"type": ["string", "null"]},
    ),
    Field(
        "on_fail",
        "an object",
        "what to do when the step fails",
        {"anyOf": [{"$ref": "#/$defs/on_fail"}, {"type": "null"}]},
    ),
)
TOOL_CALLS = Field(
    "tool_calls",
    "a list of one call",
    "the call as planners store it, instead of tool and args",
    {"type": "array", "items": {"$ref": "#/$defs/call"}, "minItems": 1, "maxItems": 1},
)
PLAN_FIELDS = (
    Field("id", "a text", "the plan's name in files and commands", {"type": "string", "pattern": f"^{ID}$"}),
    Field("title", "a text", "what the plan does, for people", _TEXT),
    Field("goal", "a text", "the goal that the plan was made for", _TEXT),
    Field(
        "variables",
        "an object",
        "values that are set before the first step, by name",
        {"type": "object", "propertyNames": {"pattern": f"^{NAME}$"}},
    ),
    Field(
        "steps",
        "a list",
        "the steps, in any order",
        {"type": "array", "items": {"$ref": "#/$defs/step"}},
        is_required=True,
    ),
)


def _object(fields: tuple[Field, ...], also: tuple[Field, ...] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            field.name: {"description": f"{field.holds}: {field.meaning}", **field.schema}
            for field in (*fields, *also)
        },
        "required": [field.name for field in fields if field.is_required],
        "additionalProperties": False,
    }


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a plan.

    It covers the structure only: unknown indexes, cycles, variables, and the syntax of references and
    conditions are checked by `callsheet check`.
    """
    step = _object(STEP_FIELDS, (TOOL_CALLS,))
    step["required"] = [name for name in step["required"] if name not in ("tool", "args")]
    step["oneOf"] = [{"required": ["tool", "args"]}, {"required": ["tool_calls"]}]
    step["dependentSchemas"] = {
        "tool_calls": {"not": {"anyOf": [{"required": ["tool"]}, {"required": ["args"]}]}}
    }
    failure = _object(FAILURE_FIELDS)
    failure["anyOf"] = [{"required": ["retry"]}, {"required": ["terminate"]}]
    failure["dependentRequired"] = {"delay": ["retry"], "backoff": ["retry"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "callsheet: a plan as a graph of steps",
        "$comment": f"Numbers have at most {MAX_DIGITS} digits; lists and objects are nested at most "
        f"{MAX_DEPTH} deep.",
        **_object(PLAN_FIELDS),
        "$defs": {"step": step, "call": _object(CALL_FIELDS), "on_fail": failure},
    }
