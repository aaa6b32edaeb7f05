"""An agent's token after a resume: turns and calls already used, from its journal."""

from __future__ import annotations

import pytest
from tests.machine.agent_loops.solving import FACTS as AGENTS
from tests.machine.agent_loops.solving import act, acts, agent
from tests.machine.monitor.guarding import Guarded

from callsheet.ir.labels import LITERAL, read_label
from callsheet.machine.agents.actions import Allowance
from callsheet.policy.model import AgentRule, Policy
from callsheet.runtime.capabilities import Call, Task, Tasks, TokenRefused, Tokens, tasks_of

PLAN = 'S1: @READ ("x") > $x\nS2: @AGENT_SOLVE (goal="find $x", tools=["read", "keep"], parallel=2) > $a'


def at_work() -> Guarded:
    """A run whose agent had two turns, made two calls, was refused one, and waits for a third answer."""
    bench = Guarded(PLAN, facts=AGENTS)
    bench.ok("S1.0.1", "it")
    bench.ok("S2.0.1/t1", acts(act("read", x=1), act("pay", x=1)))
    bench.ok("S2.0.1/t1c1", "seen")
    bench.ok("S2.0.1/t2", act("keep", x=2))
    bench.ok("S2.0.1/t2c1", "kept")
    assert bench.keys == ["S2.0.1/t3"]
    return bench


def test_answered_turns_and_made_calls_count_as_used() -> None:
    (task,) = tasks_of(at_work().machine).values()
    assert (task.step, task.label) == ("S2", read_label("U/priv"))
    assert task.turns == ("S2.0.1/t1", "S2.0.1/t2")
    assert task.calls == ("S2.0.1/t1c1", "S2.0.1/t2c1")


def test_calls_of_current_turn_count_once_answered() -> None:
    bench = Guarded(PLAN, facts=AGENTS)
    bench.ok("S1.0.1", "it")
    bench.ok("S2.0.1/t1", acts(act("read", x=1), act("read", x=2)))
    bench.ok("S2.0.1/t1c1", "seen")
    (task,) = tasks_of(bench.machine).values()
    assert task.calls == ("S2.0.1/t1c1",)


def test_agent_without_policy_has_no_task() -> None:
    assert tasks_of(agent().machine) == {}


def tokens(rule: AgentRule | None, task: Task) -> Tokens:
    return Tokens(Policy(agent=rule), "r1", "h", Tasks({"S2.0.1": task}), lambda: 100.0)


def used(turns: int = 0, calls: int = 0) -> Task:
    return Task(
        "S2",
        Allowance(("READ",), 5, None),
        LITERAL,
        tuple(f"S2.0.1/t{n}" for n in range(1, turns + 1)),
        tuple(f"S2.0.1/t{n}c1" for n in range(1, calls + 1)),
    )


def test_usage_before_resume_is_not_granted_again() -> None:
    made = tokens(AgentRule(tools=("READ",), max_turns=3, max_calls=2), used(turns=3, calls=2))
    token, ledger = made.token_of("S2.0.1")
    capability = made.read(token)
    ledger.turn(capability, "S2.0.1/t3", 101.0)  # it is asked again, as nobody knows whether it was answered
    with pytest.raises(TokenRefused, match="3 turns"):
        ledger.turn(capability, "S2.0.1/t4", 101.0)
    ledger.call(capability, "r1", "S2.0.1", Call("READ", {}, "S2.0.1/t2c1"), 101.0)
    with pytest.raises(TokenRefused, match="2 calls"):
        ledger.call(capability, "r1", "S2.0.1", Call("READ", {}, "S2.0.1/t3c1"), 101.0)


def test_task_has_one_token_and_unknown_task_none() -> None:
    made = tokens(AgentRule(tools=("READ",)), used())
    assert made.token_of("S2.0.1") is made.token_of("S2.0.1")
    with pytest.raises(TokenRefused, match="has none"):
        made.token_of("S3.0.1")


def test_policy_without_agents_signs_no_token_for_running_one() -> None:
    with pytest.raises(TokenRefused, match="allows no agents"):
        tokens(None, used()).token_of("S2.0.1")
