"""The gate's own tools: six for runs and plans, each an operation of callsheet's, and the saved plans.

In: the plan library, the ids that an operator exposes (`*` for all). Out: declarations of tools; and for a
call of one of them, the id of its plan.

Their names, descriptions and schemas are all that a client's context holds of the tools behind the gate, so
they are short. In: the arguments of a call. Out: its result, through the run service like everywhere.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    TextContent,
    Tool,
    ToolAnnotations,
)

from callsheet.apps.gate.offers import ToolIndex, missing_in, stub_of, tools_of_programs
from callsheet.apps.hosting.recorded import label_of_run
from callsheet.apps.mcp.server_context import ClientRequest, ServerContext
from callsheet.apps.mcp.tasks import ToolAnswer
from callsheet.apps.rendering.values import without_controls
from callsheet.apps.table.extent import MOST_OF_A_VALUE, cut_text
from callsheet.apps.toolbox import Toolbox
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, did_you_mean
from callsheet.ir import Plan
from callsheet.ir.inputs import input_schema
from callsheet.ir.labels import LITERAL, Label
from callsheet.passes.fitting import first_misfit
from callsheet.store import Journal
from callsheet.store.library import Param, PlanLibrary, StoredPlan, free_variables
from callsheet.trace.lineage.lineage import ANSWER

_log = logging.getLogger("callsheet.gate")
EVERY = "*"
_TYPES = {
    "text": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "list": "array",
    "object": "object",
}
_LONGEST = 300
"""The most characters of a description."""


class PlanTools:
    """The plans of a library that are exposed as tools; the library is read at each request.

    A plan whose name is `taken` by another tool is a tool with `plan_` before it.
    """

    def __init__(
        self,
        library: PlanLibrary,
        ids: Collection[str],
        taken: Callable[[], Collection[str]] = frozenset[str],
    ) -> None:
        self._library = library
        self._ids = tuple(ids)
        self._taken = taken

    def check(self) -> None:
        """Raise CallsheetError if a plan is not there (MCP001), or with the errors of its text."""
        known = self._library.ids()
        for plan_id in self._ids:
            if plan_id != EVERY and plan_id.partition("@")[0] not in known:
                near = did_you_mean(plan_id, known)
                hint = f"did you mean {near[0]}?" if near else "`callsheet plan list` shows what is saved"
                raise CallsheetError.single("MCP001", f"there is no saved plan {plan_id!r}", help=hint)
            if plan_id != EVERY:
                self._library.load(plan_id).require()

    def declarations(self) -> list[Tool]:
        """The tools; a plan whose text has errors is left out with a warning, since nobody could run it."""
        return [_plan_tool(name, self._library.load(plan_id)) for name, plan_id in self._named().items()]

    def plan_of(self, tool: str) -> str | None:
        """The id of the plan behind a tool; None if there is no such tool."""
        return self._named().get(tool)

    def _named(self) -> dict[str, str]:
        if not self._ids:
            return {}
        rows = self._library.list()
        listed = {row.id for row in rows if row.steps is not None}
        for row in rows:
            if row.steps is None and (EVERY in self._ids or row.id in self._ids):
                _log.warning(
                    "the plan %s is no tool: its text has errors (callsheet check %s)", row.id, row.id
                )
        wanted = [*listed] if EVERY in self._ids else []
        wanted += [one for one in self._ids if one != EVERY and one.partition("@")[0] in listed]
        named: dict[str, str] = {}
        taken = self._taken()
        for plan_id in sorted(wanted):
            name = re.sub(r"[^A-Za-z0-9_-]", "_", plan_id.partition("@")[0])[:60]
            while name in taken:
                name = f"plan_{name}"
            if named.setdefault(name, plan_id) != plan_id:
                _log.warning("the plan %s is no tool: %s is one with that name", plan_id, named[name])
        return named


def _plan_tool(name: str, stored: StoredPlan) -> Tool:
    plan = stored.require()
    about = plan.title or stored.goal or plan.goal or f"The saved plan {stored.id}."
    text = f"{about[:_LONGEST]} (a saved plan)"
    return Tool(name=name, title=plan.title, description=text, input_schema=_schema(plan, stored.params))


def _schema(plan: Plan, params: Collection[Param]) -> dict[str, Any]:
    if plan.tree is not None:
        return input_schema(plan.tree)
    named = {param.name for param in params}
    known = [*params, *(Param(name) for name in free_variables(plan) if name not in named)]
    return {
        "type": "object",
        "properties": {param.name: _property(param) for param in known},
        "required": [param.name for param in known if not param.has_default],
        "additionalProperties": False,
    }


def _property(param: Param) -> Mapping[str, Any]:
    kind = _TYPES.get(str(param.kind))
    shape: dict[str, Any] = {} if kind is None else {"type": kind}
    return {**shape, "default": param.default} if param.has_default else shape


_FOUND = 8
"""The most tools that a query gives."""
_OF_RUNS = ("status", "answer", "value", "why", "failure", "resume", "cancel")
"""What can be asked of a run, or done with it."""
_DELEGATED = {"status": "explain_run", "resume": "resume_run", "cancel": "cancel_run"}
_DEPTH = 6
"""The levels of the tree that `why` tells."""
_TEXT: dict[str, Any] = {"type": "string"}
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)


def _own_tool(title: str, description: str, required: Sequence[str], *, reads: bool, **fields: Any) -> Tool:
    schema = {"type": "object", "properties": fields, "required": [*required]}
    annotations = _READS if reads else None
    return Tool(name=title, description=description, input_schema=schema, annotations=annotations)


OWN_TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        _own_tool(
            "find_tools",
            "Find tools behind this server for a task. Gives typed stubs, best first; "
            "detail=full gives their whole declarations.",
            ["query"],
            reads=True,
            query=_TEXT,
            detail={"enum": ["stubs", "full"]},
        ),
        _own_tool(
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
        _own_tool(
            "check_program",
            "The same without running: errors with their repair, and the calls that it would make.",
            ["code"],
            reads=True,
            code=_TEXT,
            inputs={"type": "object"},
        ),
        _own_tool(
            "run",
            "Look at or act on a run by its id. `value` needs `variable`, which may be a part (rows[0].id); "
            "`why` tells where that, or the answer, came from. `start`: where to go on in a long one.",
            ["id", "what"],
            reads=False,
            id=_TEXT,
            what={"enum": [*_OF_RUNS]},
            variable=_TEXT,
            start={"type": "integer", "minimum": 0},
        ),
        _own_tool(
            "plans",
            "Saved plans: list them, show one, or run one with its inputs.",
            ["action"],
            reads=False,
            action={"enum": ["list", "show", "run"]},
            name=_TEXT,
            inputs={"type": "object"},
        ),
        _own_tool("language", "The rules of programs, on half a page.", [], reads=True),
    )
}

_SHAPES = {name: {**tool.input_schema, "additionalProperties": False} for name, tool in OWN_TOOLS.items()}
"""What the own tools take; that they take nothing else is left out of their declarations, which are short."""

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
  Fields of results are r["name"] or r.name. `await resource(uri=…)` reads a resource of a server.
  gather runs calls side by side; print leaves a note.
- Imports: asyncio, collections, datetime, itertools, json, math, re, statistics. There are no files, network,
  eval, threads or other modules; a call without await is refused.
- The program is checked as a whole before its first call. check_program names each error with its line and
  what to write instead; find_tools has the tools."""
