"""A call in doubt: first its probe, then its tool's setting, then a person decides."""

from __future__ import annotations

import pytest

from callsheet.frontends.ltp import parse
from callsheet.ir import Effect, OnInDoubt
from callsheet.machine import (
    CallTool,
    Cancelled,
    Command,
    Decided,
    Decision,
    Doubted,
    Failed,
    Limits,
    Machine,
    Probe,
    Result,
    Started,
    Status,
    TookPlace,
    ToolFacts,
    compile_plan,
)
from callsheet.machine.doubt import MOST_REDELIVERIES

PLAN = 'S1: @PAY (n=1) > $a:int ON_FAIL @RETRY(2, delay=0)\nS2: @RESPOND ("got", $a)'


def begun(facts: ToolFacts, limits: Limits | None = None) -> tuple[Machine, Command]:
    machine = Machine(compile_plan(parse(PLAN).require(), {"PAY": facts}), limits)
    (call,) = machine.feed(Started({}))
    return machine, call


def ended(machine: Machine) -> Result:
    assert machine.result is not None
    return machine.result


def test_decided_value_is_cast() -> None:
    machine, _ = begun(ToolFacts())
    assert machine.feed(Doubted("S1.0.1", "lost")) == []
    machine.feed(Decided("S1.0.1", TookPlace("7")))
    assert ended(machine).variables["a"] == 7


def test_by_default_call_in_doubt_stays_open() -> None:
    machine, _ = begun(ToolFacts())
    assert machine.feed(Doubted("S1.0.1", "lost")) == []
    assert machine.open_keys() == ("S1.0.1",)


def test_fail_policy_makes_no_further_attempt() -> None:
    """A planned retry would repeat a call that may have happened."""
    machine, _ = begun(ToolFacts(on_in_doubt=OnInDoubt.FAIL))
    commands = machine.feed(Doubted("S1.0.1", "lost"))
    assert not any(isinstance(command, CallTool) for command in commands)
    assert "the policy is to fail it" in ended(machine).response


def test_retry_policy_redelivers_until_bound() -> None:
    machine, call = begun(ToolFacts(on_in_doubt=OnInDoubt.RETRY))
    for _ in range(MOST_REDELIVERIES):
        assert machine.feed(Doubted("S1.0.1", "lost")) == [call]
    assert machine.feed(Doubted("S1.0.1", "lost")) == []
    assert machine.open_keys() == ("S1.0.1",)


def test_repeated_call_counts_against_budget() -> None:
    machine, _ = begun(ToolFacts(on_in_doubt=OnInDoubt.RETRY), Limits(max_calls=1))
    machine.feed(Doubted("S1.0.1", "lost"))
    assert ended(machine).status is Status.FAILED
    assert "max_calls" in str(ended(machine).error)


def test_probe_runs_before_question() -> None:
    machine, call = begun(ToolFacts(Effect.PROBE))
    assert machine.feed(Doubted("S1.0.1", "lost")) == [Probe("S1.0.1", "S1", call)]
    machine.feed(Decided("S1.0.1", TookPlace("7"), by="probe"))
    assert ended(machine).variables["a"] == 7


def test_call_not_found_by_probe_is_repeated_bounded_times() -> None:
    machine, call = begun(ToolFacts(Effect.PROBE))
    for _ in range(MOST_REDELIVERIES):
        machine.feed(Doubted("S1.0.1", "lost"))
        assert machine.feed(Decided("S1.0.1", Decision.RETRY, by="probe")) == [call]
    machine.feed(Doubted("S1.0.1", "lost"))
    assert machine.feed(Decided("S1.0.1", Decision.RETRY, by="probe")) == []
    assert machine.feed(Decided("S1.0.1", Decision.RETRY)) == [call]


def test_inconclusive_probe_falls_back_to_policy() -> None:
    machine, _ = begun(ToolFacts(Effect.PROBE, on_in_doubt=OnInDoubt.FAIL))
    machine.feed(Doubted("S1.0.1", "lost"))
    machine.feed(Doubted("S1.0.1", "the probe cannot tell"))
    assert ended(machine).status is Status.DONE


@pytest.mark.parametrize(("unsettled", "delivery"), [(True, "S1.0.1"), (False, "")])
def test_retry_is_redelivery_only_after_lost_answer(unsettled: bool, delivery: str) -> None:
    machine, _ = begun(ToolFacts(Effect.KEYED))
    (again,) = machine.feed(Failed("S1.0.1", "no", unsettled=unsettled))
    assert isinstance(again, CallTool)
    assert (again.key, again.delivery) == ("S1.0.2", delivery)


def test_definite_failure_ends_delivery() -> None:
    machine, _ = begun(ToolFacts(Effect.KEYED))
    machine.feed(Failed("S1.0.1", "lost", unsettled=True))
    (third,) = machine.feed(Failed("S1.0.2", "refused"))
    assert isinstance(third, CallTool)
    assert third.delivery == ""


def test_run_in_doubt_can_be_cancelled_and_issues_no_commands() -> None:
    machine, _ = begun(ToolFacts(Effect.PROBE))
    machine.feed(Doubted("S1.0.1", "lost"))
    machine.feed(Cancelled("enough"))
    assert ended(machine).status is Status.CANCELLED
    assert machine.feed(Decided("S1.0.1", Decision.RETRY)) == []
