"""The plan editor in a browser with a real server: findings, fixes, proofs, runs, saving."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from tests.apps.http.conftest import Api, running, setup_of
from tests.viewer.web import Web, Windows, axe_findings, browse

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODEL = """
def ask(messages):
    return "S1: @ADD (a=1, b=2) > $sum\\nS2: @RESPOND ($sum)"
"""
GOOD = """\
# goal: Add up
PLAN_START
S1: @ADD (a=$first, b=2) > $sum
S2: @NOTE (line="it is $sum") > $noted
S3: @RESPOND ($sum)
PLAN_END
"""

BLOCKS = """\
# ltp: 2
S2: ?FOREACH ($x IN [1, 2]) {
  S4: ?IF ($x > 1) {
    S5: @NOTE (line="$x")
  }
}
@RESPOND ("done")
"""

PRESS = """(box, times) => {
  const key = { key: "Enter", ctrlKey: true, bubbles: true, composed: true };
  for (let n = 0; n < times; n += 1) box.dispatchEvent(new KeyboardEvent("keydown", key));
}"""


@pytest_asyncio.fixture(loop_scope="session")
async def web(windows: Windows, api: Api) -> AsyncIterator[Web]:
    made = await browse(windows, api)
    await made.sign_in("plan")
    await made.page.wait_for_selector("#plan-text")
    yield made
    await made.leave()
    assert made.said == []


async def write(web: Web, text: str) -> None:
    await web.page.fill("#plan-text", text)


async def written(web: Web) -> str:
    """The text of the plan, as the page keeps it."""
    return await web.page.evaluate("JSON.parse(sessionStorage.getItem('callsheet.draft')).text")


async def cursor_line(web: Web) -> str:
    """The line with the cursor, in the text that has the focus."""
    await web.page.locator(".cm-editor.cm-focused .cm-activeLine").wait_for()
    return await web.page.inner_text(".cm-activeLine")


async def test_errors_are_shown_at_position_and_fixed(web: Web):
    await write(web, GOOD.replace("b=2)", "b=2"))
    finding = web.page.locator(".finding-list li", has_text="is not closed")
    assert "line 3, column" in " ".join((await finding.inner_text()).split())
    assert "^" in await finding.locator(".caret").inner_text()
    assert await web.page.locator(".cm-lintRange-error").count() == 1
    assert "cannot run" in await web.text(".head-line [role=status] >> nth=-1")
    await finding.get_by_role("button", name="line 3").click()
    assert (await cursor_line(web)).startswith("S1: @ADD")
    await finding.get_by_role("button", name="Fix").click()
    await web.page.locator(".head-line .warn", has_text="$first has no value").wait_for()
    assert await written(web) == GOOD
    await web.page.click("button:has-text('set the variables')")
    await web.page.click("button:has-text('+ $first')")
    assert "$first has no value" in await web.text(".head-line .warn")  # an empty field sets nothing
    await web.page.fill("#input-first", "40")
    await web.page.locator(".status.is-ok", has_text="ready to run").wait_for()
    assert await web.page.title() == "New plan · callsheet"


async def test_python_is_checked_drawn_and_run(web: Web):
    text = 'async def main(first: int):\n    """Add up"""\n    return await add(a=first, b=2)\n'
    await write(web, text.replace("await ", ""))
    finding = web.page.locator(".finding-list li", has_text="awaited").first
    assert "line 3, column" in " ".join((await finding.inner_text()).split())
    await write(web, text)
    await web.page.locator(".head-line .warn", has_text="$first has no value").wait_for()
    keywords = await web.page.locator(".cm-line .is-keyword").all_inner_texts()
    assert keywords == ["async", "def", "return", "await"]
    await web.page.click("button:has-text('set the inputs')")
    await web.page.fill("#input-first", "40")
    await web.page.locator(".status.is-ok", has_text="ready to run, 1 step").wait_for()
    await web.page.select_option("#spelling", "ltp")
    await web.page.locator(".cm-line", has_text="main.add: @ADD (a=$first, b=2)").wait_for()
    await web.page.locator(".text-place").click()
    await web.page.keyboard.press("Control+z")
    await web.page.locator(".cm-line", has_text="await add(").wait_for()
    await web.page.click(".head-line button:has-text('Graph')")
    await web.page.locator(".sketch .node", has_text="main.add").wait_for()
    await web.page.click("text=Format")
    assert await written(web) == text
    await web.page.click("text=► Run")
    await web.page.wait_for_url("**run=*")
    await web.page.locator("body", has_text="42").wait_for()
    assert "Add up" in await web.page.title()


async def test_keys_alone_complete_explain_and_fix(web: Web):
    await write(web, "S1: ")
    keys = web.page.keyboard
    await keys.press("Control+End")
    await keys.type("@ADD")
    await web.page.locator(".cm-tooltip-autocomplete [aria-selected]", has_text="@ADD").wait_for()
    await web.page.wait_for_timeout(100)  # the list takes no key in its first moment
    await keys.press("Enter")
    await web.page.locator(".cm-line", has_text="S1: @ADD (a=").wait_for()
    await write(web, GOOD.replace("@ADD", "@ADDD"))
    await web.page.locator(".cm-lintRange-error").first.wait_for()
    await keys.press("Control+Home")
    await keys.press("F8")
    await keys.press("Control+.")
    await web.page.locator(".fix:focus", has_text="write ADD").wait_for()
    await keys.press("Enter")
    await web.page.locator(".cm-line", has_text="S1: @ADD (a=$first").wait_for()
    assert await written(web) == GOOD
    for key in ("Control+Home", *["ArrowDown"] * 3, *["ArrowRight"] * 6, "Control+k", "Control+i"):
        await keys.press(key)
    await web.page.locator(".explanation", has_text="@NOTE (line)").wait_for()
    assert await web.findings() == []
    await keys.press("Escape")
    await web.page.locator(".explanation").wait_for(state="detached")
    await write(web, GOOD.replace("@ADD", "@ADDD"))
    await web.page.click(".cm-line >> text=it is $sum")
    for key in ("End", *["ArrowLeft"] * 13, "F12"):
        await keys.press(key)
    await web.page.locator(".cm-activeLine", has_text="S1: @ADDD").wait_for()
    await keys.press("F2")
    await web.page.locator(".rename", has_text="Rename sum (3 places)").wait_for()
    await keys.type("not a name")
    await keys.press("Enter")
    await web.page.locator(".rename [role=alert]:not(:empty)").wait_for()
    await keys.press("Control+a")
    await keys.type("total")
    await keys.press("Enter")
    await web.page.locator(".cm-line", has_text="S3: @RESPOND ($total)").wait_for()
    assert await written(web) == GOOD.replace("@ADD", "@ADDD").replace("$sum", "$total")
    await web.page.click(".finding-list .code:has-text('CHK040')")
    assert "CHK040" in await web.text(".code-page")


async def test_plan_is_formatted_drawn_and_dry_run(web: Web):
    await write(web, GOOD.replace("S1: @ADD (a=$first, b=2)", "S1:   @ADD ( a = $first,b=2 )"))
    await web.page.click("text=Format")
    await web.page.locator(".cm-line", has_text="(a=$first, b=2)").wait_for()
    await web.page.click(".head-line button:has-text('Graph')")
    await web.page.locator(".sketch .node[aria-label^='S2 @NOTE']").click()
    assert (await cursor_line(web)).startswith("S2:")
    await web.page.keyboard.type("S9: @NOTE (line=$sum) > $more\n")  # and it is drawn anew
    await web.page.locator(".sketch .node[aria-label^='S9 @NOTE']").wait_for()
    await web.page.keyboard.type("S(")
    await web.page.locator("#known-panel .notice", has_text="last valid plan").wait_for()
    assert await web.page.locator(".sketch .node").count() == 4
    await write(web, GOOD)
    await web.page.locator("#known-panel .notice").wait_for(state="detached")
    await write(web, BLOCKS)
    await web.page.get_by_role("button", name="S4: 1 inside").click()
    await write(web, BLOCKS.replace("S4:", "S3: @ADD (a=$x, b=1)\n  S4:"))
    await web.page.locator(".sketch .node[aria-label^='S3 ADD']").wait_for()
    assert await web.page.locator(".sketch .node[aria-label^='S5']").count() == 0  # what was folded stays so
    await write(web, GOOD)
    await web.page.click(".head-line button:has-text('Dry run')")
    await web.page.locator("#known-panel", has_text="2 calls").wait_for()
    assert "@NOTE" in await web.text(".step-list")


async def test_diagram_steps_are_focusable_and_selectable_by_key(web: Web):
    await write(web, GOOD)
    await web.page.click(".head-line button:has-text('Graph')")
    await web.page.locator(".sketch .node").first.wait_for()
    for key, step in (("Enter", "S1"), ("Space", "S2")):
        await web.page.locator(".sketch").focus()
        for _ in range(int(step[1])):
            await web.page.keyboard.press("Tab")
        label = await web.page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert label.startswith(f"{step} @")
        await web.page.keyboard.press(key)
        assert (await cursor_line(web)).startswith(f"{step}:")


async def test_goal_becomes_plan_that_is_reviewed_and_run(windows: Windows, api: Api, tmp_path: Path):
    (tmp_path / "model.py").write_text(MODEL)
    setup = replace(setup_of(tmp_path), model=f"{tmp_path / 'model.py'}:ask")
    (tmp_path / "other").mkdir()
    with running(tmp_path / "other", setup) as other:
        web = await browse(windows, other)
        await web.sign_in("plan")
        await web.page.fill("#goal", "Add up")
        await web.page.keyboard.press("Enter")
        await web.page.locator(".status.is-ok", has_text="ready to run").wait_for()
        assert "@ADD" in await written(web)
        await web.page.locator("#known-panel", has_text="under strict").wait_for()  # its proof
        await web.page.click("text=► Run")
        await web.page.locator("h1 .words", has_text="Done").wait_for()
        assert web.said == []
        await web.leave()


async def test_goal_without_model_shows_remedy(web: Web):
    await web.page.fill("#goal", "Add up")
    await web.page.click("text=Create a plan")
    await web.page.locator(".goal .warn", has_text="no model is configured").wait_for()
    web.said.clear()  # the browser's own word on the 422


async def test_plan_is_proved_against_policy(web: Web):
    await write(web, GOOD)
    await web.page.select_option("#policy", "strict")
    await web.page.click("button:has-text('Verify')")
    await web.page.locator("#known-panel", has_text="under strict").wait_for()
    await web.page.click("text=Show data labels")
    await web.page.locator(".step-list", has_text="reads $first").wait_for()
    assert await web.page.locator("#known-panel .notice").count() == 0
    await write(web, f"# more\n{GOOD}")
    await web.page.locator("#known-panel .notice", has_text="earlier text").wait_for()


TYPED = """\
# ltp: 2
# goal: Add up
INPUT $first: int  # what is added to
INPUT $how: "fast" | "slow" = "fast"
INPUT $day: date?
INPUT $names: list[str] = []
INPUT SECRET $key: json
S1: @ADD (a=$first, b=2) > $sum
S2: @NOTE (line="it is $sum, $how, $day, ${len($names)}") > $noted
S3: @RESPOND ($sum)
"""


async def test_declared_inputs_are_a_form_and_another_run_begins_with_them_but_for_secrets(web: Web):
    await write(web, TYPED)
    await web.page.click("button:has-text('set the inputs')")
    await web.page.fill("#input-first", "many")
    await web.page.fill("#input-key", "7215301846")
    await web.page.select_option("#input-how", label="slow")
    await web.page.fill("#input-day", "2026-01-31")
    await web.page.fill("#input-names", "Ada\nGrace")
    await web.page.keyboard.press("Control+Enter")
    await web.page.locator("#input-first-problem", has_text="first is not a number").wait_for()
    assert await web.findings() == []
    await web.page.fill("#input-first", "40")
    await web.page.keyboard.press("Control+Enter")
    await web.page.locator("h1 .words", has_text="Done").wait_for()
    assert (web.api.folder / "notes.txt").read_text() == "it is 42, slow, 2026-01-31, 2\n"
    assert [run["plan"] for run in web.api.get("/v1/runs")["runs"]] == ["Add up"]
    assert "7215301846" not in await web.page.evaluate("JSON.stringify([sessionStorage, localStorage])")
    await web.page.click("summary:has-text('Run again')")
    await web.page.click("button:has-text('With the same inputs')")
    await web.page.locator(".inputs .notice", has_text="secrets have to be given again: key").wait_for()
    assert await written(web) == TYPED
    told = [await web.page.input_value(f"#input-{name}") for name in ("first", "how", "day", "names", "key")]
    assert told == ["40", '"slow"', "2026-01-31", '["Ada","Grace"]', ""]
    await web.page.fill("#input-key", "7215301846")
    await web.page.fill("#input-first", "41")
    await web.page.keyboard.press("Control+Enter")
    await web.page.locator("h1 .words", has_text="Done").wait_for()
    assert (web.api.folder / "notes.txt").read_text().splitlines()[1] == "it is 43, slow, 2026-01-31, 2"


async def test_key_pressed_twice_starts_one_run(web: Web):
    await write(web, GOOD.replace("$first", "40"))
    await web.page.locator("#plan-text").evaluate(PRESS, 2)  # both before the page is drawn again
    await web.page.keyboard.press("Control+Enter")  # while the run is begun, or on its page
    await web.page.locator("h1 .words", has_text="Done").wait_for()
    assert len(web.api.get("/v1/runs")["runs"]) == 1


async def test_refusal_is_shown_and_nothing_runs(web: Web):
    await write(web, GOOD.replace("@ADD", "@NOBODY"))
    await web.page.keyboard.press("Control+Enter")
    await web.page.locator("[role=alert]", has_text="no tool is called @NOBODY").wait_for()
    assert web.api.get("/v1/runs")["runs"] == []
    web.said.clear()  # the browser's own word on the 422


async def test_plan_is_saved_opened_replaced_and_deleted(web: Web):
    await write(web, GOOD)
    await web.page.keyboard.press("Control+s")
    await web.page.keyboard.type("sums")
    await web.page.keyboard.press("Enter")
    await web.page.wait_for_selector("text=saved as sums")
    await web.page.keyboard.press("Enter")
    await web.page.click("text=Replace it")
    await web.page.wait_for_selector("text=saved as sums")
    await write(web, "")
    await web.page.evaluate("location.hash = 'plans'")
    await web.page.click(".run:has-text('sums')")
    await web.page.locator(".cm-line", has_text="@ADD").wait_for()
    assert "plan=sums" in web.page.url
    await web.page.evaluate("location.hash = 'plans'")
    await web.page.click("button[aria-label='Delete sums']")
    await web.page.click("button:has-text('Delete sums')")
    await web.page.wait_for_selector("text=None yet")
    web.said.clear()  # the browser's own word on the 409


@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 400)])
async def test_axe_reports_nothing_in_plan_findings(windows: Windows, api: Api, scheme: str, width: int):
    web, of_look = await browse(windows, api, (width, 850), scheme), scheme == "dark"
    await web.sign_in("plan")
    await web.page.wait_for_selector("#plan-text")
    wide = 'S9: @NOTES (line="a line that is wider than small windows") > $w\n'
    await write(web, GOOD.replace("@NOTE", "@NOTES") + wide)
    await web.page.wait_for_selector(".finding-list")
    assert await web.findings(of_look=of_look) == []
    await write(web, GOOD)
    for name, shown in (
        ("Graph", ".sketch"),
        ("Dry run", ".step-list"),
        ("Verify", "#known-panel .status"),
    ):
        await web.page.click(f".head-line button:has-text('{name}')")
        await web.page.wait_for_selector(shown)
        assert await axe_findings(web.page, "#known-panel", of_look=of_look) == [], name
    await web.page.click("#known-tab-inputs")
    assert await axe_findings(web.page, "#known-panel", of_look=of_look) == []
    assert await web.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    await web.leave()
