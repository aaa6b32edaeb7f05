"""Finds words whose letters look like Latin ones and are not, as in a forged name or address."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import cast

from callsheet import lazy
from callsheet.frontends.unseen import LATIN_OF
from callsheet.ir import JSON

_ALIKE = "".join(LATIN_OF) + "\uff21-\uff3a\uff41-\uff5a"
"""Letters that look like Latin ones, full-width ones among them."""
_LOOKALIKE = lazy.pattern(f"[{_ALIKE}]")
_TOKEN = lazy.pattern(r"\S+")
_WORD = lazy.pattern(r"[^\W\d_]+")
_READ_AS_LATIN = lazy.pattern(f"[A-Za-z{_ALIKE}]*")
_LATIN = lazy.pattern("[A-Za-z]")
_MOST = 5


def lookalikes(value: JSON) -> list[str]:
    r"""The first few words in a value that mix Latin letters with others that look like them, these escaped.

    A word in another script is none of them, unless all of its letters look Latin and Latin ones follow or
    precede without a blank, as in a host name.

    >>> lookalikes({"to": "p\u0430ypal@x.org", "text": "\u043f\u0440\u0438\u0432\u0435\u0442 all"})
    ['p\\u0430ypal@x.org']
    """
    return list(islice(_found(value), _MOST))


def _found(value: JSON) -> Iterator[str]:
    if isinstance(value, str):
        if not value.isascii():
            yield from (_marked(token) for token in _TOKEN.findall(value) if _is_forged(token))
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _found(name)
            yield from _found(cast("JSON", part))
    elif isinstance(value, list):
        for part in value:
            yield from _found(cast("JSON", part))


def _is_forged(token: str) -> bool:
    if token.isascii() or _LATIN.search(token) is None:
        return False
    words = _WORD.findall(token)
    return any(_LOOKALIKE.search(word) and _READ_AS_LATIN.fullmatch(word) for word in words)


def _marked(token: str) -> str:
    return _LOOKALIKE.sub(lambda found: f"\\u{ord(found[0]):04x}", token)
