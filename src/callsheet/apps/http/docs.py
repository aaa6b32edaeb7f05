"""The page `/docs`: every endpoint with its arguments, an example to paste, and its responses.

In: the OpenAPI document. Out: HTML without scripts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from callsheet.apps.http.endpoint import JSON_TYPE
from callsheet.apps.http.state import State
from callsheet.apps.http.table import document
from callsheet.apps.http.viewer import file_response
from callsheet.apps.web.bundled import Asset, page

_TAGS = {
    "texts": "Plans as texts",
    "plans": "The library of plans",
    "runs": "Runs",
    "explained": "What happened in a run",
    "webhooks": "Webhooks",
    "server": "The server",
}
_BODY = """<main class="sheet api">
<h1>The HTTP API</h1>
<p>Of callsheet {version}. The <a href="/">viewer</a> uses it; <a href="/v1/openapi.json">openapi.json</a>
describes it to programs. The examples need the token that <code>callsheet serve</code> printed, in
<code>$TOKEN</code>, and the address of this server, in <code>$CALLSHEET</code>.</p>
<p>An error is a problem document (RFC 9457) with a <code>code</code>, about which
<code>GET /v1/explain/CODE</code> tells more.</p>
{parts}
</main>"""


async def docs(_state: State, request: Request) -> Response:
    """The page, which needs no token."""
    return file_response(_page(), request)


@cache
def _page() -> Asset:
    return page("HTTP API · callsheet", _body_of(document()))


def _body_of(document: Mapping[str, Any]) -> str:
    schemas = document["components"]["schemas"]
    rows = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    parts: list[str] = []
    for tag, title in _TAGS.items():
        own = [row for row in rows if row[2]["tags"] == [tag]]
        links = "".join(
            f'<li><a href="#{operation["operationId"]}"><code>{method} {escape(path)}</code></a> '
            f"{escape(operation['summary'])}</li>"
            for method, path, operation in own
        )
        parts.append(f"<h2>{title}</h2><ul>{links}</ul>")
        parts += [_endpoint(method, path, operation, schemas) for method, path, operation in own]
    return _BODY.format(version=escape(document["info"]["version"]), parts="\n".join(parts))


def _endpoint(method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    rows = [*_parameters(operation), *_body(operation, schemas)]
    table = (
        '<table class="plain-table"><thead><tr><th>name</th><th>where</th><th>type</th><th>meaning</th></tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table>"
        if rows
        else ""
    )
    answers = "".join(
        f"<li><b>{status}</b> {_prose(told['description'])}</li>"
        for status, told in operation["responses"].items()
        if "$ref" not in told
    )
    problems = ", ".join(status for status, told in operation["responses"].items() if "$ref" in told)
    name = operation["operationId"]
    return (
        f'<section class="panel pad" id="{name}" aria-labelledby="{name}-title">'
        f'<h3 id="{name}-title"><code>{method} {escape(path)}</code></h3>'
        f"<p>{_prose(operation['description'])}</p>{table}"
        f'<pre class="sample" tabindex="0" role="region" aria-label="Example {name}">'
        f"{escape(_example_line(method, path, operation))}</pre>"
        f'<ul>{answers}</ul><p class="quiet">Errors: {problems}</p></section>'
    )


def _example_line(method: str, path: str, operation: Mapping[str, Any]) -> str:
    """A command that sends the example of an operation."""
    for parameter in operation["parameters"]:
        if parameter["in"] == "path":
            path = path.replace("{" + parameter["name"] + "}", parameter["example"])
    parts = ["curl", "-N"] if "text/event-stream" in json.dumps(operation["responses"]) else ["curl"]
    if method != "GET":
        parts.append(f"-X {method}")
    if operation.get("security") != []:
        parts.append('-H "Authorization: Bearer $TOKEN"')
    body = operation.get("requestBody", {}).get("content", {}).get(JSON_TYPE, {}).get("example")
    lines = [" ".join(parts)]
    if body is not None:
        text = json.dumps(body, ensure_ascii=False).replace("'", "'\\''")
        lines += [f'-H "Content-Type: {JSON_TYPE}"', f"-d '{text}'"]
    return " \\\n  ".join([*lines, f"$CALLSHEET{path}"])


def _parameters(operation: Mapping[str, Any]) -> Iterator[str]:
    for each in operation["parameters"]:
        yield _row(each["name"], each["in"], each["schema"], each.get("description", ""), each["required"])


def _body(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    reference = operation.get("requestBody", {}).get("content", {}).get(JSON_TYPE, {}).get("schema", {})
    schema = schemas.get(reference.get("$ref", "").rpartition("/")[2], {})
    needed = schema.get("required", [])
    for name, inner in schema.get("properties", {}).items():
        yield _row(name, "body", inner, inner.get("description", ""), name in needed)


def _row(name: str, where: str, schema: Mapping[str, Any], meaning: str, is_needed: bool) -> str:
    words = " · ".join(filter(None, ("needed" if is_needed else "", _prose(meaning))))
    return (
        f"<tr><td><code>{escape(name)}</code></td><td>{where}</td>"
        f"<td><code>{escape(_type_text(schema))}</code></td><td>{words}</td></tr>"
    )


def _type_text(schema: Mapping[str, Any]) -> str:
    """What values a schema allows, in short.

    >>> _type_text({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]})
    'list of string or null'
    >>> _type_text({"enum": ["a", "b"]}), _type_text({"$ref": "#/components/schemas/Bounds"}), _type_text({})
    ('"a" | "b"', 'Bounds', 'any')
    """
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return " or ".join(dict.fromkeys(_type_text(each) for each in options))
    if schema.get("type") == "array":
        return f"list of {_type_text(schema.get('items', {}))}"
    kind = schema.get("type", "any")
    return " or ".join(map(str, cast("list[object]", kind))) if isinstance(kind, list) else str(kind)


def _prose(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
