"""The lists in the results of calls, also the lines of a text, the rows of a table in one, lists in lists.

In: a value, and its code in a plan. Out: lists with their code, of one length if a loop goes over them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import cast

from callsheet.ir import JSON

_MOST_LINES = 500
_PREFIX = re.compile(r"[^\w\s]\S*[ \t]+")
"""How the lines of a listing begin that has a kind before each name, as `[FILE] a.txt`."""
_KIND = re.compile(r"[A-Za-z]+:?[ \t]+")
"""The same, where words tell the kind, as `FAIL test_a`."""


def tables_in(code: str, value: JSON) -> Iterator[tuple[str, list[JSON]]]:
    """The lists of several objects in a value, or of one, with their code."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from tables_in(f"{code}[{json.dumps(key, ensure_ascii=False)}]", item)
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        yield code, value


def own_lists(code: str, value: JSON) -> Iterator[tuple[str, list[JSON]]]:
    """A list itself, or the lists in the fields of an object, with their code."""
    if isinstance(value, list):
        yield code, value
    for key, item in value.items() if isinstance(value, dict) else ():
        if isinstance(item, list):
            yield f"{code}[{json.dumps(key, ensure_ascii=False)}]", item


def all_lists(code: str, value: JSON) -> Iterator[tuple[str, list[JSON]]]:
    """The lists in a value, with their code."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from all_lists(f"{code}[{json.dumps(key, ensure_ascii=False)}]", item)
    elif isinstance(value, list):
        yield code, value


def _flat(code: str, value: list[JSON]) -> Iterator[tuple[str, list[JSON]]]:
    """The items of the lists in a list, or in a field of its objects."""
    if value and all(isinstance(item, list) for item in value):
        yield (
            f"[item for each in {code} for item in each]",
            [*chain.from_iterable(cast("list[list[JSON]]", value))],
        )
    rows = [item for item in value if isinstance(item, dict)]
    for name in rows[0] if rows and len(rows) == len(value) else ():
        if all(isinstance(row.get(name), list) for row in rows):
            inner = f"each[{json.dumps(name, ensure_ascii=False)}]"
            items = chain.from_iterable(cast("list[JSON]", row[name]) for row in rows)
            yield f"[item for each in {code} for item in {inner}]", [*items]


def _once(code: str, value: list[JSON]) -> Iterator[tuple[str, list[JSON]]]:
    """What the objects of a list have in a field, each only once, where some have the same."""
    rows = [item for item in value if isinstance(item, dict)]
    for name in rows[0] if rows and len(rows) == len(value) else ():
        if all(isinstance(row.get(name), str) for row in rows):
            items = [*dict.fromkeys(row[name] for row in rows)]
            if len(items) < len(rows):
                yield (
                    f"[*dict.fromkeys(each[{json.dumps(name, ensure_ascii=False)}] for each in {code})]",
                    items,
                )


def without_tables(value: JSON) -> JSON:
    """A value without its lists of objects."""
    if isinstance(value, dict):
        kept = {key: without_tables(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item != []}
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return []
    return value


def lists_in(
    code: str, value: JSON, length: int, is_named: Callable[[str], bool] = lambda word: False
) -> Iterator[tuple[str, list[JSON]]]:
    """The lists of this length in a value, with their code; the lines of a text count as a list.

    So do the lines of one kind, which a sign before each tells, or a word that the user's words name.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            yield from lists_in(f"{code}[{json.dumps(key, ensure_ascii=False)}]", item, length, is_named)
    elif isinstance(value, list):
        if len(value) == length:
            yield code, value
        yield from ((at, items) for at, items in _flat(code, value) if len(items) == length)
        yield from ((at, items) for at, items in _once(code, value) if len(items) == length)
    elif isinstance(value, str) and "\n" in value:
        lines = [line for line in value.splitlines() if line.strip()]
        if len(lines) > _MOST_LINES:
            return
        header = lines[0].split(",")
        if (
            len(lines) == length + 1
            and len(header) > 1
            and all(line.count(",") == lines[0].count(",") for line in lines)
        ):
            split = f'{code}.splitlines()[0].split(",")'
            rows: list[JSON] = [dict(zip(header, line.split(","), strict=True)) for line in lines[1:]]
            kept = f"for each in {code}.splitlines()[1:] if each.strip()"
            yield f'[dict(zip({split}, each.split(","))) {kept}]', rows
        if len(lines) == length:
            yield f"[each for each in {code}.splitlines() if each.strip()]", cast("list[JSON]", lines)
        kinds = [found[0] for line in lines if (found := _PREFIX.match(line) or _KIND.match(line))]
        for prefix in dict.fromkeys(kinds):
            if _PREFIX.match(prefix) is None and not is_named(prefix.strip(": \t")):
                continue
            rest = [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
            if len(rest) == length:
                quoted = json.dumps(prefix, ensure_ascii=False)
                kept = f"for each in {code}.splitlines() if each.startswith({quoted})"
                yield f"[each.removeprefix({quoted}) {kept}]", cast("list[JSON]", rest)
