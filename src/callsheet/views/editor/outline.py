"""Document symbols and folding ranges of a plan: steps, groups, blocks of comments.

In: a `PlanDocument`. Out: symbols with their spans, nested once for groups; folding ranges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

from callsheet.diagnostics import Span
from callsheet.frontends.ltp.words import LABELLED, PARALLEL
from callsheet.frontends.spelling import Syntax
from callsheet.ir import Call, Step
from callsheet.views.columns import cut
from callsheet.views.describe import describe_action, describe_guard, describe_output
from callsheet.views.editor.document import PlanDocument

_MOST_DETAIL = 80
_CLOSING = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*\}")
_COMMENTS = re.compile(r"(?:^[ \t]*#[^\n]*\n?){2,}", re.MULTILINE)


class Shape(StrEnum):
    """The kind of a symbol."""

    CALL = "call"
    CONTROL = "control"
    GROUP = "group"
    UNREAD = "unread"


@dataclass(frozen=True, slots=True)
class Symbol:
    """An entry of the outline. `name_span` is the part of `span` that an editor selects."""

    name: str
    detail: str
    shape: Shape
    span: Span
    name_span: Span
    children: tuple[Symbol, ...] = ()


class Fold(NamedTuple):
    """A folding range; `is_comment` for comments."""

    span: Span
    is_comment: bool = False


def outline(document: PlanDocument) -> tuple[Symbol, ...]:
    """Returns the steps and groups of a document in text order, unreadable steps included.

    >>> from callsheet.views.editor.document import open_document
    >>> [(s.name, s.detail) for s in outline(open_document("S1: @A > $x\\nS2: @B ("))]
    [('S1', '@A > $x'), ('S2', 'cannot be read')]
    """
    symbols = [*_steps(document), *_unread(document)]
    symbols.sort(key=lambda symbol: symbol.span)
    return tuple(symbols)


def folds(document: PlanDocument) -> tuple[Fold, ...]:
    """Returns the folding ranges: groups and steps of several lines, and blocks of comments."""
    text = document.text
    stretches = [span for span, _ in _groups(document)]
    stretches += [step.span for step in document.steps if step.span is not None]
    folded = [Fold(span) for span in stretches if "\n" in text[slice(*span)]]
    if document.syntax is not Syntax.DAG:
        folded += [
            Fold(Span(match.start(), match.start() + len(match[0].rstrip())), is_comment=True)
            for match in _COMMENTS.finditer(text)
        ]
    return tuple(sorted(folded))


def _steps(document: PlanDocument) -> Iterator[Symbol]:
    spans = {members[0]: span for span, members in _groups(document)}
    numbered = enumerate(document.steps)
    for group, members in groupby(numbered, key=lambda item: item[1].group):
        listed = [(number, step) for number, step in members if step.span is not None]
        if not listed:
            continue
        children = tuple(_symbol(document, step) for _, step in listed)
        span = spans.get(listed[0][0])
        if group is None or span is None:
            yield from children
        else:
            count = f"{len(children)} step{'' if len(children) == 1 else 's'}"
            head = Span(span.start, min(span.start + len("@PARALLEL"), span.end))
            yield Symbol("@PARALLEL", count, Shape.GROUP, span, head, children)


def _symbol(document: PlanDocument, step: Step) -> Symbol:
    span = step.span or Span(0, 0)
    guard = describe_guard(step)
    what = f"{describe_action(step.action)} {describe_output(step)}".rstrip()
    detail = step.title or (f"{guard} THEN {what}" if guard else what)
    shape = Shape.CALL if isinstance(step.action, Call) else Shape.CONTROL
    named = step.id_span
    if named is None and document.text.startswith(step.id, span.start):
        named = Span(span.start, span.start + len(step.id))
    return Symbol(step.id, cut(detail, _MOST_DETAIL), shape, span, named or Span(span.start, span.start))


def _unread(document: PlanDocument) -> Iterator[Symbol]:
    for lost in document.lost:
        end = lost.start + len(document.text[slice(*lost)].rstrip())
        match = LABELLED.match(document.text, lost.start, end)
        span = Span(lost.start, max(end, lost.start))
        named = Span(*match.span(1)) if match is not None else Span(lost.start, lost.start)
        name = match[1] if match is not None else "step"
        yield Symbol(name, "cannot be read", Shape.UNREAD, span, named)


def _groups(document: PlanDocument) -> Iterator[tuple[Span, list[int]]]:
    """Yields span and step numbers of each group; the span ends with the closing brace if there is one."""
    text, steps = document.text, document.steps
    before = 0
    for group, members in groupby(range(len(steps)), key=lambda number: steps[number].group):
        numbers = [*members]
        first, last = steps[numbers[0]].span, steps[numbers[-1]].span
        if first is None or last is None:
            continue
        if group is not None:
            openings = [match.start() for match in PARALLEL.finditer(text, before, first.start)]
            start = openings[-1] if openings else first.start
            closing = _CLOSING.match(text, last.end)
            yield Span(start, last.end if closing is None else closing.end()), numbers
        before = last.end
