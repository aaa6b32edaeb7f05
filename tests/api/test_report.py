"""`Runtime.report`: a run as one HTML file, from Python."""

from __future__ import annotations

import pytest

from callsheet import Runtime
from callsheet.diagnostics import CallsheetError


def test_report_is_written_to_file(tmp_path):
    with Runtime(journal=tmp_path / "journal.db") as runtime:
        runtime.run_sync('S1: @CALC ("$n * 1000") > $twice', {"n": 867}, run_id="r1")
        path = runtime.report_sync("last", tmp_path / "r1.html")
        assert "867000" in path.read_text()
        assert "867000" not in runtime.report_sync("r1", tmp_path / "r1.html", redact=True).read_text()
        with pytest.raises(CallsheetError, match="r9"):
            runtime.report_sync("r9", tmp_path / "r9.html")


def test_report_without_journal_is_error(tmp_path):
    with pytest.raises(ValueError, match="no journal"):
        Runtime().report_sync("r1", tmp_path / "r1.html")
