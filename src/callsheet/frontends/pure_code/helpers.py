"""The helpers of lowered programs: which definitions a program needs, from `helpers.monty`.

In: names. Out: their definitions and those that they need, in the order of the file. The file is Python of
the executor, which CPython never runs: what the executor lacks or what differs from CPython 3.12.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

NOT_A_VALUE: Final = "\x00not a value:"
"""What an error's message starts with where an output is no value; a name and a type follow."""
RAISED: Final = "\x00raised:"
"""What a message starts with that stands for an exception of the program's own class; a number follows."""
PREFIX: Final = "_cs_"
"""What the names of helpers start with; a program may not use such names."""
_ALWAYS: Final = ("_cs_give",)
_ENTITIES: Final = "_cs_entities"


class _Definition(NamedTuple):
    """One definition of the file: its place in the order, its text, and the helpers that it names."""

    order: int
    text: str
    needs: frozenset[str]


def helpers_text(names: Iterable[str]) -> str:
    """The definitions of some helpers, with what they need, as text of the executor."""
    return _text_of(frozenset(names) | set(_ALWAYS))


def has_helper(name: str) -> bool:
    """Whether there is a helper of a name."""
    return name in _definitions()


def _entities() -> str:
    """What the names of characters in HTML mean."""
    from html.entities import html5  # noqa: PLC0415 - a large table, of which few programs know

    return f"{_ENTITIES} = {html5!r}"


@cache
def _text_of(names: frozenset[str]) -> str:
    known = _definitions()
    wanted, todo = dict[str, _Definition](), list(names)
    while todo:
        name = todo.pop()
        if name == _ENTITIES and name not in wanted:
            wanted[name] = _Definition(-1, _entities(), frozenset())
        elif name not in wanted and name in known:
            wanted[name] = known[name]
            todo.extend(known[name].needs)
    return "\n".join(one.text for one in sorted(set(wanted.values()), key=lambda one: one.order))


@cache
def _definitions() -> Mapping[str, _Definition]:
    source = files(__package__ or "").joinpath("helpers.monty").read_text(encoding="utf-8")
    lines = source.split("\n")
    found: dict[str, _Definition] = {}
    for order, statement in enumerate(ast.parse(source).body):
        used = {
            node.id
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and node.id.startswith(PREFIX)
        }
        one = _Definition(
            order, "\n".join(lines[statement.lineno - 1 : statement.end_lineno]), frozenset(used)
        )
        for name in _defined(statement):
            found[name] = one
    return found


def _defined(statement: ast.stmt) -> Iterable[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return (statement.name,)
    if isinstance(statement, ast.Import):
        return (alias.asname or alias.name for alias in statement.names)
    if isinstance(statement, ast.Assign):
        return (target.id for target in statement.targets if isinstance(target, ast.Name))
    return ()
