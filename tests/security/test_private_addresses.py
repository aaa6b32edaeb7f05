"""`@FETCH_PAGE` never connects to a private address.

The services are real sockets that count connections. Names are resolved by a table of the test, since a
test cannot change the machine's resolver; everything else is as in a run.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from callsheet.ports.builtin import BuiltinSettings, FetchSettings, builtin_tools
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Registry

CONTEXT = CallContext("run", "S1.0.1")


class Service:
    """A listener that records its requests and returns one text, or redirects by path."""

    def __init__(self, address: str, port: int = 0, *, answers: dict[str, str] | None = None) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, port), family=family)
        self.port: int = self._listener.getsockname()[1]
        self.seen: list[str] = []
        self.answers = answers or {}
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                request = connection.recv(65_536).decode("latin-1")
                path = request.split(" ")[1] if " " in request else ""
                self.seen.append(path)
                to = self.answers.get(path)
                head = f"302 Found\r\nLocation: {to}" if to else "200 OK\r\nContent-Type: text/plain"
                connection.sendall(f"HTTP/1.1 {head}\r\nContent-Length: 6\r\n\r\nsecret".encode("latin-1"))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def private() -> Iterator[Service]:
    """A service of this machine that no plan may reach."""
    service = Service("127.0.0.1")
    yield service
    service.close()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The addresses of names: for each a list, whose first address is removed while there are more."""
    table: dict[str, list[str]] = {}
    loop = asyncio.BaseEventLoop
    original = loop.getaddrinfo

    async def resolve(self: Any, host: Any, port: Any, **options: Any) -> Any:
        if host not in table:
            return await original(self, host, port, **options)
        left = table[host]
        address = left.pop(0) if len(left) > 1 else left[0]
        return await original(self, address, port, **options)

    monkeypatch.setattr(loop, "getaddrinfo", resolve)
    return table


async def fetch(url: str, tmp_path: Any, *allowed: str) -> Any:
    settings = FetchSettings(allow_private_hosts=allowed, timeout=60)
    tools = Registry(builtin_tools(BuiltinSettings(workspace=tmp_path, data=tmp_path, fetch=settings)))
    return await tools.require("FETCH_PAGE").handler({"url": url}, CONTEXT)


SPELLINGS = [
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7F.0.0.1", "0x7f.1", "0177.0.0.1",
    "017700000001", "0", "0.0.0.0", "00.00.00.00", "127.0.0.1.", "127.0.0.1..", "[::1]", "[::]",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[fec0::1]", "[2001:0:7f00:1::1]",
    "[2002:7f00:1::]", "[::1%25lo]", "localhost", "localhost.", "LOCALHOST",
    "\uff11\uff12\uff17.\uff10.\uff10.\uff11", "\u2460\u2461\u2466.0.0.1", "127\u30020\u30020\u30021",
    "%31%32%37.0.0.1", "127%2e0%2e0%2e1", "127.0.0.1%00.example.com", "%6cocalhost",
    "example.com@127.0.0.1", "example.com:80@127.0.0.1", "@127.0.0.1", "127.0.0.1\\@example.com",
    "169.254.169.254", "[::ffff:169.254.169.254]", "0xa9fea9fe", "2852039166", "169.254.43518",
]  # fmt: skip


@pytest.mark.parametrize("host", SPELLINGS)
async def test_no_spelling_reaches_private_service(private, tmp_path, host):
    with pytest.raises(ToolFailed, match="is refused:"):
        await fetch(f"http://{host}:{private.port}/", tmp_path)
    assert private.seen == []


@pytest.mark.parametrize("url", ["http://127.0.0.1#@example.com:{}/", "http://127.0.0.1:{}?@example.com/",
    "http:\\\\127.0.0.1:{}/", "http:/127.0.0.1:{}/", "http:127.0.0.1:{}", " http://127.0.0.1:{}/ ",
    "http://127.0.0.1\t:{}/", "HTTP://127.1:{}/"])  # fmt: skip
async def test_other_url_parts_do_not_reach_private_service(private, tmp_path, url):
    with pytest.raises(ToolFailed, match="is refused:"):
        await fetch(url.format(private.port), tmp_path)
    assert private.seen == []


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("metadata.google.internal", "169.254.169.254"),
        ("metadata", "169.254.169.254"),
        ("instance-data.ec2.internal", "169.254.169.254"),
        ("127.0.0.1.nip.example", "127.0.0.1"),
        ("six.example", "::ffff:127.0.0.1"),
        ("router.example", "192.168.0.1"),
    ],
)
async def test_name_resolving_to_private_address_is_not_fetched(private, names, tmp_path, name, address):
    names[name] = [address]
    with pytest.raises(ToolFailed, match="which is not a public address"):
        await fetch(f"http://{name}:{private.port}/", tmp_path)
    assert private.seen == []


def locations(port: int) -> list[str]:
    hosts = ("127.0.0.1", "127.1", "2130706433", "[::ffff:7f00:1]", "localhost", "x@127.0.0.1", "in.example")
    others = ("//127.0.0.1:{}/", "http:\\\\127.0.0.1:{}/", "\\\\127.0.0.1:{}/", "gopher://127.0.0.1:{}/")
    ways = [*(f"http://{host}:{{}}/" for host in hosts), *others, "file:///etc/passwd"]
    return [way.format(port) for way in ways]


@pytest.mark.parametrize("hops", [1, 3])
async def test_redirects_reach_no_private_service_on_any_hop(private, names, tmp_path, hops):
    names |= {"site.example": ["127.0.0.1"], "in.example": ["127.0.0.1"]}
    for location in locations(private.port):
        site = Service("127.0.0.1")
        try:
            ways = [f"http://site.example:{site.port}/{n}" for n in range(hops)]
            site.answers = {f"/{n}": way for n, way in enumerate([*ways[1:], location])}
            with suppress(ToolFailed):  # a location may also be read as a path of the site itself
                assert await fetch(ways[0], tmp_path, "site.example") == "secret"
            assert len(site.seen) >= hops
        finally:
            site.close()
        assert private.seen == [], location


async def test_checked_address_is_connected(names, tmp_path):
    """The second resolution would lead to another service; it does not happen."""
    try:
        good = Service("127.0.0.2")
    except OSError:
        pytest.skip("this machine has one loopback address")
    bad = Service("127.0.0.1", good.port)
    try:
        url = f"http://rebind.example:{good.port}"
        names["rebind.example"] = ["127.0.0.2", "127.0.0.1"]
        assert await fetch(f"{url}/page", tmp_path, "127.0.0.2") == "secret"
        assert (good.seen, bad.seen) == (["/page"], [])

        names["rebind.example"] = ["127.0.0.2", "127.0.0.1"]
        good.answers = {"/page": f"{url}/again"}  # a redirect to the same name is resolved and checked anew
        with pytest.raises(ToolFailed, match="which is not a public address"):
            await fetch(f"{url}/page", tmp_path, "127.0.0.2")
        assert bad.seen == []
    finally:
        good.close()
        bad.close()


async def test_environment_proxy_is_ignored(private, tmp_path, monkeypatch, names):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{private.port}")
    names["site.example"] = ["127.0.0.1"]
    site = Service("127.0.0.1")
    try:
        assert await fetch(f"http://site.example:{site.port}/", tmp_path, "site.example") == "secret"
    finally:
        site.close()
    assert private.seen == []
