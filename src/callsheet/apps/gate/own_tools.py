"""The gate's own six tools: their declarations, and how each becomes an operation of callsheet's MCP tools.

Their names, descriptions and schemas are all that a client's context holds of the tools behind the gate, so
they are short. In: the arguments of a call. Out: its result, through the run service like everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mcp_types import CallToolResult, InputRequiredResult, TextContent, Tool, ToolAnnotations

from callsheet.apps.gate.catalogue import GateTool, found_for, stub_of
from callsheet.apps.mcp.server_context import ClientRequest, ServerContext
from callsheet.apps.mcp.tools import TOOLS, call_tool
from callsheet.diagnostics import CallsheetError

_FOUND = 8
"""The most tools that a query gives."""
_TEXT: dict[str, Any] = {"type": "string"}
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)


def _tool(title: str, description: str, required: Sequence[str], *, reads: bool, **fields: Any) -> Tool:
    schema = {"type": "object", "properties": fields, "required": [*required]}
    annotations = _READS if reads else None
    return Tool(name=title, description=description, input_schema=schema, annotations=annotations)


OWN_TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        _tool(
            "find_tools",
            "Find tools behind this server for a task. Gives typed stubs, best first; "
            "detail=full gives their whole declarations.",
            ["query"],
            reads=True,
            query=_TEXT,
            detail={"enum": ["stubs", "full"]},
        ),
        _tool(
            "run_program",
            "Run a program of tool calls (see `language`): checked, proved against the policy, "
            "run crash-safe, journaled. Use it for several coordinated calls. Gives the answer and the "
            "id of the run; large values stay in the run and are named.",
            ["code"],
            reads=False,
            code=_TEXT,
            inputs={"type": "object"},
            name={"type": "string", "description": "save it under this name"},
        ),
        _tool(
            "check_program",
            "The same without running: errors with their repair, and the calls that it would make.",
            ["code"],
            reads=True,
            code=_TEXT,
            inputs={"type": "object"},
        ),
        _tool(
            "run",
            "Look at or act on a run by its id. `value` needs `variable` and takes `start` for a long one.",
            ["id", "what"],
            reads=False,
            id=_TEXT,
            what={"enum": ["status", "value", "resume", "cancel"]},
            variable=_TEXT,
            start={"type": "integer"},
        ),
        _tool(
            "plans",
            "Saved plans: list them, show one, or run one with its inputs.",
            ["action"],
            reads=False,
            action={"enum": ["list", "show", "run"]},
            name=_TEXT,
            inputs={"type": "object"},
        ),
        _tool("language", "The rules of programs, on half a page.", [], reads=True),
    )
}

EXAMPLE = """import asyncio

async def main(cities: list[str], to: str = "ann@example.org") -> str:
    reports = await asyncio.gather(*[get_weather(city=city) for city in cities])
    rainy = [city for city, report in zip(cities, reports) if report["rain"] > 5]
    for city in rainy:
        try:
            await send_mail(to=to, text=f"Rain in {city}")
        except ToolError as error:
            print(f"{city}: {error}")
    return f"{len(rainy)} of {len(cities)}"
"""
LANGUAGE = f"""A program is Python: an async function `main` whose awaits are calls of tools by their names.

{EXAMPLE}
- Arguments of tools are named. The arguments of main are the inputs; what it returns is the answer.
- if, for, while, try, f-strings, comprehensions, `def` for pure code and `async def` for parts with awaits.
  Fields of results are r["name"] or r.name. gather runs calls side by side; print leaves a note.
- Imports: asyncio, collections, datetime, itertools, json, math, re, statistics. There are no files, network,
  eval, threads or other modules; a call without await is refused.
- The program is checked as a whole before its first call. check_program names each error with its line and
  what to write instead; find_tools has the tools."""
"""What `language` answers; the example is one that the compiler takes."""


class OwnCall(NamedTuple):
    """A call of one of the gate's own tools."""

    name: str
    args: Mapping[str, Any]


