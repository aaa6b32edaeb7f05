"""The known secrets, the forms in which they may occur in a text, and the search for them."""

from __future__ import annotations

import json
from base64 import b32encode, b64encode
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, quote_plus

from callsheet import lazy
from callsheet.ir.linear_patterns import PatternRejected, compile_pattern, escaped, pattern_set

_LINE = r"[A-Za-z0-9+/_-]{40}"
"""The end of a wrapped line of encoded data: PEM wraps at 64 characters, MIME at 76, `xxd -p` at 60."""
_BREAK = r"((?:(?:\\+r)?\\+n|\r?\n)[ \t>]*)[A-Za-z0-9+/_-]"
"""A line break, plain or escaped in a JSON text, and any quoting or indentation before the next line."""
LINES = (_LINE + _BREAK).encode()
"""The pattern that matches bytes with lines of encoded data in them."""


def joined(data: bytes) -> bytes | None:
    """The bytes of a JSON text with lines of encoded data joined; None if there are none."""
    breaks = _breaks(data, _bytes_pattern())
    return b"".join(data[start:end] for start, end in _kept(breaks, len(data))) if breaks else None


class Joined:
    """A text with lines of encoded data joined, and the mapping to positions in the original text."""

    def __init__(self, text: str, breaks: list[tuple[int, int]]) -> None:
        self.text = ""
        self._begins = list[int]()
        self._moved = list[int]()
        parts = list[str]()
        length = 0
        for start, end in _kept(breaks, len(text)):
            self._begins.append(length)
            self._moved.append(start - length)
            parts.append(text[start:end])
            length += end - start
        self.text = "".join(parts)

    def place_of(self, at: int) -> int:
        """The position in the original text of the character at this position of the joined one."""
        return at + self._moved[bisect_right(self._begins, at) - 1]


def joined_text(text: str) -> Joined | None:
    """A text with lines of encoded data joined; None if there are none."""
    breaks = _breaks(text, _text_pattern())
    return Joined(text, breaks) if breaks else None


def _breaks(text: Any, pattern: Any) -> list[tuple[int, int]]:
    """The spans of the line breaks: from the end of a line to the beginning of the next."""
    return [match.span(1) for match in pattern.finditer(text)]


