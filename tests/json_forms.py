"""Validates data with a JSON Schema that must name every key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator


def holds(data: Any, schema: Mapping[str, Any]) -> None:
    """Fail if the data does not match the schema, or has a key that the schema does not name."""
    Draft202012Validator(closed(schema)).validate(json.loads(json.dumps(data, default=str)))


def closed(schema: Any) -> Any:
    """The schema, refusing keys that it does not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    return {**made, "additionalProperties": False} if isinstance(schema.get("properties"), dict) else made
