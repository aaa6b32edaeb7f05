"""Determines statically which variables a step reads: which path in each, and in what role.

In: a step and its compiled form. Out: its uses of variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple, TypeAlias, assert_never

from callsheet.ir import (
    JSON,
    DictExpr,
    ListExpr,
    Literal,
    PathPart,
    Ref,
    Step,
    Template,
    Value,
)
from callsheet.ir.expr import refs_of
from callsheet.machine.program import StepCode
from callsheet.machine.values import parse_json

Path: TypeAlias = "tuple[PathPart, ...]"


class Role(StrEnum):
    """What a variable is read for."""

    ARGUMENT = "argument"
    CONDITION = "condition"
    SOURCE = "source"
    """What a FOREACH iterates over; a list literal has no such use, only those of its members."""
    MESSAGE = "message"
    """The message of ON_FAIL TERMINATE, read when the step fails."""


class Computed(NamedTuple):
    """A key that a variable holds, at a path in it: that of `$map[$key.id]`."""

    name: str
    path: Path


Place: TypeAlias = "tuple[PathPart | Computed, ...]"
"""A path in a variable, some of whose keys are known only when it is read."""


class Use(NamedTuple):
    """A step's use of a variable; `argument` is the name of the argument it is part of, else empty.

    `rest` continues the path, from the first key on that is known only when it is read.
    """

    role: Role
    argument: str
    name: str
    path: Path
    rest: Place = ()


class Reads(NamedTuple):
    """All that a step reads. `names` has each variable once; `loop` and `source` are those of its FOREACH."""

    names: tuple[str, ...]
    uses: tuple[Use, ...]
    literals: tuple[tuple[str, JSON], ...]
    """The arguments without variables, by name."""
    loop: str
    source: Value | None


def reads_of(step: Step, code: StepCode) -> Reads:
    """What a step reads."""
    uses: list[Use] = []
    literals: list[tuple[str, JSON]] = []
    if step.foreach is not None and not isinstance(step.foreach.source, ListExpr):
        uses += _uses(Role.SOURCE, "", step.foreach.source)
    if step.condition is not None:
        uses += [Use(Role.CONDITION, "", ref.name, ref.path) for ref in refs_of(step.condition)]
    for name, value in _arguments(step, code):
        uses_of_value = list(_uses(Role.ARGUMENT, name, value))
        uses += uses_of_value
        if not uses_of_value:
            literals.append((name, literal(value)))
    role = Role.MESSAGE if step.after_failure.leaves else Role.ARGUMENT  # else they make the result
    for value in step.failure_values():
        uses += _uses(role, "", value)
    loop = "" if step.foreach is None else step.foreach.var
    source = None if step.foreach is None else step.foreach.source
    named = [use.name for use in uses if use.name != loop or use.role is Role.SOURCE]
    named += [] if source is None else [ref.name for ref in refs_of(source)]
    names = tuple(dict.fromkeys(named))
    return Reads(names, tuple(dict.fromkeys(uses)), tuple(literals), loop, source)


def _arguments(step: Step, code: StepCode) -> tuple[tuple[str, Value], ...]:
    """The arguments of an action by name; positional ones of a model's operation by their number."""
    return code.written if step.call is not None else tuple(("", value) for value in step.values())


def _uses(role: Role, argument: str, value: Value) -> Iterator[Use]:
    for ref in refs_of(value):
        yield Use(role, argument, ref.name, ref.path)


def literal(value: Value) -> JSON:
    """The JSON of a value without references; null for a reference or a template."""
    match value:
        case Literal(value=scalar):
            return scalar
        case ListExpr(items=items):
            return [literal(item) for item in items]
        case DictExpr(items=pairs):
            return {name: literal(item) for name, item in pairs}
        case Ref() | Template():
            return None
    assert_never(value)


def located(value: Value, path: Path) -> Iterator[tuple[str, Path]]:
    """The variables, and the paths in them, from which the part at `path` of a value is made.

    >>> list(located(DictExpr((("a", Ref("x", ("k",))), ("b", Ref("y")))), ("a", 0)))
    [('x', ('k', 0))]
    """
    match value:
        case Literal():
            return
        case Ref(name=name, path=own):
            yield name, own + path
        case Template(parts=parts):
            yield from ((part.name, part.path) for part in parts if isinstance(part, Ref))
        case ListExpr(items=items):
            at = path[0] if path else None
            if isinstance(at, int) and -len(items) <= at < len(items):
                yield from located(items[at], path[1:])
            else:
                for item in items:
                    yield from located(item, ())
        case DictExpr(items=pairs):
            named = dict(pairs)
            inside = named.get(str(path[0])) if path else None
            if inside is not None:
                yield from located(inside, path[1:])
            else:
                for _, item in pairs:
                    yield from located(item, ())


def element(source: Value, index: int, path: Path, *, has_members: bool) -> tuple[tuple[str, Path], ...]:
    """The variables and paths from which the part at `path` of a FOREACH's item is made.

    `has_members` if the source was a list; any other source is its own only item.
    """
    if isinstance(source, Ref):
        return ((source.name, source.path + ((index, *path) if has_members else path)),)
    if isinstance(source, ListExpr):
        return tuple(located(source, (index, *path)))
    if isinstance(source, DictExpr):
        return tuple(located(source, path))
    return tuple(located(source, ()))


def is_list(value: JSON) -> bool:
    """Whether FOREACH iterates over the members of this value, rather than taking it as its only item."""
    if isinstance(value, str):
        is_json, parsed = parse_json(value)
        return is_json and isinstance(parsed, list)
    return isinstance(value, list)


def overlap(one: Path, other: Path) -> bool:
    """Whether one of two paths in a value is a prefix of the other."""
    return all(str(a) == str(b) for a, b in zip(one, other, strict=False))
