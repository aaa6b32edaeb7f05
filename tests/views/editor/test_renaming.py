"""Renaming: the plan keeps its meaning, or nothing is changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.ltp import format_plan
from callsheet.views.editor.document import open_document
from callsheet.views.editor.occurrences import Entity, Kind, named_at, occurrences, renamable_at, rename
from strategies import plans
from views.editor.marks import applied, opened

FRESH = "fresh_name_1"


def renamed(text: str, new: str) -> str:
    document, offset = opened(text)
    return applied(document.text, rename(document, offset, new))


@settings(max_examples=150)
@given(plans(), st.data())
def test_renaming_back_restores_text(plan, data) -> None:
    """Any name can be taken for a fresh one: all else keeps its name, and the old name gives the old text.

    Only where a loop's variable hid another one of its name the way back is refused: they would meet.
    """
    document = open_document(format_plan(plan))
    found = occurrences(document)
    if not found:
        return
    here = data.draw(st.sampled_from(found))
    if renamable_at(document, here.span.start) is None:
        return
    text = applied(document.text, rename(document, here.span.start, FRESH))
    after = open_document(text)
    assert after.plan is not None
    expected = [o.entity._replace(name=FRESH) if o.entity == here.entity else o.entity for o in found]
    assert [o.entity for o in occurrences(after)] == expected
    at = next(o.span.start for o in occurrences(after) if o.entity == here.entity._replace(name=FRESH))
    if any(o.entity != here.entity and o.entity.name == here.entity.name for o in found):
        return
    assert applied(text, rename(after, at, here.entity.name)) == document.text


def test_variable_is_renamed_in_values_texts_and_outputs() -> None:
    text = 'S1: @A > $x‸\nS2: ?IF ($x.k > 1) THEN @B (v=$x[0], t="${x.k}$x.") ON_FAIL TERMINATE ("$x")'
    assert renamed(text, "$y_2") == text.replace("‸", "").replace("$x", "$y_2").replace("{x", "{y_2")


def test_loop_variable_is_renamed_only_in_its_step() -> None:
    text = "S1: ?FOREACH ($‸i IN $l) THEN @A ($i) > $a\nS2: ?FOREACH ($i IN $l) THEN @A ($i) > $b"
    assert renamed(text, "j").splitlines()[0] == "S1: ?FOREACH ($j IN $l) THEN @A ($j) > $a"
    assert renamed(text, "j").splitlines()[1] == "S2: ?FOREACH ($i IN $l) THEN @A ($i) > $b"


def test_step_is_renamed_with_jumps_to_it() -> None:
    text = "S1: @A ON_FAIL GOTO S3\nS2: GOTO S3\nS3‸: @B"
    assert renamed(text, "end") == "S1: @A ON_FAIL GOTO end\nS2: GOTO end\nend: @B"


def test_graph_step_is_renamed_with_dependents() -> None:
    text = '{"steps": [{"index": "‸1", "title": "A", "tool": "x", "args": {}, "depends_on": [],'
    text += ' "result_variable": "r"}, {"index": "2", "title": "B", "tool": "x", "args": {"v": "${r}"},'
    text += ' "depends_on": ["1"]}]}'
    assert renamed(text, "first").count('"first"') == 2
    moved = text.replace("‸", "").replace('"r"', '"‸r"')
    assert renamed(moved, "page").count("page") == 2


def test_names_in_unreadable_steps_are_renamed() -> None:
    assert renamed("S1: @A > $x‸\nS2: @B ($x", "y") == "S1: @A > $y\nS2: @B ($y"


@pytest.mark.parametrize(
    ("text", "new", "code"),
    [
        ("S1: @A‸ > $x", "y", "LSP002"),
        ("GOTO S1‸\nrespond 'x'", "S9", "LSP002"),
        ("S1: @A > $x‸", "9x", "LSP003"),
        ("S1: @A > $x‸", "a-b", "LSP003"),
        ("S1‸: @A", "a b", "LSP003"),
        ("S1: @A > $x‸\nS2: @B > $y", "y", "LSP004"),
        ("S1: @A > $x‸\nS2: @RESPOND ($y)", "y", "LSP004"),
        ("S1: @A > $x‸\nS2: ?FOREACH ($i IN $x) THEN @B", "i", "LSP004"),
        ("S1: @A > $x\nS2: ?FOREACH ($i‸ IN $l) THEN @B ($x)", "x", "LSP004"),
        ("S1: @A\ns2‸: @B", "S1", "LSP004"),
        ("S1: @A\ns2‸: @B", "s1", "LSP004"),
        ('search "a" > x‸\nrespond hits x', "hits", "LSP004"),
    ],
)
def test_meaning_changing_rename_is_refused(text: str, new: str, code: str) -> None:
    document, offset = opened(text)
    with pytest.raises(CallsheetError) as refused:
        rename(document, offset, new)
    assert refused.value.diagnostics[0].code == code


def test_given_name_is_reserved() -> None:
    document = replace(open_document("S1: @A > $x\nS2: @B ($x)"), inputs=("city",))
    with pytest.raises(CallsheetError, match="input of the run"):
        rename(document, document.text.index("x"), "city")


def test_name_in_other_loop_is_free() -> None:
    text = "S1: ?FOREACH ($‸i IN $l) THEN @A ($i) > $a\nS2: ?FOREACH ($j IN $l) THEN @A ($j) > $b"
    assert "FOREACH ($j IN $l) THEN @A ($j) > $a" in renamed(text, "j")


def test_symbol_at_position_has_kind() -> None:
    document, offset = opened("S1: @A > $‸x")
    named = named_at(document, offset)
    assert named is not None
    assert named.here.entity == Entity(Kind.VARIABLE, "x")
