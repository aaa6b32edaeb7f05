"""The lineage of plans with blocks: what it says of an example, and that it is what marks in the data say."""

from __future__ import annotations

import json
from typing import Any, cast
from zlib import crc32

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.machine.test_tree_laws import LIMITS
from tests.plans import FACTS, duration
from tests.structured_plans import programs
from tests.trace.lineage.recording import INPUTS, Recorded, marked, marks
from tests.views.otel.telling import LABEL, is_well_formed, steps, tell
from tests.views.otel.test_laws import entries_of

from callsheet.frontends.expressions import format_expression
from callsheet.frontends.spelling import read_plan_text
from callsheet.ir import JSON, Plan
from callsheet.ir.tree import operands
from callsheet.machine import CallTool, Command, Event, Failed, Sleep, Succeeded, TimerFired
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.trace.lctl.check import check
from callsheet.trace.lineage.blocks import TreeLineage
from callsheet.trace.lineage.lineage import NONE, ValueSource
from callsheet.trace.lineage.reads import Role
from callsheet.trace.lineage.slices import Node, backward, flows_from, flows_into, forward, reached_by
from callsheet.trace.projection.post_mortem import debug_document_of
from callsheet.trace.projection.project import handoff_of
from callsheet.trace.projection.record import Outcome
from callsheet.trace.projection.recording import record_of
from callsheet.trace.search import finder, search
from callsheet.views.lineage import why_lines

FACTS_OF_TREES = {**FACTS, **OWN_FACTS}
DATA = (Role.ARGUMENT, Role.SOURCE)
HIDING = ("bool(", "==", "not ", " is ", "len(", "??")
"""What makes a value of another that does not have its marks, or takes one of two."""


def recorded(plan: Plan, answer: Any, inputs: dict[str, JSON] = INPUTS) -> Recorded:
    """A run; `answer` gives what a call of a tool gives."""

    def respond(command: Command) -> tuple[float, Event]:
        if isinstance(command, Sleep):
            return command.seconds, TimerFired(command.key)
        assert isinstance(command, CallTool)
        value = answer(command)
        seconds = duration(7, command.key)
        if isinstance(value, Exception):
            return seconds, Failed(command.key, str(value))
        return seconds, Succeeded(command.key, value)

    return Recorded(plan, LIMITS, respond, inputs, FACTS_OF_TREES)


def lineage_of_text(text: str, answer: Any, inputs: dict[str, JSON] = INPUTS) -> TreeLineage:
    plan = read_plan_text(text).result.require()
    lineage = recorded(plan, answer, inputs).lineage()
    assert isinstance(lineage, TreeLineage)
    return lineage


def shown(lineage: TreeLineage, node: Node) -> list[str]:
    """The flows into a node, one a line: role, argument, name, path, and where it was set."""
    lines: list[str] = []
    for flow in flows_into(lineage, node):
        write = lineage.writes[flow.node.write]
        by = "" if write.visit == NONE else lineage.label(lineage.visits[write.visit])
        path = "".join(f".{part}" for part in flow.node.path)
        lines.append(f"{flow.role} {flow.argument or '-'} {flow.name}{path} @{by}")
    return lines


TEXT = """# ltp: 2
# goal: An example
INPUT $rows: list[json]
INPUT $least: int = 1

PLAN part ($row: json) -> json {
  S1: @READ (x=$row.id) > $text
  RETURN ({"text": $text, "row": $row})
}

S2: ?FOREACH ($row IN $rows) {
  S3: CALL part (row=$row) > $made ON_FAIL TOOL {
    LET $made = {"text": "none", "row": $error.kind}
  }
  ?IF ($row.n >= $least) {
    S4: @WRITE (x=$made.text, y="fixed")
  } ELSE {
    S5: @KEEP (x=$made)
  }
  YIELD ({"id": $row.id, "made": $made})
} > $all
LET $key = "made"
LET $left = 2
S6: ?REPEAT (max=5) {
  SET $left = $left - 1
  S7: @READ (x=$all[$left][$key].text) > $again
} UNTIL ($left <= 0)
S8: @FAULTY (x=$again) > $last ON_FAIL USE ($all[0].id)
S9: @RESPOND ($last)
"""
ROWS: dict[str, JSON] = {"rows": [{"id": "p", "n": 0}, {"id": "q", "n": 1}, {"id": "r", "n": 2}]}


def answer(command: CallTool) -> Any:
    if command.tool == "FAULTY" or command.args == {"x": "q"}:
        return OSError("no")
    return f"{command.tool} {json.dumps(command.args)}"


