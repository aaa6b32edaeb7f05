"""Parses the guards of a step: `?FOREACH ($x IN source) THEN`, `?IF (condition) THEN`, or both.

In: a reader after the step's id. Out: the loop and the condition, None for each that is absent.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from callsheet import lazy
from callsheet.diagnostics import did_you_mean
from callsheet.diagnostics.diagnostic import span_of
from callsheet.frontends.ltp.words import CONTROL_SPELLINGS, ELSES, no_else
from callsheet.frontends.values.conditions import read_guard_condition, unclosed_condition
from callsheet.frontends.values.parser import read_value, unclosed
from callsheet.frontends.values.reader import NAME, Reader, Stop, replace, shown
from callsheet.ir import Compare, CompareOp, Condition, Foreach, IsEmpty, Literal, NotEmpty, Ref

_OPERATORS = {str(op): op for op in CompareOp}
_TESTS = {"IS_EMPTY": IsEmpty, "NOT_EMPTY": NotEmpty}
USUAL_GUARD = (
    rf"\?IF \((?P<condition>(?P<left>\$(?P<compared>{NAME})) "
    rf"(?P<operator>{'|'.join(sorted(map(re.escape, _OPERATORS), key=len, reverse=True))}) "
    r'(?P<right>"(?P<text>[A-Za-z0-9_ .,;:/?!+*=@-]+)")'
    rf"|(?P<test>{'|'.join(_TESTS)})\((?P<value>\$(?P<tested>{NAME}))\))\) THEN "
)
"""Pattern for the most frequent guards: a variable compared with a plain text, or tested for emptiness."""
_GUARD = lazy.pattern(r"([?@]?)[ \t]*(IF|FOREACH)\b(?![ \t]*:)", re.IGNORECASE)
_UNKNOWN_GUARD = lazy.pattern(r"\?[ \t]*([^\W\d]\w*)?")
_WORD = lazy.pattern(r"[^\W\d]\w*")
_THEN = lazy.pattern(r"THEN\b", re.IGNORECASE)
_LOOP = lazy.pattern(rf"(\$?)({NAME})[ \t\r\n]+(IN)\b", re.IGNORECASE)
_MEANT = {
    "FOR": "FOREACH",
    "FOR_EACH": "FOREACH",
    "EACH": "FOREACH",
    "WHEN": "IF",
    "UNLESS": "IF",
    "WHILE": "FOREACH",
}

Guards: TypeAlias = "tuple[Foreach | None, Condition | None]"


def usual_condition(guard: re.Match[str]) -> Condition:
    """The condition of a `USUAL_GUARD` match: a fast path with the same result as the general parser."""
    span = span_of(guard.span("condition"))
    test = guard["test"]
    if test is not None:
        return _TESTS[test](Ref(guard["tested"], (), span_of(guard.span("value"))), span)
    left = Ref(guard["compared"], (), span_of(guard.span("left")))
    right = Literal(guard["text"], span_of(guard.span("right")))
    return Compare(_OPERATORS[guard["operator"]], left, right, span)


def read_guards(reader: Reader) -> Guards:
    """Parses the guards at the position, if any; raises `Stop` after an error."""
    foreach: Foreach | None = None
    condition: Condition | None = None
    while True:
        char = reader.skip()
        match = _GUARD.match(reader.text, reader.pos) if char in "?@iIfF" and char else None
        if match is None:
            if char == "?":
                raise _unknown_guard(reader)
            return foreach, condition
        word = match[2].upper()
        if match[0] != f"?{word}":
            reader.loose("LTP106", f"this guard is written ?{word}", *match.span(), f"?{word}")
        if condition is not None or (foreach is not None and word == "FOREACH"):
            raise _too_many(reader, match, word)
        reader.pos = match.end()
        if word == "FOREACH":
            foreach = _read_foreach(reader, match.start())
        else:
            condition = _read_if(reader)
        _read_then(reader, word, match.start())


def _too_many(reader: Reader, match: re.Match[str], word: str) -> Stop:
    if word == "FOREACH":
        help_ = (
            "write ?FOREACH first: ?FOREACH (…) THEN ?IF (…) THEN …; a loop in a loop needs a step of its own"
        )
    else:
        help_ = "join the conditions: ?IF (… AND …) THEN …"
    return reader.error("LTP017", f"a second guard ?{word} is not allowed here", *match.span(), help=help_)


def _unknown_guard(reader: Reader) -> Stop:
    start = reader.pos
    match = _UNKNOWN_GUARD.match(reader.text, start)
    word = (match[1] if match is not None else None) or ""
    upper = word.upper()
    if upper in ELSES:
        return no_else(reader, upper, start + 1 + len(word))
    suggestions = _MEANT.get(upper) or next(iter(did_you_mean(upper, ("IF", "FOREACH"))), None)
    end = start + 1 if match is None else match.end()
    return reader.error(
        "LTP017",
        f"there is no guard ?{word}",
        start,
        end,
        help=f"did you mean ?{suggestions}?"
        if suggestions
        else "guards are ?IF (…) THEN and ?FOREACH ($x IN …) THEN",
        fix=replace(f"write ?{suggestions}", start, end, f"?{suggestions}")
        if suggestions and upper != "UNLESS"
        else None,
    )


def _read_then(reader: Reader, guard: str, start: int) -> None:
    reader.depth = 0
    after = reader.pos
    reader.skip()
    match = _THEN.match(reader.text, reader.pos)
    if match is None:
        raise _missing_then(reader, guard, start, after)
    if match[0] != "THEN":
        reader.loose("LTP105", f"{match[0]} is written THEN", *match.span(), "THEN")
    reader.pos = match.end()


def _missing_then(reader: Reader, guard: str, guard_start: int, after: int) -> Stop:
    text, start = reader.text, reader.pos
    if text.startswith(")", start):
        return reader.error(
            "LTP021", "this ) does not close a bracket", fix=replace("remove )", start, start + 1, "")
        )
    word = _WORD.match(text, start)
    if word is not None and did_you_mean(word[0], ("THEN",)):
        return reader.error(
            "LTP014",
            f"{word[0]} is not a word of the language",
            start,
            word.end(),
            help="did you mean THEN?",
            fix=replace("write THEN", start, word.end(), "THEN"),
        )
    at_action = text[start : start + 1] in {"", "\n", "@", "#"} or (
        word is not None and word[0].upper() in {*CONTROL_SPELLINGS, "RE"}
    )
    if guard == "IF" and not at_action:
        return unclosed_condition(reader, guard_start, after)
    return reader.error(
        "LTP014",
        f"THEN is missing after ?{guard} (…)",
        max(after - 1, 0),
        after,
        help="write THEN before the action",
        fix=replace("insert THEN", after, after, " THEN"),
    )


# ---------------------------------------------------------------- ?IF


def _read_if(reader: Reader) -> Condition:
    reader.skip()
    start = reader.pos
    condition, in_parentheses = read_guard_condition(reader)
    if not in_parentheses:
        written = reader.text[start : reader.pos].rstrip()
        end = start + len(written)
        reader.loose("LTP112", "the whole condition needs parentheses", start, end, f"({written})")
    return condition


# ---------------------------------------------------------------- ?FOREACH


def _read_foreach(reader: Reader, start: int) -> Foreach:
    bracketed = reader.skip() == "("
    opening = reader.pos
    if bracketed:
        reader.open()
        reader.skip()
    match = _LOOP.match(reader.text, reader.pos)
    if match is None:
        raise _bad_loop(reader)
    if not match[1]:
        reader.loose(
            "LTP109", "a variable is written with its $", match.start(), match.end(2), f"${match[2]}"
        )
    if match[3] != "IN":
        reader.loose("LTP105", f"{match[3]} is written IN", *match.span(3), "IN")
    reader.pos = match.end()
    source = read_value(reader)
    after = reader.pos
    if bracketed:
        if reader.skip() != ")":
            raise unclosed(reader, ")", opening, after)
        reader.pos += 1
    else:
        written = reader.text[opening:after]
        reader.loose("LTP112", "the source of ?FOREACH needs parentheses", opening, after, f"({written})")
    return Foreach(match[2], source, span_of((start, reader.pos)))


def _bad_loop(reader: Reader) -> Stop:
    end = reader.line_end(reader.pos)
    written = reader.text[reader.pos : end]
    return reader.error(
        "LTP016",
        f"expected ($item IN source) after ?FOREACH, found {shown(written)}"
        if written.strip()
        else "?FOREACH has nothing to iterate over",
        reader.pos,
        end,
        help="write ?FOREACH ($item IN $list) THEN …",
    )
