"""The diagnostics about logins (TOL030 to TOL041).

In: the name of a server and what happened. Out: CallsheetError. No token, code, state or secret is shown,
and only short plain texts from an authorization server.
"""

from __future__ import annotations

import shlex

from callsheet import lazy
from callsheet.diagnostics import CallsheetError

_UNPLAIN = lazy.pattern(r"[^\x20-\x7e]+")
_MOST = 200


def plain(text: str) -> str:
    """Untrusted text as one short line without control characters."""
    line = _UNPLAIN.sub(" ", text).strip()
    return line if len(line) <= _MOST else f"{line[:_MOST]}…"


def command(name: str, verb: str = "login") -> str:
    """The command that logs in to a server, or out."""
    return f"`callsheet {verb} {shlex.quote(name)}`"


def login_needed(name: str) -> CallsheetError:
    """There is no login with the server on this machine."""
    return _trouble("TOL030", name, "requires a login, and there is none", f"{command(name)} logs in")


def login_over(name: str, why: str) -> CallsheetError:
    """The stored login is no longer valid."""
    return _trouble("TOL031", name, f"rejects the stored login: {why}", f"{command(name)} renews it")


def scope_missing(name: str, scope: str) -> CallsheetError:
    """The login is valid, but not for the scope that the request needs."""
    wanted = plain(scope)
    hint = (
        f"`callsheet login {shlex.quote(name)} --scope {shlex.quote(wanted)}` asks for it"
        if wanted
        else (f"{command(name)} requests what it requires now")
    )
    what = f"the scope {wanted!r}" if wanted else "a larger scope"
    return _trouble("TOL031", name, f"asks for {what}, which the login does not have", hint)


def unusable(name: str, why: str, hint: str | None = None) -> CallsheetError:
    """The authorization metadata of a server cannot be used."""
    return _trouble(
        "TOL032",
        name,
        f"cannot be logged in to: {why}",
        hint or "the operator of the server has to fix this",
    )


def not_reached(name: str, place: str, why: str) -> CallsheetError:
    """A URL in metadata must not or cannot be contacted."""
    return _trouble(
        "TOL033",
        name,
        f"directs a login to {plain(place)}, which is not contacted: {plain(why)}",
        "authorization is at https:// addresses of the internet; an authorization server within your own "
        "network is named as `issuer` in the configuration of the server",
    )


def refused(name: str, issuer: str, why: str, hint: str | None = None) -> CallsheetError:
    """The authorization server refuses."""
    return _trouble(
        "TOL034",
        name,
        f"refuses the login: its authorization server {plain(issuer)} {why}",
        hint or f"{command(name)} tries again",
    )


def wrong_answer(name: str, why: str) -> CallsheetError:
    """The response from the browser does not belong to the login that was started."""
    return _trouble(
        "TOL035", name, f"was not logged in to: the answer {why}", f"start again with {command(name)}"
    )


def nobody_came(name: str, seconds: float) -> CallsheetError:
    """The browser did not return in time."""
    return _trouble(
        "TOL036",
        name,
        f"was not logged in to: no answer within {seconds:g} s",
        f"start again with {command(name)}; where the browser is on another machine: --no-browser",
    )


def bad_port(name: str, port: int, why: str) -> CallsheetError:
    """The local port for the redirect cannot be opened."""
    where = f"port {port}" if port else "a port of this machine"
    return _trouble(
        "TOL036",
        name,
        f"was not logged in to: no answer can arrive at {where}: {why}",
        "free the port, or remove `redirect_port`",
    )


def bad_file(path: object, why: str, hint: str | None = None) -> CallsheetError:
    """The file of logins cannot be used."""
    return CallsheetError.single(
        "TOL037",
        f"the file of logins {path} cannot be used: {why}",
        help=hint or "move it away, and log in again",
    )


def no_secret(name: str, why: str) -> CallsheetError:
    """The client secret is not where the configuration says."""
    return _trouble(
        "TOL038", name, f"needs a client secret that is not available: {why}",
        "the configuration says where it is: env:VARIABLE or file:PATH",
    )  # fmt: skip


def no_login(name: str, why: str, hint: str) -> CallsheetError:
    """The server does not ask for a login."""
    return _trouble("TOL039", name, why, hint)


def other_issuer(name: str, before: str, now: str) -> CallsheetError:
    """The server names another authorization server than before."""
    return _trouble(
        "TOL040",
        name,
        f"sends you to {plain(now)} for the login, but sent you to {plain(before)} before",
        f"if that is right, forget the old login with {command(name, 'logout')}, then log in",
    )


def not_safe(name: str) -> CallsheetError:
    """The connection is not encrypted, so no token may be sent."""
    return _trouble(
        "TOL041",
        name,
        "requires a login at an http:// address, where a token could be intercepted; it is not sent",
        "use https:// for the server",
    )


def _trouble(code: str, name: str, what: str, hint: str) -> CallsheetError:
    return CallsheetError.single(code, f"the MCP server {name!r} {what}", help=hint)
