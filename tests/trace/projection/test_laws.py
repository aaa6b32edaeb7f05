"""Laws of the projection: the documents of any run break no rule and describe the run."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.plans import FACTS, INPUTS, outcome, plan_of, plan_texts, value_or_error
from tests.trace.projection.runs import Told, errors_of, ports_of, tell

from callsheet.ir import JSON, Call, Order, Output, Plan, Ref, Step
from callsheet.machine import Compile, Failed, PlanCompiled, ToolFacts
from callsheet.ports.calls import ToolFailed
from callsheet.store import Journal
from callsheet.trace.lctl.confidence import effective
from callsheet.trace.lctl.model import Handoff
from callsheet.trace.lctl.reading import parse
from callsheet.trace.lctl.write import write
from callsheet.trace.projection.post_mortem import debug_document_of, has_failed
from callsheet.trace.projection.project import handoff_of
from callsheet.trace.projection.record import Record, Visit, fact_id, shown_value
from callsheet.trace.projection.recording import record_of

SEEDS = st.integers(0, 2**32 - 1)
_QUIET = [HealthCheck.function_scoped_fixture]


def told_of(journal: Journal, plan: Plan, world: int) -> Told:
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

    return tell(journal, plan, ports_of(answer, replan), INPUTS, FACTS)


def named(visit: Visit) -> str:
    """This visit, and no later one of its step."""
    return visit.label if "@" in visit.label else f"{visit.label}@1"


def hops_of(record: Record) -> list[Handoff]:
    """The hand-offs of a run, one for each step of its trace."""
    hops = [handoff_of(record, "run", named(visit)) for visit in record.visits]
    steps = [hop.chain.step for hop in hops]
    return [h for n, h in enumerate(hops) if n == 0 or steps[n - 1] != steps[n]] or [
        handoff_of(record, "run")
    ]


def require_sound(told: Told) -> None:
    """All documents of a run have no errors, alone and as a chain, and omit no needed value."""
    record = told.record
    assert record.result == told.result
    hops = hops_of(record)
    assert errors_of(*hops) == []
    final = handoff_of(record, "run")
    assert errors_of(final) == []
    assert effective(final) == {fact.id: fact.confidence for fact in final.facts.values()}
    assert parse(write(final)) == final
    post_mortem = debug_document_of(record, "run")
    assert errors_of(post_mortem) == []
    assert post_mortem.chain.has_failed == has_failed(record)
    require_live(told)


def require_live(told: Told) -> None:
    """Values that a later visit read and that exist at a boundary are critical there, or too uncertain."""
    record, batches = told.record, told.record.batches()
    for place, visit in enumerate(record.visits):
        upto = len(batches) - batches[::-1].index(batches[place])
        now = set(record.current(upto).values())
        hop = handoff_of(record, "run", named(visit))
        for later in record.visits[upto:]:
            for read in now.intersection(later.reads):
                fact = hop.facts[fact_id(read)]
                assert fact.id in hop.critical or (fact.confidence or 0) < 0.4, (
                    visit.label,
                    later.label,
                    read,
                )


@given(plan_texts(), SEEDS)
@settings(max_examples=40, deadline=None, suppress_health_check=_QUIET)
def test_documents_of_text_plan_break_no_rule(journal: Journal, text: str, world: int) -> None:
    """Guards, groups, FOREACH, failures, jumps and new plans; the last writes are the run's variables."""
    told = told_of(journal, plan_of(text), world)
    assert told.result is not None
    last = {name: write.text for name, write in told.record.current(len(told.record.visits)).items()}
    assert last == {name: shown_value(value) for name, value in told.result.variables.items()}
    require_sound(told)


@given(plan_texts(), SEEDS)
@settings(max_examples=25, deadline=None, suppress_health_check=_QUIET)
def test_documents_with_loop_items_break_no_rule(journal: Journal, text: str, world: int) -> None:
    told = told_of(journal, plan_of(text), world)
    record = record_of(told.plan, told.rows, journal.plan_of, with_items=True)
    assert errors_of(*hops_of(record)) == []
    assert errors_of(debug_document_of(record, "run")) == []


@given(plan_texts(), SEEDS, st.floats(0, 1))
@settings(max_examples=30, deadline=None, suppress_health_check=_QUIET)
def test_documents_of_truncated_journal_break_no_rule(
    journal: Journal, text: str, world: int, part: float
) -> None:
    """For any events that a crash leaves, the current state can be handed on."""
    told = told_of(journal, plan_of(text), world)
    record = told.cut(max(1, round(len(told.rows) * part)))
    assert errors_of(handoff_of(record, "run")) == []
    assert errors_of(debug_document_of(record, "run")) == []
    begun = [visit.label for visit in (*record.visits, *record.under_way)]
    assert set(begun) <= {visit.label for visit in told.record.visits}


@st.composite
def _graphs(draw: st.DrawFn) -> Plan:
    """Plans of dependencies whose steps read earlier or unset variables."""
    steps: list[Step] = []
    for number in range(draw(st.integers(1, 6))):
        before = [step.id for step in steps]
        depends = draw(st.sets(st.sampled_from(before), max_size=3)) if before else set[str]()
        read = draw(st.sampled_from("abc"))
        tool = draw(st.sampled_from(["READ", "KEEP", "WRITE", "FAULTY"]))
        steps.append(
            Step(
                f"{number + 1}",
                Call(tool, named=(("x", Ref(read)),) if draw(st.booleans()) else ()),
                output=Output(draw(st.sampled_from("abc"))) if draw(st.integers(0, 3)) else None,
                depends_on=tuple(sorted(depends)),
            )
        )
    return Plan(tuple(draw(st.permutations(steps))), Order.DAG)


@given(_graphs(), SEEDS)
@settings(max_examples=40, deadline=None, suppress_health_check=_QUIET)
def test_documents_of_graph_break_no_rule(journal: Journal, plan: Plan, world: int) -> None:
    """Concurrent steps, failures, and their dependents."""
    require_sound(told_of(journal, plan, world))


_TOKEN = re.compile("«[^»]*»")


@given(plan_texts(), SEEDS)
@settings(max_examples=30, deadline=None, suppress_health_check=_QUIET)
def test_reads_of_visit_are_arguments_of_its_calls(journal: Journal, text: str, world: int) -> None:
    """Each result is a unique token: those in the arguments of a call are among the writes that it read."""
    given_to: dict[str, set[str]] = {}

    def answer(name: str, key: str, args: dict[str, Any]) -> JSON:
        place = key.rsplit(".", 2)[0]
        given_to.setdefault(place, set()).update(_TOKEN.findall(str(args)))
        succeeds, _ = value_or_error(world, name, key)
        if not succeeds:
            raise ToolFailed(f"«{key}»")
        return f"«{key}»"

    told = tell(journal, plan_of(text), ports_of(answer), INPUTS, FACTS)
    for visit in told.record.visits:
        read = {token for write in visit.data for token in _TOKEN.findall(write.text)}
        assert given_to.get(visit.label, set()) <= read, visit.label
