"""`Endpoint`: an endpoint of the API as data, with its path, parameters, responses and handler.

Most follow from the table of operations; the others are for pages and streams, which only HTTP has.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from callsheet.apps.http.people import EVERYBODY, Person, Right
from callsheet.apps.http.problems import Problem, json_bytes
from callsheet.apps.http.state import State
from callsheet.apps.operations.schema import Schema, schema_of
from callsheet.apps.rendering.help_text import HTTP
from callsheet.apps.table.operation import Face, Operation, face_model, gathered

JSON_TYPE = "application/json"
REF = "#/components/schemas/{model}"
PARAMETER = re.compile(r"\{([a-z_]+)\}")


class Body(BaseModel):
    """A request body; values are not converted: a number as a string is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Query(BaseModel):
    """The query of a request, whose values are strings."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Empty(Query):
    """An empty body or query."""


B = TypeVar("B", bound=BaseModel)
Q = TypeVar("Q", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ApiRequest(Generic[B, Q]):
    """A parsed request; `body` and `query` are instances of the models of the endpoint."""

    state: State
    body: B
    query: Q
    path: Mapping[str, str]
    request: Request
    person: Person = EVERYBODY
    """Who has sent it."""


@dataclass(frozen=True, slots=True)
class ResponseSpec:
    """A possible response of an endpoint: its status, media type and schema."""

    status: int
    description: str
    schema: Schema | None = None
    media_type: str = JSON_TYPE


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A method of a path.

    `problems` are the error statuses besides those of every endpoint. An endpoint that `is_open` needs no
    token; `needs_body` is False if the body is optional. `description` is by default the docstring of the
    handler, `result` the type of its data.
    """

    method: str
    path: str
    summary: str
    tag: str
    handler: Callable[[ApiRequest[Any, Any]], Awaitable[Response]]
    responses: tuple[ResponseSpec, ...]
    body: type[BaseModel] | None = None
    query: type[BaseModel] = Empty
    problems: tuple[int, ...] = ()
    is_open: bool = False
    needs_body: bool = True
    description: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Descriptions of the request headers that the endpoint reads, by name."""

    @property
    def name(self) -> str:
        """The operation id, such as `post_runs_run_id_cancel`."""
        words = [self.method.lower(), *self.path.removeprefix("/v1/").split("/")]
        return "_".join(word.strip("{}").replace(".", "_") for word in words)


def check_right(person: Person, right: Right) -> None:
    """Raise Problem (API023) for a person who does not have a right."""
    if not person.may(right):
        hint = f"ask somebody who may {right}, or the operator for a role that has this right"
        raise Problem("API023", f"{person.name} may not {right} here", hint)


def json_response(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response with data as JSON."""
    body = HTTP.rewrite_rows(cast("Mapping[str, Any]", data)) if isinstance(data, Mapping) else data
    return Response(json_bytes(body), status, dict(headers or {}), JSON_TYPE)


def reference(kind: Any) -> Schema:
    """A reference to the schema of a type in the OpenAPI document."""
    return {"$ref": REF.format(model=kind.__name__)}


def schema_here(kind: Any) -> Schema:
    """The schema of a result in the OpenAPI document, which names the types in it."""
    return schema_of(kind, reference)


def endpoint_of(operation: Operation[Any, Any]) -> Endpoint:
    """The endpoint of an operation: its arguments come from the path, the query and the body."""
    face = operation.http
    assert face is not None
    in_path = frozenset(PARAMETER.findall(face.path))
    model = face_model(operation.arguments, Face.HTTP, in_path)
    has_body = face.method in ("POST", "PUT")
    (usual, *_) = face.responses
    schema = None if operation.result is None else schema_here(operation.result)
    media_type = "" if schema is None else JSON_TYPE

    async def handler(req: ApiRequest[Any, Any]) -> Response:
        path = {name: _path_value(operation.arguments, name, req.path[name]) for name in in_path}
        read = req.body if has_body else req.query
        args = gathered(operation.arguments, Face.HTTP, read, path)
        if args.answers():
            check_right(req.person, Right.ANSWER)
        result = await operation.work(req.state.context_for(req.person), args)
        status = usual if face.status is None else face.status(result)
        if operation.result is None:
            return Response(None, status)
        headers = {} if face.location is None else {"Location": face.location(result)}
        return json_response(operation.to_json(result), status, headers)

    return Endpoint(
        method=face.method,
        path=face.path,
        summary=face.summary,
        tag=face.tag,
        handler=handler,
        responses=tuple(
            ResponseSpec(status, said, schema, media_type) for status, said in face.responses.items()
        ),
        body=model if has_body else None,
        query=Empty if has_body or not model.model_fields else model,
        problems=face.problems,
        is_open=face.is_open,
        needs_body=face.needs_body,
        description=operation.work.__doc__ or "",
    )


def _path_value(model: type[BaseModel], name: str, text: str) -> str | int:
    """A value in a path; raises Problem (API009) if it is not the number that it has to be."""
    if model.model_fields[name].annotation is not int:
        return text
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise Problem("API009", f"{text[:40]!a} is not the number of an event", "events are numbered from 1")
    return int(text)
