"""Finds secrets in values and masks them, in data and in `repr`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any, TypeVar, cast

from callsheet.lazy import NamedTuple
from callsheet.sealing.credentials import Shapes
from callsheet.sealing.keys import MASK, is_nothing
from callsheet.sealing.known import Known

NAMED = "its name says so"
"""The reason given for a text that is secret because of the name of its field."""


class Span(NamedTuple):
    """A secret part of a text, and the reason: `declared`, `configured`, or `looks like …`."""

    start: int
    end: int
    why: str


_SHORTEST = 8


class Finder:
    """The known secrets and the credential patterns to search for; immutable.

    `shapes` is None if nothing counts as a secret merely because it looks like one.
    """

    def __init__(self, known: Known | None = None, shapes: Shapes | None = None) -> None:
        self.known = known or Known()
        self.shapes = shapes

    def knowing(self, more: Known) -> Finder:
        """A finder that knows these secrets as well."""
        return Finder(self.known + more, self.shapes) if more else self

    def without_shapes(self) -> Finder:
        """A finder for the known secrets only."""
        return Finder(self.known)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to search for."""
        return self.shapes is None and not self.known

    def may_find(self, data: bytes) -> bool:
        """A quick check: False only if the value with this JSON text contains no secret."""
        if self.known and self.known.may_be_in(data):
            return True
        return self.shapes is not None and self.shapes.may_be_in(data)

    def sees_in_any(self, texts: Iterable[str]) -> bool:
        """A quick check: False only if `spans` is empty for each of these texts."""
        return bool(self.known) or (self.shapes is not None and self.shapes.may_be_in_any(texts))

    def spans(self, text: str) -> list[Span]:
        """The secret spans of a text, in order; spans that overlap or touch are merged."""
        spans = [Span(*place) for place in self.known.found_in(text)]
        if self.shapes is not None:
            spans += [
                Span(start, end, f"looks like {name}") for start, end, name in self.shapes.found_in(text)
            ]
        return _merged(spans)

    def whole(self, name: str, text: str) -> str | None:
        """The reason why a whole text is secret given the name of its field; None if it is not."""
        if self.shapes is not None and self.shapes.names_a_secret(name, text):
            return NAMED
        return None


def known_by_name(texts: Iterable[str]) -> Known:
    """Texts that were secret because of their field name, as known secrets to find elsewhere as well.

    Texts without a digit are left out: `token: "identifier"` names no secret and would match everywhere.
    """
    telling = (text for text in texts if any(map(str.isdigit, text)))
    return Known.of(telling, NAMED, shortest=_SHORTEST)


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Merges spans that overlap or touch; the reason is that of the first (of several, the longest)."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if merged and span.start <= merged[-1].end:
            last = merged[-1]
            merged[-1] = Span(last.start, max(last.end, span.end), last.why)
        else:
            merged.append(span)
    return merged


def mask_text(text: str, finder: Finder) -> str:
    """The text with each secret replaced by the mask.

    >>> from callsheet.sealing.known import Known
    >>> mask_text("token=abcdefgh!", Finder(Known.of(["abcdefgh"], "declared")))
    'token=[secret]!'
    """
    shown, done = "", 0
    for start, end, _ in finder.spans(text):
        shown += text[done:start] + MASK
        done = end
    return shown + text[done:] if shown or done else text


def mask_value(value: Any, finder: Finder) -> Any:
    """The value with every text in it masked, including the keys of objects, and every secret number."""
    if isinstance(value, str):
        return mask_text(value, finder)
    if finder.known.why_of(value) is not None:
        return MASK
    if finder.is_idle or not isinstance(value, list | dict):
        return value
    part = cast("list[Any] | dict[str, Any]", value)
    return _Masked(finder, has_spans=finder.sees_in_any(texts_in(part))).part(part)


