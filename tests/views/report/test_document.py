"""The viewer's data of any run contains what the journal does, and no more than allowed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.plans import FACTS, INPUTS, outcome, plan_of, plan_texts, value_or_error
from tests.trace.projection.runs import ports_of, scripted, tell

from callsheet import Runtime
from callsheet.ir import JSON, Plan
from callsheet.machine import Compile, Failed, Limits, PlanCompiled, ToolFacts
from callsheet.ports.calls import ToolFailed
from callsheet.runtime.reporting import report_document
from callsheet.store import Journal
from callsheet.store.events import EventType
from callsheet.trace.lineage.lineage import NONE
from callsheet.trace.replay import Moment, play
from callsheet.views.report.build import Showing, preview_of
from callsheet.views.report.document import Document
from callsheet.views.report.values import Values


def shown(
    journal: Journal, run: str = "last", showing: Showing | None = None, other: str | None = None
) -> Document:
    """The document of a run."""
    return report_document(journal, run, "test", showing or Showing(), other)


def run_of(journal: Journal, plan: Plan, world: int) -> None:
    """A run in the world of a seed."""

    def answer(name: str, key: str, _args: dict[str, Any]) -> JSON:
        succeeds, value = value_or_error(world, name, key)
        if not succeeds:
            raise ToolFailed(str(value))
        return value

    def replan(command: Compile) -> tuple[Plan, dict[str, ToolFacts]]:
        event = outcome(world, command)
        if isinstance(event, Failed):
            raise ToolFailed(event.error)
        assert isinstance(event, PlanCompiled)
        return event.plan, dict(event.facts)

    tell(journal, plan, ports_of(answer, replan), INPUTS, FACTS)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan_texts(), st.integers(0, 2**32 - 1))
def test_references_in_any_document_resolve(journal, text, world):
    run_of(journal, plan_of(text), world)
    made = shown(journal)
    assert [event.seq for event in made.events] == list(range(1, len(made.events) + 1))
    last = made.events[-1].seq
    for n, visit in enumerate(made.visits):
        assert visit.step < len(made.plans[visit.plan].steps)
        assert len(visit.versions) == len(made.plans[visit.plan].steps[visit.step].names)
        assert 1 <= visit.seq <= last
        assert visit.end == 0 or visit.seq <= visit.end <= last
        assert visit.start <= visit.until
        first, count = visit.calls
        assert all(call.visit == n for call in made.calls[first : first + count])
    facts = {fact.id: fact for fact in made.facts}
    for fact in made.facts:
        assert all(fact.value <= facts[parent].value for parent in fact.parents)
        assert fact.value <= fact.own
        if fact.write != NONE:
            assert made.writes[fact.write].fact == fact.id
    for write in made.writes:
        assert write.visit == NONE or made.visits[write.visit].seq <= write.seq
        assert 0 <= write.value < len(made.values)
    told = {write.name for write in made.writes if write.fact or write.made == "answer"}
    assert told == {write.name for write in made.writes}
    json.dumps(made.to_json(), allow_nan=False)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(plan_texts(), st.integers(0, 2**32 - 1))
def test_document_is_deterministic(journal, text, world):
    run_of(journal, plan_of(text), world)
    assert shown(journal).to_json() == shown(journal).to_json()


def test_calls_have_times_attempts_and_arguments(journal):
    tell(journal, "S1: @A (x=1) > $a ON_FAIL @RETRY(2)", scripted(a=ToolFailed("no")), facts=FACTS)
    made = shown(journal)
    assert [(call.attempt, call.outcome) for call in made.calls if call.tool == "A"] == [
        (1, "err"),
        (2, "err"),
        (3, "err"),
    ]
    args = [made.values[call.args] for call in made.calls if call.tool == "A"]
    assert args == ['{"x":1}'] * 3
    assert made.run["words"] == "Done with failures: S1"
    assert made.blame is not None
    assert made.blame["visit"] == 0


def test_loop_ended_by_item_is_failed(journal):
    plan = "S1: ?FOREACH ($i IN [1, 2]) THEN @A (x=$i) > $a{}\nS2: @RESPOND ($a)"
    for on_fail, outcomes in ((' ON_FAIL TERMINATE ("no: $a")', ["failed"]), ("", ["ok", "ok"])):
        tell(journal, plan.format(on_fail), scripted(a=ToolFailed("no")), facts=FACTS)
        assert [visit.outcome for visit in shown(journal).visits] == outcomes


def test_loop_ended_by_limit_is_stopped_with_results(journal):
    plan = "S1: ?FOREACH ($i IN [1, 2, 3]) THEN @A (x=$i) > $a\nS2: @RESPOND ($a)"
    tell(journal, plan, scripted(a=1), limits=Limits(max_calls=2), facts=FACTS)
    (visit,) = shown(journal).visits
    assert (visit.outcome, visit.end > 0, visit.write != NONE) == ("stopped", True, True)


def test_longest_path_goes_through_last_arrivals(journal):
    tell(journal, "S1: @A > $a\nS2: @B ($a) > $b\nS3: @RESPOND ($b)", scripted(a="1", b="2"))
    assert [visit.critical for visit in shown(journal).visits] == [1, 1, 1]


def test_long_value_is_truncated_with_length(journal):
    tell(journal, "S1: @A > $a", scripted(a="é" * 5_000))
    made = shown(journal, showing=Showing(most=100))
    row = made.values[next(write.value for write in made.writes if write.name == "a")]
    assert isinstance(row, list)
    assert row[1] == 10_002
    assert len(str(row[0]).encode()) <= 100
    assert made.notes["shortened"] >= 1


def test_values_are_omitted_on_request_except_in_plan(journal):
    plan = 'S1: @A (x=$given) > $a\nS2: @B ($a) > $b ON_FAIL TERMINATE ("it was $b")'
    tell(journal, plan, scripted(a="SECRET-A", b=ToolFailed("SECRET-B")), {"given": "SECRET-G"})
    whole = json.dumps(shown(journal).to_json())
    assert all(secret in whole for secret in ("SECRET-A", "SECRET-B", "SECRET-G"))
    redacted = shown(journal, showing=Showing(redacts=True))
    assert "SECRET" not in json.dumps(redacted.to_json())
    assert [row.how for row in preview_of(redacted).rows if row.name == "$a"] == ["left out"]


def test_sealed_value_stays_sealed_and_is_listed(journal):
    tell(journal, "S1: @A > $a", scripted(a={"token": "[sealed k:fbbc4bb23d84, text, 7 characters]"}))
    made = shown(journal)
    assert made.notes["sealed"] >= 1
    assert [row.how for row in preview_of(made).rows if row.name == "$a"] == ["sealed"]


def test_equal_value_is_stored_once():
    values = Values()
    assert [values.add("x" * 50), values.add({"a": 1}), values.add("x" * 50)] == [0, 1, 0]


def test_runs_diverge_at_first_difference(journal):
    plan = "S1: @A > $a\nS2: @B ($a) > $b"
    tell(journal, plan, scripted(a="one", b="x"))
    tell(journal, plan, scripted(a="two", b="x"))
    diff = shown(journal, "run-1", other="run-0").diff
    assert diff is not None
    assert [(pair["a"]["label"], pair["what"], pair["follows"]) for pair in diff["pairs"]] == [
        ("S1", ["result"], False),
        ("S2", ["arguments"], True),
    ]
    assert diff["first"] == 0


def test_document_size_is_linear_in_events(journal):
    def of(items: int) -> int:
        plan = "S1: ?FOREACH ($i IN $items) THEN @A (x=$i) > $a"
        tell(journal, plan, scripted(a=lambda args: args["x"]), {"items": list(range(items))})
        return len(json.dumps(shown(journal).to_json()))

    once, twice = of(200), of(400)
    assert twice - once < 1.2 * once


def test_fork_has_no_gap_after_parent(tmp_path: Path):
    path, hours = tmp_path / "j.db", 7_200.0
    plan = 'S1: @CALC ("1") > $a\nS2: @CALC ("$a + 1") > $b\nS3: @RESPOND ($b)'
    with Journal.open(path) as journal, Runtime(journal=journal) as runtime:
        runtime.run_sync(plan, run_id="parent")
    with Journal.open(path, clock=lambda: time.time() + hours) as later, Runtime(journal=later) as runtime:
        first = next(e.seq for e in later.events("parent") if e.type is EventType.OK)
        runtime.fork_sync("parent", first, variables={"a": 5}, new_id="child")
        document = shown(later, "child", other="parent")
        entries = runtime.lctl_sync("child").entries
        moments: list[Moment] = []
        play(
            later.plan(later.find_run("child").plan_hash)[0],
            later.events("child"),
            lambda name: later.plan(name)[0],
            lambda moment: not moments.append(moment),
        )
    assert min(event.t for event in document.events) >= 0
    assert max(event.t for event in document.events) < hours
    assert all(0 <= visit.start <= visit.until < hours for visit in document.visits)
    assert all((entry.duration_ms or 0) < hours for entry in entries)
    assert all((said.took or 0) < hours for moment in moments for said in moment.notes)
    assert document.diff is not None
    assert {step for step, *_ in document.diff["times"]} <= {"S1", "S2"}
