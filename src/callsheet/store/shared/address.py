"""Where the shared store is: read from the environment, and shown without its password."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from callsheet.diagnostics import CallsheetError

VARIABLE = "CALLSHEET_STORE"
"""Holds the address of the store that this machine shares with others."""
_SCHEMES = ("postgresql", "postgres")


def shared_address(environ: Mapping[str, str] | None = None) -> str | None:
    """The address of the shared store; None where there is none.

    Raises CallsheetError (CFG230) for one that is not `postgresql://…`.
    """
    address = (os.environ if environ is None else environ).get(VARIABLE, "").strip()
    if not address:
        return None
    if urlsplit(address).scheme not in _SCHEMES:
        raise CallsheetError.single(
            "CFG230",
            f"${VARIABLE} is no address of a shared store: {shown(address)}",
            help="write postgresql://USER@HOST:PORT/DATABASE; a password belongs in ~/.pgpass or $PGPASSWORD",
        )
    return address


def without_password(address: str) -> str:
    """An address without its password, with all else; a path as it is."""
    parts = urlsplit(address)
    if not parts.scheme or parts.password is None:
        return address
    who, _, where = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{who.partition(':')[0]}@{where}").geturl()


def shown(address: str) -> str:
    """An address as messages may show it: without password and options."""
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "an address that cannot be read"
    user = f"{parts.username}@" if parts.username else ""
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"
