"""Parses the guards of a command: `foreach $x in $xs :`, `?if condition :`, or both in this order.

In: a scope at the beginning of a command. Out: the loop and the condition, or None.
"""

from __future__ import annotations

import re

from callsheet.diagnostics import Span
from callsheet.frontends.micro.conditions import read_condition
from callsheet.frontends.micro.values import Scope, read_operand
from callsheet.frontends.values import Reader
from callsheet.frontends.values.reader import NAME, replace, shown
from callsheet.ir import Condition, Foreach

GUARD = re.compile(r"\?[ \t]*(if|foreach)\b|(foreach)\b", re.IGNORECASE)
_LOOP = re.compile(rf"(?:\([ \t]*)?\$?({NAME})[ \t]+(?:in\b[ \t]*)?", re.IGNORECASE)
_THEN = re.compile(r"\)?[ \t]*then\b", re.IGNORECASE)


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
