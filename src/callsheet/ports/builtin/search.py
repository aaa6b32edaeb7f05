"""Searches the web with the search service that the operator chose; returns plain rows."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from html import unescape
from typing import Any, NamedTuple, cast

import httpx2

from callsheet.ir import JSON
from callsheet.machine import Cut
from callsheet.ports.builtin.settings import KEY_VARIABLES, SearchSettings
from callsheet.ports.calls import CallContext, ToolFailed

_BRAVE = "https://api.search.brave.com"
_TAVILY = "https://api.tavily.com"
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_MAX_BYTES = 5_000_000
_UNCONFIGURED = (
    "no search service is configured (TOL103): set the provider to searxng with the url of an instance, "
    "or to brave or tavily with a key in the environment"
)


class _Request(NamedTuple):
    method: str
    url: str
    parameters: dict[str, str]
    headers: dict[str, str]
    body: dict[str, Any] | None = None


async def search(query: str, settings: SearchSettings, context: CallContext) -> JSON:
    """Rows of title, url and snippet; raises ToolFailed if the service cannot be used or fails."""
    answer = await _ask(_request(settings, query), settings)
    rows = answer.get("web", {}).get("results") if settings.provider == "brave" else answer.get("results")
    if not isinstance(rows, list):
        return []
    given = cast("list[Any]", rows)
    with_url = [_row(cast("Mapping[str, Any]", row)) for row in given if isinstance(row, Mapping)]
    results = [cast("JSON", row) for row in with_url if row["url"]][: settings.results]
    if len(results) < len(given):
        context.remark(Cut("results", len(results), len(given), "rows"))
    return results


def _request(settings: SearchSettings, query: str) -> _Request:
    if settings.provider == "searxng":
        return _Request("GET", f"{_base(settings, '')}/search", {"q": query, "format": "json"}, {})
    if settings.provider == "brave":
        headers = {"X-Subscription-Token": _key(settings, "brave"), "Accept": "application/json"}
        count = str(min(settings.results, 20))
        return _Request(
            "GET", f"{_base(settings, _BRAVE)}/res/v1/web/search", {"q": query, "count": count}, headers
        )
    if settings.provider == "tavily":
        headers = {"Authorization": f"Bearer {_key(settings, 'tavily')}"}
        body = {"query": query, "max_results": min(settings.results, 20)}
        return _Request("POST", f"{_base(settings, _TAVILY)}/search", {}, headers, body)
    raise ToolFailed(_UNCONFIGURED)


def _base(settings: SearchSettings, default: str) -> str:
    return (settings.url or default).rstrip("/")


def _key(settings: SearchSettings, provider: str) -> str:
    variable = settings.key_env or KEY_VARIABLES[provider]
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ToolFailed(
            f"the search service {provider} needs a key in the environment variable {variable} (TOL103)"
        )
    return key


async def _ask(request: _Request, settings: SearchSettings) -> Mapping[str, Any]:
    """The service's response. Errors name the service and the status, never the key or the response."""
    service = f"the search service {settings.provider}"
    try:
        async with httpx2.AsyncClient(timeout=settings.timeout) as client:
            response = await client.request(
                request.method,
                request.url,
                params=request.parameters,
                headers=request.headers,
                json=request.body,
            )
    except httpx2.HTTPError as error:
        raise ToolFailed(f"{service} cannot be reached ({type(error).__name__})") from None
    if response.status_code >= 400:
        hint = ": its JSON format may be switched off" if settings.provider == "searxng" else ""
        raise ToolFailed(f"{service} answered with status {response.status_code}{hint}")
    try:
        answer = response.json() if len(response.content) <= _MAX_BYTES else None
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, Mapping):
        raise ToolFailed(f"{service} did not answer in its JSON format")
    return cast("Mapping[str, Any]", answer)


def _row(result: Mapping[str, Any]) -> dict[str, str]:
    excerpt = result.get("content") or result.get("description")
    return {
        "title": _plain(result.get("title")),
        "url": _plain(result.get("url")),
        "snippet": _plain(excerpt),
    }


def _plain(value: object) -> str:
    """Text on one line, without the markup that services put around matched words."""
    return " ".join(unescape(_MARKUP.sub("", value)).split()) if isinstance(value, str) else ""
