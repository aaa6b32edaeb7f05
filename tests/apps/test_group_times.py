"""Every view of a run gives a member of a group the time and the outcome of its own calls."""

from __future__ import annotations

import json
import time

import pytest
from tests.views.otel.telling import STATUS, one, tell_run

TOOLS = '''
import asyncio
from pathlib import Path
from callsheet import tool

@tool(effect="read")
async def hold(seconds: float, until: str = "") -> float:
    """Wait for a time, or for a file."""
    await asyncio.sleep(seconds)
    while until and not Path(until).exists():
        await asyncio.sleep(0.02)
    return seconds
'''
SLOW, QUICK = 0.6, 0.3
"""The least time of the slow member, and the most time of the quick ones."""
PLAN = (
    "@PARALLEL {",
    "  S1: @HOLD (seconds=0.7, until=$file) > $a",
    "  S2: @HOLD (seconds=0.05) > $b",
    "  S3: ?FOREACH ($x IN [0.02, 0.03]) THEN @HOLD (seconds=$x) > $c",
    "}",
    'S4: @RESPOND ("end")',
)


@pytest.fixture
def told(machine):
    """A machine with such a run `r`, and the lines of its progress."""
    plan = machine.plan(*PLAN)
    tools = machine.write("hold.py", TOOLS)
    done = machine("run", plan, "--tools", tools, "--var", "file=", "--run-id", "r", "--progress", "json")
    return machine, [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]


def _hold_to_own_times(seconds: dict[str, float]) -> None:
    assert seconds["S1"] > SLOW
    assert seconds["S2"] < QUICK
    assert seconds["S3"] < QUICK


def test_progress_of_run(told):
    _, lines = told
    _hold_to_own_times({line["step"]: line["seconds"] for line in lines if line["event"] == "finished"})
    assert {line["step"] for line in lines if line["event"] == "settled"} == {"S2", "S3"}


def test_show_and_top(told):
    machine, _ = told
    _hold_to_own_times({step["step"]: step["seconds"] for step in machine.json("show", "r")["steps"]})
    lines = [json.loads(line) for line in machine("top", "r", "--json").stdout.splitlines()]
    _hold_to_own_times({line["step"]: line["seconds"] for line in lines if line["event"] == "finished"})


def test_debugger_and_report(told):
    machine, _ = told
    rows = machine.json("debug", "r")["steps"]
    _hold_to_own_times({row["step"]: row["ended"] - row["begun"] for row in rows})
    machine("report", "r", "-o", "x.html")
    page = (machine.folder / "x.html").read_text()
    visits = json.loads(page.split('id="callsheet-data">', 1)[1].split("</script>", 1)[0])["visits"]
    rows = [dict(zip(visits["columns"], row, strict=True)) for row in visits["rows"]]
    _hold_to_own_times({f"S{row['step'] + 1}": row["until"] - row["start"] for row in rows})


def test_spans_and_lctl(told):
    machine, _ = told
    spans = {step: one(tell_run(machine.journal, "r"), step) for step in ("S1", "S2", "S3")}
    assert {span.attributes[STATUS] for span in spans.values()} == {"ok"}
    _hold_to_own_times({step: (span.end - span.start) / 1e9 for step, span in spans.items()})


def test_members_that_are_done_are_not_running(machine, tmp_path):
    plan, file = machine.plan(*PLAN), tmp_path / "go"
    tools = machine.write("hold.py", TOOLS)
    going = machine.spawn("run", plan, "--tools", tools, "--var", f"file={file}", "--run-id", "r")
    until = time.monotonic() + 20
    while machine("show", "r").exit_code or _outcomes(machine)[1:] != ["ok", "ok"]:
        assert time.monotonic() < until, machine("show", "r").stdout
        time.sleep(0.05)
    assert _outcomes(machine) == ["running", "ok", "ok"]
    assert "so far" in machine("show", "r").stdout
    file.touch()
    going.communicate(timeout=60)


def _outcomes(machine) -> list[str]:
    return [step["outcome"] for step in machine.json("show", "r")["steps"]]
