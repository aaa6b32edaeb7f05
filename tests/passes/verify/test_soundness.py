"""Random accepted plans keep their proof when they run, and a weakened proof is detected."""

from __future__ import annotations

import pytest
from benchmarks.soundness.checking import check, check_graph
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiled import looks_inside

from callsheet.ir.labels import LITERAL
from callsheet.machine.monitor import shown_texts
from callsheet.machine.monitor.shown_texts import ShownTexts
from callsheet.passes.verify.outcome import Labels


def _as_it_is(text: str, _: object) -> str:
    return text


def _told(_self: object, _frame: object, error: str) -> str:
    return error


@settings(max_examples=250, deadline=None)
@given(st.integers(0, 2**32))
def test_accepted_plans_leak_no_private_data_to_untrusted_parties(seed: int) -> None:
    assert check(seed).breaches == ()


@looks_inside
def test_experiment_detects_proof_that_ignores_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Labels, "guard", lambda *_: LITERAL)
    assert any(check(seed).breaches for seed in range(400))


def test_many_plans_are_accepted_and_many_refused() -> None:
    outcomes = [check(seed) for seed in range(100)]
    assert 20 < sum(outcome.accepted for outcome in outcomes) < 80


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_enforced_plans_and_graphs_leak_nothing_whether_accepted_or_not(seed: int, is_graph: bool) -> None:
    outcome = (check_graph if is_graph else check)(seed, is_enforced=True)
    assert outcome.breaches == ()


def test_experiment_detects_run_that_shows_model_made_links(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shown_texts, "disarmed", _as_it_is)
    assert any("links" in str(check_graph(seed, is_enforced=True).breaches) for seed in range(400))


@looks_inside
def test_experiment_detects_graph_that_shows_secret_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShownTexts, "failure", _told)
    found = (check_graph(seed, is_enforced=True).breaches for seed in range(400))
    assert any("under the policy: an answer shows a secret" in breaches for breaches in found)
