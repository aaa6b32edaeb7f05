"""Runs of the area `dag` in virtual time, compared with what a case expects.

A stage that resumes a run replays the events of the stages before into a new machine, as a journal would;
calls in flight at the end of a stage are made again. It uses the plan of the start, whatever was done to
the plan's file (`edit_plan`). With `state_text` it resumes from that state file instead. A tool that
changes its arguments (`mutate_args`) is called through the gateway, as in any run. With
`state_write_limit_bytes` the process dies at the first event that does not fit into so many bytes of the
journal in this stage; that event is not kept, and no call that follows from it is made.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.dag_form import DagCase, said_of, script_of, spellings
from tests.conformance.findings import difference

from callsheet.api.plan import Plan as PublicPlan
from callsheet.api.plan_sources import check_same
from callsheet.api.planning import GraphPlanner, PlanRequest, refused
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.dag import format_dag, parse_dag
from callsheet.ir import Plan, canonical_tool_name
from callsheet.machine import (
    CallTool,
    Command,
    Compile,
    Event,
    Failed,
    Finish,
    Limits,
    LimitsChanged,
    Machine,
    PlanCompiled,
    Reopened,
    Sleep,
    Started,
    Status,
    Succeeded,
    TimerFired,
    compile_plan,
)
from callsheet.machine.keys import step_of
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.progress import with_own_ids
from callsheet.passes import ToolSignature, check
from callsheet.planning.results import read_checkpoint
from callsheet.ports.calls import CallContext
from callsheet.runtime.adopting import check_done, ended_before, ranks_before, with_room
from callsheet.runtime.gateway import Gateway, Ports, Route, describe
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import run_unrecorded
from callsheet.store.library import PlanLibrary


def signatures(case: DagCase) -> Mapping[str, ToolSignature] | None:
    """The available tools, for the checks; None if every tool that is called exists."""
    if case.catalogue is None:
        return None
    return {canonical_tool_name(name): ToolSignature() for name in case.catalogue}


@dataclass(slots=True)
class Stage:
    """The result of one stage."""

    calls: list[CallTool] = field(default_factory=list[CallTool])
    notes: list[Note] = field(default_factory=list[Note])
    milliseconds: float = 0.0
    peak: int = 0
    crashed: bool = False
    cancelled: bool = False
    refused: str = ""
    """Why nothing was run."""


class Session:
    """A run over its stages: the machine, the events that a journal would have, the scripts of tools."""

    def __init__(self, case: DagCase, plan: Plan) -> None:
        self.case, self.plan, self.kept = case, plan, plan
        self.events: list[Event] = []
        self.first: Mapping[str, Any] = {}
        self.done: Mapping[str, Any] = {}
        """What steps gave that another program has done."""
        self.machine = self._machine({})
        self.counts: dict[str, int] = {}
        self.stage = Stage()
        self.prompts: list[str] = []
        self._is_begun = False
        self._due: list[tuple[float, int, Event]] = []
        self._room = float("inf")
        """How many more bytes of events can be written in this stage."""
        self._launched = 0
        self._open: dict[str, Command] = {}
        self.names = spellings(case.plan["steps"], case.tools)

    def limits(self, stage: Mapping[str, Any]) -> Limits:
        run = self.case.run
        limits: dict[str, Any] = {"max_concurrency": run.get("max_concurrency", 4)}
        replan = run.get("replan") or {}
        if replan.get("enable"):
            limits["replans_on_failure"] = replan.get("max_replans", 2)
        guards = (stage.get("guards") or run.get("guards") or {}) if run.get("enable_guards", True) else {}
        if "budget_total" in guards:
            limits["max_calls"] = guards["budget_total"] - guards.get("used_by_conversation", 0)
        if "per_tool_cap" in guards:
            cap = guards["per_tool_cap"]
            limits["max_calls_by_tool"] = dict.fromkeys(spellings(self.case.plan["steps"]), cap)
        return Limits(**limits)

    def _machine(self, stage: Mapping[str, Any]) -> Machine:
        if not self.done:
            return Machine(compile_plan(self.plan), self.limits(stage), self._heard)
        program = compile_plan(self.plan, None, ranks_before(self.plan, {}, self.done))
        return Machine(program, with_room(self.limits(stage), self.plan, self.done), self._heard)

    def _heard(self, note: Note) -> None:
        self.stage.notes.append(note)

    def run(self, stage: Mapping[str, Any]) -> Stage:
        """Execute one stage."""
        self.stage, self._due = Stage(), []
        self._room = stage.get("state_write_limit_bytes", float("inf"))
        if self.has_no_run(stage):
            self.stage.refused = "no run of such a plan is recorded"
            return self.stage
        if "state_text" in stage:
            commands = self._taken_over(stage)
        elif stage.get("mode") == "resume" and self.events:
            commands = self._taken_up(stage) if self._is_as_begun(stage) else []
        else:
            self.first, self.done, self.events = stage, {}, []
            self.machine = self._machine(stage)
            commands = self._feed(Started(dict(stage.get("variables") or {})))
        self.stage.calls.clear()
        now = 0.0
        self._launch(commands, now)
        until = stage.get("cancel_at_ms", float("inf"))
        while self._due and self.machine.result is None and not self.stage.crashed:
            now, _, event = self._due[0]
            if now > until:
                now, self.stage.cancelled = until, True
                break
            heapq.heappop(self._due)
            self._launch(self._feed(event), now)
        self.stage.milliseconds = now
        return self.stage

    def has_no_run(self, stage: Mapping[str, Any]) -> bool:
        """Whether the stage resumes a run although no stage has begun and recorded one."""
        is_resume = stage.get("mode") == "resume" and "state_text" not in stage
        self._is_begun = self._is_begun or (not is_resume and stage.get("checkpoint", True))
        return is_resume and not self._is_begun

    def _is_as_begun(self, stage: Mapping[str, Any]) -> bool:
        """Whether the run may go on: it is the one asked for, and its plan was not edited since.

        An edited plan may be accepted.
        """
        if "id" in stage:
            self.stage.refused = self._unknown(stage["id"])
            if self.stage.refused:
                return False
        if "edit_plan" in stage:
            self.kept = parse_dag(json.dumps({**self.case.plan, **stage["edit_plan"]})).require()
        if not stage.get("accept_changed_plan"):
            try:
                check_same(self.plan.id or "", self.plan, self.kept)
            except CallsheetError as error:
                self.stage.refused = str(error)
        return not self.stage.refused

    def _unknown(self, plan_id: str) -> str:
        """Why the library, which holds only the plan of the run, finds no plan by an id or prefix."""
        with tempfile.TemporaryDirectory() as folder:
            library = PlanLibrary(folder)
            library.save(self.plan)
            try:
                library.load(plan_id)
            except CallsheetError as error:
                return str(error)
        return ""

    def _taken_up(self, stage: Mapping[str, Any]) -> list[Command]:
        """The machine folded from the events, and its pending commands."""
        self.machine, events = self._machine(self.first), self.events
        self._open.clear()
        for event in events:
            self._note(self.machine.feed(event), event)
        self.stage = Stage()
        again = list(self._open.values())
        if self.limits(stage) != self.machine.limits:
            self._feed(LimitsChanged(self.limits(stage)))
        return self._feed(Reopened()) if self.machine.may_reopen else again

    def _taken_over(self, stage: Mapping[str, Any]) -> list[Command]:
        """The run as described by a state file and its pending commands; nothing if it is refused."""
        self.first, self.done, self.events = stage, {}, []
        self._open.clear()
        self.machine = self._machine(stage)
        try:
            there = read_checkpoint(stage["state_text"], self.plan)
            check_done(self.plan, there.done)
        except CallsheetError as error:
            self.stage.refused = str(error)
            return []
        self.done = there.done
        self.machine = self._machine(stage)
        commands = self._feed(Started(there.inputs | dict(stage.get("variables") or {})))
        for call, outcome in ended_before(self.machine, commands, there.done):
            self.events.append(outcome)
            self._open.pop(call.key, None)
        self.stage = Stage()
        return list(self.machine.open_commands().values()) if self.machine.result is None else []

    def _feed(self, event: Event) -> list[Command]:
        self._room -= len(repr(event).encode())
        if self._room < 0:
            self.stage.crashed = True
            return []
        self.events.append(event)
        commands = self.machine.feed(event)
        self._note(commands, event)
        return commands

    def _note(self, commands: list[Command], event: Event) -> None:
        self._open.pop(getattr(event, "key", ""), None)
        self._open.update((c.key, c) for c in commands if not isinstance(c, Finish))

    def _launch(self, commands: list[Command], now: float) -> None:
        for command in commands:
            if isinstance(command, Finish):
                continue
            self._launched += 1
            if isinstance(command, Sleep):
                event: Event | None = TimerFired(command.key)
                after = command.seconds * 1000
            elif isinstance(command, Compile):
                after, event = 0.0, self._plan_anew(command)
            else:
                assert isinstance(command, CallTool)
                self.stage.calls.append(command)
                after, event = self._answer(command)
            if event is None:
                self.stage.crashed = True
                event, after = Failed(command.key, "the process died"), float("inf")
            heapq.heappush(self._due, (now + after, self._launched, event))
        self.stage.peak = max(self.stage.peak, len(self._due))

    def script_of(self, tool: str) -> Mapping[str, Any]:
        """The script entry for the next call of a tool."""
        number = self.counts[tool] = self.counts.get(tool, 0) + 1
        return script_of(self.case, self.names[tool], number)

    def _answer(self, command: CallTool) -> tuple[float, Event | None]:
        script = self.script_of(command.tool)
        if script.get("mutate_args"):
            asyncio.run(Gateway(Ports(lambda name: Route(_spoiling)), "case").carry_out(command))
        delay = float(script.get("delay_ms", 0))
        if "exit" in script:
            self._until_exit(delay)
            return delay, None
        for word in ("error", "raise"):
            if word in script:
                return delay, Failed(command.key, said_of(script, word))
        if "output_repeat" in script:
            text, times = script["output_repeat"]
            return delay, Succeeded(command.key, text * times)
        value: Any = dict(command.args) if script.get("echo") else script.get("output", "ok")
        return delay, Succeeded(command.key, value)

    def _plan_anew(self, command: Compile) -> Event:
        """The outcome of asking the scripted planner."""
        progress = command.progress
        assert progress is not None
        try:
            plan = asyncio.run(self.new_plan(command))
        except Exception as error:
            return Failed(command.key, str(error) if isinstance(error, CallsheetError) else describe(error))
        return PlanCompiled(command.key, with_own_ids(plan, progress.plan, progress.number), {})

    async def new_plan(self, command: Compile) -> Plan:
        """The plan of the scripted planner, checked like any plan; raises its errors."""
        entries = self.case.run["replan"].get("planner") or [{"raise": "no plan"}]
        entry = entries[min(len(self.prompts), len(entries) - 1)]

        def planner(request: PlanRequest) -> Any:
            self.prompts.append("\n".join(message["content"] for message in request.messages))
            if isinstance(entry, dict) and "raise" in entry:
                raise RuntimeError(entry["raise"])
            return entry

        plan = await GraphPlanner(planner).revise(command, (), CallContext("", "plan"))
        found = check(plan, tools=signatures(self.case), inputs=command.variables)
        wrong = refused(PublicPlan(plan), found)
        if wrong is not None:
            raise wrong
        steps = entry.get("steps", ()) if isinstance(entry, dict) else ()
        self.names = {**spellings(steps), **self.names}
        return plan

    def _until_exit(self, delay: float) -> None:
        """Calls that answer before the process dies are kept."""
        for due, _, event in sorted(self._due, key=lambda item: item[:2]):
            if due <= delay:
                self._feed(event)

    @property
    def completed(self) -> list[str]:
        """The completed steps over all stages, in plan order."""
        done = {step_of(event.key) for event in self.events if isinstance(event, Succeeded)}
        return [step.id for step in self.plan.steps if step.id in done]


async def _spoiling(arguments: dict[str, Any], context: CallContext) -> Any:
    """A tool that modifies its arguments."""
    _spoil(arguments)


def _spoil(value: Any) -> None:
    if isinstance(value, dict | list):
        for item in [*(value.values() if isinstance(value, dict) else value)]:
            _spoil(item)
        value.clear()


# ---------------------------------------------------------------- what is expected


Make = Callable[[DagCase, Plan], Session]
"""Makes the session of a case."""


def run_case(case: DagCase, plan: Plan, make: Make = Session) -> list[str]:
    """The unmet expectations of a case of one run."""
    session = make(case, plan)
    stage = session.run(case.run)
    return differences(session, stage, case.expect)


def run_stages(case: DagCase, plan: Plan, make: Make = Session) -> list[str]:
    """The unmet expectations of a case of several stages; between them the plan is read again."""
    session = make(case, plan)
    out: list[str] = []
    for number, (given, expected) in enumerate(zip(case.run["stages"], case.expect["stages"], strict=True)):
        stage = session.run(given)
        out += [f"stage {number + 1}: {text}" for text in differences(session, stage, expected)]
        session.plan = parse_dag(format_dag(session.plan)).require()
    return out


def differences(session: Session, stage: Stage, expect: Mapping[str, Any]) -> list[str]:
    out: list[str] = []
    for key, wanted in expect.items():
        if key == "batches":
            continue
        look = LOOKS.get(key)
        if look is None:
            out.append(f"the expectation {key!r} is not looked at yet")
            continue
        found = look(session, stage, wanted)
        if found is not None:
            out.append(difference(key, wanted, found))
    return out


Look = Callable[[Session, Stage, Any], Any]
"""None where the expectation is met, else what was found."""


def _same(get: Callable[[Session, Stage], Any]) -> Look:
    def look(session: Session, stage: Stage, wanted: Any) -> Any:
        found = get(session, stage)
        return None if found == wanted and type(found) is type(wanted) else repr(found)

    return look


def _names(session: Session, stage: Stage) -> list[str]:
    return [session.names[call.tool] for call in stage.calls]


def _steps(stage: Stage) -> list[str]:
    return [call.step for call in stage.calls]


def _args(session: Session, stage: Stage, wanted: Any) -> Any:
    found = {call.step: call.args for call in stage.calls}
    return None if all(found.get(step) == args for step, args in wanted.items()) else repr(found)


def _within(session: Session, stage: Stage, wanted: Any) -> Any:
    low, high = wanted
    return None if low <= stage.milliseconds <= high else stage.milliseconds


def _order_before(session: Session, stage: Stage, wanted: Any) -> Any:
    order = _steps(stage)
    return None if all(order.index(a) < order.index(b) for a, b in wanted) else order


def _variables(session: Session, stage: Stage, wanted: Any) -> Any:
    found = session.machine.variables()
    return None if all(name in found and found[name] == value for name, value in wanted.items()) else found


def _arg_length(session: Session, stage: Stage, wanted: Any) -> Any:
    found = {call.step: {name: len(value) for name, value in call.args.items()} for call in stage.calls}
    return None if all(found.get(step) == lengths for step, lengths in wanted.items()) else found


def _each_step(session: Session, stage: Stage, wanted: Any) -> Any:
    failed = {n.step: n.detail for n in stage.notes if n.kind is NoteKind.FAILED}
    ended = {n.step for n in stage.notes if n.kind is NoteKind.FINISHED}
    for step, expected in wanted.items():
        if expected.get("success", step in ended) != (step in ended):
            return {"failed": failed, "finished": sorted(ended)}
        if expected.get("error_contains", "") not in failed.get(step, ""):
            return failed
    return None


def _budget_used(session: Session, stage: Stage) -> int:
    """The calls that the budget has counted: those of the conversation, and the plan's if it is guarded."""
    run = session.case.run
    own = len(stage.calls) if run.get("enable_guards", True) else 0
    return own + (run.get("guards") or {}).get("used_by_conversation", 0)


