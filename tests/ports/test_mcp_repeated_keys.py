"""Keys that are repeated in the structured answers of MCP servers at a URL, as JSON and as events."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from callsheet import Journal, Runtime

ABOUT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "s", "version": "1"},
}
TOOLS = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("twice", "once", "large")]}
CONTENT = {
    "twice": '{"n": 1, "n": 2, "deep": [{"a": 1, "a": 1}]}',
    "once": '{"n": 2}',
    "large": '{"n": 1, "n": 2, "text": "' + "x" * 2_000_000 + '"}',
}


class Server(BaseHTTPRequestHandler):
    """Answers with JSON or, below /sse, with an event stream in small parts."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:  # type: ignore[override]
        pass

    def do_POST(self) -> None:
        asked: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, number = asked["method"], asked.get("id")
        if number is None:
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        if method == "tools/call":
            structured = CONTENT[asked["params"]["name"]]
            result = f'{{"content": [], "structuredContent": {structured}}}'
        else:
            result = json.dumps({"initialize": ABOUT, "tools/list": TOOLS}.get(method, {}))
        body = f'{{"jsonrpc": "2.0", "id": {number}, "result": {result}}}'
        is_stream = self.path == "/sse"
        if is_stream:
            level = '{"level": "info", "data": 1}'
            ping = f'{{"jsonrpc": "2.0", "method": "notifications/message", "params": {level}}}'
            body = f"event: message\r\ndata: {ping}\r\n\r\nevent: message\r\ndata: {body}\r\n\r\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        for at in range(0, len(body), 5_000):
            self.wfile.write(body[at : at + 5_000].encode())
            self.wfile.flush()

    def do_GET(self) -> None:
        self.send_error(405)


@contextmanager
def served() -> Generator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("path", ["mcp", "sse"])
@pytest.mark.parametrize(
    ("tool", "told"),
    [("twice", [r'\"a\", \"n\""}']), ("once", []), ("large", [])],
    ids=["repeated", "not repeated", "too large to be examined"],
)
def test_repeated_keys_over_http_are_remarked(tmp_path, path, tool, told):
    with served() as port:
        servers = {"s": {"url": f"http://127.0.0.1:{port}/{path}"}}
        with Runtime(mcp=servers, data=tmp_path, journal=tmp_path / "j.db") as runtime:
            result = runtime.run_sync(f"S1: @{tool.upper()} () > $a")
    assert result.variables["a"]["n"] == 2, result
    with Journal.open_to_read(tmp_path / "j.db") as journal:
        remarks = [
            json.dumps(remark).partition("last value counts: ")[2]
            for event in journal.events(result.run_id)
            for remark in (event.body or {}).get("remarks", [])
        ]
    assert remarks == told
