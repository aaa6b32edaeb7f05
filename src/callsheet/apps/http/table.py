"""The table of all endpoints, in the order of the OpenAPI document."""

from __future__ import annotations

from functools import cache
from typing import Any

from starlette.responses import Response

from callsheet.apps.http import exports, server, viewer, webhooks
from callsheet.apps.http.endpoint import (
    ApiRequest,
    Empty,
    Endpoint,
    ResponseSpec,
    endpoint_of,
    json_response,
)
from callsheet.apps.http.openapi import openapi
from callsheet.apps.operations.schema import ProblemRow, named_types
from callsheet.apps.operations.tools import ToolList
from callsheet.apps.table.operations import OPERATIONS


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
