"""Annotations of a document: inlay hints about concurrency and labels, and semantic tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from callsheet.diagnostics import Span
from callsheet.frontends.spelling import Syntax
from callsheet.ir import CallKind, Effect, Order, Step
from callsheet.ir.graphs import Precedence
from callsheet.machine.ahead.waits import StepSchedule
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.knowledge import NOTHING, Knowledge
from callsheet.views.editor.occurrences import Kind, Role, occurrences
from callsheet.views.highlight.rules import RULES, Piece, Scope, scan

_MOST_STEPS = 2_000
"""Longer plans have no hints of concurrency, whose cost is quadratic in their length."""
_MOST_NAMES = 3


class About(StrEnum):
    """The subject of a hint."""

    ORDER = "order"
    LABEL = "label"


class Hint(NamedTuple):
    """A short text at an offset, and its tooltip."""

    offset: int
    text: str
    about: About
    tip: str


def hints_in(document: PlanDocument, known: Knowledge, within: Span | None = None) -> tuple[Hint, ...]:
    """Returns the hints in a range, in text order; none if the plan has an error.

    >>> from callsheet.views.editor.document import open_document
    >>> from callsheet.machine.ahead.waits import schedule_of
    >>> document = open_document("S1: @LLM_EXTRACT ($a) > $x\\nS2: @LLM_EXTRACT ($b) > $y")
    >>> known = Knowledge(schedule={s.step: s for s in schedule_of(document.partial, {})})
    >>> [hint.text for hint in hints_in(document, known)]
    ['∥ S2', '∥ S1']
    """
    if document.plan is None:
        return ()
    stretch = within or Span(0, len(document.text))
    if document.plan.tree is not None:
        from callsheet.views.editor.python import hints_in_blocks  # noqa: PLC0415 - only for plans with blocks

        return tuple(sorted(hints_in_blocks(document, known, stretch), key=lambda hint: hint.offset))
    hints = [*_labels(document, known, stretch), *_order(document, known, stretch)]
    return tuple(sorted(hints, key=lambda hint: hint.offset))


def concurrent_steps(document: PlanDocument, known: Knowledge) -> list[list[int]]:
    """Returns for each step the numbers of those that may run at the same time."""
    count = len(document.steps)
    before = _waited_for(document, known.schedule)
    together: list[list[int]] = [[] for _ in range(count)]
    for number in range(count):
        for other in range(number):
            if not before[number] >> other & 1 and not before[other] >> number & 1:
                together[number].append(other)
                together[other].append(number)
    return together


def _waited_for(document: PlanDocument, schedule: Mapping[str, StepSchedule]) -> list[int]:
    """Returns for each step the bit set of the steps that it waits for, directly or transitively."""
    steps = document.steps
    number_of = {step.id: number for number, step in reversed([*enumerate(steps)])}
    sets: list[int] = [0] * len(steps)
    for number in _in_order(document):
        planned = schedule.get(steps[number].id)
        if planned is None or planned.turn:
            sets[number] = (1 << _group_start(document, number)) - 1
            continue
        for wait in planned.waits:
            other = number_of.get(wait.step)
            if other is not None and other != number:
                sets[number] |= sets[other] | 1 << other
    return sets


def _in_order(document: PlanDocument) -> list[int]:
    """Returns the steps in topological order."""
    if document.partial.order is Order.TEXT:
        return [*range(len(document.steps))]
    return [number for level in Precedence.of(document.partial).levels() for number in level]


def _group_start(document: PlanDocument, number: int) -> int:
    group = document.steps[number].group
    while group is not None and number and document.steps[number - 1].group == group:
        number -= 1
    return number


def _order(document: PlanDocument, known: Knowledge, stretch: Span) -> Iterator[Hint]:
    steps = document.steps
    together: list[list[int]] = [[] for _ in steps]
    if known.schedule and len(steps) <= _MOST_STEPS:
        together = concurrent_steps(document, known)
    for step, others in zip(steps, together, strict=True):
        if step.span is None or not _inside(step.span.end, stretch):
            continue
        names = [steps[other].id for other in others[:_MOST_NAMES]]
        more = [f"+{len(others) - _MOST_NAMES}"] if len(others) > _MOST_NAMES else []
        items = ["items"] if _runs_items_together(step, known) else []
        if names or items:
            planned = known.schedule.get(step.id)
            tip = "may run concurrently" + (f"; {planned.describe()}" if planned is not None else "")
            yield Hint(step.span.end, "∥ " + ", ".join([*items, *names, *more]), About.ORDER, tip)


def _runs_items_together(step: Step, known: Knowledge) -> bool:
    """Whether the items of a loop may run concurrently."""
    if step.foreach is None or step.call is None:
        return False
    if step.call.kind in (CallKind.MODEL, CallKind.HUMAN):
        return True
    spec = known.tools.get(step.call.tool)
    return spec is not None and (spec.effect.only_reads or spec.effect is Effect.IDEMPOTENT)


def _labels(document: PlanDocument, known: Knowledge, stretch: Span) -> Iterator[Hint]:
    for step in document.steps:
        label = known.result_label(step.id)
        output = step.output
        if label is None or output is None or output.span is None or step.call is None:
            continue
        if _inside(output.span.end, stretch):
            tip = f"the label of ${output.var} under the policy {known.policy}"
            yield Hint(output.span.end, str(label), About.LABEL, tip)


def _inside(offset: int, stretch: Span) -> bool:
    return stretch.start <= offset <= stretch.end


KINDS: dict[Scope, str] = {
    Scope.COMMENT: "comment",
    Scope.MARKER: "macro",
    Scope.LABEL: "label",
    Scope.KEYWORD: "keyword",
    Scope.WORD: "keyword",
    Scope.OPERATION: "function",
    Scope.TOOL: "function",
    Scope.VARIABLE: "variable",
    Scope.PATH: "property",
    Scope.CAST: "type",
    Scope.ARGUMENT: "parameter",
    Scope.STRING: "string",
    Scope.ESCAPE: "regexp",
    Scope.NUMBER: "number",
    Scope.CONSTANT: "keyword",
    Scope.OPERATOR: "operator",
}
"""The token type of LSP for each scope; brackets have none."""
TYPES = tuple(dict.fromkeys(KINDS.values()))
DECLARATION, READONLY, LIBRARY = "declaration", "readonly", "defaultLibrary"
MODIFIERS = (DECLARATION, READONLY, LIBRARY)
"""A definition; a loop variable or a read-only tool; an operation of callsheet itself."""


class Token(NamedTuple):
    """A token on one line."""

    span: Span
    kind: str
    modifiers: tuple[str, ...] = ()


def tokens(
    document: PlanDocument, known: Knowledge = NOTHING, within: Span | None = None
) -> tuple[Token, ...]:
    """Returns the tokens of a text, those that touch `within` if it is given.

    >>> from callsheet.views.editor.document import open_document
    >>> [(t.kind, *t.modifiers) for t in tokens(open_document("S1: @A > $x"))]
    [('label', 'declaration'), ('function',), ('operator',), ('variable', 'declaration')]
    """
    return tuple(_tokens(document, known, within or Span(0, len(document.text))))


def _tokens(document: PlanDocument, known: Knowledge, within: Span) -> Iterator[Token]:
    text = document.text
    modifiers_at = _plan_modifiers(document, known)
    pieces = scan(text, RULES[document.syntax])
    for span, scope in _with_bare_variables(document, pieces) if document.syntax is Syntax.MICRO else pieces:
        kind = KINDS.get(scope)
        if kind is None or span.end <= within.start or span.start >= within.end:
            continue
        modifiers = modifiers_at.get(span.start, ())
        if scope is Scope.OPERATION:
            modifiers = (*modifiers, LIBRARY)
        for line in _lines(text, span):
            yield Token(line, kind, modifiers)


def _with_bare_variables(document: PlanDocument, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yields the pieces of Micro-CLI and, between them, the variables that stand there without a mark."""
    named = (one.span for one in occurrences(document) if one.entity.kind is Kind.VARIABLE)
    waiting, at = [*named][::-1], 0
    for piece in pieces:
        while waiting and waiting[-1].end <= piece.span.start:
            bare = waiting.pop()
            if bare.start >= at:
                yield Piece(bare, Scope.VARIABLE)
        at = piece.span.end
        yield piece
    yield from (Piece(bare, Scope.VARIABLE) for bare in reversed(waiting) if bare.start >= at)


