"""Every view of a run tells the same outcome of a loop of which an item failed."""

from __future__ import annotations

import json

import pytest
from tests.views.otel.telling import STATUS, one, tell_run

LOOP = "S1: ?FOREACH ($x IN [1, 2]) THEN @FAIL ($x) > $r"
LOOPS = {
    "it goes on": (LOOP, "ok"),
    "it is left for another step": (f"{LOOP} ON_FAIL GOTO S3", "failed"),
    "it ends the plan": (f'{LOOP} ON_FAIL TERMINATE ("no")', "failed"),
}


@pytest.fixture(params=LOOPS.values(), ids=LOOPS.keys())
def told(request, machine):
    """A machine with a run `r` of a loop, the outcome of that loop, and the lines of its progress."""
    loop, outcome = request.param
    plan = machine.plan(loop, 'S2: @RESPOND ("end")', 'S3: @RESPOND ("other end")')
    done = machine("run", plan, "--tools", machine.tools, "--run-id", "r", "--progress", "json")
    return machine, outcome, [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]


def test_show_and_progress(told):
    machine, outcome, lines = told
    assert machine.json("show", "r")["steps"][0]["outcome"] == outcome
    assert [line["outcome"] for line in lines if line.get("step") == "S1" and line.get("outcome")][
        -1
    ] == outcome


def test_report_shows_outcome_of_loop(told):
    machine, outcome, _ = told
    machine("report", "r", "-o", "x.html")
    page = (machine.folder / "x.html").read_text()
    visits = json.loads(page.split('id="callsheet-data">', 1)[1].split("</script>", 1)[0])["visits"]
    assert dict(zip(visits["columns"], visits["rows"][0], strict=True))["outcome"] == outcome


def test_debugger_shows_outcome_of_loop(told):
    machine, outcome, _ = told
    mark = machine.json("debug", "r")["steps"][0]["mark"]
    assert mark == ("FAIL" if outcome == "failed" else "ok!")


def test_span_has_outcome_of_loop(told):
    machine, outcome, _ = told
    assert one(tell_run(machine.journal, "r"), "S1").attributes[STATUS] == outcome


def test_failed_steps_has_only_steps_that_the_plan_left_as_they_were(told):
    machine, outcome, _ = told
    assert machine.json("resume", "r")["failed_steps"] == (["S1"] if outcome == "ok" else [])
