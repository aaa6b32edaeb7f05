"""Fixtures: an HTTP API server in a thread on a real socket, and a client that sends exact requests."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.apps.waiting_tools import TOOLS

from callsheet.apps.http.clients import Rate
from callsheet.apps.http.serving import ServeOptions, Serving, serve
from callsheet.apps.settings import Settings
from callsheet.apps.setup import Setup
from callsheet.runtime.event_loop import with_own_threads
from callsheet.store import Journal

TOKEN = "t" * 40


class Said(NamedTuple):
    """The response of a server."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return self.json["code"]


class Api:
    """A client of one server; it sends the token unless told otherwise."""

    def __init__(self, url: str, folder: Path, token: str = TOKEN) -> None:
        self.token = token
        self.url = url
        self.folder = folder
        self.host = url.removeprefix("http://")

    def __call__(
        self, method: str, path: str, body: object = None, *, raw: bytes | None = None, **headers: str | None
    ) -> Said:
        """Send a request; headers are keywords with _ for -, None omits a default one."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        usual: dict[str, str | None] = {"Authorization": f"Bearer {self.token}"}
        if data is not None:
            usual["Content-Type"] = "application/json"
        named = {name.replace("_", "-").title(): value for name, value in headers.items()}
        sent = {name: value for name, value in (usual | named).items() if value is not None}
        connection = http.client.HTTPConnection(self.host, timeout=60)
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return Said(answer.status, told, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str | None) -> Any:
        """The body of a response that must be successful."""
        said = self("GET", path, **headers)
        assert said.status == 200, said.body
        return said.json

    def start(self, *steps: str, **more: Any) -> str:
        """Start a run of these steps and return its id."""
        said = self("POST", "/v1/runs", {"plan": plan_of(*steps), **more})
        assert said.status == 202, said.body
        return said.json["run_id"]

    def ended(self, run_id: str) -> dict[str, Any]:
        """The run after its event stream has reported the end."""
        for name, _, data in self.stream(run_id):
            if name == "end":
                assert data["status"] in ("done", "failed", "cancelled", "refused")
        return self.get(f"/v1/runs/{run_id}")

    def until(self, run_id: str, status: str) -> None:
        """Wait until a run has a status."""
        for name, _, data in self.stream(run_id):
            if name in ("standing", "end") and data["status"] == status:
                return
        raise AssertionError(f"{run_id} was never {status}")

    def stream(
        self, run_id: str, after: int | None = None, **headers: str
    ) -> Iterator[tuple[str, int | None, Any]]:
        """The events of a run as they arrive: name, number, data."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        query = "" if after is None else f"?after={after}"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(
                "GET",
                f"/v1/runs/{run_id}/events{query}",
                headers={"Authorization": f"Bearer {self.token}", **named},
            )
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            assert answer.headers["content-type"].startswith("text/event-stream")
            name, number = "", None
            while line := answer.readline():
                field, _, value = line.decode().rstrip("\n").partition(": ")
                if field == "event":
                    name = value
                elif field == "id":
                    number = int(value)
                elif field == "data":
                    yield name, number, json.loads(value)
                elif not field:
                    name, number = "", None
        finally:
            connection.close()


def plan_of(*steps: str) -> str:
    """A plan of these steps as LTP text."""
    return "\n".join(["# ltp: 1", "PLAN_START", *steps, "PLAN_END", ""])


def setup_of(folder: Path) -> Setup:
    """A setup with the tools of the tests and no servers."""
    return Setup(
        workspace=folder,
        data=folder / "data",
        tools_files=(folder / "tools.py",),
        discovers=False,
        settings=Settings(),
    )


@contextmanager
def running(folder: Path, setup: Setup | None = None, **options: Any) -> Iterator[Api]:
    """A server during the context; its exceptions are raised at the end."""
    ready, told, failed = threading.Event(), list[Serving](), list[BaseException]()

    def on_ready(serving: Serving) -> None:
        told.append(serving)
        ready.set()

    async def work(policy: Any) -> None:
        with Journal.open(folder / "journal.db") as journal:
            wanted = {"port": 0, "token": TOKEN, "rate": Rate(0, 0), "drain": 0.0, "plans": folder / "plans"}
            await serve(
                ServeOptions(**{**wanted, **options}), setup or setup_of(folder), journal, policy=policy,
                on_ready=on_ready, say=lambda text: None,
            )  # fmt: skip

    def run(policy: Any) -> None:
        try:
            asyncio.run(with_own_threads(work(policy)))
        except BaseException as error:
            failed.append(error)
            ready.set()

    thread = threading.Thread(target=run, args=(options.pop("policy", None),))
    thread.start()
    assert ready.wait(60)
    try:
        if not failed:
            api = Api(told[0].url, folder)
            api.code = told[0].code
            yield api
    finally:
        if told:
            told[0].server.should_exit = True
        thread.join(30)
    if failed:
        raise failed[0]


@pytest.fixture
def api(folder: Path) -> Iterator[Api]:
    """A server with the usual options."""
    with running(folder) as made:
        yield made


def raw(url: str, text: bytes) -> bytes:
    """The response of a server to exactly these bytes."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(text)
        found = b""
        while part := connection.recv(65_536):
            found += part
        return found


@pytest.fixture
def folder(own_home: Path) -> Path:
    """The folder of a user with a file of tools."""
    (own_home / "tools.py").write_text(TOOLS)
    return own_home
