"""Access to the HTTP API: tokens, host names, endless or ambiguous requests."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.apps.http.conftest import TOKEN, Api, api, folder, raw, running

from callsheet.apps.cli.main import COMMANDS
from callsheet.apps.head_timeout import HeadTimeoutProtocol
from callsheet.apps.http.clients import Rate
from callsheet.apps.http.state import RequestLimits
from callsheet.apps.http.table import ENDPOINTS
from callsheet.diagnostics import CallsheetError

__all__ = ["api", "folder"]

STREAM = "/v1/runs/r/events"
OPEN = {"/v1/health", "/v1/openapi.json", "/v1/explain/{code}", "/v1/session", "/v1/webhooks/{name}"}


def status(answer: bytes) -> int:
    return int(answer.split()[1]) if answer else 0


def head(
    api: Api, *lines: str, method: str = "GET", path: str = "/v1/runs", token: str | None = TOKEN
) -> bytes:
    """The head of a request that ends its connection."""
    own = [f"{method} {path} HTTP/1.1", f"Host: {api.host}", "Connection: close"]
    own += [f"Authorization: Bearer {token}"] if token else []
    return "\r\n".join([*own, *lines, "", ""]).encode("latin-1")


# ---------------------------------------------------------------- who may ask


def test_open_routes_are_few_and_disclose_no_runs(api: Api):
    assert {endpoint.path for endpoint in ENDPOINTS if endpoint.is_open} == OPEN
    api.start("S1: @ADD (a=1) > $x", run_id="r")
    for path in ("/v1/health", "/v1/explain/CHK040", "/v1/openapi.json", "/"):
        said = api("GET", path, authorization=None)
        assert said.status == 200
        assert str(api.folder).encode() not in said.body


@pytest.mark.parametrize(
    "path",
    [
        "/v1/runs", "//v1/runs", "/v1//runs", "/./v1/runs", "/x/../v1/runs", "/V1/runs", "/v1/Runs",
        "/%76%31/runs", "/v1%2fruns", "/v1/runs/", "/v1/runs?x", "/v1/runs%00", "/v1/runs;a=b",
        "/v1/explain/../runs", "/v1/explain/%2e%2e%2fruns",
        "/v1/health/../runs", "http://127.0.0.1/v1/runs", "*",
    ],
)  # fmt: skip
@pytest.mark.parametrize("token", [None, "wrong", TOKEN[:-1], f"{TOKEN}\t{TOKEN}"])
def test_no_url_spelling_bypasses_token(api: Api, path: str, token: str | None):
    assert status(raw(api.url, head(api, path=path, token=token))) in (400, 401, 404, 429)


@pytest.mark.parametrize(
    "lines",
    [
        ("Authorization: Basic dDp0",),
        ("Cookie: callsheet=x",),
        ("X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1;proto=https"),
        ("X-Original-URL: /v1/health", "X-Rewrite-URL: /v1/health"),
        ("X-HTTP-Method-Override: GET",),
        (f"X-Api-Key: {TOKEN}",),
    ],
)
def test_only_token_authenticates(api: Api, lines: tuple[str, ...]):
    assert status(raw(api.url, head(api, *lines, token=None))) == 401
    for path in (f"/v1/runs?token={TOKEN}", f"/v1/runs?access_token={TOKEN}", f"/v1/runs#code={api.code}"):
        assert status(raw(api.url, head(api, path=path, token=None))) in (400, 401)


def test_stream_needs_token_and_websocket_is_refused(api: Api):
    api.start("S1: @ADD (a=1) > $x", run_id="r")
    said = api("GET", STREAM, authorization=None, accept="text/event-stream")
    assert said.status == 401
    assert said.headers["content-type"] == "application/problem+json"
    upgrade = ("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + "x" * 22 + "==")
    for token in (None, TOKEN):
        answer = raw(api.url, head(api, *upgrade, path=STREAM, token=token))
        assert b"101 " not in answer[:20]


def test_externally_reachable_server_needs_token_to_start(folder: Path):
    assert "serve" in COMMANDS
    for address in ("0.0.0.0", "::", "", "::ffff:0.0.0.0", "0", "127.0.0.1.nip.io", "10.0.0.1"):
        with pytest.raises(CallsheetError) as caught, running(folder, address=address, token=None):
            pass
        assert caught.value.diagnostics[0].code == "API012"
    with running(folder, address="0.0.0.0") as api:
        named = api("GET", "/v1/runs", host="plans.example")
        assert named.status == 421, "an address for everybody has no name that was not allowed"
    with running(folder, address="0.0.0.0", allow_hosts=("plans.example",)) as api:
        assert api("GET", "/v1/runs", host="plans.example").status == 200
        assert api("GET", "/v1/runs", host="plans.example", authorization=None).status == 401


# ---------------------------------------------------------------- what is no request


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /v1/runs HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /v1/runs HTTP/1.1\r\n Host: a\r\n\r\n",
        b"GET /v1/runs HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET /v1/ru\nns HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"G" * 100_000,
    ],
)
def test_invalid_request_is_refused_and_server_survives(api: Api, text: bytes):
    host, _, port = api.host.partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        try:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65_536)
        except ConnectionError:
            answer = b""
    assert status(answer) in (0, 400, 404, 413, 421, 431, 505)
    assert api("GET", "/v1/health").status == 200


def smuggled(api: Api, *lines: str, body: bytes) -> list[int]:
    """The statuses of a server's responses to a request with another one in its body."""
    inner = head(api, path="/v1/health")
    sent = head(api, "Content-Type: application/json", *lines, method="POST", path="/v1/session")
    sent = sent.replace(b"Connection: close\r\n", b"")
    answer = raw(api.url, sent + body + inner)
    return [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]


