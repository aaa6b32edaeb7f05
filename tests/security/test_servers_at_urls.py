"""MCP servers at URLs: settings for one origin go to no other, and no answer is endless."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from callsheet import RunStatus, Runtime
from callsheet.diagnostics import CallsheetError
from callsheet.ports.mcp import HttpServer, McpServerConfig, transport
from callsheet.store import Journal

TOKEN = "Bearer canary-token"
LOOK = {"name": "look", "inputSchema": {"type": "object", "properties": {}}}
PLAN = "S1: @LOOK () > $a\nS2: @RESPOND ($a)"


class Site:
    """A server at a port of this machine: an MCP server that answers calls of its tool with `result`.

    Requests whose method of MCP stands in `redirects` are sent on to that address instead; `bodies` are sent
    as they are, with headers. While `ends` is not set the end of a session is not answered. `seen` has the
    headers of every request, by what was asked.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.redirects: dict[str, tuple[int, str]] = {}
        self.bodies: dict[str, tuple[dict[str, str], bytes]] = {}
        self.result: dict[str, Any] = {"content": [{"type": "text", "text": "ok"}]}
        self.session: dict[str, str] = {}
        self.ends = threading.Event()
        self.ends.set()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

            def do_GET(self) -> None:
                site.seen.append((f"GET {self.path}", dict(self.headers)))
                self.answer(*site.redirect("GET") or (405, {}, b""))

            def do_DELETE(self) -> None:
                site.seen.append((f"DELETE {self.path}", dict(self.headers)))
                site.ends.wait(20)
                self.answer(405, {}, b"")

            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                site.seen.append((message["method"], dict(self.headers)))
                self.answer(*site.redirect(message["method"]) or site.reply(message))

            def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/mcp"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def redirect(self, method: str) -> tuple[int, dict[str, str], bytes] | None:
        """The redirect response for a request, if it is to be redirected."""
        if method not in self.redirects:
            return None
        status, location = self.redirects[method]
        return status, {"Location": location}, b""

    def reply(self, message: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        """The response to an MCP message."""
        method = message["method"]
        if method in self.bodies:
            return 200, *self.bodies[method]
        about = {"name": "site", "version": "1"}
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": about,
            },
            "tools/list": {"tools": [LOOK]},
            "tools/call": self.result,
        }
        if "id" not in message:
            return 202, {}, b""
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if method in results:
            said["result"] = results[method]
        else:
            said["error"] = {"code": -32601, "message": "no such method"}
        return 200, {"Content-Type": "application/json", **self.session}, json.dumps(said).encode()

    @property
    def asked(self) -> list[str]:
        """The requests, in order."""
        return [what for what, _ in self.seen]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def site() -> Iterator[Site]:
    """The configured server."""
    made = Site()
    yield made
    made.close()


@pytest.fixture
def other() -> Iterator[Site]:
    """A service at another address of this machine that is not configured."""
    made = Site()
    yield made
    made.close()


def config(site: Site, *, sse: bool = False) -> McpServerConfig:
    return McpServerConfig("site", HttpServer(site.url, {"Authorization": TOKEN}, sse=sse), timeout=60)


async def run(site: Site, tmp_path: Path, plan: str = PLAN, **more: Any) -> Any:
    async with Runtime(mcp=[config(site)], data=tmp_path, journal=tmp_path / "journal.db") as runtime:
        return await runtime.run(plan, run_id="run", **more)


async def test_configured_headers_are_sent_with_every_request(site, other, tmp_path):
    result = await run(site, tmp_path)
    assert result.response == "ok"
    assert {headers["Authorization"] for _, headers in site.seen} == {TOKEN}
    assert "tools/call" in site.asked
    assert {headers["Accept-Encoding"] for _, headers in site.seen} == {"identity"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["initialize", "tools/list"])
async def test_redirect_at_start_is_not_followed(site, other, tmp_path, method, status):
    site.redirects[method] = status, other.url
    with pytest.raises(CallsheetError) as caught:
        await run(site, tmp_path)
    assert other.seen == []
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("status", [302, 307])
async def test_redirected_call_is_in_doubt(site, other, tmp_path, status):
    site.redirects["tools/call"] = status, other.url
    result = await run(site, tmp_path)
    assert other.seen == []
    assert result.status is RunStatus.IN_DOUBT
    assert f"Redirect to {other.url} not followed" in result.in_doubt[0].why


@pytest.mark.parametrize(
    "location", ["http://169.254.169.254/latest", "http://me:pw@{}/mcp", "file:///etc/passwd"]
)
async def test_other_origins_are_not_contacted(site, other, tmp_path, location):
    site.redirects["tools/call"] = (
        307,
        location.format(other.url.removeprefix("http://").removesuffix("/mcp")),
    )
    result = await run(site, tmp_path)
    assert other.seen == []
    assert "root:" not in str(result.variables)


async def test_same_origin_path_redirect_is_followed(site, other, tmp_path):
    site.redirects["tools/call"] = 307, "/elsewhere"
    await run(site, tmp_path)
    assert site.asked.count("tools/call") > 1
    assert other.seen == []


