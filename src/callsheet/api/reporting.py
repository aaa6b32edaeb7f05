"""A run of a runtime's journal as one HTML file.

In: the id of a run. Out: the path of the file.
"""

from __future__ import annotations

import os
from pathlib import Path

from callsheet.api.looking import Looking
from callsheet.views.report.values import MOST_BYTES


class Reporting(Looking):
    """Writes reports; it opens its kit as a runtime does."""

    async def report(
        self,
        run_id: str,
        path: str | os.PathLike[str],
        *,
        diff: str | None = None,
        max_value: int = MOST_BYTES,
        redact: bool = False,
    ) -> Path:
        """Write a run of the journal as one HTML file, and give its path.

        `run_id`, and `diff` for a run that it is compared with, are ids, the beginnings of some, or `last`.
        Values of more than `max_value` bytes are shortened; with `redact` all are left out. Raises
        CallsheetError: JRN002 for an unknown run, JRN012, JRN015 or JRN020 where its events cannot be read;
        OSError where the file cannot be written; ValueError for a runtime without a journal.
        """
        from callsheet.runtime import reporting  # noqa: PLC0415 - brings the viewer, which few programs need
        from callsheet.views.report.build import Showing  # noqa: PLC0415 - as above

        if self._kit.journal is None:
            raise ValueError("this runtime has no journal to report from: Runtime(journal=PATH)")
        async with self._opened() as session:
            assert session.journal is not None
            showing = Showing(max_value, redact)
            name = session.find(run_id)
            document = reporting.report_document(session.journal, name, showing=showing, other=diff)
        return reporting.save_page(Path(path), reporting.report_page(document))

    def report_sync(
        self,
        run_id: str,
        path: str | os.PathLike[str],
        *,
        diff: str | None = None,
        max_value: int = MOST_BYTES,
        redact: bool = False,
    ) -> Path:
        """As `report`, for programs without an event loop."""
        work = self.report(run_id, path, diff=diff, max_value=max_value, redact=redact)
        return self._run_sync(work, "report")
