"""`Runtime.lctl`: a run as a hand-off document."""

from __future__ import annotations

from pathlib import Path

import pytest

from callsheet import Runtime, tool
from callsheet.diagnostics import CallsheetError
from callsheet.lctl import DebugDocument, Handoff, check, receive, write


@tool(effect="read")
def total(invoice: int) -> float:
    """The total of an invoice."""
    if invoice < 0:
        raise ValueError("there is no such invoice")
    return 120.5


PLAN = 'S1: @TOTAL ($invoice) > $total ON_FAIL TERMINATE ("no total")\nS2: @RESPOND ("It is $total")'


def test_run_becomes_document_that_can_be_received(tmp_path: Path) -> None:
    with Runtime(tools=[total], journal=tmp_path / "j.db") as runtime:
        run = runtime.run_sync(PLAN, {"invoice": 881})
        document = runtime.lctl_sync(run.run_id)
        assert isinstance(document, Handoff)
        got = receive(write(document), agent="caller")
        assert (got.document.critical, got.effective["F2"]) == (("F2",), 0.95)
        sure = runtime.lctl_sync("last", "S1", confidence={"total": 1})
        assert sure.facts["F2"].confidence == 1
        with pytest.raises(ValueError, match="from 0 to 1"):
            runtime.lctl_sync("last", confidence={"total": 2})
        with pytest.raises(CallsheetError, match="RUN060"):
            runtime.lctl_sync("last", "S7")


def test_failed_run_has_post_mortem_unless_hand_off_is_requested(tmp_path: Path) -> None:
    with Runtime(tools=[total], journal=tmp_path / "j.db") as runtime:
        runtime.run_sync(PLAN, {"invoice": -1})
        assert isinstance(runtime.lctl_sync("last"), DebugDocument)
        assert isinstance(runtime.lctl_sync("last", debug=False), Handoff)
        assert check([runtime.lctl_sync("last")]).is_ok


def test_lctl_without_journal_is_error() -> None:
    with Runtime() as runtime, pytest.raises(ValueError, match="no journal"):
        runtime.lctl_sync("last")


def test_run_is_described_after_any_event(tmp_path: Path) -> None:
    with Runtime(tools=[total], journal=tmp_path / "j.db") as runtime:
        run = runtime.run_sync(PLAN, {"invoice": 881})
        before, after = runtime.lctl_sync(run.run_id, 1), runtime.lctl_sync(run.run_id, 3)
        assert (list(before.facts), before.chain.target) == (["F1"], "S1:@TOTAL")
        assert list(after.facts) == ["F1", "F2"]
        with pytest.raises(CallsheetError, match="JRN041"):
            runtime.lctl_sync(run.run_id, 99)
