"""Within an agent: approvals, calls in doubt, and questions to people."""

from __future__ import annotations

import pytest
from tests.machine.agent_loops.solving import FACTS, PLAN, act, acts, done, question
from tests.machine.driving import Bench, plan_of

from callsheet.ir import Effect
from callsheet.machine import (
    Answered,
    Approval,
    Ask,
    CallTool,
    Decided,
    Decision,
    Doubted,
    Failed,
    Machine,
    Probe,
    TookPlace,
    ToolFacts,
    Verdict,
    compile_plan,
)
from callsheet.machine.agents.actions import CallOutcome


class Guarded(Bench):
    """An agent whose writes need approval."""

    def __init__(self, plan: str = PLAN, approve: tuple[str, ...] = ("WRITE",)) -> None:
        self.notes = []
        self.machine = Machine(compile_plan(plan_of(plan), FACTS), None, self.notes.append, approve)
        self.waiting = {}
        from callsheet.machine import Started

        self.feed(Started({}))

    def ask(self, key: str) -> Ask:
        command = self.waiting[key]
        assert isinstance(command, Ask)
        return command

    def answer(self, key: str, verdict: Verdict = Verdict.APPROVE, **more: object) -> None:
        self.feed(Answered(key, self.ask(key).asked.digest, verdict, **more))  # type: ignore[arg-type]


def test_agent_call_needing_approval_is_asked_with_arguments() -> None:
    bench = Guarded()
    bench.ok("S1.0.1/t1", act("write", x=1))
    asked = bench.ask("S1.0.1/t1c1").asked
    assert isinstance(asked, Approval)
    assert (asked.tool, asked.args) == ("WRITE", {"x": 1})
    bench.answer("S1.0.1/t1c1")
    assert isinstance(bench.waiting["S1.0.1/t1c1"], CallTool)
    bench.ok("S1.0.1/t1c1", "written")
    bench.ok("S1.0.1/t2", act("read", x=1))
    assert isinstance(bench.waiting["S1.0.1/t2c1"], CallTool)


def test_denied_call_is_reported_to_model_costs_nothing_and_is_not_asked_again() -> None:
    bench = Guarded()
    bench.ok("S1.0.1/t1", act("write", x=1))
    bench.answer("S1.0.1/t1c1", Verdict.DENY, by="Ada", note="not on Friday")
    (seen,) = question(bench).turns[0].seen
    assert (seen.outcome, seen.value) == (CallOutcome.REFUSED, "denied by Ada: not on Friday")
    assert bench.machine.usage().calls_by_tool == {"AGENT_SOLVE": 2}
    bench.ok("S1.0.1/t2", act("write", x=1))
    assert bench.keys == ["S1.0.1/t3"]


def test_agent_needing_approval_is_asked_once() -> None:
    bench = Guarded(approve=("AGENT_SOLVE",))
    bench.answer("S1.0.1")
    bench.ok("S1.0.1/t1", act("write", x=1))
    bench.ok("S1.0.1/t1c1")
    assert bench.keys == ["S1.0.1/t2"]


def test_agent_may_ask_person_if_step_allows() -> None:
    bench = Bench(
        'S1: @AGENT_SOLVE ("g", tools=["ask_human"]) > $a',
        facts={**FACTS, "ASK_HUMAN": ToolFacts(Effect.READ, ("prompt",))},
    )
    bench.ok("S1.0.1/t1", act("ask_human", prompt="which one?"))
    ask = bench.waiting["S1.0.1/t1c1"]
    assert isinstance(ask, Ask)
    bench.feed(Answered("S1.0.1/t1c1", ask.asked.digest, Verdict.ANSWER, "the red one"))
    assert question(bench).turns[0].seen[0].value == "the red one"


# ---------------------------------------------------------------- in doubt


def writing(tool: str = "write", facts: dict[str, ToolFacts] | None = None) -> Bench:
    plan = f'S1: @AGENT_SOLVE ("g", tools=["{tool}", "read"]) > $a'
    bench = Bench(plan, facts={**FACTS, **(facts or {})})
    bench.ok("S1.0.1/t1", act(tool, x=1))
    return bench


def test_call_in_doubt_stays_open_until_decided() -> None:
    bench = writing()
    bench.machine.feed(Doubted("S1.0.1/t1c1", "lost"))
    assert bench.machine.open_keys() == ("S1.0.1/t1c1",)
    bench.feed(Decided("S1.0.1/t1c1", TookPlace("paid")))
    assert question(bench).turns[0].seen[0].value == "paid"


def test_call_decided_as_failed_is_not_repeated_by_model() -> None:
    bench = writing()
    bench.machine.feed(Doubted("S1.0.1/t1c1", "lost"))
    bench.decide("S1.0.1/t1c1", Decision.FAIL)
    bench.ok("S1.0.1/t2", act("write", x=1))
    assert bench.keys == ["S1.0.1/t3"]
    assert "not known" in str(question(bench).turns[1].seen[0].value)


@pytest.mark.parametrize("decision", [Decision.RETRY, Decision.SKIP])
def test_call_in_doubt_may_be_retried_or_skipped(decision: Decision) -> None:
    bench = writing()
    bench.machine.feed(Doubted("S1.0.1/t1c1", "lost"))
    bench.decide("S1.0.1/t1c1", decision)
    if decision is Decision.RETRY:
        assert bench.keys == ["S1.0.1/t1c1"]
        bench.ok("S1.0.1/t1c1", None)
    assert question(bench).turns[0].seen[0].value is None


def test_fail_policy_is_reported_to_model() -> None:
    bench = writing("give_up")
    bench.feed(Doubted("S1.0.1/t1c1", "lost"))
    assert question(bench).turns[0].seen[0].outcome is CallOutcome.LOST


def test_probe_runs_first() -> None:
    bench = writing("pay", {"PAY": ToolFacts(Effect.PROBE, ("x",))})
    bench.feed(Doubted("S1.0.1/t1c1", "lost"))
    assert isinstance(bench.waiting["S1.0.1/t1c1"], Probe)
    bench.feed(Decided("S1.0.1/t1c1", TookPlace(7), by="probe"))
    assert question(bench).turns[0].seen[0].value == 7


def test_same_keyed_call_after_lost_answer_is_redelivery() -> None:
    bench = writing("pay")
    for turn in (1, 2):
        bench.feed(Failed(f"S1.0.1/t{turn}c1", "no answer", unsettled=True))
        bench.ok(f"S1.0.1/t{turn + 1}", act("pay", x=1))
        if turn == 1:
            call = bench.waiting["S1.0.1/t2c1"]
            assert isinstance(call, CallTool)
            assert call.delivery == "S1.0.1/t1c1"
    assert bench.keys == ["S1.0.1/t4"], "it has failed twice"


def test_other_calls_of_turn_run_while_one_waits_for_approval() -> None:
    bench = Guarded(
        'S1: @AGENT_SOLVE ("g", tools=["read", "keep"], parallel=2) > $a\nS2: @RESPOND ($a)', ("KEEP",)
    )
    bench.ok("S1.0.1/t1", acts(act("keep", x=1), act("read", x=2)))
    assert isinstance(bench.waiting["S1.0.1/t1c2"], CallTool)
    bench.ok("S1.0.1/t1c2", "read")
    bench.answer("S1.0.1/t1c1")
    bench.ok("S1.0.1/t1c1", "kept")
    bench.ok("S1.0.1/t2", done("end"))
    assert bench.result.response == "end"
