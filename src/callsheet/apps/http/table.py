"""The table of all endpoints, in the order of the OpenAPI document."""

from __future__ import annotations

from functools import cache
from typing import Any

from starlette.responses import Response

from callsheet.apps.http.endpoint import ApiRequest, Empty, Endpoint, ResponseSpec, json_response
from callsheet.apps.http.endpoints import branches, inspection, plans, runs, server, stream, texts, viewer
from callsheet.apps.http.openapi import openapi


async def _document(_: ApiRequest[Empty, Empty]) -> Response:
    """This document."""
    return json_response(document())


ENDPOINTS: tuple[Endpoint, ...] = (
    *texts.ENDPOINTS,
    *plans.ENDPOINTS,
    *runs.ENDPOINTS,
    *stream.ENDPOINTS,
    *branches.ENDPOINTS,
    *inspection.ENDPOINTS,
    *viewer.ENDPOINTS,
    *server.ENDPOINTS,
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
    return openapi(ENDPOINTS)
