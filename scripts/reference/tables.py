"""Tables and names in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def code(text: object) -> str:
    """A text as code; it may contain `|` and backticks."""
    plain = str(text).replace("|", "\\|")
    return f"`` {plain} ``" if "`" in plain else f"`{plain}`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
