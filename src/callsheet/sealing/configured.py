"""Picks the credentials out of a configuration, by the names or the looks of its values.

In: environments, headers, arguments and URLs. Out: the credentials among them. Common values (`true`, a
path, a host) do not count, since they would match everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from callsheet import lazy
from callsheet.sealing.known import Known

SHORTEST = 8
"""Minimum length, in characters, of a credential in a configuration."""
CONFIGURED = "configured"
_NAME = lazy.pattern(
    r"(?:^|[_\-.])(?:api_?key|key|token|secret|passw(?:or)?d|passphrase|pwd|pat|credentials?|auth|cookie|dsn)s?"
    r"(?:$|[_\-.](?:id|value|file)?$)|authorization|password|secret|token|api-?key",
    re.IGNORECASE,
)
_MIXED = lazy.pattern(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+=-]{24,}")
_PLAIN = lazy.pattern(r"true|false|yes|no|on|off|none|null|[0-9.,:]+|[~./\\].*|[A-Za-z]:\\.*", re.IGNORECASE)
_ORDINARY_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "content-type",
        "host",
        "origin",
        "referer",
        "user-agent",
    }
)
_SCHEME = lazy.pattern(r"[A-Za-z][A-Za-z0-9-]{2,15}\s+(\S+)")


def is_credential(name: str, value: str) -> bool:
    """Whether a value with this name is a credential. URLs are not: see `in_address`.

    >>> is_credential("GITHUB_TOKEN", "abcd-1234"), is_credential("TZ", "Europe/Oslo")
    (True, False)
    >>> is_credential("SSH_AUTH_SOCK", "/tmp/agent"), is_credential("X", "a1" * 16)
    (False, True)
    """
    value = value.strip()
    if len(value) < SHORTEST or _PLAIN.fullmatch(value):
        return False
    if "://" in value:
        return False  # only a part of a URL can be secret: see `in_address`
    return bool(_NAME.search(name) or _MIXED.fullmatch(value))


def in_environment(environ: Mapping[str, str]) -> Iterator[str]:
    """The credentials among environment variables, including those within URLs."""
    for name, value in environ.items():
        if is_credential(name, value):
            yield value.strip()
        elif "://" in value:
            yield from in_address(value)


def in_headers(headers: Mapping[str, str]) -> Iterator[str]:
    """The credentials among configured headers: every value but those of standard headers such as Accept.

    Of `Bearer abc…` and the like, only what follows the scheme.
    """
    for name, value in headers.items():
        stripped = value.strip()
        if name.lower() in _ORDINARY_HEADERS or len(stripped) < SHORTEST:
            continue
        scheme = _SCHEME.fullmatch(stripped)
        yield stripped if scheme is None else scheme[1]


def in_arguments(arguments: Iterable[str]) -> Iterator[str]:
    """The credentials on a command line: `--token x`, `--token=x`, `KEY=x`, and values that look like one."""
    flag = ""
    for word in arguments:
        name, equals, value = word.partition("=")
        if equals and is_credential(name.lstrip("-"), value):
            yield value
        elif "://" in word:
            yield from in_address(value if equals and "://" in value else word)
        elif is_credential(flag.lstrip("-"), word) and not word.startswith("-"):
            yield word
        flag = word if word.startswith("-") and not equals else ""


def in_address(address: str) -> Iterator[str]:
    """The password of a URL (as written and decoded) and the query parameters that are credentials."""
    try:
        parts = urlsplit(address)
        password = parts.password
    except ValueError:
        return
    if password:
        yield unquote(password)
        yield password
    for name, value in parse_qsl(parts.query):
        if is_credential(name, value):
            yield value


def configured(values: Iterable[str]) -> Known:
    """These credentials as known secrets, ready to be searched for."""
    return Known.of(dict.fromkeys(values), CONFIGURED, shortest=SHORTEST)
