"""The viewer as a page of a server: it loads the run, and again when it has grown."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.viewer.web import Windows

from callsheet import Runtime
from callsheet.runtime.reporting import report_document, viewer_page
from callsheet.store import Durability, Journal

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Server(ThreadingHTTPServer):
    """Serves one run at /run.json, and reports growth at /events."""

    daemon_threads = True
    document: dict[str, Any]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.grown = threading.Event()


class Answers(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if self.path == "/":
            self.say("text/html; charset=utf-8", viewer_page("a run", "/run.json", "/events").encode())
        elif self.path == "/run.json":
            self.say("application/json", json.dumps(self.server.document).encode())
        elif self.path.startswith("/events?after="):
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.server.grown.wait(60)
            self.wfile.write(b"id: 7\ndata: grown\n\n")
            self.wfile.flush()
        else:
            self.send_error(404)

    def say(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library has it
        pass


@contextmanager
def serving(document: dict[str, Any]) -> Iterator[Server]:
    with Server() as server:
        server.document = document
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.grown.set()
            server.shutdown()
            thread.join()


async def test_growing_run_is_updated(windows: Windows, tmp_path: Path):
    waiting = threading.Event()

    called = asyncio.Event()

    async def slow(x: int) -> int:
        called.set()
        await asyncio.to_thread(waiting.wait, 60)
        return x

    with Journal.open(tmp_path / "journal.db", Durability.OFF) as journal:
        async with Runtime([slow], journal=journal) as runtime:
            going = asyncio.ensure_future(
                runtime.run('S1: @CALC ("1 + 1") > $n\nS2: @SLOW (x=$n) > $m', run_id="r1")
            )
            await asyncio.wait_for(called.wait(), 60)
            with serving(report_document(journal, "r1").to_json()) as server:
                window = await windows.open()
                page = window.page
                await page.goto(f"http://127.0.0.1:{server.server_port}/")
                await page.wait_for_selector(".live")
                assert await page.inner_text("h1 .words") == "Running"
                assert "running" in await page.inner_text(".steps .step:has-text('S2')")
                waiting.set()
                await going
                server.document = report_document(journal, "r1").to_json()
                server.grown.set()
                await page.locator("h1 .words", has_text="Done").wait_for()
                assert "ok" in await page.inner_text(".steps .step:has-text('S2')")
                last = server.document["run"]["events"]
                assert f"event {last}/{last}" in await page.inner_text(
                    ".now"
                )  # it was at the end, and stays there
                await windows.leave(window)
                assert window.said == []


async def test_missing_data_is_reported(windows: Windows):
    with serving({"format": 99}) as server:
        window = await windows.open()
        page = window.page
        await page.goto(f"http://127.0.0.1:{server.server_port}/")
        await page.wait_for_selector(".nothing h1")
        assert "format 99" in await page.inner_text(".nothing")
        await windows.leave(window)
