"""Logs in to MCP servers with OAuth, and out; for `callsheet login` and `callsheet logout`.

In: a setup, the name of a server, callbacks that show the authorization URL and, without a local listener,
ask for the redirect URL. Out: the stored login, or CallsheetError (TOL032 to TOL041).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from socket import socket
from typing import NamedTuple, TypeAlias

from callsheet.api.requirements import login_file
from callsheet.apps.server_catalogue import select_servers
from callsheet.apps.setup import Setup
from callsheet.diagnostics import CallsheetError, meant
from callsheet.ports.mcp import Grant, HttpServer, McpServerConfig
from callsheet.ports.mcp.oauth.authorize import (
    PendingLogin,
    begin,
    bound,
    finish,
    listening,
    parameters,
    redirect_uri,
)
from callsheet.ports.mcp.oauth.clients import revoke
from callsheet.ports.mcp.oauth.discovery import Guard
from callsheet.ports.mcp.oauth.file import Login, LoginFile
from callsheet.ports.mcp.oauth.login_errors import bad_port, no_login, nobody_came, wrong_answer

LOGIN_TIMEOUT = 300.0
"""The time limit for a login, in seconds."""
ShowAddress: TypeAlias = "Callable[[PendingLogin], None]"
"""Shows the URL that the user has to open in a browser."""
AskForRedirect: TypeAlias = "Callable[[PendingLogin], Awaitable[str]]"
"""Returns the URL that the browser was redirected to."""


class LogoutResult(NamedTuple):
    """Whether a login existed, and whether its authorization server has revoked it."""

    existed: bool
    is_revoked: bool


async def log_in(
    setup: Setup,
    name: str,
    show: ShowAddress,
    ask_for_redirect: AskForRedirect | None = None,
    *,
    scope: str = "",
) -> Login:
    """Log in to a server: show the authorization URL, wait for the redirect, store the login.

    With `ask_for_redirect` there is no local listener, and that callback returns the redirect URL. A `scope`
    is requested instead of the one that the server declares. Raises CallsheetError (TOL032 to TOL041).
    """
    transport = _server(setup, name)
    file = login_file()
    known_login = file.get(name)
    is_same = known_login is not None and known_login.url == transport.url
    with _listener(name, transport) as listener:
        redirect = redirect_uri(listener.getsockname()[1])
        async with await Guard.of(name, transport.url, transport.oauth.issuer) as guard:
            issuer = known_login.issuer if known_login is not None and is_same else ""
            pending = await begin(name, transport, guard, redirect, before=issuer, scope=scope)
            if ask_for_redirect is None:
                redirect_parameters = await _received_parameters(name, pending, listener, show)
            else:
                listener.close()  # so that a browser on this machine gets an error at once
                show(pending)
                redirect_parameters = _pasted_parameters(name, pending, await ask_for_redirect(pending))
            login = await finish(pending, guard, redirect_parameters)
    async with file.locked():
        file.put(login)
    return login


async def _received_parameters(
    name: str, pending: PendingLogin, listener: socket, show: ShowAddress
) -> Mapping[str, str]:
    """Show the authorization URL and wait for the redirect; raises CallsheetError if none comes in time."""
    async with listening(listener, pending.state) as waiting:
        show(pending)
        try:
            return await waiting.answer(LOGIN_TIMEOUT)
        except TimeoutError:
            raise nobody_came(name, LOGIN_TIMEOUT) from None


async def log_out(setup: Setup, name: str) -> LogoutResult:
    """Delete the login for a server, and revoke it if the authorization server supports that."""
    file = login_file()
    async with file.locked():
        try:
            login = file.get(name)
        except CallsheetError:
            login = None  # an unreadable login is deleted too
        existed = file.remove(name)
    if login is None or not login.revocation_endpoint:
        return LogoutResult(existed, False)
    try:
        async with await Guard.of(name, login.url, _issuer(setup, login)) as guard:
            return LogoutResult(existed, await revoke(guard, login))
    except CallsheetError:
        return LogoutResult(existed, False)


def stored_logins() -> tuple[LoginFile, tuple[Login, ...]]:
    """The file of the logins, and the logins in it."""
    file = login_file()
    return file, tuple(login for name in file.names() if (login := file.get(name)) is not None)


def _server(setup: Setup, name: str) -> HttpServer:
    """The transport of a server that supports logins; raises CallsheetError (TOL039)."""
    configs = {config.name: config for config in select_servers(setup, None).configs}
    config = configs.get(name)
    if config is None:
        named = "" if setup.mcp_configs else "; --mcp-config names another file"
        known = f"configured: {', '.join(configs) or 'none'}{named}"
        raise no_login(name, "is not configured", meant(name, tuple(configs), known))
    return _with_login(config)


def _with_login(config: McpServerConfig) -> HttpServer:
    transport = config.transport
    if not isinstance(transport, HttpServer):
        raise no_login(config.name, "is started by a command, and needs no login", "use it without one")
    if any(header.lower() == "authorization" for header in transport.headers):
        why = "is authenticated by a header of its configuration"
        raise no_login(config.name, why, "remove Authorization from its headers to log in instead")
    if transport.oauth.grant is Grant.CLIENT_CREDENTIALS:
        raise no_login(
            config.name, "is logged in to with client credentials", "no login is needed: runs do it"
        )
    return transport


def _issuer(setup: Setup, login: Login) -> str:
    """The issuer that the configuration names for the server of a login, if it is still configured."""
    try:
        return _server(setup, login.server).oauth.issuer
    except CallsheetError:
        return ""


def _listener(name: str, transport: HttpServer) -> socket:
    try:
        return bound(transport.oauth.redirect_port)
    except OSError as error:
        raise bad_port(name, transport.oauth.redirect_port, error.strerror or str(error)) from None


def _pasted_parameters(name: str, pending: PendingLogin, address: str) -> Mapping[str, str]:
    """The query parameters of a redirect URL that the user has pasted."""
    plain = address.strip()
    if plain.partition("?")[0] != pending.redirect_uri:
        raise wrong_answer(name, f"is not an address that begins with {pending.redirect_uri}?")
    try:
        return parameters(plain)
    except ValueError:
        raise wrong_answer(name, "is no address") from None
