"""What servers offer besides tools: their resources and prompts together, and the tools that read them.

In: the servers of a pool. Out: their lists as they were sent, under names that are unique; which server has a
URI or a prompt; `@RESOURCE (uri=…)` and `@PROMPT (name=…)`, whose binary contents are stored like those of
tools.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON
from callsheet.machine import Spent
from callsheet.ports.answers import BlobSink, value_of
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.mcp.declarations import OFFERS
from callsheet.ports.mcp.front import PASSAGE
from callsheet.ports.mcp.managed_server import ManagedServer
from callsheet.ports.mcp.server_labels import said_of_answer
from callsheet.ports.tools import Handler, Tool

_log = logging.getLogger("callsheet.mcp")
_MOST_PAGES = 100
_HOLE = re.compile(r"\{[^{}]*\}")


class Offers:
    """The resources and prompts of some servers; `servers` gives those that can be asked now."""

    def __init__(self, servers: Callable[[], Sequence[ManagedServer]]) -> None:
        self._servers = servers

    async def resources(self) -> list[dict[str, Any]]:
        """All resources as they were sent; of those with the same URI the first server's."""
        return _first_of("uri", await self._listed("resources/list", "resources"))

    async def templates(self) -> list[dict[str, Any]]:
        """All templates of resources, as `resources`."""
        listed = await self._listed("resources/templates/list", "resourceTemplates")
        return _first_of("uriTemplate", listed)

    async def prompts(self) -> dict[str, tuple[ManagedServer, dict[str, Any]]]:
        """All prompts by the names that a client uses: the own one, or `server__name` if several have it."""
        listed = await self._listed("prompts/list", "prompts")
        counts = Counter(str(each.get("name")) for _, each in listed)
        found: dict[str, tuple[ManagedServer, dict[str, Any]]] = {}
        for server, each in listed:
            own = str(each.get("name"))
            name = own if counts[own] == 1 else f"{server.config.name}__{own}"
            found[name] = server, each
        return found

    async def server_of(self, uri: str, name: str = "") -> ManagedServer | None:
        """The server that has a resource: that of the name, one that lists it or has a template for it.

        The only server with resources counts as having it, since a list need not be complete.
        """
        able = await self.able("resources")
        if name:
            return next((server for server in able if server.config.name == name), None)
        if len(able) == 1:
            return able[0]
        for server, each in await self._listed("resources/list", "resources"):
            if each.get("uri") == uri:
                return server
        for server, each in await self._listed("resources/templates/list", "resourceTemplates"):
            if _pattern(str(each.get("uriTemplate", ""))).fullmatch(uri):
                return server
        return None

    async def server_of_template(self, template: str) -> ManagedServer | None:
        """The server that has a template of resources."""
        listed = await self._listed("resources/templates/list", "resourceTemplates")
        return next((server for server, each in listed if each.get("uriTemplate") == template), None)

    async def able(self, what: str) -> list[ManagedServer]:
        """The servers that declare a capability, such as `resources`."""
        servers = [*self._servers()]
        declared = await asyncio.gather(*(server.capabilities() for server in servers))
        return [
            server
            for server, has in zip(servers, declared, strict=True)
            if getattr(has, what, None) is not None
        ]

    async def _listed(self, method: str, field: str) -> list[tuple[ManagedServer, dict[str, Any]]]:
        able = await self.able("prompts" if field == "prompts" else "resources")
        lists = await asyncio.gather(*(_all_pages(server, method, field) for server in able))
        return [(server, each) for server, found in zip(able, lists, strict=True) for each in found]


async def _all_pages(server: ManagedServer, method: str, field: str) -> list[dict[str, Any]]:
    """A list of a server, page by page; a list that cannot be had, or ends early, is named in the log."""
    from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - a session is open
    from mcp_types import METHOD_NOT_FOUND  # noqa: PLC0415

    found: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        try:
            page = await server.request(method, {} if cursor is None else {"cursor": cursor})
        except (MCPError, ToolFailed, CallsheetError) as error:
            if not (isinstance(error, MCPError) and error.error.code == METHOD_NOT_FOUND):
                _log.warning("%s: %s ends early: %s", server.config.name, method, error)
            break
        parts = page.get(field)
        entries = cast("list[Any]", parts) if isinstance(parts, list) else []
        found += (each for each in entries if isinstance(each, dict))
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str):
            break
    else:
        _log.warning("%s: %s ends after %d pages", server.config.name, method, _MOST_PAGES)
    return found


