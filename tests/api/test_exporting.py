"""Exporting runs of a runtime as traces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.collector import Collector

from callsheet import Answer, CallsheetError, OtelSettings, Runtime

PLAN = 'S1: @CALC ("1 + 1") > $a\nS2: @RESPOND ($a)'


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


async def test_exported_run_is_found_by_trace_id(collector: Collector, tmp_path: Path) -> None:
    async with Runtime(journal=tmp_path / "runs.db") as runtime:
        await runtime.run(PLAN, run_id="sum")
        for _ in range(2):
            sent = await runtime.export_trace("last", collector.url)
    assert (sent.run_id, sent.spans, sent.logs, sent.metrics) == ("sum", 3, 1, 2)
    assert dict(sent.not_taken) == {}
    assert len(collector.spans) == 3
    assert collector.tree() == {
        "": ["invoke_workflow plan"],
        "invoke_workflow plan": ["execute_tool CALC", "respond"],
    }


def test_provenance_is_returned_as_data(tmp_path: Path) -> None:
    runtime = Runtime(journal=tmp_path / "runs.db")
    runtime.run_sync(PLAN, run_id="sum")
    told = runtime.provenance_sync("sum", content=True)
    assert [entity.get("prov:value") for entity in told["entity"].values()] == [None, "2", '"2"']
    assert next(iter(told["wasDerivedFrom"].values()))["prov:usedEntity"] == "run:w1"


def test_exporting_without_journal_or_run_is_error(tmp_path: Path, collector: Collector) -> None:
    with pytest.raises(ValueError, match="journal"):
        Runtime().export_trace_sync("last", collector.url)
    runtime = Runtime(journal=tmp_path / "runs.db")
    with pytest.raises(CallsheetError, match="JRN002"):
        runtime.export_trace_sync("last", collector.url)
    with pytest.raises(CallsheetError, match="TRC003"):
        runtime.export_trace_sync("last", "nowhere")


async def test_runs_are_exported_while_running(
    collector: Collector, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = OtelSettings(url=collector.url, content=True)
    async with Runtime(journal=tmp_path / "runs.db", otlp=settings) as runtime:
        await runtime.run('S1: @ASK_HUMAN ("who?") > $who\nS2: @RESPOND ($who)', run_id="who")
        await runtime.answer("who", "S1", Answer.of("ada"))
        assert (await runtime.resume("who")).response == "ada"
    assert collector.tree()[""] == ["invoke_workflow plan", "invoke_workflow plan"]
    async with Runtime(journal=tmp_path / "runs.db", otlp="http://127.0.0.1:1") as runtime:
        assert (await runtime.run(PLAN)).response == "2"
    assert "is not sent" in caplog.text
    with pytest.raises(ValueError, match="journal"):
        Runtime(otlp=collector.url)
    with pytest.raises(CallsheetError, match="TRC003"):
        Runtime(otlp="nowhere", journal=tmp_path / "runs.db")
