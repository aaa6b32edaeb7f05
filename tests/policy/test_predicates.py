"""Predicates of policies: decided on real arguments, and closed where they cannot be decided."""

from __future__ import annotations

import sys

import pytest

from callsheet.diagnostics import CallsheetError
from callsheet.ir.labels import LITERAL
from callsheet.policy.calls import Argument, CallView, Hole, Judgement, Rule
from callsheet.policy.judge import Judge
from callsheet.policy.model import CallRule, Policy, ToolRule
from callsheet.policy.predicates import compile_rules


def holds(when: str, **args: object) -> bool:
    rule = CallRule(tool="SEND_MONEY", when=when, then="approve")
    return compile_rules([rule])[rule](args)  # pyright: ignore[reportArgumentType]


def test_a_predicate_is_decided_on_the_arguments() -> None:
    assert holds("args.amount > 100.0", amount=150)
    assert not holds("args.amount > 100.0", amount=10)
    assert holds("args.to.endsWith('@corp.example') == false", to="eve@evil.example")


@pytest.mark.parametrize("args", [{}, {"amount": "150"}, {"amount": None}, {"amount": [1]}])
def test_what_cannot_be_decided_holds(args: dict[str, object]) -> None:
    assert holds("args.amount > 100.0", **args)
    assert holds("args.amount <= 100.0", **args)


def test_a_predicate_that_gives_no_truth_value_holds() -> None:
    assert holds("args.amount", amount=0)


def test_a_predicate_that_is_none_refuses_the_policy() -> None:
    with pytest.raises(CallsheetError, match="POL003") as caught:
        holds("args.amount >")
    assert "args.amount >" in caught.value.diagnostics[0].message


def test_a_predicate_that_forgets_where_arguments_are_refuses_the_policy() -> None:
    with pytest.raises(CallsheetError, match="POL003") as caught:
        holds("amount > 100.0")
    (found,) = caught.value.diagnostics
    assert found.help == "the arguments of the call are in args: args.amount"
    assert holds("true")
    assert not holds("args.of.exists(one, one > 2)", of=[1, 2])


def test_without_the_extra_the_policy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cel", None)
    with pytest.raises(CallsheetError, match="POL009"):
        holds("true")


def test_a_rule_asks_or_refuses_by_the_arguments_of_the_call() -> None:
    tools = {"PAY": ToolRule(egress=False, destructive=False, control=("amount",))}
    asks = CallRule(tool="PAY", when="args.amount > 100.0", then="approve")
    refuses = CallRule(tool="PAY", when="args.amount > 1000.0", then="refuse")
    judge = Judge(Policy(tools=tools, rules=(asks, refuses)))

    def judged(amount: str | Hole) -> Judgement:
        return judge.judge(CallView("S1", "PAY", (Argument("amount", (amount,)),)))

    assert not judged("50").approvals
    assert judged("500").approvals == ("the policy asks for a yes to @PAY where args.amount > 100.0",)
    assert [o.rule for o in judged("5000").objections] == [Rule.PREDICATE]
    assert judged("much").objections, "what cannot be decided holds"
    for odd in ("[" * 100_000 + "]" * 100_000, "9" * 5_000, "NaN", "-Infinity", "-1e999"):
        assert judged(Hole("x", LITERAL, odd)).objections, "nor can what is no number that can be held"
    unknown = judged(Hole("x", LITERAL))
    assert not unknown.objections
    assert [o.kind for o in unknown.obligations] == ["verify-again"]
    assert judged(Hole("x", LITERAL, "5000")).objections, "at the call it is decided"
