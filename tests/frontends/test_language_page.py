"""The plans in the language reference parse."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from callsheet.diagnostics import render_all
from callsheet.frontends.ltp import format_plan, parse

PAGE = Path(__file__).resolve().parents[2] / "docs" / "language.md"
BLOCKS = re.findall(r"^```ltp\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_page_blocks_are_plans(block: str) -> None:
    result = parse(block, strict=True)
    assert not result.diagnostics, render_all(result.diagnostics, result.source)
    assert parse(format_plan(result.require())).plan == result.plan