def _done(session: Session) -> bool:
    result = session.machine.result
    return result is not None and result.status is Status.DONE


def _callbacks(session: Session, stage: Stage) -> list[str]:
    words = {NoteKind.STARTED: "start", NoteKind.FINISHED: "done", NoteKind.FAILED: "done"}
    return [f"{words[note.kind]}:{note.step}" for note in stage.notes if note.kind in words]


def _error(session: Session, stage: Stage, wanted: Any) -> Any:
    found = "" if session.machine.result is None else session.machine.result.error or ""
    found = stage.refused or found
    return None if wanted in found else repr(found)


def _bindings(session: Session, stage: Stage) -> dict[str, Any]:
    values = [event.value for event in session.events if isinstance(event, Succeeded)]
    return {f"v{number}": value for number, value in enumerate(values, 1)}


def _no_reference(session: Session, stage: Stage, wanted: Any) -> Any:
    said = repr([call.args for call in stage.calls])
    return said if "${" in said else None


def _state(session: Session, stage: Stage, wanted: Any) -> Any:
    if wanted is None:
        return _left_behind(session)
    result = session.machine.result
    ended = "completed" if _done(session) else "failed"
    found = {
        "plan_id": session.plan.id,
        "completed_steps": session.completed,
        "status": "running" if result is None else ended,
        "variables": session.machine.variables(),
    }
    has = wanted.get("variables_has", {})
    plain = {name: value for name, value in wanted.items() if name != "variables_has"}
    is_met = all(found.get(name) == value for name, value in plain.items())
    return None if is_met and _variables(session, stage, has) is None else found


