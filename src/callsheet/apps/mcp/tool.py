"""A tool that the MCP server offers: its declaration and its handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias

from mcp_types import InputRequiredResult, Tool, ToolAnnotations

from callsheet.apps.mcp.arguments import Arguments, read_arguments, schema_of
from callsheet.apps.mcp.client_request import ClientRequest
from callsheet.apps.mcp.replies import Reply, or_error
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.operations.json_schema import Schema

Answer: TypeAlias = "Reply | InputRequiredResult"

READ_ONLY = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
"""Only reads its arguments, the tools and the journal."""
READ_ONLY_OPEN_WORLD = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=False, open_world_hint=True
)
"""Changes nothing, and calls a model."""
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True
)
"""Adds to the library, and changes nothing existing."""
DESTRUCTIVE = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)
"""Calls tools, whose effects are unknown."""
DESTRUCTIVE_IDEMPOTENT = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)
"""Ends or deletes runs; a repetition changes nothing."""


@dataclass(frozen=True, slots=True)
class ToolDefinition(Generic[Arguments]):
    """A tool: its name and description, the types of its arguments and result, its handler."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    result_schema: Schema
    hints: ToolAnnotations
    handler: Callable[[ServerContext, Arguments, ClientRequest], Awaitable[Answer]]

    def declaration(self) -> Tool:
        """The declaration for clients."""
        return Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=schema_of(self.arguments),
            output_schema=or_error(self.result_schema),
            annotations=self.hints,
        )

    async def call(
        self, server_context: ServerContext, given: Mapping[str, Any], caller: ClientRequest
    ) -> Answer:
        """Call the handler; raises CallsheetError for invalid arguments, and what the handler raises."""
        return await self.handler(server_context, read_arguments(self.name, self.arguments, given), caller)
