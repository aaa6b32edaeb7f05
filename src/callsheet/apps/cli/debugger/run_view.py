"""The data of a run that the debugger displays; expensive parts are computed on demand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from callsheet.apps.operations.lineage import diff_lines
from callsheet.apps.operations.runs import shown_status
from callsheet.apps.rendering.values import format_seconds, preview
from callsheet.diagnostics import CallsheetError
from callsheet.sealing.sealer import shown
from callsheet.store.errors import JournalError
from callsheet.store.events import Event
from callsheet.store.journal import Journal
from callsheet.store.runs import RunInfo
from callsheet.trace.blame import blame_of
from callsheet.trace.comparing import compare_runs
from callsheet.trace.lineage.lineage import NONE
from callsheet.trace.lineage.record import lineage_of
from callsheet.trace.lineage.slices import Node, backward
from callsheet.trace.matcher import finder
from callsheet.trace.projection.recording import record_of
from callsheet.trace.search import search
from callsheet.trace.state_at import state_at_event
from callsheet.views.debugger import FactConfidence, Row, Story, read_lines, row_at, rows_of, step_lines
from callsheet.views.lineage import why_lines
from callsheet.views.report.facts import facts_of
from callsheet.views.report.visits import Times, times_of

_MAX_EVENTS = 5_000
"""The largest run, in events, for whose values a confidence is computed."""
_MAX_PLACES = 2_000
_DEPTH = 6
_MAX_LINES = 500
_MAX_DIFFERENCES = 20


def _event_line(event: Event, count: int, times: Times) -> str:
    body = "" if event.body is None else preview(shown(event.body), 200)
    about = " ".join(filter(None, (str(event.type), event.key, body)))
    return f"event {event.seq} of {count}  +{format_seconds(max(0.0, times.of(event.seq)))}  {about}"


class RunView:
    """A run of an open journal, as of its opening. Raises JournalError for unreadable events."""

    def __init__(self, journal: Journal, info: RunInfo) -> None:
        self._journal, self._info = journal, info
        self._plan = journal.plan_of(info.plan_hash)
        events = list(journal.events(info.run_id))
        self._lineage = lineage_of(self._plan, journal.entries(info.run_id), journal.plan_of)
        times = times_of(events, info)
        rows = rows_of(self._lineage, self._confidences(), times)
        lines = tuple(_event_line(event, len(events), times) for event in events)
        self.story = Story(self._head(times), rows, lines)

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._info.run_id

    @property
    def status(self) -> str:
        """The status of the run."""
        return shown_status(self._journal, self._info)

    def _confidences(self) -> dict[int, FactConfidence]:
        if self._info.events > _MAX_EVENTS:
            return {}
        record = record_of(self._plan, self._journal.events(self.run_id), self._journal.plan_of)
        facts = facts_of(self._lineage, record, {})
        return {
            fact.write: FactConfidence(fact.id, fact.value, fact.basis)
            for fact in facts
            if fact.write != NONE
        }

    def _head(self, times: Times) -> str:
        info = self._info
        bad_event = self._journal.verify(info.run_id)
        name = info.title or info.plan_id or ""
        status = self.status
        failed = blame_of(self._lineage) if status in ("failed", "refused") else None
        at = ""
        if failed is not None and failed.visit != NONE:
            at = f" at {self._lineage.label(self._lineage.visits[failed.visit])}"
        chain = "chain ok" if bad_event is None else f"CHAIN BROKEN at event {bad_event.seq}"
        took = format_seconds(max(times.at) - times.inherited)
        return f"run {info.run_id}  {name + '  ' if name else ''}{status.upper()}{at}  {took}  {chain}"

    # ------------------------------------------------------------ views

    def step(self, row: int) -> list[str]:
        """The inputs and the result of a step."""
        return step_lines(self._lineage, self._lineage.visits[self.story.rows[row].visit])

    def why(self, row: int) -> list[str]:
        """The lineage of the value of a step; for a step without a value, what it has read."""
        visit = self._lineage.visits[self.story.rows[row].visit]
        written = self._lineage.write_of.get(visit.id, NONE)
        if written == NONE:
            return read_lines(self._lineage, visit)
        start = Node(written, ())
        graph = backward(self._lineage, start, _MAX_PLACES, _DEPTH)
        return list(islice(why_lines(self._lineage, graph, start, _DEPTH), _MAX_LINES))

    def variables(self, seq: int) -> list[str]:
        """The variables after an event."""
        _, folded = state_at_event(self._journal, self._info, seq)
        lines = [f"${name} = {preview(value, 200)}" for name, value in folded.machine.variables().items()]
        return lines or ["no variable is set"]

    def diff(self, other: str) -> list[str]:
        """The differences from another run. Raises JournalError if there is no such run."""
        info = self._journal.find_run(other)
        return [
            f"A {self.run_id}, B {info.run_id}",
            *diff_lines(compare_runs(self._journal, self._info, info, _MAX_DIFFERENCES)),
        ]

    def search(self, text: str) -> list[tuple[int, str]]:
        """The events that match a text or a pattern, with the place. Raises JournalError (JRN085)."""
        find = finder(text, ignore_case=text.islower())
        events = self._journal.events(self.run_id)
        matches = islice(search(self._plan, events, self._journal.plan_of, find), _MAX_PLACES)
        return [
            (m.seq, f"{m.what} {m.place}".rstrip() + f": {preview(f'{m.before}{m.text}{m.after}', 120)}")
            for m in matches
        ]

    def export(self, path: Path) -> str:
        """Write the run as a report (.html) or as LCTL (.yaml), and return a message.

        Raises CallsheetError (CFG014) if the file cannot be written.
        """
        if path.suffix in (".yaml", ".yml"):
            from callsheet.runtime.lctl_export import lctl_of  # noqa: PLC0415 - only where it is asked for
            from callsheet.trace.lctl.write import write  # noqa: PLC0415 - as above

            text = write(lctl_of(self._journal, self.run_id))
        elif path.suffix in (".html", ".htm"):
            from callsheet.runtime.reporting import MADE_BY, report_document, report_page  # noqa: PLC0415
            from callsheet.views.report.build import Showing  # noqa: PLC0415 - as above

            text = report_page(report_document(self._journal, self.run_id, MADE_BY, Showing(), None))
        else:
            raise JournalError(
                "CFG014", f"{path} is neither .html nor .yaml", "name a file RUN.html or RUN.yaml"
            )
        try:
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise CallsheetError.single(
                "CFG014", f"{path} cannot be written: {error.strerror or error}"
            ) from error
        return f"wrote {path}, {len(text):,} characters"

    def row_at(self, seq: int) -> int:
        """The row of the last visit that had started at an event."""
        return row_at(self.story, seq)

    def rows(self) -> Sequence[Row]:
        """The visits of the run."""
        return self.story.rows
