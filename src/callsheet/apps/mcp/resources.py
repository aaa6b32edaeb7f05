"""Plans and runs as MCP resources, `callsheet://plans/ID` and `callsheet://runs/ID/VIEW`; news of changes.

The library and the journal are polled while clients are subscribed, since other processes write to them too.
A client of protocol 2026-07-28 or later subscribes; an older one is notified of changes of the list once it
has listed the resources.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp_types import (
    Resource,
    ResourceTemplate,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    TextResourceContents,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.operations.run_text import run_detail_lines
from callsheet.apps.operations.runs import run_details_json
from callsheet.apps.rendering.values import without_controls
from callsheet.apps.table.runs import details_of
from callsheet.diagnostics import CallsheetError
from callsheet.runtime.reporting import MADE_BY, lctl_of, report_document, report_page
from callsheet.trace.lctl.write import write
from callsheet.views.report.build import Showing

_ADDRESS = re.compile(r"callsheet://(?P<kind>plans|runs)/(?P<id>[A-Za-z0-9@._-]{1,80})(?:/(?P<view>[a-z]+))?")
_MOST_LISTED = 50
_MOST_COMPLETED = 100
_MOST_BYTES = 200_000
"""Longer values are truncated in a report."""


class _View(NamedTuple):
    title: str
    description: str
    mime_type: str
    render: Callable[[ServerContext, str], str]


def _summary(server_context: ServerContext, run_id: str) -> str:
    return "\n".join(
        map(
            without_controls,
            run_detail_lines(details_of(server_context.context(), run_id), server_context.hint),
        )
    )


def _journal(server_context: ServerContext, run_id: str) -> str:
    return json.dumps(
        run_details_json(details_of(server_context.context(), run_id)),
        ensure_ascii=False,
        indent=2,
        default=str,
    )


def _report(server_context: ServerContext, run_id: str) -> str:
    document = report_document(
        server_context.host.journal, run_id, MADE_BY, Showing(_MOST_BYTES, False), None
    )
    return report_page(document)


def _lctl(server_context: ServerContext, run_id: str) -> str:
    return write(lctl_of(server_context.host.journal, server_context.host.journal.find_run(run_id).run_id))


_VIEWS = {
    "summary": _View("Summary", "what happened, as text", "text/plain", _summary),
    "journal": _View("Journal", "what happened, as JSON", "application/json", _journal),
    "report": _View("Report", "the run as one HTML page", "text/html", _report),
    "lctl": _View(
        "LCTL", "the run as an LCTL block, with the confidence of its facts", "application/yaml", _lctl
    ),
}


def list_resources(server_context: ServerContext) -> list[Resource]:
    """The plans of the library, and the newest runs."""
    plans = [
        Resource(
            uri=f"callsheet://plans/{plan.id}",
            name=plan.id,
            title=plan.title,
            description=plan.goal or plan.title,
            mime_type="text/plain",
        )
        for plan in server_context.library.list()
    ]
    runs = [
        Resource(
            uri=f"callsheet://runs/{info.run_id}/summary",
            name=info.run_id,
            description=f"a run that is {server_context.host.status(info)}",
            mime_type="text/plain",
        )
        for info in server_context.host.journal.runs(_MOST_LISTED)
    ]
    return [*plans, *runs]


def versions(server_context: ServerContext) -> Mapping[str, object]:
    """The plans and all views of the newest runs, with a value that changes with their content."""
    folder = server_context.library.folder
    written = {} if folder is None else _modification_times(folder)
    plans: dict[str, object] = {
        f"callsheet://plans/{name}": written.get(name, ()) for name in server_context.library.ids()
    }
    runs: dict[str, object] = {
        f"callsheet://runs/{info.run_id}/{view}": (info.events, str(info.status))
        for info in server_context.host.journal.runs(_MOST_LISTED)
        for view in _VIEWS
    }
    return plans | runs


def _modification_times(folder: Path) -> dict[str, list[int]]:
    """The modification times of the files of a folder, by their names without the last suffix."""
    times: dict[str, list[int]] = {}
    with suppress(OSError):  # there may be no plans yet
        for path in sorted(folder.iterdir()):
            times.setdefault(path.stem, []).append(path.stat().st_mtime_ns)
    return times


def list_templates() -> list[ResourceTemplate]:
    """The templates of URIs."""
    plan = ResourceTemplate(
        uri_template="callsheet://plans/{plan_id}",
        name="plan",
        title="A plan",
        description="the text of a plan of the library",
        mime_type="text/plain",
    )
    views = [
        ResourceTemplate(
            uri_template=f"callsheet://runs/{{run_id}}/{name}",
            name=f"run_{name}",
            title=f"{view.title} of a run",
            description=view.description,
            mime_type=view.mime_type,
        )
        for name, view in _VIEWS.items()
    ]
    return [plan, *views]


def read_resource(server_context: ServerContext, uri: str) -> TextResourceContents:
    """The content of a resource; raises CallsheetError (MCP005) for an unknown URI."""
    match = _ADDRESS.fullmatch(uri)
    if match is None:
        raise _missing(uri)
    kind, name, view = match["kind"], match["id"], match["view"]
    if kind == "plans" and view is None:
        return TextResourceContents(
            uri=uri, text=server_context.library.load(name).text, mime_type="text/plain"
        )
    shown = _VIEWS.get(view or "summary") if kind == "runs" else None
    if shown is None:
        raise _missing(uri)
    return TextResourceContents(uri=uri, text=shown.render(server_context, name), mime_type=shown.mime_type)


def complete_id(server_context: ServerContext, argument: str, prefix: str) -> list[str]:
    """The ids of plans or runs with this prefix."""
    known: list[str] = []
    if argument == "plan_id":
        known = list(server_context.library.ids())
    elif argument == "run_id":
        known = [info.run_id for info in server_context.host.journal.runs(500)]
    return [name for name in known if name.startswith(prefix)][:_MOST_COMPLETED]


def _missing(uri: str) -> CallsheetError:
    message = f"there is no resource {uri[:120]}"
    return CallsheetError.single("MCP005", message, help="resources/list returns the newest ones")


_log = logging.getLogger("callsheet.mcp")
_PAUSE = 1.0
"""The polling interval, in seconds."""
_MOST_CLIENTS = 1_000


class ChangeNotifier:
    """Polls the library and the journal for changes, and notifies the listening clients."""

    def __init__(self, server_context: ServerContext, pause: float = _PAUSE) -> None:
        self._server_context = server_context
        self._poll_interval = pause
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        self._subscriber_count = 0
        self._legacy_sessions: dict[int, ServerSession] = {}
        self._last_versions: Mapping[str, object] | None = None
        """The versions at the last poll; None while no client is subscribed."""

    async def listen(
        self, context: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Answer `subscriptions/listen` with the changes from now on, until the client disconnects."""
        self._subscriber_count += 1
        try:
            await self._ensure_baseline()
            return await self._streams(context, params)
        finally:
            self._subscriber_count -= 1

    async def register_legacy_client(self, session: ServerSession) -> None:
        """Notify this client of changes from now on, unless its protocol version has subscriptions."""
        if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        client = id(session.client_params)
        self._legacy_sessions.pop(client, None)
        while len(self._legacy_sessions) >= _MOST_CLIENTS:
            del self._legacy_sessions[next(iter(self._legacy_sessions))]
        self._legacy_sessions[client] = session
        await self._ensure_baseline()

    @asynccontextmanager
    async def polling(self) -> AsyncGenerator[None]:
        """Poll during the block, while clients are subscribed."""
        task = asyncio.create_task(self._poll_forever())
        try:
            yield
        finally:
            task.cancel()
            self._streams.close()

    async def _poll_forever(self) -> None:
        while True:
            await asyncio.sleep(self._poll_interval)
            if self._subscriber_count or self._legacy_sessions:
                await self._poll()
            else:
                self._last_versions = None

    async def _ensure_baseline(self) -> None:
        if self._last_versions is None:
            await self._poll()

    async def _poll(self) -> None:
        try:
            now = await self._server_context.host.beside(lambda: versions(self._server_context))
        except CallsheetError as error:
            _log.warning("changes cannot be polled: %s", error)
            return
        before, self._last_versions = self._last_versions, now
        if before is None or now == before:
            return
        if now.keys() != before.keys():
            await self._bus.publish(ResourcesListChanged())
            await self._notify_legacy_clients()
        for uri in now:
            if uri in before and now[uri] != before[uri]:
                await self._bus.publish(ResourceUpdated(uri))

    async def _notify_legacy_clients(self) -> None:
        for client, session in [*self._legacy_sessions.items()]:
            try:
                await session.send_resource_list_changed()
            except Exception as error:  # the client has disconnected
                _log.debug("a client cannot be notified of changes: %s", error)
                self._legacy_sessions.pop(client, None)