"""What `language` answers; the example is one that the compiler takes."""


class OwnCall(NamedTuple):
    """A call of one of the gate's own tools."""

    name: str
    args: Mapping[str, Any]


class OwnAnswer(NamedTuple):
    """The result of such a call, and the run whose data it tells, "" if none; `label` is that of the data."""

    result: ToolAnswer
    run_id: str = ""
    label: Label = LITERAL


async def call_own(
    call: OwnCall, tools: ToolIndex, context: ServerContext, caller: ClientRequest
) -> OwnAnswer:
    """The result of one of the own tools; raises CallsheetError as the operations behind them do.

    Also for arguments that are not as it declares them (MCP001).
    """
    args = {name: value for name, value in call.args.items() if value is not None}
    misfit = first_misfit(args, _SHAPES[call.name])
    if misfit is not None:
        known = ", ".join(OWN_TOOLS[call.name].input_schema["properties"]) or "no arguments"
        message = f"{call.name}: `{misfit.path[1:]}` {misfit.verdict}"
        raise CallsheetError.single("MCP001", message, help=f"it takes {known}")
    match call.name:
        case "find_tools":
            return OwnAnswer(_found(str(args.get("query", "")), tools, whole=args.get("detail") == "full"))
        case "language":
            return OwnAnswer(_text(LANGUAGE))
        case "run_program":
            is_named = caller.state is None and bool(args.get("name"))
            saved = await _save(args, context, caller) if is_named else None
            try:
                return await _delegate("plan_execute", _program(args), context, caller)
            except CallsheetError:
                if saved is not None:  # a session that has read nothing could run what this one may not
                    await context.host.beside(lambda: context.library.withdraw(saved))
                raise
        case "check_program":
            return await _delegate("dry_run_plan", _program(args), context, caller)
        case "run":
            return await _run(args, context, caller)
        case _:
            return await _plans(args, context, caller)


