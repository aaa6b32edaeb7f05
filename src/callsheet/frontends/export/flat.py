"""The JSON schema of flat plans, for providers that constrain answers by a JSON schema and not by a grammar.

In: tools and options. Out: a JSON schema of `{steps: [{each, when, tool, args: [{name, value | ref}], out,
retries, on_fail}]}`. All steps have the same type, without optional fields and with few alternatives, to stay
within the limits of all providers. It does not define which arguments a tool has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from callsheet.frontends.export.operations import OPERATIONS
from callsheet.frontends.export.scope import output_names
from callsheet.frontends.export.shapes import ExportOptions, ToolShape
from callsheet.frontends.export.values import properties

ENDS = ("respond", "terminate")
"""The values of `tool` for steps that end the plan."""
REPLAN = "replan"
GOTO, TARGET = "goto", "step"
"""The value of `tool` for a jump, and the name of its argument, the id of a step."""
DATA = "data"
"""The name of positional arguments of an operation."""
POSITIONAL = {"SELECT": (DATA,), "CALC": ("expression",), "FORMAT": ("text",)}
_MOST_NAMES = 200
"""A schema lists the names of arguments only up to this number."""


def plan_schema(tools: Sequence[ToolShape], options: ExportOptions | None = None) -> dict[str, Any]:
    """The JSON schema of plans with these tools, in the part of JSON Schema that providers support.

    >>> plan_schema([])["properties"]["steps"]["items"]["properties"]["tool"]["enum"]
    ['respond', 'terminate']
    """
    options = options or ExportOptions()
    names = [tool.canonical.lower() for tool in tools] + sorted(name.lower() for name in options.operations)
    control_tools = [*ENDS, *([REPLAN] if options.replans else ()), *([GOTO] if options.jumps else ())]
    step: dict[str, Any] = {}
    if options.loops:
        step["each"] = _text("runs once for each item of this list, such as v1.items; empty for once")
    if options.conditions:
        step["when"] = _text('runs only if this holds, such as $v1 contains "x"; empty for always')
    step["tool"] = {"type": "string", "enum": [*names, *control_tools]}
    step["args"] = {"type": "array", "items": _argument(_argument_names(tools, options))}
    step["out"] = {"type": "string", "enum": [*output_names(options), ""]}
    if options.failures:
        step["retries"] = {
            "type": "integer",
            "description": "how often it is tried again if it fails; else 0",
        }
        step["on_fail"] = _text("ends the plan with this message if it fails; empty to go on")
    return _object({"steps": {"type": "array", "items": _object(step)}})


def _argument(names: list[str]) -> dict[str, Any]:
    name = {"type": "string", "enum": names} if 0 < len(names) <= _MOST_NAMES else {"type": "string"}
    value = {
        "anyOf": [
            {"type": "string"},
            {"type": "number"},
            {"type": "boolean"},
            {"type": "array", "items": {"type": "string"}},
        ]
    }
    reference = _text("a variable that is set, with the way into it, such as v1.items.0")
    return {"anyOf": [_object({"name": name, "value": value}), _object({"name": name, "ref": reference})]}


def _argument_names(tools: Sequence[ToolShape], options: ExportOptions) -> list[str]:
    return list(dict.fromkeys(_names(tools, options)))


def _names(tools: Sequence[ToolShape], options: ExportOptions) -> Iterable[str]:
    for tool in tools:
        yield from properties(tool.parameters)
    for name in sorted(options.operations):
        if name in OPERATIONS:
            yield from (argument for argument, _ in OPERATIONS[name].named)
            yield DATA
        else:
            yield from POSITIONAL.get(name, ())
            yield from ("query",) if name == "SELECT" else ()
    yield "text"
    if options.jumps:
        yield TARGET


def _object(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}
