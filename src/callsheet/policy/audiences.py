"""Maps hosts and mail addresses to the audiences of a policy.

In: a host, or the text of a recipients argument. Out: the names of the audiences that they belong to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

from callsheet import lazy
from callsheet.ir.labels import TRUSTED
from callsheet.policy.addresses import AddressRefused, AllowedHosts, host_address, parse_url
from callsheet.policy.model import Audience
from callsheet.policy.paths import matches

_MAIL = lazy.pattern(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")
_NAMED_MAIL = lazy.pattern(rf"[\w .'-]*<({_MAIL.pattern})>")
_QUOTED = lazy.pattern(r'"[\w ,.;\'()-]*"(?=\s*<)')
"""A quoted display name before an address, which may contain commas."""
_ANY_QUOTED = lazy.pattern(r'"[^"\\]*"(?=\s*<)')
"""The same with whatever else a quoted name may contain, even what looks like an address."""
_PLAIN = lazy.pattern(r"@?[\w#.+-]+(?:/(?!\.+(?:/|\Z))[\w#.+-]+)*", re.ASCII)
"""A name that is not an address: an account, a channel, a repository with its owner."""
_RELAYED = lazy.pattern(r"[%!].*@")
"""Legacy source routing, which hides a second address (`eve%evil.example@corp.example`)."""
NOBODY_KNOWN: frozenset[str] = frozenset()
"""The audiences of a stranger: only public data may reach it."""


def mail_addresses(text: str) -> list[str]:
    """The mail addresses in a text that contains nothing else, with or without display names; else an empty
    list.

    >>> mail_addresses("Eve <eve@c.example>; a@c.example"), mail_addresses("ask a@c"), mail_addresses("<1@x>")
    (['Eve <eve@c.example>', 'a@c.example'], [], [])
    """
    addresses = [piece.strip() for piece in re.split(r"[,;\n]", text) if piece.strip()]
    return addresses if all(_is_mail(piece) for piece in addresses) else []


def _is_mail(text: str) -> bool:
    return _MAIL.fullmatch(text) is not None or (
        not text.startswith("<") and _NAMED_MAIL.fullmatch(text) is not None
    )


def mailbox_of(text: str) -> str:
    """The address of a recipient with a display name; any other text as it is.

    >>> mailbox_of("Ada <ada@c.example>"), mailbox_of("ada")
    ('ada@c.example', 'ada')
    """
    named = _NAMED_MAIL.fullmatch(_ANY_QUOTED.sub("x", text).strip())
    return named[1] if named else text


class Audiences:
    """The audiences of a policy, prepared for lookups."""

    def __init__(self, audiences: Iterable[Audience]) -> None:
        self._hosts = [(a.name, AllowedHosts.parse(a.hosts)) for a in audiences if a.hosts]
        self._mail = [(a.name, tuple(m.casefold() for m in a.mail)) for a in audiences if a.mail]
        self.has_hosts = bool(self._hosts)
        self.of_host = lru_cache(maxsize=1_024)(self._of_host)

    def _of_host(self, host: str) -> frozenset[str]:
        """The audiences that a host belongs to, by its name or its address."""
        if not self._hosts:
            return NOBODY_KNOWN
        address = host_address(host)
        return frozenset(
            name
            for name, allowed in self._hosts
            if allowed.allow_name(host) or (address is not None and allowed.allow_network(address))
        )

    def of_recipients(self, text: str, trusted: Iterable[str]) -> list[tuple[str, frozenset[str]]]:
        """The recipients named in a text, with their audiences; a text of unknown form counts as one
        stranger.

        `trusted` are patterns of additional members of the audience `trusted`.
        """
        patterns = [pattern.casefold() for pattern in trusted]
        if "*" in patterns:
            return [(text, frozenset({TRUSTED}))]
        recipients: list[tuple[str, frozenset[str]]] = []
        for piece in re.split(r"[,;]", _QUOTED.sub("", text)):
            if piece.strip():
                recipients.append((piece.strip(), self._of_recipient(piece.strip(), patterns)))
        return recipients or [(text, NOBODY_KNOWN)]

    def of_web_host(self, host: str, trusted: Iterable[str]) -> frozenset[str]:
        """The audiences of a URL's host; `trusted` are patterns of additional trusted hosts."""
        patterns = [pattern.casefold() for pattern in trusted]
        is_trusted = "*" in patterns or _is_host_of(host, patterns)
        return self.of_host(host) | {TRUSTED} if is_trusted else self.of_host(host)

    def _of_recipient(self, text: str, patterns: list[str]) -> frozenset[str]:
        named = _NAMED_MAIL.fullmatch(text)
        mail = named[1] if named else text
        if _MAIL.fullmatch(mail) and not _RELAYED.search(mail):  # before casefolding, which turns ß into ss
            mail = mail.casefold()
            names = {name for name, known in self._mail if any(fnmatchcase(mail, p) for p in known)}
            if any("@" in pattern and fnmatchcase(mail, pattern) for pattern in patterns):
                names.add(TRUSTED)
            return frozenset(names)
        if "://" in text:
            try:
                host = parse_url(text).host
            except AddressRefused:
                return NOBODY_KNOWN
            return self.of_web_host(host, patterns)
        exact = _PLAIN.fullmatch(text) is not None and any(
            _is_named(text.casefold(), pattern) for pattern in patterns if "@" not in pattern[1:]
        )
        return frozenset({TRUSTED}) if exact else NOBODY_KNOWN


def _is_named(text: str, pattern: str) -> bool:
    """Whether a name matches a pattern; if it contains slashes, `*` stays within one component."""
    if "/" in text:
        return matches(pattern, text)
    return fnmatchcase(text, pattern)


def _is_host_of(host: str, patterns: list[str]) -> bool:
    hosts = [pattern for pattern in patterns if "@" not in pattern and "/" not in pattern]
    try:
        return AllowedHosts.parse(hosts).allow_name(host)
    except ValueError:
        return False
