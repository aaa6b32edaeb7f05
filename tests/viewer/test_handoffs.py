"""Hand-offs in a report: documents after any step, acks, omissions; and spans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.viewer.conftest import Opener
from tests.viewer.runs import Runs

from callsheet.runtime.reporting import lctl_of, report_document, report_page
from callsheet.runtime.telemetry.live import telemetry_of
from callsheet.store import Durability, Journal
from callsheet.trace.lctl.write import write
from callsheet.views.otel.otlp import documents
from callsheet.views.report.build import Showing

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def saved(opener_page, button: str, folder: Path) -> str:
    """The file that a button downloads."""
    async with opener_page.expect_download() as coming:
        await opener_page.click(button)
    path = folder / "saved"
    await (await coming.value).save_as(path)
    return path.read_text()


async def test_document_after_step_follows_scrubber(open_report: Opener, runs: Runs, tmp_path: Path):
    opened = await open_report("triage", "#below=lctl&then&seq=32")
    assert "after S9, event" in await opened.text(".document .bar")
    await opened.page.select_option(".moment select", "2")
    chosen = await opened.text(".document .bar .quiet")
    _, step, _, event, *_ = chosen.replace(",", "").split()
    assert (await opened.text(".now")).startswith(f"event {event}/")
    with Journal.open(runs.folder / "journal.db", Durability.OFF) as journal:
        wanted = write(lctl_of(journal, "triage", step, debug=False))
    assert await saved(opened.page, ".document .acts button:has-text('Download')", tmp_path) == wanted
    await opened.page.select_option(".moment select", "end")
    assert "Post-mortem" in await opened.text(".document .bar")


async def test_handoff_shows_outcome(open_report: Opener):
    opened = await open_report("waits", "#below=lctl")
    told = [" ".join(text.split()) for text in await opened.page.locator(".hops li").all_inner_texts()]
    assert len(told) == 2
    assert told[0].startswith("⚑ accepted with concerns")
    assert "run → S5:@AGENT_SOLVE" in told[0]
    assert "flagged A1" in told[0]
    assert "◔ pending run → a person" in told[1]
    await opened.page.keyboard.press("g")  # at the first event nothing has been handed on
    assert "No hand-off up to event 1" in await opened.text(".hops")


async def test_facts_dropped_on_edge_are_marked(open_report: Opener):
    opened = await open_report("waits", "#step=S4")
    marks = opened.page.locator(".dag .lost")
    assert [await mark.get_attribute("aria-label") for mark in await marks.all()] == [
        "$other was not passed from S3 to S4"
    ]
    await opened.page.keyboard.press("g")
    await opened.drawn()
    assert await marks.count() == 0  # it had not been missed yet
    opened = await open_report("triage", "#step=S8")
    blocked = [await mark.get_attribute("aria-label") for mark in await opened.page.locator(".lost").all()]
    assert "$total was passed from S7 to S8, but its confidence of 0.00 is too low to hand it on" in blocked


async def test_spans_equal_exported_ones(open_report: Opener, runs: Runs, tmp_path: Path):
    opened = await open_report("triage", "#below=otel")
    text = await saved(opened.page, ".otel button:has-text('Download')", tmp_path)
    with Journal.open(runs.folder / "journal.db", Durability.OFF) as journal:
        wanted = documents(telemetry_of(journal, "triage"), "test", "triage")
    assert [json.loads(line) for line in text.splitlines()] == wanted
    assert "onerror" not in text  # no arguments, no results
    await opened.page.select_option(".otel select", label="metrics")
    assert "resourceMetrics" in await opened.text(".otel .source")


async def test_page_without_spans_names_export_command(open_report: Opener, runs: Runs, tmp_path: Path):
    await runs.page("waits")
    with Journal.open(runs.folder / "journal.db", Durability.OFF) as journal:
        document = report_document(journal, "waits", "test", Showing(has_spans=False))
    page = tmp_path / "page.html"
    page.write_text(report_page(document))
    opened = await open_report.file(page, "#below=otel")
    assert "callsheet trace export waits --file" in await opened.text("#below-panel")


async def test_duration_is_rounded_before_division_into_minutes(
    open_report: Opener, runs: Runs, tmp_path: Path
):
    await runs.page("waits")
    with Journal.open(runs.folder / "journal.db", Durability.OFF) as journal:
        document = report_document(journal, "waits", "test")
    document.run["seconds"] = 119.7
    page = tmp_path / "page.html"
    page.write_text(report_page(document))
    opened = await open_report.file(page)
    assert "2 min 0 s" in await opened.text(".head .sums")
