"""A report in a browser: opens from disk, executes no content, works with keys and links."""

from __future__ import annotations

import json
from itertools import zip_longest
from pathlib import Path

import pytest
from tests.viewer.conftest import Opener
from tests.viewer.runs import HOSTILE, Runs
from tests.viewer.web import axe_findings

from callsheet.runtime.reporting import report_document, report_page
from callsheet.store import Durability, Journal
from callsheet.views.report.build import Showing

pytestmark = pytest.mark.asyncio(loop_scope="session")

MAIN = ("dag", "waterfall", "log", "plan")
BELOW = ("facts", "lineage", "confidence", "findings", "lctl", "otel", "cost", "diff")


async def test_report_opens_from_disk_and_shows_outcome(open_report: Opener):
    opened = await open_report("triage")
    assert await opened.text("h1 .words") == "Failed at S9"
    assert "likely cause S7" in await opened.text("h1")
    assert await opened.page.title() == "triage · Failed at S9 · callsheet"
    assert len(opened.asked) <= 2  # the file, and its empty icon


async def test_panels_and_graph_change_their_size_by_keys(open_report: Opener):
    opened = await open_report("triage")
    page, width = opened.page, "document.querySelector('.dag svg').getBoundingClientRect().width"
    before = await page.evaluate(width)
    await page.locator(".dag").focus()
    await page.keyboard.press("+")
    assert await page.evaluate(width) > before
    for _ in range(4):
        await page.keyboard.press("+")
    at = "document.querySelector('.dag').scrollTop"
    top, box = await page.evaluate(f"{at} = 1e6; {at}"), await page.locator(".dag").bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + 20, box["y"] + 20)
    await page.mouse.down()
    await page.mouse.move(box["x"] + 20, box["y"] + 70)
    await page.mouse.up()
    assert await page.evaluate(at) == pytest.approx(top - 50)
    await page.keyboard.press("0")
    assert (
        await page.evaluate("(dag => dag.scrollHeight - dag.clientHeight)(document.querySelector('.dag'))")
        <= 0
    )
    for side, x in (("left", 1400), ("right", 40)):
        await page.locator(f".splitter.is-{side}").hover()
        await page.mouse.down()
        await page.mouse.move(x, 400)
        await page.mouse.up()
    centre = await page.locator(".center").bounding_box()
    assert centre is not None
    assert centre["width"] > 100
    for side, panel in (("left", ".steps"), ("right", ".pane"), ("below", ".below")):
        bar = page.locator(f".splitter.is-{side}")
        await bar.press("Enter")
        assert not await page.locator(panel).is_visible()
        await bar.press("Home")
        assert await page.locator(panel).is_visible()


async def test_tool_text_is_never_markup(open_report: Opener):
    opened = await open_report("triage", "#var=tickets&below=lineage")
    page = opened.page
    for name in (*MAIN, *BELOW):
        await page.click(f"#{'main' if name in MAIN else 'below'}-tab-{name}")
    for step in await page.locator(".steps .step").all():
        await step.click()
    await page.click("#below-tab-lineage")
    assert HOSTILE[0] in json.loads(await page.inner_text(".lineage .json.string >> nth=0"))
    assert "\u202e" not in await page.inner_text("body")  # it would turn the order of what is read
    assert await page.evaluate("window.bad") is None
    assert await page.locator("img").count() == 0
    assert await page.locator("#callsheet script, #callsheet iframe").count() == 0


async def test_shortened_values_are_trees_and_copying_says_what_is_copied(open_report: Opener, runs: Runs):
    await runs.page("triage")
    with Journal.open(runs.folder / "journal.db", Durability.OFF) as journal:
        document = report_document(journal, "triage", showing=Showing(most=100))
    path = runs.folder / "shortened.html"
    path.write_text(report_page(document))
    opened = await open_report.file(path, "#var=tickets&below=lineage")
    value = opened.page.locator(".lineage .value").first
    assert await value.locator("button.key", has_text="subject").count() == 1
    assert "…" in await value.locator(".json.string").last.inner_text()
    assert "The rest is not in this report" in await value.inner_text()
    await value.locator("button", has_text="Copy the first 100 B of").click()
    await value.locator("button", has_text="copied the first 100 B of").wait_for()


