# ruff: noqa: E501 - a case is a line
"""The labels of runs of version 2: what a proof has accepted is not refused, what leaks is stopped."""

from __future__ import annotations

import pytest
from tests.passes.verify_tree.corpus import plan_of
from tests.passes.verify_tree.random_plans import Drawing
from tests.passes.verify_tree.runs import FLAKY, OPEN, SECRET, SEEN, Runner, TooLong

from callsheet.ir.labels import read_label
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.machine.monitor.structured import TreeLabels
from callsheet.machine.result import RefusedByPolicy
from callsheet.passes.verify import verify
from callsheet.policy.model import Policy, ToolRule


def _tool(returns: str, *, egress: bool = False) -> ToolRule:
    label = read_label(returns)
    return ToolRule(egress=egress, destructive=False, idempotent=True, returns=label, no_echo=egress)


POLICY = Policy(
    tools={
        SEEN: _tool("T/pub", egress=True),
        SECRET: _tool("T/priv"),
        FLAKY: _tool("T/priv"),
        OPEN: _tool("T/pub"),
    }
)


def _run(text: str, world: int) -> Runner:
    tree = plan_of(text).tree
    assert tree is not None
    runner = Runner(tree, world, labels=TreeLabels(tree, Enforcement.under(POLICY)))
    runner.run({})
    return runner


@pytest.mark.parametrize("start", range(0, 120, 60))
def test_accepted_plans_are_not_refused_during_the_run(start: int) -> None:
    ran = 0
    for seed in range(start, start + 60):
        text = Drawing(seed, bits=False).text()
        if not verify(plan_of(text), POLICY).ok:
            continue
        for world in range(4):
            try:
                _run(text, world)
            except TooLong:
                continue
            except RefusedByPolicy as refused:
                pytest.fail(f"{refused.refusal}\n{text}")
            ran += 1
    assert ran > 40


LEAKS = {
    "an argument": "S1: @SECRET () > $a\nS2: @SEND (x=$a)",
    "an expression": 'S1: @SECRET () > $a\nLET $b = [1, str($a)]\nS2: @SEND (x="${$b[1]}")',
    "a branch": "S1: @SECRET () > $a\n?IF (str($a) != '~') {\nS2: @SEND (x=1)\n}",
    "what a branch that is not taken would set": (
        "S1: @SECRET () > $a\nLET $b = 0\n?IF (str($a) == '~') {\nSET $b = 1\n}\nS2: @SEND (x=$b)"
    ),
    "what a branch has set": "S1: @SECRET () > $a\nLET $b = 0\n?IF (str($a) != '~') {\nSET $b = 1\n}\nS2: @SEND (x=$b)",
    "an early end that does not happen": "S1: @SECRET () > $a\n?IF (str($a) == '~') {\n@RESPOND (1)\n}\nS2: @SEND (x=1)",
    "a test that holds": "S1: @SECRET () > $a\nREQUIRE (str($a) != '~')\nS2: @SEND (x=1)",
    "a handler": "S1: @SECRET () > $a\nTRY {\nREQUIRE (str($a) == '~')\n} ON_FAIL {\nS2: @SEND (x=1)\n}",
    "the words of a failure": "S1: @SECRET () > $a\nTRY {\nREQUIRE (str($a) == '~')\n} ON_FAIL {\nLET $e = $error\n}\nS2: @SEND (x=$e)",
    "the next item": "S1: @SECRET () > $a\n?FOREACH ($i IN [1, 2]) {\nS2: @SEND (x=$i)\n?IF (str($a) == '~') {\nBREAK\n}\n}",
    "what items yield": "S1: @SECRET () > $a\n?FOREACH ($i IN [1, 2]) {\nYIELD ($a)\n} > $l\nS2: @SEND (x=$l)",
    "how many items there are": "S1: @SECRET () > $a\n?FOREACH ($i IN [1, 2]) {\n?IF (str($a) == '~') {\nBREAK\n}\nYIELD (1)\n} > $l\nS2: @SEND (x=len($l))",
    "the rounds of a loop": "S1: @SECRET () > $a\nLET $i = 0\n?REPEAT (max=3) {\nSET $i = $i + 1\n} UNTIL (str($a) != '~')\nS2: @SEND (x=$i)",
    "the result of a sub-plan": "PLAN p ($x: json) {\nRETURN ([$x])\n}\nS1: @SECRET () > $a\nS3: CALL p (x=$a) > $b\nS2: @SEND (x=$b)",
    "an argument of a sub-plan": "PLAN p ($x: json) {\nS2: @SEND (x=$x)\n}\nS1: @SECRET () > $a\nS3: CALL p (x=$a)",
    "whether a sub-plan is called": "PLAN p () {\nS2: @SEND (x=1)\n}\nS1: @SECRET () > $a\n?IF (str($a) != '~') {\nS3: CALL p ()\n}",
}  # fmt: skip


@pytest.mark.parametrize("name", LEAKS)
def test_leak_is_stopped_at_the_call(name: str) -> None:
    with pytest.raises(RefusedByPolicy) as refused:
        _run(LEAKS[name], 1)
    assert refused.value.refusal.step == "S2"


def test_refusal_names_where_the_data_came_from() -> None:
    with pytest.raises(RefusedByPolicy) as refused:
        _run("S1: @SECRET () > $a\nLET $b = [$a]\nS2: @SEND (x=$b)", 1)
    objection = refused.value.refusal
    assert (objection.rule, objection.flow) == ("flow", ("S1", "let1", "S2"))
