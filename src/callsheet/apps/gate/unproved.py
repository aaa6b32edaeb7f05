"""Programs that no proof covers, run in Monty under the rule of a session (`callsheet gate --unproved ask`).

In: a Python program that the compiler refuses though all it does is call tools. Out: after one question that
shows the program and the tools that it may call, its answer. It is a session of its own, whose client is the
program: each call is recorded and judged like a client's, with the label of all that was read so far.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from mcp_types import CallToolResult, ElicitResult, InputRequiredResult, TextContent

from callsheet.api.admission import UnprovedProgram
from callsheet.api.plan import Plan
from callsheet.apps.gate.session import Asked, ClientCall, End, Passed, Session, Told, Withheld
from callsheet.apps.mcp.elicitation import answer_in, ask_form
from callsheet.apps.mcp.server_context import ClientRequest
from callsheet.apps.mcp.tasks import ToolAnswer
from callsheet.apps.rendering.values import preview
from callsheet.apps.toolbox import Toolbox
from callsheet.diagnostics import CallsheetError, Diagnostic, Source
from callsheet.frontends.spelling import is_python
from callsheet.ir import JSON, canonical_tool_name
from callsheet.ir.labels import Label
from callsheet.machine.values import to_json_text
from callsheet.ports.mcp.declarations import RESOURCE
from callsheet.ports.python_code.interpreter import Outcome, Outputs, Raised
from callsheet.ports.python_code.programs import ANSWER, CallingProgram, ToolError
from callsheet.ports.tools import Registry, ToolSpec

_PLACES = frozenset(f"PYT{number:03}" for number in (9, *range(10, 23), 24))
"""The refusals of what a plan has no form for. The others name mistakes, or reach for what is outside."""
_FORBIDDEN = frozenset(
    ("open", "eval", "exec", "compile", "input", "__import__", "globals", "locals", "vars", "breakpoint")
)
_MODULES = frozenset(
    (
        *("asyncio", "collections", "dataclasses", "datetime", "functools", "itertools", "json", "math"),
        *("re", "string", "typing", "__future__"),
    )
)
_PATIENCE = 50.0
"""Seconds that a client waits for a program; clients give up after a minute."""
_LONGEST = 4_000
"""The most characters of an answer, whose rest stays in the run, and of what a program prints."""
_MOST_KEPT = 100
"""How many programs are kept for clients that come back for their results."""
_STATE = "unproved"


class _Named(NamedTuple):
    """A tool that a program names: its name in the run, and what is known of it."""

    canonical: str
    spec: ToolSpec


class Candidate(NamedTuple):
    """A refused program that may run unproved: its text, the refusals, and the tools that it names."""

    text: str
    errors: tuple[Diagnostic, ...]
    source: Source | None
    tools: Mapping[str, _Named]
    """By the names that the program uses."""
    main: ast.AsyncFunctionDef

    @property
    def refusal(self) -> str:
        """Why it is no plan, in short."""
        return f"{self.errors[0].code}: {self.errors[0].message}"


def candidate_in(text: str, registry: Registry) -> Candidate | str | None:
    """The program in a text that could run unproved, or what is wrong in it besides its form.

    That is an unknown name, a file, a module. None for a plan, and for what is refused for another reason.
    """
    if not is_python(text):
        return None
    try:
        Plan.parse(text, name="the program", syntax="python")
    except CallsheetError as error:
        errors, source = tuple(found for found in error.diagnostics if found.is_error), error.source
    else:
        return None
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    main = next((n for n in tree.body if isinstance(n, ast.AsyncFunctionDef) and n.name == "main"), None)
    if main is None or not errors or any(found.code not in _PLACES for found in errors):
        return None
    tools = _tools_in(tree, registry)
    return tools if isinstance(tools, str) else Candidate(text, errors, source, tools, main)


def _tools_in(tree: ast.Module, registry: Registry) -> dict[str, _Named] | str:
    """The tools that a program names, or what is wrong with a name in it."""
    nodes = [*ast.walk(tree)]
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler)
        and node.name
    }
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            )
            for module in modules:
                if module not in _MODULES:
                    return f"line {node.lineno}: it has no module {module}"
            bound |= {alias.asname or alias.name for alias in node.names}
    tools: dict[str, _Named] = {}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr.startswith("__"):
            return f"line {node.lineno}: {node.attr} is behind the values of a program"
        if not isinstance(node, ast.Name) or node.id in bound or node.id == "ToolError":
            continue
        wanted = RESOURCE if node.id == "resource" else canonical_tool_name(node.id)
        tool = registry.get(wanted)
        if tool is not None and tool.spec.refusal is None:
            tools[node.id] = _Named(registry.names_of(wanted)[0], tool.spec)
        elif node.id in _FORBIDDEN or not hasattr(builtins, node.id):
            return f"line {node.lineno}: there is no tool or name {node.id} here"
    return tools


def _given(main: ast.AsyncFunctionDef, inputs: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The inputs for `main`; raises CallsheetError (MCP001) for those that are missing, or that it lacks."""
    args = main.args
    known = [arg.arg for arg in (*args.posonlyargs, *args.args)]
    needed = known[: len(known) - len(args.defaults)]
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        known.append(arg.arg)
        needed += [] if default is not None else [arg.arg]
    missing = [name for name in needed if name not in inputs]
    more = [name for name in inputs if name not in known]
    if missing or (more and args.kwarg is None):
        wrong = f"no value for {', '.join(missing)}" if missing else f"no input named {', '.join(more)[:80]}"
        raise CallsheetError.single(
            "MCP001", f"inputs: {wrong}", help=f"main has {', '.join(known) or 'none'}"
        )
    return inputs


