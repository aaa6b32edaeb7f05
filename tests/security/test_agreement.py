"""A proved plan is not refused during the run: same rules, with the values known by then."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest
from tests.conformance.security import policy_of, read_plan, read_security_cases

from callsheet.ir import Effect, Plan
from callsheet.machine import (
    Answered,
    Approval,
    Ask,
    CallTool,
    Command,
    Compile,
    Event,
    Failed,
    Finish,
    Limits,
    Machine,
    Sleep,
    Status,
    Succeeded,
    TimerFired,
    ToolFacts,
    Verdict,
    compile_plan,
)
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.machine.program import Loop
from callsheet.passes.verify import verify
from callsheet.policy.builtins import BUILTINS
from callsheet.policy.model import Policy
from callsheet.runtime.simulated import Simulation

CASES = read_security_cases(Path(__file__).parent.parent / "conformance" / "cases" / "security.jsonl")
FACTS = {name: ToolFacts(Effect.READ, traits.parameters) for name, traits in BUILTINS.items()}
FACTS["AGENT_SOLVE"] = ToolFacts(loop=Loop(("WEB_SEARCH",)))
_VALUES = ("one", "two\nthree", '["a", "b"]', "", "7")


def _accepted() -> list[tuple[str, Plan, Policy]]:
    found: list[tuple[str, Plan, Policy]] = []
    for case in CASES:
        plan, errors = read_plan(case.plan)
        if case.must == "accept" and plan is not None and not errors:
            found.append((case.id, plan, policy_of(case.policy)))
    return found


def _respond(world: int, command: Command) -> tuple[float, Event]:
    assert not isinstance(command, Finish)
    key = command.key
    dice = crc32(f"{world}:{key}".encode())
    match command:
        case Sleep():
            return 1.0, TimerFired(key)
        case Ask(asked=asked):
            verdict = Verdict.APPROVE if isinstance(asked, Approval) else Verdict.ANSWER
            return 1.0, Answered(key, asked.digest, verdict, None if isinstance(asked, Approval) else "yes")
        case Compile():
            return 1.0, Failed(key, "no plan")
        case CallTool() if dice % 5 == 0:
            return 1.0, Failed(key, "it failed")
        case _:
            return 1.0, Succeeded(key, _VALUES[dice % len(_VALUES)])


@pytest.mark.parametrize(("plan", "policy"), [pytest.param(p, q, id=i) for i, p, q in _accepted()])
def test_accepted_plan_runs_to_end(plan: Plan, policy: Policy) -> None:
    assert verify(plan, policy).ok
    for world in range(12):
        program = compile_plan(plan, FACTS)
        limits = Limits(max_steps=200, retry_delay=0.0)
        machine = Machine(program, limits, enforcement=Enforcement.under(policy))
        run = Simulation(machine, lambda command, world=world: _respond(world, command))
        result = run.run(None)
        # an address that only data tells is looked at when it is known: the proof leaves that to the run
        is_address = result.objection is not None and result.objection.rule == "address"
        assert result.status is not Status.REFUSED or is_address, result.objection
