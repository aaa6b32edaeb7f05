"""Validates data with a JSON Schema that must name every key, and what commands print with `--json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import click
from jsonschema import Draft202012Validator

LINES = {"tail", "top", "playback"}
"""Commands that print a JSON value on each line."""


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


def printed_holds(main: click.Group, line: Sequence[str], printed: str) -> None:
    """Fail if a command line with `--json` printed something that its schema does not describe.

    An error that ends the command is an object with `ok`, which is false, and `diagnostics`.
    """
    name = " ".join(_words(main, line))
    validator = _validator(name)
    if "--json" not in line or "--help" in line or not printed or validator is None:
        return
    for value in map(json.loads, printed.splitlines() if name in LINES else [printed]):
        is_error = isinstance(value, dict) and value.keys() == {"ok", "diagnostics"} and not value["ok"]
        (_error() if is_error else validator).validate(value)


def _words(group: click.Command | None, line: Sequence[str]) -> Iterator[str]:
    """The words of a command line that name its command."""
    for word in line:
        if not isinstance(group, click.Group):
            return
        found = group.get_command(click.Context(group), word)
        if found is not None:
            yield word
            group = found


@cache
def _validator(command: str) -> Draft202012Validator | None:
    from callsheet.apps.operations.printed import PRINTED
    from callsheet.apps.operations.schema import schema_of

    return Draft202012Validator(closed(schema_of(PRINTED[command]))) if command in PRINTED else None


@cache
def _error() -> Draft202012Validator:
    from callsheet.apps.operations.schema import DiagnosticRow, schema_of

    return Draft202012Validator(
        {"properties": {"diagnostics": closed(schema_of(list[DiagnosticRow])), "ok": {"const": False}}}
    )
