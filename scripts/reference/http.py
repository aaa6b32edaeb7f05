"""The page of the HTTP endpoints, from the document that `/v1/openapi.json` gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from scripts.reference.tables import code, plain, table

from callsheet.apps.http.table import document

_HEAD = """# HTTP endpoints

Generated from what `/v1/openapi.json` says; [the HTTP API](../http.md) explains it, and
[results](results.md) has what the endpoints return. A field with `?` may be missing.

"""


def http_page() -> str:
    """The page."""
    api = document()
    schemas = api["components"]["schemas"]
    return _HEAD + "\n".join(
        _section(f"{method.upper()} {path}", operation, schemas)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    )


def _section(title: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    said = operation.get("description") or f"{operation['summary']}."
    given = [
        (
            code(each["name"] + ("" if each.get("required") else "?")),
            each["in"],
            plain(each.get("description", "")),
        )
        for each in operation.get("parameters", ())
    ]
    rows = [*given, *_fields(operation, schemas)]
    listed = "\n" + table(("name", "in", ""), rows) if rows else ""
    return f"## {code(title)}\n\n{said}\n{listed}"


def _fields(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    schema = schemas.get(body.get("$ref", "").rpartition("/")[2], body)
    needed = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        yield code(name + ("" if name in needed else "?")), "body", plain(field.get("description", ""))
