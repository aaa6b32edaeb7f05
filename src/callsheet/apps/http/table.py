"""The table of all endpoints, with an example of each body: the OpenAPI 3.1 document, and the page `/docs`.

In: endpoints. Out: JSON data, HTML without scripts. The models of an endpoint describe its parameters, its
schemas the responses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from html import escape
from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response

from callsheet import __version__
from callsheet.apps.http import exports, server, viewer, webhooks
from callsheet.apps.http.endpoint import (
    JSON_TYPE,
    PARAMETER,
    REF,
    ApiRequest,
    Empty,
    Endpoint,
    ResponseSpec,
    endpoint_of,
    json_response,
    reference,
)
from callsheet.apps.http.problems import MEDIA_TYPE
from callsheet.apps.http.state import State
from callsheet.apps.http.viewer import Asset, file_response, page
from callsheet.apps.operations.schema import ProblemRow, Schema, named_types, object_schema
from callsheet.apps.operations.tools import ToolList
from callsheet.apps.table.operations import OPERATIONS

_PLAN = '# ltp: 2\nINPUT $n: int\nLET $product = 6 * $n\nS1: @RESPOND ("6 times ${n} is ${product}")\n'
_TEXT = {"plan": _PLAN}
_PLACE = {"plan": _PLAN, "at": _PLAN.index("@RESPOND") + 1}

EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "/v1/parse": _TEXT,
    "/v1/validate": _TEXT,
    "/v1/visualize": {**_TEXT, "format": "mermaid"},
    "/v1/format": {**_TEXT, "to": "dag"},
    "/v1/compile": {"goal": "Multiply 6 by the number n, and answer with the product"},
    "/v1/editor/marks": _TEXT,
    "/v1/editor/completion": _PLACE,
    "/v1/editor/hover": _PLACE,
    "/v1/editor/name": {**_TEXT, "at": _PLAN.index("$n") + 1},
    "/v1/editor/rename": {**_TEXT, "at": _PLAN.index("$n") + 1, "name": "factor"},
    "/v1/verify": {**_TEXT, "policy": "workspace"},
    "/v1/explain-policy": {**_TEXT, "policy": "workspace"},
    "/v1/dry-run": {**_TEXT, "inputs": {"n": 7}},
    "/v1/plans/{plan_id}": {**_TEXT, "goal": "Multiply by six", "replace": True},
    "/v1/runs": {**_TEXT, "run_id": "first", "inputs": {"n": 7}, "tags": {"team": "sums"}},
    "/v1/runs/{run_id}/resume": {"limits": {"max_calls": 100}},
    "/v1/runs/{run_id}/rerun": {"step": "S1", "run_id": "second"},
    "/v1/runs/{run_id}/fork": {"at": 1, "variables": {"n": 8}, "run_id": "third"},
    "/v1/tools/{tool}/call": {"arguments": {"expression": "6 * 7"}},
    "/v1/runs/{run_id}/undo": {"effects": False},
    "/v1/runs/{run_id}/cancel": {"reason": "the order was withdrawn"},
    "/v1/runs/{run_id}/pause": {"reason": "the prices have to be checked"},
    "/v1/runs/{run_id}/decide": {"decision": "retry", "calls": ["S1.1"]},
    "/v1/runs/{run_id}/approve": {"key": "S1.1", "answer": "blue", "note": "as Ada wished"},
    "/v1/bulk": {"action": "cancel", "where": {"tag": "team=sums", "status": "waiting"}},
    "/v1/session": {"secret": "Fk9UbPrW"},
}
"""By the path of the endpoint, which has one method with a body."""


_PATHS: Mapping[str, tuple[Schema, str]] = {
    "run_id": ({"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,63}$"}, "first"),
    "plan_id": ({"type": "string", "minLength": 1, "maxLength": 80}, "product"),
    "name": ({"type": "string", "minLength": 1, "maxLength": 80}, "strict"),
    "tool": ({"type": "string", "minLength": 1, "maxLength": 1_000}, "CALC"),
    "code": ({"type": "string", "minLength": 1, "maxLength": 80}, "CHK040"),
    "seq": ({"type": "integer", "minimum": 1, "maximum": 2**53}, "3"),
    "digest": ({"type": "string", "pattern": "^[0-9a-f]{64}$"}, "a" * 64),
}
"""The parameters of paths: the schema of each, and an example."""
_PROBLEMS: Mapping[int, str] = {
    401: "No token, or a wrong one.",
    403: "Refused: the request comes from another site, or the policy refuses the plan.",
    404: "Not found.",
    405: "Method not allowed.",
    408: "The body was sent too slowly.",
    409: "In conflict with the current state.",
    413: "The body or the headers are too large.",
    415: "The content type of the body is not JSON.",
    421: "This server does not serve the host.",
    422: "The request or the plan is invalid.",
    429: "Too many requests.",
    500: "A bug in callsheet.",
    503: "Unavailable: the queue is full, the server is shutting down, or the journal cannot be written.",
}
_ALWAYS = (403, 413, 421, 422, 429)
_WITH_BODY = (408, 415)


def openapi(endpoints: Iterable[Endpoint], results: Iterable[Any]) -> dict[str, Any]:
    """The OpenAPI document of these endpoints, whose responses name the types of results."""
    table = tuple(endpoints)
    bodies = [endpoint.body for endpoint in table if endpoint.body is not None]
    _, defined = models_json_schema([(body, "validation") for body in bodies], ref_template=REF)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in table:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "callsheet",
            "version": __version__,
            "description": "Check, prove, run, watch and explain plans of tool calls.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "schemas": {
                **defined.get("$defs", {}),
                **{kind.__name__: object_schema(kind, reference) for kind in results},
            },
            "responses": {str(status): _problem(description) for status, description in _PROBLEMS.items()},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "callsheet",
                    "description": "Set by POST /v1/session; its name ends with the port. "
                    "Changes also need the header X-Callsheet.",
                },
            },
        },
    }


def statuses_of(endpoint: Endpoint) -> tuple[int, ...]:
    """The error statuses that an endpoint may return."""
    found = {*endpoint.problems, *_ALWAYS}
    if endpoint.body is not None:
        found |= {*_WITH_BODY}
    if not endpoint.is_open:
        found.add(401)
    return tuple(sorted(found))


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "description": (endpoint.description or endpoint.handler.__doc__ or endpoint.summary).strip(),
        "tags": [endpoint.tag],
        "parameters": [
            *_path_parameters(endpoint),
            *_query_parameters(endpoint),
            *_header_parameters(endpoint),
        ],
        "responses": _responses(endpoint),
    }
    if endpoint.is_open:
        operation["security"] = []
    if endpoint.body is not None:
        schema = reference(endpoint.body)
        operation["requestBody"] = {
            "required": endpoint.needs_body,
            "content": {JSON_TYPE: {"schema": schema, "example": EXAMPLES[endpoint.path]}},
        }
    return operation


def _path_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": schema, "example": example}
        for name in PARAMETER.findall(endpoint.path)
        for schema, example in (_PATHS[name],)
    ]


def _query_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    if endpoint.query is Empty:
        return []
    schema = _plain(endpoint.query)
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, **_parameter_schema(inner)}
        for name, inner in schema["properties"].items()
    ]


def _parameter_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A query parameter: its schema without null, and its description beside the schema."""
    inner = {key: value for key, value in schema.items() if key not in ("description", "title")}
    options = [each for each in inner.pop("anyOf", []) if each != {"type": "null"}]
    if options:
        inner = {**options[0], **{key: value for key, value in inner.items() if value is not None}}
    described = {"description": schema["description"]} if "description" in schema else {}
    return {**described, "schema": inner}


