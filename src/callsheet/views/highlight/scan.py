"""Splits LTP text into spans with scopes by the table of rules.

In: LTP text, also incomplete. Out: spans with their scopes, in order; between them is white space or prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from callsheet.diagnostics import Span
from callsheet.views.highlight.rules import ROOT, Region, Rule, Scope


class Piece(NamedTuple):
    """A span of text and its scope."""

    span: Span
    scope: Scope


class _State(NamedTuple):
    """A list of rules compiled to one pattern; group `rN` is rule N, group `end` the end of the region."""

    pattern: re.Pattern[str]
    rules: tuple[tuple[Rule | Region, re.Pattern[str]], ...]


def scan(text: str) -> Iterator[Piece]:
    """Yields the pieces of a text.

    >>> [str(piece.scope) for piece in scan('S1: @A ("$y") > $z')][:5]
    ['label', 'bracket', 'tool', 'bracket', 'string']
    """
    stack: list[Region | None] = [None]
    pos = 0
    while True:
        region = stack[-1]
        state = _root() if region is None else _inside(region)
        match = state.pattern.search(text, pos)
        within = None if region is None else region.scope
        end = len(text) if match is None else match.start()
        if within is not None and end > pos:
            yield Piece(Span(pos, end), within)
        if match is None:
            return
        pos = match.end()
        if match.lastgroup == "end":
            stack.pop()
            scope = region.end_scope if region is not None else None
            if scope is not None and match[0]:
                yield Piece(Span(*match.span()), scope)
            continue
        rule, own = state.rules[int((match.lastgroup or "r0")[1:])]
        if isinstance(rule, Region):
            if rule.begin_scope is not None:
                yield Piece(Span(*match.span()), rule.begin_scope)
            stack.append(rule)
        else:
            yield from _pieces(rule, own, text, match.start())


def _pieces(rule: Rule, own: re.Pattern[str], text: str, start: int) -> Iterator[Piece]:
    match = own.match(text, start)
    if match is None:
        return
    if not own.groups:
        (scope,) = rule.scopes
        if scope is not None:
            yield Piece(Span(*match.span()), scope)
        return
    for number, scope in enumerate(rule.scopes, 1):
        span = Span(*match.span(number))
        if scope is not None and span.start < span.end:
            yield Piece(span, scope)


@cache
def _root() -> _State:
    return _state(ROOT, None)


@cache
def _inside(region: Region) -> _State:
    return _state(region.inside, region.end)


def _state(rules: Sequence[Rule | Region], end: str | None) -> _State:
    patterns = [rule.begin if isinstance(rule, Region) else rule.pattern for rule in rules]
    options = [] if end is None else [f"(?P<end>{end})"]
    options += [f"(?P<r{number}>{pattern})" for number, pattern in enumerate(patterns)]
    compiled = re.compile("|".join(options), re.MULTILINE)
    own = tuple((rule, re.compile(p, re.MULTILINE)) for rule, p in zip(rules, patterns, strict=True))
    return _State(compiled, own)
