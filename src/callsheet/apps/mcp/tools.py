"""The operations of the table as MCP tools: their declarations, and their calls.

In: the arguments of a call. Out: its result, or the questions to the person at the client; CallsheetError
(MCP001) for invalid arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeAlias, TypeVar, cast

from mcp_types import CallToolResult, ContentBlock, TextContent, Tool, ToolAnnotations
from mcp_types.version import is_version_at_least
from pydantic import ValidationError

from callsheet.apps.mcp.running import run_links, start_and_wait
from callsheet.apps.mcp.server_context import ClientRequest, ServerContext
from callsheet.apps.mcp.tasks import ToolAnswer
from callsheet.apps.operations.schema import DiagnosticRow, Ok, Schema, object_schema, schema_of
from callsheet.apps.rendering.help_text import MCP
from callsheet.apps.table.operation import (
    Arguments,
    Face,
    Operation,
    Reply,
    ToolFace,
    face_model,
    gathered,
    names_of,
)
from callsheet.apps.table.operations import OPERATIONS
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, meant, render_all, to_json

Offered: TypeAlias = "tuple[ToolFace[Any, Any], Operation[Any, Any]]"
A = TypeVar("A", bound=Arguments)
_LINKS = "2025-06-18"
"""The protocol version since which results may have links."""

TOOLS: Mapping[str, Offered] = {
    operation.mcp.name: (operation.mcp, operation) for operation in OPERATIONS if operation.mcp is not None
}
"""All tools by name, that for answers included."""


@cache
def declaration(name: str) -> Tool:
    """The declaration of one of `TOOLS` for clients, made when one first asks; nobody changes it."""
    face, operation = TOOLS[name]
    reads, destroys, repeats, opens = face.hint.value
    return Tool(
        name=face.name,
        title=face.title,
        description=face.description,
        input_schema=_untitled(_input_schema(operation.arguments)),
        output_schema=_output_schema(face.result or operation.result),
        annotations=ToolAnnotations(
            read_only_hint=reads, destructive_hint=destroys, idempotent_hint=repeats, open_world_hint=opens
        ),
    )


def _input_schema(model: type[Arguments]) -> Schema:
    schema = face_model(model, Face.MCP).model_json_schema()
    schema.pop("description", None)
    return schema


def _untitled(schema: Any) -> Any:
    """A schema without the titles that pydantic generates from names."""
    if isinstance(schema, list):
        return [_untitled(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    table = cast("dict[str, Any]", schema)
    return {
        key: _untitled(value) for key, value in table.items() if key != "title" or isinstance(value, dict)
    }


def _named(kind: Any) -> Schema:
    """A type within a result. Its fields are left out: a client's model sees them in the result itself.

    The whole schemas are in the OpenAPI document and in the reference; here they would cost tens of thousands
    of tokens in each conversation.
    """
    return {"type": "object"}


def _output_schema(kind: Any) -> Schema:
    """The schema of a result, or of an error."""
    schema = object_schema(kind, _named)
    errors = {"ok": schema_of(Ok, _named), "diagnostics": schema_of(list[DiagnosticRow], _named)}
    return {
        "type": "object",
        "properties": errors | schema["properties"],
        "anyOf": [{"required": schema["required"]}, {"required": [*errors]}],
    }


async def call_tool(
    offered: Offered, server_context: ServerContext, given: Mapping[str, Any], caller: ClientRequest
) -> ToolAnswer:
    """Call a tool; raises CallsheetError for invalid arguments, and what the operation raises."""
    face, operation = offered
    args = read_arguments(face.name, operation.arguments, given)
    if face.reply is None:
        answer = await start_and_wait(server_context, caller, operation, args)
        return result_of(answer, caller) if isinstance(answer, Reply) else answer
    context = server_context.context(caller.client_name)
    return result_of(face.reply(context, args, await operation.work(context, args)), caller)


def result_of(reply: Reply, caller: ClientRequest) -> CallToolResult:
    """The result of a call, in the version of the protocol that the client speaks."""
    has_links = bool(reply.run_id) and is_version_at_least(caller.context.protocol_version, _LINKS)
    links = run_links(reply.run_id) if has_links else ()
    content: list[ContentBlock] = [TextContent(text=reply.text), *links]
    return CallToolResult(
        content=content, structured_content=MCP.rewrite_rows(reply.data), is_error=reply.is_error
    )


def error_reply(error: CallsheetError) -> Reply:
    """The result for an error, with its diagnostics."""
    diagnostics = MCP.rewrite_all(error.diagnostics)
    rows = to_json(diagnostics, error.source)
    return Reply(render_all(diagnostics, error.source), {"ok": False, "diagnostics": rows}, True)


def read_arguments(tool: str, model: type[A], given: Mapping[str, Any]) -> A:
    """The arguments of a call; raises CallsheetError (MCP001) with all errors."""
    offered = face_model(model, Face.MCP)
    try:
        return gathered(model, Face.MCP, offered.model_validate(dict(given)))
    except ValidationError as error:
        known = names_of(offered)
        raise CallsheetError([_wrong(tool, dict(each), known) for each in error.errors()]) from None


def _wrong(tool: str, error: Mapping[str, Any], known: list[str]) -> Diagnostic:
    place = ".".join(str(part)[:60] for part in error["loc"])
    match error["type"]:
        case "missing":
            message, hint = f"{tool} needs {place}", None
        case "extra_forbidden":
            message = f"{tool} has no argument {place}"
            hint = meant(place, known, f"it takes {', '.join(known)}")
        case "list_type":
            message, hint = f"{tool}: {place}: input should be a list", None
        case "dict_type":
            message, hint = f"{tool}: {place}: input should be a JSON object", None
        case _:
            detail = str(error["msg"])
            message, hint = f"{tool}: {place}: {detail[:1].lower()}{detail[1:]}", None
    return Diagnostic("MCP001", Severity.ERROR, message, help=hint)
