"""Builds JSON Schemas (2020-12) from their parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = "dict[str, Any]"


def text(description: str = "") -> Schema:
    """A string."""
    return described({"type": "string"}, description)


def optional(schema: Schema) -> Schema:
    """The schema, or null."""
    bare = {key: value for key, value in schema.items() if key != "description"}
    return described({"anyOf": [bare, {"type": "null"}]}, schema.get("description", ""))


def flag(description: str = "") -> Schema:
    """A boolean."""
    return described({"type": "boolean"}, description)


def count(description: str = "") -> Schema:
    """An integer from 0."""
    return described({"type": "integer", "minimum": 0}, description)


def rows(items: Schema, description: str = "") -> Schema:
    """An array."""
    return described({"type": "array", "items": items}, description)


def any_object(description: str = "") -> Schema:
    """An object with any content."""
    return described({"type": "object"}, description)


def table(properties: Mapping[str, Schema], optional: tuple[str, ...] = (), description: str = "") -> Schema:
    """An object with these keys; those in `optional` may be missing."""
    required = [name for name in properties if name not in optional]
    return described({"type": "object", "properties": dict(properties), "required": required}, description)


def described(schema: Schema, description: str) -> Schema:
    """The schema with a description, if there is one."""
    return {**schema, "description": description} if description else schema


ANY_JSON: Schema = {
    "anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "object", "array", "null")],
    "description": "any JSON value",
}
"""Any value; some clients refuse an empty schema."""
