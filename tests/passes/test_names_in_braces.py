"""`"Hello {name}"` is literal text: a warning where a variable has that name."""

from __future__ import annotations

import pytest

from callsheet.diagnostics import fixes_of
from callsheet.frontends.spelling import read_plan_text
from callsheet.passes import check

GRAPH = """{"variables": {"r": 1}, "steps": [
  {"index": "1", "title": "", "tool": "b", "args": {"x": "%s"}, "depends_on": []}]}"""


def fixed(text: str) -> list[str]:
    plan = read_plan_text(text).result.require()
    found = [d for d in check(plan) if d.code == "CHK034"]
    results: list[str] = []
    for diagnostic in found:
        ((edit,),) = (fix.edits for fix in fixes_of(diagnostic, text))
        results.append(text[: edit.span.start] + edit.text + text[edit.span.end :])
    return results


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('get "k" > r\nrespond "Hello {r}"', 'get "k" > r\nrespond "Hello ${r}"'),
        ('S1: @A () > $r\nS2: @B (x=["{r.a.b}!"])', 'S1: @A () > $r\nS2: @B (x=["${r.a.b}!"])'),
        ('S1: ?FOREACH ($e IN [1]) THEN @B ("{e}")', 'S1: ?FOREACH ($e IN [1]) THEN @B ("${e}")'),
        (GRAPH % "{r}", GRAPH % "${r}"),
    ],
)
def test_name_of_variable_in_braces_is_reported_with_fix(text: str, meant: str) -> None:
    assert fixed(text) == [meant]


@pytest.mark.parametrize(
    "text",
    [
        'get "k" > r\nrespond "Hello {other} {{r}} ${r} a{r}"',
        'get "k" > r\nexec "print({r})"',
        'get "k" > r\nsome_tool pattern="{r}"',
        'respond "Hello {r}"',
    ],
)
def test_other_braces_are_not_reported(text: str) -> None:
    assert fixed(text) == []
