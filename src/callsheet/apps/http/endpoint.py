"""`Endpoint`: an endpoint of the API as data, with its path, parameters, responses and handler.

The endpoint table is the only source of the routes and of the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from callsheet.apps.http.problems import json_bytes
from callsheet.apps.http.state import State
from callsheet.apps.operations.json_schema import Schema
from callsheet.apps.rendering.help_text import HTTP

JSON_TYPE = "application/json"


class Empty(BaseModel):
    """An empty body or query."""

    model_config = ConfigDict(extra="forbid")


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
    token; `needs_body` is False if the body is optional.
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
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Descriptions of the request headers that the endpoint reads, by name."""

    @property
    def name(self) -> str:
        """The operation id, such as `post_runs_run_id_cancel`."""
        words = [self.method.lower(), *self.path.removeprefix("/v1/").split("/")]
        return "_".join(word.strip("{}").replace(".", "_") for word in words)


def json_response(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response with data as JSON."""
    body = HTTP.rewrite_rows(cast("Mapping[str, Any]", data)) if isinstance(data, Mapping) else data
    return Response(json_bytes(body), status, dict(headers or {}), JSON_TYPE)
