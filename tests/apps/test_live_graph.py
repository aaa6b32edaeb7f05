"""The live diagram of a graph on a terminal."""

from __future__ import annotations

import io
import json

from rich.console import Console

from callsheet.apps.cli.progress.live import LiveGraph
from callsheet.frontends.dag import parse_dag
from callsheet.ir import Plan
from callsheet.machine.notes import Note, NoteKind
from callsheet.views.columns import width


def step(index: object, *after: object, title: str = "Step") -> dict[str, object]:
    waits = [str(name) for name in after]
    return {"index": str(index), "title": title, "tool": "work", "args": {}, "depends_on": waits}


def plan_of(*steps: dict[str, object]) -> Plan:
    return parse_dag(json.dumps({"steps": steps})).require()


def drawn(plan: Plan, *notes: Note, columns: int = 80, height: int = 24) -> list[str]:
    """The last graph drawn on a screen of that size."""
    out = io.StringIO()
    display = LiveGraph(plan, Console(file=out, width=columns, height=height, force_terminal=False))
    display.begin({})
    for note in notes:
        display.show(note, 0.5 if note.kind in (NoteKind.FINISHED, NoteKind.FAILED) else None)
    display.end()
    return [line.rstrip() for line in out.getvalue().splitlines()]


PLAN = plan_of(step(3, 1, 2, title="日本"), step(1, title="Read"), step(2, title="Find"), step(4, 3))


def test_graph_shows_status_of_each_step_by_level() -> None:
    lines = drawn(
        PLAN,
        Note(NoteKind.STARTED, "1"),
        Note(NoteKind.STARTED, "2"),
        Note(NoteKind.FINISHED, "1", var="text", value="hello"),
        Note(NoteKind.FAILED, "2", "no such file"),
        Note(NoteKind.SKIPPED, "3", "2 failed"),
    )
    assert lines == [
        "● 1. Read  [work]  ∥  500 ms    $text = hello",
        "✗ 2. Find  [work]  ∥  500 ms    no such file",
        "",
        "– 3. 日本  [work]               2 failed",
        "",
        "○ 4. Step  [work]               ← after: 3",
    ]


def test_lines_fit_screen_width() -> None:
    long = plan_of(*(step(n, title="日本語の長い題名 " * 9) for n in range(3)), step("x", 0, 1, 2))
    notes = [Note(NoteKind.FAILED, str(n), "y" * 300) for n in range(3)]
    for columns in (30, 40, 80):
        assert all(width(line) <= columns for line in drawn(long, *notes, columns=columns))


def test_long_plan_shows_active_steps_and_counts_rest() -> None:
    plan = plan_of(*(step(n, *([n - 1] if n else [])) for n in range(200)))
    notes = [Note(NoteKind.STARTED, str(n)) for n in (20, 120)]
    lines = drawn(plan, *notes, Note(NoteKind.FAILED, "70", "no"), height=16)
    assert len(lines) <= 14
    assert [line[:6].rstrip(" .") for line in lines if line[0] in "◉✗"] == ["◉ 20", "✗ 70", "◉ 120"]
    assert lines[0] == "⋮ 19 more"
    assert lines[-1] == "200 steps: 2 running, 1 failed, 197 pending"


def test_steps_of_new_plan_are_below() -> None:
    assert drawn(PLAN, Note(NoteKind.STARTED, "r1/x\x1b"))[-1].startswith("◉ r1/x\N{REPLACEMENT CHARACTER}")


def test_steps_completed_before_resume_are_marked() -> None:
    out = io.StringIO()
    display = LiveGraph(PLAN, Console(file=out, width=80, height=24, force_terminal=False))
    display.begin({"1": Note(NoteKind.BEFORE, "1"), "2": Note(NoteKind.FINISHED, "2")})
    display.end()
    assert [line[0] for line in out.getvalue().splitlines() if line.strip()] == ["●", "●", "○", "○"]
