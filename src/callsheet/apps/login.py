"""Logs in to an MCP server, and out; for `callsheet login` and `callsheet logout`.

In: a setup and the name of a server; a way to show an address and, where nobody listens here, to be handed
what came back. Out: the login, kept; or CallsheetError (TOL032 to TOL041).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from socket import socket
from typing import NamedTuple, TypeAlias

from callsheet.api.logins import login_file
from callsheet.apps.session import Setup, choose_servers
from callsheet.diagnostics import CallsheetError, did_you_mean
from callsheet.ports.mcp import Grant, HttpServer, McpServerConfig
from callsheet.ports.mcp.oauth.authorize import PendingLogin, begin, finish
from callsheet.ports.mcp.oauth.file import LoginFile
from callsheet.ports.mcp.oauth.grants import revoke
from callsheet.ports.mcp.oauth.guard import Guard
from callsheet.ports.mcp.oauth.login_errors import bad_port, no_login, nobody_came, wrong_answer
from callsheet.ports.mcp.oauth.loopback import bound, listening, parameters, redirect_uri
from callsheet.ports.mcp.oauth.records import Login

PATIENCE = 300.0
"""Seconds that a person has for a login."""
Show: TypeAlias = "Callable[[PendingLogin], None]"
"""Is told of the address that a browser is to open."""
HandOver: TypeAlias = "Callable[[PendingLogin], Awaitable[str]]"
"""Gives the address that the browser was sent back to."""


class LoggedOut(NamedTuple):
    """Whether there was a login, and whether its authorization server knows that it is over."""

    was_there: bool
    is_revoked: bool


async def log_in(
    setup: Setup, name: str, show: Show, hand_over: HandOver | None = None, *, scope: str = ""
) -> Login:
    """Log in to a server: show the address, wait for the browser, keep what it brings.

    With `hand_over` nobody listens on this machine, and the answer is handed over. `scope` is asked for in
    the place of what the server says. Raises CallsheetError.
    """
    transport = _server(setup, name)
    file = login_file()
    before = file.get(name)
    is_same = before is not None and before.url == transport.url
    with _listener(name, transport) as listener:
        comes_to = redirect_uri(listener.getsockname()[1])
        async with await Guard.of(name, transport.url, transport.oauth.issuer) as guard:
            issuer = before.issuer if before is not None and is_same else ""
            begun = await begin(name, transport, guard, comes_to, before=issuer, scope=scope)
            if hand_over is None:
                async with listening(listener, begun.state) as waiting:
                    show(begun)
                    try:
                        given = await waiting.answer(PATIENCE)
                    except TimeoutError:
                        raise nobody_came(name, PATIENCE) from None
            else:
                listener.close()  # so that a browser here is told at once that nobody answers
                show(begun)
                given = _handed(name, begun, await hand_over(begun))
            login = await finish(begun, guard, given)
    async with file.locked():
        file.put(login)
    return login


async def log_out(setup: Setup, name: str) -> LoggedOut:
    """Forget the login with a server, and tell its authorization server so where it wants to know."""
    file = login_file()
    async with file.locked():
        try:
            login = file.get(name)
        except CallsheetError:
            login = None  # what nobody can open is forgotten all the same
        was_there = file.remove(name)
    if login is None or not login.revocation_endpoint:
        return LoggedOut(was_there, False)
    try:
        async with await Guard.of(name, login.url, _issuer(setup, login)) as guard:
            return LoggedOut(was_there, await revoke(guard, login))
    except CallsheetError:
        return LoggedOut(was_there, False)


def kept() -> tuple[LoginFile, tuple[Login, ...]]:
    """The logins that are kept, and the file that they are in."""
    file = login_file()
    return file, tuple(login for name in file.names() if (login := file.get(name)) is not None)


def _server(setup: Setup, name: str) -> HttpServer:
    """The server that a person can log in to; raises CallsheetError (TOL039)."""
    configs = {config.name: config for config in choose_servers(setup, None).configs}
    config = configs.get(name)
    if config is None:
        near = did_you_mean(name, tuple(configs))
        named = "" if setup.mcp_configs else "; --mcp-config names another file"
        known = f"configured: {', '.join(configs) or 'none'}{named}"
        raise no_login(name, "is not configured", f"did you mean {' or '.join(near)}?" if near else known)
    return _with_login(config)


def _with_login(config: McpServerConfig) -> HttpServer:
    transport = config.transport
    if not isinstance(transport, HttpServer):
        raise no_login(
            config.name, "is started by a command, and asks for no login", "it can be used without one"
        )
    if any(header.lower() == "authorization" for header in transport.headers):
        why = "is told who asks by a header of its configuration"
        raise no_login(config.name, why, "take Authorization out of its headers to log in instead")
    if transport.oauth.grant is Grant.CLIENT_CREDENTIALS:
        raise no_login(config.name, "is logged in to by the machine itself", "run a plan: it happens then")
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


def _handed(name: str, begun: PendingLogin, address: str) -> Mapping[str, str]:
    """The parameters of an address that a person has copied."""
    plain = address.strip()
    if plain.partition("?")[0] != begun.redirect_uri:
        raise wrong_answer(name, f"is not an address that begins with {begun.redirect_uri}?")
    try:
        return parameters(plain)
    except ValueError:
        raise wrong_answer(name, "is no address") from None
