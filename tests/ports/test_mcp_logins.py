"""Servers with logins: a person logs in once, runs use and renew it, machines have credentials."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Iterator

import httpx2
import pytest
from tests.logins import User, authority, user, wiki
from tests.oauth_servers import Answer, Authority, Combined, Protected

from callsheet.diagnostics import CallsheetError
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.mcp import HttpServer, McpPool, McpServerConfig
from callsheet.ports.mcp.oauth.authorize import bound, listening
from callsheet.ports.mcp.oauth.file import LoginFile
from callsheet.ports.mcp.oauth.sources import Bearer, source_for

CONTEXT = CallContext("run", "S1", "k")
__all__ = ["authority", "user", "wiki"]


async def look(config: McpServerConfig, logins: LoginFile | None, times: int = 1) -> list[object]:
    """Open the server, and call its tool repeatedly, one call after another."""
    async with McpPool([config], logins=logins) as pool:
        await pool.connect()
        [(tool, _)] = pool.tools()
        return [await tool.handler({}, CONTEXT) for _ in range(times)]


async def trouble(config: McpServerConfig, logins: LoginFile | None) -> str:
    with pytest.raises(CallsheetError) as caught:
        await look(config, logins)
    return caught.value.diagnostics[0].code


def kinds(authority: Authority) -> list[str]:
    """The requested grants, in order."""
    return [a.form["grant_type"] for a in authority.asked if a.path == "/token"]


async def test_saved_login_opens_server(user: User, wiki: Protected, authority: Authority):
    assert await trouble(user.server, user.file) == "TOL030"
    assert await trouble(user.server, None) == "TOL030"
    login = await user.log_in()
    assert (login.url, login.resource, login.issuer) == (wiki.url, wiki.url, authority.origin)
    assert await look(user.server, user.file) == ["ok"]
    assert kinds(authority) == ["authorization_code"]


@pytest.fixture
def combined() -> Iterator[Combined]:
    site = Combined()
    yield site
    site.close()


@pytest.mark.parametrize("has_metadata", [True, False])
async def test_server_of_2025_03_26_is_its_own_authority(user: User, combined: Combined, has_metadata: bool):
    combined.has_metadata = has_metadata
    combined.changes = {"issuer": f"{combined.origin}/oauth"}
    config = user.configure(combined.url)
    login = await user.log_in()
    issuer = f"{combined.origin}/oauth" if has_metadata else combined.origin
    assert (login.issuer, login.token_endpoint) == (issuer, f"{combined.origin}/token")
    assert await look(config, user.file) == ["ok"]


async def test_server_with_key_and_without_login_is_told_apart(user: User, combined: Combined):
    combined.has_metadata = False
    combined.answers["/register"] = Answer(404, {}, b"")
    user.configure(combined.url)
    with pytest.raises(CallsheetError, match="does not offer a login: it answers with status 401") as caught:
        await user.log_in()
    assert caught.value.diagnostics[0].code == "TOL039"


async def test_metadata_of_own_server_may_not_name_issuer_elsewhere(user: User, combined: Combined):
    combined.changes = {"issuer": "https://auth.example"}
    user.configure(combined.url)
    with pytest.raises(CallsheetError, match="is for another issuer"):
        await user.log_in()


async def test_pool_reconnects_after_login(user: User):
    async with McpPool([user.server], logins=user.file) as pool:
        assert [d.code for d in await pool.connect(keep_going=True)] == ["TOL030"]
        await user.log_in()
        assert await pool.connect() == ()
        assert len(pool.tools()) == 1


async def test_authorization_request_names_resource_scope_and_challenge(user: User, authority: Authority):
    await user.log_in()
    [at] = [a for a in authority.asked if a.path.startswith("/authorize")]
    asked = dict(httpx2.QueryParams(at.path.partition("?")[2]))
    assert (asked["resource"], asked["scope"], asked["code_challenge_method"]) == (user.url, "read", "S256")
    [token] = [a.form for a in authority.asked if a.path == "/token"]
    assert token["resource"] == user.url
    await user.log_in(scope="read write")
    assert "scope=read+write" in authority.asked[-2].path


async def test_expired_token_is_refreshed_and_stored(user: User, authority: Authority):
    authority.expires_in = 0
    await user.log_in()
    authority.expires_in = 3600
    before = user.file.get("wiki")
    assert await look(user.server, user.file) == ["ok"]
    after = user.file.get("wiki")
    assert before is not None
    assert after is not None
    assert after.tokens.access != before.tokens.access
    assert after.tokens.refresh != before.tokens.refresh
    assert await look(user.server, user.file) == ["ok"]
    assert kinds(authority) == ["authorization_code", "refresh_token"]


async def test_rejected_token_is_refreshed(user: User, authority: Authority):
    await user.log_in()
    authority.given.clear()
    assert await look(user.server, user.file) == ["ok"]
    assert kinds(authority) == ["authorization_code", "refresh_token"]


async def test_token_is_refreshed_once_for_many_requests_and_processes(user: User, authority: Authority):
    await user.log_in()
    authority.given.clear()  # and each refresh token counts once
    found = await asyncio.gather(*(look(user.server, user.file, 3) for _ in range(4)))
    assert found == [["ok"] * 3] * 4
    assert kinds(authority) == ["authorization_code", "refresh_token"]


async def test_revoked_login_is_reported_and_not_retried(user: User, authority: Authority):
    await user.log_in()
    authority.given.clear()
    authority.refreshing.clear()
    assert await trouble(user.server, user.file) == "TOL031"


async def test_server_rejecting_every_token_is_asked_twice(user: User, wiki: Protected):
    await user.log_in()
    wiki.is_fed_up = True
    seen = len(wiki.asked)
    assert await trouble(user.server, user.file) == "TOL031"
    assert wiki.paths("POST")[seen:].count("/mcp") <= 4  # the handshake of 2026, then that of before


@pytest.mark.parametrize("refreshes", [True, False])
async def test_login_expiring_during_run_fails_call_as_not_made(
    user: User, wiki: Protected, authority: Authority, refreshes: bool
):
    await user.log_in()
    async with McpPool([user.server], logins=user.file) as pool:
        await pool.connect()
        [(tool, _)] = pool.tools()
        assert await tool.handler({}, CONTEXT) == "ok"
        authority.given.clear()
        if refreshes:
            assert await tool.handler({}, CONTEXT) == "ok"
            authority.given.clear()
        authority.refreshing.clear()
        with pytest.raises(ToolFailed, match="`callsheet login wiki`") as caught:
            await tool.handler({}, CONTEXT)
        assert not caught.value.in_doubt
        await user.log_in()
        assert await tool.handler({}, CONTEXT) == "ok"


async def test_missing_scope_is_named(user: User, wiki: Protected):
    await user.log_in()
    wiki.needs = "write"
    with pytest.raises(ToolFailed, match="--scope write") as caught:
        await look(user.server, user.file)
    assert not caught.value.in_doubt


async def test_client_credentials_login_is_automatic_and_stores_nothing(
    user: User, authority: Authority, monkeypatch: pytest.MonkeyPatch
):
    authority.clients["robot"] = "s3cret/with+signs"
    monkeypatch.setenv("WIKI_SECRET", "s3cret/with+signs")
    config = user.configure(
        grant="client_credentials",
        client_id="robot",
        client_secret="env:WIKI_SECRET",
        issuer=authority.origin,
    )
    assert await look(config, user.file, 2) == ["ok", "ok"]
    assert kinds(authority) == ["client_credentials"]
    assert not user.logins.exists()
    monkeypatch.delenv("WIKI_SECRET")
    assert await trouble(config, user.file) == "TOL038"
    (user.folder / "secret").write_text("s3cret/with+signs\n")
    file = f"file:{user.folder / 'secret'}"
    config = user.configure(
        grant="client_credentials", client_id="robot", client_secret=file, issuer=authority.origin
    )
    authority.changes = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert await look(config, user.file) == ["ok"]


async def test_expired_client_credentials_token_is_requested_again(
    user: User, authority: Authority, monkeypatch: pytest.MonkeyPatch
):
    authority.clients["robot"] = "hush-hush"
    monkeypatch.setenv("WIKI_SECRET", "hush-hush")
    authority.expires_in = 0
    config = user.configure(
        grant="client_credentials",
        client_id="robot",
        client_secret="env:WIKI_SECRET",
        issuer=authority.origin,
    )
    assert await look(config, None, 2) == ["ok", "ok"]
    assert len(kinds(authority)) > 2
    monkeypatch.setenv("WIKI_SECRET", "wrong-one")
    assert await trouble(config, None) == "TOL034"


async def test_manually_registered_client_is_not_registered_again(
    user: User, authority: Authority, monkeypatch: pytest.MonkeyPatch
):
    authority.clients["by-hand"] = "known-secret"
    authority.changes = {"registration_endpoint": None}
    with pytest.raises(CallsheetError) as caught:
        await user.log_in()
    assert caught.value.diagnostics[0].code == "TOL032"
    monkeypatch.setenv("OURS", "known-secret")
    user.configure(client_id="by-hand", client_secret="env:OURS", issuer=authority.origin)
    assert (await user.log_in()).client.id == "by-hand"
    assert await look(user.server, user.file) == ["ok"]


async def test_client_metadata_document_replaces_registration(user: User, authority: Authority):
    document = "https://client.example/callsheet.json"
    authority.clients[document] = ""
    user.configure(client_metadata_url=document)
    assert (await user.log_in()).client.id == "client-1"
    authority.changes = {"client_id_metadata_document_supported": True}
    assert (await user.log_in()).client.id == document


async def test_token_file_is_private_and_encrypted(user: User, authority: Authority):
    login = await user.log_in()
    assert stat.S_IMODE(user.logins.stat().st_mode) == 0o600
    text = user.logins.read_text()
    assert not any(secret in text for secret in (*login.secrets(), authority.origin))
    assert user.file.get("wiki") == login
    assert not any(secret in repr(login) for secret in login.secrets())
    user.logins.chmod(0o644)
    assert await trouble(user.server, user.file) == "TOL037"
    user.logins.chmod(0o600)
    (user.folder / "seal.key").write_text("00" * 32)
    assert await trouble(user.server, user.file) == "TOL037"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"schema": 1}', '{"schema": 1, "logins": {"wiki": {}}}'])
async def test_damaged_file_is_reported(user: User, damage: str):
    await user.log_in()
    user.logins.write_text(damage)
    assert await trouble(user.server, user.file) == "TOL037"


async def test_encrypted_login_opens_only_for_its_name_and_address(user: User, wiki: Protected):
    await user.log_in()
    data = json.loads(user.logins.read_text())
    data["logins"]["other"] = data["logins"]["wiki"]
    user.logins.write_text(json.dumps(data))
    user.config.write_text(json.dumps({"mcpServers": {"other": {"url": f"{wiki.origin}/else"}}}))
    seen = len(wiki.asked)
    with pytest.raises(CallsheetError):
        await look(user.server, user.file)
    assert not any("Authorization" in asked.headers for asked in wiki.asked[seen:])


async def test_configured_authorization_header_disables_login(user: User, wiki: Protected):
    login = await user.log_in()
    entry = {"url": wiki.url, "headers": {"Authorization": f"Bearer {login.tokens.access}"}}
    user.config.write_text(json.dumps({"mcpServers": {"wiki": entry}}))
    assert await look(user.server, None) == ["ok"]
    wiki.is_fed_up = True
    assert await trouble(user.server, user.file) == "TOL013"


async def test_token_is_sent_only_to_its_server(user: User, wiki: Protected, authority: Authority):
    login = await user.log_in()
    source = source_for("wiki", HttpServer(wiki.url), user.file)
    assert source is not None
    async with httpx2.AsyncClient(auth=Bearer("wiki", wiki.url, source, lambda _: None)) as http:
        for site in (wiki, authority):
            await http.get(f"{site.origin}/look")
    assert wiki.asked[-1].headers["Authorization"] == f"Bearer {login.tokens.access}"
    assert "Authorization" not in authority.asked[-1].headers


# ---------------------------------------------------------------- where the browser comes back to


async def reply(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


async def test_login_needs_matching_state():
    listener = bound()
    port = listener.getsockname()[1]
    host = f"Host: 127.0.0.1:{port}\r\n\r\n"
    wrong = {
        f"GET /callback?state=right&code=a HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n": b"421",
        f"POST /callback?state=right&code=a HTTP/1.1\r\n{host}": b"405",
        f"GET /callback?state=wrong&code=a HTTP/1.1\r\n{host}": b"400",
        f"GET /callback?state=right&state=right HTTP/1.1\r\n{host}": b"400",
        f"GET /callback?code=a HTTP/1.1\r\n{host}": b"400",
        f"GET /?state=right HTTP/1.1\r\n{host}": b"404",
        f"GET /callback?{'a=1&' * 99}state=right HTTP/1.1\r\n{host}": b"400",
        f"GET /callback?state=right HTTP/1.1\r\nX: {'x' * 20_000}\r\n{host}": b"",
        "\r\n\r\n": b"421",
    }
    async with listening(listener, "right") as waiting:
        for request, status in wrong.items():
            assert (await reply(port, request.encode()))[9:12] == status, request
        good = await reply(port, f"GET /callback?state=right&code=b HTTP/1.1\r\n{host}".encode())
        assert good.startswith(b"HTTP/1.1 200")
        assert b"no-referrer" in good
        assert b"default-src 'none'" in good
        await reply(port, f"GET /callback?state=right&code=late HTTP/1.1\r\n{host}".encode())
        assert dict(await waiting.answer(5)) == {"state": "right", "code": "b"}
    with pytest.raises(OSError, match="111"):
        await reply(port, b"")


async def test_login_without_callback_times_out(user: User, monkeypatch: pytest.MonkeyPatch):
    from callsheet.apps import login

    monkeypatch.setattr(login, "LOGIN_TIMEOUT", 0.05)
    with pytest.raises(CallsheetError) as caught:
        await user.log_in(opens=False)
    assert caught.value.diagnostics[0].code == "TOL036"


async def test_callback_address_can_be_pasted(user: User, authority: Authority):
    async def elsewhere(begun) -> str:
        return (await asyncio.to_thread(_leads_to, begun.address)) + "\n"

    assert (await user.log_in(ask_for_redirect=elsewhere)).issuer == authority.origin

    async def typed_wrong(begun) -> str:
        return "https://example.org/callback?code=1"

    with pytest.raises(CallsheetError) as caught:
        await user.log_in(ask_for_redirect=typed_wrong)
    assert caught.value.diagnostics[0].code == "TOL035"


def _leads_to(address: str) -> str:
    return httpx2.get(address, follow_redirects=False, trust_env=False).headers["Location"]
