"""Generates the OpenAPI 3.1 document from the table of pages.

In: pages. Out: JSON data. What a page takes is told by its models, what it answers by its schemas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from callsheet import __version__
from callsheet.apps.http.page import JSON_TYPE, Nothing, Page
from callsheet.apps.http.problems import MEDIA_TYPE
from callsheet.apps.http.shapes import PROBLEM
from callsheet.apps.operations.schemas import Schema

_REF = "#/components/schemas/{model}"
_PARAMETER = re.compile(r"\{([a-z_]+)\}")
_PATHS: Mapping[str, Schema] = {
    "run_id": {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,63}$"},
    "plan_id": {"type": "string", "minLength": 1, "maxLength": 80},
    "name": {"type": "string", "minLength": 1, "maxLength": 80},
    "code": {"type": "string", "minLength": 1, "maxLength": 80},
    "seq": {"type": "integer", "minimum": 1, "maximum": 2**53},
}
_PROBLEMS: Mapping[int, str] = {
    401: "No token, or another one.",
    403: "Refused: another site asks, or the policy refuses the plan.",
    404: "There is nothing of this name.",
    405: "This method is not taken here.",
    408: "The body came too slowly.",
    409: "Not as things stand.",
    413: "The body, or the head, is too large.",
    415: "The body is not JSON by its type.",
    421: "The host is not served here.",
    422: "Something in the request is wrong, or in the plan.",
    429: "Too many requests.",
    500: "A bug of callsheet.",
    503: "Not now: too much is under way, the server is being stopped, or the journal cannot be written.",
}
_ALWAYS = (403, 413, 421, 422, 429)
_WITH_BODY = (408, 415)


def openapi(pages: Iterable[Page]) -> dict[str, Any]:
    """The document of these pages."""
    table = tuple(pages)
    bodies = [page.body for page in table if page.body is not None]
    _, defined = models_json_schema([(body, "validation") for body in bodies], ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for page in table:
        paths.setdefault(page.path, {})[page.method.lower()] = _operation(page)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "callsheet",
            "version": __version__,
            "description": "Plans of tool calls: checked, proved, run, watched and explained.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "schemas": {**defined.get("$defs", {}), "Problem": PROBLEM},
            "responses": {str(status): _problem(said) for status, said in _PROBLEMS.items()},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "callsheet",
                    "description": "Set by POST /v1/session; its name ends with the port. "
                    "Changes need the header X-Callsheet beside it.",
                },
            },
        },
    }


def statuses_of(page: Page) -> tuple[int, ...]:
    """The statuses of the problems that a page may answer."""
    found = {*page.problems, *_ALWAYS}
    if page.body is not None:
        found |= {*_WITH_BODY}
    if not page.is_open:
        found.add(401)
    return tuple(sorted(found))


def _operation(page: Page) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": page.name,
        "summary": page.summary,
        "description": (page.answer.__doc__ or page.summary).strip(),
        "tags": [page.tag],
        "parameters": [*_path_parameters(page), *_query_parameters(page), *_header_parameters(page)],
        "responses": _responses(page),
    }
    if page.is_open:
        told["security"] = []
    if page.body is not None:
        schema = {"$ref": _REF.format(model=page.body.__name__)}
        told["requestBody"] = {"required": page.needs_body, "content": {JSON_TYPE: {"schema": schema}}}
    return told


def _path_parameters(page: Page) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _PATHS[name]}
        for name in _PARAMETER.findall(page.path)
    ]


def _query_parameters(page: Page) -> list[dict[str, Any]]:
    if page.query is Nothing:
        return []
    schema = _plain(page.query)
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, **_told(inner)}
        for name, inner in schema["properties"].items()
    ]


def _told(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter's schema, with its description beside it; a query cannot say null."""
    inner = {key: value for key, value in schema.items() if key not in ("description", "title")}
    options = [each for each in inner.pop("anyOf", []) if each != {"type": "null"}]
    if options:
        inner = {**options[0], **{key: value for key, value in inner.items() if value is not None}}
    described = {"description": schema["description"]} if "description" in schema else {}
    return {**described, "schema": inner}


def _plain(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(ref_template=_REF)


def _header_parameters(page: Page) -> list[dict[str, Any]]:
    schema = {"type": "string", "pattern": "^[0-9]{1,15}$"}
    return [
        {"name": name, "in": "header", "required": False, "description": said, "schema": schema}
        for name, said in page.headers.items()
    ]


def _responses(page: Page) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for answer in page.answers:
        row: dict[str, Any] = told.setdefault(str(answer.status), {"description": answer.description})
        if answer.media_type:
            schema = {} if answer.schema is None else {"schema": answer.schema}
            row.setdefault("content", {})[answer.media_type] = schema
    problems = {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses_of(page)}
    return told | problems


def _problem(said: str) -> dict[str, Any]:
    return {
        "description": said,
        "content": {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}}},
    }
