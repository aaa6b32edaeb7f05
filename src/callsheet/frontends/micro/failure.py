"""Parses failure handling: `ON_FAIL retry 3`, `goto S4`, `terminate "why"`, or a retry and one of them.

In: a scope after a command's output. Out: an `OnFail`, or None without ON_FAIL.
"""

from __future__ import annotations

import re
from collections.abc import Container

from callsheet import lazy
from callsheet.diagnostics import Span, did_you_mean
from callsheet.frontends.micro.values import Scope, read_argument, refuse_sum
from callsheet.frontends.values import Reader, Stop, read_arguments, read_value
from callsheet.frontends.values.reader import LABEL, shown
from callsheet.ir import Goto, Literal, OnFail, Retry, Terminate, Value

ON_FAIL = lazy.pattern(r"on_fail\b(?![ \t]*=)", re.IGNORECASE)
_ACTION = lazy.pattern(r"@?(retry|goto|terminate)\b", re.IGNORECASE)
_TARGET = lazy.pattern(rf"(\([ \t]*)?(?:({LABEL})|(\d{{1,9}})\b)([ \t]*\))?")
_STEP = lazy.pattern(r"[sS]\d+")
_COUNT = lazy.pattern(r"\d{1,9}(?![\w.])")
_OPTION = lazy.pattern(r"(delay|backoff)=")
_WORD = lazy.pattern(r"@?[\w-]+")
_CLAUSE = lazy.pattern(r"(if|when|unless|else|elif|otherwise)[ \t]+[^\s>#]", re.IGNORECASE)
"""What begins a condition in other languages, with something behind it."""
MOST_RETRIES = 10**9


def read_on_fail(scope: Scope) -> OnFail | None:
    """Parse ON_FAIL and its actions; None if it is not at the position."""
    reader = scope.reader
    reader.skip()
    start = reader.pos
    if not _go_over_on_fail(reader):
        return None
    retry: Retry | None = None
    then: Goto | Terminate | None = None
    reader.skip()
    begin = reader.pos
    action = _ACTION.match(reader.text, begin)
    if action is not None and action[1].lower() == "retry":
        reader.pos = action.end()
        retry = _read_retry(reader, begin)
        end = reader.pos
        is_chained = _go_over_on_fail(reader)
        reader.skip()
        begin = reader.pos
        action = _ACTION.match(reader.text, begin)
        if action is None and not is_chained:
            reader.pos = end
            return OnFail(retry, None, Span(start, end))
    if action is None:
        raise _unreadable(reader)
    reader.pos = action.end()
    match action[1].lower():
        case "goto":
            then = read_goto(reader, begin)
        case "terminate":
            then = Terminate(read_values(scope), Span(begin, reader.pos))
        case _:
            raise reader.error("MIC060", "retry is given once", *action.span())
    span = Span(start, reader.pos)
    _refuse_more(reader)
    return OnFail(retry, then, span)


def _go_over_on_fail(reader: Reader) -> bool:
    after = reader.pos
    reader.skip()
    match = ON_FAIL.match(reader.text, reader.pos)
    reader.pos = after if match is None else match.end()
    return match is not None


def _refuse_more(reader: Reader) -> None:
    after = reader.pos
    reader.skip()
    more = ON_FAIL.match(reader.text, reader.pos)
    if more is not None:
        raise reader.error(
            "MIC060",
            "a goto or terminate is last, and given once",
            *more.span(),
            help='write ON_FAIL retry 3 ON_FAIL goto S4: retry first, then goto or terminate "…"',
        )
    reader.pos = after


def _unreadable(reader: Reader) -> Stop:
    word = _WORD.match(reader.text, reader.pos)
    usage = 'write retry 3, goto S4 or terminate "why"'
    if word is None:
        return reader.error("MIC060", "expected an action after ON_FAIL", help=usage)
    suggestions = did_you_mean(word[0], ("retry", "goto", "terminate"))
    message = f"{shown(word[0])} cannot follow ON_FAIL"
    return reader.error(
        "MIC060", message, *word.span(), help=f"did you mean {suggestions[0]}?" if suggestions else usage
    )


# ---------------------------------------------------------------- actions


