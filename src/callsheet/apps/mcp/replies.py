"""The result of a tool: text for people, data for programs, and whether it is an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_types import CallToolResult, ContentBlock, ResourceLink, TextContent
from mcp_types.version import is_version_at_least

from callsheet.apps.operations.json_schema import Schema, count, flag, rows, table, text
from callsheet.apps.operations.schemas import DIAGNOSTICS
from callsheet.apps.rendering.help_text import MCP
from callsheet.diagnostics import CallsheetError, Diagnostic, Source, render_all, to_json

_LINKS = "2025-06-18"


@dataclass(frozen=True, slots=True)
class Reply:
    """A result; `links` are resources with further information."""

    text: str
    data: Mapping[str, Any]
    is_error: bool = False
    links: Sequence[ResourceLink] = ()

    def result(self, protocol: str) -> CallToolResult:
        """The result in a protocol version; links exist since 2025-06-18."""
        links = self.links if is_version_at_least(protocol, _LINKS) else ()
        content: list[ContentBlock] = [TextContent(text=self.text), *links]
        return CallToolResult(
            content=content, structured_content=MCP.rewrite_rows(self.data), is_error=self.is_error
        )


def error_reply(error: CallsheetError) -> Reply:
    """The result for an error, with its diagnostics."""
    diagnostics = MCP.rewrite_all(error.diagnostics)
    rows = to_json(diagnostics, error.source)
    return Reply(render_all(diagnostics, error.source), {"ok": False, "diagnostics": rows}, True)


def with_diagnostics(text: str, diagnostics: Sequence[Diagnostic], source: Source | None) -> str:
    """The text, followed by the rendered diagnostics."""
    rendered = render_all(MCP.rewrite_all(diagnostics), source)
    return "\n\n".join(part for part in (text.rstrip(), rendered) if part)


def run_links(run_id: str) -> tuple[ResourceLink, ...]:
    """The links to the resources of a run."""
    return (
        ResourceLink(
            uri=f"callsheet://runs/{run_id}/report",
            name=f"run {run_id}",
            description="the run as one HTML page",
            mime_type="text/html",
        ),
    )


def with_left_out(schema: Schema) -> Schema:
    """The schema of a result of which long or unwanted parts are left out."""
    row = table(
        {
            "name": text("$ and a variable's name, response, steps, or a part of a step"),
            "of": count("its length in characters, or the number of steps"),
            "from": count("the first character or step that is shown"),
            "to": count("the end of what is shown"),
            "shown": count("how many are shown"),
        },
        optional=("from", "to", "shown"),
    )
    left_out = rows(
        row,
        "what is not shown: explain_run returns it with show_variables and from_character, dry_run_plan with "
        "show_steps",
    )
    return {
        **schema,
        "properties": schema["properties"] | {"left_out": left_out},
        "required": [*schema["required"], "left_out"],
    }


def or_error(schema: Schema) -> Schema:
    """The schema of a result, extended by that of an error."""
    properties = schema["properties"] | {
        "ok": flag("whether there are no errors"),
        "diagnostics": DIAGNOSTICS,
    }
    return {
        "type": "object",
        "properties": properties,
        "anyOf": [{"required": schema["required"]}, {"required": ["ok", "diagnostics"]}],
    }
