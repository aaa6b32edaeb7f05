"""Credentials by their looks in any text, and in a configuration, where names of values count too.

A cheap test (a few byte searches, or one pass of a compiled pattern set) comes first; only events with a long
word or a revealing name are examined closely. Common values (`true`, a path, a host) do not count, since they
would match everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from callsheet import lazy
from callsheet.ir.linear_patterns import PatternRejected, compile_pattern, pattern_set
from callsheet.sealing.known import Known

_VALUE = r"""([^\s"'`,;&<>(){}\[\]$\\]{6,})"""
_NAME_IN_TEXT = (
    r"(?:passw(?:or)?d|passwd|passphrase|pwd|secret|api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]?key"
    r"|(?:access|auth|api|bearer|refresh|session|id)[_-]?token|credentials?)"
)
SHAPES: Mapping[str, str] = {
    "private-key": r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
    r"(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
    "github-token": r"\b(?:gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_[A-Za-z0-9_]{22,255})",
    "gitlab-token": r"\bgl(?:pat|ptt|rt|dt|cbt|agent|oas)-[A-Za-z0-9_-]{20,}",
    "aws-key-id": r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",
    "aws-secret": r"""(?i:aws_?secret_?access_?key)\\*["']?\s*[:=]\s*\\*["']?([A-Za-z0-9/+=]{40})""",
    "google-key": r"\bAIza[0-9A-Za-z_-]{35}|\bya29\.[0-9A-Za-z_-]{20,}|\bGOCSPX-[A-Za-z0-9_-]{20,}",
    "slack-token": r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-[A-Za-z0-9-]{16,}"
    r"|hooks\.slack\.com/services/([A-Za-z0-9/_]{20,})",
    "stripe-key": r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|\bwhsec_[A-Za-z0-9+/=]{24,}",
    "anthropic-key": r"\bsk-ant-[A-Za-z0-9_-]{20,}",
    "openai-key": r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}",
    "package-token": r"\bnpm_[A-Za-z0-9]{36}|\bpypi-[A-Za-z0-9_-]{50,}|\bhf_[A-Za-z0-9]{30,}",
    "sendgrid-key": r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    "jwt": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*",
    "bearer": r"(?i:\bbearer|authorization\s*:\s*[a-z]+)\s+([A-Za-z0-9._~+/=-]{20,})",
    "url-password": r"""[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"'<>]*:([^\s/@"'<>]+)@""",
    "password": r"(?i:[a-z0-9_.-]{0,40}" + _NAME_IN_TEXT + r""")\\*["']?\s*[:=]\s*\\*["']?""" + _VALUE,
}
"""The patterns by name; if a pattern has a group, the group is the secret."""
_KEY = r"(?i:" + _NAME_IN_TEXT + r"|^token$|^authorization$|^cookie$|^set-cookie$)"
_KEY_IN_JSON = (
    r"(?i:\"[^\"]{0,60}" + _NAME_IN_TEXT + r"|\"token|\"authorization|\"(?:set-)?cookie)"
    r"(?:[^\"\\]|\\.){0,60}\"\s*:\s*\""
)
"""Such a name in front of a text: only texts are secret because of their names."""
_SHORTEST = 6
"""Minimum length, in characters, of a text that is secret because of the name of its field."""

_LONG = b"a" * 16
_WORDS = bytes(
    0x61 if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) in "_-") else 0x20
    for byte in range(256)
)
_MEMORY = 64 << 20


class Found(NamedTuple):
    """A span that looks like a credential, and the name of the pattern."""

    start: int
    end: int
    name: str


class WrongPattern(ValueError):
    """RE2 does not accept the pattern; `name` is its name."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the pattern {name!r} cannot be read: {reason}")
        self.name = name


class Shapes:
    """The built-in credential patterns and the user's own (`more`, by name), compiled at first use.

    `more` are RE2 patterns; if one has a group, the group is the secret. An invalid pattern raises
    WrongPattern from `check`, or else at first use.
    """

    def __init__(self, more: Mapping[str, str] | None = None) -> None:
        self._own = dict(more or {})

    def check(self) -> None:
        """Raise WrongPattern if one of the user's own patterns is invalid."""
        for name, pattern in self._own.items():
            self._compiled(name, pattern)

    def may_be_in(self, data: bytes) -> bool:
        """Whether the bytes of a JSON text need a closer look."""
        if self._own and self._all_own.Match(data):
            return True
        if "_any" not in self.__dict__ and not _may_be_in(data):
            return False  # avoids compiling the patterns; once compiled, they are faster than this test
        return bool(self._any.Match(data))

    def may_be_in_any(self, texts: Iterable[str]) -> bool:
        """Whether one of several texts may contain a match, by one pass over all of them.

        With patterns of the user it is always True: these may have anchors, the built-in ones have none.
        """
        return bool(self._own) or bool(_any_in_text().Match("\n".join(texts).encode(errors="replace")))

    def found_in(self, text: str) -> Iterator[Found]:
        """Every match, pattern by pattern; the same span may be found under several names."""
        if not self.may_be_in_any((text,)):
            return
        clean = text if text.isascii() else text.encode(errors="replace").decode()
        for name, pattern in self._shapes:
            for match in pattern.finditer(clean):
                at = next((n for n in range(1, len(match.groups()) + 1) if match.start(n) >= 0), 0)
                if match.end(at) > match.start(at):
                    yield Found(match.start(at), match.end(at), name)

    def names_a_secret(self, name: str, text: str) -> bool:
        """Whether a text is secret because of the name of its field."""
        return len(text) >= _SHORTEST and not any(map(str.isspace, text)) and bool(self._key.search(name))

    @cached_property
    def _shapes(self) -> list[tuple[str, Any]]:
        return [(name, self._compiled(name, text)) for name, text in {**SHAPES, **self._own}.items()]

    @cached_property
    def _key(self) -> Any:
        return self._compiled("name", _KEY)

    @cached_property
    def _any(self) -> Any:
        return _any_shape()

    @cached_property
    def _all_own(self) -> Any:
        return _one_pass(self._own.values())

    def _compiled(self, name: str, pattern: str) -> Any:
        try:
            return compile_pattern(pattern, memory=_MEMORY)
        except PatternRejected as error:
            raise WrongPattern(name, str(error)) from None


def _may_be_in(data: bytes) -> bool:
    """Whether bytes contain a long word, part of a revealing name, or possibly a URL with a password."""
    if _LONG in data.translate(_WORDS):
        return True
    low = data.lower()
    return (  # each name in `_NAME_IN_TEXT` and `_KEY` contains one of these
        b"pass" in low
        or b"key" in low
        or b"secret" in low
        or b"token" in low
        or b"pwd" in low
        or b"credential" in low
        or b"cookie" in low
        or b"authorization" in low
        or b"-----begin" in low
        or (b"://" in low and b"@" in low)
    )


@cache
def _any_shape() -> Any:
    """All built-in patterns as one set; compiled once per process, which takes about ten milliseconds."""
    return _one_pass([*SHAPES.values(), _KEY_IN_JSON])


@cache
def _any_in_text() -> Any:
    """The same for texts outside JSON."""
    return _one_pass(SHAPES.values())


def _one_pass(patterns: Iterable[str]) -> Any:
    return pattern_set(patterns, memory=_MEMORY, is_bytes=True)


SHORTEST = 8
"""Minimum length, in characters, of a credential in a configuration."""
CONFIGURED = "configured"
_NAME_OF_VALUE = lazy.pattern(
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
    return bool(_NAME_OF_VALUE.search(name) or _MIXED.fullmatch(value))


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
