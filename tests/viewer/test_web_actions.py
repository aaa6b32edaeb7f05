"""Actions on a run in the web viewer: forks, reruns from a step, decisions on calls in doubt."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.apps.http.conftest import running
from tests.viewer.web import Windows, browse

from callsheet.api.policies import load_policy
from callsheet.apps.http.state import OpenWebhook
from callsheet.apps.scheduling.scheduler import Schedule
from callsheet.apps.scheduling.webhooks import Webhook, signed

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_run_is_forked_with_edited_variable_and_rerun_after_confirmation(
    windows: Windows, folder: Path
):
    with running(folder) as api:
        run = api.start("S1: @ADD (a=1) > $a", 'S2: @NOTE (line="it is $a") > $n', name="first")
        api.ended(run)
        web = await browse(windows, api)
        await web.sign_in(f"run={run}&seq=3&step=S2")
        await web.page.click(".branching summary")
        await web.page.select_option(".branch-actions select", "a")
        await web.page.fill(".branch-actions input", "9")
        await web.page.click(".branch-actions button:has-text('Fork')")
        await web.page.locator(".branch-actions .notice", has_text="@NOTE").wait_for()
        assert (folder / "notes.txt").read_text() == "it is 2\n"
        await web.page.click("text=Continue anyway")
        await web.page.locator(".what", has_text=f"from run {run}").wait_for()
        await web.page.locator("h1 .words", has_text="Done").wait_for()
        assert (folder / "notes.txt").read_text() == "it is 2\nit is 9\n"
        fork = web.page.url
        await web.page.click(".steps .step:has-text('S1')")
        await web.page.click(".branching summary")
        await web.page.click("button:has-text('Rerun from S1')")
        await web.page.click("text=Continue anyway")
        await web.wait_for(lambda: _is_elsewhere(web.page.url, fork))
        await web.page.locator("h1 .words", has_text="Done").wait_for()
        assert (folder / "notes.txt").read_text().count("\n") == 3
        await web.leave()


async def test_failed_items_are_run_again_and_the_page_says_what_is_kept(windows: Windows, folder: Path):
    with running(folder) as api:
        loop = '?FOREACH ($n IN ["a", 1, "b"]) THEN @NOTE (line=$n)'
        run = api.start(f"S1: {loop} > $rows", 'S2: @NOTE (line="end") > $n', name="loop")
        api.ended(run)
        web = await browse(windows, api)
        await web.sign_in(f"run={run}&step=S1")
        await web.page.click(".branching summary")
        await web.page.click("button:has-text('Rerun failed items')")
        await web.page.locator(".consent", has_text="failed items of S1: 1 of 3: [1]").wait_for()
        await web.page.click("text=Continue anyway")
        await web.page.locator(".what", has_text=f"from run {run}").wait_for()
        await web.page.locator("h1 .words", has_text="Done").wait_for()
        assert (folder / "notes.txt").read_text() == "a\nb\nend\n"
        await web.leave()


async def test_edited_plan_keeps_finished_calls_once_the_page_has_shown_them(windows: Windows, folder: Path):
    text = '# ltp: 2\n@NOTE (line="a") > $n\n@NOTE (line="b") > $m\n'
    with running(folder) as api:
        run = api("POST", "/v1/runs", {"plan": text, "name": "blocks"}).json["run_id"]
        api.ended(run)
        web = await browse(windows, api)
        await web.sign_in(f"run={run}")
        await web.page.click(".branching summary")
        await web.page.click("button:has-text('Edit the plan')")
        await web.page.wait_for_selector("#plan-text")
        await web.wait_for(lambda: _holds(web.page, 'line="b"'))
        await web.page.fill("#plan-text", text.replace('line="b"', 'line="c"'))
        await web.page.click("button:has-text('keep finished calls')")
        await web.page.locator(".consent", has_text="kept: 1 call").wait_for()
        assert (folder / "notes.txt").read_text() == "a\nb\n"
        await web.page.click("text=Continue anyway")
        await web.page.locator(".what", has_text=f"from run {run}").wait_for()
        await web.page.locator("h1 .words", has_text="Done").wait_for()
        assert (folder / "notes.txt").read_text() == "a\nb\nc\n"
        await web.leave()


async def _holds(page: Any, text: str) -> bool:
    return text in await page.inner_text("#plan-text")


async def test_run_is_undone_after_the_page_has_shown_what_that_takes(windows: Windows, folder: Path):
    with running(folder) as api:
        run = api.start('S1: @NOTE (line="a") > $n', "S2: @ADD (a=1) > $b")
        api.ended(run)
        web = await browse(windows, api)
        await web.sign_in(f"run={run}")
        await web.page.click("button:has-text('Undo')")
        await web.page.locator(".consent", has_text='@STRIKE (line="a")').wait_for()
        await web.page.set_viewport_size({"width": 400, "height": 800})
        assert await web.page.evaluate("document.documentElement.scrollWidth") == 400
        await web.page.click("text=Undo these calls")
        await web.page.locator("h1 .words", has_text="Done").wait_for()
        await web.wait_for(lambda: _is_elsewhere(web.page.url, run))
        await web.page.locator(f"text=1 call of run {run} undone").first.wait_for()
        undo = web.page.get_by_role("button", name="Undo", exact=True)
        assert not await undo.count()
        async with web.page.expect_response("**/undo") as asked:
            await web.go(f"#run={run}")
        await (await asked.value).finished()
        await web.page.evaluate("new Promise((drawn) => setTimeout(() => requestAnimationFrame(drawn)))")
        assert not await undo.count()  # it has been undone
        assert (folder / "notes.txt").read_text() == ""
        await web.leave()


async def test_page_of_saved_plans_lists_schedules_and_webhooks_with_their_last_runs(
    windows: Windows, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KEY", "k" * 32)
    (folder / "note.ltp").write_text("# ltp: 2\nINPUT $line: str\nS1: @NOTE (line=$line)\n@RESPOND ($line)\n")
    take = {"line": "issue.title"}
    note = Webhook(plan="note.ltp", secret="env:KEY", take=take)
    opened = {
        name: OpenWebhook.of(each, folder)
        for name, each in {"noted": note, "gone": replace(note, plan="gone.ltp")}.items()
    }
    nightly = Schedule(plan="note.ltp", cron="0 3 * * *", timezone="Europe/Oslo")
    with running(folder, webhooks=opened, schedules={"nightly": nightly}) as api:
        body = b'{"issue": {"title": "hello"}}'
        headers = signed(note, b"k" * 32, body, "m1", int(time.time()))
        run = api("POST", "/v1/webhooks/noted", raw=body, **headers).json["run_id"]
        api.ended(run)
        web = await browse(windows, api, size=(900, 700))
        await web.sign_in("plans")
        await web.page.locator("h2", has_text="Webhooks").wait_for()
        told = await web.text("main")
        assert re.search(
            r"nightly note.ltp next \d{4}-\d\d-\d\d 03:00 0 3 \* \* \* Europe/Oslo no run yet", told
        )
        assert "noted note.ltp /v1/webhooks/noted $line = issue.title last run: done" in told
        assert "gone.ltp cannot be read" in told
        assert await web.findings() == []
        await web.page.click("text=last run: done")
        await web.page.locator("h1 .words", has_text="Done").wait_for()
        await web.leave()


async def test_page_reports_unreachable_server(windows: Windows, folder: Path):
    with running(folder) as api:
        run = api.start('S1: @HOLD (name="gate") > $a')
        web = await browse(windows, api)
        await web.sign_in(f"run={run}")
        await web.page.locator("h1 .words", has_text="Running").wait_for()
    await web.page.locator(".notice", has_text="The data may be outdated").wait_for()
    assert "Running" in await web.text("h1 .words")
    await web.leave()


async def test_page_of_a_run_asks_to_sign_in_again_when_the_session_has_ended(windows: Windows, folder: Path):
    with running(folder) as api:
        run = api.start('S1: @HOLD (name="gate") > $a')
        web = await browse(windows, api)
        await web.sign_in(f"run={run}")
        await web.page.locator("h1 .words", has_text="Running").wait_for()
        await web.page.context.clear_cookies()  # as after a restart of the server with another token
        (folder / "gate").touch()
        await web.page.fill("input[type='password']", api.token)
        await web.page.keyboard.press("Enter")
        await web.page.locator("h1 .words", has_text="Done").wait_for()
        await web.leave()


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.02)


async def _is_elsewhere(address: str, run: str) -> bool:
    return address.partition("&")[0] != run.partition("&")[0]


POLICY = """
schema = 1
extends = "open"

