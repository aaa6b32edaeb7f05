"""Authentication: the token, one-time sign-in codes, and session cookies of browsers.

In: the secrets in a request. Out: whether and how it is authenticated. Secrets are kept as hashes and
compared in constant time.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from enum import StrEnum
from hashlib import sha256

SESSION_SECONDS = 12 * 3600.0
CODE_SECONDS = 3600.0
_MOST_SESSIONS = 256


class AuthMethod(StrEnum):
    """How a request was authenticated."""

    TOKEN = "token"
    COOKIE = "cookie"
    OPEN = "open"
    """The server needs no authentication."""


class Keys:
    """The keys of one server; without a token every request is accepted. `clock` is monotonic, in seconds."""

    def __init__(self, token: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._token = None if token is None else _hash(token)
        self._clock = clock
        self._codes: dict[bytes, float] = {}
        self._sessions: dict[bytes, float] = {}

    @property
    def is_open(self) -> bool:
        """Whether the server needs no authentication."""
        return self._token is None

    def takes_token(self, given: str) -> bool:
        """Whether this is the token."""
        return self._token is not None and hmac.compare_digest(self._token, _hash(given))

    def takes_session(self, given: str) -> bool:
        """Whether this is the cookie of a session that has not expired."""
        ends = self._sessions.get(_hash(given))
        return ends is not None and self._clock() < ends

    def new_code(self) -> str:
        """Create a code that is valid for one sign-in."""
        code = secrets.token_urlsafe(24)
        self._codes[_hash(code)] = self._clock() + CODE_SECONDS
        return code

    def sign_in(self, secret: str) -> str | None:
        """Create a session for the token or a code, which is used up; its cookie, or None if refused."""
        ends = self._codes.pop(_hash(secret), None)
        if not (self.takes_token(secret) or (ends is not None and self._clock() < ends)):
            return None
        self._tidy()
        cookie = secrets.token_urlsafe(32)
        self._sessions[_hash(cookie)] = self._clock() + SESSION_SECONDS
        return cookie

    def sign_out(self, cookie: str) -> None:
        """End the session of a cookie."""
        self._sessions.pop(_hash(cookie), None)

    def _tidy(self) -> None:
        """Drop expired sessions, and the oldest if there are too many."""
        now = self._clock()
        self._sessions = {key: ends for key, ends in self._sessions.items() if now < ends}
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]


def new_token() -> str:
    """A new random token."""
    return secrets.token_urlsafe(32)


def _hash(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()
