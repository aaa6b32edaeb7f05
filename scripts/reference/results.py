"""The page of results: what `--json`, the HTTP API and the MCP tools return, from their types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, is_typeddict

from scripts.reference.tables import code, table

from callsheet.apps.operations.printed import PRINTED
from callsheet.apps.operations.proofs import PredictionResult
from callsheet.apps.operations.schema import Schema, named_types, object_schema
from callsheet.apps.table.operations import OPERATIONS
from callsheet.views.dry_run_data import dry_run_json

DESCRIBED: Mapping[Any, Callable[..., Any]] = {PredictionResult: dry_run_json}
"""The functions whose docstrings describe further keys of a result, from their third paragraph on."""

_HEAD = """---
search:
  exclude: true
---

# Results

What commands print with `--json`, what the [HTTP API](../http.md) responds with, and what
[MCP tools](../mcp.md) return as `structuredContent`. A field with `?` may be missing.

"""


def results_page() -> str:
    """The page."""
    commands = [(code(f"{name} --json"), _word(kind)) for name, kind in PRINTED.items()]
    endpoints = [
        (code(f"{operation.http.method} {operation.http.path}"), _word(operation.result))
        for operation in OPERATIONS
        if operation.http is not None and operation.result is not None
    ]
    tools = [
        (code(operation.mcp.name), _word(operation.mcp.result or operation.result))
        for operation in OPERATIONS
        if operation.mcp is not None
    ]
    kinds = dict.fromkeys(each for kind in _all() for each in named_types(kind))
    parts = [table(("from", "result"), [*commands, *endpoints, *tools]), *map(_section, kinds)]
    return _HEAD + "\n".join(parts)


def _all() -> Iterator[Any]:
    yield from PRINTED.values()
    for operation in OPERATIONS:
        yield operation.result
        yield None if operation.mcp is None else operation.mcp.result


def _word(kind: Any) -> str:
    if is_typeddict(kind):
        return _link(kind)
    if get_origin(kind) is Annotated:
        return kind.__metadata__[0]
    if isinstance(kind, UnionType):
        return " or ".join(map(_word, get_args(kind)))
    (item,) = get_args(kind)
    return f"list of {' or '.join(map(_link, get_args(item) or (item,)))}"


def _link(kind: Any) -> str:
    return f"[{kind.__name__}](#{kind.__name__.lower()})"


def _named(kind: Any) -> Schema:
    return {"type": _link(kind)}


def _section(kind: Any) -> str:
    schema = object_schema(kind, _named)
    said = schema.get("description")
    rows = [
        (
            code(name + ("" if name in schema["required"] else "?")),
            _type(field),
            field.get("description", ""),
        )
        for name, field in schema["properties"].items()
    ]
    intro = f"{said[:1].upper()}{said[1:]}.\n\n" if said else ""
    further = (inspect.getdoc(DESCRIBED[kind]) or "").split("\n\n", 2)[2] if kind in DESCRIBED else ""
    return f"## {kind.__name__}\n\n{intro}{table(('field', 'type', ''), rows)}\n{further}\n"


def _type(schema: Schema) -> str:
    if "enum" in schema:
        return " or ".join(code(word) for word in schema["enum"])
    if "anyOf" in schema:
        kinds = [_type(each) for each in schema["anyOf"]]
        return "any" if len(kinds) > 4 else " or ".join(kinds)
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}" if "items" in schema else "list"
    return schema["type"]
