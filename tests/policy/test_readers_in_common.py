"""Arguments that may each reach a reader, but have no reader in common."""

from __future__ import annotations

import pytest

from callsheet.ir.labels import LITERAL, Label
from callsheet.policy.calls import Argument, CallView, Hole, Rule
from callsheet.policy.judge import Judge
from callsheet.policy.model import Audience, Policy, ToolRule

OF_A, OF_B = Label(False, frozenset({"a"})), Label(False, frozenset({"b"}))
JUDGE = Judge(
    Policy(
        audiences=(Audience(name="a", mail=("*@h.example",)), Audience(name="b", mail=("*@h.example",))),
        tools={"MAIL": ToolRule(audience_arg="to", destructive=False)},
    )
)


def call(tool: str, *arguments: Argument) -> CallView:
    return CallView("S1", tool, arguments)


def data(name: str, label: Label) -> Argument:
    return Argument(name, (Hole(name, label, "x"),), label)


TO = Argument("to", ("x@h.example",), LITERAL)


@pytest.mark.parametrize("given", [("x", "y"), ("y", "x")])
def test_call_is_refused_at_argument_that_removes_last_reader(given: tuple[str, str]) -> None:
    labels = {"x": OF_A, "y": OF_B}
    first, second = (data(name, labels[name]) for name in given)
    assert not JUDGE.judge(call("MAIL", TO, first)).objections
    assert not JUDGE.judge(call("MAIL", TO, second)).objections
    (objection,) = JUDGE.judge(call("MAIL", TO, first, second)).objections
    assert (objection.rule, objection.argument) == (Rule.FLOW, given[1])
    assert "h.example" in objection.message
