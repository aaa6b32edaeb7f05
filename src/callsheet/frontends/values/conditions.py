"""Parses conditions: comparisons and tests combined with AND, OR and NOT.

In: a reader at a condition. Out: a `Condition`, or an error; an unreadable condition never counts as true.
"""

from __future__ import annotations

import re

from callsheet import lazy
from callsheet.diagnostics import Fix, Span, did_you_mean
from callsheet.diagnostics.diagnostic import span_of
from callsheet.frontends.values.parser import read_value
from callsheet.frontends.values.reader import Reader, Stop, replace, shown
from callsheet.ir import And, Compare, CompareOp, Condition, IsEmpty, Not, NotEmpty, Or, Value

_OPERATOR = lazy.pattern(r"[=!<>~&|≠≤≥]+|[^\W\d]\w*")
_OPERATORS = {str(op): op for op in CompareOp}
_JUNCTION = lazy.pattern(r"(?:AND|OR)\b|&&|\|\|", re.IGNORECASE)
_TEST = lazy.pattern(r"(IS_EMPTY|NOT_EMPTY)[ \t]*(?=\()", re.IGNORECASE)
_NOT = lazy.pattern(r"NOT\b|!(?!=)", re.IGNORECASE)
_BARE_TEST = lazy.pattern(r"([A-Za-z_]\w*)[ \t]*\(")

_MEANT = {
    "===": "==",
    "<>": "!=",
    "!==": "!=",
    "=<": "<=",
    "=>": ">=",
    "≠": "!=",
    "≤": "<=",
    "≥": ">=",
    "is": "==",
    "eq": "==",
    "equals": "==",
    "ne": "!=",
    "gt": ">",
    "lt": "<",
    "ge": ">=",
    "gte": ">=",
    "le": "<=",
    "lte": "<=",
    "includes": "contains",
    "has": "contains",
}


def read_condition(reader: Reader) -> Condition:
    """Parse the longest condition at the position."""
    start = reader.pos
    first = _read_conjunction(reader)
    if not _junction(reader, "OR"):
        return first
    branches = [first, _read_conjunction(reader)]
    while _junction(reader, "OR"):
        branches.append(_read_conjunction(reader))
    return Or(flattened(branches, Or), _reach(start, branches))


def read_guard_condition(reader: Reader) -> tuple[Condition, bool]:
    """The condition of a guard, and whether one pair of parentheses encloses all of it."""
    if reader.skip() != "(":
        return read_condition(reader), False
    start, known_errors, comments = reader.pos, len(reader.diagnostics), len(reader.comments)
    condition = _read_parenthesized(reader)
    after = reader.pos
    reader.skip()
    if _JUNCTION.match(reader.text, reader.pos) is None:
        reader.pos = after
        return condition, True
    # `(a) AND (b)`: the first parenthesis encloses only a part, so all is read again from the start
    reader.pos = start
    del reader.diagnostics[known_errors:], reader.comments[comments:]
    return read_condition(reader), False


def _read_conjunction(reader: Reader) -> Condition:
    start = reader.pos
    first = _read_term(reader)
    if not _junction(reader, "AND"):
        return first
    branches = [first, _read_term(reader)]
    while _junction(reader, "AND"):
        branches.append(_read_term(reader))
    return And(flattened(branches, And), _reach(start, branches))


def _reach(start: int, branches: list[Condition]) -> Span:
    last = branches[-1].span
    return span_of((start, start if last is None else last.end))


def flattened(branches: list[Condition], kind: type[And] | type[Or]) -> tuple[Condition, ...]:
    """The branches of an `And` or `Or`; those of the same kind are replaced by their own branches."""
    flat: list[Condition] = []
    for branch in branches:
        if isinstance(branch, And | Or) and isinstance(branch, kind):
            flat.extend(branch.conditions)
        else:
            flat.append(branch)
    return tuple(flat)


def _junction(reader: Reader, word: str) -> bool:
    reader.skip()
    start = reader.pos
    match = _JUNCTION.match(reader.text, start)
    if match is None:
        return False
    written = match[0]
    if written in {"&&", "||"}:
        plain = "AND" if written == "&&" else "OR"
        raise reader.error(
            "LTP041",
            f"{written} is not an operator",
            start,
            match.end(),
            help=f"did you mean {plain}?",
            fix=replace(f"write {plain}", start, match.end(), plain),
        )
    if written.upper() != word:
        return False
    if written != word:
        reader.loose("LTP105", f"{written} is written {word}", start, match.end(), word)
    reader.pos = match.end()
    return True


def _read_term(reader: Reader) -> Condition:
    char = reader.skip()
    start = reader.pos
    if char == "(":
        return _read_parenthesized(reader)
    match = _NOT.match(reader.text, start)
    if match is not None:
        return _read_not(reader, match)
    match = _TEST.match(reader.text, start)
    if match is not None:
        return _read_test(reader, match)
    return _read_comparison(reader)


def _read_parenthesized(reader: Reader) -> Condition:
    opening = reader.pos
    reader.open()
    condition = read_condition(reader)
    _close(reader, opening)
    return condition


