"""The client's request behind a tool call, as far as the tools need it.

A client of the protocol from 2026-07-28 on is asked by an answer, which it gives back with the same call;
an older one is asked while the call is under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types import CallToolRequestParams, ElicitRequest, ElicitRequestFormParams, ElicitResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS


@dataclass(frozen=True, slots=True)
class Form:
    """A question to the person at the client: what is said, and the fields of the answer."""

    message: str
    schema: dict[str, Any]

    def request(self) -> ElicitRequest:
        """The question as MCP has it."""
        params = ElicitRequestFormParams(message=self.message, requested_schema=self.schema)
        return ElicitRequest(params=params)


@dataclass(frozen=True, slots=True)
class Caller:
    """A request of a client."""

    context: ServerRequestContext[Any, Any]
    params: CallToolRequestParams

    @property
    def name(self) -> str:
        """What the client calls itself."""
        client = self.context.session.client_params
        return "an MCP client" if client is None else f"{client.client_info.name[:60]} (MCP)"

    @property
    def can_be_asked(self) -> bool:
        """Whether a person at the client can be given a form."""
        return offers_forms(self.context) and (self.is_modern or self.context.session.can_send_request)

    @property
    def is_modern(self) -> bool:
        """Whether questions to the client are part of an answer."""
        return self.context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def state(self) -> str | None:
        """What this server gave with the questions that the call now answers; None for a new call."""
        return self.params.request_state

    @property
    def answers(self) -> Mapping[str, ElicitResult]:
        """The answers that came with the call, by the names of their questions."""
        given = self.params.input_responses or {}
        return {name: answer for name, answer in given.items() if isinstance(answer, ElicitResult)}

    async def ask(self, form: Form) -> ElicitResult:
        """Ask the person at an older client, now."""
        session = self.context.session
        return await session.elicit_form(form.message, form.schema, self.context.request_id)

    async def tell(self, progress: float, total: float | None, message: str) -> None:
        """Say how far it is, where the client wants to know."""
        await self.context.session.report_progress(progress, total, message)


def offers_forms(context: ServerRequestContext[Any, Any]) -> bool:
    """Whether a client has said that it can give a person a form."""
    offered = context.session.client_capabilities
    if offered is None or offered.elicitation is None:
        return False
    return offered.elicitation.form is not None or offered.elicitation.url is None
