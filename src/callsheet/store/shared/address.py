"""Reads the address of the shared store from the environment, and shows it without its password."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from callsheet.diagnostics import CallsheetError

VARIABLE = "CALLSHEET_STORE"
"""The variable with the address of the shared store."""
_UNREADABLE = "an address that cannot be read"
_SCHEMES = ("postgresql", "postgres")


def shared_address(environ: Mapping[str, str] | None = None) -> str | None:
    """The address of the shared store; None if none is configured.

    Raises CallsheetError (CFG230) for one that is not `postgresql://…`.
    """
    address = (os.environ if environ is None else environ).get(VARIABLE, "").strip()
    if not address:
        return None
    if urlsplit(address).scheme not in _SCHEMES:
        raise CallsheetError.single(
            "CFG230",
            f"${VARIABLE} (or `store` in config.toml) is not the address of a shared store: {shown(address)}",
            help="write postgresql://USER@HOST:PORT/DATABASE; a password belongs in ~/.pgpass or $PGPASSWORD",
        )
    return address


def without_password(address: str) -> str:
    """An address without its password; a path is unchanged."""
    parts = urlsplit(address)
    if not parts.scheme or parts.password is None:
        return address
    who, _, where = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{who.partition(':')[0]}@{where}").geturl()


def shown(address: str) -> str:
    """An address for messages: without password and options.

    >>> shown("postgresql://ada:pw@db.example/x?sslmode=require"), shown("db.example")
    ('postgresql://ada@db.example/x', 'db.example')
    >>> shown("ada:pw@db.example/x")
    'an address that cannot be read'
    """
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return _UNREADABLE
    if not parts.netloc:  # then a password could be anywhere
        return _UNREADABLE if set(address) & set("@=:") else address[:80]
    user = f"{parts.username}@" if parts.username else ""
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"