async def test_only_own_script_runs(open_report: Opener):
    opened = await open_report("triage")
    for attempt in (
        "const s = document.createElement('script'); s.text = 'window.bad = 1'; document.body.append(s)",
        "document.body.innerHTML = '<img src=x onerror=\"window.bad = 1\">'",
        "fetch('https://example.test/')",
    ):
        await opened.page.evaluate(f"(async () => {{ {attempt} }})().catch(() => 0)")
    await opened.complains("Content Security Policy")
    assert await opened.page.evaluate("window.bad") is None
    opened.said.clear()
    opened.asked.clear()


async def test_keyboard_navigates_steps_and_events(open_report: Opener):
    opened = await open_report("triage", "#seq=10&step=S1")
    press = opened.page.keyboard.press
    await press("j")
    await press("j")
    await press("k")
    assert (await opened.text(".pane h2")).startswith("S2")
    await press("l")
    await press("L")
    await press("h")
    assert (await opened.text(".now")).startswith("event 20/")
    await press("g")
    assert (await opened.text(".now")).startswith("event 1/")
    await press("2")
    await opened.page.locator("#main-tab-waterfall[aria-selected=true]").wait_for()
    await opened.page.locator(".steps .virtual").focus()  # one stop, in which the arrow keys move
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
        await press(key)
    assert (await opened.text(".pane h2")).startswith("S3")
    await press("Tab")
    assert not await opened.page.locator(".steps :focus").count()
    await press("c")
    await opened.page.locator("#below-tab-confidence[aria-selected=true]").wait_for()
    await press("?")
    await opened.page.locator("dialog[open]").wait_for()
    await press("Escape")
    await opened.page.locator("dialog").wait_for(state="detached")


async def test_graph_steps_are_focusable_and_selectable_by_key(open_report: Opener):
    opened = await open_report("triage", "#seq=10&step=S1")
    press = opened.page.keyboard.press
    await opened.page.locator(".dag").focus()
    for key, step in (("Enter", "S1"), ("Enter", "S2"), ("Space", "S3")):
        await press("Tab")
        focused = opened.page.locator(f".dag .node:focus[aria-label^='{step} ']")
        await focused.wait_for()
        if step != "S1":  # which is chosen, and would lead to its end
            await press(key)
        await opened.page.locator(f".dag .node:focus[aria-label^='{step} '][aria-pressed=true]").wait_for()
    assert (await opened.text(".pane h2")).startswith("S3")
    assert (await opened.text(".now")).startswith("event 10/")  # and nothing was played
    await press("Shift+Tab")
    await press("Shift+Tab")
    await press("Enter")
    await opened.page.locator(".dag .node:focus[aria-pressed=true]").wait_for()
    await press("Enter")  # once more: to where it ended
    await opened.page.locator(".now", has_text="event 10/").wait_for(state="detached")


async def test_scrubber_shows_earlier_state(open_report: Opener):
    opened = await open_report("triage", "#step=S9&below=facts")
    assert "✗" in await opened.text(".steps .step:has-text('S9')")
    scrubber = opened.page.locator("input[type=range]")
    await scrubber.focus()
    await scrubber.fill("2")
    assert "○" in await opened.text(".steps .step:has-text('S9')")
    assert "$tickets" not in await opened.text("#below-panel")
    assert "onerror" not in await opened.text(".pane")  # what is to come is not told before
    await opened.page.keyboard.press("ArrowRight")
    assert (await opened.text(".now")).startswith("event 3/")
    assert "$tickets" in await opened.text("#below-panel")


async def test_playback_stops_at_end(open_report: Opener):
    opened = await open_report("triage", "#seq=26")
    await opened.page.click(".play")
    await opened.page.wait_for_selector(".play[aria-pressed=false]", timeout=120_000)
    now = await opened.text(".now b")
    assert f"{now}/{now.removeprefix('event ')}" in await opened.text(".now")