class ModelTools:
    """The tools for a client's model: the own ones, and the plans that are exposed as tools.

    `behind` gives the names of the tools that are listed beside them; without it what is to be told of the
    servers is logged here.
    """

    def __init__(
        self,
        context: ServerContext,
        plans: Sequence[str] = (),
        behind: Callable[[], Collection[str]] | None = None,
    ) -> None:
        self._context = context
        self._is_alone = behind is None
        from callsheet.apps.mcp.tools import TOOLS  # noqa: PLC0415 - brings all operations

        self._plans = PlanTools(
            context.library, plans, lambda: {*OWN_TOOLS, *TOOLS, *(behind() if behind else ())}
        )
        self._index: tuple[Toolbox, ToolIndex] | None = None
        self._read: dict[str, Label] = {}

    async def declarations(self) -> list[Tool]:
        """The declarations of the tools."""
        return [*OWN_TOOLS.values(), *await self._context.host.beside(self._plans.declarations)]

    async def has(self, name: str) -> bool:
        """Whether there is such a tool."""
        return name in OWN_TOOLS or await self._plan_of(name) is not None

    async def call(self, params: CallToolRequestParams, caller: ClientRequest) -> OwnAnswer | None:
        """The result of a call; None for a tool that is not one of these. Raises as `call_own` does.

        What a client has been told of runs counts for what it writes afterwards.
        """
        read = self._read.get(caller.client_name, LITERAL)
        answer = await self.call_after(params, caller, read)
        if answer is not None:
            self._read[caller.client_name] = read.join(answer.label)
        return answer

    async def call_after(
        self, params: CallToolRequestParams, caller: ClientRequest, read: Label
    ) -> OwnAnswer | None:
        """As `call`, for a client that has read data of this label, which its texts may repeat."""
        host = self._context.host
        if host.config.policy is None:
            return await self._call(params, caller, self._context)
        from callsheet.api.proving import PolicyRefused  # noqa: PLC0415 - only under a policy

        try:
            answer = await self._call(params, caller, replace(self._context, reads=read))
        except PolicyRefused as refused:
            if read.join(host.config.policy.planner) == host.config.policy.planner:
                raise
            note = Diagnostic(
                refused.diagnostics[0].code,
                Severity.HINT,
                f"what you write counts as {read}, since you have read data of that label here",
                help="a session that has not read it may do more",
            )
            raise PolicyRefused([*refused.diagnostics, note], refused.source, refused.proof) from refused
        if answer is None or not answer.run_id:
            return answer
        label = await host.beside(lambda: label_of_run(host.journal, answer.run_id))
        return answer._replace(label=label)

    async def _call(
        self, params: CallToolRequestParams, caller: ClientRequest, context: ServerContext
    ) -> OwnAnswer | None:
        args, host = params.arguments or {}, context.host
        if params.name not in OWN_TOOLS:
            plan_id = await self._plan_of(params.name)
            given = {"plan_id": plan_id, "variables": args}
            return None if plan_id is None else await _delegate("plan_execute", given, context, caller)
        toolbox = await host.tools.for_plan(None)
        if self._index is None or self._index[0] is not toolbox:
            tools = tools_of_programs(toolbox.registry, host.tools.seen(), frozenset(OWN_TOOLS))
            if self._is_alone:
                log_opening(toolbox)
            absent = missing_in(host.masker.diagnostics(toolbox.diagnostics), toolbox.registry)
            self._index = toolbox, ToolIndex(tools, absent)
        return await call_own(OwnCall(params.name, args), self._index[1], context, caller)

    async def _plan_of(self, name: str) -> str | None:
        return await self._context.host.beside(lambda: self._plans.plan_of(name))


