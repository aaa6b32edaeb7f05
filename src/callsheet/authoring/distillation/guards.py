"""What a recorded run does not tell: conditions with which a distilled plan stops where another run differs.

In: results of calls as they were recorded, with their code in the plan. Out: conditions, as Python
expressions, that held in the record: where one does not hold, an agent might have done something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from callsheet.authoring.distillation.lists import all_lists, own_lists
from callsheet.ir import JSON

_STATE = re.compile(
    r"(?:^|_)(?:status|state|stage|tier|kind|type|level|mode|phase|health|availability|severity|category|conclusion|outcome)$",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[A-Za-z][A-Za-z_-]{0,20}")
_MORE = re.compile(r"next|cursor|has_?more|truncated|incomplete|continu", re.IGNORECASE)
_LIMIT = re.compile(
    r"(?:^|_)(?:limit|per_?page|page_?size|max(?:_?results)?|top|count|first)$", re.IGNORECASE
)
_NAME = re.compile(
    r"(?:^|[_\W])(?:id|key|number|sku|ref|iban|path|login|sha|code|slug|uuid|url|file|folder)\W*$|Id\W*$"
)
_AMOUNT = re.compile(
    r"stock|available|quantity|capacity|seats|balance|remaining|left|free|budget|quota|limit|credit",
    re.IGNORECASE,
)
_FIELD = re.compile(r"\[([\"'])([^\"'\\\]]+)\1\]")
_FIELDS = re.compile(r"(?:\[([\"'])[^\"'\\\]]+\1\])+")
_KIND = re.compile(r"\w(\.[A-Za-z]\w{1,4})\Z")
_PAGE = re.compile(r"^(?:page|page_?number|offset|skip|start)$", re.IGNORECASE)
_PAGES = re.compile(r"(?:^|_)(?:pages|page_count|last_page)$|Pages$")
COUNT = re.compile(r"total|count|results|found|size|hits", re.IGNORECASE)
"""The names of fields that say how many items there are on all pages."""
_DEEPEST = 2


def is_state(name: str, value: JSON) -> bool:
    """Whether a field says in which state something is: a flag, or a word under a name for that."""
    return isinstance(value, bool) or (
        isinstance(value, str) and _STATE.search(name) is not None and _TOKEN.fullmatch(value) is not None
    )


def same_state(code: str, value: JSON, *, flags_only: bool = False, depth: int = 0) -> Iterator[str]:
    """The conditions that an object is in the state in which it was.

    >>> [*same_state("door", {"open": True, "status": "new", "name": "front"})]
    ['door["open"]', 'door["status"] == "new"']
    """
    if not isinstance(value, dict) or depth > _DEEPEST:
        return
    for name, item in value.items():
        at = f"{code}[{_quoted(name)}]"
        if isinstance(item, bool):
            yield at if item else f"not {at}"
        elif is_state(name, item) and not flags_only:
            yield f"{at} == {_quoted(item)}"
        else:
            yield from same_state(at, item, flags_only=flags_only, depth=depth + 1)


def as_empty(code: str, value: JSON) -> Iterator[str]:
    """The conditions that lists and texts in a result are empty, or not, as they were."""
    sized = [(code, value)] if isinstance(value, str) else own_lists(code, value)
    for at, items in sized:
        yield f"len({at}) > 0" if items else f"len({at}) == 0"


def of_look(code: str, value: JSON, given: Mapping[str, str]) -> Iterator[str]:
    """The conditions that a result is as it was, of which nobody knows what was looked for.

    >>> [*of_look("door", {"open": True, "users": ["ann"]}, {"who": "bob"})]
    ['door["open"]', 'len(door["users"]) > 0', 'who not in door["users"]']
    """
    yield from same_state(code, value)
    yield from as_empty(code, value)
    for at, items in own_lists(code, value):
        if items and all(isinstance(item, str) for item in items):
            for name, text in given.items():
                yield f"{name} {'in' if text in items else 'not in'} {at}"


def same_words(code: str, value: JSON) -> Iterator[str]:
    """The conditions that the fields of a result which are one word are as they were."""
    for name, item in value.items() if isinstance(value, dict) else ():
        if isinstance(item, str) and _TOKEN.fullmatch(item):
            yield f"{code}[{_quoted(name)}] == {_quoted(item)}"


def is_name(field: str) -> bool:
    """Whether the code of a field names its item, so that no two items have the same."""
    return _NAME.search(field) is not None


def are_apart(items: Sequence[JSON], field: str) -> bool:
    """Whether no two items have the same in a field, which is written as code; False for other code.

    >>> are_apart([{"name": {"first": "ann"}}, {"name": {"first": "bob"}}], '["name"]["first"]')
    True
    """
    if _FIELDS.fullmatch(field) is None:
        return False
    values: Sequence[JSON] = items
    for _, name in _FIELD.findall(field):
        values = [item.get(name) if isinstance(item, dict) else None for item in values]
    return len({json.dumps(value) for value in values}) == len(items)


def same_order(code: str, value: JSON, given: Mapping[str, JSON]) -> Iterator[str]:
    """The conditions that numbers are zero or not as they were, and no less than given ones if so before.

    >>> [*same_order("shelf", {"stock": 7}, {"count": 3})]
    ['shelf["stock"] > 0', 'shelf["stock"] >= count']
    """
    for name, item in value.items() if isinstance(value, dict) else ():
        if not isinstance(item, int | float) or isinstance(item, bool):
            continue
        at = f"{code}[{_quoted(name)}]"
        yield f"{at} {'>' if item > 0 else '<='} 0"
        for other, number in given.items() if _AMOUNT.search(name) else ():
            if isinstance(number, int | float):
                yield f"{at} {'>=' if item >= number else '<'} {other}"


def alike(code: str, rows: list[JSON]) -> Iterator[str]:
    """The conditions that the items of a list are in states in which some were.

    >>> [*alike("doors", [{"open": True, "state": "new"}, {"open": True, "state": "old"}])]
    ['all(each["open"] for each in doors)', 'all(each["state"] in ["new", "old"] for each in doors)']
    """
    yield from _same_kind(code, "each", rows)
    tables = [cast("dict[str, JSON]", row) for row in rows if isinstance(row, dict)]
    for name in tables[0] if len(tables) == len(rows) and rows else ():
        values = [row.get(name) for row in tables]
        at = f"each[{_quoted(name)}]"
        if all(isinstance(value, bool) for value in values):
            if len({*map(str, values)}) == 1:
                yield f"all({'' if values[0] else 'not '}{at} for each in {code})"
        else:
            yield from _same_kind(code, at, values)
        if all(is_state(name, value) for value in values) and not isinstance(values[0], bool):
            seen = json.dumps([*dict.fromkeys(cast("list[str]", values))], ensure_ascii=False)
            yield f"all({at} in {seen} for each in {code})"


def same_item(code: str, items: Sequence[JSON], said: str = "") -> Iterator[str]:
    """The conditions that an item is in the state in which each was: flags, words, what is zero or empty.

    A text that the user has `said` is such a word.

    >>> [*same_item("door", [{"open": True, "steps": 0, "of": "o"}, {"open": True, "steps": 0, "of": "e"}])]
    ['door["open"]', 'door["steps"] == 0']
    """
    tables = [item for item in items if isinstance(item, dict)]
    for name in tables[0] if tables and len(tables) == len(items) else ():
        values, at = [table.get(name) for table in tables], f"{code}[{_quoted(name)}]"
        first = values[0]
        if any(value != first or type(value) is not type(first) for value in values):
            if all(isinstance(value, dict) for value in values):
                yield from same_item(at, values, said)
        elif isinstance(first, bool):
            yield at if first else f"not {at}"
        elif first in (0, None, "", []) or is_state(name, first) or _is_word_of(first, said):
            yield f"{at} == {first!r}" if not isinstance(first, str) else f"{at} == {_quoted(first)}"
        elif isinstance(first, dict):
            yield from same_item(at, values, said)
        if all(isinstance(value, list) and len(value) == 1 for value in values):
            yield from same_item(f"{at}[0]", [cast("list[JSON]", value)[0] for value in values], said)


def _is_word_of(value: JSON, said: str) -> bool:
    return (
        isinstance(value, str)
        and _TOKEN.fullmatch(value) is not None
        and re.search(rf"\b{re.escape(value.lower())}\b", said.lower()) is not None
    )


def all_empty(code: str, rows: Sequence[JSON]) -> Iterator[str]:
    """The conditions that what was empty in each item of a list is empty again.

    >>> [*all_empty("doors", [{"owner": None}, {"owner": ""}])]
    ['all(not each["owner"] for each in doors)']
    """
    tables = [row for row in rows if isinstance(row, dict)]
    for name in tables[0] if len(tables) == len(rows) and rows else ():
        if all(row.get(name) in (None, "", []) for row in tables):
            yield f"all(not each[{_quoted(name)}] for each in {code})"


def _same_kind(code: str, at: str, values: Sequence[JSON]) -> Iterator[str]:
    """The condition that the names of files are of the kind of which all were."""
    kinds = {found[1] if isinstance(one, str) and (found := _KIND.search(one)) else "" for one in values}
    if len(kinds) == 1 and (kind := kinds.pop()):
        yield f"all({at}.endswith({_quoted(kind)}) for each in {code})"


def is_whole(code: str, args: Mapping[str, JSON], value: JSON) -> Iterator[str]:
    """The conditions that a listing is all there is: no further page, and fewer items than were asked for."""
    if isinstance(value, dict):
        for name, item in value.items():
            if is_more(name) and (item is None or item is False or item == ""):
                yield f"not {code}[{_quoted(name)}]"
    for name, limit in args.items():
        if not isinstance(limit, int) or isinstance(limit, bool) or not _LIMIT.search(name):
            continue
        for at, items in own_lists(code, value):
            if len(items) < limit:
                yield f"len({at}) < {limit}"


def not_longer(code: str, calls: Sequence[tuple[Mapping[str, JSON], JSON]]) -> Iterator[str]:
    """The conditions that a listing has no further page, of which the recorded ones say nothing.

    Of a listing whose call names a page, and whose answer does not say how much there is, nobody knows more
    than that it was not longer; an answer with nothing but a list may have a cursor if there is more.

    >>> [*not_longer("doors", [({"page": 1}, [1, 2]), ({"page": 1}, [1])])]
    ['len(doors) <= 2']
    >>> [*not_longer("doors", [({}, {"total": 2, "items": [1, 2]}), ({}, {"total": 1, "items": [1]})])]
    ['doors["total"] <= len(doors["items"])']
    """
    every = [dict(all_lists(code, value)) for _, value in calls]
    names = [name for name in every[0] if all(name in one for one in every)] if every else []
    if len(names) != 1:
        return
    sizes = [len(one[names[0]]) for one in every]
    tables = [value for _, value in calls if isinstance(value, dict)]
    is_told = False
    for name in tables[0] if len(tables) == len(calls) else ():
        values, at = [table.get(name) for table in tables], f"{code}[{_quoted(name)}]"
        is_told |= is_more(name)
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            continue
        if COUNT.search(name) and values == sizes:
            is_told = True
            yield f"{at} <= len({names[0]})"
        elif _PAGES.search(name) and all(value in {0, 1} for value in values):
            is_told = True
            yield f"{at} <= 1"
    if not is_told and all(any(_PAGE.search(name) for name in args) for args, _ in calls):
        yield f"len({names[0]}) <= {max(sizes)}"
    elif not is_told and tables and all(len(table) == 1 for table in tables):
        yield f"len({code}) == 1"


def is_more(name: str) -> bool:
    """Whether a field says that there is more, or how to ask for it.

    >>> is_more("has_more"), is_more("name")
    (True, False)
    """
    return _MORE.search(name) is not None


def is_paging(name: str, value: JSON) -> bool:
    """Whether an argument asks for the first page, or says how much is listed at most."""
    if value == "":
        return is_more(name) or "token" in name.lower()
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return bool(_LIMIT.search(name)) or (
        re.fullmatch(r"page|offset|skip|start|page_number", name, re.IGNORECASE) is not None
        and value in (0, 1)
    )


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