def _plain(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(ref_template=REF)


def _header_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    schema = {"type": "string", "pattern": "^[0-9]{1,15}$"}
    return [
        {"name": name, "in": "header", "required": False, "description": description, "schema": schema}
        for name, description in endpoint.headers.items()
    ]


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for response in endpoint.responses:
        row: dict[str, Any] = responses.setdefault(
            str(response.status), {"description": response.description}
        )
        if response.media_type:
            schema = {} if response.schema is None else {"schema": response.schema}
            row.setdefault("content", {})[response.media_type] = schema
    problems = {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses_of(endpoint)}
    return responses | problems


def _problem(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {MEDIA_TYPE: {"schema": reference(ProblemRow)}},
    }


async def _document(_: ApiRequest[Empty, Empty]) -> Response:
    """This document."""
    return json_response(document())


ENDPOINTS: tuple[Endpoint, ...] = (
    *(endpoint_of(operation) for operation in OPERATIONS if operation.http is not None),
    *exports.ENDPOINTS,
    *viewer.ENDPOINTS,
    *server.ENDPOINTS,
    *webhooks.ENDPOINTS,
    Endpoint(
        method="GET",
        path="/v1/openapi.json",
        summary="Describe the API",
        tag="server",
        handler=_document,
        responses=(ResponseSpec(200, "An OpenAPI 3.1 document.", {"type": "object"}),),
        is_open=True,
    ),
)


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document."""
    results = [operation.result for operation in OPERATIONS if operation.http is not None]
    kinds = [
        ProblemRow,
        ToolList,
        *exports.RESULTS,
        *server.RESULTS,
        *webhooks.RESULTS,
        *(result for result in results if result is not None),
    ]
    return openapi(ENDPOINTS, [each for kind in kinds for each in named_types(kind)])


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
