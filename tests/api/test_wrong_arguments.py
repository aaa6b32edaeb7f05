"""Arguments of a wrong type raise at once, with the argument's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callsheet import (
    Journal,
    Limits,
    ModelSettings,
    OtelSettings,
    Plan,
    PlanLibrary,
    PlanTools,
    Runtime,
    load_policy,
    open_model,
    select,
    tool,
    verify,
)

PLAN = 'PLAN_START\nS1: @CALC ("$n + 1") > $a\nS2: @RESPOND ($a)\nPLAN_END\n'


def greet(name: str) -> str:
    return name


CALLS: dict[str, tuple[str, Callable[[Any, str], object]]] = {
    "a plan of bytes": ("text must be the text of a plan, not bytes", lambda r, _: Plan.parse(b"x")),  # type: ignore[arg-type]
    "a text as steps": (
        "ir must be the steps of a plan; a text is read by Plan.parse, not str",
        lambda r, _: Plan(PLAN),
    ),  # type: ignore[arg-type]
    "a goal": ("goal must be a text, not int", lambda r, _: r.compile_sync(3)),
    "a goal of a graph": ("goal must be a text, not int", lambda r, _: r.create_plan_sync(3)),
    "a context": ("context must be a text, not int", lambda r, _: r.compile_sync("greet", 3)),
    "a workspace": ("workspace must be a path", lambda r, _: Runtime(builtins=True, workspace=3)),  # type: ignore[arg-type]
    "a reason": ("reason must be a text, not int", lambda r, run: r.cancel_sync(run, 3)),
    "no path": ("path must be a path .* not NoneType", lambda r, _: Plan.load(None)),  # type: ignore[arg-type]
    "a path with a null": ("path must be a path, and no file", lambda r, _: Plan.load("a\0b")),
    "another plan": ("new must be a Plan, not str", lambda r, _: Plan.parse(PLAN).diff(PLAN)),  # type: ignore[arg-type]
    "names": ("inputs must be a list of names", lambda r, _: Plan.parse(PLAN).check(inputs=1)),  # type: ignore[arg-type]
    "one tool": ("tools takes a list", lambda r, _: Runtime(greet)),  # type: ignore[arg-type]
    "no tools": ("tools must be a list", lambda r, _: Runtime(3)),  # type: ignore[arg-type]
    "no tool": ("a tool is a function, a Tool or a path, not int", lambda r, _: Runtime([3])),  # type: ignore[list-item]
    "a journal": ("journal must be a path", lambda r, _: Runtime(journal=3)),  # type: ignore[arg-type]
    "data": ("data must be a path", lambda r, _: Runtime(data=3)),  # type: ignore[arg-type]
    "servers": ("mcp must be a list of servers", lambda r, _: Runtime(mcp=3)),  # type: ignore[arg-type]
    "a policy": ("policy must be the name", lambda r, _: Runtime(policy=3)),  # type: ignore[arg-type]
    "doubt": ("on_in_doubt must be ask or fail or retry", lambda r, _: Runtime(on_in_doubt="x")),  # type: ignore[arg-type]
    "limits": (r"limits must be Limits\(…\), not dict", lambda r, _: Runtime(limits={"max_calls": 1})),  # type: ignore[arg-type]
    "names to ask about": ("approve must be a list of names, not int", lambda r, _: Runtime(approve=[3])),  # type: ignore[list-item]
    "what is run": (
        "plan must be a Plan, a function with @plan, its text or its path, not int",
        lambda r, _: r.run_sync(3),
    ),
    "variables": ("inputs must be a dict of values by name, not list", lambda r, _: r.run_sync(PLAN, ["n"])),
    "a name": ("inputs must have texts for keys, and not 1", lambda r, _: r.run_sync(PLAN, {1: 2})),
    "secrets": ("secrets must be a dict", lambda r, _: r.run_sync(PLAN, secrets="n")),
    "limits of a run": ("limits must be Limits", lambda r, _: r.run_sync(PLAN, {"n": 1}, limits=3)),
    "variables to check": ("inputs must be a dict", lambda r, _: r.check_sync(PLAN, 3)),
    "what is assumed": ("assume must be a dict", lambda r, _: r.dry_run_sync(PLAN, {"n": 1}, assume=3)),
    "approval": (
        "needs_approval must be",
        lambda r, _: r.dry_run_sync(PLAN, needs_approval="CALC"),
    ),
    "a run": ("run_id must be a text, not NoneType", lambda r, _: r.resume_sync(None)),
    "limits from now on": ("limits must be Limits", lambda r, run: r.resume_sync(run, limits={})),
    "an event": ("at must be the number of an event", lambda r, run: r.fork_sync(run, "3")),
    "steps": ("steps must be a dict of lines by step", lambda r, run: r.fork_sync(run, 3, steps="S1")),
    "a step": ("step must be the id of a step", lambda r, run: r.rerun_sync(run, 1)),
    "a first event": ("start must be the number", lambda r, run: r.playback_sync(run, "1")),
    "what came before": ("after must be the number", lambda r, run: r.tail_sync(run, after=None)),
    "what is looked for": ("text must be a text", lambda r, run: r.search_sync(None, run)),
    "a page": ("path must be a path", lambda r, run: r.report_sync(run, 3)),
    "confidence": ("confidence must be a dict", lambda r, run: r.lctl_sync(run, confidence=3)),
    "a folder of plans": ("folder must be a path", lambda r, _: PlanLibrary(3)),  # type: ignore[arg-type]
    "a plan's id": ("text must be the id of a plan", lambda r, _: PlanLibrary().load(None)),  # type: ignore[arg-type]
    "steps to keep": (
        r"plan must be the steps of a plan \(its .ir\), not Plan",
        lambda r, _: PlanLibrary().save(Plan.parse(PLAN)),  # type: ignore[arg-type]
    ),
    "who runs plans": ("runtime must be a Runtime, not NoneType", lambda r, _: PlanTools(None)),  # type: ignore[arg-type]
    "a library": ("library must be a PlanLibrary", lambda r, _: PlanTools(r, "plans")),
    "a collector": ("otlp must be the address", lambda r, run: r.export_trace_sync(run, None)),
    "a collector's address": ("url must be a text", lambda r, _: OtelSettings(url=3)),  # type: ignore[arg-type]
    "times by number": (
        "approval_timeout must have texts for keys, and not 1",
        lambda r, _: Runtime(approval_timeout={1: 2}),  # type: ignore[dict-item]
    ),
    "a server": ("mcp must be a list of McpServerConfig, not int", lambda r, _: Runtime(mcp=[1])),  # type: ignore[list-item]
    "a model": ("model must be a model, its name or a function", lambda r, _: Runtime(model=3)),  # type: ignore[arg-type]
    "an agent": ("agent must be a function", lambda r, _: Runtime(agent="me")),  # type: ignore[arg-type]
    "a planner": ("planner must be a function", lambda r, _: Runtime(planner=3)),  # type: ignore[arg-type]
    "who approves": ("on_approval must be a function", lambda r, _: Runtime(on_approval="me")),  # type: ignore[arg-type]
    "shared names": ("share_values must be a list of names", lambda r, _: Runtime(share_values="city")),
    "built-in tools": ("builtins must be True, False or", lambda r, _: Runtime(builtins="here")),  # type: ignore[arg-type]
    "a bound": ("max_calls must be a number, not str", lambda r, _: Limits(max_calls="3")),  # type: ignore[arg-type]
    "a bound of a tool": (
        r"max_calls_by_tool\['SEND'\] must be a whole number",
        lambda r, _: Limits(max_calls_by_tool={"SEND": None}),  # type: ignore[dict-item]
    ),
    "a model's name": ("spec must be the name of a model", lambda r, _: open_model(3)),  # type: ignore[arg-type]
    "a model's settings": ("model must be a text", lambda r, _: ModelSettings(model=None)),  # type: ignore[arg-type]
    "a policy's name": ("policy must be the name", lambda r, _: load_policy(None)),  # type: ignore[arg-type]
    "steps approved": ("approved must be a list", lambda r, _: verify(PLAN, "open", approved="S1")),
    "a query": ("query must be the text of a query", lambda r, _: select({}, None)),  # type: ignore[arg-type]
    "a journal's path": ("path must be a path", lambda r, _: Journal.open(3)),  # type: ignore[arg-type]
    "calls at once": ("max_concurrent must be", lambda r, _: Runtime([tool(max_concurrent="2")(greet)])),  # type: ignore[call-overload]
    "a new run": ("new_id must be the id", lambda r, run: r.rerun_sync(run, "S1", new_id=3)),
    "consent": ("effects must be True, False or", lambda r, run: r.rerun_sync(run, "S1", effects="no")),
    "arguments by step": (
        r"arguments must have \(step, name\) for keys, and not 'S2'",
        lambda r, run: r.fork_sync(run, 3, arguments={"S2": 1}),
    ),
    "another run": ("diff must be the id of a run", lambda r, run: r.report_sync(run, "p.html", diff=3)),
}


@pytest.mark.parametrize("said", CALLS)
def test_wrong_argument_type_is_named(tmp_path: Path, said: str) -> None:
    text, call = CALLS[said]
    with Runtime(journal=tmp_path / "j.db") as runtime:
        run = runtime.run_sync(PLAN, {"n": 1}).run_id
        with pytest.raises((TypeError, ValueError), match=text):
            call(runtime, run)


def test_numbers_beyond_all_events_and_runs_find_nothing(tmp_path: Path) -> None:
    with Runtime(journal=tmp_path / "j.db") as runtime:
        run = runtime.run_sync(PLAN, {"n": 1}).run_id
        assert runtime.tail_sync(run, after=10**30) == []
