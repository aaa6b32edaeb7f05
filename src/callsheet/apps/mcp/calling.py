"""Who calls a tool: the client's request, as far as a tool needs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types import CallToolRequestParams


@dataclass(frozen=True, slots=True)
class Caller:
    """A request of a client."""

    context: ServerRequestContext[Any, Any]
    params: CallToolRequestParams