def _plan_modifiers(document: PlanDocument, known: Knowledge) -> dict[int, tuple[str, ...]]:
    """Returns the modifiers from the plan, by the offset of the token."""
    modifiers_at: dict[int, tuple[str, ...]] = {}
    for occurrence in occurrences(document):
        own = (DECLARATION,) if occurrence.role is Role.WRITE else ()
        is_loop = occurrence.entity.loop is not None and document.tree is None
        loop = (READONLY,) if is_loop else ()
        start = occurrence.span.start
        if occurrence.entity.kind is Kind.VARIABLE:
            before = document.text[max(start - 2, 0) : start]
            start -= 2 if before == "${" else 1 if before.endswith("$") else 0
        if own or loop:
            modifiers_at[start] = (*own, *loop)
    for step in document.steps:
        if step.call is not None and step.action.span is not None:
            spec = known.tools.get(step.call.tool)
            if spec is not None and spec.effect.only_reads:
                modifiers_at[step.action.span.start] = (READONLY,)
    return modifiers_at


def _lines(text: str, span: Span) -> Iterator[Span]:
    start = span.start
    for line in text[slice(*span)].splitlines(keepends=True):
        end = start + len(line.rstrip("\r\n"))
        if end > start:
            yield Span(start, end)
        start += len(line)
