"""Tools whose schemas exercise the exports, and their signatures for the checks."""

from __future__ import annotations

from typing import Any

from callsheet.frontends.export import ExportOptions, Form, ToolShape
from callsheet.ir.operations import AGENT_OPERATIONS, MODEL_OPERATIONS, TRANSFORMS
from callsheet.passes.finding import ToolSignature
from callsheet.ports.transforms.tools import literal_check, transform_tools


def _object(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required or [],
        "additionalProperties": False,
    }


TOOLS = (
    ToolShape("read_file", _object(["path"], path={"type": "string", "minLength": 1})),
    ToolShape(
        "list-issues",
        _object(
            ["repo", "state"],
            repo={"type": "string", "maxLength": 12},
            state={"enum": ["open", "closed", "$v1", 'odd "one"', 3, None]},
            limit={"type": "integer", "minimum": 1, "maximum": 250},
            since={"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
    ),
    ToolShape("memory_stats", _object()),
    ToolShape(
        "list_files", _object(dir={"type": "string"}, deep={"type": "boolean"}, depth={"type": "integer"})
    ),
    ToolShape(
        "Send",
        _object(
            ["to", "created-at"],
            to={"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
            **{"created-at": {"type": "number", "exclusiveMinimum": 0, "maximum": 1}},
            meta={"type": "object"},
            who={"$ref": "#/$defs/person"},
        )
        | {
            "$defs": {
                "person": _object(["name"], name={"type": "string"}, age={"type": "integer", "minimum": -3})
            }
        },
    ),
    ToolShape(
        "log",
        _object(
            ["anything"],
            anything={},
            mode={"const": "fast"},
            level={"enum": ["a\nb\nc", "tab\t", "\u202e", "r\\d", 1.5, [1, {"k": "v"}]]},
        ),
    ),
    ToolShape(
        "plot",
        _object(
            ["points"],
            points={
                "type": "array",
                "items": _object(["x"], x={"type": "number", "minimum": -2.5, "maximum": 40}),
            },
            box={"allOf": [_object(["w"], w={"type": "integer", "minimum": 10, "maximum": 12})]},
        ),
    ),
)
OPERATIONS = MODEL_OPERATIONS | AGENT_OPERATIONS | TRANSFORMS


def signatures() -> dict[str, ToolSignature]:
    """The signatures of these tools and of the transforms, for the checks."""
    known = {tool.canonical: ToolSignature.from_schema(tool.parameters) for tool in TOOLS}
    for tool in transform_tools():
        name = tool.spec.name
        known[name] = ToolSignature.from_schema(tool.spec.parameters, check_literal=literal_check(name))
    return known


VARIANTS = {
    "lean": ExportOptions(max_steps=6, operations=OPERATIONS),
    "canonical": ExportOptions(form=Form.CANONICAL, max_steps=8, operations=OPERATIONS, groups=True),
    "all constructs": ExportOptions(
        max_steps=7,
        operations=OPERATIONS,
        groups=True,
        jumps=True,
        replans=True,
        bare_calls=True,
        comments=True,
        given=("city", "v2", "item"),
    ),
    "jumps": ExportOptions(
        form=Form.CANONICAL, max_steps=9, min_results=2, jumps=True, replans=True, paths=False, loops=False
    ),
    "plain calls": ExportOptions(
        max_steps=4,
        conditions=False,
        loops=False,
        failures=False,
        casts=False,
        paths=False,
        max_text=40,
        max_items=2,
    ),
}
