"""No chain of channels carries a secret outside, and none is refused that carries what everybody may know."""

from __future__ import annotations

import pytest
from tests.passes.verify_tree.chains import WORLDS, chain, seen
from tests.passes.verify_tree.corpus import plan_of

from callsheet.ir.labels import read_label
from callsheet.passes.verify import verify
from callsheet.policy.model import Policy, ToolRule


def _tool(returns: str, *, egress: bool = False) -> ToolRule:
    label = read_label(returns)
    return ToolRule(egress=egress, destructive=False, idempotent=True, returns=label, no_echo=egress)


def _policy(source: str) -> Policy:
    send = _tool("T/pub", egress=True)
    return Policy(tools={"SOURCE": _tool(source), "OPEN": _tool("T/pub"), "SEND": send})


_SECRET, _OPEN = _policy("T/priv"), _policy("T/pub")


@pytest.mark.parametrize("start", range(0, 240, 80))
def test_no_chain_of_channels_carries_a_secret_outside(start: int) -> None:
    for seed in range(start, start + 80):
        text = chain(seed)
        if verify(plan_of(text), _SECRET).ok:
            assert len({tuple(seen(text, value)) for value in WORLDS}) == 1, text


def test_a_chain_that_carries_what_everybody_may_know_is_accepted() -> None:
    refused = [seed for seed in range(80) if not verify(plan_of(chain(seed)), _OPEN).ok]
    assert refused == []


def test_chains_do_carry_what_they_begin_with() -> None:
    leaking = [len({tuple(seen(chain(seed), value)) for value in WORLDS}) > 1 for seed in range(60)]
    assert sum(leaking) >= 12
