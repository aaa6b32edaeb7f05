"""Searches for secrets whose values are known, wherever they occur and in any of their usual encodings.

In: secret values. Out: whether and where a text contains one of them, encoded or not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

from callsheet.sealing.forms import forms_of, twice_encoded
from callsheet.sealing.lines import LINES, joined, joined_text
from callsheet.sealing.multi_search import PrefixIndex

SHORTEST = 4
"""Minimum length, in characters, of a declared secret; a shorter one would match everywhere."""
_SHORTEST_LINE = 12
_SHORTEST_CORE = 8
_LONGEST_TWICE, _MOST_TWICE = 300, 50
"""The longest secret, and the most secrets, for which double encodings are searched for too."""
_SOME = 100
"""With more forms than this, the search goes by their first characters instead of one form at a time."""


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


class _Portion:
    """A set of forms searched for in one pass; the matcher is compiled at first use."""

    def __init__(self, whys: Mapping[str, str]) -> None:
        self.whys = whys
        """By form: why it is secret."""

    def __len__(self) -> int:
        return len(self.whys)

    def may_be_in(self, data: bytes) -> bool:
        """Whether the bytes of a JSON text contain a form, even if broken over several lines."""
        if self._pass is None:  # too many or too long for one compiled matcher
            in_one_line = joined(data)
            return self._stands_in(data) or (in_one_line is not None and self._stands_in(in_one_line))
        matches = self._pass.Match(data)
        if matches != self._lines_alone:
            return bool(matches)
        in_one_line = joined(data)
        matches = None if in_one_line is None else self._pass.Match(in_one_line)
        return bool(matches) and matches != self._lines_alone

    def _stands_in(self, data: bytes) -> bool:
        return any(True for _ in self._heads_of_encoded.found_in(data))

    def found_in(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Every occurrence in a text, as start, end, and why it is secret."""
        has_lines = True
        if self._pass is not None:
            matches = self._pass.Match(text.encode("utf-8", "surrogatepass"))
            if not matches:
                return
            has_lines = self._lines_alone[0] in matches
        yield from self._each_in(text)
        in_one_line = joined_text(text) if has_lines else None
        if in_one_line is not None:
            for start, end, why in self._each_in(in_one_line.text):
                yield in_one_line.place_of(start), in_one_line.place_of(end - 1) + 1, why

    def _each_in(self, text: str) -> Iterator[tuple[int, int, str]]:
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
    def _heads(self) -> PrefixIndex[str]:
        return PrefixIndex([*self.whys])

    @cached_property
    def _heads_of_encoded(self) -> PrefixIndex[bytes]:
        return PrefixIndex(self._encoded)

    @cached_property
    def _encoded(self) -> tuple[bytes, ...]:
        """The forms as bytes, plain and as escaped in the JSON text of a journal."""
        encoded = (json.dumps(text, ensure_ascii=False)[1:-1] for text in self.whys)
        every = dict.fromkeys((*self.whys, *encoded))
        return tuple(text.encode("utf-8", "surrogatepass") for text in every)

    @cached_property
    def _lines_alone(self) -> list[int]:
        """The match result that means: there are lines of encoded data, but none of the forms."""
        return [len(self._encoded)]

    @cached_property
    def _pass(self) -> Any:
        re2: Any = import_module("re2")  # imported by name: it has no types for the type checker
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.never_capture = True
        options.max_mem = 64 << 20
        patterns = re2.Set.SearchSet(options)
        for form in self._encoded:
            patterns.Add(re2.escape(form))
        patterns.Add(LINES)
        try:
            patterns.Compile()
        except re2.error:
            return None
        return patterns


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
