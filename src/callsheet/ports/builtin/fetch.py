"""Fetches a web page as text, connecting only to checked addresses.

Redirects are followed one by one, each checked like a first request.
"""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, TypeAlias
from urllib.parse import urljoin

import httpx2

from callsheet.policy.addresses import IP, AddressRefused, AllowedHosts, Target, checked, parse_url
from callsheet.ports.builtin.html import conversion, looks_like_html, to_markdown
from callsheet.ports.builtin.settings import FetchSettings
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
