"""The demonstration on real MCP servers as a subject: its one write is the row in `decisions`.

Its oracle: the answer and the variables are those of the uninterrupted run, also if the row existed and the
call was therefore skipped, since the plan reads the table afterwards. The table has one row, and `report.md`
the content that it has without a crash.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from callsheet.apps.demo.sample import Sample, create_sample
from crashes.oracle import Call, History
from crashes.subject import RUN_ID, Answer

_ROW = "v2.0 is held: a crash is open"


class Demo:
    """The demonstration in a folder, with the commands of its servers."""

    def __init__(self, folder: Path, servers: dict[str, Path]) -> None:
        self._folder = folder / "demo"
        self._servers = servers
        self._trials = 0
        self._sample: Sample | None = None
        self._report = ""
        self.journal = self._folder / "journal-0.db"
        data, pins = self._folder / "data", self._folder / "pins.json"
        self.env: Mapping[str, str] = {"XDG_DATA_HOME": str(data), "CALLSHEET_PINS": str(pins)}

    def prepare(self) -> None:
        """Recreate the sample."""
        self._sample = create_sample(self._folder, self._servers)
        self._trials += 1
        self.journal = self._folder / f"journal-{self._trials}.db"

    @property
    def _made(self) -> Sample:
        assert self._sample is not None, "prepare comes first"
        return self._sample

    def run_arguments(self) -> Sequence[str]:
        """The command that `callsheet demo` runs."""
        sample = self._made
        return (
            *("run", str(sample.plan), "--mcp-config", str(sample.config)),
            *("--var", f"repo={sample.repository}", "--workspace", str(sample.workspace)),
            *("--journal", str(self.journal), "--run-id", RUN_ID),
        )

    def stamp(self) -> str:
        """The day: the time server answers with dates of today."""
        return datetime.now(UTC).date().isoformat()

    def happened(self, call: Call) -> bool:
        """Whether the row is there; the plan has no other write that is not safe to repeat."""
        assert (call.step, call.tool) == ("S6", "WRITE_QUERY"), call
        return bool(self._rows())

    def times(self) -> Mapping[str, int]:
        """The number of rows of the one write; other calls leave no trace."""
        return {"S6.1": len(self._rows())}

    def expected(self, reference: Answer, history: History) -> Answer:
        """As in the reference, whatever was skipped."""
        return reference

    def world_problems(self, history: History) -> list[str]:
        """Contradictions between the table, the report and the journal."""
        rows, made = self._rows(), {key for key in history.intents if key.startswith("S6.")}
        is_known = history.has_ended or bool(made & history.finished)
        found: list[str] = []
        if len(rows) > 1 or set(rows) - {_ROW} or (is_known and not rows):
            found.append(f"the table of decisions holds {rows}")
        if rows and not made:
            found.append("there is a decision, and the journal knows of no write")
        if history.has_ended:
            report = (self._made.workspace / "report.md").read_text(encoding="utf-8")
            self._report = self._report or report
            if report != self._report:
                found.append("report.md is not what it is without a crash")
        return found

    def _rows(self) -> list[str]:
        with closing(sqlite3.connect(self._made.database)) as database:
            return [text for (text,) in database.execute("SELECT text FROM decisions ORDER BY id")]
