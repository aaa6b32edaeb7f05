"""Parses Micro-CLI to a plan; never raises, whatever the text.

In: a text, a name for it, and the variables that are set before it runs. Out: a `ParseResult`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from callsheet.diagnostics import Diagnostic, Severity, Source
from callsheet.frontends.micro.document import Document
from callsheet.frontends.unseen import hidden_characters
from callsheet.frontends.values import ParseResult
from callsheet.ir import Plan
from callsheet.ir.gc_pause import gc_paused

_LARGE = 20_000
"""From this many characters on the cyclic garbage collector is paused."""


def parse_micro(
    text: str, name: str = "<plan>", *, strict: bool = False, variables: Iterable[str] = ()
) -> ParseResult:
    """Parse Micro-CLI. `name` is the name of the text in diagnostics; `variables` are set before it runs.

    `strict` makes spellings that are not canonical errors.

    >>> plan = parse_micro('search "tea" > hits\\nrespond hits').require()
    >>> [step.id for step in plan.steps], plan.steps[1].action.values
    (['S1', 'S2'], (Ref(name='hits', path=()),))
    """
    with gc_paused(len(text) >= _LARGE):
        return _parse(text, name, strict, variables)


def _parse(text: str, name: str, strict: bool, variables: Iterable[str]) -> ParseResult:
    document = Document(text, set(variables))
    document.read()
    document.diagnostics.extend(hidden_characters(text))
    meta = document.meta
    partial = Plan(
        tuple(document.steps),
        id=meta.get("id"),
        title=meta.get("title"),
        goal=meta.get("goal"),
        comments=tuple(document.comments),
    )
    diagnostics = [_strict(d) for d in document.diagnostics] if strict else document.diagnostics
    in_order = sorted(diagnostics, key=lambda d: d.span.start if d.span else -1)
    plan = None if any(d.is_error for d in in_order) else partial
    return ParseResult(plan, partial, tuple(in_order), Source(name, text), tuple(document.lost))


def _strict(diagnostic: Diagnostic) -> Diagnostic:
    is_loose = diagnostic.severity is not Severity.ERROR and diagnostic.code.startswith(("MIC1", "LTP1"))
    return replace(diagnostic, severity=Severity.ERROR) if is_loose else diagnostic
