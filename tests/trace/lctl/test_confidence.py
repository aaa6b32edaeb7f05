"""The laws of confidence: it never rises along a chain, branches join in any order, unknown is never sure."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.trace.lctl.check import check
from callsheet.trace.lctl.confidence import (
    VerifiedRaise,
    effective,
    is_blocked,
    is_flagged,
    lowest,
    needs_review,
)
from callsheet.trace.lctl.model import Chain, Entry, Fact, Handoff
from callsheet.trace.lctl.reading import frozen
from callsheet.trace.lctl.rules.hops import raised_facts
from lctl_blocks import changed, hop, minimal, text

CONFIDENCES = st.none() | st.floats(0, 1)
NAMES = ("F1", "F2", "F3", "F4")


@st.composite
def documents(draw: st.DrawFn) -> Handoff:
    ids = draw(st.lists(st.sampled_from(NAMES), unique=True))
    parents = st.lists(st.sampled_from(NAMES), max_size=2, unique=True).map(tuple)
    facts = {name: Fact(name, "t", draw(CONFIDENCES), derived_from=draw(parents)) for name in ids}
    return Handoff(Chain("c", 1, "a", "b"), frozen(facts), instruction="go")


def rank(value: float | None) -> float:
    """Unknown is below everything."""
    return -1.0 if value is None else value


@settings(max_examples=60, deadline=None)
@given(st.lists(documents(), min_size=1, max_size=4))
def test_confidence_never_rises_along_chain(chain: list[Handoff]) -> None:
    """eff(f, document) <= eff(f, parent) and <= stated(f), at every hop."""
    before: dict[str, float | None] = {}
    for document in chain:
        now = effective(document, [before])
        for name, value in now.items():
            stated = document.facts[name].confidence
            assert rank(value) <= rank(stated)
            if name in before:
                assert rank(value) <= rank(before[name])
            for parent in document.facts[name].derived_from:
                if parent in now:
                    assert rank(value) <= rank(now[parent])
        before = now


@settings(max_examples=60, deadline=None)
@given(documents(), st.lists(st.dictionaries(st.sampled_from(NAMES), CONFIDENCES), max_size=4), st.randoms())
def test_parent_order_changes_nothing(document: Handoff, parents: list, random: object) -> None:
    """Joining is commutative: it is a minimum."""
    mixed = list(parents)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert effective(document, parents) == effective(document, mixed)


@settings(max_examples=60, deadline=None)
@given(st.lists(CONFIDENCES, min_size=1), st.integers(0, 5))
def test_joining_is_associative(values: list[float | None], cut: int) -> None:
    """The lowest of parts is the lowest of all, in any grouping."""
    parts = [part for part in (values[:cut], values[cut:]) if part]
    assert lowest(lowest(part) for part in parts) == lowest(values)
    assert reduce(lambda a, b: lowest([a, b]), values) == lowest(values)


def test_cyclic_derivation_takes_lowest() -> None:
    facts = {
        "F1": Fact("F1", "t", 0.9, derived_from=("F2",)),
        "F2": Fact("F2", "t", 0.8, derived_from=("F3", "F2")),
        "F3": Fact("F3", "t", 0.7, derived_from=("F1",)),
        "F4": Fact("F4", "t", 0.6),
    }
    found = effective(Handoff(Chain("c"), frozen(facts)))
    assert found == {"F1": 0.7, "F2": 0.7, "F3": 0.7, "F4": 0.6}


def test_many_derivations_take_bounded_time() -> None:
    facts = {f"F{n}": Fact(f"F{n}", "t", 1 - n / 1e6, derived_from=(f"F{n + 1}",)) for n in range(5_000)}
    assert effective(Handoff(Chain("c"), frozen(facts)))["F0"] == facts["F4999"].confidence


def test_dropped_weak_parent_counts() -> None:
    """Dropping a fact does not raise the confidence of its derivations."""
    facts = {"F2": Fact("F2", "t", 0.9, derived_from=("F1",))}
    assert effective(Handoff(Chain("c"), frozen(facts)), [{"F1": 0.5}]) == {"F2": 0.5}


def test_dip_binds_later_hops_across_ack_or_unreadable_text() -> None:
    low = changed(minimal(), "facts.F1.confidence", 0.65)
    later = changed(minimal(), "chain.step", 3)
    report = check([text(low), "lctl: [", "lctl_ack: {chain_id: inv-7}", text(later)])
    assert report.effective == {"F1": 0.65}
    assert report.flagged == ("F1",)


@pytest.mark.parametrize("left_for", [1, 2])
def test_temporarily_dropped_fact_keeps_confidence(left_for: int) -> None:
    """Dropping a fact and receiving it again does not raise its confidence."""
    low = changed(minimal(), "facts.F1.confidence", 0.65)
    without = changed(minimal(), "facts", {"F2": {"text": "t", "confidence": 0.9}})
    again = changed(minimal(), "facts.F3", {"text": "t", "confidence": 0.9, "derived_from": ["F2"]})
    blocks = [text(changed(block, "chain.step", 2 + at)) for at, block in enumerate([low, without, again])]
    report = check([blocks[0], *[blocks[1]] * left_for, blocks[2]])
    assert (report.effective, report.flagged) == ({"F1": 0.65, "F3": 0.9}, ("F1",))


def test_branch_still_having_fact_determines_confidence() -> None:
    """A branch that dropped the fact does not lower one that was raised with a reason."""
    low, high = (Fact("F1", "t", value) for value in (0.65, 0.96))
    start = Handoff(Chain("c", 1, "a", "b"), frozen({"F1": low}), instruction="go")
    raised = Handoff(
        Chain("c", 2, "b", "c"), frozen({"F1": high}), instruction="go",
        trace=(Entry(1, "a", "x", 0.9, ("F1",)), Entry(2, "b", "y", 0.9, (), ("F1",))),
    )  # fmt: skip
    dropped = Handoff(Chain("c", 2, "b", "c"), frozen({}), instruction="go")
    joined = Handoff(Chain("c", 3, "c", "d"), frozen({"F1": high}), instruction="go")
    places = {1: [0], 2: [0], 3: [1, 2]}
    for word, value in ((VerifiedRaise.CAP, 0.65), (VerifiedRaise.ACCEPT, 0.96)):
        report = check([start, raised, dropped, joined], places, verified_raise=word)
        assert report.effective == {"F1": value}


@pytest.mark.parametrize(
    ("word", "value"), [(VerifiedRaise.CAP, 0.65), (VerifiedRaise.ACCEPT, 0.96)], ids=["cap", "accept"]
)
def test_verified_raise_is_capped_or_accepted(word: VerifiedRaise, value: float) -> None:
    second = hop(2)
    second["trace"][1]["facts_modified"] = ["F1"]
    second["facts"]["F1"] |= {"source": "checker", "step": 2}
    docs = [text(changed(hop(1), "facts.F1.confidence", 0.65)), text(second)]
    assert check(docs, verified_raise=word).effective["F1"] == value
    unlisted = text(changed(second, "trace.1.facts_modified", []))
    assert check([docs[0], unlisted], verified_raise=word).effective["F1"] == 0.65


def test_unknown_is_flagged_and_never_certain() -> None:
    report = check(
        [text(changed(minimal(), "facts.F1.confidence", ...)), text(changed(minimal(), "chain.step", 3))]
    )
    assert report.effective == {"F1": None}
    assert report.flagged == ("F1",)


@pytest.mark.parametrize(
    ("value", "flagged", "review", "blocked"),
    [
        (0.70, False, False, False),
        (0.6999, True, False, False),
        (0.60, True, False, False),
        (0.5999, True, True, False),
        (0.40, True, True, False),
        (0.3999, True, False, True),
        (None, True, False, False),
    ],
)
def test_threshold_belongs_to_band_above(
    value: float | None, flagged: bool, review: bool, blocked: bool
) -> None:
    assert (is_flagged(value), needs_review(value), is_blocked(value)) == (flagged, review, blocked)


@pytest.mark.parametrize(
    ("before", "after", "raised"),
    [(0.65, 0.96, True), (0.96, 0.96, False), (None, 0.96, False), (0.65, None, False)],
)
def test_only_stated_value_above_stated_one_is_raise(
    before: float | None, after: float | None, raised: bool
) -> None:
    """A modified fact whose value was or became unknown is no raise."""
    start = Handoff(Chain("c", 1, "a", "b"), frozen({"F1": Fact("F1", "t", before)}), instruction="go")
    changed_fact = Handoff(
        Chain("c", 2, "b", "c"), frozen({"F1": Fact("F1", "t", after)}), instruction="go",
        trace=(Entry(2, "b", "y", 0.9, (), ("F1",)),),
    )  # fmt: skip
    assert raised_facts(changed_fact, (start,)) == ({"F1"} if raised else frozenset())
