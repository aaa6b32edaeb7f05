"""What a request of an MCP client works on: the server's host, library and settings, and the request itself.

A client of protocol 2026-07-28 or later gets questions as a result, and repeats the call with the answers; an
older one is asked while the call is in progress.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types import CallToolRequestParams, ElicitRequest, ElicitRequestFormParams, ElicitResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from callsheet.apps.hosting import Host
from callsheet.apps.hosting.service import Listeners
from callsheet.apps.table.operation import Context, Face
from callsheet.apps.toolbox import Toolbox
from callsheet.ir import Plan
from callsheet.ir.labels import LITERAL, Label
from callsheet.runtime.answers import PendingAsk
from callsheet.store.library import PlanLibrary

_NOBODY = Listeners()
TASKS = "io.modelcontextprotocol/tasks"
"""The extension of calls whose results come later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    """The host, the library and the operator's settings for all requests.

    With `clients_may_answer`, a client without forms may answer for a person. `hint` is the option of
    commands that names the journal (` --journal PATH`). `reads` is as in `Context`.
    """

    host: Host
    library: PlanLibrary
    clients_may_answer: bool = False
    hint: str = ""
    reads: Label = LITERAL

    async def toolbox(self) -> Toolbox:
        """All available tools."""
        return await self.host.tools.for_plan(None)

    def context(
        self,
        client: str = "",
        *,
        runs: Callable[[Plan], None] = lambda plan: None,
        listeners: Listeners = _NOBODY,
    ) -> Context:
        """What an operation works on for a client; `runs` and `listeners` as in `Context`."""
        return Context(
            host=self.host,
            library=lambda: self.library,
            face=Face.MCP,
            by=client,
            hint=self.hint,
            clients_may_answer=self.clients_may_answer,
            reads=self.reads,
            runs=runs,
            listeners=listeners,
        )


@dataclass(frozen=True, slots=True)
class Form:
    """A form for the person at the client: a message, and the JSON Schema of the answer."""

    message: str
    schema: dict[str, Any]

    def request(self) -> ElicitRequest:
        """The form as an MCP elicitation request."""
        params = ElicitRequestFormParams(message=self.message, requested_schema=self.schema)
        return ElicitRequest(params=params)


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request of a client."""

    context: ServerRequestContext[Any, Any]
    params: CallToolRequestParams

    @property
    def client_name(self) -> str:
        """The name of the client."""
        return client_name_of(self.context)

    @property
    def supports_forms(self) -> bool:
        """Whether the client can show a form to a person."""
        return client_supports_forms(self.context) and self.can_be_asked

    def may_answer(self, ask: PendingAsk) -> bool:
        """Whether a person at the client can be asked this: nobody knows there who has which role."""
        return self.supports_forms and not ask.role

    @property
    def supports_tasks(self) -> bool:
        """Whether the client takes a task as the answer to a call."""
        offered = self.context.session.client_capabilities
        return self.has_input_required and offered is not None and TASKS in (offered.extensions or {})

    @property
    def can_be_asked(self) -> bool:
        """Whether the client can be asked anything during a call."""
        return self.has_input_required or self.context.session.can_send_request

    @property
    def has_input_required(self) -> bool:
        """Whether the protocol version returns questions as results of tool calls."""
        return self.context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def state(self) -> str | None:
        """The state that this server sent with the questions that the call answers; None for a new call."""
        return self.params.request_state

    @property
    def answers(self) -> Mapping[str, ElicitResult]:
        """The answers that came with the call, by the names of their questions."""
        given = self.params.input_responses or {}
        return {name: answer for name, answer in given.items() if isinstance(answer, ElicitResult)}

    async def elicit(self, form: Form) -> ElicitResult:
        """Ask the person at an older client, now."""
        session = self.context.session
        return await session.elicit_form(form.message, form.schema, self.context.request_id)

    async def report_progress(self, progress: float, total: float | None, message: str) -> None:
        """Report progress, if the client has asked for it."""
        await self.context.session.report_progress(progress, total, message)


def client_name_of(context: ServerRequestContext[Any, Any]) -> str:
    """The name that a client gives itself."""
    client = context.session.client_params
    return "an MCP client" if client is None else f"{client.client_info.name[:60]} (MCP)"


def client_supports_forms(context: ServerRequestContext[Any, Any]) -> bool:
    """Whether a client has declared that it can show forms."""
    offered = context.session.client_capabilities
    if offered is None or offered.elicitation is None:
        return False
    return offered.elicitation.form is not None or offered.elicitation.url is None


_ANSWER_AFTER = 600.0
"""Seconds in which a question can be answered in the same call."""


class CallsheetServer(Server[dict[str, Any]]):
    """An MCP server that declares its notifications of changes to older clients too."""

    _changes = NotificationOptions()

    def declare(self, changes: NotificationOptions) -> None:
        """Say which notifications there are; what a client hands back of a question is sealed from now on."""
        self._changes = changes
        security = RequestStateSecurity.ephemeral(ttl=_ANSWER_AFTER)
        self.middleware.append(RequestStateBoundary(security, default_audience=self.name))

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """The options of the initialization, for older clients."""
        changes = notification_options or self._changes
        return super().create_initialization_options(changes, experimental_capabilities, extensions)
