"""Links between the pages of the documentation lead to files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")

CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_file(page: Path) -> None:
    links = LINK.findall(CODE.sub("", page.read_text("utf-8")))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_decisions_have_unique_numbers() -> None:
    numbers = [page.name[:4] for page in (ROOT / "docs" / "decisions").glob("*.md")]
    assert len(set(numbers)) == len(numbers)
