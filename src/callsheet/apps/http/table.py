"""The table of all pages, in the order of the OpenAPI document."""

from __future__ import annotations

from functools import cache
from typing import Any

from starlette.responses import Response

from callsheet.apps.http.openapi import openapi
from callsheet.apps.http.page import Answer, Asked, Nothing, Page, answered
from callsheet.apps.http.pages import branches, house, looking, plans, runs, stream, texts, viewing


async def _document(_: Asked[Nothing, Nothing]) -> Response:
    """This document."""
    return answered(document())


PAGES: tuple[Page, ...] = (
    *texts.PAGES,
    *plans.PAGES,
    *runs.PAGES,
    *stream.PAGES,
    *branches.PAGES,
    *looking.PAGES,
    *viewing.PAGES,
    *house.PAGES,
    Page(
        method="GET",
        path="/v1/openapi.json",
        summary="Describe the API",
        tag="house",
        answer=_document,
        answers=(Answer(200, "An OpenAPI 3.1 document.", {"type": "object"}),),
        is_open=True,
    ),
)


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document."""
    return openapi(PAGES)