def read_goto(reader: Reader, start: int) -> Goto:
    """Parse the target of a goto that begins at `start`."""
    reader.skip()
    match = _TARGET.match(reader.text, reader.pos)
    if match is None or (match[1] is None) != (match[4] is None):
        raise reader.error(
            "MIC018",
            "expected a step after goto",
            reader.pos,
            reader.line_end(reader.pos),
            help="write goto S4; commands are numbered S1, S2, …",
        )
    label, number = match[2], match[3]
    if label is None or match[1] is not None:
        plain = label or f"S{number}"
        reader.loose("MIC104", f"the target of goto is written {plain}, alone", *match.span(), plain)
    reader.pos = match.end()
    target = f"S{number}" if label is None else label.upper() if _STEP.fullmatch(label) else label
    return Goto(target, Span(start, reader.pos))


def read_values(scope: Scope) -> tuple[Value, ...]:
    """Parse all values at the position: separated by blanks, or in parentheses like in LTP text."""
    reader = scope.reader
    if reader.skip() == "(":
        start = reader.pos
        positional, named = read_arguments(reader)
        if named:
            raise reader.error("MIC013", "these values have no names", start, reader.pos)
        return positional
    values: list[Value] = []
    is_bare = True
    while not at_end(reader):
        start = reader.pos
        if not is_bare:
            refuse_clause(reader, scope.known)
        values.append(read_argument(scope))
        refuse_sum(scope, start, values[-1])
        is_bare = isinstance(values[-1], Literal) and reader.text[start].isalpha()
        skip_comma(reader)
    return tuple(values)


def refuse_clause(
    reader: Reader,
    known: Container[str],
    instead: str = "write a condition before its command, ?if … : respond …; there is no else",
) -> None:
    """Raise the error for a condition behind values, as in `terminate "why" if r empty`.

    As bare words it would be part of the text, and the command would run without a condition. In a row of
    bare words (`respond call me if you can`) it is part of a sentence.
    """
    clause = _CLAUSE.match(reader.text, reader.pos)
    if clause is None or clause[1] in known:
        return
    raise reader.error(
        "MIC017",
        f"{clause[1]} cannot follow the values of a command",
        *clause.span(1),
        help=f"{instead}; put a text in quotes",
    )


def skip_comma(reader: Reader) -> None:
    """Skip a comma after an argument, with a hint; a missing blank is an error."""
    text, pos = reader.text, reader.pos
    char = text[pos : pos + 1]
    if char == ",":
        reader.loose("MIC104", "arguments have no commas between them", pos, pos + 1, "")
        reader.pos += 1
    elif char not in {"", " ", "\t", "\r", "\n", ">", "#", "}", "`", ")"}:
        raise reader.error(
            "MIC019",
            f"a blank is missing before {shown(text[pos : pos + 40])}",
            help="arguments are separated by blanks",
        )


def at_end(reader: Reader) -> bool:
    """Whether there is no further argument."""
    char = reader.skip()
    return char in {"", "\n", ">", "#", "}", "`", ")"} or ON_FAIL.match(reader.text, reader.pos) is not None


def _read_retry(reader: Reader, start: int) -> Retry:
    if reader.skip() == "(":
        positional, named = read_arguments(reader)
        count = positional[0] if len(positional) == 1 else None
        return _retry(reader, start, count, dict(named))
    match = _COUNT.match(reader.text, reader.pos)
    if match is None:
        raise _bad_retry(reader, start, reader.line_end(start))
    reader.pos = match.end()
    options: dict[str, Value] = {}
    while True:
        after = reader.pos
        reader.skip()
        option = _OPTION.match(reader.text, reader.pos)
        if option is None or option[1] in options:
            reader.pos = after
            break
        reader.pos = option.end()
        options[option[1]] = read_value(reader)
    return _retry(reader, start, Literal(int(match[0])), options)


def _retry(reader: Reader, start: int, count: Value | None, options: dict[str, Value]) -> Retry:
    number = _number(count)
    delay, backoff = (_number(options.pop(name, None)) for name in ("delay", "backoff"))
    is_whole = isinstance(number, int) and 0 <= number <= MOST_RETRIES
    if not isinstance(number, int) or not is_whole or options or -1 in {delay, backoff}:
        raise _bad_retry(reader, start, reader.pos)
    return Retry(number, delay, backoff, Span(start, reader.pos))


def _number(value: Value | None) -> float | None:
    """The number of a value; None for None, -1 for anything that is no number from 0 on."""
    if value is None:
        return None
    number = value.value if isinstance(value, Literal) else None
    if isinstance(number, bool) or not isinstance(number, int | float) or number < 0:
        return -1
    return number


def _bad_retry(reader: Reader, start: int, end: int) -> Stop:
    return reader.error(
        "MIC061",
        "retry takes the number of further attempts, a whole number",
        start,
        end,
        help="write retry 3, or retry 3 delay=2 backoff=2; delay is in seconds",
    )
