"""Parses the action of a step: a call, or a control keyword with its values.

In: a reader after the guards. Out: an `Action`; tool names are normalized to upper-case ASCII.
"""

from __future__ import annotations

import re

from callsheet import lazy
from callsheet.diagnostics import did_you_mean
from callsheet.diagnostics.diagnostic import span_of
from callsheet.frontends.ltp.words import CONTROL, CONTROL_SPELLINGS, ELSES, RESERVED, VALUE_START, no_else
from callsheet.frontends.values.parser import read_arguments, read_value
from callsheet.frontends.values.reader import LABEL, Reader, Stop, replace, shown
from callsheet.ir import Action, Call, Goto, Replan, Respond, Terminate, Value, canonical_tool_name

_ACTION = lazy.pattern(r"(@?)([A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*)")
_RUN = lazy.pattern(r"@?[^\s(){}\"'$>,]*")
_TARGET = lazy.pattern(rf"(\([ \t]*)?([\"']?)({LABEL})\2([ \t]*\))?")


def read_action(reader: Reader) -> Action:
    """Parses the action at the position; raises `Stop` after an error."""
    reader.skip()
    start = reader.pos
    match = _ACTION.match(reader.text, start)
    if match is None:
        raise _no_action(reader)
    at, word = match.groups()
    upper = word.upper()
    control = CONTROL_SPELLINGS.get(upper)
    if control is not None:
        return _read_control(reader, match, control)
    if not at or upper in RESERVED:
        raise _unknown_word(reader, word, match.end(), at)
    end = match.end()
    follows = reader.text[end : end + 1]
    if "-" in word or follows in {"-", ".", "/", ":"} or (follows.isalnum() and not follows.isascii()):
        raise _bad_tool_name(reader)
    if word != upper:
        reader.loose(
            "LTP105", f"the name of a tool is written in capitals: @{upper}", start, end, f"@{upper}"
        )
    reader.pos = end
    if reader.skip() != "(":
        _refuse_bare_arguments(reader, upper)
        return Call(upper, span=span_of((start, end)))
    positional, named = read_arguments(reader)
    return Call(upper, positional, named, span_of((start, reader.pos)))


def _no_action(reader: Reader) -> Stop:
    text, start = reader.text, reader.pos
    rest = text[start : reader.line_end(start)]
    if not rest.strip() or rest.startswith("#"):
        return reader.error(
            "LTP011", "the step has no action", max(start - 1, 0), start, help="write @TOOL (arguments)"
        )
    if not rest[0].isascii() or rest.startswith("@"):
        return _bad_tool_name(reader)
    return reader.error(
        "LTP011",
        f"expected an action, found {shown(rest)}",
        help="write @TOOL (arguments), or @RESPOND (…)",
    )


def _bad_tool_name(reader: Reader) -> Stop:
    start = reader.pos
    run = _RUN.match(reader.text, start)
    written = reader.text[start : start + 1] if run is None or not run[0] else run[0]
    end = start + len(written)
    plain = canonical_tool_name(written)
    can_fix = written.isascii() and bool(plain.strip("_"))
    return reader.error(
        "LTP013",
        f"{shown(written)} is not a tool name",
        start,
        end,
        help=f"did you mean @{plain}?" if can_fix else "names are made of ASCII letters, digits and _",
        fix=replace(f"write @{plain}", start, end, f"@{plain}") if can_fix else None,
    )


def _unknown_word(reader: Reader, word: str, end: int, at: str) -> Stop:
    start = reader.pos
    upper = word.upper()
    if upper in ELSES:
        return no_else(reader, upper, end)
    if upper in RESERVED:
        return reader.error(
            "LTP012",
            f"{at}{word} is not an action",
            start,
            end,
            help="write @RETRY after ON_FAIL, and @PARALLEL before { }",
        )
    suggestions = did_you_mean(upper, CONTROL)
    meant = CONTROL[suggestions[0]] if suggestions else f"@{canonical_tool_name(word)}"
    return reader.error(
        "LTP012",
        f"{shown(word)} is not an action",
        start,
        end,
        help=f"did you mean {meant}?",
        fix=replace(f"write {meant}", start, end, meant),
    )


def _refuse_bare_arguments(reader: Reader, tool: str) -> None:
    if VALUE_START.match(reader.text, reader.pos):
        end = reader.line_end(reader.pos)
        raise reader.error(
            "LTP033",
            f"the arguments of @{tool} need parentheses",
            reader.pos,
            end,
            help=f"write @{tool} (…)",
        )


# ---------------------------------------------------------------- control words


def _read_control(reader: Reader, match: re.Match[str], word: str) -> Action:
    start, end = match.span()
    written = match[0]
    canonical = CONTROL[word]
    if written != canonical:
        code = "LTP105" if written.upper() == canonical else "LTP106"
        reader.loose(code, f"{written} is written {canonical}", start, end, canonical)
    reader.pos = end
    if word == "GOTO":
        return read_goto(reader, start)
    values = _read_values(reader, canonical)
    span = span_of((start, reader.pos))
    if word == "RESPOND":
        return Respond(values, span)
    return Terminate(values, span) if word == "TERMINATE" else Replan(values, span)


def read_goto(reader: Reader, start: int) -> Goto:
    """Parses the target after a GOTO that begins at `start`; raises `Stop` after an error."""
    reader.skip()
    match = _TARGET.match(reader.text, reader.pos)
    if match is None or (match[1] is None) != (match[4] is None):
        end = reader.line_end(reader.pos)
        raise reader.error(
            "LTP018",
            "expected the id of a step after GOTO",
            reader.pos,
            end,
            help="write GOTO S5; a variable cannot be the target",
        )
    if match[0] != match[3]:
        reader.loose("LTP107", "the target of GOTO is a bare id", *match.span(), match[3])
        if reader.text[start + 4 : match.start()].strip(" \t") == "" and match.start() == reader.pos:
            _space_before(reader, match.start())
    reader.pos = match.end()
    return Goto(match[3], span_of((start, reader.pos)))


def _space_before(reader: Reader, at: int) -> None:
    """Makes the fix of `GOTO(S5)` insert a space between the keyword and its target."""
    if reader.text[at - 1] not in " \t":
        hint = reader.diagnostics.pop()
        span = hint.span or span_of((at, at))
        reader.loose(hint.code, hint.message, *span, " " + (hint.fix.edits[0].text if hint.fix else ""))


def _read_values(reader: Reader, word: str) -> tuple[Value, ...]:
    """Parses the values of a control action, in parentheses or, as a loose spelling, without."""
    char = reader.skip()
    start = reader.pos
    if char != "(":
        if not VALUE_START.match(reader.text, start):
            reader.pos = start
            return ()
        return _read_bare_values(reader, word)
    positional, named = read_arguments(reader)
    for name, value in named:
        _note_name(reader, start, name, value, word)
    return (*positional, *(value for _, value in named))


def _read_bare_values(reader: Reader, word: str) -> tuple[Value, ...]:
    start = reader.pos
    values = [read_value(reader)]
    end = reader.pos
    while reader.skip() == ",":
        reader.pos += 1
        values.append(read_value(reader))
        end = reader.pos
    reader.pos = end
    written = reader.text[start:end]
    reader.loose("LTP115", f"the values of {word} need parentheses", start, end, f"({written})")
    return tuple(values)


def _note_name(reader: Reader, start: int, name: str, value: Value, word: str) -> None:
    span = value.span or span_of((start, reader.pos))
    before = reader.text.rfind(name, start, span.start)
    reader.loose("LTP114", f"the values of {word} have no names", before, span.start, "")
