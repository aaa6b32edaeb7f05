"""Web search with a real server that implements the three services' protocols."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from callsheet.machine import Cut
from callsheet.ports.builtin import BuiltinSettings, SearchSettings, builtin_tools
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.outcome_texts import clean_output
from callsheet.ports.tools import Registry

KEY = "canary-key"
ROWS = [
    {"title": "One &amp; only", "url": "https://n.test/1", "content": "about <strong>it</strong>"},
    {"title": "Two", "url": "https://n.test/2", "content": "x < y"},
]


class Services(BaseHTTPRequestHandler):
    """SearXNG, Brave and Tavily, as far as a search needs them."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        if parts.path == "/searx/search" and query.get("format") == ["json"]:
            self.answer({"results": ROWS if query["q"] == ["a b?"] else []})
        elif parts.path == "/res/v1/web/search" and self.headers["X-Subscription-Token"] == KEY:
            self.answer({"web": {"results": [{**row, "description": row["content"]} for row in ROWS]}})
        elif parts.path == "/page/search":
            self.answer("<html>")
        else:
            self.answer({"error": "no"}, 403)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = self.headers["Authorization"] == f"Bearer {KEY}" and body["query"] == "a b?"
        self.answer({"results": ROWS} if known else {}, 200 if known else 401)

    def answer(self, value: Any, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the library's
        pass


@pytest.fixture(scope="module")
def services() -> Iterator[str]:
    """The address of the running services."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Services)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


async def search(tmp_path: Path, query: str = "a b?", **settings: Any) -> Any:
    built = builtin_tools(
        BuiltinSettings(workspace=tmp_path, data=tmp_path, search=SearchSettings(**settings))
    )
    return await Registry(built).require("WEB_SEARCH").handler({"query": query}, CallContext("r", "k", "i"))


@pytest.mark.parametrize(("provider", "path"), [("searxng", "/searx/"), ("brave", ""), ("tavily", "/")])
async def test_services_return_titles_addresses_and_excerpts(services, tmp_path, monkeypatch, provider, path):
    monkeypatch.setenv("BRAVE_API_KEY", KEY)
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    rows = await search(tmp_path, provider=provider, url=services + path)
    assert rows == [
        {"title": "One & only", "url": "https://n.test/1", "snippet": "about it"},
        {"title": "Two", "url": "https://n.test/2", "snippet": "x < y"},
    ]
    assert clean_output("WEB_SEARCH", rows).startswith(
        "1. One & only\n   https://n.test/1\n   about it\n2. Two"
    )


async def test_omitted_results_are_remarked(services, tmp_path):
    settings = SearchSettings(provider="searxng", url=f"{services}/searx", results=1)
    built = builtin_tools(BuiltinSettings(workspace=tmp_path, data=tmp_path, search=settings))
    context = CallContext("r", "k")
    await Registry(built).require("WEB_SEARCH").handler({"query": "a b?"}, context)
    assert context.remarks == (Cut("results", 1, len(ROWS), "rows"),)


async def test_number_of_results_is_set_by_operator(services, tmp_path):
    assert len(await search(tmp_path, provider="searxng", url=f"{services}/searx", results=1)) == 1


async def test_no_results_are_empty_list(services, tmp_path):
    assert await search(tmp_path, "other", provider="searxng", url=f"{services}/searx") == []


async def test_missing_service_error_names_remedy(tmp_path):
    with pytest.raises(ToolFailed, match=r"TOL103.*searxng"):
        await search(tmp_path)


async def test_missing_key_error_names_variable(tmp_path, monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(ToolFailed, match="MY_KEY"):
        await search(tmp_path, provider="tavily", key_env="MY_KEY")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"provider": "brave", "url": "/x"}, "status 403"),
        ({"provider": "searxng", "url": "/page"}, "did not answer in its JSON format"),
        ({"provider": "searxng", "url": "/nothing"}, "JSON format may be switched off"),
    ],
)
async def test_failing_service_is_named_without_key(services, tmp_path, monkeypatch, settings, message):
    monkeypatch.setenv("BRAVE_API_KEY", KEY)
    with pytest.raises(ToolFailed, match=message) as failure:
        await search(tmp_path, **{**settings, "url": services + settings["url"]})
    assert KEY not in str(failure.value)


async def test_unreachable_service_is_failure(tmp_path):
    with pytest.raises(ToolFailed, match="cannot be reached"):
        await search(tmp_path, provider="searxng", url="http://127.0.0.1:9")
