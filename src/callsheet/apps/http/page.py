"""`Page`: an endpoint of the API as data, with its path, parameters, responses and handler.

The table of pages is the one source of the routes and of the OpenAPI document.
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
from callsheet.apps.operations.schemas import Schema
from callsheet.apps.wording.ways_out import HTTP

JSON_TYPE = "application/json"


class Nothing(BaseModel):
    """A body, or a query, that says nothing."""

    model_config = ConfigDict(extra="forbid")


B = TypeVar("B", bound=BaseModel)
Q = TypeVar("Q", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Asked(Generic[B, Q]):
    """A request that has been read: the body and the query are what the page takes."""

    state: State
    body: B
    query: Q
    path: Mapping[str, str]
    request: Request


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page may answer: a status, a media type, and the schema of what is in it."""

    status: int
    description: str
    schema: Schema | None = None
    media_type: str = JSON_TYPE


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A method at an address.

    `problems` are the statuses of problems besides those that every page has. A page that `is_open` needs no
    token; `needs_body` is False where the body may be left out.
    """

    method: str
    path: str
    summary: str
    tag: str
    answer: Callable[[Asked[Any, Any]], Awaitable[Response]]
    answers: tuple[Answer, ...]
    body: type[BaseModel] | None = None
    query: type[BaseModel] = Nothing
    problems: tuple[int, ...] = ()
    is_open: bool = False
    needs_body: bool = True
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Headers of requests that mean something here, with what they mean."""

    @property
    def name(self) -> str:
        """The operation's id: `post_runs_run_id_cancel`."""
        words = [self.method.lower(), *self.path.removeprefix("/v1/").split("/")]
        return "_".join(word.strip("{}").replace(".", "_") for word in words)


def answered(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Data as the JSON of a response."""
    told = HTTP.rows(cast("Mapping[str, Any]", data)) if isinstance(data, Mapping) else data
    return Response(json_bytes(told), status, dict(headers or {}), JSON_TYPE)
