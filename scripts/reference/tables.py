"""Tables and names in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def code(text: object) -> str:
    """A text as code; it may contain `|` and backticks."""
    said = str(text).replace("|", "\\|")
    return f"`` {said} ``" if "`" in said else f"`{said}`"


def plain(text: str) -> str:
    """A text in which nothing is Markdown but what stands between backticks."""
    parts = text.split("`")
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(r"([\\<*_\[|])", r"\\\1", parts[at])
    return "`".join(parts)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
