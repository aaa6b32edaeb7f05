"""Links between the pages of the documentation lead to files, and to headings in them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
CODE = re.compile(r"^(`{3,}).*?^\1", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_file_and_heading(page: Path) -> None:
    links = LINK.findall(CODE.sub("", page.read_text("utf-8")))
    assert [name for name, _ in links if not (page.parent / name).exists()] == []
    targets = [((page.parent / name) if name else page, heading) for name, heading in links]
    lost = [f"{to.name}#{part}" for to, part in targets if to.suffix == ".md" and part not in anchors(to)]
    assert lost == []


@cache
def anchors(page: Path) -> frozenset[str]:
    """The names of a page's headings in links, and the page itself."""
    headings = HEADING.findall(CODE.sub("", page.read_text("utf-8")))
    return frozenset({"", *map(anchor, headings)})


def anchor(heading: str) -> str:
    """The name of a heading: its own, as in `Title { #name }`, or its words."""
    if own := re.search(r"\{ #(\S+) \}$", heading):
        return own.group(1)
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def test_decisions_have_unique_numbers() -> None:
    numbers = [page.name[:4] for page in (ROOT / "docs" / "decisions").glob("*.md")]
    assert len(set(numbers)) == len(numbers)
