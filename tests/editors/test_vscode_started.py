"""The extension in VS Code itself, in its form for the browser: lenses, the debugger, questions, graph, runs.

It needs code-server (`npm install code-server`, with node-pty built for its terminal), on PATH or named by
CALLSHEET_CODE_SERVER, which may also be its `out/node/entry.js`, and the package that
`npm install && npm run package` makes in `editors/vscode`. Without code-server it is skipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from socket import socket

import pytest
from playwright.sync_api import Page, expect, sync_playwright
from tests.apps.test_debugging import BLOCKS
from tests.viewer.conftest import chromium

FOLDER = Path(__file__).parents[2] / "editors" / "vscode"
CODE_SERVER = os.environ.get("CALLSHEET_CODE_SERVER") or shutil.which("code-server") or ""
PROGRAM = ["node", CODE_SERVER] if CODE_SERVER.endswith(".js") else [CODE_SERVER]
TOOLS = '''
from callsheet.ports.python_tools import tool


@tool(effect="read")
def add(a: int, b: int = 1) -> int:
    """The sum of two numbers."""
    return a + b


@tool
def chat(text: str) -> str:
    """Says it."""
    return text
'''
SETTINGS = {
    "callsheet.command": [sys.executable, "-m", "callsheet"],
    "callsheet.arguments": ["--tools", "tools.py"],
    "callsheet.runArguments": ["--tools", "tools.py", "--approve", "CHAT"],
    "workbench.startupEditor": "none",
}

pytestmark = pytest.mark.skipif(
    not CODE_SERVER, reason="no VS Code here: put code-server on PATH, or name it in CALLSHEET_CODE_SERVER"
)


@pytest.fixture
def page(tmp_path: Path):
    """VS Code with the extension, in a folder with a plan."""
    work, data = tmp_path / "work", tmp_path / "data"
    for path, text in (
        (work / "p.ltp", BLOCKS),
        (work / "tools.py", TOOLS),
        (work / ".vscode" / "settings.json", json.dumps(SETTINGS)),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    with socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    (package,) = FOLDER.glob("*.vsix")
    code = [*PROGRAM, "--user-data-dir", str(data), "--extensions-dir", str(data / "extensions")]
    subprocess.run([*code, "--install-extension", str(package)], check=True, capture_output=True)
    options = ["--auth", "none", "--disable-workspace-trust", "--disable-telemetry", "--disable-update-check"]
    env = {**os.environ, "CALLSHEET_JOURNAL": str(tmp_path / "journal.db")}
    line = [*code, *options, "--bind-addr", f"127.0.0.1:{port}", str(work)]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(line, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_for(f"http://127.0.0.1:{port}/healthz")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
            opened = browser.new_page(viewport={"width": 1400, "height": 900})
            opened.set_default_timeout(60_000)
            expect.set_options(timeout=60_000)
            opened.goto(f"http://127.0.0.1:{port}/?folder={work}", wait_until="commit")
            yield opened
            browser.close()
    finally:
        os.killpg(server.pid, signal.SIGTERM)  # it has processes of its own
        server.wait()


def _wait_for(url: str) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url).close()
        except OSError:
            assert time.monotonic() < until, "VS Code did not start"
            time.sleep(0.2)
        else:
            return


def test_extension_works_in_vs_code(page: Page) -> None:
    page.get_by_role("treeitem", name="p.ltp").dblclick()
    lenses = page.locator(".codelens-decoration")
    lenses.get_by_text("Dry run").wait_for()
    lenses.get_by_text("Debug", exact=True).click()
    stack = page.locator(".debug-call-stack .stack-frame")
    expect(stack).to_have_text(re.compile(r"plan\s+let1"))
    for key, wanted in (("F10", r"plan\s+S2"), ("F11", r"S2\[0\]\s+S3"), ("F11", r"twice\s+ADDED")):
        page.keyboard.press(key)
        expect(stack.first).to_have_text(re.compile(wanted))
    expect(stack).to_have_count(3)
    page.get_by_role("treeitem", name="$n, value 1").wait_for()
    page.keyboard.press("F5")  # to the question of the run
    asked = page.locator(".monaco-dialog-box")
    expect(asked).to_contain_text("big {4}")
    asked.get_by_role("button", name="Approve").click()
    expect(page.locator(".repl")).to_contain_text("[3, 6]")
    page.keyboard.press("F1")
    page.keyboard.type("Show the Graph of the Plan")
    page.locator(".quick-input-list").get_by_text("Show the Graph").first.wait_for()
    page.keyboard.press("Enter")
    graph = page.frame_locator("iframe.webview").frame_locator("#active-frame")
    graph.get_by_role("button", name="S4: 1 inside").click()
    expect(graph.locator(".node", has_text="S5")).to_have_count(0)
    graph.locator(".node", has_text="S4").click()
    expect(page.locator(".statusbar")).to_contain_text("Ln 10, Col 3")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("End")
    page.keyboard.type("\nS9: @ADD (a=$y) > $z")
    expect(graph.locator(".node", has_text="S9")).to_have_count(1)
    expect(graph.locator(".node", has_text="S5")).to_have_count(0)  # what was folded stays so
    lenses.get_by_text("Run", exact=True).click()
    terminal = page.locator(".terminal-wrapper.active .xterm-rows")
    expect(terminal).to_contain_text("the run waits for people")
    page.locator(".activitybar a[aria-label^='callsheet']").click()
    listed = page.get_by_role("treeitem", name="p.ltp")
    expect(listed.filter(has_text="waiting")).to_have_count(1)
    listed.filter(has_text="done").click()
    report = page.frame_locator("iframe.webview >> nth=-1").frame_locator("#active-frame")
    report.locator("body", has_text="S2[1]").wait_for()
