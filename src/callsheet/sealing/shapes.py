"""Finds texts that look like credentials, by pattern; uses RE2, so the time is linear in the text.

In: a text, or the bytes of a whole event. Out: where something looks like a credential. A cheap test (a few
byte searches, or one pass of a compiled pattern set) comes first; only events with a long word or a
revealing name are examined closely.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from typing import Any, NamedTuple

from callsheet.ir.linear_patterns import PatternRejected, compile_pattern, pattern_set

_VALUE = r"""([^\s"'`,;&<>(){}\[\]$\\]{6,})"""
_NAME = (
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
    "password": r"(?i:[a-z0-9_.-]{0,40}" + _NAME + r""")\\*["']?\s*[:=]\s*\\*["']?""" + _VALUE,
}
"""The patterns by name; if a pattern has a group, the group is the secret."""
_KEY = r"(?i:" + _NAME + r"|^token$|^authorization$|^cookie$|^set-cookie$)"
_KEY_IN_JSON = (
    r"(?i:\"[^\"]{0,60}" + _NAME + r"[^\"]{0,60}\"|\"token\"|\"authorization\"|\"(?:set-)?cookie\")"
)
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
    return (  # each name in `_NAME` and `_KEY` contains one of these
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