async def test_redirect_of_sse_transport_is_not_followed(site, other, tmp_path):
    site.redirects["GET"] = 307, other.url
    with pytest.raises(CallsheetError):
        async with Runtime(mcp=[config(site, sse=True)], data=tmp_path) as runtime:
            await runtime.run(PLAN)
    assert site.asked == ["GET /mcp"]
    assert other.seen == []


async def test_url_in_answer_is_not_fetched(site, other, tmp_path):
    site.result = {
        "content": [
            {"type": "resource_link", "uri": other.url, "name": "x"},
            {"type": "resource", "resource": {"uri": other.url, "text": "t"}},
        ]
    }
    result = await run(site, tmp_path)
    assert result.status is RunStatus.DONE
    assert other.seen == []


LONG = b'{"jsonrpc": "2.0", "id": 2, "result": {"content": "' + b"x" * (8 << 20)
JSON = {"Content-Type": "application/json"}
EVENTS = {"Content-Type": "text/event-stream"}


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (JSON, LONG),
        (EVENTS, b": hello\n\nevent: message\ndata: " + LONG),
        (EVENTS, b'id: 7\r\ndata: {"result": {"content": "' + b"x" * (8 << 20)),
    ],
    ids=["JSON", "an event", "an event of another server"],
)
async def test_oversized_answer_fails_permanently(site, tmp_path, monkeypatch, headers, body):
    monkeypatch.setattr(transport, "_MAX_MESSAGE", 1 << 20)
    site.bodies["tools/call"] = headers, body
    result = await run(site, tmp_path, "S1: @LOOK () > $a ON_FAIL @RETRY(3) GOTO S2\nS2: @RESPOND ($a)")
    assert result.status is RunStatus.DONE
    assert result.response == "the answer is longer than 1 MiB, the limit: request less"
    assert site.asked.count("tools/call") == 1
    with Journal.open_to_read(tmp_path / "journal.db") as journal:
        assert journal.verify("run") is None


async def test_large_answer_is_accepted_as_event(site, tmp_path):
    text = "x" * (3 << 20)
    said = {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": text}]}}
    site.bodies["tools/call"] = EVENTS, b"data: " + json.dumps(said).encode() + b"\n\n"
    assert (await run(site, tmp_path)).response == text


@pytest.mark.parametrize(
    ("headers", "body", "why"),
    [
        ({**JSON, "Content-Encoding": "gzip"}, gzip.compress(LONG), "compressed"),
        (EVENTS, b'data: {"method": "notifications/x", "params": "' + LONG, "an event is longer than 1 MiB"),
    ],
    ids=["compressed", "no answer"],
)
async def test_oversized_ambiguous_response_is_in_doubt(site, tmp_path, monkeypatch, headers, body, why):
    monkeypatch.setattr(transport, "_MAX_MESSAGE", 1 << 20)
    site.bodies["tools/call"] = headers, body
    result = await run(site, tmp_path)
    assert result.status is RunStatus.IN_DOUBT
    assert why in result.in_doubt[0].why
    with Journal.open_to_read(tmp_path / "journal.db") as journal:
        assert journal.verify("run") is None


async def test_token_is_in_no_journal_and_no_error(site, other, tmp_path):
    site.redirects["tools/call"] = 307, other.url
    result = await run(site, tmp_path)
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"canary-token" not in kept
    assert "canary-token" not in repr(result)
    assert "canary-token" not in repr(config(site))


class Modern(Site):
    """A server of the protocol of 2026 that refuses the first call for its headers.

    From then on it says that the schema of the argument is another one, `schema`.
    """

    def __init__(self, schema: dict[str, str]) -> None:
        super().__init__()
        self.schema = schema
        self.refused = False

    def reply(self, message: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": message.get("id")}
        about = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        q = self.schema if self.refused else {"type": "string"}
        results: dict[str, Any] = {
            "server/discover": {**about, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
            "tools/list": {
                **about,
                "tools": [{**LOOK, "inputSchema": {"type": "object", "properties": {"q": q}}}],
            },
            "tools/call": {**self.result, "resultType": "complete"},
        }
        if message["method"] == "tools/call" and not self.refused:
            self.refused = True
            said["error"] = {"code": -32020, "message": "other headers"}
        else:
            said["result"] = results[message["method"]]
        return (
            400 if "error" in said else 200,
            {"Content-Type": "application/json"},
            json.dumps(said).encode(),
        )


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string", "x-mcp-header": "Q"}, "is declared differently now (inputSchema); not called"),
        ({"type": "string"}, "other headers"),
    ],
)
async def test_call_refused_for_headers_is_not_retried_with_others(tmp_path, schema, said):
    """The SDK lists the tools again by itself, and places arguments by the new declaration."""
    site = Modern(schema)
    try:
        result = await run(site, tmp_path, 'S1: @LOOK (q="herring") > $a\nS2: @RESPOND ($a)')
    finally:
        site.close()
    assert said in str(result.variables["a"])
    assert site.asked.count("tools/call") == 1
    assert not any("herring" in value for _, headers in site.seen for value in headers.values())


async def test_session_end_is_sent_and_not_awaited(site, tmp_path):
    site.session = {"Mcp-Session-Id": "s1"}
    site.ends.clear()
    begun = time.monotonic()
    try:
        await run(site, tmp_path)
        assert time.monotonic() - begun < 8
    finally:
        site.ends.set()
    assert "DELETE /mcp" in site.asked
