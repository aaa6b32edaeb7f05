"""Stored plans and recorded runs as data match their schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callsheet import Journal, Plan, RunResult, Runtime, tool
from callsheet.apps.hosting.recorded import recorded_outcome
from callsheet.apps.operations.library import ListedPlan, StoredResult, listed_json, stored_json
from callsheet.apps.operations.live_calls import UnderWay
from callsheet.apps.operations.outcomes import OutcomeResult, outcome_json
from callsheet.apps.operations.run_text import run_detail_lines
from callsheet.apps.operations.runs import RunDetailsResult, RunRow, run_details, run_details_json, run_row
from callsheet.apps.operations.schema import schema_of
from callsheet.store.library import Param, PlanLibrary
from callsheet.store.listing import found_runs
from json_forms import holds

GOOD = 'S1: @CALC ("$n * 2") > $twice\nS2: @RESPOND ($twice)'
ASKS = 'S1: @ASK_HUMAN ("Go on?", options=["yes", "no"]) > $said\nS2: @SEND (text="hello") > $sent'
FAILS = 'S1: @SEND (text=1) > $x ON_FAIL TERMINATE ("no")\nS2: @BROKEN () > $y'


@tool
def send(text: str) -> str:
    return text


@tool(effect="read")
def broken() -> str:
    raise RuntimeError("it is broken")


async def run(place: Path, text: str, **given: Any) -> RunResult:
    runtime = Runtime(tools=[send, broken], journal=place, approve=["SEND"], builtins=True, **given)
    return await runtime.run(Plan.parse(text), {"n": 21})


@pytest.mark.parametrize("text", [GOOD, ASKS, FAILS])
async def test_run_record_matches_schema(tmp_path: Path, text: str) -> None:
    place = tmp_path / "journal.db"
    result = await run(place, text)
    with Journal.open_to_read(place) as journal:
        ((info, shown),) = found_runs(journal, None, 10)
        assert info.run_id == result.run_id
        holds(run_row(journal, info, shown, UnderWay(journal)), schema_of(RunRow))
        holds(run_details_json(run_details(journal, info)), schema_of(RunDetailsResult))
        outcome = recorded_outcome(journal, info.run_id)
        holds(outcome_json(outcome, place), schema_of(OutcomeResult))
        lines = list(run_detail_lines(run_details(journal, info)))
    assert lines[0] == f"run      {result.run_id}"
    assert any(line.startswith("  ✓ S1") or line.startswith("  ✗ S1") or "S1" in line for line in lines)


async def test_waiting_run_describes_question_and_answer_command(tmp_path: Path) -> None:
    place = tmp_path / "journal.db"
    result = await run(place, ASKS)
    with Journal.open_to_read(place) as journal:
        details = run_details(journal, journal.find_run(result.run_id))
        lines = "\n".join(run_detail_lines(details, " --journal J"))
        told = outcome_json(recorded_outcome(journal, result.run_id), place)
    assert "Go on?" in lines
    assert f"callsheet approve {result.run_id} S1" in lines
    assert (told["status"], told["waiting"][0]["options"]) == ("waiting", ["yes", "no"])


def test_runs_are_filtered_by_status(tmp_path: Path) -> None:
    place = tmp_path / "journal.db"
    runtime = Runtime(builtins=True, journal=place)
    runtime.run_sync(GOOD, {"n": 1})
    with Journal.open_to_read(place) as journal:
        assert len(found_runs(journal, "done", 10)) == 1
        assert found_runs(journal, "failed", 10) == []
        assert found_runs(journal, "interrupted", 10) == []


def test_stored_plan_record_matches_schema(tmp_path: Path) -> None:
    library = PlanLibrary(tmp_path)
    stored = library.save(Plan.parse(GOOD).ir, "double", params=[Param("n")], goal="Double a number")
    holds(stored_json(stored), schema_of(StoredResult))
    (row,) = [listed_json(plan) for plan in library.list()]
    holds(row, schema_of(ListedPlan))
    assert (row["id"], row["goal"], row["steps"]) == ("double", "Double a number", 2)
