"""The clients of the server: their addresses, the limit of their requests, and how they sign in.

The address of a client is that of its connection, or what trusted proxies say in `X-Forwarded-For`. Secrets
are kept as hashes and compared in constant time.

A session is not stored: its cookie says when it ends, and is signed with a key that follows from the token
and the journal; it has the name of the person, if there are people. So it outlives the process if the next
one has the same token, and ends with another token. The sessions that were signed out, and the links that
were used, are in files beside the journal until they would have ended.
"""

from __future__ import annotations

import binascii
import hmac
import ipaddress
import os
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeAlias

from callsheet.apps.http.people import EVERYBODY, OPERATOR, People, Person, who_answers
from callsheet.apps.scheduling.notices import MOST_NAME, link_key, read_link
from callsheet.store.journal_paths import beside_journal

# ---------------------------------------------------------------- the file


Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"


def read_network(text: str) -> Network:
    """Parse an address or a network; raises ValueError for anything else.

    >>> read_network("10.0.0.0/8"), read_network("::1")
    (IPv4Network('10.0.0.0/8'), IPv6Network('::1/128'))
    """
    return ipaddress.ip_network(text.strip())


def client_of(peer: str, forwarded: Iterable[str], trusted: Iterable[Network]) -> str:
    """The client: the peer, unless it is a trusted proxy; then the last untrusted forwarded address.

    `forwarded` are the values of `X-Forwarded-For`, to which each proxy appends its peer. Addresses before
    the last one that is not trusted may be forged.

    >>> client_of("127.0.0.1", ["6.6.6.6, 203.0.113.7"], [read_network("127.0.0.1")])
    '203.0.113.7'
    >>> client_of("198.51.100.1", ["203.0.113.7"], [read_network("127.0.0.1")])
    '198.51.100.1'
    """
    networks = tuple(trusted)
    if not _is_in(peer, networks):
        return peer
    client = peer
    for name in reversed([part.strip() for value in forwarded for part in value.split(",")]):
        try:
            client = str(ipaddress.ip_address(name.strip("[]")))
        except ValueError:
            return client  # the addresses before it are not reliable
        if not _is_in(client, networks):
            return client
    return client


def _is_in(address: str, networks: tuple[Network, ...]) -> bool:
    if not networks:
        return False
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(found in network for network in networks)


# ---------------------------------------------------------------- rates

_MOST_CLIENTS = 10_000


class Rate(NamedTuple):
    """Requests per second, and the burst after a pause; 0 per second means no limit."""

    per_second: float
    at_once: int


class _Bucket(NamedTuple):
    left: float
    at: float