[defaults]
inputs = "U/pub"
"""


async def test_approval_page_shows_labels_of_arguments(windows: Windows, folder: Path):
    (folder / "ours.toml").write_text(POLICY)
    with running(folder, policy=load_policy(folder / "ours.toml")) as api:
        web = await browse(windows, api)
        await web.sign_in()
        run = api.start(
            'S1: @CALC ("1 + 1") > $sum',
            'S2: @NOTE (line="$sum $name") > $b',
            inputs={"name": "p\u0430y"},  # with a Cyrillic letter
            approve=["NOTE"],
        )
        api.until(run, "waiting")
        await web.page.evaluate("(run) => { location.hash = `run=${run}&below=waits`; }", run)
        await web.page.locator(".waits", has_text="May @NOTE be called with exactly this?").wait_for()
        lines = (await web.page.inner_text(".waits section")).splitlines()
        assert "line comes from S1: untrusted, public (U/pub)" in lines
        assert "line has letters that look like Latin ones: p\\u0430y" in lines
        await web.page.click(".steps .step:has-text('S2')")
        assert "waits for a person" in await web.text(".pane header")
        assert "was not sent" in await web.text("#call-panel")
        await web.leave()


async def test_one_answer_is_given_for_the_further_calls_of_a_plan(windows: Windows, folder: Path):
    with running(folder) as api:
        web = await browse(windows, api)
        await web.sign_in()
        loop = '?FOREACH ($n IN ["a", "b", "c"]) TOGETHER {\n  S1: @NOTE (line=$n)\n}'
        text = f'# ltp: 2\n{loop}\n@RESPOND ("noted")'
        run = api("POST", "/v1/runs", {"plan": text, "approve": ["NOTE"]}).json["run_id"]
        api.until(run, "waiting")
        await web.page.evaluate("(run) => { location.hash = `run=${run}&below=waits`; }", run)
        await web.page.locator(".program").wait_for()
        assert '+ @NOTE foreach1[1]/S1.1 line = "b"' in await web.text(".program")
        assert await web.page.locator(".waits details").count() == 2, "the other two are folded"
        await web.page.click("text=Approve this call and the 2 marked +")
        await web.page.locator("h1 .words", has_text="Done").wait_for()
        assert sorted((folder / "notes.txt").read_text().split()) == ["a", "b", "c"]
        assert web.said == []
        await web.leave()


async def test_call_in_doubt_is_decided(windows: Windows, folder: Path):
    with running(folder) as api:
        run = api.start('S1: @WRITE (name="gate") > $a', 'S2: @RESPOND ("it gave $a")')
        await asyncio.to_thread(_wait_for, folder / "gate.began")
    with running(folder) as api:  # the first server was stopped while the call was under way
        web = await browse(windows, api)
        await web.sign_in(f"run={run}")
        await web.page.locator(".waits", has_text="@WRITE may have taken place").wait_for()
        assert "in doubt" in await web.text(".pane header")
        assert "sent and never answered" in await web.text("#call-panel")
        await web.page.fill(".waits input", "seven")
        await web.page.click("text=Use this result")
        await web.page.locator("h1 .words", has_text="Done").wait_for()
        assert "it gave seven" in await web.text("#below-panel")
        assert web.said == []
        await web.leave()