async def test_link_restores_view(open_report: Opener):
    wanted = "#seq=21&step=S5&var=customers.1.name&tab=waterfall&below=lineage"
    opened = await open_report("triage", wanted)
    await opened.at(wanted)
    assert (await opened.text(".pane h2")).startswith("S5")
    assert await opened.text(".lineage h3") == "$customers.1.name event 19"
    await opened.page.evaluate("location.hash = '#seq=3&step=S1&below=cost'")
    await opened.page.wait_for_selector(".cost")
    assert (await opened.text(".now")).startswith("event 3/")


@pytest.mark.parametrize(
    "address", ["#seq=99999&step=nope&var=nope.x", "#seq=-3", "#seq=x&tab=__proto__&below=constructor", "#%"]
)
async def test_link_to_missing_item_is_harmless(open_report: Opener, address: str):
    opened = await open_report("triage", address)
    assert await opened.page.locator(".steps .step").count() == 10


async def test_lineage_leads_from_loop_item_to_source(open_report: Opener):
    opened = await open_report("triage", "#var=customers.2.name&below=lineage")
    made_of = await opened.text("section[aria-label=Sources]")
    assert "$tickets.2.id 2" in made_of
    assert "S1 @TICKETS" in made_of
    reached = await opened.text("section[aria-label=Uses]")
    assert "S9" not in reached  # it has read the name of the first customer alone
    await opened.page.click(".lineage .key:has-text('0') >> nth=0")
    assert "S9 @PAY" in await opened.text("section[aria-label=Uses]")


async def test_large_numbers_keep_digits(open_report: Opener):
    opened = await open_report("triage", "#var=rates&below=lineage")
    assert "12345678901234567890" in await opened.text(".lineage")


async def test_search_finds_values_and_navigates(open_report: Opener):
    opened = await open_report("triage")
    await opened.page.keyboard.press("/")
    await opened.page.keyboard.type("grace")
    assert "customers" in await opened.text(".hits")
    await opened.page.keyboard.press("Enter")
    await opened.at("var=customers")


async def test_compared_report_shows_divergence(open_report: Opener, runs: Runs):
    opened = await open_report.file(await runs.page("triage", "other"), "#below=diff")
    first = await opened.text(".pair:has-text('first')")
    assert "S2" in first
    assert "arguments" in first
    sides = await opened.text(".sides")
    assert "Oslo" in sides
    assert "Bergen" in sides
    assert "differs at city" in sides


async def test_times_are_compared_separately_and_above_noise(open_report: Opener, runs: Runs):
    opened = await open_report.file(await runs.page("triage", "other"), "#below=diff")
    told = await opened.page.evaluate("JSON.parse(document.getElementById('callsheet-data').textContent)")
    apart = [abs(a - b) / max(a, b) for _, _, a, b in told["diff"]["times"]]
    for part in (0, 0.5):
        await opened.page.select_option(".times select", str(part))
        shown = opened.page.locator(".times p:has(b):not(.bar)")
        assert await shown.count() == min(20, sum(each > part for each in apart))


async def test_model_prompt_is_shown_as_text(open_report: Opener):
    opened = await open_report("triage", "#step=S6")
    await opened.page.click("#call-tab-prompt")
    said = await opened.text(".prompt")
    assert said.startswith("LLM_CLASSIFY/")
    assert HOSTILE[0] in said
    assert "Categories: refund, praise" in said
    await opened.page.click(".steps .step:has-text('S5')")
    await opened.page.locator("#call-tab-result").wait_for()
    assert await opened.page.locator("#call-tab-prompt").count() == 0  # it has asked no model


async def test_spans_and_provenance_can_be_saved(open_report: Opener):
    opened = await open_report("triage")
    for name, ends in (("Provenance as PROV-JSON", "prov.json"), ("Spans as OTLP", "otlp.jsonl")):
        await opened.page.click(".menu summary")
        async with opened.page.expect_download() as waiting:
            await opened.page.click(f".menu button:has-text('{name}')")
        saved = await waiting.value
        assert saved.suggested_filename == f"triage.{ends}"
        told = [json.loads(line) for line in _lines(await saved.path())]
        assert set(told[0]) & {"wasDerivedFrom", "resourceSpans"}


