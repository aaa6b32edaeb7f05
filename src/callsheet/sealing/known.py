"""Secrets whose values are known: found wherever they stand, also encoded as programs encode texts.

In: values. Out: the forms in which they may turn up, and where in a text they do.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from html import escape
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

from callsheet.sealing.heads import Heads

SHORTEST = 4
"""Characters of a declared secret that is looked for; a shorter one would be found everywhere."""
_SHORTEST_LINE = 12
_SHORTEST_CORE = 8
_FEW = 24
"""So many forms are looked for one by one; of more all are looked for in one pass."""

_SOME = 100
"""Of more forms those are looked for whose first letters stand in a text."""
_MANY = 1_000
"""Of more forms nobody looks which of them stand in others."""


class Form(NamedTuple):
    """A text in which a secret turns up, and why it is one: `declared` or `configured`."""

    text: str
    why: str


_KEPT_IN_ADDRESSES = ("", "/", "!'()*", "!'()*;/?:@&=+$,#", "!$&'()*+,;=", "!$&'()*+,;=:@/")
"""What programs write as it is: Python, a browser for a part of an address and for a whole one, RFC 3986."""
_ESCAPED = re.compile(r"%[0-9A-F]{2}|\\u[0-9a-f]{4}")


def forms_of(value: str) -> Iterator[str]:
    """The secret, as it is and as programs encode it: URL, base64, hexadecimal, in JSON, HTML or a literal.

    >>> sorted(forms_of("a b&c"))[:3]
    ['6120622663', '6120622663', 'EgYiZj']
    """
    yield value
    data = value.encode("utf-8", "surrogatepass")
    in_addresses = dict.fromkeys((quote_plus(data), *(quote(data, safe=kept) for kept in _KEPT_IN_ADDRESSES)))
    yield from in_addresses
    yield from map(_of_other_case, in_addresses)
    for text in dict.fromkeys(_in_json(value)):
        yield text
        for ascii_only in (True, False):  # a JSON text that stands in another one
            yield json.dumps(text, ensure_ascii=ascii_only)[1:-1]
    yield from _in_html(value)
    yield repr(value)[1:-1]
    yield repr(data)[2:-1]
    yield data.hex()
    yield data.hex().upper()
    for before in range(3):
        core = _core(data, before)
        yield core
        yield core.replace("+", "-").replace("/", "_")


def _of_other_case(text: str) -> str:
    r"""The same with the letters of its escapes in the other case.

    >>> _of_other_case(r"%2Fab \u00fc")
    '%2fab \\u00FC'
    """
    return _ESCAPED.sub(lambda found: found[0].swapcase().replace("U", "u"), text)


def _in_json(text: str) -> Iterator[str]:
    """A text as it stands in a JSON text, also of those who put JSON into pages."""
    for ascii_only in (True, False):
        plain = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield plain
        yield _of_other_case(plain)
        yield plain.replace("/", "\\/")
        for signs in ("<>&", "<>&'"):
            unseen = plain.translate({ord(sign): f"\\u{ord(sign):04x}" for sign in signs})
            yield unseen
            yield _of_other_case(unseen)


def _in_html(text: str) -> Iterator[str]:
    """A text as it stands in a page."""
    yield escape(text, quote=False)
    whole = escape(text)
    for quote_mark, double in (
        ("&#x27;", "&quot;"),
        ("&#39;", "&quot;"),
        ("&#39;", "&#34;"),
        ("&apos;", "&quot;"),
    ):
        yield whole.replace("&#x27;", quote_mark).replace("&quot;", double)


def _core(data: bytes, before: int) -> str:
    """What stands in any base64 text of data with these bytes after `before` others, whatever is around."""
    text = b64encode(bytes(before) + data).decode().rstrip("=")
    first = (before * 8 + 5) // 6
    last = (before + len(data)) * 8 // 6
    return text[first:last]


def _texts_of(value: object) -> Iterator[str]:
    """The texts of a value that are secret with it: leaves, and the lines of a long text."""
    stack = [value]
    while stack:
        part: Any = stack.pop()
        if isinstance(part, str):
            yield part
            lines = part.splitlines()
            if len(lines) > 1:
                yield from (line.strip() for line in lines if len(line.strip()) >= _SHORTEST_LINE)
        elif isinstance(part, dict):
            stack += part.values()
        elif isinstance(part, list):
            stack += part
        elif isinstance(part, int | float) and not isinstance(part, bool):
            yield str(part)


class _Portion:
    """Forms that are looked for together, made ready for that when they are first."""

    def __init__(self, whys: Mapping[str, str]) -> None:
        self.whys = whys
        """Why each form is a secret."""

    def __len__(self) -> int:
        return len(self.whys)

    def may_be_in(self, data: bytes) -> bool:
        """Whether one of them stands in the bytes of a JSON text."""
        if self._pass is not None:
            return bool(self._pass.Match(data))
        if len(self._encoded) > _MANY:
            return any(True for _ in self._heads_of_encoded.found_in(data))
        return any(form in data for form in self._encoded)

    def found_in(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Where they stand in a text: start, end, and why it is a secret."""
        if len(self.whys) > _SOME:
            for at, form in self._heads.found_in(text):
                yield at, at + len(form), self.whys[form]
            return
        for form, why in self.whys.items():
            at = text.find(form)
            while at >= 0:
                yield at, at + len(form), why
                at = text.find(form, at + 1)

    @cached_property
    def _heads(self) -> Heads[str]:
        return Heads([*self.whys])

    @cached_property
    def _heads_of_encoded(self) -> Heads[bytes]:
        return Heads(self._encoded)

    @cached_property
    def _encoded(self) -> tuple[bytes, ...]:
        """The forms as they stand in a journal's JSON text."""
        said = (json.dumps(text, ensure_ascii=False)[1:-1] for text in self.whys)
        every = dict.fromkeys(text.encode("utf-8", "surrogatepass") for text in said)
        if len(every) > _MANY:
            return tuple(every)
        return tuple(form for form in every if not any(other in form for other in every if other != form))

    @cached_property
    def _pass(self) -> Any:
        if len(self._encoded) <= _FEW:
            return None
        re2: Any = import_module("re2")  # by its name: it has no types that a checker could find
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.never_capture = True
        options.max_mem = 64 << 20
        found = re2.Set.SearchSet(options)
        for form in self._encoded:
            found.Add(re2.escape(form))
        try:
            found.Compile()
        except re2.error:  # they are too long
            return None
        return found


