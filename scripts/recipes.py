"""Writes a table of the plans of `examples/everyday`, and some of them in full, into `docs/everyday.md`.

Run it after a change of them: python -m scripts.recipes
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from callsheet import Plan

ROOT: Final = Path(__file__).parents[1]
EVERYDAY: Final = ROOT / "examples" / "everyday"
PAGE: Final = ROOT / "docs" / "everyday.md"
MARKER: Final = "<!-- what follows is written by `python -m scripts.recipes` -->\n"
SECTIONS: Final = {
    "Money and stock": [
        *(
            "expense-sums",
            "overdue-invoices",
            "match-payments",
            "subscriptions",
            "restock-order",
            "backup-table",
        ),
    ],
    "People and time": [
        *("birthdays", "meeting-times", "book-room", "timesheet", "import-contacts", "double-customers"),
        *("mail-merge", "ask-once"),
    ],
    "Notes and files": [
        *("meeting-minutes", "notes-to-calendar", "weekly-digest", "archive-notes", "shopping-list"),
        *("photos-by-date", "tidy-downloads", "wait-for-export"),
    ],
    "Code and the web": [
        *("changelog", "standup", "stale-branches", "review-words", "save-notes", "triage-tickets"),
        *("nightly-report", "link-check", "page-changed"),
    ],
}
SHOWN: Final = ("ask-once", "link-check")
"""The plans that the page has in full, of two servers."""


def page(text: str) -> str:
    """The page with this text above its marker."""
    return text.partition(MARKER)[0] + MARKER + "\n".join(_sections()) + "\n"


def _sections() -> Iterator[str]:
    servers = _servers()
    for heading, names in SECTIONS.items():
        yield f"\n## {heading}\n\n| plan | what it does | servers |\n|---|---|---|"
        for name in names:
            plan = Plan.parse((EVERYDAY / f"{name}.ltp").read_text("utf-8"))
            used = sorted(
                {servers[step.call.tool] for step in plan.steps if step.call and step.call.tool in servers}
            )
            yield f"| `{name}` | {plan.goal} | {', '.join(used)} |"
        for name in names:
            if name in SHOWN:
                python = (EVERYDAY / "python" / f"{name}.py").read_text("utf-8")
                yield f'\n```python title="python/{name}.py"\n{python}```'


def _servers() -> dict[str, str]:
    """The server of each tool, by the name that plans have for it."""
    locked = json.loads((EVERYDAY / "callsheet.lock").read_text("utf-8"))["servers"]
    return {
        tool.upper(): server
        for server, of in locked.items()
        for tool in of["tools"]
        if tool not in {"write_file", "read_file", "search_files", "edit_file"}  # the built-in ones are meant
    }


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