def _left_behind(session: Session) -> list[str] | None:
    """The files that a run of the library leaves in its folder without a journal; None for none."""

    async def tool(args: dict[str, Any], context: CallContext) -> Any:
        return "ok"

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        asyncio.run(run_unrecorded(session.plan, Ports(lambda name: Route(tool)), Launch()))
        return os.listdir(folder) or None


def _tool_args(session: Session, stage: Stage, wanted: Any) -> Any:
    found = {session.names[call.tool]: call.args for call in stage.calls}
    return None if all(found.get(tool) == args for tool, args in wanted.items()) else repr(found)


def _prompts(session: Session, stage: Stage, wanted: Any) -> Any:
    said = "\n".join(session.prompts)
    return None if all(text in said for text in wanted) else said


def _unique(session: Session, stage: Stage) -> bool:
    ended = [note.step for note in stage.notes if note.kind in (NoteKind.FINISHED, NoteKind.FAILED)]
    return len(ended) == len(set(ended))


LOOKS: Mapping[str, Look] = {
    "replanned": _same(lambda s, t: s.machine.usage().replans > 0),
    "planner_calls": _same(lambda s, t: len(s.prompts)),
    "planner_prompt_contains": _prompts,
    "step_indexes_unique": _same(_unique),
    "tool_args": _tool_args,
    "success": _same(lambda s, t: not t.refused and _done(s)),
    "invalid": _same(lambda s, t: bool(t.refused)),
    "call_count": _same(lambda s, t: len(t.calls)),
    "budget_used": _same(_budget_used),
    "calls": _same(_names),
    "calls_set": lambda s, t, wanted: None if sorted(_names(s, t)) == sorted(wanted) else _names(s, t),
    "not_called": lambda s, t, wanted: _names(s, t) if set(wanted) & set(_names(s, t)) else None,
    "order": _same(lambda s, t: _steps(t)),
    "step_order": _same(lambda s, t: _steps(t)),
    "order_before": _order_before,
    "args": _args,
    "arg_len": _arg_length,
    "variables": _variables,
    "bindings": _same(_bindings),
    "variables_exact": _same(lambda s, t: s.machine.variables()),
    "makespan_ms": _within,
    "peak": _same(lambda s, t: t.peak),
    "steps": _each_step,
    "callbacks_order": _same(_callbacks),
    "error_contains": _error,
    "no_literal_refs": _no_reference,
    "crashed": _same(lambda s, t: t.crashed),
    "cancelled": _same(lambda s, t: t.cancelled),
    "state": _state,
}