SessionOf = Callable[[str, Toolbox, tuple[str, ...], UnprovedProgram], Session]
"""Makes the session of a program: for a client, with the open tools, and the names of those it may call."""


@dataclass(slots=True, eq=False)
class _Running:
    """A program in progress: its session, its task, and the questions that it waits with, oldest first."""

    session: Session
    questions: asyncio.Queue[ClientCall] = field(default_factory=asyncio.Queue[ClientCall])
    shown: dict[str, ClientCall] = field(default_factory=dict[str, ClientCall])
    ended: asyncio.Future[str] = field(default_factory=asyncio.Future[str])
    failed: bool = False
    made: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """What became of each call that is not a read: the call, and `done`, `failed` or why nobody knows."""


class Answered(NamedTuple):
    """What a client is told of a program, and the label of what the program has read."""

    result: ToolAnswer
    run_id: str
    label: Label


class UnprovedPrograms:
    """The unproved programs of a gate's clients; `close` ends those that are under way.

    `begin` makes the session of a program.
    """

    def __init__(self, begin: SessionOf) -> None:
        self._begin = begin
        self._running: dict[str, _Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Stop the programs that are under way; their calls stay in the journal."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def start(
        self,
        found: Candidate,
        inputs: Mapping[str, JSON],
        toolbox: Toolbox,
        reader: Session,
        caller: ClientRequest,
    ) -> Answered:
        """Begin a program with the question about it, and wait for it as `go_on` does.

        What the client has read in its session, `reader`, counts as read by the program. Raises
        CallsheetError for wrong inputs, without the interpreter, or for a program that it cannot read
        (PYT026).
        """
        given = _given(found.main, inputs)
        may_call = tuple(f"{name} ({tool.spec.effect})" for name, tool in sorted(found.tools.items()))
        program = UnprovedProgram(found.text, found.refusal, given, may_call)
        code = CallingProgram(found.text)
        try:
            await code.__aenter__()
        except CallsheetError as error:
            if error.diagnostics[0].code != "PYT026":
                raise
            raise CallsheetError([*found.errors, *error.diagnostics], found.source) from error
        canonical = tuple(dict.fromkeys(tool.canonical for tool in found.tools.values()))
        session = self._begin(caller.client_name, toolbox, canonical, program)
        running = _Running(session)
        told = Told(read=((f"run {reader.run_id}", reader.seen),))
        while len(self._running) >= _MOST_KEPT:
            self._running.pop(next(iter(self._running)))
        self._running[session.run_id] = running
        task = asyncio.create_task(self._carry_out(running, code, found, given, told))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await self._wait(running, caller)

    async def go_on(self, state: Mapping[str, Any], caller: ClientRequest) -> Answered | None:
        """Go on with a program whose question the client has answered; None if it is no such call."""
        if _STATE not in state:
            return None
        running = self._running.get(str(state[_STATE]))
        call = None if running is None else running.shown.get(str(state["call"]))
        if running is None or call is None:
            raise CallsheetError.single("MCP001", "the question is not open any more")
        _answer(call, next(iter(caller.answers.values()), None), caller)
        return await self._wait(running, caller)

    # ------------------------------------------------------------ the client's side

    async def _wait(self, running: _Running, caller: ClientRequest) -> Answered:
        """Wait for the end of a program, with its questions put to the client."""
        until = asyncio.get_running_loop().time() + _PATIENCE
        session = running.session
        while True:
            asking = asyncio.ensure_future(running.questions.get())
            left = until - asyncio.get_running_loop().time()
            await asyncio.wait({asking, running.ended}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if running.ended.done() or not asking.done():
                asking.cancel()
                break
            call = asking.result()
            ask = call.asked.result()
            if not caller.may_answer(ask):
                call.answer.set_result(None)
                waits = f"run {session.run_id} waits for {ask.answered_by}. It goes on by itself"
                return self._told(running, f"{waits}; `run` shows its result.")
            if caller.has_input_required:
                running.shown[ask.key] = call
                requests: dict[str, Any] = {"approval": ask_form(ask).request()}
                state = json.dumps({_STATE: session.run_id, "call": ask.key})
                asked = InputRequiredResult(input_requests=requests, request_state=state)
                return Answered(asked, session.run_id, session.seen)
            _answer(call, await caller.elicit(ask_form(ask)), caller)
        if not running.ended.done():
            return self._told(running, f"run {session.run_id} goes on; `run` shows its result")
        self._running.pop(session.run_id, None)
        return self._told(running, running.ended.result(), is_error=running.failed)

    def _told(self, running: _Running, text: str, *, is_error: bool = False) -> Answered:
        content = CallToolResult(content=[TextContent(text=text)], is_error=is_error)
        return Answered(content, running.session.run_id, running.session.seen)

    # ------------------------------------------------------------ the program's side

    async def _carry_out(
        self,
        running: _Running,
        code: CallingProgram,
        found: Candidate,
        inputs: Mapping[str, JSON],
        told: Told,
    ) -> None:
        session = running.session
        try:
            async with session:
                if session.is_judged:
                    session.tell(told)
                outcome = await self._run(running, code, found, inputs)
                if outcome is not None:
                    failure = "" if isinstance(outcome, Outputs) else _why(outcome)
                    answer = outcome.values[ANSWER] if isinstance(outcome, Outputs) else None
                    session.end(End(answer, failure))
                    await session.outcome()
                assert session.opening is not None
                why = "" if outcome is not None else _refusal(session.opening)
            running.failed = not isinstance(outcome, Outputs)
            running.ended.set_result(_report(running, outcome, why, code.printed))
        except asyncio.CancelledError:
            running.ended.set_result(f"run {session.run_id} was stopped with the gate")
            raise
        except Exception as error:
            running.failed = True
            running.ended.set_result(f"run {session.run_id} has ended: {type(error).__name__}: {error}")
        finally:
            await code.__aexit__()

    async def _run(
        self, running: _Running, code: CallingProgram, found: Candidate, inputs: Mapping[str, JSON]
    ) -> Outcome | None:
        """How the program ended; None if nobody agreed to it."""
        session, opening = running.session, running.session.opening
        assert opening is not None
        begins = asyncio.ensure_future(session.begins.wait())
        waiting: set[asyncio.Future[Any]] = {begins, opening.asked, opening.ended}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if opening.asked.done() and not begins.done():
            running.questions.put_nowait(opening)
            await asyncio.wait({begins, opening.ended}, return_when=asyncio.FIRST_COMPLETED)
        if not begins.done():
            begins.cancel()
            return None
        under_way: set[asyncio.Task[JSON]] = set()

        def external(tool: _Named) -> Callable[[list[JSON], dict[str, JSON]], Any]:
            async def made(args: list[JSON], named: dict[str, JSON]) -> JSON:
                names = tool.spec.parameter_names
                if len(args) > len(names):
                    raise ToolError(f"{tool.canonical.lower()} takes {len(names)} arguments")
                given = dict(zip(names, args, strict=False)) | named
                task = asyncio.create_task(_called(running, tool, given))
                under_way.add(task)  # the program may fail meanwhile: its call is waited for all the same
                task.add_done_callback(under_way.discard)
                return await asyncio.shield(task)

            return made

        outcome = await code.run(inputs, {name: external(tool) for name, tool in found.tools.items()})
        if under_way:
            await asyncio.wait({*under_way})
        return outcome


async def _called(running: _Running, tool: _Named, args: dict[str, JSON]) -> JSON:
    """Make a call of a program; raises ToolError for one that gave no result."""
    said = f"{tool.canonical.lower()}({', '.join(f'{k}={preview(json.dumps(v))}' for k, v in args.items())})"
    call, reply = await running.session.call(tool.canonical, args)
    while isinstance(reply, Asked):
        running.questions.put_nowait(call)
        await call.answer
        reply = await running.session.reply(call)
    if isinstance(reply, Passed) and not reply.result.get("isError"):
        if not tool.spec.effect.only_reads:
            running.made.append((said, "done"))
        return call.value
    why = reply.why if isinstance(reply, Withheld) else _text_in(cast("Passed", reply).result)
    if not tool.spec.effect.only_reads:
        running.made.append((said, why))
    raise ToolError(why)


def _text_in(result: Mapping[str, Any]) -> str:
    parts = cast("list[Mapping[str, Any]]", result.get("content") or [])
    return "\n".join(str(part.get("text", "")) for part in parts if part.get("type") == "text") or "it failed"


def _answer(call: ClientCall, given: ElicitResult | None, caller: ClientRequest) -> None:
    """Pass a person's answer on; one who closes the form leaves the question to the inbox."""
    if not call.answer.done():
        if given is None or given.action == "cancel":
            call.answer.set_result(None)
        else:
            call.answer.set_result(answer_in(call.asked.result(), given, caller.client_name))


def _why(outcome: Outcome) -> str:
    match outcome:
        case Raised(kind=kind, message=message, place=place):
            return f"{'' if place is None else f'line {place.line}: '}{kind}: {message}"
        case Outputs():
            return ""
        case other:
            return other.message


def _refusal(opening: ClientCall) -> str:
    ended = opening.ended.result() if opening.ended.done() else None
    return ended.why if isinstance(ended, Withheld) else "it was stopped"


def _cut(text: str, rest: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}\n… {len(text) - _LONGEST:,} more characters: {rest}"


def _report(running: _Running, outcome: Outcome | None, why: str, printed: str) -> str:
    """What the client is told at the end; after a failure also which calls took effect."""
    run_id = running.session.run_id
    if outcome is None:
        return f"not run: {why}\nrun {run_id}"
    if isinstance(outcome, Outputs):
        answer = outcome.values[ANSWER]
        lines = [_cut(to_json_text(answer), "run (what=value, variable=result)")]
    else:
        lines = [f"the program failed: {_why(outcome)}"]
        if running.made:
            lines.append("what became of its calls that may change something:")
            lines += [f"  {call}: {became}" for call, became in running.made]
        else:
            lines.append("none of its calls can change anything")
    if printed.strip():
        lines.append(f"it printed:\n{_cut(printed.rstrip(), 'not kept')}")
    return "\n".join([*lines, f"run {run_id} (unproved: its calls were judged one by one)"])
