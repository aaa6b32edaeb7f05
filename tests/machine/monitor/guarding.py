"""Runs under a policy of a few rules: reads are private, sends must be public."""

from __future__ import annotations

from collections.abc import Mapping

from tests.machine.driving import Bench, plan_of

from callsheet.ir import JSON, Effect, Plan
from callsheet.ir.labels import LITERAL, Label, join, read_label
from callsheet.machine import Limits, Machine, Started, ToolFacts, compile_plan
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.machine.monitor.monitor import Monitor
from callsheet.policy.calls import CallView, Judgement, Objection, Rule
from callsheet.policy.model import Implicit, Policy

PRIVATE, WEB, ANSWER = read_label("U/priv"), read_label("U/pub"), read_label("T/priv")
FACTS = {
    "READ": ToolFacts(Effect.READ, ("x", "y")),
    "SEARCH": ToolFacts(Effect.READ, ("x", "y")),
    "KEEP": ToolFacts(Effect.IDEMPOTENT, ("x", "y")),
    "SEND": ToolFacts(Effect.UNSAFE, ("x", "y")),
    "PAY": ToolFacts(Effect.UNSAFE, ("x", "y")),
}
"""@READ is private, @SEARCH is the web's, @KEEP gives what it gets, @SEND is public, @PAY needs a yes."""


def judge(call: CallView) -> Judgement:
    """The rules of these tests."""
    taken = join([call.pc, *(argument.label for argument in call.arguments)])
    if call.tool == "SEND" and not taken.is_public:
        wrong = next((a.name for a in call.arguments if not a.label.is_public), None)
        return Judgement((Objection(Rule.FLOW, "private data would reach the outside", wrong, "ask first"),))
    if call.tool == "PAY":
        if call.pc.untrusted:
            return Judgement((Objection(Rule.CONSEQUENTIAL, "untrusted data would decide"),))
        return Judgement(approvals=() if call.approved else ("it pays",), result=LITERAL)
    if call.tool in ("RESPOND", "TERMINATE", "RE-PLAN") and taken.is_secret:
        return Judgement((Objection(Rule.ANSWER, "it is secret"),))
    given = {"READ": PRIVATE, "SEARCH": WEB, "VAULT": read_label("T/secret"), "ASK_HUMAN": ANSWER}
    return Judgement(result=taken.join(given.get(call.tool, LITERAL)))


def enforcement(*, strict: bool = False, inputs: Mapping[str, Label] | None = None) -> Enforcement:
    """The rules as passed to a run."""
    policy = Policy(implicit=Implicit.STRICT if strict else Implicit.BOUNDED)
    return Enforcement(policy, judge, inputs or {})


class Guarded(Bench):
    """A machine under the rules."""

    def __init__(
        self,
        plan: str | Plan,
        *,
        limits: Limits | None = None,
        facts: Mapping[str, ToolFacts] = FACTS,
        inputs: Mapping[str, JSON] | None = None,
        strict: bool = False,
        labels: Mapping[str, Label] | None = None,
    ) -> None:
        self.notes = []
        program = compile_plan(plan_of(plan) if isinstance(plan, str) else plan, facts)
        rules = enforcement(strict=strict, inputs=labels)
        self.machine = Machine(program, limits, self.notes.append, enforcement=rules)
        self.waiting = {}
        self.feed(Started(inputs or {}))

    @property
    def monitor(self) -> Monitor:
        assert self.machine.monitor is not None
        return self.machine.monitor

    def label(self, name: str) -> str:
        """The label of a variable."""
        return str(self.monitor.variables()[name][0])

    def origins(self, name: str) -> tuple[str, ...]:
        """The steps that produced a variable."""
        return self.monitor.variables()[name][1]
