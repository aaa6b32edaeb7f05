"""Finds where a name is set and used: go to definition, references, highlights.

In: a document and an offset. Out: spans or occurrences, in text order.
"""

from __future__ import annotations

from typing import NamedTuple

from callsheet.diagnostics import Span
from callsheet.frontends.spelling import Syntax
from callsheet.ir import Step
from callsheet.ir.flow import flow_of
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.occurrences import Kind, Occurrence, Role, occurrence_at, occurrences, same


class Named(NamedTuple):
    """The occurrence at an offset, and all occurrences of the same entity."""

    here: Occurrence
    all: tuple[Occurrence, ...]

    @property
    def writes(self) -> tuple[Occurrence, ...]:
        """The occurrences that set it."""
        return tuple(o for o in self.all if o.role is Role.WRITE)

    @property
    def reads(self) -> tuple[Occurrence, ...]:
        """The occurrences that use it."""
        return tuple(o for o in self.all if o.role is Role.READ)


def named_at(document: PlanDocument, offset: int) -> Named | None:
    """Returns the variable or step id at an offset, or None if there is none."""
    places = occurrences(document)
    occurrence = occurrence_at(places, offset)
    return None if occurrence is None else Named(occurrence, same(places, occurrence.entity))


def definitions_at(document: PlanDocument, offset: int) -> tuple[Span, ...]:
    """Returns the definitions of the name at an offset; for a read, those that can reach it.

    Definitions that cannot reach the read, such as overwritten ones, are left out; if none is left, all are
    returned.

    >>> from callsheet.views.editor.document import open_document
    >>> text = 'S1: @A > $x\\nS2: @B > $x\\nS3: @RESPOND ($x)'
    >>> definitions_at(open_document(text), text.rindex("x"))
    (Span(start=22, end=23),)
    """
    named = named_at(document, offset)
    if named is None:
        return ()
    writes = named.writes
    occurrence = named.here
    if occurrence.entity.kind is Kind.STEP and not writes:
        counted = counted_step(document, occurrence.entity.name)
        return () if counted is None or counted.span is None else (counted.span,)
    if (
        occurrence.role is Role.READ
        and occurrence.entity.kind is Kind.VARIABLE
        and occurrence.step is not None
    ):
        reaching = _reaching(document, occurrence.entity.name, occurrence.step)
        writes = tuple(w for w in writes if w.step is None or w.step in reaching) or writes
    return tuple(write.span for write in writes)


def counted_step(document: PlanDocument, name: str) -> Step | None:
    """Returns the step with this id in Micro-CLI, whose ids are implicit; otherwise None."""
    return document.partial.step(name) if document.syntax is Syntax.MICRO else None


def references_at(
    document: PlanDocument, offset: int, *, with_definitions: bool = True
) -> tuple[Occurrence, ...]:
    """Returns all occurrences of the name at an offset; without definitions, only its uses."""
    named = named_at(document, offset)
    if named is None:
        return ()
    return named.all if with_definitions else named.reads


def _reaching(document: PlanDocument, name: str, reader: int) -> frozenset[int]:
    """Returns the steps whose definitions of a variable reach a step (reaching definitions)."""
    flow = flow_of(document.partial)
    committed: dict[int, list[int]] = {}
    stops: set[int] = set()
    for definition in flow.definitions.get(name, ()):
        committed.setdefault(definition.committed, []).append(definition.step)
        if definition.sure:
            stops.add(definition.committed)
    first = reader
    while first > 0 and flow.group_end[first - 1] == flow.group_end[reader]:
        first -= 1
    steps: set[int] = set()
    seen: set[int] = set()
    stack = [*flow.predecessors[first]]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        steps.update(committed.get(node, ()))
        if node not in stops:
            stack.extend(flow.predecessors[node])
    return frozenset(steps)
