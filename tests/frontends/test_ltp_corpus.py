"""The corpus: valid plans print back unchanged; invalid ones have the errors marked on their lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from callsheet.diagnostics import render_all
from callsheet.frontends.ltp import format_plan, parse

CORPUS = Path(__file__).parent / "corpus"
GOOD = sorted((CORPUS / "good").glob("*.ltp"))
BAD = sorted((CORPUS / "bad").glob("*.ltp"))
_MARK = re.compile(r"# error: (LTP\d+)")


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_valid_plan_prints_back_unchanged(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    result = parse(text, path.name, strict=True)
    assert not result.diagnostics, render_all(result.diagnostics, result.source)
    assert format_plan(result.require()) == text


@pytest.mark.parametrize("path", BAD, ids=lambda p: p.stem)
def test_invalid_plan_has_marked_errors(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    marked = {(n, m[1]) for n, line in enumerate(text.split("\n"), 1) for m in _MARK.finditer(line)}
    result = parse(text, path.name)
    found = {
        (result.source.position(d.span.start).line, d.code)
        for d in result.diagnostics
        if d.is_error and d.span
    }
    assert found == marked, render_all(result.diagnostics, result.source)