class _Masked:
    """Masks lists and objects; a part that stands in them more than once is masked once.

    Without `has_spans`, only names tell of secrets.
    """

    def __init__(self, finder: Finder, *, has_spans: bool) -> None:
        self.finder, self.has_spans = finder, has_spans
        self._made: dict[int, Any] = {}

    def part(self, part: list[Any] | dict[str, Any]) -> Any:
        made = self._made.get(id(part))
        if made is not None:
            return made
        if isinstance(part, list):
            if not self.has_spans and _LEAVES.issuperset(map(type, part)):
                made = part.copy()
            else:
                made = [self._value(None, item) for item in part]
        else:
            made = {self._text(name): self._value(name, item) for name, item in part.items()}
        self._made[id(part)] = made
        return made

    def _value(self, name: str | None, value: Any) -> Any:
        if isinstance(value, str):
            if name is not None and self.finder.whole(name, value) is not None:
                return MASK
            return self._text(value)
        if isinstance(value, list | dict):
            return self.part(cast("list[Any]", value))
        return value if self.finder.known.why_of(value) is None else MASK

    def _text(self, text: str) -> str:
        return mask_text(text, self.finder) if self.has_spans else text


_NO_TEXT = frozenset({int, float, bool, type(None)})
_LEAVES = _NO_TEXT | {str}


def has_no_text(items: list[Any]) -> bool:
    """A quick check: True only if no text is in a list, nor in what it contains."""
    return _NO_TEXT.issuperset(map(type, items))


def texts_in(body: Any) -> Iterator[str]:
    """All texts of a JSON value, names among them; those of a part that it shares come once."""
    stack: list[Any] = [body]
    seen: set[int] = set()
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, list | dict):
            number = id(cast("object", part))
            if number in seen:
                continue
            seen.add(number)
            if isinstance(part, list):
                members = cast("list[Any]", part)
                if not has_no_text(members):
                    stack += members
                continue
            named = cast("dict[str, Any]", part)
            yield from named
            stack += named.values()


def hidden(value: Any) -> Any:
    """The mask, in place of a value that is secret as a whole; empty values stay."""
    return value if is_nothing(value) else MASK


class MaskedFields(NamedTuple):
    """What to mask in an object: what the finder finds, and the whole values under these names.

    The names are those of fields, and of keys in fields that are objects.
    """

    finder: Finder
    names: frozenset[str] = frozenset()


class MaskedRepr:
    """Base of a dataclass with a masked `repr`; by default, what looks like a credential is masked."""

    __slots__ = ("_hides",)
    _hides: MaskedFields

    def __repr__(self) -> str:
        hides = self._hiding()
        parts = (
            f"{field.name}={_shown(field.name, getattr(self, field.name), hides)}"
            for field in fields(cast("Any", self))
            if field.repr
        )
        return f"{type(self).__qualname__}({', '.join(parts)})"

    def shown(self, name: str) -> str:
        """A field as `repr` shows it."""
        return _shown(name, getattr(self, name), self._hiding())

    def shown_items(self, name: str) -> list[tuple[str, str]]:
        """The entries of a field that is an object, each as `repr` shows it."""
        hides = self._hiding()
        return [(key, _shown(key, value, hides)) for key, value in getattr(self, name).items()]

    def _hiding(self) -> MaskedFields:
        return getattr(self, "_hides", None) or _looks()


_V = TypeVar("_V", bound=MaskedRepr)


def masked(data: _V, hides: MaskedFields) -> _V:
    """The same object, with these secrets masked in its `repr`."""
    object.__setattr__(data, "_hides", hides)
    return data


def _looks() -> MaskedFields:
    return MaskedFields(Finder(shapes=Shapes()))


def _shown(name: str, value: Any, hides: MaskedFields) -> str:
    if name in hides.names:
        return repr(hidden(value))
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        value = {key: hidden(item) if key in hides.names else item for key, item in entries}
    return mask_text(repr(mask_value(value, hides.finder)), hides.finder)
