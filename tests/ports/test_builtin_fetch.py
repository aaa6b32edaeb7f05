"""Fetching from a real server, and refusing private addresses in any notation."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.policy.addresses import AddressRefused, AllowedHosts, checked, is_public, parse_url
from callsheet.ports.builtin import BuiltinSettings, FetchSettings, builtin_tools
from callsheet.ports.builtin.web_client import decode
from callsheet.ports.builtin.web_client import fetch as fetch_page
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Registry

CONTEXT = CallContext("run", "S1", "key")
PAGE = (
    "<!doctype html><html><head><title>The title</title><style>p{}</style></head><body>"
    "<nav>Menu</nav><p>Read <a href='/more'>more</a> <a href='javascript:x()'>now</a></p>"
    "<img src='data:image/png;base64,AAAA'><script>alert(1)</script><footer>Imprint</footer></body></html>"
)


class Site(BaseHTTPRequestHandler):
    """Pages of every kind that a fetch encounters."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        try:
            getattr(self, "page_" + path.strip("/").replace("-", "_"), self.page_missing)()
        except OSError:
            self.close_connection = True  # the client has had enough

    def answer(self, body: bytes, kind: str = "text/plain", status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def page_page(self) -> None:
        self.answer(PAGE.encode(), "text/html; charset=utf-8")

    def page_json(self) -> None:
        self.answer(b'{"city": "Paris"}', "application/json")

    def page_latin(self) -> None:
        self.answer("Größe".encode("latin-1"), "text/plain; charset=ISO-8859-1")

    def page_host(self) -> None:
        self.answer(self.headers["Host"].encode())

    def page_image(self) -> None:
        self.answer(b"\x89PNG", "image/png")

    def page_missing(self) -> None:
        self.answer(b"no", status=404)

    def page_zipped(self) -> None:
        self.answer(gzip.compress(b"x" * 10_000_000), Content_Encoding="gzip")

    def page_to_json(self) -> None:
        self.answer(b"", status=302, Location="/json")

    def page_to_itself(self) -> None:
        self.answer(b"", status=302, Location="/to-itself")

    def page_to_metadata(self) -> None:
        self.answer(b"", status=307, Location="http://169.254.169.254/latest/meta-data/")

    def page_to_file(self) -> None:
        self.answer(b"", status=302, Location="file:///etc/passwd")

    def page_to_stranger(self) -> None:
        self.answer(b"", status=302, Location="http://secret-in-its-name.example/")

    def page_hanging(self) -> None:
        time.sleep(3)

    def page_endless(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        while True:
            self.wfile.write(b"x" * 65_536)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the library's
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[int]:
    """The port of a running site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


async def fetch(url: str, tmp_path: Path, **settings: Any) -> Any:
    settings.setdefault("allow_private_hosts", ("127.0.0.1",))
    built = builtin_tools(BuiltinSettings(workspace=tmp_path, data=tmp_path, fetch=FetchSettings(**settings)))
    return await Registry(built).require("FETCH_PAGE").handler({"url": url}, CONTEXT)


async def test_page_becomes_markdown(site, tmp_path):
    text = await fetch(f"http://127.0.0.1:{site}/page", tmp_path)
    assert text == f"# The title\n\nRead [more](http://127.0.0.1:{site}/more) now"


@pytest.mark.parametrize(
    ("path", "text"), [("json", '{"city": "Paris"}'), ("latin", "Größe"), ("to-json", '{"city": "Paris"}')]
)
async def test_text_other_than_html_is_returned_unchanged(site, tmp_path, path, text):
    assert await fetch(f"http://127.0.0.1:{site}/{path}", tmp_path) == text


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing", "status 404"),
        ("image", "image/png, which is not text"),
        ("to-itself", "more than 5 redirects"),
        ("to-metadata", r"/to-metadata redirects to http://169\.254\.169\.254/latest/.*, which is refused: "),
        ("to-file", r"/to-file redirects to file:///etc/passwd, which is refused: only http"),
        ("zipped", "larger than 1000000 bytes"),
        ("endless", "larger than 1000000 bytes"),
    ],
)
async def test_failed_fetch_has_reason(site, tmp_path, path, message):
    with pytest.raises(ToolFailed, match=message):
        await fetch(f"http://127.0.0.1:{site}/{path}", tmp_path, max_bytes=1_000_000)


async def test_forbidden_redirect_is_not_resolved(site, monkeypatch):
    """A name server learns the queried name: data could leave in it."""
    asked: list[str] = []
    loop = type(asyncio.get_running_loop())
    original = loop.getaddrinfo

    async def noted(self: Any, host: Any, port: Any, **options: Any) -> Any:
        asked.append(host)
        return await original(self, host, port, **options)

    monkeypatch.setattr(loop, "getaddrinfo", noted)
    settings = FetchSettings(allow_private_hosts=("127.0.0.1",))
    with pytest.raises(ToolFailed, match="is not allowed: it is a stranger's"):
        await fetch_page(
            f"http://127.0.0.1:{site}/to-stranger", settings, lambda before, to: "it is a stranger's"
        )
    assert not any("example" in str(host) for host in asked)


async def test_hanging_server_times_out(site, tmp_path):
    with pytest.raises(ToolFailed, match=r"longer than 0\.3 seconds"):
        await fetch(f"http://127.0.0.1:{site}/hanging", tmp_path, timeout=0.3)


async def test_unreachable_server_is_failure(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ToolFailed, match="cannot be fetched"):
            await fetch(f"http://127.0.0.1:{unused.getsockname()[1]}/", tmp_path)


async def test_name_is_resolved_once_and_checked_address_is_used(site, tmp_path, monkeypatch):
    """A name that resolves to another address the second time is never resolved again."""
    answers = iter(["127.0.0.1"])

    async def resolve(self: Any, host: str, port: int, **_: Any) -> Any:
        assert host == "rebinding.test"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    loop = asyncio.get_running_loop()
    original = type(loop).getaddrinfo

    async def only_names(self: Any, host: Any, port: Any, **options: Any) -> Any:
        if host == "127.0.0.1":
            return await original(self, host, port, **options)
        return await resolve(self, host, port, **options)

    monkeypatch.setattr(type(loop), "getaddrinfo", only_names)
    allowed = ("127.0.0.0/8",)
    text = await fetch(f"http://rebinding.test:{site}/host", tmp_path, allow_private_hosts=allowed)
    assert text == f"rebinding.test:{site}"


PRIVATE = [
    "http://127.0.0.1/",
    "http://127.1/",
    "http://0/",
    "http://0.0.0.0/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://127.0.0.1./",
    "http://①②⑦.⓪.⓪.①/",
    "http://127。0。0。1/",
    "http://[::1]/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1]/",
    "http://[fd00:ec2::254]/",
    "http://169.254.169.254/latest/meta-data/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://240.0.0.1/",
    "http://localhost/",
    "http://localhost./",
    "http://LOCALHOST:8080/",
    "http://example.com@127.0.0.1/",
    "http://127.0.0.1#@example.com/",
    "http://127.0.0.1\\@example.com/",
    "http://example.com\\@127.0.0.1/",
    "http://127.0.0.1 .example.com/",
    "http://exa\tmple.com/",
    "http://example.com\r\nHost: x/",
    "https://[::1",
    "http:///path",
    "http://",
    "http://:80/",
    "http://example.com:99999/",
    "http://example.com:x/",
    "file:///etc/passwd",
    "gopher://127.0.0.1/",
    "ftp://example.com/",
    "//example.com/",
    "example.com",
    "",
    "javascript:alert(1)",
]


@pytest.mark.parametrize("url", PRIVATE)
async def test_no_spelling_of_private_address_is_fetched(tmp_path, monkeypatch, url):
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", refuse)
    with pytest.raises(ToolFailed, match="refused"):
        await fetch(url, tmp_path, allow_private_hosts=())


@given(st.integers(0, 2**32 - 1))
def test_embedded_ipv4_address_is_judged(number):
    """is_public is the same for an IPv4 address and every form that embeds it."""
    plain = ipaddress.IPv4Address(number)
    for wrapped in (f"::ffff:{plain}", f"64:ff9b::{plain}"):
        assert is_public(ipaddress.ip_address(wrapped)) == is_public(plain)
    assert is_public(ipaddress.IPv6Address((0x2002 << 112) | (number << 80))) == is_public(plain)


@given(st.text(max_size=40) | st.from_regex(r"https?://[^/]{0,20}(:\d{1,6})?/.{0,10}", fullmatch=True))
def test_any_text_is_address_or_refused(text):
    """parse_url refuses, or returns parts whose canonical form parses to the same."""
    try:
        target = parse_url(text)
    except AddressRefused:
        return
    assert parse_url(target.url) == target
    assert target.url.isascii()


def test_host_with_one_private_address_is_refused():
    target = parse_url("https://mixed.example/")
    assert [str(a) for a in checked(target, ["1.1.1.1", "2606:4700::1111"], AllowedHosts())] == [
        "1.1.1.1",
        "2606:4700::1111",
    ]
    with pytest.raises(AddressRefused):
        checked(target, ["1.1.1.1", "10.0.0.1"], AllowedHosts())


@pytest.mark.parametrize(
    ("entries", "host", "address", "allowed"),
    [
        (["10.0.0.0/8"], "a.test", "10.1.2.3", True),
        (["10.0.0.0/8"], "a.test", "::ffff:10.1.2.3", True),
        (["10.0.0.0/8"], "a.test", "192.168.0.1", False),
        (["api.internal"], "api.internal", "10.1.2.3", True),
        (["api.internal"], "api.internal.evil.test", "10.1.2.3", False),
        (["*.corp.example"], "a.corp.example", "10.1.2.3", True),
        (["*.corp.example"], "corp.example", "10.1.2.3", False),
        (["*.corp.example"], "evilcorp.example", "10.1.2.3", False),
        (["[::1]"], "a.test", "::1", True),
        (["*"], "a.test", "127.0.0.1", True),
        ([], "a.test", "127.0.0.1", False),
    ],
)
def test_only_hosts_listed_by_operator_are_allowed(entries, host, address, allowed):
    assert AllowedHosts.parse(entries).allow(host, ipaddress.ip_address(address)) is allowed


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("é".encode(), "", "é"),
        ("é".encode("latin-1"), "", "é"),
        ("é".encode("utf-16"), "text/plain; charset=utf-8", "é"),
        (
            b'<meta charset="windows-1251">' + "Ж".encode("cp1251"),
            "text/html",
            '<meta charset="windows-1251">Ж',
        ),
        ("é".encode(), "text/plain; charset=nonsense", "é"),
        ("é".encode(), "text/plain; charset=base64", "é"),
    ],
)
def test_declared_encoding_is_used(body, kind, text):
    assert decode(body, kind) == text


async def test_cancelled_fetch_ends(site, tmp_path):
    task = asyncio.create_task(fetch(f"http://127.0.0.1:{site}/hanging", tmp_path))
    await asyncio.sleep(0.1)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_tls_verifies_host_name(tmp_path, monkeypatch):
    """The name in the handshake, which the certificate is checked against, is that of the URL."""
    seen: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _socket, name, _context: seen.append(name)

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):  # there is no certificate to go on with
            context.wrap_socket(connection, server_side=True)

    loop_type = type(asyncio.get_running_loop())
    original = loop_type.getaddrinfo

    async def resolve(self: Any, host: Any, port: Any, **options: Any) -> Any:
        return await original(self, "127.0.0.1" if host == "named.test" else host, port, **options)

    monkeypatch.setattr(loop_type, "getaddrinfo", resolve)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        with pytest.raises(ToolFailed, match="cannot be fetched"):
            await fetch(f"https://named.test:{listener.getsockname()[1]}/", tmp_path)
        thread.join()
    assert seen == ["named.test"]
