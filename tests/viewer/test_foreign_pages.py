"""Pages of other sites in a signed-in browser can start nothing and read nothing.

The other site is another port of this machine. For a browser that is the same site, so it sends the cookie,
and only the server's own checks remain.
"""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from tests.apps.http.conftest import Api, plan_of
from tests.viewer.web import Web, Windows, browse

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLAN = plan_of('S1: @NOTE (line="from elsewhere") > $x')
TRIES = """
async ([home, plan]) => {
  const body = JSON.stringify({ plan });
  const read = {};
  const tries = {
    simple: () => fetch(`${home}/v1/runs`, { method: "POST", mode: "no-cors", credentials: "include", body }),
    json: () => fetch(`${home}/v1/runs`, {
      method: "POST", credentials: "include", body,
      headers: { "Content-Type": "application/json", "X-Callsheet": "1" },
    }),
    look: () => fetch(`${home}/v1/runs`, { credentials: "include" }),
    quiet: () => fetch(`${home}/v1/runs`, { credentials: "include", mode: "no-cors" }),
    beacon: async () => navigator.sendBeacon(`${home}/v1/runs`, new Blob([body], { type: "text/plain" })),
  };
  for (const [name, attempt] of Object.entries(tries)) {
    try {
      const answer = await attempt();
      read[name] = answer instanceof Response ? answer.type + (await answer.text()) : String(answer);
    } catch (error) {
      read[name] = "refused";
    }
  }
  const loaded = (element, address) => new Promise((done) => {
    element.onload = () => done("loaded");
    element.onerror = () => done("refused");
    setTimeout(() => done("nothing"), 1500);
    element.src = address;
    document.body.append(element);
  });
  read.script = await loaded(document.createElement("script"), `${home}/v1/runs`);
  read.image = await loaded(document.createElement("img"), `${home}/v1/runs/r/document`);
  read.stream = await new Promise((done) => {
    const source = new EventSource(`${home}/v1/runs/r/events`, { withCredentials: true });
    source.onmessage = () => done("message");
    source.onerror = () => { source.close(); done("refused"); };
  });
  const frame = document.createElement("iframe");
  await loaded(frame, `${home}/`);
  try { read.frame = frame.contentDocument.body.innerText; } catch (error) { read.frame = "refused"; }
  return read;
}
"""
FORM = """
([home, plan, kind]) => {
  const form = document.createElement("form");
  form.method = "POST"; form.action = `${home}/v1/runs`; form.enctype = kind;
  const field = document.createElement("input");
  field.name = `{"plan": ${JSON.stringify(plan)}, "name": "`; field.value = `"}`;
  form.append(field); document.body.append(form); form.submit();
}
"""


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """The address of a page of another site."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

        def do_GET(self) -> None:
            body = b"<!doctype html><title>nice pictures</title>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest_asyncio.fixture(loop_scope="session")
async def web(windows: Windows, api: Api) -> AsyncIterator[Web]:
    made = await browse(windows, api)
    await made.sign_in()
    yield made
    await made.leave()


def untouched(api: Api) -> bool:
    runs = [run["run_id"] for run in api.get("/v1/runs")["runs"]]
    return runs == ["r"] and not (api.folder / "notes.txt").exists()


async def test_scripts_of_other_page_start_and_read_nothing(web: Web, api: Api, elsewhere: str):
    api.start("S1: @ADD (a=41) > $x", run_id="r")
    api.ended("r")
    page = await web.page.context.new_page()
    await page.goto(elsewhere)
    read = await page.evaluate(TRIES, [api.url, PLAN])
    assert {read[name] for name in ("json", "look", "script", "image", "stream", "frame")} <= {
        "refused",
        "nothing",
    }
    assert "run_id" not in json.dumps(read)
    assert untouched(api)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_form_of_other_page_starts_nothing(web: Web, api: Api, elsewhere: str, kind: str):
    api.start("S1: @ADD (a=41) > $x", run_id="r")
    page = await web.page.context.new_page()
    await page.goto(elsewhere)
    async with page.expect_navigation():
        await page.evaluate(FORM, [api.url, PLAN, kind])
    assert "API003" in await page.inner_text("body")
    assert untouched(api)


async def test_rebound_name_gives_no_access(web: Web, api: Api):
    port = api.host.rpartition(":")[2]
    page = await web.page.context.new_page()
    answer = await page.goto(f"http://evil.localhost:{port}/")
    assert answer is not None
    assert answer.status == 421
    assert "API002" in await page.inner_text("body")


async def test_signed_in_page_has_access(web: Web, api: Api):
    read = await web.page.evaluate("async () => (await fetch('/v1/runs')).status")
    assert read == 200
    made = await web.page.evaluate(
        "async (plan) => (await fetch('/v1/runs', { method: 'POST', body: JSON.stringify({ plan }),"
        " headers: { 'Content-Type': 'application/json', 'X-Callsheet': '1' } })).status",
        PLAN,
    )
    assert made == 202
