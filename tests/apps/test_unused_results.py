"""Every view of a run says which results came too late, and what ended before it had one."""

from __future__ import annotations

import pytest
from tests.views.otel.telling import one, tell_run
from tests.views.report.test_document import shown

from callsheet.store import Journal

TOOLS = '''
import asyncio
from callsheet import tool

@tool(effect="read")
async def hold(seconds: float) -> float:
    """Wait for a time."""
    await asyncio.sleep(seconds)
    return seconds
'''
PLAN = """# ltp: 2
S0: TRY WITHIN (0.2) {
  @PARALLEL {
    S1: @HOLD (seconds=0.6) > $a
    S2: @ASK_HUMAN ("Shall I?") > $b
  }
} ON_FAIL TIMEOUT {
  @RESPOND ("over")
}
"""
UNUSED = "its result came too late and was not used: S0 has come to its time limit"
ENDED = "it ends, as S0 has come to its time limit"


@pytest.fixture
def told(machine):
    """A machine with such a run `r`, and what it has printed meanwhile."""
    plan, tools = machine.write("late.ltp", PLAN), machine.write("hold.py", TOOLS)
    done = machine("run", plan, "--tools", tools, "--run-id", "r", "--progress", "plain")
    return machine, done.stderr


def test_results_that_came_too_late_are_told_in_every_view(told):
    machine, lines = told
    assert f"S1    ok       {UNUSED}" in lines
    assert f"S2    stopped  {ENDED}" in lines
    shows = machine("show", "r").stdout.splitlines()
    assert next(line for line in shows if " S1 " in line).endswith(UNUSED)
    assert next(line for line in shows if " S2 " in line).endswith(ENDED)
    assert machine("show", "r", "--timeline").stdout.splitlines()[0].endswith(UNUSED)
    assert [step["detail"] for step in machine.json("show", "r")["steps"]] == [UNUSED, ENDED]
    assert machine("why", "r", "S1").stdout.splitlines()[0].endswith(f": {UNUSED}")
    assert machine.json("why", "r", "S1")["nodes"][0]["unused"] == UNUSED
    assert f"called @HOLD; {UNUSED}" in machine("lctl", "emit", "r").stdout
    spans = tell_run(machine.journal, "r")
    assert [event.name for event in one(spans, "S1").events] == ["callsheet.unused"]
    with Journal.open_to_read(machine.journal) as journal:
        document = shown(journal, "r")
    details = {visit.label: (visit.outcome, visit.detail) for visit in document.visits}
    for step, outcome, said in (("S1", "ok", UNUSED), ("S2", "stopped", ENDED)):
        told_outcome, number = details[step]
        assert (told_outcome, said in str(document.values[number])) == (outcome, True)
