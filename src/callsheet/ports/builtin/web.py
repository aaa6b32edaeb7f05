"""Declares `@WEB_SEARCH` and `@FETCH_PAGE`; the HTTP client is loaded by the first call."""

from __future__ import annotations

from functools import partial
from typing import Any

from callsheet.ir import JSON, Effect
from callsheet.ports.builtin.declare import TEXT, declare, in_thread, text_argument
from callsheet.ports.builtin.settings import FetchSettings, SearchSettings
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool


def search_tool(settings: SearchSettings) -> Tool:
    """`@WEB_SEARCH`; without a provider every call fails and says how to configure one."""
    return declare(
        "WEB_SEARCH",
        "Search the web; returns titles, addresses and excerpts.",
        {"query": TEXT},
        partial(_web_search, settings),
        effect=Effect.READ,
    )


def fetch_tool(settings: FetchSettings) -> Tool:
    """`@FETCH_PAGE`, with the limits and permissions of these settings."""
    return declare(
        "FETCH_PAGE",
        "Fetch a web page as Markdown, or a JSON or text document unchanged.",
        {"url": {"type": "string", "description": "http:// or https:// address"}},
        partial(_fetch_page, settings),
        effect=Effect.READ,
    )


async def _web_search(settings: SearchSettings, arguments: dict[str, Any], context: CallContext) -> JSON:
    from callsheet.ports.builtin.web_client import search  # noqa: PLC0415 - brings the HTTP client

    query = text_argument(arguments, "query").strip()
    if not query:
        raise ToolFailed("the argument query is empty")
    return await search(query, settings, context)


async def _fetch_page(settings: FetchSettings, arguments: dict[str, Any], context: CallContext) -> JSON:
    from callsheet.ports.builtin.web_client import fetch, page_text  # noqa: PLC0415 - brings the HTTP client

    page = await fetch(text_argument(arguments, "url"), settings, context.leads)
    return await in_thread(page_text, page, context)
