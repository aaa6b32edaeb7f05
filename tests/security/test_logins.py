"""Logins with lying servers: no internal address is contacted, no token sent elsewhere or shown."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from tests.apps.conftest import Machine, machine
from tests.logins import User, authority, user, wiki
from tests.oauth_servers import Answer, Authority, Protected, Site, browse, told
from tests.security.test_private_addresses import names

from callsheet.diagnostics import CallsheetError
from callsheet.ports.calls import CallContext
from callsheet.ports.mcp import McpPool, McpServerConfig
from callsheet.ports.mcp.oauth.discovery import MOST_BYTES, Guard
from callsheet.sealing.known import forms_of

__all__ = ["authority", "machine", "names", "user", "wiki"]

CONTEXT = CallContext("run", "S1", "k")
PRM = "/.well-known/oauth-protected-resource/mcp"
ASM = "/.well-known/oauth-authorization-server"
NOT_REACHED = re.compile("TOL033 .*not a public address.*")
METADATA_SERVICE = "http://169.254.169.254/latest/meta-data"


@pytest.fixture
def other() -> Iterator[Site]:
    """Another service of this machine."""
    made = Site()
    yield made
    made.close()


async def refused(user: User, **more: Any) -> str:
    """The error of a login that fails."""
    with pytest.raises(CallsheetError) as caught:
        async with asyncio.timeout(60):  # one that asks a person after all would wait for longer
            await user.log_in(**more)
    [diagnostic] = caught.value.diagnostics
    return f"{diagnostic.code} {diagnostic.message}"


async def look(config: McpServerConfig, user: User) -> object:
    async with McpPool([config], logins=user.file) as pool:
        await pool.connect()
        [(tool, _)] = pool.tools()
        return await tool.handler({}, CONTEXT)


# ---------------------------------------------------------------- where metadata leads


@pytest.mark.parametrize(
    "place",
    [
        METADATA_SERVICE,
        "https://169.254.169.254/",
        "https://10.0.0.1/",
        "https://[fe80::1]/",
        "https://[::ffff:169.254.169.254]/",
        "https://100.64.0.1/",
        "https://0.0.0.0/",
    ],
)
async def test_metadata_leads_into_no_private_network(
    user: User, wiki: Protected, authority: Authority, place: str
):
    """It is refused for its address; an unreachable address would fail as well, after a while."""
    wiki.changes = {"authorization_servers": [place]}
    assert NOT_REACHED.fullmatch(await refused(user))
    wiki.changes = {}
    for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"):
        authority.changes = {name: place}
        assert NOT_REACHED.fullmatch(await refused(user)), name
    assert authority.paths("POST") == []
    challenge = {"WWW-Authenticate": f'Bearer resource_metadata="{place}"'}
    wiki.answers["/mcp"] = Answer(401, challenge, b"")
    assert NOT_REACHED.fullmatch(await refused(user))


@pytest.mark.parametrize(
    "place",
    [
        "http://1.1.1.1/token",
        "http://example.com@1.1.1.1/",
        "https://1.1.1.1:0x50/",
        "https://0xa9.0xfe.0xa9.0xfe/",
    ],
)
async def test_endpoints_must_be_https_and_plain(user: User, authority: Authority, place: str):
    authority.changes = {"token_endpoint": place}
    assert (await refused(user))[:6] in ("TOL032", "TOL033")
    assert authority.paths("POST") == []


async def test_internet_server_leads_to_no_other_network(names: dict[str, list[str]]):
    names |= {
        "wiki.example": ["93.184.215.14"],
        "good.example": ["93.184.215.15"],
        "inner.example": ["10.1.2.3"],
        "mixed.example": ["127.0.0.1"],
        "corp.example": ["10.9.9.9"],
    }
    async with await Guard.of("wiki", "https://wiki.example/mcp") as guard:
        await guard.judge("https://good.example/token")
        for place in (
            "https://inner.example/",
            "https://mixed.example/",
            "https://127.0.0.1/",
            "https://[::1]/",
        ):
            with pytest.raises(CallsheetError, match="not a public address"):
                await guard.judge(place)
        with pytest.raises(CallsheetError, match="not encrypted"):
            await guard.judge("http://good.example/token")
    async with await Guard.of("wiki", "https://wiki.example/mcp", "https://corp.example") as guard:
        await guard.judge("https://corp.example/token")  # the operator has named it
        with pytest.raises(CallsheetError, match="not a public address"):
            await guard.judge("https://inner.example/")
    async with await Guard.of("wiki", "https://inner.example/mcp") as guard:
        await guard.judge("https://corp.example/token")
        for place in ("https://127.0.0.1/", "https://169.254.169.254/", "https://[fe80::1]/"):
            with pytest.raises(CallsheetError, match="not a public address"):
                await guard.judge(place)  # a server elsewhere has no business on this machine or its cable


async def test_rebound_name_is_reached_at_checked_address(names: dict[str, list[str]], other: Site):
    port = other.origin.rpartition(":")[2]
    names["turns.example"] = ["127.0.0.1", "169.254.169.254"]
    async with await Guard.of("wiki", other.origin) as guard:
        answer = await guard.send(httpx2.Request("GET", f"http://turns.example:{port}/"))
        assert answer.status_code == 404
        with pytest.raises(CallsheetError, match="not a public address"):
            await guard.send(httpx2.Request("GET", f"http://turns.example:{port}/"))
    assert len(other.asked) == 1


@pytest.mark.parametrize("path", [PRM, ASM])
async def test_metadata_redirects_are_not_followed(
    user: User, wiki: Protected, authority: Authority, other: Site, path: str
):
    for place in (f"{other.origin}/here", METADATA_SERVICE):
        (wiki if path == PRM else authority).answers[path] = Answer(302, {"Location": place}, b"")
        assert (await refused(user))[:6] in ("TOL032", "TOL039")
    assert other.asked == []


async def test_token_endpoint_redirects_are_not_followed(user: User, authority: Authority, other: Site):
    authority.answers["/token"] = Answer(307, {"Location": f"{other.origin}/token"}, b"")
    assert (await refused(user)).startswith("TOL034")
    assert other.asked == []


# ---------------------------------------------------------------- what metadata says


async def test_metadata_of_another_resource_is_refused(user: User, wiki: Protected, other: Site):
    for resource in (
        f"{other.origin}/mcp",
        f"{wiki.origin}/mcp2",
        f"{wiki.origin}/mcp/deeper",
        "https://x.example",
    ):
        wiki.changes = {"resource": resource}
        assert (await refused(user)).startswith("TOL032"), resource


async def test_metadata_of_another_issuer_is_refused(
    user: User, wiki: Protected, authority: Authority, other: Site
):
    for issuer in (other.origin, f"{authority.origin}/else", "https://auth.example"):
        authority.changes = {"issuer": issuer}
        assert (await refused(user)).startswith("TOL032"), issuer
    assert authority.paths("POST") == []


async def test_login_without_pkce_is_refused(user: User, authority: Authority):
    for methods in (None, [], ["plain"]):
        authority.changes = {"code_challenge_methods_supported": methods}
        assert (await refused(user)).startswith("TOL032")
    assert authority.paths("POST") == []


@pytest.mark.parametrize("path", [PRM, ASM, "/token", "/register"])
async def test_response_size_is_limited_and_uncompressed(
    user: User, wiki: Protected, authority: Authority, path: str
):
    site = wiki if path == PRM else authority
    long = b'{"a": "' + b"x" * MOST_BYTES + b'"}'
    site.answers[path] = Answer(200, {"Content-Type": "application/json"}, long)
    assert "TOL033" in (said := await refused(user))
    assert "longer than 256 KiB" in said
    site.answers[path] = Answer(200, {"Content-Encoding": "gzip"}, gzip.compress(b"{}"))
    assert "compressed" in await refused(user)


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"null", b'{"resource": 1e999}', b"\xff\xfe"])
async def test_unreadable_response_is_refused_in_one_sentence(
    user: User, wiki: Protected, authority: Authority, body: bytes
):
    for site, path in ((authority, "/token"), (authority, "/register"), (authority, ASM), (wiki, PRM)):
        site.answers[path] = Answer(200, {"Content-Type": "application/json"}, body)
        assert (await refused(user))[:6] in ("TOL032", "TOL034", "TOL039")
        del site.answers[path]


# ---------------------------------------------------------------- what comes back


async def test_response_of_other_issuer_is_refused(user: User, authority: Authority, other: Site):
    authority.sends_iss = other.origin
    assert (await refused(user)).startswith("TOL035")
    authority.sends_iss = None
    authority.changes = {"authorization_response_iss_parameter_supported": True}
    assert (await refused(user)).startswith("TOL035")
    assert "/token" not in authority.paths()


async def test_response_to_other_login_is_refused(user: User, authority: Authority):
    async def elsewhere(begun: Any) -> str:
        return f"{begun.redirect_uri}?code=stolen&state=other&iss={authority.origin}"

    assert (await refused(user, ask_for_redirect=elsewhere)).startswith("TOL035")
    assert "/token" not in authority.paths()


async def test_denial_is_reported_plainly(user: User, authority: Authority):
    async def says_no(begun: Any) -> str:
        words = "%1b%5b2Jgone%0a%e2%80%ae" + "x" * 500
        iss = f"iss={authority.origin}&state={begun.state}"
        return f"{begun.redirect_uri}?error=access_denied&error_description={words}&{iss}"

    said = await refused(user, ask_for_redirect=says_no)
    assert said.startswith("TOL034")
    assert said.isprintable()
    assert "\u202e" not in said
    assert len(said) < 500


@pytest.mark.parametrize(
    "answer",
    [
        told({"refresh_token": "canary-token-1", "access_token": 7}),
        told({"access_token": "canary-token-1", "token_type": "mac"}),
        told({"access_token": "canary-token-1\r\nX-Evil: 1", "token_type": "bearer"}),
        told({"error": "canary-token-1 is not known", "error_description": "x"}, 400),
        Answer(500, {}, b"canary-token-1"),
        Answer(200, {}, b"canary-token-1"),
    ],
)
async def test_token_endpoint_response_is_never_shown(
    user: User, authority: Authority, answer: Answer, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    authority.answers["/token"] = answer
    with pytest.raises(CallsheetError) as caught:
        await user.log_in()
    assert caught.value.diagnostics[0].code == "TOL034"
    chain: BaseException | None = caught.value
    while chain is not None:
        assert "canary-token" not in f"{chain!r} {chain}"
        assert chain.__suppress_context__ or chain.__context__ is None
        chain = chain.__cause__
    assert "canary-token" not in caplog.text


# ---------------------------------------------------------------- whose tokens go where


async def test_later_authorization_server_gets_no_tokens(user: User, wiki: Protected, authority: Authority):
    login = await user.log_in()
    evil = Authority()
    try:
        wiki.changes = {"authorization_servers": [evil.origin]}
        wiki.is_fed_up = True
        with pytest.raises(CallsheetError, match="TOL031"):
            await look(user.server, user)
        assert evil.asked == []
        wiki.is_fed_up = False
        assert (await refused(user)).startswith("TOL040")
        assert evil.paths("POST") == []
        renewed = user.file.get("wiki")
        assert renewed is not None
        for secret in (*login.secrets(), *renewed.secrets()):
            assert not any(secret in f"{a.path}{a.headers}{a.body!r}" for a in evil.asked)
    finally:
        evil.close()


async def test_client_secret_is_sent_only_to_its_issuer(
    user: User, wiki: Protected, authority: Authority, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OURS", "canary-secret-1")
    evil = Authority()
    try:
        wiki.changes = {"authorization_servers": [evil.origin]}
        for grant in ("client_credentials", "login"):
            config = user.configure(
                grant=grant, client_id="us", client_secret="env:OURS", issuer=authority.origin
            )
            if grant == "login":
                assert (await refused(user)).startswith("TOL032")
            else:
                with pytest.raises(CallsheetError, match="the configuration"):
                    await look(config, user)
        assert evil.asked == []
    finally:
        evil.close()


async def test_login_applies_to_its_address_only(user: User, wiki: Protected, authority: Authority):
    await user.log_in()
    evil = Protected(authority)
    try:
        config = user.configure(evil.url)
        with pytest.raises(CallsheetError) as caught:
            await look(config, user)
        assert caught.value.diagnostics[0].code == "TOL030"
        assert not any("Authorization" in asked.headers for asked in evil.asked)
    finally:
        evil.close()


async def test_token_follows_no_cross_origin_redirect(user: User, wiki: Protected, other: Site):
    await user.log_in()
    wiki.answers["/mcp"] = Answer(307, {"Location": f"{other.origin}/mcp"}, b"")
    with pytest.raises(CallsheetError):
        await look(user.server, user)
    assert other.asked == []


@pytest.mark.parametrize(
    "place", ["{0}.evil.example/", "{0}:1/", "https://{1}/mcp", "http://evil.example/mcp"]
)
async def test_token_is_sent_on_no_cross_origin_request(user: User, wiki: Protected, place: str):
    from callsheet.ports.mcp.oauth.sources import Bearer, source_for
    from callsheet.ports.mcp.servers import HttpServer

    await user.log_in()
    source = source_for("wiki", HttpServer(f"{wiki.origin}/mcp"), user.file)
    assert source is not None
    bearer = Bearer("wiki", f"{wiki.origin}/mcp", source, lambda trouble: None)
    own = httpx2.Request("POST", f"{wiki.origin}/mcp")
    assert "Authorization" in (await anext(bearer.async_auth_flow(own))).headers
    url = place.format(wiki.origin.rpartition(":")[0], wiki.origin.removeprefix("http://"))
    other = httpx2.Request("POST", url)
    assert "Authorization" not in (await anext(bearer.async_auth_flow(other))).headers


async def test_token_is_never_sent_unencrypted(user: User, names: dict[str, list[str]]):
    from callsheet.ports.mcp.oauth.sources import source_for
    from callsheet.ports.mcp.servers import HttpServer

    source = source_for("wiki", HttpServer("http://wiki.example/mcp"), user.file)
    assert source is not None
    assert await source.token() is None
    with pytest.raises(CallsheetError, match="http://"):
        await source.renewed(None, httpx2.Response(401))
    user.configure("http://wiki.example/mcp")
    names["wiki.example"] = ["93.184.215.14"]
    assert (await refused(user))[:6] in ("TOL033", "TOL041")


async def test_tokens_echoed_by_server_are_masked_including_renewed_one(
    user: User, wiki: Protected, authority: Authority
):
    await user.log_in()
    wiki.says_token = True
    async with McpPool([user.server], logins=user.file) as pool:
        await pool.connect()
        [(tool, _)] = pool.tools()
        assert await tool.handler({}, CONTEXT) == "you are [secret]"
        authority.given.clear()
        assert await tool.handler({}, CONTEXT) == "you are [secret]"
        assert len(list(pool.secrets())) == 4


# ---------------------------------------------------------------- a run, from the command line


def logged_in(machine: Machine, url: str) -> None:
    machine.write("given/mcp.json", json.dumps({"mcpServers": {"wiki": {"url": url}}}))
    process = machine.spawn("login", "wiki", "--mcp-config", "given/mcp.json")
    assert process.stderr is not None
    address = next(line.strip() for line in process.stderr if line.strip().startswith("http"))
    browse(address)
    said = process.communicate(timeout=60)
    assert process.returncode == 0, said


def secrets_in(data: bytes, secrets: list[str]) -> list[str]:
    return [s for s in secrets if any(f.encode() in data for f in forms_of(s) if len(f) >= 8)]


def test_no_token_is_written_or_shown(
    machine: Machine, wiki: Protected, authority: Authority, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("CALLSHEET_SEAL_KEY", raising=False)
    wiki.says_token = True
    logged_in(machine, wiki.url)
    machine.plan("S1: @LOOK () > $a", "S2: @LOOK () > $b", "S3: @RESPOND ($a)")
    said: list[bytes] = []

    def type_in(*line: str) -> int:
        done = machine(*line)
        said.append(done.output.encode())
        return done.exit_code

    run = ("run", "plan.ltp", "--mcp-config", "given/mcp.json")
    assert type_in(*run, "--run-id", "a") == 0
    authority.expires_in = 0
    authority.given.clear()
    done = machine.shell(*run, "--run-id", "b")  # the token is renewed for each request
    assert done.returncode == 0
    said.append((done.stdout + done.stderr).encode())
    for line in (("show", "b", "--events", "--json"), ("login",), ("login", "--json"), ("doctor",)):
        type_in(*line)
    wiki.is_fed_up = True
    assert type_in(*run) == 2
    type_in("logout", "wiki", "--mcp-config", "given/mcp.json")

    secrets = [*authority.given, *authority.refreshing]
    secrets += [a.form["refresh_token"] for a in authority.asked if "refresh_token" in a.form]
    assert len(secrets) > 6
    assert "you are [secret]" in said[0].decode()
    for text in said:
        assert secrets_in(text, secrets) == [], text.decode()
    files = [path for path in machine.folder.rglob("*") if path.is_file()]
    assert any(path.name == "journal.db" for path in files)
    for path in files:
        assert secrets_in(path.read_bytes(), secrets) == [], path


@pytest.fixture
def opened_urls(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Records the addresses that a browser was told to open, and follows redirects."""
    opened = machine.folder / "opened"
    script = machine.folder / "bin" / "xdg-open"
    script.parent.mkdir()
    script.write_text(
        f"#!{sys.executable}\nimport sys, urllib.request\n"
        f"open({str(opened)!r}, 'a').write(sys.argv[1] + chr(10))\nurllib.request.urlopen(sys.argv[1])\n"
    )
    script.chmod(0o755)
    import os

    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("BROWSER", str(script))
    return lambda: opened.read_text().split() if opened.exists() else []


def test_browser_opens_only_on_request(
    machine: Machine, wiki: Protected, opened_urls: Callable[[], list[str]]
):
    logged_in(machine, wiki.url)
    wiki.is_fed_up = True
    machine.plan("S1: @LOOK () > $a", "S2: @RESPOND ($a)")
    done = machine.shell("run", "plan.ltp", "--mcp-config", "given/mcp.json")
    assert done.returncode == 2
    assert "callsheet login wiki" in done.stderr
    assert opened_urls() == []
    done = machine.shell("login", "wiki", "--mcp-config", "given/mcp.json", "--browser")
    assert done.returncode == 0, done.stderr
    assert len(opened_urls()) == 1
