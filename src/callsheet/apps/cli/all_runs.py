"""`callsheet top --all`: what the runs of a journal are doing, and which need a person, until Ctrl-C.

In: a journal that any processes write. Out: a table on a terminal, else one list, as lines or as JSON.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from callsheet.apps.operations.runs import RunRow, run_row
from callsheet.apps.operations.under_way import UnderWay
from callsheet.apps.operations.watching import OpenRun
from callsheet.apps.rendering.values import format_seconds, preview
from callsheet.store.listing import RunQuery, listed_runs
from callsheet.store.runs import RunFilter, RunInfo

if TYPE_CHECKING:
    from rich.table import Table

    from callsheet.store.journal import Journal

_OPEN = ("running", "waiting", "in_doubt", "interrupted")
_MOST = 50
_PAUSE = 0.5
_STYLES = {"running": "cyan", "waiting": "yellow", "in_doubt": "red", "interrupted": "red"}


class OpenRuns:
    """The runs of a journal that have not ended, by status; each look reads only what is new."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._under_way = UnderWay(journal)
        self.cut: tuple[str, ...] = ()
        """The statuses of which there are more runs than the newest that the last look gave."""

    def look(self) -> list[OpenRun]:
        """How they are now."""
        now = time.time()
        rows: list[OpenRun] = []
        found = {
            status: listed_runs(self._journal, RunQuery(wanted=RunFilter(status=status), limit=_MOST + 1))
            for status in _OPEN
        }
        self.cut = tuple(status for status, runs in found.items() if len(runs) > _MOST)
        for runs in found.values():
            for info, shown in runs[:_MOST]:
                row = run_row(self._journal, info, shown, self._under_way, has_doubts=False)
                rows.append(self._row(row, info, max(0.0, now - info.created)))
        return rows

    def _row(self, row: RunRow, info: RunInfo, took: float) -> OpenRun:
        return {
            "run_id": row["run_id"],
            "status": row["outcome"],
            "plan": row["plan"],
            "seconds": round(took, 3),
            "calls": self._under_way.look(info, info.events).calls,
            "under_way": row.get("under_way") or row["waits_for"] or "",
        }


def left_out(cut: tuple[str, ...]) -> str:
    """Which runs are not shown, and how they are."""
    words = " and ".join(status.replace("_", " ") for status in cut)
    return f"the newest {_MOST} runs that are {words}; all: callsheet runs --status {cut[0]}"


def line_of(row: OpenRun) -> str:
    """A run on one line."""
    status, took = row["status"].replace("_", " "), format_seconds(row["seconds"])
    head = f"{row['run_id']:<22} {status:<12} {took:>9} {row['calls']:>7,}"
    return f"{head}  {preview(row['plan'], 40)}  {row['under_way']}"


def watch(journal: Journal) -> None:
    """Draw the runs until the caller is interrupted."""
    from callsheet.apps.cli.progress.live import Drawing, Screen  # noqa: PLC0415 - imports rich

    runs = OpenRuns(journal)
    screen = Screen(stderr=True)
    drawing = Drawing(console=screen, auto_refresh=False, screen=False)
    with drawing:
        while True:
            rows = runs.look()
            drawing.update(_table(rows, screen.height - 2, runs.cut), refresh=True)
            time.sleep(_PAUSE)


def _table(rows: list[OpenRun], most: int, cut: tuple[str, ...]) -> Table:
    from rich.table import Table  # noqa: PLC0415 - imports rich
    from rich.text import Text  # noqa: PLC0415 - as above

    counts = Counter(row["status"] for row in rows)
    head = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts.items())
    table = Table(title=Text(head or "no run is under way", "bold"), title_justify="left", box=None)
    for name in ("run", "status", "time", "calls", "plan", "under way"):
        table.add_column(name, no_wrap=True, justify="right" if name in ("time", "calls") else "left")
    for row in rows[:most]:
        table.add_row(
            row["run_id"],
            Text(row["status"].replace("_", " "), _STYLES.get(row["status"], "")),
            format_seconds(row["seconds"]),
            f"{row['calls']:,}",
            Text(preview(row["plan"], 40)),
            Text(row["under_way"]),
        )
    if len(rows) > most:
        table.add_row(f"and {len(rows) - most} more")
    if cut:
        table.caption = Text(left_out(cut))
    return table
