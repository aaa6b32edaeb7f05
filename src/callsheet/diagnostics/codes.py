"""The table of diagnostic codes; each has a page in `pages/` with an example and the repair.

Areas: LTP text (0xx errors, 1xx loose spellings with a fix), CHK what the checks find in a plan,
TOL tools and servers, RUN what can end a run, JRN the journal, CFG configuration and usage.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """A code and its title: what is wrong, in a few words."""

    name: str
    title: str


def _table(**titles: str) -> dict[str, Code]:
    return {name: Code(name, title) for name, title in titles.items()}


CODES: dict[str, Code] = _table(
    CHK001="a variable that no step sets",
)


def explain(code: str) -> str | None:
    """The page of a code as Markdown, or None if there is no such code."""
    if code.upper() not in CODES:
        return None
    from importlib import resources  # noqa: PLC0415 - costs more than the rest of the layer

    page = resources.files("callsheet.diagnostics") / "pages" / f"{code.upper()}.md"
    return page.read_text(encoding="utf-8")
