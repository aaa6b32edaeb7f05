"""The table of what pure code may call: builtins, methods of types and members of modules, with their forms.

It is generated (`benchmarks/pure_code`) from programs that CPython 3.12 and the pinned interpreter ran alike,
after lowering. A form is how many positional arguments a call has, and the names of the others.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """How something may be called: the numbers of positional arguments, and the names of keyword arguments.

    A constant, and a type that is only named, have no forms. `more` allows any larger number, `any_keywords`
    any names.
    """

    positional: frozenset[int]
    keywords: frozenset[str]
    more: bool = False
    any_keywords: bool = False

    def allows(self, call: ast.Call, skipped: int = 0) -> bool:
        """Whether a call has a known form; `*` stands for any number. `skipped` arguments do not count."""
        if not self.positional and not self.keywords:
            return True
        words = all(
            word.arg is None or self.any_keywords or word.arg in self.keywords for word in call.keywords
        )
        if any(isinstance(argument, ast.Starred) for argument in call.args):
            return words
        number = len(call.args) - skipped
        return words and (number in self.positional or (self.more and number > max(self.positional)))

    def __str__(self) -> str:
        """The forms in words, such as `1 or 2 arguments, key=, reverse=`."""
        numbers = " or ".join(map(str, sorted(self.positional))) + (" or more" if self.more else "")
        words = [f"{numbers} argument{'' if numbers == '1' else 's'}"] if numbers else []
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


def _entry(data: Mapping[str, Any]) -> Entry:
    return Entry(
        frozenset(data.get("positional", ())),
        frozenset(data.get("keywords", ())),
        data.get("more", False),
        data.get("any_keywords", False),
    )
