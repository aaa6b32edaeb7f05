"""Links that sign a person in once: made where a notice is sent, honoured where the browser is served.

In: the token of `callsheet serve`, the path of its journal, a name, a time. Out: a code that only who knows
the token can make, and its content back. That it is used once is up to the server, which keeps the used
ones.
"""

from __future__ import annotations

import binascii
import hmac
import os
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import NamedTuple

_ID, _END, _MARK = 16, 8, 32
_FIRST = b"\x01"
"""The first byte: the form of a link. The codes that a server prints have none."""
MOST_NAME = 200


class Link(NamedTuple):
    """Who signs in with a link, until when, in seconds since 1970; `id_` tells it from all others."""

    id_: bytes
    ends: float
    name: str


def link_key(token: str, journal: Path | None) -> bytes:
    """The key that signs the links of a server with this token and journal."""
    place = b"" if journal is None else os.fsencode(journal.absolute())
    return hmac.digest(token.encode(), b"callsheet links of " + place, "sha256")


def new_link(key: bytes, name: str, ends: float) -> str:
    """A code that signs this person in once, until then."""
    head = _FIRST + secrets.token_bytes(_ID) + int(ends).to_bytes(_END, "big")
    content = head + name.encode("utf-8", "surrogateescape")[:MOST_NAME]
    return urlsafe_b64encode(content + hmac.digest(key, content, "sha256")).decode().rstrip("=")


def read_link(key: bytes, code: str, now: float) -> Link | None:
    """The content of a genuine link that has not ended; None for anything else."""
    try:
        data = urlsafe_b64decode(code.encode("ascii") + b"=" * (-len(code) % 4))
    except (UnicodeEncodeError, binascii.Error):
        return None
    content, mark = data[:-_MARK], data[-_MARK:]
    if len(content) < 1 + _ID + _END or not content.startswith(_FIRST):
        return None
    if not hmac.compare_digest(mark, hmac.digest(key, content, "sha256")):
        return None
    id_, end, name = content[1 : 1 + _ID], content[1 + _ID : 1 + _ID + _END], content[1 + _ID + _END :]
    ends = float(int.from_bytes(end, "big"))
    return Link(id_, ends, name.decode("utf-8", "surrogateescape")) if now < ends else None
