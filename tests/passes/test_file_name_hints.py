"""`"$title.md"` is the field md of $title: a hint where a file name is expected."""

from __future__ import annotations

import pytest

from callsheet.frontends.ltp import parse
from callsheet.passes import ToolSignature, check

KNOWN = {"SAVE": ToolSignature(("text", "filename"))}


def hints(call: str, made: str = "@A () > $t") -> list[str]:
    plan = parse(f"S1: {made}\nS2: {call}\nS3: @RESPOND ($t.md)").plan
    assert plan is not None
    return [d.help or "" for d in check(plan, tools=KNOWN) if d.code == "CHK033"]


@pytest.mark.parametrize(
    "call",
    [
        '@WRITE_FILE (path="notes/$t.md", content="x")',
        "@WRITE_FILE ($t.md)",
        '@COPY (source="x", destination="$t.md")',
        '@SAVE ("x", "$t.md")',
    ],
)
def test_file_name_ending_in_field_is_reported(call: str) -> None:
    assert hints(call) == ["if .md is the file extension, write ${t}.md"]


@pytest.mark.parametrize(
    "call",
    [
        '@WRITE_FILE (path="notes/${t}.md", content="x")',
        '@WRITE_FILE (path="$t.md/x", content="x")',
        '@WRITE_FILE (path="x", content="see $t.md")',
        '@WRITE_FILE (path="notes/$t.name", content="x")',
        '@SAVE ("$t.md", "x")',
        '@SEND (text="$t.md")',
    ],
)
def test_other_texts_and_fields_give_no_hint(call: str) -> None:
    assert hints(call) == []


def test_longer_path_keeps_its_beginning() -> None:
    assert hints('@WRITE_FILE (path="$t.a.0.md")') == ["if .md is the file extension, write ${t.a.0}.md"]


def test_value_read_as_json_has_fields() -> None:
    assert hints('@WRITE_FILE (path="$t.md")', "@A () > $t:json") == []


@pytest.mark.parametrize(
    ("path", "count"),
    [('"x/$e.name.md"', 1), ("$e.name.md", 1), ('"$e.md"', 1), ('"x/${e.name}.md"', 0)],
)
def test_field_of_loop_variable_is_reported_too(path: str, count: int) -> None:
    call = f"?FOREACH ($e IN $t) THEN @WRITE_FILE (path={path})"
    assert len(hints(call, "@A () > $t:json")) == count
