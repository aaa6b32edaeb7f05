"""Classifies the variables that a step reads by use: arguments, content tests, emptiness tests, loop source.

In: a step. Out: names of variables. The loop variable stands for the loop's source.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from callsheet.ir import (
    And,
    Compare,
    Condition,
    IsEmpty,
    Literal,
    Not,
    NotEmpty,
    Or,
    Ref,
    Step,
    Template,
    Value,
)
from callsheet.ir.expr import refs_of
from callsheet.policy.calls import bare


class Reading(NamedTuple):
    """The variables that a step reads, each once per use.

    `contents` are tested by content, `emptiness` only for being empty. `failure` are those of the failure
    message. Reading the loop variable `loop` means reading `source`.
    """

    arguments: tuple[str, ...]
    contents: tuple[str, ...]
    emptiness: tuple[str, ...]
    source: tuple[str, ...]
    failure: tuple[str, ...]
    loop: str | None

    def names(self) -> tuple[str, ...]:
        """All variables that are read, each once."""
        arguments, contents, emptiness, source, failure, _ = self
        if not (contents or emptiness or source or failure):
            return arguments
        return tuple(dict.fromkeys((*arguments, *contents, *emptiness, *source, *failure)))

    def outer(self, names: Iterable[str]) -> Iterable[str]:
        """The names with the loop variable replaced by the variables of its source."""
        if self.loop is None:
            return names
        return [outer for name in names for outer in (self.source if name == self.loop else (name,))]


def reading_of(step: Step) -> Reading:
    """Classify what a step reads."""
    arguments = _names(step.values())
    loop: str | None = None
    source: tuple[str, ...] = ()
    if step.foreach is not None:
        loop, source = step.foreach.var, _names((step.foreach.source,))
    contents: list[Value] = []
    emptiness: list[Value] = []
    if step.condition is not None:
        _split(step.condition, contents, emptiness)
    failure: tuple[str, ...] = ()
    if step.on_fail is not None:
        own_output = step.output.var if step.output is not None else None
        failure = tuple(name for name in _names(step.failure_values()) if name != own_output)
    tested, asked = _names(contents) if contents else (), _names(emptiness) if emptiness else ()
    return bare(Reading, (arguments, tested, asked, source, failure, loop))


def _names(values: Iterable[Value]) -> tuple[str, ...]:
    names: list[str] = []
    for value in values:
        if isinstance(value, Ref):
            names.append(value.name)
        elif isinstance(value, Template):
            names += [part.name for part in value.parts if isinstance(part, Ref)]
        elif not isinstance(value, Literal):
            names += [ref.name for ref in refs_of(value)]
    return tuple(names) if len(names) < 2 else tuple(dict.fromkeys(names))


def _split(condition: Condition, contents: list[Value], emptiness: list[Value]) -> None:
    match condition:
        case Compare(left=left, right=right):
            contents += (left, right)
        case IsEmpty(value=value) | NotEmpty(value=value):
            emptiness.append(value)
        case Not(condition=inner):
            _split(inner, contents, emptiness)
        case And(conditions=conditions) | Or(conditions=conditions):
            for inner in conditions:
                _split(inner, contents, emptiness)
