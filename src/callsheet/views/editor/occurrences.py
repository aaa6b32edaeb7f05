"""Finds every occurrence of a variable or step name in a document, resolved to what it refers to.

In: a `PlanDocument`. Out: occurrences in text order. The scope of a loop variable is its own step, where it
hides a variable of the same name; the scope of all other names is the whole plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from callsheet.diagnostics import Span
from callsheet.frontends.ltp.words import BOLD_LABEL, LABELLED
from callsheet.frontends.spelling import Syntax
from callsheet.frontends.values.reader import NAME
from callsheet.ir import Goto, Output, Ref, Step
from callsheet.ir.expr import refs_of
from callsheet.views.editor.document import PlanDocument


class Role(StrEnum):
    """The role of an occurrence."""

    WRITE = "write"
    """It defines the name: the output of a step, a loop variable, a step's own id."""
    READ = "read"
    """It uses the name: a reference, the target of a jump, a dependency."""


class Kind(StrEnum):
    """The kind of a named entity."""

    VARIABLE = "variable"
    STEP = "step"


class Entity(NamedTuple):
    """A named entity. `loop` is the number of the step whose loop variable it is, None for others."""

    kind: Kind
    name: str
    loop: int | None = None


class Occurrence(NamedTuple):
    """An occurrence of a name: `span` is that of the name alone, without `$` and braces.

    `step` is the number of the step that contains it, None in an unreadable one.
    """

    entity: Entity
    role: Role
    span: Span
    step: int | None


_LOST_NAME = re.compile(rf"(?P<out>>[ \t]*)?\$\{{?(?P<name>{NAME})|\bGOTO[ \t]+(?P<target>[A-Za-z_][\w-]*)")
_LOST_LABEL = re.compile(r"[ \t]*([A-Za-z_][A-Za-z0-9_-]*)[ \t]*:(?![:/])")


def occurrences(document: PlanDocument) -> tuple[Occurrence, ...]:
    """Returns all occurrences, in text order.

    >>> from callsheet.views.editor.document import open_document
    >>> text = 'S1: @A > $x\\nS2: @RESPOND ("$x")'
    >>> found = [o for o in occurrences(open_document(text)) if o.entity.kind is Kind.VARIABLE]
    >>> [(o.entity.name, str(o.role), text[slice(*o.span)]) for o in found]
    [('x', 'write', 'x'), ('x', 'read', 'x')]
    """
    places: list[Occurrence] = []
    for number, step in enumerate(document.steps):
        places += _of_step(document, number, step)
    for span in document.lost:
        places += _of_lost(document.text, span)
    places.sort(key=lambda occurrence: occurrence.span)
    return tuple(places)


def occurrence_at(places: tuple[Occurrence, ...], offset: int) -> Occurrence | None:
    """Returns the occurrence at an offset, which may also be the end of the name or the `$` before it."""
    near = [o for o in places if o.span.start - 1 <= offset <= o.span.end]
    inside = [o for o in near if o.span.start <= offset < o.span.end]
    return next(iter(inside or near), None)


def same(places: tuple[Occurrence, ...], entity: Entity) -> tuple[Occurrence, ...]:
    """Returns the occurrences of one entity."""
    return tuple(occurrence for occurrence in places if occurrence.entity == entity)


def _of_step(document: PlanDocument, number: int, step: Step) -> Iterator[Occurrence]:
    text = document.text
    yield from _own_id(document, number, step)
    own = step.foreach.var if step.foreach is not None else None
    if step.foreach is not None and step.foreach.span is not None:
        loop = _find(text, rf"\$?({re.escape(step.foreach.var)})(?=[ \t\r\n]+(?i:IN)\b)", step.foreach.span)
        if loop is not None:
            yield Occurrence(Entity(Kind.VARIABLE, step.foreach.var, number), Role.WRITE, loop, number)
        for ref in refs_of(step.foreach.source):
            yield from _read(text, ref, None, number)
    inner = [] if step.condition is None else [*refs_of(step.condition)]
    for value in (*step.values(), *step.failure_values()):
        inner += refs_of(value)
    for ref in inner:
        yield from _read(text, ref, number if ref.name == own else None, number)
    if step.output is not None:
        yield from _written(text, step.output, number)
    then = step.on_fail.then if step.on_fail is not None else None
    for jump in (step.action, then):
        if isinstance(jump, Goto) and jump.span is not None:
            at = text.rfind(jump.target, *jump.span)
            if at >= 0:
                span = Span(at, at + len(jump.target))
                yield Occurrence(Entity(Kind.STEP, jump.target), Role.READ, span, number)
    for target, span in zip(step.depends_on or (), step.depends_spans, strict=False):
        inside = _within(text, target, span)
        if inside is not None:
            yield Occurrence(Entity(Kind.STEP, target), Role.READ, inside, number)


def _own_id(document: PlanDocument, number: int, step: Step) -> Iterator[Occurrence]:
    if step.span is None:
        return
    span = None
    if step.id_span is not None:
        span = _within(document.text, step.id, step.id_span)
    elif document.syntax is Syntax.LTP:
        for pattern in (LABELLED, BOLD_LABEL):
            match = pattern.match(document.text, step.span.start)
            if match is not None and match[1] == step.id:
                span = Span(*match.span(1))
                break
    if span is not None:
        yield Occurrence(Entity(Kind.STEP, step.id), Role.WRITE, span, number)


def _read(text: str, ref: Ref, loop: int | None, number: int) -> Iterator[Occurrence]:
    if ref.span is None:
        return
    start = ref.span.start
    if text[start : start + 1] == "$":
        start += 2 if text[start + 1 : start + 2] == "{" else 1
    span = Span(start, start + len(ref.name))
    if text[slice(*span)] == ref.name:
        yield Occurrence(Entity(Kind.VARIABLE, ref.name, loop), Role.READ, span, number)


def _written(text: str, output: Output, number: int) -> Iterator[Occurrence]:
    if output.span is None:
        return
    span = _find(text, rf"({re.escape(output.var)})(?![A-Za-z0-9_])", output.span)
    if span is not None:
        yield Occurrence(Entity(Kind.VARIABLE, output.var), Role.WRITE, span, number)


def _find(text: str, pattern: str, span: Span) -> Span | None:
    match = re.compile(pattern).search(text, *span)
    return None if match is None else Span(*match.span(1))


def _within(text: str, name: str, span: Span) -> Span | None:
    """Returns the span of a name inside the span of its value, without quotes."""
    at = text.find(name, *span)
    return None if at < 0 else Span(at, at + len(name))


def _of_lost(text: str, lost: Span) -> Iterator[Occurrence]:
    """Yields the names in an unreadable step, found lexically."""
    label = _LOST_LABEL.match(text, *lost)
    if label is not None:
        yield Occurrence(Entity(Kind.STEP, label[1]), Role.WRITE, Span(*label.span(1)), None)
    for match in _LOST_NAME.finditer(text, *lost):
        name = "target" if match["name"] is None else "name"
        kind = Kind.STEP if name == "target" else Kind.VARIABLE
        role = Role.WRITE if match["out"] is not None else Role.READ
        yield Occurrence(Entity(kind, match[name]), role, Span(*match.span(name)), None)