def test_content_length_is_unique_and_unambiguous(api: Api):
    told = json.dumps({"secret": TOKEN}).encode()
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(told), told)
    length = f"Content-Length: {len(told)}"
    assert smuggled(api, length, body=told) == [200, 200]
    for lines, body in [
        ((length, "Content-Length: 0"), told),
        (("Content-Length: -1",), told),
        (("Content-Length: +5",), told),
        ((f"{length}, {len(told)}", "Transfer-Encoding: xchunked"), told),
        (("Transfer-Encoding: gzip, chunked",), chunked),
        (("Transfer-Encoding: chunked", "Transfer-Encoding: identity"), chunked),
        (("Transfer-Encoding: chunked",), b"f" * 25 + b"\r\n"),
        (("Transfer-Encoding: chunked",), b"-1\r\n\r\n"),
        (("Transfer-Encoding: chunked",), b"5;\n\r\nhello"),
    ]:
        assert smuggled(api, *lines, body=body) in ([400], [501], []), lines
    both = smuggled(api, length, "Transfer-Encoding: chunked", body=chunked)
    assert both in ([400], [200], [200, 200]), "the chunks count, as RFC 9112 has it, and nobody is between"


# ---------------------------------------------------------------- too slow, too large, too many


@contextmanager
def connected(api: Api) -> Iterator[socket.socket]:
    host, _, port = api.host.partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        yield connection


def test_incomplete_head_times_out(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(HeadTimeoutProtocol, "seconds", 0.3)
    with running(folder) as api:
        for begun in (b"", b"GET /v1/runs HT", head(api)[:-2]):
            with connected(api) as connection:
                connection.sendall(begun)
                assert connection.recv(100) == b"", begun
        with connected(api) as connection:
            connection.sendall(head(api).replace(b"Connection: close\r\n", b""))
            answer = b""
            while b"[]" not in answer:
                answer += connection.recv(65_536)
            connection.sendall(b"GET /v1/r")
            assert connection.recv(100) == b"", "nor is a second one"


def test_response_may_take_longer_than_head_timeout(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(HeadTimeoutProtocol, "seconds", 0.05)
    with running(folder) as api:
        api.start('S1: @HOLD (name="go") > $x', "S2: @RESPOND ($x)", run_id="r")
        names: list[str] = []
        for name, _, _ in api.stream("r"):
            if name == "standing":
                import time

                time.sleep(0.2)
                (folder / "go").touch()
            names.append(name)
        assert names[-1] == "end"


def test_slow_or_growing_body_is_ended(folder: Path):
    request_limits = RequestLimits(most_body=2_000, body_seconds=0.3)
    with running(folder, request_limits=request_limits) as api:
        told = ("Content-Type: application/json", "Content-Length: 1000")
        assert (
            status(raw(api.url, head(api, *told, method="POST", path="/v1/session") + b'{"secret": "')) == 408
        )
        for size in ("2001", "9" * 30):
            told = ("Content-Type: application/json", f"Content-Length: {size}")
            answer = raw(api.url, head(api, *told, method="POST", path="/v1/session"))
            assert status(answer) in (400, 413)
        without = head(api, *told, method="POST", path="/v1/runs", token=None)
        assert status(raw(api.url, without)) in (400, 401), "nobody waits for the body of a stranger"


def test_guessing_client_is_throttled_and_authenticated_one_is_not(folder: Path):
    with running(folder) as api:
        statuses = [api("GET", "/v1/runs", authorization=f"Bearer {n}").status for n in range(40)]
        assert statuses[0] == 401
        assert statuses[-1] == 429
        assert api("GET", "/v1/runs").status == 200
    with running(folder, rate=Rate(0.001, 3)) as api:
        assert [api("GET", "/v1/health").status for _ in range(4)] == [200, 200, 200, 429]
        assert raw(api.url, head(api, token=None))[9:12] == b"429", (
            "who floods is not even asked for the token"
        )
