"""Runs that are exported while in progress: what arrives, and that no run waits for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.collector import Collector

from callsheet import RunStatus, Runtime, tool
from callsheet.runtime.telemetry.live import LiveExport, telemetry_of
from callsheet.runtime.telemetry.sending import Sender
from callsheet.runtime.telemetry.target import target_of
from callsheet.store import Journal

PLAN = "S1: @CALC ('1 + 1') > $a\nS2: @WAIT () > $b\nS3: @RESPOND ($a)"


def live(journal: Path, collector: Collector) -> LiveExport:
    Journal.open(journal).close()
    export = LiveExport(journal, "r", target_of(collector.url), interval=0.02)
    export.start()
    return export


def run(journal: Path, wait: Any) -> RunStatus:
    return Runtime([wait], journal=journal).run_sync(PLAN, run_id="r").status


def test_spans_arrive_during_run_and_resending_adds_nothing(collector: Collector, tmp_path: Path) -> None:
    journal, names = tmp_path / "j.db", list[str]()

    @tool(effect="read")
    def wait() -> str:
        assert collector.arrived.wait(60)
        names.extend(span["name"] for span in collector.spans.values())
        return "waited"

    export = live(journal, collector)
    assert run(journal, wait) is RunStatus.DONE
    done = export.finish(20)
    assert (done.spans, done.failure) == (4, None)
    assert "execute_tool WAIT" not in names
    before = dict(collector.spans), dict(collector.metrics)
    assert len(before[0]) == 4
    with Journal.open_to_read(journal) as opened, Sender(target_of(collector.url), "r") as sender:
        sender.send(telemetry_of(opened, "r"))
    assert (collector.spans, collector.metrics) == before


def test_hanging_collector_blocks_no_run(collector: Collector, tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    collector.hold.clear()

    @tool(effect="read")
    def wait() -> str:
        assert collector.arrived.wait(60)
        return "waited"

    export = live(journal, collector)
    assert run(journal, wait) is RunStatus.DONE  # and the collector has answered nothing
    done = export.finish(0.1)
    assert (done.spans, done.failure) == (0, "it has not answered within 0.1 s")
    assert collector.spans == {}


def test_refused_spans_arrive_later_in_run(collector: Collector, tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    collector.answers = [503, 500]

    @tool(effect="read")
    def wait() -> str:
        assert collector.arrived.wait(60)
        return "waited"

    export = live(journal, collector)
    run(journal, wait)
    export.finish(20)
    second = LiveExport(journal, "r", target_of(collector.url), interval=0.02)
    second.start()
    assert second.finish(20).failure is None
    assert len(collector.spans) == 4


def test_unreachable_collector_is_reported_at_end(collector: Collector, tmp_path: Path) -> None:
    journal = tmp_path / "j.db"

    @tool(effect="read")
    def wait() -> str:
        return "waited"

    collector.close()
    export = live(journal, collector)
    assert run(journal, wait) is RunStatus.DONE
    done = export.finish(20)
    assert done.spans == 0
    assert "cannot be reached" in str(done.failure)


def test_run_that_never_started_sends_nothing(collector: Collector, tmp_path: Path) -> None:
    done = live(tmp_path / "j.db", collector).finish(20)
    assert (done.spans, done.failure, collector.requests) == (0, None, [])
