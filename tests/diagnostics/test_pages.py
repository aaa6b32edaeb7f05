"""Every LTP code has a page, whose bad example gives the code and whose good one is clean."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import callsheet.frontends.ltp
from callsheet.diagnostics import CODES, explain, render_all
from callsheet.frontends.ltp import parse
from callsheet.frontends.spelling import Syntax, read_as

LTP_CODES = [code for code in CODES if code.startswith("LTP")]
# a thousand lines, a plan that is no text, and fifty blocks inside each other
WITHOUT_BAD_EXAMPLE = {"LTP006", "LTP070", "LTP072", "LTP214"}


def examples(code: str, kind: str) -> list[str]:
    return re.findall(rf"^```ltp {kind}\n(.*?)^```", explain(code) or "", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", LTP_CODES)
def test_page_begins_with_code_and_title(code: str) -> None:
    assert (explain(code) or "").startswith(f"# {code}: {CODES[code].title}\n")


@pytest.mark.parametrize("code", LTP_CODES)
def test_bad_example_gives_code_and_good_example_nothing(code: str) -> None:
    for text in examples(code, "bad"):
        assert code in {d.code for d in read_as(Syntax.LTP, text, "<plan>").diagnostics}
    for text in examples(code, "good"):
        result = read_as(Syntax.LTP, text, "<plan>")
        assert not result.diagnostics, render_all(result.diagnostics, result.source)
    assert examples(code, "good")
    assert examples(code, "bad") or code in WITHOUT_BAD_EXAMPLE


def test_front_end_codes_and_pages_correspond() -> None:
    package = Path(callsheet.frontends.ltp.__file__).parents[1]
    folders = ("ltp", "values", "structured", "upgrade")
    modules = [
        *(module for name in folders for module in (package / name).glob("*.py")),
        package / "unseen.py",
    ]
    text = "".join(module.read_text(encoding="utf-8") for module in modules)
    assert set(re.findall(r'"(LTP\d{3})"', text)) == set(LTP_CODES)


def test_errors_are_capped_at_thousand() -> None:
    result = parse("PLAN_START\n" + "what\n" * 5_000)
    assert [d.code for d in result.diagnostics if d.is_error].count("LTP002") == 1_000
    assert "LTP006" in {d.code for d in result.diagnostics}
