"""Formatting in an editor: the output of `callsheet fmt`, as small edits."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.views.editor.marks import applied

from callsheet.apps.cli.main import main
from callsheet.diagnostics import Span
from callsheet.views.editor.document import open_document
from callsheet.views.editor.edits import formatting, line_edits

FOLDER = Path(__file__).parents[2] / "frontends" / "corpus"
CORPUS = sorted([*FOLDER.rglob("*.ltp"), *FOLDER.rglob("*.micro")])


@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.name)
def test_formatting_equals_fmt(path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("S1:", "s1 :", 1)
    (tmp_path / path.name).write_text(text, encoding="utf-8")
    CliRunner().invoke(main, ["fmt", str(tmp_path / path.name)])
    formatted = applied(text, formatting(open_document(text, path.name)))
    assert formatted == (tmp_path / path.name).read_text(encoding="utf-8")


def test_formatting_range_changes_only_its_lines() -> None:
    text = "# ltp: 1\nPLAN_START\nS1: respond 'a'\nS2: @A\nS3: respond 'b'\nPLAN_END\n"
    start = text.index("S3")
    (edit,) = formatting(open_document(text), Span(start, start + 2))
    assert applied(text, (edit,)) == text.replace("respond 'b'", '@RESPOND ("b")')


def test_lossy_formatting_is_skipped() -> None:
    assert formatting(open_document("Here is the plan:\n\nPLAN_START\nS1: respond 'a'\nPLAN_END")) == ()
    assert formatting(open_document("S1: respond (")) == ()


@given(st.lists(st.sampled_from("abc\n"), max_size=40), st.lists(st.sampled_from("abc\n"), max_size=40))
def test_line_edits_transform_one_text_into_other(before, after) -> None:
    """Applied to the text before, they produce the text after."""
    one, other = "".join(before), "".join(after)
    assert applied(one, line_edits(one, other)) == other


def test_many_differences_are_one_replacement_between_common_ends() -> None:
    one = "same\n" + "".join(f"a{n}\n" for n in range(5_000)) + "end\n"
    other = "same\n" + "".join(f"b{n}\n" for n in range(5_000)) + "end\n"
    (edit,) = line_edits(one, other)
    assert one[: edit.span.start] == "same\n"
    assert one[edit.span.end :] == "end\n"
