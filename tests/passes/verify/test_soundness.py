"""Random accepted plans keep their proof when they run, and a weakened proof is detected."""

from __future__ import annotations

import pytest
from benchmarks.soundness.checking import check, check_graph
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiled import looks_inside

from callsheet.ir.labels import LITERAL
from callsheet.machine.monitor import sanitizing
from callsheet.machine.monitor.shown_texts import ShownTexts
from callsheet.passes.verify.outcome import Labels


def _as_it_is(text: str, _: object) -> str:
    return text


def _told(_self: object, _frame: object, error: str) -> str:
    return error


@settings(max_examples=250, deadline=None)
@given(st.integers(0, 2**32))
def test_no_accepted_plan_tells_a_stranger_what_private_sources_say(seed: int) -> None:
    assert check(seed).breaches == ()


@looks_inside
def test_the_experiment_finds_a_proof_that_does_not_look_at_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Labels, "guard", lambda *_: LITERAL)
    assert any(check(seed).breaches for seed in range(400))


def test_many_plans_are_accepted_and_many_are_not() -> None:
    outcomes = [check(seed) for seed in range(100)]
    assert 20 < sum(outcome.accepted for outcome in outcomes) < 80


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_under_a_policy_no_plan_and_no_graph_tells_it_either_accepted_or_not(
    seed: int, is_graph: bool
) -> None:
    outcome = (check_graph if is_graph else check)(seed, is_enforced=True)
    assert outcome.breaches == ()


def test_the_experiment_finds_a_run_that_shows_what_a_model_was_asked_to_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sanitizing, "disarmed", _as_it_is)
    assert any("links" in str(check_graph(seed, is_enforced=True).breaches) for seed in range(400))


@looks_inside
def test_the_experiment_finds_a_graph_that_shows_a_secret_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShownTexts, "failure", _told)
    found = (check_graph(seed, is_enforced=True).breaches for seed in range(400))
    assert any("under the policy: an answer shows a secret" in breaches for breaches in found)
