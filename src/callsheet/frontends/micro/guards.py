"""Parses the guards of a command: `foreach $x in $xs :`, `?if condition :`, or both in this order.

In: a scope at the beginning of a command. Out: the loop and the condition, or None.
"""

from __future__ import annotations

import re

from callsheet import lazy
from callsheet.diagnostics import Span, did_you_mean
from callsheet.frontends.micro.values import Scope, read_operand
from callsheet.frontends.values.conditions import flattened
from callsheet.frontends.values.reader import NAME, Reader, Stop, replace, shown
from callsheet.ir import And, Compare, CompareOp, Condition, Foreach, IsEmpty, Not, NotEmpty, Or, Value

_OPERATORS = {str(op): op for op in CompareOp} | {"=": CompareOp.EQ}
_OPERATOR = lazy.pattern(r"[=!<>~&|≠≤≥]+|(?:not[ \t]+)?contains\b|[^\W\d]\w*", re.IGNORECASE)
_JUNCTION = lazy.pattern(r"(and|or)\b|(&&)|(\|\|)", re.IGNORECASE)
_NOT = lazy.pattern(r"not\b|!(?!=)", re.IGNORECASE)
_CALLED = lazy.pattern(r"(is_empty|not_empty)[ \t]*(?=\()", re.IGNORECASE)
_EMPTY = lazy.pattern(r"(?:is[ \t]+)?(not[ \t_]*)?(?:is_)?empty\b", re.IGNORECASE)
_HELP = 'write it like $n > 5, $r contains "text", $r empty or $r notempty; and, or and not combine them'


def read_condition(scope: Scope) -> Condition:
    """Parse the longest condition at the position."""
    branches = [_read_conjunction(scope)]
    while _junction(scope.reader, "or"):
        branches.append(_read_conjunction(scope))
    return branches[0] if len(branches) == 1 else Or(flattened(branches, Or), _reach(branches))


def _read_conjunction(scope: Scope) -> Condition:
    branches = [_read_term(scope)]
    while _junction(scope.reader, "and"):
        branches.append(_read_term(scope))
    return branches[0] if len(branches) == 1 else And(flattened(branches, And), _reach(branches))


def _reach(branches: list[Condition]) -> Span | None:
    first, last = branches[0].span, branches[-1].span
    return first.to(last) if first and last else None


def _junction(reader: Reader, word: str) -> bool:
    after = reader.pos
    reader.skip()
    match = _JUNCTION.match(reader.text, reader.pos)
    if match is None or (match[1] or ("and" if match[2] else "or")).lower() != word:
        reader.pos = after
        return False
    reader.pos = match.end()
    return True


def _read_term(scope: Scope) -> Condition:
    reader = scope.reader
    char = reader.skip()
    start = reader.pos
    if char == "(":
        reader.open()
        condition = read_condition(scope)
        _close(reader)
        return condition
    called = _CALLED.match(reader.text, start)
    if called is not None:
        reader.pos = called.end()
        reader.open()
        value = read_operand(scope, is_variable=True)
        _close(reader)
        kind = IsEmpty if called[1].lower() == "is_empty" else NotEmpty
        return kind(value, Span(start, reader.pos))
    negation = _NOT.match(reader.text, start)
    if negation is not None:
        reader.pos = negation.end()
        reader.deepen()
        condition = _read_term(scope)
        reader.depth -= 1
        return Not(condition, Span(start, reader.pos))
    return _read_comparison(scope, start)


def _close(reader: Reader) -> None:
    after = reader.pos
    if reader.skip() != ")":
        raise reader.error(
            "LTP021",
            "the bracket of the condition is not closed: ) is missing",
            max(after - 1, 0),
            after,
            help="write ) here",
            fix=replace("insert )", after, after, ")"),
        )
    reader.pos += 1
    reader.depth -= 1


def _read_comparison(scope: Scope, start: int) -> Condition:
    reader = scope.reader
    if reader.text[start : start + 1] in {"", ":", ")", "\n"}:
        raise reader.error("MIC040", "a condition is missing here", help=_HELP)
    left = read_operand(scope, is_variable=True)
    after = reader.pos
    reader.skip()
    empty = _EMPTY.match(reader.text, reader.pos)
    if empty is not None:
        reader.pos = empty.end()
        return (NotEmpty if empty[1] else IsEmpty)(left, Span(start, reader.pos))
    match = _OPERATOR.match(reader.text, reader.pos)
    if match is None or match[0].lower() in {"and", "or", "then"}:
        raise reader.error(
            "MIC040", "this value alone is not a condition", start, after, help="did you mean … notempty?"
        )
    word = " ".join(match[0].lower().split())
    op = _OPERATORS.get(word.removeprefix("not "))
    if op is None:
        raise _unknown_operator(reader, match)
    reader.pos = match.end()
    return _compared(scope, op, left, start, is_turned=word.startswith("not "))


