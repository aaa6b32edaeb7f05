"""Parses values of Micro-CLI: those of LTP text, and bare words.

In: a reader at an argument. Out: a value. A bare word is a reference if a variable of this name is set;
otherwise it is a string, with a hint because it may be a misspelt name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from callsheet import lazy
from callsheet.diagnostics import Diagnostic, Severity, Span, did_you_mean
from callsheet.frontends.values import Reader, read_value
from callsheet.frontends.values.parser import OTHER_QUOTES, missing_value
from callsheet.frontends.values.printer import format_value
from callsheet.frontends.values.reader import NAME, replace, shown
from callsheet.frontends.values.strings import PATH, path_of
from callsheet.ir import Literal, Ref, Template, Value
from callsheet.ir.expr import template

_SELF_EVIDENT = lazy.pattern(r"[\"'$\[{]|[rR][\"']")
_NUMBER = lazy.pattern(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?=[\s,):}#]|\Z)")
_REST = r"(?=[\s,):}>=!<]|\Z)"
_PLACE = lazy.pattern(rf"({NAME})({PATH})(?=[ \t\r]*(?:[\s,):}}>=!<`#]|\Z|[\"'$\w]))")
_CONSTANT = lazy.pattern(rf"(?:true|false|null|none){_REST}", re.IGNORECASE)
_RUN = lazy.pattern(rf"[^\s\"'()\[\]{{}}$>`\\#:;=,|{OTHER_QUOTES}][^\s\"'()\[\]{{}}$>`\\]*")
_WORD = lazy.pattern(r"[^\W\d][\w.-]*|[\w][\w./-]*")
_PLUS = lazy.pattern(r"\+(?=[ \t\"'$A-Za-z_])")
_OPERAND = lazy.pattern(rf"({NAME})({PATH})")
_MOST_LOOKUPS = 50


@dataclass(slots=True)
class Scope:
    """A reader, and the variables that are set at its position."""

    reader: Reader
    known: set[str] = field(default_factory=set[str])
    _lookups: int = 0

    def similar_variable(self, word: str) -> str | None:
        """A variable with a name similar to a word; always None after `_MOST_LOOKUPS` searches."""
        self._lookups += 1
        if self._lookups > _MOST_LOOKUPS:
            return None
        return next(iter(did_you_mean(word, self.known, 1)), None)


def read_argument(scope: Scope, *, quietly: bool = False) -> Value:
    """Parse the argument at the position; with `quietly`, a bare word causes no hint."""
    return _read(scope, _RUN, quietly=quietly, is_variable=False)


def refuse_sum(scope: Scope, start: int, first: Value) -> None:
    """Raise the error for values that are joined with +, as in `"x " + r`: the plus would be a text.

    `first` is the value before the position, which begins at `start`.
    """
    reader = scope.reader
    end = reader.pos
    operands = [first]
    while reader.skip() == "+" and _PLUS.match(reader.text, reader.pos):
        reader.pos += 1
        reader.skip()
        place = _OPERAND.match(reader.text, reader.pos)
        if place is not None and place[1] in scope.known:
            reader.pos = place.end()
            operands.append(Ref(place[1], path_of(reader.text, *place.span(2))))
        else:
            operands.append(read_argument(scope, quietly=True))
        end = reader.pos
    if len(operands) == 1:
        reader.pos = end
        return
    joined = _joined(operands)
    raise reader.error(
        "MIC014",
        "values are not joined with +",
        start,
        end,
        help='references are written into the text: "x $name"; a sum is calc "$a + $b"',
        fix=None if joined is None else replace(f"write {joined}", start, end, joined),
    )


def _joined(operands: list[Value]) -> str | None:
    """One text of all operands; None if no operand is a text, or one is a list or a dict."""
    parts: list[str | Ref] = []
    has_text = False
    for value in operands:
        match value:
            case Ref():
                parts.append(value)
            case Template():
                parts.extend(value.parts)
                has_text = True
            case Literal(value=str(text)):
                parts.append(text)
                has_text = True
            case Literal(value=int() | float()) if not isinstance(value.value, bool):
                parts.append(str(value.value))
            case _:
                return None
    return format_value(template(parts)) if has_text else None


def read_operand(scope: Scope, *, is_variable: bool) -> Value:
    """Parse an operand of a condition or the source of a loop; `:` and operators end it.

    With `is_variable` a bare word is a reference, even if no such variable is set.
    """
    return _read(scope, _WORD, quietly=False, is_variable=is_variable)


def _read(scope: Scope, pattern: re.Pattern[str], *, quietly: bool, is_variable: bool) -> Value:
    reader = scope.reader
    reader.skip()
    text, start = reader.text, reader.pos
    if _SELF_EVIDENT.match(text, start) or _NUMBER.match(text, start) or _CONSTANT.match(text, start):
        return read_value(reader)
    place = _PLACE.match(text, start)
    if place is not None and (place[1] in scope.known or is_variable):
        reader.pos = place.end()
        return Ref(place[1], path_of(text, *place.span(2)), Span(start, reader.pos))
    run = pattern.match(text, start)
    word = "" if run is None else run[0].rstrip(",")
    if not word:
        raise missing_value(reader)
    reader.pos = start + len(word)
    if not quietly:
        _note_bare(scope, word, start)
    return Literal(word, Span(start, reader.pos))


def _note_bare(scope: Scope, word: str, start: int) -> None:
    near = scope.similar_variable(word)
    end = start + len(word)
    scope.reader.diagnostics.append(
        Diagnostic(
            "MIC103",
            Severity.WARNING if near else Severity.HINT,
            f"{shown(word)} is not a variable that is set here: it is read as a text",
            Span(start, end),
            f"did you mean ${near}?" if near else None,
            replace("put it in quotes", start, end, f'"{word}"'),
        )
    )
