"""What is of another type than an argument of the library takes is told at once, with the argument's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callsheet import Plan, Runtime

PLAN = 'PLAN_START\nS1: @CALC ("$n + 1") > $a\nS2: @RESPOND ($a)\nPLAN_END\n'


def greet(name: str) -> str:
    return name


CALLS: dict[str, tuple[str, Callable[[Any, str], object]]] = {
    "a plan of bytes": ("text must be the text of a plan, not bytes", lambda r, _: Plan.parse(b"x")),  # type: ignore[arg-type]
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
    "what is run": ("plan must be a Plan, its text or its path, not int", lambda r, _: r.run_sync(3)),
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
}


@pytest.mark.parametrize("said", CALLS)
def test_an_argument_of_another_type_is_named(tmp_path: Path, said: str) -> None:
    text, call = CALLS[said]
    with Runtime(journal=tmp_path / "j.db") as runtime:
        run = runtime.run_sync(PLAN, {"n": 1}).run_id
        with pytest.raises((TypeError, ValueError), match=text):
            call(runtime, run)


def test_numbers_beyond_all_events_and_runs_find_nothing(tmp_path: Path) -> None:
    with Runtime(journal=tmp_path / "j.db") as runtime:
        run = runtime.run_sync(PLAN, {"n": 1}).run_id
        assert runtime.tail_sync(run, after=10**30) == []
