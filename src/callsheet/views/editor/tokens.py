"""Semantic tokens of a document, from the lexical scan and the parsed plan.

In: a `PlanDocument`, knowledge. Out: tokens on single lines, in order, with a kind and modifiers. Modifiers
come from the plan: loop variables, definitions, read-only tools.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from callsheet.diagnostics import Span
from callsheet.frontends.spelling import Syntax
from callsheet.ir import Call
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.knowledge import NOTHING, Knowledge
from callsheet.views.editor.occurrences import Kind, Role, occurrences
from callsheet.views.highlight.rules import Scope
from callsheet.views.highlight.scan import scan

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
    """Returns the tokens of LTP text, those that touch `within` if it is given; none for other syntaxes.

    >>> from callsheet.views.editor.document import open_document
    >>> [(t.kind, *t.modifiers) for t in tokens(open_document("S1: @A > $x"))]
    [('label', 'declaration'), ('function',), ('operator',), ('variable', 'declaration')]
    """
    if document.syntax is not Syntax.LTP:
        return ()
    return tuple(_tokens(document, known, within or Span(0, len(document.text))))


def _tokens(document: PlanDocument, known: Knowledge, within: Span) -> Iterator[Token]:
    text = document.text
    modifiers_at = _plan_modifiers(document, known)
    for span, scope in scan(text):
        kind = KINDS.get(scope)
        if kind is None or span.end <= within.start or span.start >= within.end:
            continue
        modifiers = modifiers_at.get(span.start, ())
        if scope is Scope.OPERATION:
            modifiers = (*modifiers, LIBRARY)
        for line in _lines(text, span):
            yield Token(line, kind, modifiers)


def _plan_modifiers(document: PlanDocument, known: Knowledge) -> dict[int, tuple[str, ...]]:
    """Returns the modifiers from the plan, by the offset of the token."""
    modifiers_at: dict[int, tuple[str, ...]] = {}
    for occurrence in occurrences(document):
        own = (DECLARATION,) if occurrence.role is Role.WRITE else ()
        loop = (READONLY,) if occurrence.entity.loop is not None else ()
        start = occurrence.span.start
        if occurrence.entity.kind is Kind.VARIABLE:
            before = document.text[max(start - 2, 0) : start]
            start -= 2 if before == "${" else 1 if before.endswith("$") else 0
        if own or loop:
            modifiers_at[start] = (*own, *loop)
    for step in document.steps:
        if isinstance(step.action, Call) and step.action.span is not None:
            spec = known.tools.get(step.action.tool)
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
