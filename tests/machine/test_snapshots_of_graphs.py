"""Snapshots of graphs, questions, approvals and doubts: the restored machine acts like the original.

Runs have random people and a random world: calls answer, fail or get lost; probes find them or not; people
approve, deny or answer late; failed graphs are replanned.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.test_graph import graphs, step
from tests.machine.test_graph import plan_of as graph_of
from tests.machine.test_laws import SEEDS
from tests.plans import FACTS, INPUTS, LIMITS, outcome, plan_of, plan_texts

from callsheet.ir import Effect, OnInDoubt, Plan
from callsheet.machine import (
    Answered,
    Ask,
    Awaited,
    CallTool,
    Cancelled,
    Decided,
    Decision,
    Doubted,
    Event,
    Failed,
    Finish,
    Limits,
    Machine,
    Probe,
    Question,
    Reopened,
    Sleep,
    Started,
    Succeeded,
    TimerFired,
    TookPlace,
    ToolFacts,
    Verdict,
    compile_plan,
)
from callsheet.machine.doubt import MOST_REDELIVERIES
from callsheet.machine.snapshots import state_from_json, state_to_json

RULES = ("READ", "WRITE", "T")
DOUBTFUL = {
    **FACTS,
    "WRITE": ToolFacts(Effect.UNSAFE, ("x", "y")),
    "KEEP": ToolFacts(Effect.KEYED, ("x", "y")),
    "FAULTY": ToolFacts(Effect.PROBE, ("x", "y"), OnInDoubt.RETRY),
    "READ": ToolFacts(Effect.UNSAFE, ("x", "y"), OnInDoubt.FAIL),
}
_MOST_EVENTS = 60


def restored(machine: Machine, approve: tuple[str, ...]) -> Machine | None:
    """The machine restored from its state as JSON text; None if it has no state at this point."""
    state = machine.state()
    data = None if state is None else state_to_json(state)
    if state is None or data is None:
        return None
    return Machine.at(state_from_json(state.program, json.loads(json.dumps(data))), None, approve)


class Life:
    """A run with every machine that was restored on the way, compared at each event."""

    def __init__(self, make: Callable[[], Machine], approve: tuple[str, ...], world: int, seed: int) -> None:
        self._chance = random.Random(seed)
        self._world = world
        self._approve = approve
        self.whole = make()
        self.others: list[Machine] = []
        self.open: dict[str, Awaited] = {}
        self._doubted: set[str] = set()
        self.kinds: set[type] = set()
        self.restored_at: set[type] = set()

    def run(self, inputs: dict[str, Any]) -> None:
        """Run to the end, comparing all machines at each event."""
        self._feed(Started(inputs))
        for _ in range(_MOST_EVENTS):
            if self.whole.result is not None:
                if not self.whole.may_reopen or self._chance.random() < 0.5:
                    return
                self._feed(Reopened())
                continue
            self._feed(self._event())
        self._feed(Cancelled("enough"))

    def _event(self) -> Event:
        chance = self._chance
        command = self.open[chance.choice(sorted(self.open))]
        key = command.key
        match command:
            case Ask(asked=asked):
                verdicts = [Verdict.APPROVE, Verdict.APPROVE, Verdict.DENY]
                if isinstance(asked, Question):
                    verdicts += [Verdict.ANSWER, Verdict.EXPIRE]
                return Answered(key, asked.digest, chance.choice(verdicts), "said", "Bo")
            case Sleep():
                return TimerFired(key)
            case Probe():
                found = chance.choice([TookPlace("found"), Decision.RETRY, None])
                return Doubted(key, "cannot tell") if found is None else Decided(key, found, by="probe")
            case CallTool() if key in self._doubted:
                self._doubted.discard(key)
                return Decided(key, chance.choice([*Decision, TookPlace("looked up")]))
            case CallTool() if chance.random() < 0.2:
                return Failed(key, "lost", unsettled=True)
            case CallTool() if chance.random() < 0.3:
                self._doubted.add(key)
                return Doubted(key, "lost")
            case _:
                return outcome(self._world, command)

    def _feed(self, event: Event) -> None:
        self.kinds.add(type(event))
        commands = self.whole.feed(event)
        for other in self.others:
            assert other.feed(event) == commands
            assert other.result == self.whole.result
            assert list(other.variables().items()) == list(self.whole.variables().items())
        self._note(event, commands)
        if self.whole.result is None:
            one = restored(self.whole, self._approve)
            if one is not None:
                self._compare(one)
                self.others.append(one)
                self.restored_at |= {type(command) for command in self.open.values()}

    def _note(self, event: Event, commands: list[Any]) -> None:
        key = getattr(event, "key", "")
        before = self.open.pop(key, None)
        if before is not None and self.whole.is_open(key):
            self.open[key] = before.call if isinstance(before, Probe) else before
        for command in commands:
            if not isinstance(command, Finish):
                self.open[command.key] = command
                if isinstance(command, Probe | Ask):
                    self._doubted.discard(command.key)

    def _compare(self, one: Machine) -> None:
        assert one.open_commands() == self.open == self.whole.open_commands()
        assert one.open_keys() == self.whole.open_keys()
        assert one.usage() == self.whole.usage()


@given(plan_texts(), SEEDS, SEEDS, st.booleans())
@settings(max_examples=150, deadline=None)
def test_questions_approvals_and_doubts_survive_snapshot(
    text: str, world: int, seed: int, asks: bool
) -> None:
    rules = RULES if asks else ()
    program = compile_plan(plan_of(text), DOUBTFUL)
    life = Life(lambda: Machine(program, LIMITS, None, rules), rules, world, seed)
    life.run(INPUTS)
    assert life.others or len(life.kinds) < 2


@given(graphs(), st.integers(1, 4), SEEDS, SEEDS, st.booleans(), st.data())
@settings(max_examples=150, deadline=None)
def test_graphs_survive_snapshot(
    graph: list[list[int]], most: int, world: int, seed: int, asks: bool, data: st.DataObject
) -> None:
    """With failures, terminating steps, retries, budgets, approvals, doubts and reopened runs."""
    extras: list[dict[str, Any]] = [
        {},
        {},
        {"on_fail": {"terminate": "stop"}},
        {"on_fail": {"retry": 1}},
        {"tool": "respond", "args": {"values": ["answer"]}},
        {"tool": "ask_human", "args": {"prompt": "well?", "timeout": 5}},
    ]
    plan = _plan(graph, [data.draw(st.sampled_from(extras)) for _ in graph])
    calls = data.draw(st.sampled_from([None, None, 3]))
    rules = RULES if asks else ()
    program = compile_plan(plan, {"T": ToolFacts(Effect.UNSAFE)})
    limits = Limits(max_concurrency=most, retry_delay=1.0, max_calls=calls)
    life = Life(lambda: Machine(program, limits, None, rules), rules, world, seed)
    life.run({})
    assert life.others or len(life.kinds) < 2


def _plan(graph: list[list[int]], extras: list[dict[str, Any]]) -> Plan:
    steps = [
        step(n + 1, *after, **({"var": f"v{n}"} if "tool" not in more else {}), **_without_args(more))
        | ({"args": more["args"]} if "args" in more else {})
        for n, (after, more) in enumerate(zip(graph, extras, strict=True))
    ]
    return graph_of(*steps)


def _without_args(more: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in more.items() if name != "args"}


def test_generated_runs_cover_every_kind_of_command() -> None:
    """The runs above include snapshots beside each kind of command."""
    seen: set[type] = set()
    text = (
        "@PARALLEL {\n S1: @FAULTY (1) > $a ON_FAIL @RETRY(1)\n S2: @WRITE (2) > $b\n"
        ' S3: @ASK_HUMAN ("well?") > $c\n S4: @KEEP (3) > $d ON_FAIL @RETRY(2)\n}\nS5: @RESPOND ($a)'
    )
    for seed in range(40):
        program = compile_plan(plan_of(text), DOUBTFUL)
        life = Life(lambda program=program: Machine(program, LIMITS, None, RULES), RULES, seed, seed)
        life.run(INPUTS)
        seen |= life.restored_at
    assert {Ask, Probe, CallTool, Sleep} <= seen


@pytest.mark.parametrize("asks", [True, False])
def test_graph_step_is_never_started_twice(asks: bool) -> None:
    plan = graph_of(step(1, var="a"), step(2, 1, var="b"), step(3, 1, var="c"), step(4, 2, 3, var="d"))
    rules = ("T",) if asks else ()
    machine = Machine(compile_plan(plan), None, None, rules)
    commands, begun = machine.feed(Started({})), list[str]()
    while machine.result is None:
        begun += [command.key for command in commands if isinstance(command, CallTool)]
        machine = restored(machine, rules) or pytest.fail("nothing to restore")
        (key, command), *_ = machine.open_commands().items()
        commands = machine.feed(
            Answered(key, command.asked.digest, Verdict.APPROVE)
            if isinstance(command, Ask)
            else Succeeded(key, "x")
        )
    assert begun == ["1.0.1", "2.0.1", "3.0.1", "4.0.1"]


def test_redelivery_count_survives_snapshot() -> None:
    """A retry policy redelivers a bounded number of times; then a person must decide."""
    retrying = {"WRITE": ToolFacts(Effect.IDEMPOTENT, ("x",), OnInDoubt.RETRY)}
    machine = Machine(compile_plan(plan_of("S1: @WRITE (1) > $a"), retrying))
    machine.feed(Started({}))
    for _ in range(MOST_REDELIVERIES):
        assert machine.feed(Doubted("S1.0.1", "lost"))
        machine = restored(machine, ()) or pytest.fail("nothing to restore")
    assert machine.feed(Doubted("S1.0.1", "lost")) == []