def _compared(scope: Scope, op: CompareOp, left: Value, start: int, *, is_turned: bool) -> Condition:
    right = read_operand(scope, is_variable=False)
    span = Span(start, scope.reader.pos)
    compared = Compare(op, left, right, span)
    return Not(compared, span) if is_turned else compared


def _unknown_operator(reader: Reader, match: re.Match[str]) -> Stop:
    suggestions = did_you_mean(match[0], (*_OPERATORS, "empty", "notempty"))
    return reader.error(
        "MIC040",
        f"{shown(match[0])} is not an operator",
        *match.span(),
        help=f"did you mean {suggestions[0]}?" if suggestions else _HELP,
        fix=replace(f"write {suggestions[0]}", *match.span(), suggestions[0]) if suggestions else None,
    )


GUARD = lazy.pattern(r"\?[ \t]*(if|foreach)\b|(foreach)\b", re.IGNORECASE)
_LOOP = lazy.pattern(rf"(?:\([ \t]*)?\$?({NAME})[ \t]+(?:in\b[ \t]*)?", re.IGNORECASE)
_THEN = lazy.pattern(r"\)?[ \t]*then\b", re.IGNORECASE)


def read_guards(scope: Scope) -> tuple[Foreach | None, Condition | None]:
    """Parse the first guard: a loop or a condition. `read_inner_condition` parses one after a loop."""
    reader = scope.reader
    match = GUARD.match(reader.text, reader.pos)
    if match is None:
        return None, None
    if match[2] or match[1].lower() == "foreach":
        return _read_foreach(scope, match), None
    reader.pos = match.end()
    condition = read_condition(scope)
    _read_colon(reader, "?if")
    _refuse_guard(reader, "?if")
    return None, condition


def read_inner_condition(scope: Scope) -> Condition | None:
    """Parse the condition after a loop, which may use its variable; None if there is none."""
    reader = scope.reader
    reader.skip()
    match = GUARD.match(reader.text, reader.pos)
    if match is None:
        return None
    if match[2] or match[1].lower() == "foreach":
        raise reader.error(
            "MIC017",
            "a loop cannot be inside a loop",
            *match.span(),
            help="give the inner loop a command of its own",
        )
    reader.pos = match.end()
    condition = read_condition(scope)
    _read_colon(reader, "?if")
    _refuse_guard(reader, "?if")
    return condition


def _refuse_guard(reader: Reader, before: str) -> None:
    reader.skip()
    match = GUARD.match(reader.text, reader.pos)
    if match is not None:
        raise reader.error(
            "MIC017",
            f"no second guard can follow {before}",
            *match.span(),
            help="write foreach first, and join conditions: foreach $x in $xs : ?if … and … : command",
        )


def _read_colon(reader: Reader, guard: str) -> None:
    after = reader.pos
    reader.skip()
    then = _THEN.match(reader.text, reader.pos)
    if then is not None:
        reader.loose("MIC104", "a guard ends with :", *then.span(), ":")
        reader.pos = then.end()
    elif reader.text.startswith(":", reader.pos):
        reader.pos += 1
    else:
        rest = reader.text[reader.pos : reader.line_end(reader.pos)]
        raise reader.error(
            "MIC017",
            f"the : after {guard} is missing" + (f" before {shown(rest)}" if rest.strip() else ""),
            max(after - 1, 0),
            after,
            help=f"write {guard} … : command",
            fix=replace("insert :", after, after, " :"),
        )


def _read_foreach(scope: Scope, guard: re.Match[str]) -> Foreach:
    reader = scope.reader
    reader.pos = guard.end()
    reader.skip()
    match = _LOOP.match(reader.text, reader.pos)
    if match is None or reader.text[match.end() : match.end() + 1] in {"", "\n", ":"}:
        end = reader.line_end(reader.pos)
        raise reader.error(
            "MIC016",
            "foreach has nothing to iterate over",
            guard.start(),
            end,
            help="write foreach $item in $list : command",
        )
    reader.pos = match.end()
    source = read_operand(scope, is_variable=True)
    span = Span(guard.start(), reader.pos)
    _read_colon(reader, "foreach")
    return Foreach(match[1], source, span)
