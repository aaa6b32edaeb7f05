"""Writes the plans of `examples/everyday`, as Python, into `docs/everyday.md` below its marker.

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


def page(text: str) -> str:
    """The page with this text above its marker."""
    return text.partition(MARKER)[0] + MARKER + "\n".join(_sections())


def _sections() -> Iterator[str]:
    servers = _servers()
    for heading, names in SECTIONS.items():
        yield f"\n## {heading}"
        for name in names:
            python = (EVERYDAY / "python" / f"{name}.py").read_text("utf-8")
            plan = Plan.parse((EVERYDAY / f"{name}.ltp").read_text("utf-8"))
            used = sorted(
                {servers[step.call.tool] for step in plan.steps if step.call and step.call.tool in servers}
            )
            yield f"\n### {name.replace('-', ' ').capitalize()}\n"
            yield f"Servers: {', '.join(used)}.\n" if used else "Only built-in tools.\n"
            yield f'```python title="python/{name}.py"\n{python}```'


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
