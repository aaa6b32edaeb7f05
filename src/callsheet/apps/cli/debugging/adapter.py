"""The debugger in an editor: answers the requests of the Debug Adapter Protocol about one run.

A thread reads requests, the run is executed in the main thread; the state of a stop is read only while the
run is stopped. Questions of the run are told in an event and answered in the debug console, or by the request
`callsheet/answer`.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from callsheet.apps.cli.arguments import actor_name
from callsheet.apps.cli.debugging.model import (
    Breakpoint,
    Debugger,
    FailureStops,
    Order,
    Stop,
    answer_of,
    interrupt,
)
from callsheet.apps.cli.debugging.protocol import Channel, Request
from callsheet.apps.rendering.values import preview
from callsheet.machine.stepping import Level, NotEvaluated

if TYPE_CHECKING:
    from callsheet.runtime.answers import Answer, PendingAsk

_THREAD = 1
_REASONS = {"failure": "exception"}
_FILTERS = [
    {"filter": "ending", "label": "Failures that end the run", "default": True},
    {"filter": "all", "label": "All failures, handled ones too", "default": False},
]
_CAPABILITIES = {
    "supportsConfigurationDoneRequest": True,
    "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True,
    "supportsLogPoints": True,
    "supportsEvaluateForHovers": True,
    "supportsExceptionInfoRequest": True,
    "supportsTerminateRequest": True,
    "supportsBreakpointLocationsRequest": True,
    "exceptionBreakpointFilters": _FILTERS,
}
_STARTS = {"program": "run", "resume": "resume", "recorded": "debug"}
"""The commands that an editor can start, by what names the plan or the run in its configuration."""
_LONG = 1_000
_CONSOLE = "repl"
"""The context of an expression that somebody has typed; others are evaluated at each stop."""


class Launch(NamedTuple):
    """What an editor wants to be executed: a command line of `run`, `resume` or `debug`, and where."""

    line: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]


class _Refused(Exception):
    """A request that cannot be carried out."""


class _Open(NamedTuple):
    """A question of the run that waits for an answer."""

    ask: PendingAsk
    answer: asyncio.Future[Answer]


class Adapter:
    """Serves one debugging session."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._debugger: Debugger | None = None
        self._wanted: dict[str, list[Breakpoint]] = {}
        """The breakpoints by the path of their file; their lines are as they were asked for until the run."""
        self._ids: dict[int, int] = {}
        self._numbers = count(1)
        self._failures = FailureStops.ENDING
        self._stops_at_entry = self._ignores_all = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: Stop | None = None
        self._go: asyncio.Future[Order] | None = None
        self._values: list[Any] = []
        self._questions: list[_Open] = []
        self._launch: Launch | None = None
        self._is_ready = threading.Event()
        self._is_over = threading.Event()
        self._is_running = self._is_configured = False

    # -------------------------------------------------------------- the session

    def begin(self) -> None:
        """Read requests in a thread until the editor disconnects."""
        threading.Thread(target=self._serve, name="debug adapter", daemon=True).start()

    def launched(self) -> Launch | None:
        """Wait until the editor has set breakpoints and wants the run to begin; None if it disconnects."""
        self._is_ready.wait()
        self._is_running = self._launch is not None and not self._is_over.is_set()
        return self._launch if self._is_running else None

    def ended(self, status: int, patience: float) -> None:
        """Tell that the run has ended, and wait some seconds for the editor to disconnect."""
        self._is_running = False
        self._channel.tell("exited", exitCode=status)
        self._channel.tell("terminated")
        self._is_over.wait(patience)

    def _serve(self) -> None:
        try:
            self._answer_requests()
        finally:
            self._leave()

    def _answer_requests(self) -> None:
        while not self._is_over.is_set():
            request = self._channel.receive()
            if request is None:
                return
            handle = _HANDLERS.get(request.command)
            try:
                if handle is None:
                    raise _Refused(f"{request.command} is not supported")
                body = handle(self, request.arguments)
            except _Refused as refused:
                self._channel.refuse(request, str(refused))
                continue
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                self._channel.refuse(request, f"{request.command} is not as the protocol says: {error!r}")
                continue
            self._channel.respond(request, body)
            self._after(request)

    def _after(self, request: Request) -> None:
        """What follows from a request once it is answered."""
        match request.command:
            case "initialize":
                self._channel.tell("initialized")
            case "configurationDone" if self._launch is not None:
                self._is_ready.set()
            case "launch" if self._is_configured:
                self._is_ready.set()
            case "terminate":
                self._interrupt()
            case "disconnect":
                self._leave()
            case _:
                pass

    def _leave(self) -> None:
        self._is_over.set()
        self._is_ready.set()
        self._interrupt()

    def _interrupt(self) -> None:
        if self._is_running:
            self._is_running = False
            interrupt()

    # -------------------------------------------------------------- the face of a run

    def attach(self, debugger: Debugger) -> None:
        """Set the breakpoints that the editor has asked for."""
        self._debugger = debugger
        debugger.stops_at_entry = self._stops_at_entry
        debugger.failures = FailureStops.NONE if self._ignores_all else self._failures
        for path, wanted in self._wanted.items():
            for one in wanted if _is_same(path, debugger.path) else ():
                self._set(one)
                self._channel.tell("breakpoint", reason="changed", breakpoint=self._told(one))

    async def stopped(self, stop: Stop) -> Order:
        """Tell the editor where the run is, and wait until it goes on."""
        assert self._debugger is not None
        self._loop = asyncio.get_running_loop()
        self._go = self._loop.create_future()
        self._stop, self._values = stop, []
        text = str(self._debugger.mask(stop.text))
        reason = _REASONS.get(stop.reason, stop.reason)
        self._channel.tell(
            "stopped",
            reason=reason,
            description=f"{stop.reason}: {text}" if text else stop.reason,
            text=text,
            threadId=_THREAD,
            allThreadsStopped=True,
        )
        try:
            return await self._go
        finally:
            self._stop = self._go = None

    def log(self, text: str) -> None:
        """Show what a breakpoint tells."""
        self._channel.tell("output", category="console", output=text + "\n")

    async def asked(self, ask: PendingAsk, shown: PendingAsk) -> Answer | None:
        """Show a question, and wait for its answer; it can be answered in the inbox, too."""
        from callsheet.apps.rendering.runs import question_lines  # noqa: PLC0415 - only where one is asked

        self._loop = asyncio.get_running_loop()
        opened = _Open(ask, self._loop.create_future())
        self._questions.append(opened)
        lines = "\n".join(["the run waits for an answer:", *question_lines(shown)])
        how = "here: :approve, :deny NOTE or :answer TEXT"
        self._channel.tell("output", category="important", output=f"{lines}\n  {how}\n")
        self._channel.tell(
            "callsheet/asked",
            key=ask.key,
            kind=ask.kind,
            headline=shown.headline,
            details=lines,
            options=[option if isinstance(option, str) else preview(option) for option in shown.options],
        )
        try:
            return await opened.answer
        finally:
            self._questions.remove(opened)

    # -------------------------------------------------------------- requests

    def initialize(self, _given: Mapping[str, Any]) -> dict[str, Any]:
        """What the adapter can do."""
        return _CAPABILITIES

    def launch(self, given: Mapping[str, Any]) -> None:
        """Keep what is to be run; it begins with `configurationDone`."""
        named = {command: given[key] for key, command in _STARTS.items() if given.get(key)}
        if len(named) != 1 or not all(isinstance(name, str) for name in named.values()):
            raise _Refused(
                'the launch configuration needs one of "program" (the file of a plan), "resume" and'
                ' "recorded" (the id of a run, or last)'
            )
        ((command, name),) = named.items()
        inputs: object = given.get("inputs") or {}
        options: object = given.get("args") or []
        added: object = given.get("env") or {}
        if not (isinstance(inputs, dict) and isinstance(options, list) and isinstance(added, dict)):
            raise _Refused('in the launch configuration "inputs" and "env" are objects, and "args" is a list')
        if inputs and command != "run":
            raise _Refused('a run has its inputs already: remove "inputs"')
        line = [command, name, *map(str, cast("list[Any]", options))]
        for name, value in cast("dict[str, Any]", inputs).items():
            line += ["--var", f"{name}={json.dumps(value)}"]
        environment = {name: str(value) for name, value in cast("dict[str, Any]", added).items()}
        self._stops_at_entry = bool(given.get("stopOnEntry"))
        self._ignores_all = bool(given.get("noDebug"))
        self._launch = Launch(tuple(line), str(given.get("cwd") or ""), environment)

    def configured(self, _given: Mapping[str, Any]) -> None:
        """All breakpoints are set."""
        self._is_configured = True

    def set_breakpoints(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the breakpoints of a file."""
        path = str(given["source"].get("path") or "")
        debugger = self._debugger
        if debugger is not None:
            before = {id(one) for one in self._wanted.get(path, ())}
            debugger.breakpoints = [one for one in debugger.breakpoints if id(one) not in before]
        self._wanted[path] = []
        for one in given.get("breakpoints") or ():
            hits = str(one.get("hitCondition") or "").strip()
            if hits and not hits.isdecimal():
                raise _Refused(f"a hit condition is a number, and not {hits}")
            log = str(one.get("logMessage") or "")
            after = max(0, int(hits) - 1) if hits else 0
            made = Breakpoint(int(one["line"]), (), str(one.get("condition") or ""), after, log)
            self._ids[id(made)] = next(self._numbers)
            self._wanted[path].append(made)
            if debugger is not None and _is_same(path, debugger.path):
                self._set(made)
        return {"breakpoints": [self._told(one) for one in self._wanted[path]]}

    def _set(self, one: Breakpoint) -> None:
        debugger = self._debugger
        if debugger is not None and not self._ignores_all and not one.misread():
            one.line, one.steps = debugger.places.at_line(one.line)
            if one.steps:
                debugger.breakpoints = [*debugger.breakpoints, one]

    def _told(self, one: Breakpoint) -> dict[str, Any]:
        told: dict[str, Any] = {"id": self._ids[id(one)], "verified": bool(one.steps)}
        if one.steps:
            return told | {"line": one.line}
        if wrong := one.misread():
            return told | {"message": wrong}
        if self._debugger is None:
            return told | {"message": "set when the run begins"}
        return told | {"message": "no statement of the plan that is run stands here"}

    def set_failure_stops(self, given: Mapping[str, Any]) -> None:
        """At which failures the run stops."""
        filters = {*(given.get("filters") or ())}
        self._failures = next(
            (one for one in (FailureStops.ALL, FailureStops.ENDING) if one in filters), FailureStops.NONE
        )
        if self._debugger is not None:
            self._debugger.failures = self._failures

    def breakpoint_locations(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The lines of a part of the text at which a run can stop."""
        first = int(given["line"])
        last = int(given.get("endLine") or first)
        lines = [] if self._debugger is None else self._debugger.places.lines()
        return {"breakpoints": [{"line": line} for line in lines if first <= line <= last]}

    def threads(self, _given: Mapping[str, Any]) -> dict[str, Any]:
        """A run has one thread: what runs side by side is in the levels of its stack."""
        return {"threads": [{"id": _THREAD, "name": "plan"}]}

    def stack_trace(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The levels of the stack, the innermost first; their ids hold until the run goes on."""
        stop, debugger = self._at_stop()
        first = int(given.get("startFrame") or 0)
        many = int(given.get("levels") or len(stop.levels))
        frames: list[dict[str, Any]] = []
        for number, level in enumerate(stop.levels):
            place = debugger.places.place(level.step)
            frame: dict[str, Any] = {"id": number + 1, "name": f"{level.name}  {level.step}"}
            if place is None:
                frame |= {"line": 0, "column": 0, "presentationHint": "subtle"}
            else:
                frame |= {"line": place[0], "column": place[1], "source": self._source()}
            frames.append(frame)
        return {"stackFrames": frames[first : first + many], "totalFrames": len(frames)}

    def _source(self) -> dict[str, Any]:
        assert self._debugger is not None
        path, name = self._debugger.path, self._debugger.places.source.name
        if path is None:
            return {"name": name, "sourceReference": 1}
        return {"name": path.name, "path": str(Path(path).absolute())}

    def source(self, _given: Mapping[str, Any]) -> dict[str, Any]:
        """The text of a plan of the library, which has no file of its own."""
        if self._debugger is None:
            raise _Refused("the run has not begun")
        return {"content": self._debugger.places.source.text}

    def scopes(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The variables of a frame."""
        level = self._levels(given)[0]
        reference = self._reference(level)
        return {"scopes": [{"name": level.name, "variablesReference": reference, "expensive": False}]}

    def variables(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The variables of a level, with their labels, or the members of a value."""
        _, debugger = self._at_stop()
        number = int(given["variablesReference"])
        if not 0 < number <= len(self._values):
            raise _Refused("this value was of an earlier stop")
        held = self._values[number - 1]
        first, many = int(given.get("start") or 0), int(given.get("count") or 0)
        asked = slice(first, first + many if many else None)
        if isinstance(held, Level):
            shown = debugger.shown(held)[asked]
            rows = [
                self._variable(f"${name}", one, label=label, expression=f"${name}")
                for name, one, label in shown
            ]
        elif isinstance(held, list):
            part = cast("list[Any]", held)[asked]
            rows = [self._variable(str(n), one) for n, one in enumerate(part, first)]
        else:
            members = [*cast("dict[Any, Any]", held).items()][asked]
            rows = [self._variable(str(name), one) for name, one in members]
        return {"variables": rows}

    def _variable(self, name: str, value: Any, *, label: str = "", expression: str = "") -> dict[str, Any]:
        shown = self._shown(value)
        if label:
            shown["value"] = f"{shown['value']}   [{label}]"
        return {"name": name, **shown, **({"evaluateName": expression} if expression else {})}

    def _shown(self, value: Any) -> dict[str, Any]:
        told: dict[str, Any] = {"value": preview(value, _LONG), "type": _type(value), "variablesReference": 0}
        if isinstance(value, dict | list) and value:
            told["variablesReference"] = self._reference(value)
            told["indexedVariables" if isinstance(value, list) else "namedVariables"] = len(
                cast("list[Any]", value)
            )
        return told

    def _reference(self, value: Any) -> int:
        self._values.append(value)
        return len(self._values)

    def evaluate(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The value of an expression where the run has stopped, or the answer to a question of the run."""
        text = str(given.get("expression") or "").strip()
        if text.startswith(":"):
            if given.get("context", _CONSOLE) != _CONSOLE:
                raise _Refused("questions are answered in the debug console only")
            return {"result": self._answered(text), "variablesReference": 0}
        stop, debugger = self._at_stop()
        levels = self._levels(given) if given.get("frameId") else stop.levels
        try:
            value = debugger.value(levels, text)
        except NotEvaluated as error:
            raise _Refused(str(error)) from None
        shown = self._shown(value)
        return {"result": shown.pop("value"), **shown}

    def answer(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a question by its key; `line` is as in the debug console."""
        return {"told": self._answered(str(given["line"]), str(given["key"]))}

    def _answered(self, line: str, key: str = "") -> str:
        opened = [one for one in self._questions if key in ("", one.ask.key) and not one.answer.done()]
        if not opened or self._loop is None:
            raise _Refused("the run asks nothing")
        if len(opened) > 1:
            word, _, rest = line.strip().partition(" ")
            named, _, rest = rest.strip().partition(" ")
            opened = [one for one in opened if one.ask.key == named]
            if not opened:
                keys = ", ".join(one.ask.key for one in self._questions if not one.answer.done())
                raise _Refused(
                    f"several questions are open; write the key behind the word, as in :approve KEY: {keys}"
                )
            line = f"{word} {rest}"
        found = answer_of(opened[0].ask, line, actor_name())
        if isinstance(found, str):
            raise _Refused(found)
        self._loop.call_soon_threadsafe(_resolve, opened[0].answer, found)
        return f"{opened[0].ask.key}: {found.verdict}"

    def exception_info(self, _given: Mapping[str, Any]) -> dict[str, Any]:
        """The failure at which the run has stopped."""
        stop, debugger = self._at_stop()
        if stop.reason != "failure":
            raise _Refused("the run has not stopped at a failure")
        text = str(debugger.mask(stop.text))
        kind = text.partition(":")[0] if ": " in text else "failure"
        return {"exceptionId": kind, "description": text, "breakMode": "always"}

    def pause(self, _given: Mapping[str, Any]) -> None:
        """Stop before the next statement."""
        if self._debugger is not None:
            self._debugger.is_pausing = True

    def resume(self, order: Order) -> None:
        """Let the run go on."""
        self._at_stop()
        assert self._loop is not None
        assert self._go is not None
        self._stop = None
        self._loop.call_soon_threadsafe(_resolve, self._go, order)

    def nothing(self, _given: Mapping[str, Any]) -> None:
        """What is done after the answer."""

    def _at_stop(self) -> tuple[Stop, Debugger]:
        if self._stop is None or self._debugger is None:
            raise _Refused("the run is not stopped")
        return self._stop, self._debugger

    def _levels(self, given: Mapping[str, Any]) -> tuple[Level, ...]:
        """The level of a frame, and those around it."""
        stop, _ = self._at_stop()
        number = int(given["frameId"])
        if not 0 < number <= len(stop.levels):
            raise _Refused("this frame was of an earlier stop")
        return stop.levels[number - 1 :]


def _resolve(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _is_same(path: str, other: Path | None) -> bool:
    return bool(path) and other is not None and os.path.realpath(path) == os.path.realpath(other)


def _type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
        case _:
            return "object"


def _resuming(order: Order) -> Callable[[Adapter, Mapping[str, Any]], Mapping[str, Any] | None]:
    def go_on(adapter: Adapter, _given: Mapping[str, Any]) -> Mapping[str, Any] | None:
        adapter.resume(order)
        return {"allThreadsContinued": True} if order is Order.CONTINUE else None

    return go_on


_HANDLERS: Mapping[str, Callable[[Adapter, Mapping[str, Any]], Mapping[str, Any] | None]] = {
    "initialize": Adapter.initialize,
    "launch": Adapter.launch,
    "setBreakpoints": Adapter.set_breakpoints,
    "setExceptionBreakpoints": Adapter.set_failure_stops,
    "breakpointLocations": Adapter.breakpoint_locations,
    "configurationDone": Adapter.configured,
    "threads": Adapter.threads,
    "stackTrace": Adapter.stack_trace,
    "source": Adapter.source,
    "scopes": Adapter.scopes,
    "variables": Adapter.variables,
    "evaluate": Adapter.evaluate,
    "exceptionInfo": Adapter.exception_info,
    "continue": _resuming(Order.CONTINUE),
    "next": _resuming(Order.OVER),
    "stepIn": _resuming(Order.INTO),
    "stepOut": _resuming(Order.OUT),
    "pause": Adapter.pause,
    "callsheet/answer": Adapter.answer,
    "terminate": Adapter.nothing,
    "disconnect": Adapter.nothing,
}