def _first_of(field: str, listed: Sequence[tuple[ManagedServer, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [*{str(each.get(field)): each for _, each in reversed(listed)}.values()][::-1]


def _pattern(template: str) -> re.Pattern[str]:
    """What a URI template stands for, as far as it matters here: any text in place of each expression."""
    return re.compile(".+".join(map(re.escape, _HOLE.split(template))))


def offer_tools(servers: Callable[[], Sequence[ManagedServer]], sink: BlobSink | None) -> dict[str, Tool]:
    """`@RESOURCE` and `@PROMPT`, by the capability that servers declare for them.

    The value is the text of a resource or prompt, or what a tool's result with its contents would be.
    """
    offers = Offers(servers)

    async def read(args: dict[str, Any], context: CallContext) -> JSON:
        uri, name = str(args.get("uri")), str(args.get("server") or "")
        server = await offers.server_of(uri, name)
        if server is None:
            raise ToolFailed(f"no server{f' {name}' if name else ''} has the resource {uri[:200]!r}")
        result = await _answer(server, "resources/read", {"uri": uri})
        said_of_answer(result, "contents").tell(context)
        contents = _parts(server, result.get("contents"))
        return await _value([{"type": "resource", "resource": each} for each in contents], sink, context)

    async def get(args: dict[str, Any], context: CallContext) -> JSON:
        name, of = str(args.get("name")), str(args.get("server") or "")
        for shown, (server, prompt) in (await offers.prompts()).items():
            if name in (shown, prompt.get("name")) and of in ("", server.config.name):
                given: dict[str, JSON] = {
                    "name": prompt.get("name"),
                    "arguments": args.get("arguments") or {},
                }
                result = await _answer(server, "prompts/get", given)
                said_of_answer(result, "messages").tell(context)
                messages = _parts(server, result.get("messages"))
                return await _value([each.get("content") for each in messages], sink, context)
        raise ToolFailed(f"no server{f' {of}' if of else ''} has the prompt {name[:200]!r}")

    handlers: dict[str, Handler] = {"resources": read, "prompts": get}
    return {what: Tool(OFFERS[what], handler) for what, handler in handlers.items()}


async def _answer(server: ManagedServer, method: str, params: dict[str, JSON]) -> dict[str, Any]:
    """The result of a request; whoever passes the call on hears it, or the error. Raises ToolFailed."""
    from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - a session is open

    passage = PASSAGE.get()
    try:
        result = await server.request(method, params)
    except MCPError as error:
        if passage is not None:
            passage.refused(error.error.code, error.message, error.error.data)
        raise ToolFailed(error.message) from error
    if passage is not None:
        passage.hear(result)
    return result


def _parts(server: ManagedServer, parts: object) -> list[dict[str, Any]]:
    if not isinstance(parts, list) or not all(isinstance(each, dict) for each in cast("list[Any]", parts)):
        raise ToolFailed(f"the MCP server {server.config.name!r} answered with an invalid result")
    return cast("list[dict[str, Any]]", parts)


async def _value(blocks: list[Any], sink: BlobSink | None, context: CallContext) -> JSON:
    """The value of content blocks: a single text is itself, anything else as in a tool's result."""
    if len(blocks) == 1 and isinstance(blocks[0], dict):
        block = cast("dict[str, Any]", blocks[0])
        holder = block.get("resource", block)
        text = cast("dict[str, Any]", holder).get("text") if isinstance(holder, dict) else None
        if isinstance(text, str):
            return text
    sizes: list[int] = []

    def store(data: bytes) -> str:
        assert sink is not None
        sizes.append(len(data))
        return sink(data)

    try:
        keep = None if sink is None else store
        return await asyncio.to_thread(value_of, {"content": blocks}, None, keep)
    finally:
        context.charge(Spent(kept=sum(sizes)))
