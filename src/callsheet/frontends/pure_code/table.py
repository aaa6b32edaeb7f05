"""The table of what pure code may call: builtins, methods of each type and members of modules, with their forms.

It is generated (`benchmarks/pure_code`) from programs that CPython 3.12 and the pinned interpreter ran alike,
after lowering. A form is how many positional arguments a call has, and the names of the others.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Entry(NamedTuple):
    """How something may be called: the numbers of positional arguments, and the names of keyword arguments.

    A constant and a type that is only named have no forms.
    """

    positional: frozenset[int]
    keywords: frozenset[str]

    def allows(self, call: ast.Call, skipped: int = 0) -> bool:
        """Whether a call has a known form; one with `*` or `**` has any. `skipped` arguments do not count."""
        if any(isinstance(argument, ast.Starred) for argument in call.args):
            return all(word.arg is None or word.arg in self.keywords for word in call.keywords)
        number = len(call.args) - skipped
        most = max(self.positional, default=0)
        fits = number in self.positional or (number < most and bool(call.keywords))
        return fits and all(word.arg is None or word.arg in self.keywords for word in call.keywords)

    def __str__(self) -> str:
        """The form in words, such as `1 or 2 arguments, key=, reverse=`."""
        numbers = " or ".join(map(str, sorted(self.positional)))
        words = [f"{numbers} argument{'' if numbers == '1' else 's'}"]
        return ", ".join([*words, *(f"{word}=" for word in sorted(self.keywords))])


class Table(NamedTuple):
    """What is understood; methods are by name, and then by type."""

    interpreter: str
    builtins: Mapping[str, Entry]
    methods: Mapping[str, Mapping[str, Entry]]
    modules: Mapping[str, Mapping[str, Entry]]


@cache
def understood() -> Table:
    """The table, as it was generated for the pinned interpreter."""
    data = json.loads(files(__package__ or "").joinpath("understood.json").read_text(encoding="utf-8"))
    methods: dict[str, dict[str, Entry]] = {}
    for name, entry in data["methods"].items():
        owner, _, method = name.partition(".")
        methods.setdefault(method, {})[owner] = _entry(entry)
    modules = {
        module: {name: _entry(entry) for name, entry in members.items()}
        for module, members in data["modules"].items()
    }
    builtins = {name: _entry(entry) for name, entry in data["builtins"].items()}
    return Table(data["interpreter"], builtins, methods, modules)


def _entry(data: Mapping[str, list[int] | list[str]]) -> Entry:
    return Entry(
        frozenset(int(number) for number in data.get("positional", [])),
        frozenset(str(word) for word in data.get("keywords", [])),
    )