def log_opening(toolbox: Toolbox) -> None:
    """Tell the operator what opening the servers has given rise to."""
    for diagnostic in toolbox.diagnostics:
        _log.warning("%s: %s", diagnostic.code, diagnostic.message)


def _program(args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a program as those of callsheet's operations on plan texts or saved plans."""
    text = {"plan_id": str(args["name"])} if args.get("name") else {"ltp_text": _wanted(args, "code")}
    return text | ({"variables": args["inputs"]} if args.get("inputs") else {})


async def _save(args: Mapping[str, Any], context: ServerContext, caller: ClientRequest) -> StoredPlan | None:
    """Save a program under a name; returns the new plan, None if the name had this program already.

    Raises CallsheetError (PLN003) if the name has another program: somebody may have read that one, and only
    a person puts a new version in its place.
    """
    code, name, library = _wanted(args, "code"), str(args["name"]), context.library

    def known() -> StoredPlan | None:
        return library.load(name) if name in library.ids() else None

    before = await context.host.beside(known)
    if before is None:
        await _delegate("save_plan", {"ltp_text": code, "plan_id": name}, context, caller)
        return await context.host.beside(known)
    if before.text.strip() != code.strip():
        help_ = f"use another name; a person replaces it: callsheet plan save FILE --as {name}"
        raise CallsheetError.single("PLN003", f"the plan {name} exists, and is another program", help=help_)
    return None


async def _run(args: Mapping[str, Any], context: ServerContext, caller: ClientRequest) -> OwnAnswer:
    run_id, what, host = _wanted(args, "id"), _wanted(args, "what"), context.host
    if what in _DELEGATED:
        return await _delegate(_DELEGATED[what], {"run_id": run_id}, context, caller)
    match what:
        case "failure":
            return await host.beside(lambda: _failure(host.journal, run_id))
        case "why":
            name = str(args.get("variable") or ANSWER)
            return await host.beside(lambda: _why(host.journal, run_id, name))
        case _:
            name = _wanted(args, "variable") if what == "value" else ANSWER
            return await host.beside(lambda: _value(host.journal, run_id, name, args.get("start", 0)))


def _failure(journal: Journal, run_id: str) -> OwnAnswer:
    from callsheet.api.explaining import blame_run  # noqa: PLC0415 - brings lineages
    from callsheet.apps.rendering.failures import failure_lines  # noqa: PLC0415 - as above

    report = blame_run(journal, run_id)
    return OwnAnswer(_lines(failure_lines(report)), report.run_id)


def _why(journal: Journal, run_id: str, name: str) -> OwnAnswer:
    from callsheet.api.explaining import explain_value  # noqa: PLC0415 - brings lineages

    found = explain_value(journal, run_id, name, depth=_DEPTH)
    return OwnAnswer(_lines(found.lines(_DEPTH)), found.run_id)


def _value(journal: Journal, run_id: str, name: str, start: int) -> OwnAnswer:
    """A value, or the characters of its text from `start` on if it is long."""
    from callsheet.api.explaining import explain_value  # noqa: PLC0415 - brings lineages

    found = explain_value(journal, run_id, name, most=1)
    value = found.places[0].value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    end = min(start + MOST_OF_A_VALUE, len(text))
    if start > end:
        text = f"there is nothing at {start:,}: the text has {len(text):,} characters"
    elif start or end < len(text):
        asked = "what=answer" if name == ANSWER else f"what=value, variable={name}"
        rest = f"; for the rest: run ({asked}, start={end})" if end < len(text) else ""
        text = f"{text[start:end]}\ncharacters {start:,} to {end:,} of {len(text):,}{rest}"
    return OwnAnswer(_text(text), found.run_id)


async def _plans(args: Mapping[str, Any], context: ServerContext, caller: ClientRequest) -> OwnAnswer:
    match _wanted(args, "action"):
        case "list":
            return await _delegate("list_plans", {}, context, caller)
        case "show":
            return await _delegate("show_plan", {"plan_id": _wanted(args, "name")}, context, caller)
        case _:
            _wanted(args, "name")
            return await _delegate("plan_execute", _program(args), context, caller)


async def _delegate(
    tool: str, args: Mapping[str, Any], context: ServerContext, caller: ClientRequest
) -> OwnAnswer:
    """Call one of callsheet's MCP tools; its text alone, since the data would be in the context twice."""
    from callsheet.apps.mcp.tools import TOOLS, call_tool  # noqa: PLC0415 - brings all operations

    result = await call_tool(TOOLS[tool], context, args, caller)
    if not isinstance(result, CallToolResult):
        return OwnAnswer(result)
    data = cast("Mapping[str, Any]", result.structured_content or {})
    return OwnAnswer(in_own_words(result), str(data.get("run_id", "")))


def in_own_words(result: CallToolResult) -> CallToolResult:
    """A result without its data, since that is in its text, and in the words of the own tools."""
    content = [
        part.model_copy(update={"text": _in_own_words(part.text)}) if isinstance(part, TextContent) else part
        for part in result.content
    ]
    return result.model_copy(update={"structured_content": None, "content": content})


_OWN_WORDS = tuple(
    (re.compile(pattern, re.MULTILINE), own)
    for pattern, own in (
        (r"^hint TOL022: .*\n(?:  help: .*\n?)?", ""),
        (r"^explain_run\b", "run (what=status)"),
        (r"^resume_run\b", "run (what=resume)"),
        (r"^no plans are saved yet; save_plan\b", "no plans are saved yet; run_program with a name"),
        (
            r"^(run \S+ was requested .*; )explain_run shows its status$",
            r"\1run (what=status) shows its state",
        ),
        (
            r"^(run \S+ is running); explain_run shows its state, cancel_run cancels it$",
            r"\1; run (what=status) shows its state, run (what=cancel) ends it",
        ),
        (
            r"^(variables: .*); explain_run with run_id \S+ and show_variables \[\"(\w+)\"\] or .*$",
            r"\1; run (what=value, variable=\2) returns one",
        ),
        (
            r"^(response: characters .*; for the rest: )explain_run with from_character (\d+)$",
            r"\1run (what=answer, start=\2)",
        ),
        (
            r"^(\S+: characters .*; for the rest: )explain_run with show_variables "
            r"\[\"(\w+)\"\], from_character (\d+)$",
            r"\1run (what=value, variable=\2, start=\3)",
        ),
        (
            r"^(response: characters .*; for the rest: )explain_run with from_character (\d+)$",
            r"\1run (what=status, start=\2)",
        ),
    )
)
"""What operations say should be called next, and how that is said to who has the own tools alone.

That servers are seen for the first time (TOL022) is for the operator, whom the gate's log tells.
"""


def _in_own_words(text: str) -> str:
    """A text with the names of the own tools in the lines that say what to call next."""
    for found, own in _OWN_WORDS:
        text = found.sub(own, text)
    return text.rstrip("\n")


def _found(query: str, tools: ToolIndex, *, whole: bool) -> CallToolResult:
    found = tools.found_for(query, _FOUND)
    if not found:
        lines = [f"none of the {len(tools.tools)} tools fits {query[:60]!r}; try other words"]
    elif whole:
        lines = [json.dumps(tool.declaration, ensure_ascii=False) for tool in found]
    else:
        lines = [stub_of(tool) for tool in found]
    return _text("\n".join((*lines, *(f"# not there: {why}" for why in tools.absent))))


def _lines(lines: Iterable[str]) -> CallToolResult:
    text = "\n".join(map(without_controls, lines))
    return _text(cut_text(text, "ask for a part: variable=NAME.FIELD"))


def _text(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)])


def _wanted(args: Mapping[str, Any], name: str) -> str:
    value = args.get(name)
    if not isinstance(value, str) or not value.strip():
        raise CallsheetError.single("MCP001", f"`{name}` is missing: it must be a text")
    return value
