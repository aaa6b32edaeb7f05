"""The client of `@FETCH_PAGE` and `@WEB_SEARCH`: pages as text from checked addresses, results as rows.

Redirects are followed one by one, each checked like a first request.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from html import unescape
from typing import Any, NamedTuple, TypeAlias, cast
from urllib.parse import urljoin

import httpx2

from callsheet.ir import JSON
from callsheet.machine import Cut
from callsheet.policy.addresses import IP, AddressRefused, AllowedHosts, Target, checked, parse_url
from callsheet.ports.builtin.html import conversion, looks_like_html, to_markdown
from callsheet.ports.builtin.settings import KEY_VARIABLES, FetchSettings, SearchSettings
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.checked_http import UnknownHost, resolve, send_to

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_TEXT_TYPES = re.compile(
    r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|toml|javascript)|application/x-(?:yaml|ndjson)|application/ld\+json"
)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


class Page(NamedTuple):
    """A response: its final URL, content type and body."""

    url: str
    content_type: str
    body: bytes


Leads: TypeAlias = "Callable[[str, str], str | None] | None"
"""Returns why a redirect from the first address to the second is not allowed, or None if it is."""


async def fetch(url: str, settings: FetchSettings, leads: Leads = None) -> Page:
    """Fetch a page within the limits; `leads` is asked before each redirect.

    Raises ToolFailed with the reason if the page cannot be had.
    """
    try:
        async with asyncio.timeout(settings.timeout):
            return await _follow(url, settings, leads)
    except TimeoutError:
        raise ToolFailed(f"{url} took longer than {settings.timeout:g} seconds") from None
    except UnknownHost as error:
        raise ToolFailed(str(error)) from None
    except httpx2.HTTPError as error:
        raise ToolFailed(f"{url} cannot be fetched: {str(error) or type(error).__name__}") from None


async def _follow(url: str, settings: FetchSettings, leads: Leads) -> Page:
    allowed = AllowedHosts.parse(settings.allow_private_hosts)
    before, named = None, url
    async with httpx2.AsyncClient(trust_env=False, timeout=settings.timeout) as client:
        for _ in range(settings.max_redirects + 1):
            try:
                target = parse_url(named)
                why = None if before is None or leads is None else leads(before.url, target.url)
                if why is not None:  # before the name is resolved: a DNS query would already leak data
                    raise ToolFailed(f"{url} is redirected to an address that is not allowed: {why}")
                addresses = checked(target, await resolve(target), allowed)
            except AddressRefused as error:
                where = url if before is None else f"{url} redirects to {named}, which"
                raise ToolFailed(f"{where} is refused: {error}") from None
            answer = await _get(client, target, addresses, settings)
            if isinstance(answer, Page):
                return answer
            before, named = target, urljoin(target.url, answer)
    raise ToolFailed(f"{url} has more than {settings.max_redirects} redirects")


async def _get(
    client: httpx2.AsyncClient, target: Target, addresses: list[IP], settings: FetchSettings
) -> Page | str:
    """The page, or the URL that it redirects to, from the first address that accepts a connection."""
    headers = {"User-Agent": settings.user_agent, "Accept": "text/html,*/*;q=0.8"}
    response = await send_to(client, "GET", target, addresses, headers)
    try:
        return await _read(response, target, settings.max_bytes)
    finally:
        await response.aclose()


async def _read(response: httpx2.Response, target: Target, limit: int) -> Page | str:
    location = response.headers.get("location")
    if response.status_code in _REDIRECTS and location:
        return location
    if response.status_code >= 400:
        raise ToolFailed(
            f"{target.url} answered with status {response.status_code} {response.reason_phrase}".rstrip()
        )
    content_type = response.headers.get("content-type", "")
    if not _is_text(content_type):
        raise ToolFailed(f"{target.url} is {content_type.partition(';')[0]}, which is not text")
    return Page(target.url, content_type, await _body(response.aiter_bytes(16_384), target, limit))


async def _body(chunks: AsyncIterator[bytes], target: Target, limit: int) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > limit:
            raise ToolFailed(f"{target.url} is larger than {limit} bytes")
    return bytes(body)


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _is_text(content_type: str) -> bool:
    return not content_type or _TEXT_TYPES.fullmatch(_media_type(content_type)) is not None


def page_text(page: Page, context: CallContext) -> str:
    """The text of a page: HTML as Markdown (with a remark), any other text unchanged."""
    text = decode(page.body, page.content_type)
    if _media_type(page.content_type) in _HTML_TYPES or (not page.content_type and looks_like_html(text)):
        markdown = to_markdown(text, page.url)
        context.remark(conversion(text, markdown))
        return markdown
    return text


def decode(body: bytes, content_type: str = "") -> str:
    """Decodes text: by its BOM, the Content-Type header or the page's own charset, else as UTF-8.

    >>> decode("é".encode("latin-1"), "text/plain; charset=ISO-8859-1"), decode("é".encode())
    ('é', 'é')
    """
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body.decode(name, errors="replace")
    named = _CHARSET.search(content_type)
    meta = _META_CHARSET.search(body[:4096])
    candidates = [named.group(1)] if named else []
    candidates += [meta.group(1).decode("ascii")] if meta else []
    for name in (*candidates, "utf-8"):
        try:
            return body.decode(codecs.lookup(name).name)
        except (LookupError, ValueError):
            continue
    return body.decode("cp1252", errors="replace")


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