def test_an_item_is_told_by_the_parts_of_its_result() -> None:
    lineage = lineage_of_text(TEXT, answer, ROWS)
    every = lineage.main["all"]
    assert shown(lineage, Node(every, (0, "id"))) == ["argument - YIELD.id @S2[0]/S2.yield1"]
    (flow,) = flows_into(lineage, Node(every, (0, "id")))
    assert shown(lineage, flow.node) == ["argument - row.id @S2"]
    (flow,) = flows_into(lineage, flow.node)
    assert shown(lineage, flow.node) == ["source - rows.0.id @"]
    (flow,) = flows_into(lineage, Node(every, (2, "made", "row", "n")))
    (flow,) = flows_into(lineage, flow.node)
    assert (flow.name, flow.node.path) == ("made", ("row", "n"))
    assert shown(lineage, flow.node) == ["argument - RETURN.row.n @S2[2]/S3/part.return1"]


def test_what_a_handler_sets_is_there_because_of_the_failure() -> None:
    lineage = lineage_of_text(TEXT, answer, ROWS)
    made = lineage.placed["S2[1]/", "made"]
    assert shown(lineage, Node(made, ("row",))) == [
        "argument - error.kind @S2[1]/S3/S1",
        "condition - error @S2[1]/S3/S1",
    ]
    (first, _) = flows_into(lineage, Node(made, ("row",)))
    assert shown(lineage, Node(first.node.write, ())) == ["argument x row.id @S2[1]/S3"]


def test_conditions_around_a_call_reach_it_and_say_how_they_were() -> None:
    lineage = lineage_of_text(TEXT, answer, ROWS)
    kept = lineage.visit_named("S2[0]/S5")
    assert kept is not None
    node = Node(lineage.result_of(kept), ())
    assert shown(lineage, node) == [
        "argument x made @S2[0]/S3",
        "condition not ($row.n >= $least) row.n @S2",
        "condition not ($row.n >= $least) least @",
    ]
    rows = Node(lineage.main["rows"], (2, "n"))
    reached = {one.key: one.role for one in reached_by(lineage, forward(lineage, rows))}
    assert reached["S2[2]/S4.1"] is Role.CONDITION
    assert "S2[0]/S5.1" not in reached


def test_rounds_and_computed_keys() -> None:
    lineage = lineage_of_text(TEXT, answer, ROWS)
    second = lineage.visit_named("S6[#2]/S7")
    assert second is not None
    assert shown(lineage, Node(lineage.result_of(second), ()))[:3] == [
        "argument x all.0.made.text @S2",
        "argument x left @S6[#2]/S6.set1",
        "argument x key @let1",
    ]
    assert "condition not ($left <= 0) left @S6[#1]/S6.set1" in shown(
        lineage, Node(lineage.result_of(second), ())
    )


def test_the_value_of_use_is_made_of_the_failed_call_and_the_value() -> None:
    lineage = lineage_of_text(TEXT, answer, ROWS)
    last = lineage.main["last"]
    assert lineage.writes[last].made is ValueSource.USE
    assert shown(lineage, Node(last, ())) == ["argument x again @S6[#2]/S7", "message - all.0.id @S2"]
    assert lineage.writes[lineage.answer].value == "p"


AGAIN = """# ltp: 2
?REPEAT (max=2) {
  TRY {
    S1: @READ (x=1) > $a
    S2: ?FOREACH ($i IN [$a]) {
      S3: @FLAKY (x=$i) > $b
      YIELD ($b)
    } > $all
  } ON_FAIL @RETRY(2, delay=0)
} UNTIL ($all[0] != "first")
S4: @FLAKY (x=$all) > $c ON_FAIL @RETRY(1, delay=0)
S5: @RESPOND ($c)
"""


