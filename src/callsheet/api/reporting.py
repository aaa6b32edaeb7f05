"""`Runtime.report` and `Runtime.lctl`: a recorded run as an HTML file, or as an LCTL document for agents.

In: the id of a run. Out: the path of the file, or the document.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from callsheet.api.inspecting import Inspecting
from callsheet.diagnostics.wrong_type import wanted, wanted_names, wanted_number, wanted_path
from callsheet.ir import canonical_tool_name
from callsheet.runtime.reporting import lctl_of
from callsheet.trace.lctl.model import DebugDocument, Handoff
from callsheet.views.report.values import MOST_BYTES


class Reporting(Inspecting):
    """The part of `Runtime` that writes reports and LCTL documents."""

    async def report(
        self,
        run_id: str,
        path: str | os.PathLike[str],
        *,
        diff: str | None = None,
        max_value: int = MOST_BYTES,
        redact: bool = False,
    ) -> Path:
        """Write a recorded run as a single HTML file, and return its path.

        `run_id`, and `diff` for a run to compare it with, are ids, prefixes of ids, or `last`. Values of more
        than `max_value` bytes are shortened; with `redact` all values are left out. Raises CallsheetError:
        JRN002 for an unknown run, JRN012, JRN015 or JRN020 if its events cannot be read; OSError if the file
        cannot be written; ValueError for a runtime without a journal.
        """
        from callsheet.runtime import reporting  # noqa: PLC0415 - brings the viewer, which few programs need
        from callsheet.views.report.build import Showing  # noqa: PLC0415 - as above

        self._require_journal()
        place = wanted_path("path", path)
        wanted("max_value", max_value, int, "a number of bytes")
        wanted("redact", redact, bool, "True or False")
        if diff is not None:
            wanted("diff", diff, str, "the id of a run")
        async with self._opened() as session:
            assert session.journal is not None
            showing = Showing(max_value, redact)
            name = session.find(run_id)
            document = reporting.report_document(session.journal, name, showing=showing, other=diff)
        return reporting.save_page(place, reporting.report_page(document))

    def report_sync(
        self,
        run_id: str,
        path: str | os.PathLike[str],
        *,
        diff: str | None = None,
        max_value: int = MOST_BYTES,
        redact: bool = False,
    ) -> Path:
        """Like `report`, for programs without an event loop."""
        work = self.report(run_id, path, diff=diff, max_value=max_value, redact=redact)
        return self._run_sync(work, "report")

    async def lctl(
        self,
        run_id: str,
        at: str | int | None = None,
        *,
        debug: bool | None = None,
        items: bool = False,
        confidence: Mapping[str, float] | None = None,
    ) -> Handoff | DebugDocument:
        """A recorded run as an LCTL document; `callsheet.lctl.write` gives its text.

        `run_id` is an id, a prefix of one, or `last`. `at` is a step, one of its visits such as `S3@2`, or
        the number of an event: the document then describes the run after it, by default its latest state.
        `items` lists the results of each FOREACH one by one. `debug` selects the post-mortem (True) or the
        hand-off (False); by default a failed run gives a post-mortem. `confidence` maps tools to how certain
        their results are, from 0 to 1. Raises CallsheetError: JRN002 for an unknown run, JRN012, JRN015 or
        JRN020 if its events cannot be read, RUN060 for a step that the run has not done, JRN041 for an event
        that it does not have; ValueError for a confidence outside 0 to 1, or a runtime without a journal.
        """
        self._require_journal()
        given = wanted_names("confidence", confidence)
        by_tool = {
            canonical_tool_name(tool): wanted_number(f"confidence[{tool!r}]", value)
            for tool, value in given.items()
        }
        if not all(0 <= value <= 1 for value in by_tool.values()):
            raise ValueError("confidence is a number from 0 to 1")
        async with self._opened() as session:
            assert session.journal is not None
            run = session.find(run_id)
            return lctl_of(session.journal, run, at, debug=debug, with_items=items, by_tool=by_tool)

    def lctl_sync(
        self,
        run_id: str,
        at: str | int | None = None,
        *,
        debug: bool | None = None,
        items: bool = False,
        confidence: Mapping[str, float] | None = None,
    ) -> Handoff | DebugDocument:
        """Like `lctl`, for programs without an event loop."""
        work = self.lctl(run_id, at, debug=debug, items=items, confidence=confidence)
        return self._run_sync(work, "lctl")
