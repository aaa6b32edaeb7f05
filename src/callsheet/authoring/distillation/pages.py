"""Pages: the same listing asked for again with a cursor, or the next number, until there is no more.

In: recorded calls in order. Out: in which ways a listing may go on, and the calls of each run that it makes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from callsheet.authoring.distillation.guards import COUNT, is_more
from callsheet.authoring.distillation.recorded_calls import RecordedCall
from callsheet.ir import JSON

_LAST = re.compile(r"(?:^|_)(?:pages|page_count|last_page|(?:total|num)_?pages)$|Pages$")
_END = re.compile(r"(?:^|_)(?:last|end|done|complete|is_?last(?:_page)?)$", re.IGNORECASE)
_DEEPEST = 2

Path = tuple[str, ...]
"""The names of the fields that lead to a value."""


class Paging(NamedTuple):
    """How a listing goes on: by which argument, where a page has its items, and what shows if there is more.

    `step` is what the argument is the next time: a "cursor" of the last answer, a number that counts
    "pages", or the number of "items" so far. `more` is the field that shows it (of a cursor: which has it),
    and `shows` how: it is "filled", or "unset", or the number of "pages" or of "items" at its end; without
    a field the last page is "empty", or "short" of `size` items. `first` is the number of the first page,
    if its call does not have the argument.
    """

    argument: str
    listing: Path
    step: str
    cursor: Path
    more: Path
    shows: str
    size: int
    first: int | None

    def items(self, result: JSON) -> list[JSON]:
        """The items of a page."""
        found = _at(result, self.listing)
        return found if isinstance(found, list) else []

    def goes_on(self, calls: Sequence[RecordedCall]) -> bool:
        """Whether there is more after some pages."""
        value = _at(calls[-1].result, self.more)
        items = [len(self.items(call.result)) for call in calls]
        number = value if isinstance(value, int) else 0
        match self.shows:
            case "filled":
                return bool(value)
            case "unset":
                return not value
            case "pages":
                return self.number_of(calls) < number
            case "items":
                return sum(items) < number
            case _:
                return items[-1] >= self.size

    def number_of(self, calls: Sequence[RecordedCall]) -> int:
        """The number of the last page."""
        start = calls[0].args.get(self.argument, self.first)
        return (start if isinstance(start, int) else 0) + len(calls) - 1

    def following(self, calls: Sequence[RecordedCall]) -> JSON:
        """The argument that asks for the next page."""
        if self.step == "cursor":
            return _at(calls[-1].result, self.cursor)
        if self.step == "pages":
            return self.number_of(calls) + 1
        return sum(len(self.items(call.result)) for call in calls)

    def more_code(self, answer: str, every: str, number: str, *, may_lack: bool) -> str:
        """The code of whether there is more, after an answer, with all items so far, and a page's number.

        `may_lack` is whether some answer does not have the field.
        """
        value = _code(answer, self.more)
        match self.shows:
            case "filled":
                return _code(answer, self.more, may_lack=may_lack)
            case "unset":
                return f"not {value}"
            case "pages":
                return f"{number} < {value}"
            case "items":
                return f"len({every}) < {value}"
            case _:
                listing = _code(answer, self.listing)
                return listing if self.size == 1 else f"len({listing}) >= {self.size}"

    def listing_code(self, answer: str) -> str:
        """The code of the items of an answer."""
        return _code(answer, self.listing)

    def cursor_code(self, answer: str) -> str:
        """The code of the cursor in an answer."""
        return _code(answer, self.cursor)


class Pages(NamedTuple):
    """The pages of one list: their calls, and how one is asked for after the other."""

    calls: tuple[RecordedCall, ...]
    paging: Paging

    @property
    def may_lack(self) -> bool:
        """Whether an answer does not have the field that shows whether there is more."""
        *objects, name = self.paging.more or ("",)
        held = [_at(call.result, (*objects,)) for call in self.calls]
        return not all(isinstance(one, dict) and name in one for one in held)

    @property
    def items(self) -> list[JSON]:
        """The items of all pages."""
        return [item for call in self.calls for item in self.paging.items(call.result)]


def pages_at(runs: Sequence[Sequence[RecordedCall]], places: Sequence[int]) -> list[Pages] | None:
    """The pages of each run that begin at its place, by one rule; None if there are none in all runs.

    >>> answer = lambda number, last: {"items": [number], "next": None if last else number + 1}
    >>> asked = [RecordedCall(n, "LIST", {"page": n + 1}, answer(n + 1, n == 1)) for n in (0, 1)]
    >>> [len(one.calls) for one in pages_at([asked], [0])]
    [2]
    """
    if any(place >= len(calls) for calls, place in zip(runs, places, strict=True)):
        return None
    for calls, place in zip(runs, places, strict=True):
        for paging in _pagings(calls, place):
            each = [_walked(paging, one, at, calls[place].tool) for one, at in zip(runs, places, strict=True)]
            pages = [Pages(one, paging) for one in each if one is not None]
            if len(pages) == len(runs):
                return pages
    return None


def _walked(
    paging: Paging, calls: Sequence[RecordedCall], place: int, tool: str
) -> tuple[RecordedCall, ...] | None:
    """The calls of one listing from a place on, to its end; None if the rule is not theirs."""
    first = calls[place]
    rest = _others(first, paging.argument)
    if first.tool != tool or (paging.first is None) != (paging.argument in first.args):
        return None
    pages = [first]
    while _is_page(paging, pages[-1].result) and paging.goes_on(pages):
        after = calls[place + len(pages)] if place + len(pages) < len(calls) else None
        if (
            after is None
            or after.tool != tool
            or _others(after, paging.argument) != rest
            or after.args.get(paging.argument) != paging.following(pages)
        ):
            return None
        pages.append(after)
    return tuple(pages) if _is_page(paging, pages[-1].result) else None


def _is_page(paging: Paging, result: JSON) -> bool:
    return isinstance(_at(result, paging.listing), list)


def _others(call: RecordedCall, argument: str) -> dict[str, JSON]:
    return {name: value for name, value in call.args.items() if name != argument}


def _pagings(calls: Sequence[RecordedCall], place: int) -> Iterator[Paging]:
    """The rules by which the call after a place may ask for the next page, the surest first."""
    if place + 1 >= len(calls):
        return
    first, second = calls[place], calls[place + 1]
    changed = [name for name, value in second.args.items() if first.args.get(name) != value]
    if second.tool != first.tool or len(changed) != 1 or not first.args.keys() <= second.args.keys():
        return
    argument = changed[0]
    listings = _listings(first.result)
    fields = dict(_fields(first.result, ()))
    asked, before = second.args[argument], first.args.get(argument)
    for listing in listings:
        size = len(cast("list[JSON]", _at(first.result, listing)))
        steps: list[tuple[str, Path, int | None]] = [
            ("cursor", path, None if argument in first.args else 0)
            for path, value in fields.items()
            if value == asked and value and (isinstance(value, str) or is_more(path[-1]))
        ]
        if isinstance(asked, int) and not isinstance(asked, bool):
            start = before if isinstance(before, int) else None
            if start is None or start == asked - 1:
                steps.append(("pages", (), None if argument in first.args else asked - 1))
            if (start or 0) == 0 and asked == size:
                steps.append(("items", (), None if argument in first.args else 0))
        for step, cursor, number in steps:
            ends = [(cursor, "filled", 1)] if step == "cursor" else []
            ends += _ends(fields, is_count=step == "pages")
            ends += [((), "empty", 1), *([((), "short", size)] if size > 1 else [])]
            for more, shows, least in ends:
                yield Paging(argument, listing, step, cursor, more, shows, least, number)


def _ends(fields: dict[Path, JSON], *, is_count: bool) -> Iterator[tuple[Path, str, int]]:
    """The fields of a first answer that may say that there is more."""
    for path, value in fields.items():
        if is_more(path[-1]) and value:
            yield path, "filled", 1
        elif _END.search(path[-1]) and value is False:
            yield path, "unset", 1
    for path, value in fields.items():
        if isinstance(value, int) and not isinstance(value, bool):
            if is_count and _LAST.search(path[-1]):
                yield path, "pages", 1
            elif COUNT.search(path[-1]):
                yield path, "items", 1


def _listings(result: JSON) -> list[Path]:
    """The list of a page, or those that may be it: of objects, if there is one of these."""
    if isinstance(result, list):
        return [()]
    found = [path for path, value in _fields(result, ()) if isinstance(value, list)]
    objects = [
        path for path in found if all(isinstance(one, dict) for one in cast("list[JSON]", _at(result, path)))
    ]
    return objects if len(objects) == 1 else found if len(found) == 1 else []


def _fields(value: JSON, path: Path) -> Iterator[tuple[Path, JSON]]:
    """The fields of an object and of the objects in it, with their paths."""
    for name, item in value.items() if isinstance(value, dict) else ():
        yield (*path, name), item
        if len(path) < _DEEPEST:
            yield from _fields(item, (*path, name))


def _at(value: JSON, path: Path) -> JSON:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _code(answer: str, path: Path, *, may_lack: bool = False) -> str:
    names = [json.dumps(name, ensure_ascii=False) for name in path]
    last = f".get({names[-1]})" if may_lack else "".join(f"[{name}]" for name in names[-1:])
    return answer + "".join(f"[{name}]" for name in names[:-1]) + last