def test_an_attempt_is_there_because_the_one_before_has_failed() -> None:
    """A block that starts anew in another round has no failure before it."""
    outcomes = iter([OSError("busy"), OSError("shut"), "first", "second", OSError("late"), "c"])

    def flaky(command: CallTool) -> Any:
        return next(outcomes) if command.tool == "FLAKY" else 1

    lineage = lineage_of_text(AGAIN, flaky)
    start = Node(lineage.answer, ())
    assert list(why_lines(lineage, backward(lineage, start), start, 2))[-1].endswith(
        'attempt 1 failed: "late"  ·  event 10'
    )
    third = lineage.visit_named("repeat1[#1]/repeat1.try1~3/S2[0]/S3")
    assert third is not None
    *_, because = flows_into(lineage, Node(lineage.result_of(third), ()))
    line = "condition attempt 2 failed error @repeat1[#1]/repeat1.try1~2/S2[0]/S3"
    assert shown(lineage, Node(lineage.result_of(third), ()))[-1] == line
    assert lineage.value_at(because.node._replace(path=("message",))) == "shut"
    assert shown(lineage, because.node)[-1] == "condition attempt 1 failed error @repeat1[#1]/S2[0]/S3"
    again = lineage.visit_named("repeat1[#2]/S2[0]/S3")
    assert again is not None
    assert not any("attempt" in one for one in shown(lineage, Node(lineage.result_of(again), ())))


@pytest.mark.parametrize(("ends", "made"), [("FIRST", [2]), ("AS DONE", [2, 3, 1])])
def test_a_list_is_made_of_the_items_that_are_in_it(ends: str, made: list[int]) -> None:
    """Each at its place; two are done at once, before the first one of the loop."""
    text = f"""# ltp: 2
?FOREACH ($i IN [1, 2, 3]) TOGETHER {ends} {{
  ?IF ($i == 1) {{
    S1: @READ (x=$i)
  }}
  YIELD ($i)
}} > $all
@RESPOND ($all)
"""
    lineage = lineage_of_text(text, lambda _: 1)
    write = lineage.current["all"]
    assert lineage.writes[write].value == made
    parts = [part for part in lineage.parts_of(write) if part.flow.name == "YIELD"]
    assert [lineage.writes[part.flow.node.write].value for part in parts] == made


RETRIED = """# ltp: 2
INPUT $a: json
INPUT $b: json = 1
PLAN part ($x: json) {
  S1: @READ (x=1)
  RETURN (1)
}
S2: CALL part (x=1) ON_FAIL @RETRY(3, delay=0.0)
try1: ?FOREACH ($i IN [1, 2]) {
  t1: @READ (x=1)
} ON_FAIL @RETRY(1, delay=0.0) ON_FAIL {
  NOTE ("${error.kind}")
}
S3: @RESPOND (1)
"""


def data_behind(lineage: TreeLineage, start: Node) -> tuple[set[str], bool]:
    """The calls and inputs in a value by the flows of data; whether an expression hides marks."""
    found: set[str] = set()
    hides = False
    waiting, seen = [start], {start}
    while waiting:
        node = waiting.pop()
        write = lineage.writes[node.write]
        if write.made is ValueSource.INPUT:
            found.add(f"in:{write.name}")
        if write.visit != NONE:
            visit = lineage.visits[write.visit]
            found.update(lineage.last_keys(visit))
            texts = [format_expression(one) for one in operands(lineage.site(visit).statement)]
            hides = hides or any(word in text for text in texts for word in HIDING)
            hides = hides or write.made in (ValueSource.ERROR, ValueSource.USE)
        for flow in flows_into(lineage, node):
            if flow.role in (*DATA, Role.MESSAGE) and flow.node.write != NONE and flow.node not in seen:
                seen.add(flow.node)
                waiting.append(flow.node)
    return found, hides


@settings(max_examples=60)
@example(read_plan_text(RETRIED).result.require(), 15)
@given(programs(stops=True), st.integers(0, 2**32 - 1))
def test_lineage_is_what_marks_in_the_data_say(plan: Plan, world: int) -> None:
    def outcome(command: CallTool) -> Any:
        value = marked(world, command.key)
        if command.tool == "FAULTY" or crc32(f"{world}:{command.key}".encode()) // 7 % 5 == 0:
            return OSError(f"error ⟦{command.key}⟧")
        return value

    run = recorded(plan, outcome)
    lineage = run.lineage()
    assert isinstance(lineage, TreeLineage)
    for write in lineage.writes:
        found, hides = data_behind(lineage, Node(write.id, ()))
        said = run.ancestors(write.value)
        assert said <= found, (write, said - found)
        if marks(write.value) and not hides:
            assert {name for name in found if name in run.took} <= said, (write, found - said)
    for key, took in run.took.items():
        visit = lineage.visit_named(key)
        assert visit is not None
        read: set[str] = set()
        for flow in lineage.own_flows(visit):
            if flow.role is Role.ARGUMENT and flow.node.write != NONE:
                read |= data_behind(lineage, flow.node)[0]
        assert took <= read, (key, took - read)


