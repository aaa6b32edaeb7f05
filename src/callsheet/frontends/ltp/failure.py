"""Parses the failure handling of a step: `ON_FAIL @RETRY(n)`, then `GOTO` or `TERMINATE`.

In: a reader after the step's output. Out: an `OnFail`, or None without ON_FAIL.
"""

from __future__ import annotations

import re

from callsheet.diagnostics import did_you_mean
from callsheet.diagnostics.source import span_of
from callsheet.frontends.ltp.actions import read_action
from callsheet.frontends.values.parser import read_arguments
from callsheet.frontends.values.reader import Reader, Stop, replace, shown
from callsheet.ir import Goto, Literal, OnFail, Retry, Terminate, Value

_ON_FAIL = re.compile(r"ON_FAIL\b", re.IGNORECASE)
_RETRY = re.compile(r"(@?)(RETRY)\b", re.IGNORECASE)
_THEN_DO = re.compile(r"@?(?:GOTO|TERMINATE)\b", re.IGNORECASE)
_COUNT = re.compile(r"[0-9]{1,9}\b(?![.])")
_WORD = re.compile(r"@?[^\W\d][\w-]*")
MOST_RETRIES = 10**9
USUAL_RETRY = r"(?P<on_fail>ON_FAIL (?P<retry>@RETRY\((?P<count>0|[1-9][0-9]{0,8})\)))"
"""Pattern for the most frequent failure handling."""


def usual_retry(written: re.Match[str]) -> OnFail:
    """The node of a `USUAL_RETRY` match: a fast path with the same result as the general parser."""
    retry = Retry(int(written["count"]), None, None, span_of(written.span("retry")))
    return OnFail(retry, None, span_of(written.span("on_fail")))


def read_on_fail(reader: Reader) -> OnFail | None:
    """Parses ON_FAIL at the position, None if it is absent; raises `Stop` after an error."""
    reader.skip()
    start = reader.pos
    match = _ON_FAIL.match(reader.text, start)
    if match is None:
        return None
    _note_case(reader, match)
    reader.pos = match.end()
    reader.skip()
    retry = _read_retry(reader)
    then = None
    if retry is not None:
        after = reader.pos
        reader.skip()
        again = _ON_FAIL.match(reader.text, reader.pos)
        if again is not None:
            reader.loose("LTP111", "ON_FAIL is given once", again.start(), again.end(), "")
            reader.pos = again.end()
            reader.skip()
        if not _THEN_DO.match(reader.text, reader.pos):
            if again is not None:
                raise _unreadable(reader)
            reader.pos = after
            return OnFail(retry, None, span_of((start, after)))
    elif not _THEN_DO.match(reader.text, reader.pos):
        raise _unreadable(reader)
    action = read_action(reader)
    if isinstance(action, Goto | Terminate):
        then = action
    return OnFail(retry, then, span_of((start, reader.pos)))


def _note_case(reader: Reader, match: re.Match[str]) -> None:
    if match[0] != match[0].upper():
        reader.loose("LTP105", f"{match[0]} is written {match[0].upper()}", *match.span(), match[0].upper())


def _unreadable(reader: Reader) -> Stop:
    start = reader.pos
    word = _WORD.match(reader.text, start)
    if word is None:
        return reader.error(
            "LTP060", "expected an action after ON_FAIL", help='write @RETRY(3), GOTO S5 or TERMINATE ("why")'
        )
    suggestions = did_you_mean(word[0].removeprefix("@"), ("RETRY", "GOTO", "TERMINATE"))
    meant = {"RETRY": "@RETRY"}.get(suggestions[0], suggestions[0]) if suggestions else None
    return reader.error(
        "LTP060",
        f"{shown(word[0])} cannot follow ON_FAIL",
        start,
        word.end(),
        help=f"did you mean {meant}?"
        if meant
        else "ON_FAIL is followed by @RETRY(n), GOTO Sx or TERMINATE (…)",
        fix=replace(f"write {meant}", start, word.end(), meant) if meant else None,
    )


# ---------------------------------------------------------------- @RETRY


def _read_retry(reader: Reader) -> Retry | None:
    match = _RETRY.match(reader.text, reader.pos)
    if match is None:
        return None
    start, end = match.span()
    reader.pos = end
    if reader.skip() != "(":
        digits = _COUNT.match(reader.text, reader.pos)
        if digits is None:
            raise _bad_retry(reader, start, reader.line_end(start))
        reader.pos = digits.end()
        reader.loose("LTP111", "retries are written @RETRY(n)", start, reader.pos, f"@RETRY({digits[0]})")
        return Retry(int(digits[0]), span=span_of((start, reader.pos)))
    if match[0] != "@RETRY":
        code = "LTP105" if match[1] else "LTP106"
        reader.loose(code, f"{match[0]} is written @RETRY", start, end, "@RETRY")
    positional, named = read_arguments(reader)
    options = dict(named)
    count = _number(positional[0]) if len(positional) == 1 else None
    delay, backoff = _option(options, "delay"), _option(options, "backoff")
    if (
        not isinstance(count, int)
        or not 0 <= count <= MOST_RETRIES
        or options
        or delay == -1
        or backoff == -1
    ):
        raise _bad_retry(reader, start, reader.pos)
    return Retry(count, delay, backoff, span_of((start, reader.pos)))


def _option(options: dict[str, Value], name: str) -> float | None:
    """Removes a named number of 0 or more from `options`; None if absent, -1 for anything else."""
    value = options.pop(name, None)
    if value is None:
        return None
    number = _number(value)
    return -1 if number is None or number < 0 else number


def _number(value: Value) -> int | float | None:
    if (
        isinstance(value, Literal)
        and isinstance(value.value, int | float)
        and not isinstance(value.value, bool)
    ):
        return value.value
    return None


def _bad_retry(reader: Reader, start: int, end: int) -> Stop:
    return reader.error(
        "LTP061",
        "@RETRY takes the number of further attempts, a whole number",
        start,
        end,
        help="write @RETRY(3) or @RETRY(3, delay=2, backoff=2); delay is in seconds",
    )