def _close(reader: Reader, opening: int) -> None:
    after = reader.pos
    if reader.skip() != ")":
        raise unclosed_condition(reader, opening, after)
    reader.pos += 1
    reader.depth -= 1


def unclosed_condition(reader: Reader, opening: int, after: int) -> Stop:
    """The error for a condition whose closing parenthesis is missing."""
    rest = reader.text[reader.pos : reader.line_end(reader.pos)]
    missing = replace("insert )", after, after, ")")
    if not rest.strip() or rest.upper().startswith("THEN"):
        return reader.error(
            "LTP021",
            "the bracket of the condition is not closed: ) is missing",
            max(after - 1, opening),
            after,
            help="write ) here",
            fix=missing,
        )
    return reader.error(
        "LTP040",
        f"a condition cannot continue with {shown(rest)}",
        help="join conditions with AND and OR",
    )


def _read_not(reader: Reader, match: re.Match[str]) -> Condition:
    start = match.start()
    if match[0] != "NOT":
        reader.loose("LTP105", f"{match[0]} is written NOT", start, match.end(), "NOT ")
    reader.pos = match.end()
    bracketed = reader.skip() == "("
    operand_start = reader.pos
    reader.deepen()
    condition = _read_term(reader)
    reader.depth -= 1
    if not bracketed:
        written = reader.text[operand_start : reader.pos]
        reader.loose(
            "LTP112", "the operand of NOT is in parentheses", operand_start, reader.pos, f"({written})"
        )
    return Not(condition, span_of((start, reader.pos)))


def _read_test(reader: Reader, match: re.Match[str]) -> Condition:
    start, opening = match.span()
    word = match[1]
    if word != word.upper():
        reader.loose("LTP105", f"{word} is written {word.upper()}", start, start + len(word), word.upper())
    reader.pos = opening
    reader.open()
    value = read_value(reader)
    _close(reader, opening)
    kind = IsEmpty if word.upper() == "IS_EMPTY" else NotEmpty
    return kind(value, span_of((start, reader.pos)))


def _read_comparison(reader: Reader) -> Condition:
    start = reader.pos
    called = _BARE_TEST.match(reader.text, start)
    if called is not None:
        suggestions = did_you_mean(called[1], ("IS_EMPTY", "NOT_EMPTY", "NOT"))
        raise reader.error(
            "LTP041",
            f"{called[1]} is not a test",
            start,
            start + len(called[1]),
            help=f"did you mean {suggestions[0]}?"
            if suggestions
            else "tests are IS_EMPTY(…) and NOT_EMPTY(…)",
        )
    if reader.text[start : start + 1] in {"", ")", "\n"}:
        raise reader.error(
            "LTP040", "a condition is missing here", help='write it like $x == "a" or NOT_EMPTY($x)'
        )
    left = read_value(reader)
    op = _read_operator(reader, left, start)
    reader.skip()
    right = read_value(reader)
    return Compare(op, left, right, span_of((start, reader.pos)))


def _read_operator(reader: Reader, left: Value, left_start: int) -> CompareOp:
    after = reader.pos
    reader.skip()
    start = reader.pos
    match = _OPERATOR.match(reader.text, start)
    if match is None or match[0].upper() in {"THEN", "AND", "OR"}:
        raise _bare_value(reader, left_start, after)
    written = match[0]
    op = _OPERATORS.get(written)
    if op is None and written == "=":
        reader.loose("LTP113", "two values are compared with ==", start, match.end(), "==")
        op = CompareOp.EQ
    elif op is None and written.lower() == "contains":
        reader.loose("LTP105", f"{written} is written contains", start, match.end(), "contains")
        op = CompareOp.CONTAINS
    if op is None:
        raise _unknown_operator(reader, written, start)
    reader.pos = match.end()
    return op


def _bare_value(reader: Reader, start: int, end: int) -> Stop:
    written = reader.text[start:end]
    fix: Fix | None = None
    if written.strip():
        fix = replace(f"write NOT_EMPTY({shown(written)})", start, end, f"NOT_EMPTY({written})")
    return reader.error(
        "LTP042",
        "this value alone is not a condition",
        start,
        end,
        help=f"did you mean NOT_EMPTY({shown(written)})?",
        fix=fix,
    )


def _unknown_operator(reader: Reader, written: str, start: int) -> Stop:
    end = start + len(written)
    meant = _MEANT.get(written.lower())
    if meant is None:
        suggestions = did_you_mean(written, _OPERATORS)
        meant = suggestions[0] if suggestions else None
    if written.lower() in {"not", "in", "is"}:
        return reader.error(
            "LTP041",
            f"{written} is not an operator",
            start,
            end,
            help="write ==, != or contains; NOT (…) negates a condition, IS_EMPTY(…) tests for emptiness",
        )
    return reader.error(
        "LTP041",
        f"{shown(written)} is not an operator",
        start,
        end,
        help=f"did you mean {meant}?" if meant else "operators are == != > < >= <= contains",
        fix=replace(f"write {meant}", start, end, meant) if meant else None,
    )
