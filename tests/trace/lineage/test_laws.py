"""For every plan and run: the lineage is the slice of an independent recorder; states are equal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.machine.agent_loops.test_laws import FACTS as AGENT_FACTS
from tests.machine.agent_loops.test_laws import plans as agent_plans
from tests.machine.test_graph import graphs
from tests.plans import FACTS, LIMITS, duration, plan_of, plan_texts
from tests.trace.lineage.recording import INPUTS, Recorded, marked_outcome, marks

from callsheet.api.policies import load_policy
from callsheet.ir import JSON, Call, Order, Output, Plan, Ref, Step
from callsheet.machine import Command, Event, Status, ToolFacts
from callsheet.policy.model import Policy
from callsheet.store.replay import fold
from callsheet.trace.lctl.check import check
from callsheet.trace.lineage.lineage import NONE, Lineage, ValueSource
from callsheet.trace.lineage.reads import Role
from callsheet.trace.lineage.slices import Node, backward, flows_into, forward, item_at, reached_by
from callsheet.trace.projection.post_mortem import debug_document_of
from callsheet.trace.projection.project import handoff_of
from callsheet.trace.projection.recording import record_of

SEEDS = st.integers(0, 2**32 - 1)
Facts: TypeAlias = "Mapping[str, ToolFacts]"
POLICIES = [load_policy(name) for name in ("open", "workspace")]
"""The first asks before each call of a tool that it does not know, the second refuses it."""
SECOND = plan_of('S1: ?FOREACH ($i IN $a) THEN @READ ($i) > $c ON_FAIL @RETRY(1)\nS2: @RESPOND ("$a", $c)')


def recorded(plan: Plan, world: int, schedule: int, inputs: dict[str, JSON] = INPUTS) -> Recorded:
    def respond(command: Command) -> tuple[float, Event]:
        return duration(schedule, getattr(command, "key", "")), marked_outcome(world, SECOND, command)

    return Recorded(plan, LIMITS, respond, inputs)


def data_behind(lineage: Lineage, start: Node) -> set[str]:
    """The calls and inputs that a lineage finds in a value through arguments, as marks do."""
    found: set[str] = set()
    waiting, seen = [start], {start}
    while waiting:
        node = waiting.pop()
        value = lineage.value_at(node)
        if not marks(value):
            continue  # nothing stands at this place, or a cast has made something else of it
        write = lineage.writes[node.write]
        if write.made is ValueSource.INPUT:
            found.add(f"in:{write.name}")
        elif write.visit != NONE:
            visit = lineage.visits[write.visit]
            item, _ = item_at(lineage, visit, node.path)
            for flow in flows_into(lineage, node):
                if flow.role is Role.ARGUMENT and flow.node.write != NONE and flow.node not in seen:
                    seen.add(flow.node)
                    waiting.append(flow.node)
            found |= {
                lineage.last_key(visit, n)
                for n in ([item] if item is not None else lineage.items_of(visit))
                if lineage.last_key(visit, n) in marks(value)
            }
    return found


def places(name: str, write: int, value: JSON, lineage: Lineage) -> list[tuple[Node, JSON]]:
    """The value of a variable, and each member of the list of a FOREACH."""
    made = lineage.writes[write]
    found: list[tuple[Node, JSON]] = [(Node(write, ()), value)]
    is_gathered = made.visit != NONE and lineage.step(lineage.visits[made.visit]).foreach is not None
    if is_gathered and isinstance(value, list):
        found += [(Node(write, (n,)), member) for n, member in enumerate(value)]
    return found


def is_held(run: Recorded) -> None:
    lineage = run.lineage()
    for name, write in lineage.current.items():
        for node, value in places(name, write, run.result.variables[name], lineage):
            assert lineage.value_at(node) == value
            assert data_behind(lineage, node) == run.ancestors(value), (name, node)
    if run.result.status is Status.DONE and lineage.answer != NONE:
        behind = data_behind(lineage, Node(lineage.answer, ()))
        assert behind == run.ancestors(run.result.response)


@given(plan_texts(), SEEDS, SEEDS)
@settings(max_examples=150, deadline=None)
def test_lineage_equals_slice_of_independent_recorder(text: str, world: int, schedule: int) -> None:
    is_held(recorded(plan_of(text.replace(":bool", "")), world, schedule))


def followed(
    text: str, world: int, schedule: int, facts: Facts = FACTS, policy: Policy | None = None
) -> Recorded:
    def respond(command: Command) -> tuple[float, Event]:
        return duration(schedule, getattr(command, "key", "")), marked_outcome(world, SECOND, command)

    return Recorded(plan_of(text.replace(":bool", "")), LIMITS, respond, INPUTS, facts, policy)


@given(agent_plans, SEEDS, SEEDS)
@settings(max_examples=60, deadline=None)
def test_lineage_agrees_for_agents(text: str, world: int, schedule: int) -> None:
    """Without retries: a second attempt receives the output of the first, with its marks."""
    once = re.sub(r"@RETRY\(\d+\) (?=GOTO|TERMINATE)| ON_FAIL +@RETRY\(\d+\)(?! GOTO| TERMINATE)", "", text)
    is_held(followed(once, world, schedule, AGENT_FACTS))


@given(plan_texts(), SEEDS, SEEDS, st.sampled_from(POLICIES))
@settings(max_examples=60, deadline=None)
def test_lineage_agrees_under_policies(text: str, world: int, schedule: int, policy: Policy) -> None:
    run = followed(text, world, schedule, policy=policy)
    assert run.start.policy is not None
    is_held(run)


@given(agent_plans, SEEDS, SEEDS, st.sampled_from([None, *POLICIES]))
@settings(max_examples=60, deadline=None)
def test_fold_up_to_event_equals_machine_with_agents_and_policies(
    text: str, world: int, schedule: int, policy: Policy | None
) -> None:
    run = followed(text, world, schedule, AGENT_FACTS, policy)
    for seq, (variables, open_keys) in enumerate(run.states, 1):
        lineage = run.lineage(seq)
        assert {name: lineage.writes[w].value for name, w in lineage.current.items()} == variables
        folded = fold(run.plan, run.rows()[:seq], run.plans.__getitem__)
        assert folded.machine.variables() == variables
        if folded.machine.result is None:
            assert set(folded.waiting) == open_keys


@given(agent_plans, SEEDS, SEEDS, st.sampled_from([None, *POLICIES]))
@settings(max_examples=60, deadline=None)
def test_documents_break_no_rule_with_agents_and_policies(
    text: str, world: int, schedule: int, policy: Policy | None
) -> None:
    run = followed(text, world, schedule, AGENT_FACTS, policy)
    record = record_of(run.plan, run.rows(), run.plans.__getitem__, with_items=True)
    assert record.result == run.result
    for document in (handoff_of(record, "run"), debug_document_of(record, "run")):
        assert [f.rule for f in check([document]).findings if f.is_error] == []


def graph_of(shape: list[list[int]]) -> Plan:
    """A graph whose steps read their dependencies."""
    steps = [
        Step(
            str(n),
            Call("FAULTY" if n % 5 == 0 else "READ", (), tuple((f"x{m}", Ref(f"v{m}")) for m in after)),
            output=Output(f"v{n}"),
            depends_on=tuple(map(str, after)),
        )
        for n, after in enumerate(shape, 1)
    ]
    return Plan(tuple(steps), Order.DAG)


@given(graphs(), SEEDS, SEEDS)
@settings(max_examples=60, deadline=None)
def test_lineage_agrees_for_graphs(shape: list[list[int]], world: int, schedule: int) -> None:
    is_held(recorded(graph_of(shape), world, schedule, {}))


@given(plan_texts(), SEEDS, SEEDS)
@settings(max_examples=80, deadline=None)
def test_writes_up_to_event_equal_machine_variables(text: str, world: int, schedule: int) -> None:
    run = recorded(plan_of(text), world, schedule)
    for seq, (variables, _) in enumerate(run.states, 1):
        lineage = run.lineage(seq)
        assert {name: lineage.writes[write].value for name, write in lineage.current.items()} == variables


@given(plan_texts(), SEEDS, SEEDS)
@settings(max_examples=60, deadline=None)
def test_fold_up_to_event_equals_machine(text: str, world: int, schedule: int) -> None:
    run = recorded(plan_of(text), world, schedule)
    for seq, (variables, open_keys) in enumerate(run.states, 1):
        folded = fold(run.plan, run.rows()[:seq], run.plans.__getitem__)
        assert folded.machine.variables() == variables
        if folded.machine.result is None:
            assert set(folded.waiting) == open_keys


SHRINKING = """S1: ?FOREACH ($i IN $a) THEN @READ ($i, $b) > $a ON_FAIL GOTO S1
S2: GOTO S1
S3: @RESPOND ("end $a", $b, $c)"""
"""A loop over its own results, of which a failure leaves fewer: the others led to that as well."""
ENDED_EARLY = """S1: ?FOREACH ($i IN ["x", $a, $b]) THEN @LLM_EXTRACT ($i, target="t") > $b
S2: ?FOREACH ($i IN $b) THEN @WRITE ($i, $a) > $a ON_FAIL TERMINATE ("ended $a $i")
S3: @RESPOND ("end $a", $b, $c)"""
"""A loop that ends the run at its first item: the items that it has not come to are part of what it read."""


@given(plan_texts(), SEEDS, SEEDS)
@example(SHRINKING, 0, 0)
@example(ENDED_EARLY, 0, 0)
@settings(max_examples=80, deadline=None)
def test_forward_lineage_inverts_backward(text: str, world: int, schedule: int) -> None:
    """The sources of a value lead to it; a call that contains a mark was reached by its maker."""
    lineage = recorded(plan_of(text), world, schedule).lineage()
    for name, write in lineage.current.items():
        for source in backward(lineage, Node(write, ())):
            led_to = {node.write for node in forward(lineage, source)}
            assert write in led_to, (name, source)


@given(plan_texts(), SEEDS, SEEDS)
@settings(max_examples=80, deadline=None)
def test_call_with_input_is_reached_by_it(text: str, world: int, schedule: int) -> None:
    run = recorded(plan_of(text), world, schedule)
    lineage = run.lineage()
    for given_ in (w for w in lineage.writes if w.made is ValueSource.INPUT):
        reached = {call.key for call in reached_by(lineage, forward(lineage, Node(given_.id, ())))}
        asked = {key for key in lineage.commands if key in run.took}
        took = {
            key for key in asked if f"in:{given_.name}" in run.ancestors([f"⟦{m}⟧" for m in run.took[key]])
        }
        visited = {key for visit in lineage.visits for key in lineage.keys_of(visit)}
        assert took & visited <= reached