@settings(max_examples=40)
@given(programs(stops=True), st.integers(0, 2**32 - 1))
def test_copies_are_what_they_are_copied_from_and_flows_lead_both_ways(plan: Plan, world: int) -> None:
    def outcome(command: CallTool) -> JSON:
        return marked(world, command.key)

    lineage = recorded(plan, outcome).lineage()
    assert isinstance(lineage, TreeLineage)
    for name, value in lineage.machine.variables().items():
        assert lineage.writes[lineage.main[name]].value == value, name
    for write in lineage.writes:
        for part in lineage.parts_of(write.id):
            if part.is_copy and part.flow.node.write != NONE and not _chooses(lineage, write.visit):
                assert lineage.value_at(Node(write.id, part.at)) == lineage.value_at(part.flow.node)
        for flow in flows_into(lineage, Node(write.id, ())):
            if flow.node.write != NONE:
                back = flows_from(lineage, flow.node)
                assert any(other.node.write == write.id for other in back)


def _chooses(lineage: TreeLineage, visit: int) -> bool:
    if visit == NONE:
        return False
    statement = lineage.site(lineage.visits[visit]).statement
    return any("??" in format_expression(one) for one in operands(statement))


@settings(max_examples=30)
@example(read_plan_text(RETRIED).result.require(), 7)
@example(read_plan_text(RETRIED).result.require(), 15)
@given(programs(stops=True), st.integers(0, 2**32 - 1))
def test_documents_keep_the_rules_and_spans_form_one_tree(plan: Plan, world: int) -> None:
    def outcome(command: CallTool) -> Any:
        value = marked(world, command.key)
        return OSError("no") if crc32(f"{world}:{command.key}".encode()) % 4 == 0 else value

    run = recorded(plan, outcome)
    record = record_of(run.plan, run.rows(), run.plans.__getitem__, with_items=True)
    assert record.result == run.result
    assert {visit.outcome for visit in record.visits} <= {Outcome.OK, Outcome.FAILED, Outcome.STOPPED}
    for document in (handoff_of(record, "run"), debug_document_of(record, "run")):
        assert [f for f in check([document]).findings if f.is_error] == []
    told = tell(run.plan, entries_of(run), run.plans.__getitem__)
    is_well_formed(told)
    called = {str(one.attributes[LABEL]) for one in steps(told)}
    assert {key.rpartition(".")[0] for key in run.took} <= called


def test_search_finds_what_statements_have_computed() -> None:
    run = recorded(read_plan_text(TEXT).result.require(), answer, ROWS)
    found = list(search(run.plan, iter(run.rows()), run.plans.__getitem__, finder("none")))
    assert ("value", "S2[1]/S3.let1", "$made.text") in [(one.what, one.key, one.place) for one in found]
    found = list(search(run.plan, iter(run.rows()), run.plans.__getitem__, finder("READ")))
    assert ("result", "S2[0]/S3/S1.1", "$text") in [(one.what, one.key, one.place) for one in found]


def test_time_limit_is_what_has_failed_and_reads_its_seconds() -> None:
    text = """# ltp: 2
INPUT $limit: float
TRY WITHIN ($limit) {
  WAIT (9)
} ON_FAIL TIMEOUT AS $error {
  LET $late = $error.message
}
@RESPOND ("x")
"""
    lineage = lineage_of_text(text, lambda _: 1, {"limit": 0.5})
    (error,) = (one for one in lineage.writes if one.name == "error")
    visit = lineage.visits[error.visit]
    assert (visit.path, [lineage.writes[one].name for one in visit.versions]) == ("try1", ["limit"])
    assert lineage.value_at(Node(error.id, ("error",))) == "its time is over"


def test_data_raised_as_a_failure_of_a_place_that_is_none_explains_no_other_failure() -> None:
    text = """# ltp: 2
INPUT $x: json
INPUT $y: json
TRY {
  S1: ?FOREACH ($i IN [1, 2]) {
    FAIL ($x)
  }
} ON_FAIL X {
  NOTE ("x")
}
TRY {
  FAIL ($y)
} ON_FAIL Y {
  LET $m = $error.message
}
"""
    given = {name: {"kind": name.upper(), "message": name, "step": f"of {name}"} for name in "xy"}
    lineage = lineage_of_text(text, lambda _: 1, given)
    (error,) = (
        one for one in lineage.writes if one.name == "error" and cast("Any", one.value)["kind"] == "Y"
    )
    assert shown(lineage, Node(error.id, ())) == []
