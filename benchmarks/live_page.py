"""Measures the page of a run under way: how long it takes to open, and its processor time while it is live.

    python benchmarks/live_page.py [--steps 2000] [--seconds 15]

A plan of so many steps is begun, and its page is opened in Chromium while the first call is open: its clock
ticks, and nothing else happens. A bare page that is a clock is measured in the same way, since what a frame
costs depends on the machine. It needs Chromium and playwright, as the tests of the viewer do.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple, cast

from playwright.sync_api import CDPSession, Page, sync_playwright
from serving import CALLSHEET, Server, ask, served

TOOLS = """import asyncio
from callsheet import tool

@tool(effect="read")
async def wait(seconds: float) -> None:
    await asyncio.sleep(seconds)
"""
BARE = """<body><p id=clock></p><script>
setInterval(() => (document.getElementById("clock").textContent = new Date().toISOString()), 1000)
</script>"""
_SETTLING = 10
"""Seconds after which all that belongs to the opening has been done."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Cost(NamedTuple):
    """Shares of a core: of the page's process, of its scripts alone, of the server."""

    page: float
    scripts: float
    server: float


def _used(session: CDPSession) -> dict[str, float]:
    """The seconds of processor time that a page has taken, by what for."""
    told = cast("dict[str, Any]", session.send("Performance.getMetrics"))  # pyright: ignore[reportUnknownMemberType]
    return {str(each["name"]): float(each["value"]) for each in told["metrics"]}


def cost(page: Page, session: CDPSession, server: Server, seconds: float) -> Cost:
    """What a page and the server take for so many seconds."""
    before, served_before, begun = _used(session), server.seconds(), time.monotonic()
    page.wait_for_timeout(1000 * seconds)
    took, after = time.monotonic() - begun, _used(session)
    task, script = ((after[name] - before[name]) / took for name in ("ProcessTime", "ScriptDuration"))
    return Cost(task, script, (server.seconds() - served_before) / took)


def measure(page: Page, server: Server, steps: int, seconds: float) -> None:
    """Print what a bare page and that of a run take."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})  # pyright: ignore[reportUnknownMemberType]
    page.set_content(BARE)
    bare = cost(page, session, server, seconds)
    lines = (f"S{n}: @WAIT (seconds=600) > $x{n}\n" for n in range(1, steps + 1))
    body = {"plan": f"# ltp: 1\n{''.join(lines)}", "limits": {"schedule": "sequential"}}
    run = json.loads(ask(server.host, 1, "POST", "/v1/runs", json.dumps(body).encode()))["run_id"]
    page.goto(f"http://{server.host}/")
    page.wait_for_selector(".page")
    before, begun = _used(session)["TaskDuration"], time.monotonic()
    page.evaluate(f"location.hash = 'run={run}'")
    page.wait_for_selector(".app .node")
    took, opened = time.monotonic() - begun, _used(session)["TaskDuration"] - before
    page.wait_for_timeout(1000 * _SETTLING)
    live = cost(page, session, server, seconds)
    ask(server.host, 1, "POST", f"/v1/runs/{run}/cancel", b"{}")
    print(f"opened in {took:.2f} s, {opened:.2f} s of processor time")
    for name, each in (("a bare clock", bare), ("the run", live)):
        print(f"{name}: {each.page:.2%} of a core, scripts {each.scripts:.2%}, server {each.server:.2%}")


def main() -> None:
    """Measure with a server and a browser of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=15.0)
    wanted = parser.parse_args()
    program = next(filter(None, map(shutil.which, NAMES)))
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        (folder / "tools.py").write_text(TOOLS)
        options = ("--port", "0", "--no-auth", "--json", "--journal", "j.db", "--tools", "tools.py")
        with served(folder, "-c", CALLSHEET, "serve", *options) as server:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.set_default_timeout(60_000)
            measure(page, server, wanted.steps, wanted.seconds)
            browser.close()


if __name__ == "__main__":
    main()
