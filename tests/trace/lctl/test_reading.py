"""Parsing documents: YAML's core schema, fences in answers, limits; no text raises."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from textwrap import indent
from types import FrameType

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from callsheet.diagnostics import render_all
from callsheet.trace.lctl.check import check
from callsheet.trace.lctl.findings import LctlError
from callsheet.trace.lctl.model import Handoff
from callsheet.trace.lctl.reading import parse, read
from callsheet.trace.lctl.write import to_data, write
from lctl_blocks import failed, hop, minimal, text

MINIMAL = text(minimal())


def rules_of(block: str | bytes) -> list[str]:
    return [finding.rule for finding in read(block).findings]


def extra(written: str) -> object:
    """The parsed form of a value."""
    document = parse(f"{MINIMAL}x: {written}\n")
    assert isinstance(document, Handoff)
    return document.extra["x"]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"), ("on", "on"), ("y", "y"), ("2026-02-03", "2026-02-03"), ("12:30:45", "12:30:45"),
        ("1_000", "1_000"), ("0x1F", 31), ("0o17", 15), ("017", 17), ("9e-1", 0.9), (".5", 0.5), ("1.", 1.0),
        ("+3", 3), ("true", True), ("True", True), ("~", None), ("Null", None), ("nULL", "nULL"),
        ('"3"', "3"), ("!!str 3", "3"), ("!!float 3", 3.0), ("! 3", "3"),
        ("{1: a, ~: b}", {"1": "a", "~": "b"}),
        ("{<<: {a: 1}}", {"<<": {"a": 1}}), ("-.inf", float("-inf")),
    ],
)  # fmt: skip
def test_scalars_follow_core_schema(written: str, value: object) -> None:
    found = extra(written)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("block", "rule"),
    [
        ("", "P02"), ("# nothing\n", "P02"), ("- a", "P02"), ("lctl", "P02"),
        ("lctl: '3.0'\nchain: {id: c, step: 1, from: a, to: b}\ninstruction: go\ninstruction: no", "P03"),
        ("lctl: '3.0'\nchain: {id: c, 'id': d, step: 1, from: a, to: b}\ninstruction: go", "P03"),
        ("--- \na: 1\n--- \n", "P04"), ("a: !mine 1", "P05"),
        ("a: !!int x", "P05"), ("a: !<str> x", "P05"),
        ("a: !!set {b}", "P05"), ("a: &a [*a]", "P06"), ("a: *b", "P01"), ("a: [1", "P01"), ("\ta: 1", "P01"),
        ("[a]: 1", "P01"), (b"a: \xff", "P08"), ("a: 1".encode("utf-16"), "P08"), ("a: \x00", "P08"),
        ("a: '\x1b'", "P08"), ("a: '\ud800'", "P08"), ("{" * 3000, "P07"),
         ("a:\n  - " + "- " * 80 + "x", "P07"),
        ("a: 1", "P09"), ("Lctl: '3.0'", "P09"),
    ],
)  # fmt: skip
def test_non_document_is_refused_by_specific_rule(block: str | bytes, rule: str) -> None:
    reading = read(block)
    assert [finding.rule for finding in reading.findings] == [rule]
    assert reading.document is None
    with pytest.raises(LctlError) as caught:
        parse(block)
    assert rule in render_all(caught.value.diagnostics, caught.value.source)


def test_duplicate_keys_and_shape_violations_are_reported() -> None:
    reading = read("lctl: '3.0'\nlctl: '3.0'\nchain: {id: c, step: 0, id: d}\ninstruction: ''\n")
    repeated = [finding for finding in reading.findings if finding.rule == "P03"]
    assert [finding.message for finding in repeated] == [
        f"the key '{key}' occurs twice in one mapping" for key in ("lctl", "id")
    ]
    assert {"C04", "C05", "S08"} <= {finding.rule for finding in reading.findings}
    assert reading.document is None


@pytest.mark.parametrize(("step", "told"), [("0", "0"), ("1.5", "1.5"), ("one", "a text"), ("", "empty")])
def test_invalid_step_is_reported_by_number_or_kind(step: str, told: str) -> None:
    found = read(f"lctl: '3.0'\nchain: {{id: c, step: {step}, from: a, to: b}}\ninstruction: go\n").findings
    assert [finding.message for finding in found] == [f"step has to be a whole number from 1, but is {told}"]


def calls_made(work: Callable[[], object]) -> int:
    """The number of function calls, in Python or C, during an action."""
    count = 0

    def heard(_frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(heard)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def test_bombs_are_refused_before_expansion() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    deep = "a: &a [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n"
    for block, rule in (
        ("lctl: '3.0'\n" + bomb, "P06"),
        ("lctl: '" + "x" * (8 * 1024 * 1024) + "'", "P07"),
        ("lctl: '3.0'\nx: " + "[" * 100_000, "P07"),
        (deep + "b: " + "[" * 40 + "*a" + "]" * 40, "P07"),
    ):
        assert rules_of(block) == [rule]
        assert calls_made(lambda block=block: read(block)) < 10_000  # a full bomb has 387 million values


def test_nodes_of_text_are_counted() -> None:
    """A block may have 200,000 nodes: here five, and texts, empty lists, and mappings of three nodes."""
    items = [*["x"] * 70_000, *["[]"] * 50_003, *["{a: x}"] * 26_664]
    assert len(items) + 2 * 26_664 + 5 == 200_000
    begin = "lctl: '3.0'\nx: "
    assert rules_of(f"{begin}[{','.join(items)}]") != ["P06"]
    assert rules_of(f"{begin}[{','.join(items)},x]") == ["P06"]


def test_alias_targets_are_counted_before_use() -> None:
    half = f"lctl: '3.0'\na: &a [{','.join('x' * 100_000)}]\n"
    assert rules_of(half) != ["P06"]
    assert rules_of(f"{half}b: *a") == ["P06"]


@pytest.mark.parametrize("char", ["x", "ä"])
@pytest.mark.parametrize("of", [str, str.encode], ids=["text", "bytes"])
def test_bytes_are_counted_for_text_and_bytes(char: str, of: Callable[[str], str | bytes]) -> None:
    most = 8 * 1024 * 1024
    begin = "lctl: '3.0'\nx: "
    room = (most - len(begin)) // len(char.encode())
    assert rules_of(of(begin + char * room)) != ["P07"]
    assert rules_of(of(begin + char * (room + 1))) == ["P07"]


def test_json_with_surrogates_has_same_limits() -> None:
    begin = '{"lctl": "3.0", "note": "\\ud83d\\ude00", "x": '
    assert rules_of(f"{begin}[{','.join('1' * 200_000)}]}}") == ["P01"]
    assert rules_of(f"{begin}{'[' * 100}{']' * 100}}}") == ["P01"]
    assert "P01" not in rules_of(f"{begin}[{','.join('1' * 100)}]}}")


@pytest.mark.parametrize("digits", ["9" * 5_000, "-" + "9" * 5_000, "0x" + "f" * 5_000])
def test_number_beyond_limit_is_no_bug(digits: str) -> None:
    assert extra(digits) == (float("-inf") if digits.startswith("-") else float("inf"))


def test_alias_uses_are_separate_values() -> None:
    document = parse(MINIMAL + "a: &a {b: [1]}\nc: *a\n")
    assert isinstance(document, Handoff)
    assert document.extra["c"] == {"b": [1]}
    assert document.extra["c"] is not document.extra["a"]


def test_json_surrogate_pairs_are_read() -> None:
    block = minimal() | {"instruction": "go \U0001f600"}
    document = parse(json.dumps(block))
    assert isinstance(document, Handoff)
    assert document.instruction == "go \U0001f600"
    written = json.dumps(block | {"instruction": 7, "note": "\U0001f600"})
    (wrong,) = (f for f in read(written).findings if f.is_error)
    assert wrong.span is not None
    assert written[slice(*wrong.span)] == "7"
    assert "P01" in rules_of('{"lctl": "3.0", "a": "\\ud83d\\ude00", "a": 1}')


# ---------------------------------------------------------------- fences


def test_first_closed_fence_with_block_counts() -> None:
    answer = f"See:\n```python\nprint('lctl: no')\n```\nand\n~~~yaml\n{MINIMAL}~~~\n```\nlctl: x\n```\n"
    document = parse(answer)
    assert isinstance(document, Handoff)
    assert document.chain.target == "checker"


def test_fence_inside_instruction_does_not_end_block() -> None:
    block = MINIMAL.replace("Check the total", "|\n  Run:\n  ```sh\n  make\n  ```\n  and tell.")
    for given_ in (block, f"Here:\n```yaml\n{block}```\nDone."):
        document = parse(given_)
        assert isinstance(document, Handoff)
        assert document.instruction == "Run:\n```sh\nmake\n```\nand tell.\n"


def test_only_top_level_key_makes_fence_block() -> None:
    other = "```yaml\n---\n# set\nsettings:\n  lctl: on\n```\n"
    document = parse(f"{other}and\n" + indent(f"```yaml\n# mine\n{MINIMAL}```\n", "  "))
    assert isinstance(document, Handoff)
    assert document.chain.target == "checker"


@pytest.mark.parametrize(
    "before", ["", "# as asked\n", "---\n", "--- ", "%YAML 1.2\n# as asked\n---\n\n", "\n\n"]
)
def test_fence_may_contain_json_after_document_prefix(before: str) -> None:
    block = '{"lctl": "3.0", "chain": {"id": "c", "step": 2, "from": "a", "to": "b"}, "instruction": "Go"}'
    document = parse(f"Here:\n```yaml\n{before}{block}\n```\nDone.")
    assert isinstance(document, Handoff)
    assert document.chain.target == "b"


def test_byte_order_mark_before_fenced_block_is_ignored() -> None:
    answer = f"Here:\n```yaml\n\ufeff{MINIMAL.replace('0.96', '9.6')}```\nDone."
    (found,) = read(answer).findings
    assert (found.rule, found.span and answer[slice(*found.span)]) == ("V02", "9.6")


def test_truncated_answer_is_refused() -> None:
    assert rules_of(f"Here:\n```yaml\n{MINIMAL}") == ["P01"]
    assert rules_of("Here:\n```sh\nls\n```\n") == ["P09"]


def test_positions_refer_to_whole_answer() -> None:
    answer = f"Gladly.\n```yaml\n{MINIMAL.replace('0.96', '9.6')}```\n"
    (found,) = read(answer).findings
    assert found.span is not None
    assert answer[slice(*found.span)] == "9.6"


# ---------------------------------------------------------------- no text raises anything

PIECES = st.sampled_from(
    ["lctl: '3.0'\n", "lctl_ack:", "chain:", "trace:", "facts:", "handoff:", "\n", "  ", "- ", "{", "}", "[",
     "]", ": ", ", ", "&a ", "*a", "!!str ", "!x ", "'", '"', "|\n", "```\n", "```yaml\n", "---\n", "...\n",
     "? ", "\t", "\ufeff", "\x00", "\ud800", "é", "%YAML 1.2\n", "step: ", "1", "0.5", "F1",
     "null", "<<: ", "#"]
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_texts_raise_only_typed_error(block: str) -> None:
    report = check([block, block])
    for finding in report.findings:
        render_all([finding.diagnostic], report.readings[finding.document].source)
    with suppress(LctlError):
        parse(block)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_bytes_raise_nothing(block: bytes) -> None:
    read(block)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([hop(2), failed(), minimal(), {"lctl_ack": {"step": 1}}]), st.data())
def test_document_with_any_value_anywhere_is_reported_and_kept(block: dict, data: st.DataObject) -> None:
    """For any value anywhere the check ends with findings, and writing loses nothing."""
    paths = [[key] for key in block] + [[k, i] for k, v in block.items() if isinstance(v, dict) for i in v]
    path = data.draw(st.sampled_from(paths))
    value = data.draw(VALUES)
    assume(path != ["chain"] or value != {})  # an empty chain is written as none at all
    broken = block | {path[0]: value if len(path) == 1 else block[path[0]] | {path[1]: value}}
    written = text(broken)
    report = check([hop_text, written])
    document = report.documents[1]
    assert document is not None
    again = check([hop_text, document])
    assert [f.rule for f in again.findings] == [f.rule for f in report.findings]
    assert repr(to_data(again.documents[1] or document)) == repr(to_data(document))


hop_text = text(hop(1))


@pytest.mark.parametrize("char", ["\x85", "\u2028", "\u2029"])
def test_yaml_1_1_line_breaks_are_ordinary_characters(char: str) -> None:
    block = f"lctl: '3.0'\nchain: {{id: c, step: 1, from: a, to: b}}\ninstruction: go{char}on \ue000\n"
    assert parse(block).instruction == f"go{char}on \ue000"
    assert parse(write(parse(block))) == parse(block)
