"""Random trees that are accepted tell an observer outside nothing of a secret, in whatever world they run."""

from __future__ import annotations

import pytest
from tests.passes.verify_tree.corpus import plan_of
from tests.passes.verify_tree.random_plans import Drawing
from tests.passes.verify_tree.runs import FLAKY, OPEN, SECRET, SEEN, Runner, Seen, TooLong

from callsheet.ir.labels import read_label
from callsheet.passes.verify import verify
from callsheet.policy.model import Implicit, Policy, ToolRule

_GIVEN = (0, "x", "a", {"k": 1}, [0, 1], {"k": None, "m": 2})
"""The secret input in each world."""
_LEAST = 20
"""How many plans of a hundred are accepted at least; else the test shows nothing."""


def _tool(returns: str, *, egress: bool = False) -> ToolRule:
    label = read_label(returns)
    return ToolRule(egress=egress, destructive=False, idempotent=True, returns=label, no_echo=egress)


_TOOLS = {
    SEEN: _tool("T/pub", egress=True), SECRET: _tool("T/priv"), FLAKY: _tool("T/priv"), OPEN: _tool("T/pub"),
}  # fmt: skip


def _seen(text: str, policy: Policy, inputs: dict[str, str]) -> list[Seen] | None:
    """What each world shows of a plan; None if it is refused, or runs too long."""
    plan = plan_of(text)
    if not verify(plan, policy, inputs={name: read_label(label) for name, label in inputs.items()}).ok:
        return None
    assert plan.tree is not None
    try:
        worlds = enumerate(_GIVEN)
        return [Runner(plan.tree, world).run(dict.fromkeys(inputs, given)) for world, given in worlds]
    except TooLong:
        return None


def _is_prefix(one: Seen, other: Seen) -> bool:
    shorter, longer = sorted((one.calls, other.calls), key=len)
    return longer[: len(shorter)] == shorter


@pytest.mark.parametrize("start", range(0, 200, 100))
def test_only_the_failure_of_a_call_may_end_what_is_seen(start: int) -> None:
    policy = Policy(tools=_TOOLS)
    accepted = 0
    for seed in range(start, start + 100):
        text = Drawing(seed, bits=False).text()
        seen = _seen(text, policy, {})
        accepted += seen is not None
        for other in seen or ():
            first = (seen or [other])[0]
            may_end = first.failed or other.failed
            assert first.calls == other.calls or (may_end and _is_prefix(first, other)), text
    assert accepted >= _LEAST


@pytest.mark.parametrize("start", range(0, 200, 100))
def test_a_strict_policy_lets_nothing_be_seen(start: int) -> None:
    policy = Policy(tools=_TOOLS, implicit=Implicit.STRICT)
    accepted = 0
    for seed in range(start, start + 100):
        text = Drawing(seed, bits=True).text()
        seen = _seen(text, policy, {"a": "T/priv"})
        accepted += seen is not None
        for other in seen or ():
            assert other.calls == (seen or [other])[0].calls, text
    assert accepted >= _LEAST
