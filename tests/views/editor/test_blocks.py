"""The editor on texts with blocks: names with their scopes, outline, folds, hover, completion."""

from __future__ import annotations

import pytest

from callsheet.diagnostics import CallsheetError
from callsheet.views.editor.completion import proposals_at
from callsheet.views.editor.document import Symbol, folds, open_document, outline
from callsheet.views.editor.hover import hover_at
from callsheet.views.editor.occurrences import definitions_at, occurrences, references_at, rename

TEXT = """# ltp: 2
INPUT $box: str = "inbox"  # the folder to read
PLAN half ($n: int) -> int {
  RETURN ($n // 2)
}
S1: @LIST (folder=$box) > $messages
S2: ?FOREACH ($m IN $messages) {
  LET $n = $m.size
  S3: CALL half (n=$n) > $h ON_FAIL TOOL AS $why {
    NOTE ("${why.message} of ${m.id}")
    LET $h = 0
  }
  YIELD ($h)
} > $rows
COMPUTE (reads=[$rows]) > $total \"\"\"
  total = sum(rows)
  \"\"\"
@RESPOND ("${len($rows)} of ${messages}: $total")
"""


def _at(part: str, text: str = TEXT) -> int:
    return text.index(part) + 1


def _renamed(place: int, new: str, text: str = TEXT) -> str:
    for edit in sorted(rename(open_document(text), place, new), key=lambda one: one.span, reverse=True):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text


def test_every_name_is_found_at_its_place():
    document = open_document(TEXT)
    found = occurrences(document)
    assert all(TEXT[slice(*one.span)] == one.entity.name for one in found)
    dollars = [i for i, char in enumerate(TEXT) if char == "$" and TEXT[i + 1 : i + 6] != "{len("]
    variables = [one for one in found if one.entity.kind == "variable"]
    assert len(variables) == len(dollars)


@pytest.mark.parametrize(
    ("place", "new", "places"),
    [
        ("$n //", "number", ["PLAN half ($number: int)", "RETURN ($number // 2)", "LET $n =", "half (n=$n)"]),
        ("$n = $m", "size", ["($n: int)", "LET $size = $m.size", "CALL half (n=$size)"]),
        ("$m IN", "mail", ["($mail IN $messages)", "$mail.size", "${mail.id}"]),
        ("$h ON", "$half_size", ["> $half_size ON_FAIL", "LET $half_size = 0", "YIELD ($half_size)"]),
        ("$why {", "e", ["AS $e {", "${e.message} of"]),
        ("half (n=", "halved", ["PLAN halved ($n", "CALL halved (n="]),
        ("messages}", "mails", ["> $mails\n", "IN $mails)", "of ${mails}: $total"]),
        ("$box)", "folder", ["INPUT $folder: str", "folder=$folder)"]),
        ("S3:", "S9", ["  S9: CALL half"]),
        ("$rows]", "sizes", ["} > $sizes", "reads=[$sizes]", "${len($sizes)}"]),
    ],
)
def test_renaming_keeps_to_the_scope(place: str, new: str, places: list[str]):
    renamed = _renamed(_at(place), new)
    assert [one for one in places if one not in renamed] == []


NESTED = """# ltp: 2
TRY {
  S1: @LIST (folder="a")
} ON_FAIL {
  TRY {
    S2: @LIST (folder="b")
  } ON_FAIL {
    NOTE ($error.message)
  }
  NOTE ($error.step)
}
"""


@pytest.mark.parametrize("part", ["error.message", "error.step"])
def test_failure_that_the_text_does_not_name_is_found_and_not_renamed(part: str):
    document = open_document(NESTED)
    assert [one.span.start for one in references_at(document, _at(part, NESTED))] == [NESTED.index(part)]
    with pytest.raises(CallsheetError, match="LSP002"):
        rename(document, _at(part, NESTED), "$e")


def test_a_name_of_the_text_is_not_taken_twice():
    with pytest.raises(CallsheetError) as caught:
        rename(open_document(TEXT), _at("$box)"), "rows")
    assert caught.value.diagnostics[0].code == "LSP004"


def test_definition_and_uses_of_a_variable():
    document = open_document(TEXT)
    assert [TEXT[: one.start].count("\n") + 1 for one in definitions_at(document, _at("$h)"))] == [9, 11]
    assert len(references_at(document, _at("$messages)"), with_definitions=False)) == 2


def test_outline_shows_the_tree_and_blocks_fold():
    def names(symbols: tuple[Symbol, ...]) -> list[object]:
        return [[one.name, *names(one.children)] if one.children else one.name for one in symbols]

    document = open_document(TEXT)
    assert names(outline(document)) == [
        ["PLAN half", "RETURN"],
        "S1",
        ["S2", "LET", ["S3", "NOTE", "LET"], "YIELD"],
        "COMPUTE",
        "@RESPOND",
    ]
    assert [TEXT[slice(*fold.span)].count("\n") for fold in folds(document)] == [7, 3, 2]


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("$box)", "input of the type `str` with a default: the folder to read"),
        ("half (n=", "PLAN half ($n: int) -> int"),
        ("$n //", "used in line 4"),
        ("$h)", "made by\n```ltp\nS3: CALL half"),
        ("S2:", "S2: ?FOREACH ($m IN $messages) {"),
        ("LET $n", "makes a variable of this place"),
        ("YIELD", "the result of the loop's item"),
        ("INPUT", "declares an input"),
        ("COMPUTE", "Python that touches nothing"),
    ],
)
def test_hover(place: str, says: str):
    found = hover_at(open_document(TEXT), _at(place))
    assert found is not None
    assert says in found.markdown


def test_completion_proposes_variables_and_statements():
    text = TEXT.replace('@RESPOND ("${len($rows)} of ${messages}: $total")', "@RESPOND ($")
    found = [one.label for one in proposals_at(open_document(text), len(text) - 1)]
    assert {"$rows", "$total", "$messages", "$box"} <= set(found)
    words = {one.label: one for one in proposals_at(open_document(f"{TEXT}?"), len(TEXT) + 1)}
    assert set(words) == {"?IF", "?FOREACH", "?REPEAT"}
    assert words["?REPEAT"].snippet == "?REPEAT (max=${1:30}) {\n  $0\n} UNTIL ($2)"
