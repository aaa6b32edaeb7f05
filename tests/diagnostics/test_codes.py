"""Every code that the product uses is in the table and has a page."""

from __future__ import annotations

import re
from pathlib import Path

import callsheet
from callsheet.diagnostics import CODES, explain

SOURCES = Path(callsheet.__file__).parent
SAID = re.compile(r'"((?:API|LTP|MIC|DAG|GRM|CHK|TOL|CFG|RUN|JRN|PLN|CMP|MDL|AGT|SEC|TRC|MCP)\d{3})"')


def test_codes_in_source_are_in_table() -> None:
    texts = (path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py") if path.name != "codes.py")
    said = {code for text in texts for code in SAID.findall(text)}
    assert len(said) > 100
    assert said <= set(CODES)


def test_every_code_has_page_under_its_title() -> None:
    titles = {code: f"# {code}: {CODES[code].title}" for code in CODES}
    assert {code: (explain(code) or "").partition("\n")[0] for code in CODES} == titles