async def call_own(
    call: OwnCall, tools: Sequence[GateTool], context: ServerContext, caller: ClientRequest
) -> CallToolResult | InputRequiredResult:
    """The result of one of the own tools; raises CallsheetError as the operations behind them do."""
    args = {name: value for name, value in call.args.items() if value is not None}
    match call.name:
        case "find_tools":
            return _found(str(args.get("query", "")), tools, whole=args.get("detail") == "full")
        case "language":
            return _text(LANGUAGE)
        case "run_program":
            if caller.state is None and args.get("name"):
                await _delegate("save_plan", _program(args, "plan_id", name="name"), context, caller)
            return await _delegate("plan_execute", _program(args), context, caller)
        case "check_program":
            return await _delegate("dry_run_plan", _program(args), context, caller)
        case "run":
            return await _run(args, context, caller)
        case _:
            return await _plans(args, context, caller)


def _program(args: Mapping[str, Any], *more: str, name: str = "") -> dict[str, Any]:
    """The arguments of a program as those of callsheet's operations on plan texts."""
    given: dict[str, Any] = {"ltp_text": _wanted(args, "code")}
    if more:
        return given | {more[0]: str(args[name])}
    return given | ({"variables": args["inputs"]} if args.get("inputs") else {})


async def _run(args: Mapping[str, Any], context: ServerContext, caller: ClientRequest) -> Any:
    run_id, what = _wanted(args, "id"), _wanted(args, "what")
    match what:
        case "status":
            return await _delegate("explain_run", {"run_id": run_id}, context, caller)
        case "value":
            asked = {"run_id": run_id, "show_variables": [_wanted(args, "variable")]}
            start = {"from_character": args["start"]} if args.get("start") else {}
            return await _delegate("explain_run", asked | start, context, caller)
        case "resume":
            return await _delegate("resume_run", {"run_id": run_id}, context, caller)
        case "cancel":
            return await _delegate("cancel_run", {"run_id": run_id}, context, caller)
        case _:
            raise _wrong("what", what, "status, value, resume or cancel")


async def _plans(args: Mapping[str, Any], context: ServerContext, caller: ClientRequest) -> Any:
    match _wanted(args, "action"):
        case "list":
            return await _delegate("list_plans", {}, context, caller)
        case "show":
            return await _delegate("show_plan", {"plan_id": _wanted(args, "name")}, context, caller)
        case "run":
            given: dict[str, Any] = {"plan_id": _wanted(args, "name")}
            given |= {"variables": args["inputs"]} if args.get("inputs") else {}
            return await _delegate("plan_execute", given, context, caller)
        case other:
            raise _wrong("action", other, "list, show or run")


async def _delegate(
    tool: str, args: Mapping[str, Any], context: ServerContext, caller: ClientRequest
) -> CallToolResult | InputRequiredResult:
    """Call one of callsheet's MCP tools; its text alone, since the data would be in the context twice."""
    result = await call_tool(TOOLS[tool], context, args, caller)
    return (
        result.model_copy(update={"structured_content": None})
        if isinstance(result, CallToolResult)
        else result
    )


def _found(query: str, tools: Sequence[GateTool], *, whole: bool) -> CallToolResult:
    found = found_for(query, tools, _FOUND)
    if not found:
        return _text(f"none of the {len(tools)} tools fits {query[:60]!r}; try other words")
    if whole:
        return _text("\n".join(json.dumps(tool.declaration, ensure_ascii=False) for tool in found))
    return _text("\n".join(map(stub_of, found)))


def _text(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)])


def _wanted(args: Mapping[str, Any], name: str) -> str:
    value = args.get(name)
    if not isinstance(value, str) or not value.strip():
        raise CallsheetError.single("MCP001", f"`{name}` is missing: it must be a text")
    return value


def _wrong(name: str, value: str, known: str) -> CallsheetError:
    return CallsheetError.single("MCP001", f"`{name}` is {value[:40]!r}, and must be {known}")
