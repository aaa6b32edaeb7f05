"""Random plans that the proof accepts keep it when they run, and a weaker proof is found out."""

from __future__ import annotations

import pytest
from benchmarks.soundness.checking import check
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.ir.labels import LITERAL
from callsheet.passes.verify.labels import Labels


@settings(max_examples=250, deadline=None)
@given(st.integers(0, 2**32))
def test_no_accepted_plan_tells_a_stranger_what_private_sources_say(seed: int) -> None:
    assert check(seed).breaches == ()


def test_the_experiment_finds_a_proof_that_does_not_look_at_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Labels, "guard", lambda *_: LITERAL)
    assert any(check(seed).breaches for seed in range(400))


def test_many_plans_are_accepted_and_many_are_not() -> None:
    outcomes = [check(seed) for seed in range(100)]
    assert 20 < sum(outcome.accepted for outcome in outcomes) < 80