def _kept(breaks: list[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    begins = (0, *(end for _, end in breaks))
    ends = (*(start for start, _ in breaks), length)
    return [*zip(begins, ends, strict=True)]


@cache
def _text_pattern() -> Any:
    return compile_pattern(_LINE + _BREAK)


@cache
def _bytes_pattern() -> Any:
    return compile_pattern((_LINE + _BREAK).encode(), is_bytes=True)


_Text = TypeVar("_Text", str, bytes)


class PrefixIndex(Generic[_Text]):
    """Texts indexed by their first characters (as many as the shortest has).

    >>> list(PrefixIndex(["ab", "abc", "xyz"]).found_in("_abc"))
    [(1, 'ab'), (1, 'abc')]
    """

    def __init__(self, texts: Sequence[_Text]) -> None:
        self._length = min(map(len, texts), default=0)
        self._by_head: defaultdict[_Text, list[_Text]] = defaultdict(list)
        for text in texts if self._length else ():
            self._by_head[text[: self._length]].append(text)

    def found_in(self, text: _Text) -> Iterator[tuple[int, _Text]]:
        """Every occurrence, as (position, text)."""
        length, get = self._length, self._by_head.get
        for at in range(len(text) - length + 1):
            for one in get(text[at : at + length], ()):
                if text.startswith(one, at):
                    yield at, one


_KEPT_IN_ADDRESSES = ("", "/", "!'()*", "!'()*;/?:@&=+$,#", "!$&'()*+,;=", "!$&'()*+,;=:@/")
"""Characters left unescaped by: Python, browsers (for a component and for a whole URL), RFC 3986."""
_ESCAPED = lazy.pattern(r"%[0-9A-F]{2}|\\u[0-9a-f]{4}")


def forms_of(value: str) -> Iterator[str]:
    """The secret as it is, and encoded for URLs, JSON, HTML or a Python literal, in base64 and so on.

    >>> sorted(set(forms_of("a b&c")))[:4]
    ['61 20 62 26 63', '6120622663', '61:20:62:26:63', 'BEBRCMY']
    """
    yield value
    data = value.encode("utf-8", "surrogatepass")
    in_addresses = dict.fromkeys((quote_plus(data), *(quote(data, safe=kept) for kept in _KEPT_IN_ADDRESSES)))
    yield from in_addresses
    yield from map(_of_other_case, in_addresses)
    for text in dict.fromkeys(_in_json(value)):
        yield text
        for ascii_only in (True, False):  # JSON nested in a JSON string
            yield json.dumps(text, ensure_ascii=ascii_only)[1:-1]
    yield from _in_html(value)
    yield repr(value)[1:-1]
    yield repr(data)[2:-1]
    yield from _in_hexadecimal(data)
    yield from _in_base32(data)
    for core in _in_base64(data):
        yield core
        yield from _put_elsewhere(core)


def twice_encoded(value: str) -> Iterator[str]:
    """The secret encoded by one program and then again by another.

    >>> written = b64encode(b'{"auth": "' + b64encode(b"joe:hunter2") + b'"}').decode()
    >>> [form for form in twice_encoded("hunter2") if form in written]
    ['gxYm5SbGNq']
    """
    data = value.encode("utf-8", "surrogatepass")
    in_addresses = {*(quote(data, safe=kept) for kept in _KEPT_IN_ADDRESSES), quote_plus(data)} - {value}
    every = {*in_addresses, *map(_of_other_case, in_addresses)}
    for text in every:
        again = quote(text, safe="")
        yield again
        yield _of_other_case(again)
    in_json = {json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)} - {value}
    cores = [*_in_base64(data)]
    for text in (*every, *in_json, data.hex(), data.hex().upper(), *cores):
        yield from _in_base64(text.encode("utf-8", "surrogatepass"))
    for core in cores:
        yield from (core.encode().hex(), core.encode().hex().upper())


def _in_hexadecimal(data: bytes) -> Iterator[str]:
    for text in (data.hex(), data.hex(" "), data.hex(":")):
        yield text
        yield text.upper()


def _in_base32(data: bytes) -> Iterator[str]:
    """For each alignment, what encodes these bytes alone in base32 of data that contains them."""
    for before in range(5):
        text = b32encode(bytes(before) + data).decode()
        yield text[-(-before * 8 // 5) : (before + len(data)) * 8 // 5]


def _in_base64(data: bytes) -> Iterator[str]:
    """The same for base64 (`_core`), in the standard and the URL-safe alphabet."""
    for before in range(3):
        core = _core(data, before)
        yield core
        if "+" in core or "/" in core:
            yield core.replace("+", "-").replace("/", "_")


def _put_elsewhere(core: str) -> Iterable[str]:
    """A part of a base64 text as it is escaped in a URL, and in JSON by PHP."""
    if "+" not in core and "/" not in core:
        return ()
    in_address = quote(core, safe="")
    return in_address, _of_other_case(in_address), core.replace("/", "\\/")


def _of_other_case(text: str) -> str:
    r"""The text with the hexadecimal digits of its escapes in the other case.

    >>> _of_other_case(r"%2Fab \u00fc")
    '%2fab \\u00FC'
    """
    return _ESCAPED.sub(lambda found: found[0].swapcase().replace("U", "u"), text)


def _in_json(text: str) -> Iterator[str]:
    """A text inside a JSON string, also with the extra escapes used for JSON in HTML pages."""
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
    """A text inside HTML, with the various escapes of quotes."""
    from html import escape  # noqa: PLC0415 - loads every entity of HTML

    yield escape(text, quote=False)
    escaped = escape(text)
    for quote_mark, double in (
        ("&#x27;", "&quot;"),
        ("&#39;", "&quot;"),
        ("&#39;", "&#34;"),
        ("&apos;", "&quot;"),
    ):
        yield escaped.replace("&#x27;", quote_mark).replace("&quot;", double)


def _core(data: bytes, before: int) -> str:
    """The characters that encode these bytes alone, in base64 of data where `before` bytes precede them."""
    text = b64encode(bytes(before) + data).decode().rstrip("=")
    first = (before * 8 + 5) // 6
    last = (before + len(data)) * 8 // 6
    return text[first:last]


_NUMBER = lazy.pattern(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")
SHORTEST = 4
"""Minimum length, in characters, of a declared secret; a shorter one would match everywhere."""
_SHORTEST_LINE = 12
_SHORTEST_CORE = 8
_LONGEST_TWICE, _MOST_TWICE = 300, 50
"""The longest secret, and the most secrets, for which double encodings are searched for too."""
_SOME = 100
"""With more forms than this in one text, their places are found by their first characters, not one by one."""


class Form(NamedTuple):
    """One encoding of a secret, and why it is secret: `declared` or `configured`."""

    text: str
    why: str


def _texts_of(value: object) -> Iterator[str]:
    """The texts in a secret value that are secret too: its leaves, and long lines of a multi-line text."""
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


_MOST_BYTES = 500_000
"""The size of the forms in one compiled matcher; nearly twice as many would not fit into its memory."""
_MOST_PASSES = 4
"""With more matchers than this, each place of a text is looked at instead, however many texts there are."""
_MEMORY = 48 << 20


class _Pass:
    """Byte strings that are searched for in one pass, and beside them lines of encoded data."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.texts = texts
        try:
            forms = [escaped(text) for text in texts]
            self._set: Any = pattern_set([*forms, LINES], memory=_MEMORY, is_bytes=True)
        except PatternRejected:  # a text that is too long for a matcher
            self._set = None

    def in_bytes(self, data: bytes) -> tuple[list[bytes], bool]:
        """The texts that are in these bytes, and whether there may be lines of encoded data."""
        if self._set is None:
            return [text for text in self.texts if text in data], True
        found: list[int] = self._set.Match(data) or []
        lines = len(self.texts)
        return [self.texts[number] for number in found if number != lines], lines in found


class _Places:
    """As `_Pass`, for more texts than matchers should hold: by their first characters, at each place."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._index = PrefixIndex(texts)

    def in_bytes(self, data: bytes) -> tuple[list[bytes], bool]:
        """The texts that are in these bytes; there may always be lines of encoded data."""
        return [*dict.fromkeys(text for _, text in self._index.found_in(data))], True


def _searches(texts: Sequence[bytes]) -> tuple[_Pass | _Places, ...]:
    """What searches for these texts in the shortest time."""
    if sum(map(len, texts)) > _MOST_PASSES * _MOST_BYTES:
        return (_Places(texts),)
    return tuple(_passes(texts))


def _passes(texts: Iterable[bytes]) -> Iterator[_Pass]:
    """The passes for these texts, none of which is too large."""
    some, size = list[bytes](), 0
    for text in texts:
        if some and size + len(text) > _MOST_BYTES:
            yield _Pass(some)
            some, size = [], 0
        some.append(text)
        size += len(text)
    if some:
        yield _Pass(some)


class _Portion:
    """A set of forms searched for together; the matchers are compiled at first use."""

    def __init__(self, whys: Mapping[str, str]) -> None:
        self.whys = whys
        """By form: why it is secret."""

    def __len__(self) -> int:
        return len(self.whys)

    def may_be_in(self, data: bytes) -> bool:
        """Whether the bytes of a JSON text contain a form, even if broken over several lines."""
        found, has_lines = self._forms_in(data)
        in_one_line = joined(data) if has_lines and not found else None
        return bool(found) or (in_one_line is not None and bool(self._forms_in(in_one_line)[0]))

    def _forms_in(self, data: bytes) -> tuple[list[bytes], bool]:
        """The forms that are in these bytes, and whether there may be lines of encoded data."""
        found, has_lines = list[bytes](), False
        for one in self._search:
            texts, lines = one.in_bytes(data)
            found += texts
            has_lines = has_lines or lines
        return found, has_lines

    def found_in(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Every occurrence in a text, as start, end, and why it is secret."""
        found, has_lines = self._forms_in(_bytes_of(text))
        if found:
            yield from self._each_in(text, found)
        in_one_line = joined_text(text) if has_lines else None
        if in_one_line is not None:
            found, _ = self._forms_in(_bytes_of(in_one_line.text))
            for start, end, why in self._each_in(in_one_line.text, found):
                yield in_one_line.place_of(start), in_one_line.place_of(end - 1) + 1, why

    def _each_in(self, text: str, found: Iterable[bytes]) -> Iterator[tuple[int, int, str]]:
        """Every occurrence of these forms."""
        forms = [one for one in (each.decode("utf-8", "surrogatepass") for each in found) if one in self.whys]
        if len(forms) > _SOME:
            for at, form in PrefixIndex(forms).found_in(text):
                yield at, at + len(form), self.whys[form]
            return
        for form in forms:
            at, why = text.find(form), self.whys[form]
            while at >= 0:
                yield at, at + len(form), why
                at = text.find(form, at + 1)

    @cached_property
    def numbers(self) -> Mapping[str, str]:
        """The forms that are numbers as JSON has them, and why they are secret."""
        return {text: why for text, why in self.whys.items() if _NUMBER.fullmatch(text)}

    @cached_property
    def _search(self) -> tuple[_Pass | _Places, ...]:
        """The forms as bytes, plain and as escaped in the JSON text of a journal."""
        encoded = (json.dumps(text, ensure_ascii=False)[1:-1] for text in self.whys)
        return _searches([*map(_bytes_of, dict.fromkeys((*self.whys, *encoded)))])


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class Known:
    """Known secrets to search for; immutable.

    They are held in portions, each at most about half as large as the one before, so that adding a few
    secrets at a time compiles small matchers and not all of them again.
    """

    def __init__(self, forms: Iterable[Form] = ()) -> None:
        whys = {form.text: form.why for form in forms}
        self._portions: tuple[_Portion, ...] = (_Portion(whys),) if whys else ()

    @classmethod
    def of(cls, values: Iterable[object], why: str, shortest: int = SHORTEST) -> Known:
        """The secrets in these values; `why` is the reason reported for a match.

        `shortest` is the minimum length of a secret in characters.
        """
        texts = [text for value in values for text in _texts_of(value) if len(text.strip()) >= shortest]
        twice = len(texts) <= _MOST_TWICE
        return cls(Form(form, why) for text in texts for form in _looked_for(text, twice=twice))

    def __bool__(self) -> bool:
        return bool(self._portions)

    @property
    def has_numbers(self) -> bool:
        """Whether a number may be a secret."""
        return any(portion.numbers for portion in self._portions)

    def why_of(self, number: object) -> str | None:
        """Why a number is secret as a whole; None if it is not, or if the value is no number."""
        if isinstance(number, bool) or not isinstance(number, int | float) or not self.has_numbers:
            return None
        text = str(number)
        return next((one.numbers[text] for one in self._portions if text in one.numbers), None)

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
        combined = Known()
        combined._portions = tuple(portions)
        return combined

    def may_be_in(self, data: bytes) -> bool:
        """Whether the bytes of a JSON text contain one of the secrets."""
        return any(portion.may_be_in(data) for portion in self._portions)

    def found_in(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Every occurrence in a text, as start, end, and why it is secret."""
        for portion in self._portions:
            yield from portion.found_in(text)


def _looked_for(text: str, *, twice: bool) -> Iterator[str]:
    yield text
    yield from (form for form in forms_of(text) if len(form) >= _SHORTEST_CORE)
    if twice and len(text) <= _LONGEST_TWICE:
        yield from (form for form in twice_encoded(text) if len(form) >= _SHORTEST_CORE)
