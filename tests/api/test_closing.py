"""Errors of a runtime and a journal that are closed, not open, or in use elsewhere."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from callsheet import Journal, Runtime

PLAN = 'S1: @CALC ("1 + 1") > $a\nS2: @RESPOND ($a)'


def test_closed_journal_reports_that_it_is_closed(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "j.db")
    journal.close()
    journal.close()
    for use in (journal.runs, lambda: Runtime(journal=journal).run_sync(PLAN)):
        with pytest.raises(ValueError, match=r"the journal .*j\.db is closed: open it again"):
            use()


def test_runtime_that_is_not_open_cannot_be_closed() -> None:
    with Runtime() as runtime:
        pass
    with pytest.raises(RuntimeError, match="not open"):
        runtime.__exit__(None, None, None)
    assert runtime.run_sync(PLAN).response == "2"


def test_use_from_another_thread_is_error() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> str:
        begun.set()
        go_on.wait(60)
        return "done"

    with Runtime(tools=[wait]) as runtime:
        found: list[str] = []
        other = threading.Thread(target=lambda: found.append(runtime.run_sync("S1: @WAIT > $x").status))
        other.start()
        assert begun.wait(60)
        with pytest.raises(RuntimeError, match="another thread runs something with this runtime"):
            runtime.run_sync(PLAN)
        go_on.set()
        other.join(60)
        assert found == ["done"]
        assert runtime.run_sync(PLAN).response == "2"