async def test_loop_visits_are_distinguished(open_report: Opener):
    opened = await open_report("loop", "#step=S2@250")
    assert "250" in await opened.text(".visits .chosen")
    assert "300 times" in await opened.text(".spread h3")
    slowest = opened.page.locator(".ranked button").first
    label = await slowest.inner_text()
    await slowest.click()
    assert label.removeprefix("visit ") in await opened.text(".visits .chosen")
    await opened.page.evaluate("location.hash = '#seq=20&step=S2'")
    await opened.page.locator(".now", has_text="event 20/").wait_for()
    assert int("".join(filter(str.isdigit, await opened.text(".visits .chosen")))) < 15


async def test_thousands_of_events_scroll_with_few_elements(open_report: Opener):
    opened = await open_report("long", "#tab=log&seq=1")
    page = opened.page
    assert await page.evaluate("document.querySelectorAll('.event').length") < 80
    told = await page.evaluate(
        """async () => {
            const list = document.querySelector('.virtual.events');
            let most = 0, drawn = 0;
            for (let n = 0; n < 60; n++) {
                list.scrollTop += list.scrollHeight / 60;
                await new Promise(requestAnimationFrame);
                await new Promise(requestAnimationFrame);
                const rows = [...list.querySelectorAll('.event')];
                most = Math.max(most, document.querySelectorAll('*').length);
                const box = list.getBoundingClientRect();
                const seen = rows.filter((row) => {
                    const { top, bottom } = row.getBoundingClientRect();
                    return bottom > box.top && top < box.bottom;
                });
                drawn += seen.length * 26 >= box.height - 26 ? 1 : 0;
            }
            return { most, drawn, last: list.querySelector('.event:last-child .seq').textContent };
        }"""
    )
    assert told["most"] < 1_500
    assert told["drawn"] >= 57  # in nearly all frames the whole list is covered with rows
    assert int(told["last"]) > 6_000


async def test_long_run_draws_only_visible_parts(open_report: Opener):
    opened = await open_report("loop", "#tab=waterfall&below=confidence")
    for name in (*MAIN, *BELOW):
        await opened.page.click(f"#{'main' if name in MAIN else 'below'}-tab-{name}")
        assert await opened.page.evaluate("document.querySelectorAll('*').length") < 2_500


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 400)])
async def test_all_parts_are_drawn_fit_the_window_and_have_no_findings(
    open_report: Opener, scheme: str, width: int
):
    opened = await open_report("triage", "#var=customers", size=(width, 900), scheme=scheme)
    page, of_look = opened.page, scheme == "dark"
    assert await axe_findings(page, of_look=of_look) == []
    for main, below in zip_longest(MAIN, BELOW, fillvalue=""):
        parts = [f"#{place}-panel" for place, name in (("main", main), ("below", below)) if name]
        for place, name in (("main", main), ("below", below)):
            if name:
                await page.click(f"#{place}-tab-{name}")
                assert await opened.text(f"#{place}-panel")
        assert await axe_findings(page, *parts, of_look=of_look) == [], (main, below)
        for each in (width, 800) if of_look else (width,):
            await page.set_viewport_size({"width": each, "height": 900})
            wider = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wider <= 0, (main, below)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


async def test_calls_begin_when_they_leave_and_tracebacks_keep_their_lines(open_report: Opener, runs: Runs):
    opened = await open_report("turns", "#step=S3")
    with Journal.open(runs.folder / "journal.db", Durability.OFF) as journal:
        calls = report_document(journal, "turns").calls
    first, second = sorted((call for call in calls if call.tool == "HOLD"), key=lambda call: call.until)
    assert first.left + 1 == second.left
    assert second.start > first.start + 0.15
    graph = await opened.text("#main-panel")
    assert "2 items" in graph
    assert "4 items" not in graph
    await opened.page.click(".step:has-text('S3')")
    await opened.page.click(".call-list button:has-text('S3.0.1')")
    trace = opened.page.locator("pre.remark.traceback").first
    if "the same place as S3.1.1" in await trace.inner_text():  # which fails first is left to chance
        await opened.page.click(".call-list button:has-text('S3.1.1')")
        trace = opened.page.locator("pre.remark.traceback").first
    assert "in moody" in await trace.inner_text()
    assert await trace.evaluate("(pre) => [pre.scrollWidth > pre.clientWidth, pre.tabIndex]") == [True, 0]
