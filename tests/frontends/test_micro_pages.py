"""Every MIC code has a page, whose bad example gives the code and whose good one is clean."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import callsheet.frontends.micro
from callsheet.diagnostics import CODES, explain, render_all
from callsheet.frontends.micro import parse_micro

MIC_CODES = [code for code in CODES if code.startswith("MIC")]
WITHOUT_BAD_EXAMPLE = {"MIC006", "MIC070"}  # one needs a thousand lines, the other a plan that is no text


def examples(code: str, kind: str) -> list[str]:
    return re.findall(rf"^```micro {kind}\n(.*?)^```", explain(code) or "", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", MIC_CODES)
def test_bad_example_gives_code_and_good_example_nothing(code: str) -> None:
    assert (explain(code) or "").startswith(f"# {code}: {CODES[code].title}\n")
    for text in examples(code, "bad"):
        assert code in {d.code for d in parse_micro(text).diagnostics}
    for text in examples(code, "good"):
        result = parse_micro(text)
        assert not result.diagnostics, render_all(result.diagnostics, result.source)
    assert examples(code, "good")
    assert examples(code, "bad") or code in WITHOUT_BAD_EXAMPLE


def test_front_end_codes_and_pages_correspond() -> None:
    folder = Path(callsheet.frontends.micro.__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    assert set(re.findall(r'"(MIC\d{3})"', text)) == set(MIC_CODES)


def test_errors_are_capped_at_thousand() -> None:
    result = parse_micro('what "x"\n' * 5_000)
    codes = [d.code for d in result.diagnostics if d.is_error]
    assert (codes.count("MIC012"), codes.count("MIC006")) == (1_000, 1)
