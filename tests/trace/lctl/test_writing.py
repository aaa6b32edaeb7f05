"""Writing documents: a parsed document is written back, and every YAML parser reads the same."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callsheet.trace.lctl.model import Analysis, Chain, DebugDocument, Entry, Fact, Handoff, Lists
from callsheet.trace.lctl.reading import parse, read
from callsheet.trace.lctl.write import to_data, write
from lctl_blocks import ack, changed, failed, hop, minimal, text

# What a document can hold: no half of a surrogate pair.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["no", "y", "3.0", "1e-1", "2026-02-03", "~", "a: b", "# x", "two\nlines", "two\nlines\n", " \n", "- a",
     "{a", "'", "x\n\ny\n", "\n", "a \nb", "<<", "*a", "!t", "|", "%a", "```", "\u2028", "\x85", "\x1b[1m",
     "null", "0x1F", ""]
)  # fmt: skip
WORDS = TEXTS.filter(lambda word: bool(word.strip()))
IDS = st.sampled_from(["F1", "F2", "F-3", "the total", "1", "no"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=3,
)
EXTRA = st.dictionaries(st.sampled_from(["x_a", "x b"]), VALUES, max_size=1)
CONFIDENCES = st.floats(0, 1) | st.integers(0, 1)
STEPS = st.integers(1, 10**6)
LISTS = st.lists(IDS, max_size=3).map(tuple)


def facts() -> st.SearchStrategy[dict[str, Fact]]:
    one = st.builds(
        Fact, IDS, WORDS, CONFIDENCES, st.none() | TEXTS, st.none() | STEPS, st.none() | TEXTS, LISTS, EXTRA
    )
    return st.lists(one, max_size=3).map(lambda found: {fact.id: fact for fact in found})


ENTRIES = st.builds(
    Entry, STEPS, WORDS, WORDS, CONFIDENCES, LISTS, LISTS, st.booleans(),
    st.none() | st.floats(0, 1e9), st.none() | TEXTS, st.none() | LISTS, EXTRA,
)  # fmt: skip
CHAINS = st.builds(Chain, WORDS, STEPS, WORDS, WORDS, st.booleans(), extra=EXTRA)
HANDOFFS = st.builds(
    Handoff, CHAINS, facts(), st.none() | st.lists(ENTRIES, max_size=2).map(tuple),
    st.none() | st.builds(Lists, LISTS, LISTS, st.lists(TEXTS, max_size=2).map(tuple), EXTRA), WORDS,
    extra=EXTRA,
)  # fmt: skip
DEBUGS = st.builds(
    DebugDocument, CHAINS, facts(), st.lists(ENTRIES, max_size=2).map(tuple), st.none(), st.none() | TEXTS,
    st.just("debugging"), st.none() | st.builds(Analysis, TEXTS, CONFIDENCES, TEXTS, EXTRA), extra=EXTRA,
)  # fmt: skip


ROUNDS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@ROUNDS
@given(HANDOFFS | DEBUGS)
def test_documents_round_trip(document: Handoff | DebugDocument) -> None:
    """Writing and reading is the identity, unknown keys included."""
    written = write(document)
    assert parse(written) == document
    assert write(parse(written)) == written


@ROUNDS
@given(HANDOFFS)
def test_yaml_1_1_readers_see_same_data(document: Handoff) -> None:
    """No word is written that the loader of PyYAML reads as another type."""
    seen = yaml.load(write(document), Loader=yaml.CSafeLoader)
    assert _texts(seen) == _texts(to_data(document))


def _texts(data: object) -> object:
    """Data with numbers as floats: 1e-07 is a text for YAML 1.1."""
    if isinstance(data, dict):
        return {str(key): _texts(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_texts(value) for value in data]
    if isinstance(data, str):
        try:
            return float(data) if "e" in data and "." not in data else data
        except ValueError:
            return data
    return float(data) if isinstance(data, int | float) and not isinstance(data, bool) else data


@pytest.mark.parametrize("block", [hop(1), hop(2), minimal(), failed(), ack()])
def test_written_block_is_equal(block: dict) -> None:
    assert to_data(parse(text(block))) == block


def test_unknown_keys_are_kept_at_every_depth_after_known_ones() -> None:
    block = changed(changed(hop(1), "chain.priority", "high"), "facts.F1.seen", [1, {"a": None}])
    written = write(parse(text(block)))
    assert to_data(parse(written)) == block
    assert written.index("priority: high") > written.index("target: checker")


def test_minimal_form_stays_minimal() -> None:
    assert write(parse(text(minimal()))) == text(minimal())
    assert "from: reader, to: checker" in text(minimal())


def test_values_of_wrong_type_are_kept() -> None:
    block = changed(changed(hop(1), "chain.step", "1"), "facts.F1", "soon")
    document = read(text(block)).document
    assert document is not None
    assert to_data(document) == block


def test_multiline_text_is_block_scalar() -> None:
    block = "lctl: '3.0'\nchain: {id: a, step: 1, from: one, to: two}\ninstruction: |\n  Two\n  lines\n"
    assert write(parse(block)) == block.replace("'", '"')
