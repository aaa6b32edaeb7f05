"""Every DAG code has a page, whose bad example gives the code and whose good one is clean."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import callsheet.frontends.dag
from callsheet.diagnostics import CODES, explain, render_all
from callsheet.frontends.dag import parse_dag

DAG_CODES = [code for code in CODES if code.startswith("DAG")]
WITHOUT_BAD_EXAMPLE = {"DAG006", "DAG070", "DAG071", "DAG072"}
"""Codes for a thousand lines, or that are given when a plan is converted."""


def examples(code: str, kind: str) -> list[tuple[str, str]]:
    return re.findall(rf"^```(json|yaml) {kind}\n(.*?)^```", explain(code) or "", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", DAG_CODES)
def test_bad_example_gives_code_and_good_example_nothing(code: str) -> None:
    for language, text in examples(code, "bad"):
        assert code in {d.code for d in parse_dag(text, is_yaml=language == "yaml").diagnostics}
    for language, text in examples(code, "good"):
        result = parse_dag(text, is_yaml=language == "yaml")
        assert not result.diagnostics, render_all(result.diagnostics, result.source)
    assert examples(code, "good")
    assert examples(code, "bad") or code in WITHOUT_BAD_EXAMPLE


def test_front_end_codes_and_pages_correspond() -> None:
    folder = Path(callsheet.frontends.dag.__file__).parent
    modules = [*folder.glob("*.py"), *(folder.parent / "structured").glob("json_*.py")]
    text = "".join(path.read_text(encoding="utf-8") for path in modules)
    assert set(re.findall(r'"(DAG\d{3})"', text)) == set(DAG_CODES)


def test_errors_are_capped_at_thousand() -> None:
    result = parse_dag('{"steps": [' + ", ".join(["1"] * 5_000) + "]}")
    codes = [d.code for d in result.diagnostics]
    assert (codes.count("DAG011"), codes.count("DAG006")) == (1_000, 1)
