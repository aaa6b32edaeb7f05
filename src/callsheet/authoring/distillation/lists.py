"""The lists in the results of calls.

In: a value, and its code in a plan. Out: lists with their code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from callsheet.ir import JSON


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