class Rates:
    """The token buckets of all clients. `clock` is monotonic, in seconds."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def wait(self, client: str) -> float:
        """Count a request and return 0; or, if the client is over its rate, return the seconds to wait."""
        per_second, at_once = self._rate
        if per_second <= 0:
            return 0.0
        now = self._clock()
        before = self._buckets.get(client, _Bucket(at_once, now))
        left = min(float(at_once), before.left + (now - before.at) * per_second)
        if left < 1:
            self._buckets[client] = _Bucket(left, now)
            return (1 - left) / per_second
        if len(self._buckets) >= _MOST_CLIENTS and client not in self._buckets:
            self._forget_full(now)
        self._buckets[client] = _Bucket(left - 1, now)
        return 0.0

    def _forget_full(self, now: float) -> None:
        """Drop the clients whose buckets are full again, or all clients if none is."""
        per_second, at_once = self._rate
        self._buckets = {
            client: bucket
            for client, bucket in self._buckets.items()
            if bucket.left + (now - bucket.at) * per_second < at_once
        }
        if len(self._buckets) >= _MOST_CLIENTS:
            self._buckets.clear()


SESSION_SECONDS = 12 * 3600.0
CODE_SECONDS = 3600.0
_ID, _END, _MARK = 16, 8, 32
"""The bytes of a cookie: a random id, when the session ends, a name, the signature over all."""


class AuthMethod(StrEnum):
    """How a request was authenticated."""

    TOKEN = "token"
    COOKIE = "cookie"
    OPEN = "open"
    """The server needs no authentication."""


class Keys:
    """The keys of one server; without a token every request is accepted.

    `people` are those who have tokens of their own. `journal` is that of the server: its path is part of the
    key that signs sessions, and the sessions that were signed out are beside it; without it they are known
    to this process only. `say` is told if that file cannot be written. `clock` is the wall clock, since
    sessions outlive the process.
    """

    def __init__(
        self,
        token: str | None,
        journal: Path | None = None,
        *,
        people: People | None = None,
        say: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._token = None if token is None else _hash(token)
        place = b"" if journal is None else os.fsencode(journal.absolute())
        kind = b"callsheet sessions of " if people is None else b"callsheet people's sessions of "
        self._key = hmac.digest((token or "").encode(), kind + place, sha256)
        self._links = link_key(token or "", journal)
        self._people = people
        self._clock = clock
        self._codes: dict[bytes, float] = {}
        self._ended = _Ended(None if journal is None else beside_journal(journal, "signed-out"), say)
        self._used = _Ended(None if journal is None else beside_journal(journal, "used-links"), say)

    @property
    def is_open(self) -> bool:
        """Whether the server needs no authentication."""
        return self._token is None

    @property
    def operator(self) -> Person:
        """Whoever has the token of the server itself, or everybody if there is none."""
        return EVERYBODY if self._people is None else Person(OPERATOR)

    def person_of_token(self, given: str) -> Person | None:
        """Who has this token: the operator, or somebody with a token of their own; None for a wrong one."""
        if self._token is not None and hmac.compare_digest(self._token, _hash(given)):
            return self.operator
        return None if self._people is None else self._people.with_token(given)

    def person_of_session(self, given: str) -> Person | None:
        """Who is signed in with a cookie; None if it has expired or was signed out, or the person is gone."""
        session = self._session(given)
        if session is None or session in self._ended.known():
            return None
        return self._person(session[_ID + _END :].decode("utf-8", "surrogateescape"))

    def _person(self, name: str) -> Person | None:
        if name in ("", OPERATOR):
            return self.operator
        return who_answers(name) if self._people is None else self._people.named(name)

    def new_code(self) -> str:
        """Create a code that is valid for one sign-in."""
        code = secrets.token_urlsafe(24)
        self._codes[_hash(code)] = self._clock() + CODE_SECONDS
        return code

    def sign_in(self, secret: str) -> str | None:
        """Create a session for a token, code or link, which is used up; its cookie, or None if refused."""
        ends = self._codes.pop(_hash(secret), None)
        is_code = ends is not None and self._clock() < ends
        person = self.operator if is_code else self.person_of_token(secret) or self._with_link(secret)
        if self._token is None or person is None:
            return None
        head = secrets.token_bytes(_ID) + int(self._clock() + SESSION_SECONDS).to_bytes(_END, "big")
        head += person.name.encode("utf-8", "surrogateescape")
        return urlsafe_b64encode(head + self._signature(head)).decode()

    def _with_link(self, code: str) -> Person | None:
        """Who signs in with a link, which is used up; None for one that is not genuine, used or too old."""
        now = self._clock()
        link = None if self._token is None else read_link(self._links, code, now)
        if link is None:
            return None
        mark = link.id_ + int(link.ends).to_bytes(_END, "big")
        person = self._person(link.name)
        if person is None or link.name in ("", OPERATOR) or mark in self._used.known():
            return None
        self._used.add(mark, now)
        return person

    def sign_out(self, cookie: str) -> None:
        """End the session of a cookie, also for later processes."""
        session = self._session(cookie)
        if session is not None:
            self._ended.add(session, self._clock())

    def _session(self, cookie: str) -> bytes | None:
        """The id and the end of the session of a genuine cookie that has not expired."""
        try:
            data = urlsafe_b64decode(cookie.encode("ascii"))
        except (UnicodeEncodeError, binascii.Error):
            return None
        head, signature = data[:-_MARK], data[-_MARK:]
        if self._token is None or not _ID + _END <= len(head) <= _ID + _END + MOST_NAME:
            return None
        if not hmac.compare_digest(signature, self._signature(head)) or self._clock() >= _end_of(head):
            return None
        return head

    def _signature(self, head: bytes) -> bytes:
        return hmac.digest(self._key, head, sha256)


class _Ended:
    """Sessions or links that count no more, before their end, in a file that servers of a journal share."""

    def __init__(self, file: Path | None, say: Callable[[str], None]) -> None:
        self._file = file
        self._say = say
        self._known = frozenset[bytes]()
        self._seen: tuple[int, int] | None = None

    def known(self) -> frozenset[bytes]:
        """The sessions; the file is read again when it has changed."""
        if self._file is None:
            return self._known
        try:
            state = os.stat(self._file)
            seen = state.st_mtime_ns, state.st_ino
            if seen != self._seen:
                self._seen = seen
                lines = self._file.read_text("ascii").split()
                self._known |= frozenset(bytes.fromhex(line) for line in lines)
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            self._say(f"what was signed out or used cannot be read from {self._file}: {error}")
        return self._known

    def add(self, session: bytes, now: float) -> None:
        """Record a session, and forget those that have expired."""
        self._known = frozenset(each for each in (*self.known(), session) if now < _end_of(each))
        if self._file is None:
            return
        unfinished = self._file.with_name(f"{self._file.name}.{os.getpid()}.new")
        try:
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "w", encoding="ascii") as out:
                out.writelines(f"{each.hex()}\n" for each in sorted(self._known))
            unfinished.replace(self._file)
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            self._say(
                f"{self._file} cannot be written ({error.strerror}): after a restart, what was signed out or"
                " used would be valid until it expires; another token ends all sessions and links"
            )


def _end_of(session: bytes) -> float:
    return int.from_bytes(session[_ID : _ID + _END], "big")


def new_token() -> str:
    """A new random token."""
    return secrets.token_urlsafe(32)


def _hash(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()