class Known:
    """Secrets that are looked for; immutable.

    They lie in portions, each about half as large as the one before, or smaller: what is added now and then
    takes time for itself, and not for all that is there.
    """

    def __init__(self, forms: Iterable[Form] = ()) -> None:
        whys = {form.text: form.why for form in forms}
        self._portions: tuple[_Portion, ...] = (_Portion(whys),) if whys else ()

    @classmethod
    def of(cls, values: Iterable[object], why: str, shortest: int = SHORTEST) -> Known:
        """The secrets of these values; `why` is said of what is found.

        `shortest` is how many characters one has at least.
        """
        texts = [text for value in values for text in _texts_of(value) if len(text.strip()) >= shortest]
        return cls(Form(form, why) for text in texts for form in _looked_for(text))

    def __bool__(self) -> bool:
        return bool(self._portions)

    def __add__(self, other: Known) -> Known:
        more = {
            text: why
            for portion in other._portions
            for text, why in portion.whys.items()
            if not any(text in own.whys for own in self._portions)
        }
        if not more:
            return self
        portions = [*self._portions, _Portion(more)]
        while len(portions) > 1 and len(portions[-2]) < 2 * len(portions[-1]):
            last, before = portions.pop(), portions.pop()
            portions.append(_Portion({**before.whys, **last.whys}))
        made = Known()
        made._portions = tuple(portions)
        return made

    def may_be_in(self, data: bytes) -> bool:
        """Whether one of them stands in the bytes of a JSON text."""
        return any(portion.may_be_in(data) for portion in self._portions)

    def found_in(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Where they stand in a text: start, end, and why it is a secret."""
        for portion in self._portions:
            yield from portion.found_in(text)


def _looked_for(text: str) -> Iterator[str]:
    yield text
    yield from (form for form in forms_of(text) if len(form) >= _SHORTEST_CORE)
