"""The web viewer in a browser with a real server: sign-in, a first run, actions on a run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.apps.http.conftest import TOKEN, Api, running
from tests.viewer.web import Web, Windows, axe_findings, browse

from callsheet.apps.http.state import RequestLimits
from callsheet.apps.operations.reading import plan_text
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import enlist_run
from callsheet.sealing.known import Known
from callsheet.store import Durability, Journal

pytestmark = pytest.mark.asyncio(loop_scope="session")

Browse = Callable[..., Awaitable[Web]]


@pytest_asyncio.fixture(loop_scope="session")
async def web(windows: Windows, api: Api) -> AsyncIterator[Web]:
    made = await browse(windows, api)
    yield made
    said = list(made.said)
    await made.leave()
    assert said == []


async def test_first_visit_offers_examples_each_of_which_runs_with_one_click(web: Web):
    await web.sign_in()
    await web.page.locator(".examples li").first.wait_for()
    assert await web.page.locator(".examples li").count() == 3
    assert await web.findings() == []
    await web.page.click("button[aria-label^='Run: Which orders']")
    await web.page.locator("h1 .words", has_text="Done").wait_for()
    assert "call Ada about 120" in await web.text("#below-panel")
    assert "#run=" in web.page.url


async def test_styles_of_pages_leave_waterfall_of_run_unchanged(web: Web):
    web.api.start("S1: @ADD (a=1) > $x\nS2: @RESPOND ($x)", run_id="r")
    web.api.ended("r")
    await web.sign_in("run=r")
    await web.page.click("#main-tab-waterfall")
    await web.page.wait_for_selector(".legend .key")
    widths = await web.page.evaluate(
        "[...document.querySelectorAll('.legend .key')].map((key) => key.getBoundingClientRect().width)"
    )
    assert len(widths) == 8
    assert max(widths) < 180, widths


async def test_sign_in_code_works_once_and_leaves_address(windows: Windows, api: Api):
    first = await browse(windows, api)
    await first.sign_in()
    assert "code" not in first.page.url
    cookies = await first.page.context.cookies()
    assert [(each["httpOnly"], each["sameSite"]) for each in cookies] == [(True, "Strict")]
    assert await first.page.evaluate("document.cookie") == ""
    second = await browse(windows, api)
    await second.go(f"#code={api.code}")
    await second.page.wait_for_selector(".sign-in")
    await second.page.fill("#secret", "wrong" * 10)
    await second.page.click("text=Sign in")
    assert "neither the token nor a valid code" in await second.text("[role=alert]")
    await second.page.fill("#secret", TOKEN)
    await second.page.click("text=Sign in")
    await second.page.wait_for_selector(".page")
    await second.page.click("text=Sign out")
    await second.page.wait_for_selector(".sign-in")
    for each in (first, second):
        await each.leave()


GROUP = "@PARALLEL {", '  S1: @HOLD (name="gate") > $a', "  S2: @ADD (a=1) > $b", "}"


async def test_clock_of_running_run_goes_on_between_events_and_tools_report_progress(web: Web):
    await web.sign_in()
    run = web.api.start(*GROUP)
    await web.page.evaluate("(run) => { location.hash = `run=${run}`; }", run)
    quick = web.page.locator(".steps .step", has_text="S2")
    await quick.and_(web.page.locator(".is-ok")).wait_for()
    assert "is-open" in await web.page.locator(".steps .step", has_text="S1").get_attribute("class")

    for selector in (".sums dd", ".pane header .quiet"):
        before = await web.text(selector)
        await web.wait_for(lambda s=selector, b=before: _differs(web, s, b))
    await web.page.locator(".under-way li", has_text="1 of 4, rows").wait_for()
    assert await web.text(".report p") == "1 of 4, rows"
    assert await web.findings() == []
    web.api("POST", f"/v1/runs/{run}/cancel", {})


async def _differs(web: Web, selector: str, before: str) -> bool:
    return await web.text(selector) != before


async def test_runs_with_failures_are_told_apart_in_list_and_head(web: Web):
    web.api.start('S1: @CALC ("1 / $n") > $x', 'S2: @RESPOND ("hi")', run_id="partial", inputs={"n": 0})
    web.api.ended("partial")
    await web.sign_in("runs")
    await web.page.select_option(".head-line select", "done_with_failures")
    await web.page.locator(".run .state.is-partial", has_text="done with failures").click()
    await web.page.locator("h1 .words", has_text="Done with failures: S1").wait_for()
    assert await web.page.locator(".verdict.is-partial").count() == 1


async def test_run_is_shown_live_and_can_be_cancelled(web: Web):
    await web.sign_in()
    sums = [f"S{n}: @ADD (a={n}) > $x{n}" for n in range(2, 9)]
    run = web.api.start('S1: @HOLD (name="gate") > $a', *sums, 'S9: @HOLD (name="never") > $b')
    await web.page.evaluate("(run) => { location.hash = `run=${run}`; }", run)
    await web.page.locator("h1 .words", has_text="Running").wait_for()
    await web.page.wait_for_selector(".live")
    (web.api.folder / "gate").touch()
    await web.page.locator(".steps .step.is-ok:has-text('S1')").wait_for()
    await web.page.click(".steps .step:has-text('5 done')")
    await web.page.locator(".steps .step:has-text('S4')").wait_for()
    await web.page.locator(".steps h2 button:has-text('fold done')").wait_for()
    await web.page.click("text=Cancel")
    await web.page.locator("h1 .words", has_text="Cancelled").wait_for()
    assert await web.page.locator(".live").count() == 0


async def test_run_is_paused_and_resumed(web: Web):
    await web.sign_in()
    run = web.api.start('S1: @HOLD (name="once") > $a', "S2: @NOTE (line=$a) > $b")
    await web.page.evaluate("(run) => { location.hash = `run=${run}`; }", run)
    await web.page.locator("h1 .words", has_text="Running").wait_for()
    await web.page.click("button:text-is('Pause')")
    await web.wait_for(lambda: _is_to_be_paused(web))
    (web.api.folder / "once").touch()
    await web.page.locator("h1 .words", has_text="Paused since").wait_for()
    assert await web.page.locator("button:text-is('Pause')").count() == 0
    await web.page.evaluate("() => { location.hash = 'runs'; }")
    await web.page.locator(".run", has_text="paused since").wait_for()
    await web.page.evaluate("(run) => { location.hash = `run=${run}`; }", run)
    await web.page.click("button:text-is('Resume')")
    await web.page.locator("h1 .words", has_text="Done").wait_for()


async def test_events_of_watched_run_appear(web: Web):
    await web.sign_in()
    run = web.api.start(
        'S1: @HOLD (name="gate") > $a', 'S2: @ASK_HUMAN (prompt="On?") > $b', "S3: @ADD (a=$b) > $c"
    )
    await web.page.evaluate("(run) => { location.hash = `run=${run}`; }", run)
    await web.page.locator("h1 .words", has_text="Running").wait_for()
    (web.api.folder / "gate").touch()
    await web.page.fill(".waits input", "no number")
    await web.page.click(".waits button:has-text('Send')")
    await web.page.locator("h1 .words", has_text="Done with failures: S3").wait_for()
    assert (await web.text(".pane h2")).startswith("S3")  # nobody had chosen another


async def test_list_shows_status_and_is_filtered(web: Web):
    await web.sign_in()
    done = web.api.start("S1: @ADD (a=1) > $a", name="sums")
    web.api.ended(done)
    held = web.api.start('S1: @HOLD (name="gate") > $a', name="held")
    await web.page.evaluate("location.hash = 'runs'")
    row = web.page.locator(f".run:has-text('{held}')")
    await row.locator(".state.is-open", has_text="running").wait_for()
    (web.api.folder / "gate").touch()
    await row.locator(".state.is-ok", has_text="done").wait_for()  # without being asked for
    await web.page.keyboard.press("/")
    await web.page.keyboard.type("sums")
    await web.wait_for(lambda: web.page.evaluate("document.querySelectorAll('.run').length === 1"))
    assert done in await web.text(".runs")
    await web.page.keyboard.press("Escape")
    assert await web.page.evaluate(
        "[document.activeElement.tagName, document.getElementById('filter').value]"
    ) == ["BODY", ""]
    await web.page.select_option(".head-line select", "failed")
    await web.page.wait_for_selector("text=No runs found")
    await web.page.select_option(".head-line select", "")
    await web.page.wait_for_selector(".run")
    await web.page.evaluate("document.activeElement.blur()")
    await web.page.keyboard.press("j")
    await web.page.keyboard.press("Enter")
    await web.page.wait_for_selector(".app")
    assert f"#run={held}" in web.page.url
    await web.page.keyboard.press("r")
    await web.page.wait_for_selector(".runs")


async def test_view_is_in_address_and_chosen_runs_are_cancelled_together(web: Web):
    for name, team in (("one", "a"), ("two", "a"), ("other", "b")):
        web.api.start('S1: @ASK_HUMAN ("go on?") > $x', run_id=name, tags={"team": team})
        web.api.until(name, "waiting")
    await web.sign_in("runs&tag=team%3Da")
    await web.wait_for(lambda: web.page.evaluate("document.querySelectorAll('.run').length === 2"))
    await web.page.select_option(".head-line select >> nth=1", label="the last day")
    await web.wait_for(lambda: web.page.evaluate("location.hash === '#runs&tag=team%3Da&since=1d'"))
    await web.page.focus(".choose")
    await web.page.keyboard.press("Space")
    await web.page.locator(".choice", has_text="1 chosen run").wait_for()
    assert await web.page.locator(".choice button:has-text('Compare')").count() == 0
    await web.page.locator(".choose >> nth=1").press("Space")
    await web.page.locator(".choice button:has-text('Compare')").wait_for()
    await web.page.locator(".choose >> nth=1").press("Space")
    await web.page.focus(".choose")
    await web.page.keyboard.press("Space")
    await web.page.click(".choice button:has-text('Cancel')")
    await web.page.locator("dialog", has_text="Cancel 2 runs?").wait_for()
    assert await web.findings() == []
    web.api.start('S1: @ASK_HUMAN ("go on?") > $x', run_id="later", tags={"team": "a"})  # fits by now
    await web.page.click("dialog .strong")
    await web.page.locator(".counts button", has_text="2 cancelled").wait_for()
    cancelled = web.api.get("/v1/runs?status=cancelled")["runs"]
    assert [row["run_id"] for row in cancelled] == ["two", "one"]


async def test_older_runs_are_loaded_on_request(web: Web):
    plan = plan_text("S1: @RESPOND (1)").require()
    with Journal.open(web.api.folder / "journal.db", durability=Durability.OFF) as journal:
        for n in range(103):
            (await enlist_run(plan, Known(), Launch(), journal, f"run{n:03}")).close()
    await web.sign_in("runs")
    await web.page.locator(".older").click()
    await web.wait_for(lambda: web.page.evaluate("document.querySelectorAll('.run').length === 103"))
    assert await web.page.locator(".older").count() == 0
    rows = await web.page.locator(".run code").all_inner_texts()
    assert rows == [f"run{n:03}" for n in reversed(range(103))]
    await web.go("#runs")
    await web.page.reload()
    await web.page.fill("#filter", "RUN001")  # which is none of the hundred that are there
    await web.page.locator(".run code", has_text="run001").wait_for()
    assert await web.page.locator(".run").count() == 1


async def test_question_of_run_is_answered_on_page(web: Web):
    await web.sign_in()
    run = web.api.start(
        'S1: @ASK_HUMAN (prompt="Which colour?", options=["red", "blue"]) > $colour',
        'S2: @NOTE (line="$colour") > $noted',
        approve=["NOTE"],
    )
    web.api.until(run, "waiting")
    await web.page.evaluate("location.hash = 'runs'")
    await web.page.click(".asks a")
    await web.page.locator(".waits", has_text="Which colour?").wait_for()
    await web.page.click(".waits button:has-text('blue')")
    await web.page.locator(".waits", has_text="May @NOTE be called with exactly this?").wait_for()
    assert '"blue"' in await web.text(".waits .value")
    await web.page.locator(".step.chosen", has_text="S2").wait_for()  # the step that asks
    assert not await web.page.locator(".to-pending").is_visible()
    await web.page.set_viewport_size({"width": 400, "height": 800})
    await web.page.evaluate("location.hash = 'runs'")
    await web.page.click(".asks a")
    await web.page.locator(".step.chosen", has_text="S2").wait_for()
    await web.page.click("text=1 question is open")
    assert await web.findings(of_look=True) == []
    await web.page.click(".waits button:has-text('Approve')")
    await web.page.locator("h1 .words", has_text="Done").wait_for()
    assert (web.api.folder / "notes.txt").read_text() == "blue\n"


async def test_approver_sees_whole_call_or_cannot_approve(web: Web):
    await web.sign_in()
    plans = {
        "long": "x" * 20_000 + " and then \u200bevil\U000e0041",
        "far too long": "y" * 1_100_000,
    }
    for name, line in plans.items():
        run = web.api.start(
            'S1: @NOTE (line="$line") > $a', inputs={"line": line}, approve=["NOTE"], name=name
        )
        web.api.until(run, "waiting")
        await web.page.evaluate(f"location.hash = 'run={run}&below=waits'")
        await web.page.locator(".waits", has_text="May @NOTE be called with exactly this?").wait_for()
        if name == "long":
            await web.page.locator(".waits .value", has_text=r"and then \u200bevil\u{e0041}").wait_for()
            assert await web.page.locator(".waits button:has-text('Approve')").count() == 1
            await web.page.click(".waits button:has-text('Deny')")
        else:
            await web.page.locator(".waits", has_text=f"callsheet approve {run} S1.0.1").wait_for()
            assert await web.page.locator(".waits button:has-text('Approve')").count() == 0
    assert not (web.api.folder / "notes.txt").exists()


async def test_link_to_run_shows_same_view(web: Web):
    run = web.api.start("S1: @ADD (a=1) > $a", "S2: @ADD (a=$a) > $b")
    web.api.ended(run)
    await web.sign_in(f"run={run}&seq=3&step=S2&tab=waterfall&below=lineage&var=a")
    await web.page.wait_for_selector(".waterfall")
    assert (await web.text(".now")).startswith("event 3/")
    assert (await web.text(".lineage h3")).startswith("$a")
    await web.page.keyboard.press("l")
    await web.wait_for(lambda: web.page.evaluate("location.hash.includes('seq=4')"))
    assert f"run={run}" in web.page.url


async def test_run_is_compared_with_another(web: Web):
    runs = [web.api.start(f"S1: @ADD (a={n}) > $a", name=f"n{n}") for n in (1, 2)]
    for run in runs:
        web.api.ended(run)
    await web.sign_in(f"run={runs[0]}&below=diff")
    await web.page.wait_for_selector("#below-panel select")
    await web.page.locator(f"#below-panel option[value='{runs[1]}']").wait_for(state="attached")
    await web.page.select_option("#below-panel select", runs[1])
    await web.page.click("#below-panel button:has-text('Compare')")
    await web.page.locator(".pair", has_text="S1").wait_for()
    assert f"other={runs[1]}" in web.page.url


IS_ON_TOP = """(element) => {
    const { left, top, width, height } = element.getBoundingClientRect();
    const seen = document.elementFromPoint(left + width / 2, top + height / 2);
    return element.contains(seen) || seen === element;
}"""


async def test_hits_and_consent_are_visible_on_small_window(windows: Windows, api: Api):
    run = api.start(*(f'S{n}: @NOTE (line="line {n}") > $n' for n in range(1, 31)))
    api.ended(run)
    web = await browse(windows, api, (1280, 800))
    await web.sign_in(f"run={run}&step=S2")
    await web.page.wait_for_selector(".app")
    await web.page.fill("#search", "line 3")
    hit = web.page.locator(".hits button", has_text="S3").first
    assert await hit.evaluate(IS_ON_TOP)
    await hit.click()
    assert (await web.text(".pane h2")).startswith("S3")
    await web.page.click(".branching summary")
    await web.page.click("button:has-text('Rerun from S3')")
    go_on = web.page.locator("button:has-text('Continue anyway')")
    await go_on.wait_for()
    assert await go_on.evaluate(IS_ON_TOP)  # below the list of all its calls
    assert await web.page.evaluate("document.activeElement.classList.contains('consent')")
    await web.page.click(".consent button:has-text('Do not')")
    assert await web.page.locator(".consent").count() == 0
    await web.leave()


async def test_message_and_answer_are_at_head_of_run(web: Web):
    end = web.api.start("S1: @ADD (a=1) > $x", 'S2: TERMINATE ("nothing to pay: $x")', name="bills")
    long = web.api.start('S1: @RESPOND ("one\ntwo\nthree $text")', inputs={"text": "x" * 20_000})
    for run in (end, long):
        web.api.ended(run)
    await web.sign_in(f"run={end}")
    await web.page.locator(".outcome .said", has_text="nothing to pay: 2").wait_for()
    assert (await web.text(".outcome dt")).lower() == "message"
    assert (await web.text(".what time")).endswith(" UTC")
    assert await web.page.title() == f"Terminated by the plan · bills · {end} · callsheet"
    await web.page.evaluate(f"location.hash = 'run={long}'")
    await web.page.locator(".outcome .said", has_text="one").wait_for()
    assert (await web.text(".outcome dt")).lower() == "answer"
    await web.page.click(".outcome button:has-text('Show all')")
    await web.page.locator(".outcome dd.is-open").wait_for()
    assert await web.page.evaluate("document.querySelector('.outcome dd').textContent.length") == 20_014
    await web.page.evaluate("location.hash = 'runs'")
    await web.page.locator(".run time").first.wait_for()
    assert (await web.text(".run time")).endswith(" UTC")
    assert await web.page.title() == "Runs · callsheet"


async def test_long_value_is_a_tree_and_is_shown_and_copied_as_a_whole(web: Web):
    rows = [{"n": n, "text": f"row {n}"} for n in range(2_000)]
    run = web.api.start("S1: @RESPOND ($rows.0.n)", inputs={"rows": {"first": rows, "last": 2**60 + 1}})
    web.api.ended(run)
    await web.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await web.sign_in(f"run={run}&var=rows&below=lineage")
    value = web.page.locator(".lineage .value").first
    await value.locator("button.key", has_text="first").wait_for()
    assert "the first 16.4 kB shown" in await value.inner_text()
    assert await value.locator("button.key", has_text="last").count() == 0
    await value.locator("button", has_text="Copy").click()
    await value.locator("text=copied").wait_for()
    copied = await web.page.evaluate("navigator.clipboard.readText()")
    assert json.loads(copied) == {"first": rows, "last": 2**60 + 1}
    await value.locator("button.key", has_text="last").wait_for()  # it is here now
    await web.page.click("text=Export")
    async with web.page.expect_download() as saving:
        await web.page.click("text=Events as JSON lines")
    assert _first_event(await (await saving.value).path())["body"]["inputs"]["rows"]["first"] == rows
    assert str(2**60 + 1) in await value.inner_text()


async def _is_to_be_paused(web: Web) -> bool:
    (row,) = web.api.get("/v1/runs?status=running")["runs"]
    return row["under_way"].startswith("is paused once these have ended: S1")


def _first_event(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text().splitlines()[0])


async def test_page_says_that_server_streams_to_no_more_pages(windows: Windows, folder: Path):
    with running(folder, request_limits=RequestLimits(most_streams=1)) as api:
        run = api.start('S1: @HOLD (name="gate") > $a')
        web = await browse(windows, api)
        await web.sign_in(f"run={run}")
        await web.page.locator("h1 .words", has_text="Running").wait_for()
        await web.wait_for(lambda: web.page.evaluate("performance.getEntriesByType('resource').length > 3"))
        second = await web.page.context.new_page()
        await second.goto(web.page.url)
        await second.locator(".notice", has_text="callsheet serve --streams N").wait_for()
        await web.page.goto("about:blank")
        (folder / "gate").touch()
        await second.locator("h1 .words", has_text="Done").wait_for()  # it has tried again
        await web.leave()


async def test_missing_run_is_reported(web: Web):
    await web.sign_in("run=nothing-here")
    await web.page.wait_for_selector(".nothing h1")
    assert "nothing-here" in await web.text(".nothing")
    web.said.clear()  # the browser's own word on the 404


@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 400)])
async def test_axe_reports_nothing_and_nothing_is_wider_than_window(
    windows: Windows, api: Api, scheme: str, width: int
):
    run = api.start('S1: @ASK_HUMAN (prompt="Which colour?") > $colour', name="a name that is quite long" * 3)
    api.until(run, "waiting")
    web, of_look = await browse(windows, api, (width, 850), scheme), scheme == "dark"
    await web.go()
    await web.page.wait_for_selector(".sign-in")
    assert await web.findings(of_look=of_look) == []
    await web.sign_in()
    for address, shown in (
        ("runs", ".run"),
        ("plan", ".text"),
        ("plans", "main"),
        ("tools", ".tool-row"),
        ("policy", ".policy, .sheet p"),
        (f"run={run}", ".waits"),
    ):
        await web.page.evaluate("(address) => { location.hash = address; }", address)
        await web.page.wait_for_selector(shown)
        if address == "policy":
            await web.page.select_option(".head-line select", "workspace")
            await web.page.wait_for_selector(".policy")
        assert await web.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, address
        assert await web.findings(of_look=of_look) == [], address
    await web.go("docs")
    await web.page.wait_for_selector("#post_runs .sample")
    ground = await web.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(16, 20, 26)") == (scheme == "dark")
    assert await web.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert await axe_findings(web.page, "h1", "#post_runs", of_look=of_look) == []
    await web.leave()


async def test_tool_is_tried_by_keyboard_as_a_run(web: Web):
    await web.sign_in()
    await web.page.keyboard.press("?")
    assert "saved plans" in await web.text("dialog")
    await web.page.keyboard.press("Escape")
    await web.page.locator("dialog").wait_for(state="detached")
    await web.page.keyboard.press("o")
    await web.page.locator(".tool-row", has_text="The sum of two numbers.").wait_for()
    await web.page.keyboard.press("/")
    await web.page.keyboard.type("sum of two")
    await web.wait_for(lambda: web.page.evaluate("document.querySelectorAll('.tool-row').length === 1"))
    await web.page.evaluate("document.activeElement.blur()")
    await web.page.keyboard.press("j")
    await web.page.keyboard.press("Enter")
    await web.page.locator("#argument-a").wait_for()
    await web.page.evaluate("location.hash = location.hash.toLowerCase()")  # as Python writes its name
    await web.page.focus("#argument-a")
    await web.page.keyboard.type("many")
    await web.page.keyboard.press("Enter")
    await web.page.locator("#argument-a-problem", has_text="a is not a number").wait_for()
    assert await web.findings() == []
    await web.page.fill("#argument-a", "41")
    await web.page.keyboard.press("Enter")
    await web.page.locator("h1 .words", has_text="Done").wait_for()
    assert "42" in await web.text(".outcome")
    (run,) = web.api.get("/v1/runs")["runs"]
    assert run["plan"] == "call add"
