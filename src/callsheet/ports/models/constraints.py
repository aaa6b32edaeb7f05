"""The constraints that OpenAI-compatible servers support, and the request fields for them.

Pure. In: a constraint and the kind of the server. Out: fields of the request's body.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from callsheet.ports.models.model import Constraint, Syntax
from callsheet.ports.models.settings import Kind

_TAKEN: dict[Kind, tuple[Syntax, ...]] = {
    "openai": (Syntax.JSON_SCHEMA,),
    "llama.cpp": (Syntax.GBNF, Syntax.JSON_SCHEMA),
    "vllm": (Syntax.GBNF, Syntax.LARK, Syntax.JSON_SCHEMA),
    "ollama": (Syntax.JSON_SCHEMA,),
}
_LLGUIDANCE = "%llguidance"


def supported_syntaxes(kind: Kind, *, llguidance: bool = False) -> tuple[Syntax, ...]:
    """The constraint syntaxes that a kind of server supports, the best first.

    A llama.cpp server supports Lark only if it was built with llguidance; otherwise it would crash.
    """
    more = (Syntax.LARK,) if kind == "llama.cpp" and llguidance else ()
    return (*more, *_TAKEN[kind])


def fields_for(constraint: Constraint, kind: Kind) -> dict[str, Any]:
    """The request fields for a constraint.

    Raises ValueError for a schema that is not a JSON object, and for a constraint that this kind of server
    does not support.
    """
    if constraint.syntax is Syntax.JSON_SCHEMA:
        schema = schema_of(constraint)
        if kind == "llama.cpp":
            return {"json_schema": schema}
        if kind == "vllm":
            return {"structured_outputs": {"json": schema}}
        named = {"name": constraint.name, "schema": schema, "strict": is_strict(schema)}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    if kind == "llama.cpp":
        is_lark = constraint.syntax is Syntax.LARK
        return {"grammar": with_mark(constraint.text) if is_lark else constraint.text}
    if kind == "vllm":
        return {"structured_outputs": {"grammar": constraint.text}}
    raise ValueError(f"{kind} does not support {constraint.syntax}")


def with_mark(lark: str) -> str:
    """An llguidance grammar with the first line by which llama.cpp recognises it."""
    return lark if lark.lstrip().startswith(_LLGUIDANCE) else f"{_LLGUIDANCE} {{}}\n{lark}"


def schema_of(constraint: Constraint) -> dict[str, Any]:
    """The schema of a constraint as data; raises ValueError if it is not a JSON object."""
    schema: object = json.loads(constraint.text)
    if not isinstance(schema, dict):
        raise ValueError("a JSON schema is an object")
    return cast("dict[str, Any]", schema)


def is_strict(schema: object) -> bool:
    """Whether providers accept the schema in strict mode.

    That is: every object in it requires all of its properties and allows no others.

    >>> is_strict({"properties": {"a": {}}, "required": ["a"], "additionalProperties": False})
    True
    >>> is_strict({"type": "object", "properties": {"a": {}}})
    False
    """
    if isinstance(schema, list):
        return all(is_strict(item) for item in cast("list[object]", schema))
    if not isinstance(schema, Mapping):
        return True
    table = cast("Mapping[str, Any]", schema)
    if table.get("type") == "object" or "properties" in table:
        names = cast("Mapping[str, Any]", table.get("properties") or {})
        required = cast("list[str]", table.get("required") or [])
        if table.get("additionalProperties") is not False or set(required) != set(names):
            return False
    return all(is_strict(item) for item in table.values())
