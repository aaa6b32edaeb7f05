"""A plan text that is being edited: its readable steps, positions in it, its outline."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

from callsheet.diagnostics import Diagnostic, Source, Span
from callsheet.frontends.ltp.words import LABELLED, PARALLEL
from callsheet.frontends.spelling import Syntax, read_plan_text
from callsheet.ir import Plan, Step
from callsheet.ir.tree import Act, Block, Compute, Invoke, Statement, Tree, inner_blocks
from callsheet.views.columns import cut
from callsheet.views.describe import describe_action, describe_guard, describe_output


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """A text and its readable steps.

    `plan` is None if the text has an error; `partial` has the readable steps even then. `lost` are the spans
    of unreadable steps. `inputs` are variables that a run gets from outside.
    """

    source: Source
    syntax: Syntax
    plan: Plan | None
    partial: Plan
    diagnostics: tuple[Diagnostic, ...]
    lost: tuple[Span, ...] = ()
    inputs: tuple[str, ...] = ()
    tree: Tree | None = None
    """The blocks of LTP text of version 2, as far as they can be read; `partial` is empty then."""
    plans: tuple[Plan, ...] = ()
    """The plans of a Python file, of which `plan` is the first; a text in another syntax has no others."""

    @property
    def text(self) -> str:
        """The whole text."""
        return self.source.text

    @property
    def steps(self) -> tuple[Step, ...]:
        """The readable steps, in text order."""
        return self.partial.steps

    def number_at(self, offset: int) -> int | None:
        """Returns the number (from 0) of the step whose span contains an offset, both ends included."""
        for number, step in enumerate(self.steps):
            if step.span is not None and step.span.start <= offset <= step.span.end:
                return number
        return None


def open_document(
    text: str, name: str = "<plan>", syntax: Syntax | None = None, inputs: tuple[str, ...] = ()
) -> PlanDocument:
    """Parses a text. Without `syntax`, it is detected; the default is LTP text.

    >>> document = open_document('S1: @READ_FILE ("a.txt") > $a\\nS2: @RESPOND ($a')
    >>> document.plan is None, [step.id for step in document.steps]
    (True, ['S1'])
    """
    reading = read_plan_text(text, name, syntax, variables=inputs)
    result = reading.result
    tree = result.partial.tree
    partial = result.partial if tree is None else Plan(())
    found = syntax or reading.syntax or Syntax.LTP
    return PlanDocument(
        result.source,
        found,
        result.plan,
        partial,
        result.diagnostics,
        result.lost,
        inputs,
        tree if found is Syntax.LTP else None,
    )


_LINE_END = re.compile(r"\r\n|\n|\r")
_BEYOND = re.compile("[\U00010000-\U0010ffff]")


class Units(StrEnum):
    """The units in which the characters of a position are counted."""

    UTF8 = "utf-8"
    UTF16 = "utf-16"
    UTF32 = "utf-32"


class Place(NamedTuple):
    """A position: line and character from 0."""

    line: int
    character: int


@dataclass(frozen=True, slots=True)
class Places:
    """The positions of one text.

    >>> places = Places("a\\n😀b")
    >>> places.place(3), places.offset(Place(1, 2))
    (Place(line=1, character=2), 3)
    """

    text: str
    units: Units = Units.UTF16
    _starts: list[int] = field(default_factory=list[int], init=False, repr=False, compare=False)

    def _line_starts(self) -> list[int]:
        if not self._starts:
            self._starts.append(0)
            self._starts.extend(match.end() for match in _LINE_END.finditer(self.text))
        return self._starts

    def place(self, offset: int) -> Place:
        """Returns the position of an offset, which is clamped to the text."""
        offset = min(max(offset, 0), len(self.text))
        starts = self._line_starts()
        line = bisect_right(starts, offset) - 1
        return Place(line, self._measured(self.text[starts[line] : offset]))

    def offset(self, place: Place) -> int:
        """Returns the offset of a position; a character past the end of its line is that end, as in LSP."""
        starts = self._line_starts()
        if place.line >= len(starts):
            return len(self.text)
        start = starts[place.line]
        end = starts[place.line + 1] if place.line + 1 < len(starts) else len(self.text)
        line = self.text[start:end].rstrip("\r\n")
        if line.isascii() or self.units is Units.UTF32:
            return start + min(place.character, len(line))
        left = place.character
        for at, char in enumerate(line):
            if left <= 0:
                return start + at
            left -= self._measured(char)
        return start + len(line)

    def _measured(self, text: str) -> int:
        if text.isascii() or self.units is Units.UTF32:
            return len(text)
        if self.units is Units.UTF16:
            return len(text) + len(_BEYOND.findall(text))
        return len(text.encode("utf-8", "surrogatepass"))


def statements_in(tree: Tree) -> list[Statement]:
    """All statements that stand in the text itself, with their spans, in its order."""
    used = {one.name for one in tree.plans if one.origin is not None}
    found = [one for plan in tree.plans if plan.name not in used for one in _all(plan.body)]
    return sorted([*found, *_all(tree.body)], key=lambda one: one.span or Span(0, 0))


def _all(block: Block) -> Iterator[Statement]:
    for statement in block:
        yield statement
        for inner in inner_blocks(statement):
            yield from _all(inner)


def head_of(text: str, statement: Statement, most: int = 100) -> str:
    """The first line of a statement, as it is written."""
    span = statement.span or Span(0, 0)
    line = text[span.start : span.end].partition("\n")[0].rstrip()
    return cut(line, most)


def is_call(statement: Statement) -> bool:
    """Whether a statement calls a tool or a sub-plan."""
    return isinstance(statement, Act | Invoke | Compute)


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
    if document.syntax is Syntax.PYTHON:
        return ()  # an editor of Python has an outline and folds of its own
    if document.tree is not None:
        symbols = [*_of_tree(document, document.tree), *_unread(document)]
    else:
        symbols = [*_steps(document), *_unread(document)]
    symbols.sort(key=lambda symbol: symbol.span)
    return tuple(symbols)


_FUNCTION = re.compile(r"^async[ \t]+def\b", re.MULTILINE)


def lens_at(document: PlanDocument) -> int:
    """Returns where the commands of a plan are shown: at its beginning, in Python at its first function."""
    found = _FUNCTION.search(document.text) if document.syntax is Syntax.PYTHON else None
    return 0 if found is None else found.start()


def folds(document: PlanDocument) -> tuple[Fold, ...]:
    """Returns the folding ranges: groups and steps of several lines, and blocks of comments."""
    if document.syntax is Syntax.PYTHON:
        return ()
    text = document.text
    stretches = [span for span, _ in _groups(document)]
    stretches += [step.span for step in document.steps if step.span is not None]
    if document.tree is not None:
        stretches += [one.span for one in statements_in(document.tree) if one.span is not None]
    folded = [Fold(span) for span in stretches if "\n" in text[slice(*span)]]
    if document.syntax is not Syntax.DAG:
        folded += [
            Fold(Span(match.start(), match.start() + len(match[0].rstrip())), is_comment=True)
            for match in _COMMENTS.finditer(text)
        ]
    return tuple(sorted(folded))


def _of_tree(document: PlanDocument, tree: Tree) -> Iterator[Symbol]:
    """The sub-plans and statements of a text with blocks; a statement has those of its blocks inside it."""
    for plan in tree.plans:
        if plan.span is not None and plan.origin is None:
            inner = tuple(_statements(document, plan.body))
            head = Span(plan.span.start, plan.span.start + len("PLAN"))
            yield Symbol(f"PLAN {plan.name}", "sub-plan", Shape.GROUP, plan.span, head, inner)
    yield from _statements(document, tree.body)


def _statements(document: PlanDocument, block: Block) -> Iterator[Symbol]:
    for one in block:
        if one.span is None:
            continue
        inner = tuple(symbol for part in inner_blocks(one) for symbol in _statements(document, part))
        head = head_of(document.text, one, _MOST_DETAIL)
        is_named = document.text.startswith(one.id, one.span.start)
        name = one.id if is_named else head.split(maxsplit=1)[0]
        detail = head.removeprefix(one.id).removeprefix(":").strip() if is_named else head
        shape = Shape.GROUP if inner else Shape.CALL if is_call(one) else Shape.CONTROL
        named = Span(one.span.start, min(one.span.start + len(name), one.span.end))
        yield Symbol(name, detail, shape, one.span, named, inner)


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
    shape = Shape.CALL if step.call is not None else Shape.CONTROL
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
