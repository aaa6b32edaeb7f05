"""Parses one step of LTP text: id, guards, action, output, failure handling, remark.

In: a reader at the beginning of a step. Out: a `Step`, or `Stop` after a diagnostic; the caller recovers.
"""

from __future__ import annotations

import re

from callsheet import lazy
from callsheet.diagnostics import did_you_mean
from callsheet.diagnostics.diagnostic import span_of
from callsheet.frontends.ltp.guards import USUAL_GUARD, read_guards, usual_condition
from callsheet.frontends.ltp.words import (
    BOLD_LABEL,
    CASTS_MEANT,
    CONTROL,
    CONTROL_SPELLINGS,
    ELSES,
    LABELLED,
    MARKER,
    NAMED_STEP_START,
    RESERVED,
    STEP_START,
    VALUE_START,
    no_else,
)
from callsheet.frontends.values.parser import read_arguments, read_value
from callsheet.frontends.values.reader import LABEL, NAME, Reader, Stop, comment_text, replace, shown
from callsheet.ir import (
    Action,
    Call,
    Cast,
    Goto,
    Literal,
    OnFail,
    Output,
    Replan,
    Respond,
    Retry,
    Step,
    Terminate,
    Value,
    canonical_tool_name,
)

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


_ON_FAIL = lazy.pattern(r"ON_FAIL\b", re.IGNORECASE)
_RETRY = lazy.pattern(r"(@?)(RETRY)\b", re.IGNORECASE)
_THEN_DO = lazy.pattern(r"@?(?:GOTO|TERMINATE)\b", re.IGNORECASE)
_COUNT = lazy.pattern(r"[0-9]{1,9}\b(?![.])")
_FAILURE_WORD = lazy.pattern(r"@?[^\W\d][\w-]*")
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
    word = _FAILURE_WORD.match(reader.text, start)
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


USUAL_HEAD = lazy.pattern(rf"({LABEL}): (?P<guard>{USUAL_GUARD})?(?P<call>@(?P<tool>[A-Z0-9_]+)) ?(?=\()")
"""Pattern for the most frequent step head: a fast path with the same result as the general parser."""
_CASTS = {str(cast): cast for cast in Cast}
_USUAL_TAIL = lazy.pattern(
    rf" (?P<output>> \$({NAME})(?::(?P<cast>{'|'.join(_CASTS)}))?)(?: {USUAL_RETRY})?(?=\n)"
)
"""The same for the most frequent end of a step."""

_OUTPUT = lazy.pattern(rf"(\$?)({NAME})(?:(?P<before>[ \t]*):(?P<after>[ \t]*)(?P<cast>[^\W\d]\w*))?")
_ARROW = lazy.pattern(r"(?:-+|=+|~+)>|→|⇒|>>+")
_STEP_WORD = lazy.pattern(r"[^\W\d][\w-]*")


def read_step(reader: Reader, comments: list[str], group: int | None, head: re.Match[str] | None) -> Step:
    """Parses the step at the position; its id is empty if none is written. Raises `Stop` after an error.

    `head` is the match of `USUAL_HEAD` there, if any; `comments` become those of the step.
    """
    start = reader.pos
    reader.depth = 0
    reader.comments = comments
    action: Action
    output: Output | None
    if head is not None and head["tool"] not in RESERVED:
        step_id, foreach = head[1], None
        condition = None if head["guard"] is None else usual_condition(head)
        reader.pos = head.end()
        positional, named = read_arguments(reader)
        action = Call(head["tool"], positional, named, span_of((head.start("call"), reader.pos)))
    else:
        step_id = _read_id(reader)
        foreach, condition = read_guards(reader)
        action = read_action(reader)
    tail = _USUAL_TAIL.match(reader.text, reader.pos)
    if tail is not None:
        reader.pos = tail.end()
        cast = None if tail["cast"] is None else _CASTS[tail["cast"]]
        output, remark = Output(tail[2], cast, span_of(tail.span("output"))), None
        on_fail = None if tail["on_fail"] is None else usual_retry(tail)
        last = (on_fail or output).span
    else:
        output = _read_output(reader)
        on_fail = read_on_fail(reader)
        last = (on_fail or output or action).span
        remark = _read_end(reader, group is not None)
    return Step(
        step_id,
        action,
        foreach,
        condition,
        output,
        on_fail,
        group,
        comments=tuple(comments),
        remark=remark,
        span=span_of((start, start if last is None else last.end)),
    )


def _read_id(reader: Reader) -> str:
    match = LABELLED.match(reader.text, reader.pos)
    if match is None:
        match = BOLD_LABEL.match(reader.text, reader.pos)
        if match is None:
            return ""
        reader.loose("LTP104", "a step's id has no asterisks", *match.span(), f"{match[1]}:")
    reader.pos = match.end()
    return match[1]


# ---------------------------------------------------------------- output


def _read_output(reader: Reader) -> Output | None:
    if reader.skip() != ">":
        return None
    start = reader.pos
    reader.pos += 1
    reader.skip()
    match = _OUTPUT.match(reader.text, reader.pos)
    if match is None:
        raise _bad_output(reader)
    name_end = match.end(2)
    reader.pos = match.end()
    _check_output_end(reader)
    if not match[1]:
        reader.loose("LTP109", "a variable is written with its $", match.start(), name_end, f"${match[2]}")
    cast = None
    written = match["cast"]
    if written is not None:
        cast = _CASTS.get(written) or _loose_cast(reader, match, written)
        if match["before"] or match["after"]:
            reader.loose("LTP110", "a type directly follows its variable", name_end, match.end(), f":{cast}")
    return Output(match[2], cast, span_of((start, reader.pos)))


def _loose_cast(reader: Reader, match: re.Match[str], written: str) -> Cast:
    start, end = match.span("cast")
    cast = _CASTS.get(written.lower())
    if cast is not None:
        if not (match["before"] or match["after"]):
            reader.loose("LTP105", f"{written} is written {cast}", start, end, str(cast))
        return cast
    suggestions = CASTS_MEANT.get(written.lower()) or next(iter(did_you_mean(written, _CASTS)), None)
    raise reader.error(
        "LTP051",
        f"there is no type {shown(written)}",
        start,
        end,
        help=f"did you mean {suggestions}?"
        if suggestions
        else f"types are {', '.join(_CASTS)}; without one, a value is stored unchanged",
        fix=replace(f"write {suggestions}", start, end, suggestions) if suggestions else None,
    )


def _bad_output(reader: Reader) -> Stop:
    return reader.error(
        "LTP050", "expected a variable for the result after >", help="write > $name; a name is ASCII"
    )


def _check_output_end(reader: Reader) -> None:
    char = reader.text[reader.pos : reader.pos + 1]
    if char in {".", "["}:
        raise reader.error(
            "LTP050",
            "a result is stored in a whole variable, not in a part of one",
            help="store it in a variable of its own; $name.part is for reading",
        )
    if char == ":":
        raise reader.error("LTP051", "expected a type after :", help=f"types are {', '.join(_CASTS)}")
    if char and (char.isalnum() or char == "-") and not reader.text.startswith("->", reader.pos):
        raise _bad_output(reader)


# ---------------------------------------------------------------- the end


def _read_end(reader: Reader, in_group: bool) -> str | None:
    """The remark at the end of the step; only another step, a marker or `}` may follow instead."""
    char = reader.skip()
    if char in {"", "\n"}:
        return None
    text, pos = reader.text, reader.pos
    if char == "#":
        reader.pos = reader.line_end(pos)
        return comment_text(text[pos : reader.pos])
    if char == "}" and in_group:
        return None
    if (STEP_START if in_group else NAMED_STEP_START).match(text, pos) or MARKER.match(text, pos):
        return None
    raise _text_after_step(reader, char)


def _text_after_step(reader: Reader, char: str) -> Stop:
    text, start = reader.text, reader.pos
    arrow = _ARROW.match(text, start)
    if arrow is not None:
        return reader.error(
            "LTP052",
            f"the result is stored with >, not with {arrow[0]}",
            start,
            arrow.end(),
            help="write > $name",
            fix=replace("write >", start, arrow.end(), ">"),
        )
    if char == ">":
        return reader.error("LTP019", "> $name is given once, right after the action and before ON_FAIL")
    if char == ")":
        return reader.error(
            "LTP021", "this ) does not close a bracket", fix=replace("remove )", start, start + 1, "")
        )
    word = _STEP_WORD.match(text, start)
    if word is not None:
        return _word_after_step(reader, word[0], word.end())
    end = reader.line_end(start)
    return reader.error(
        "LTP019",
        f"the step ends before {shown(text[start:end])}",
        start,
        end,
        help="write a step on one line",
    )


def _word_after_step(reader: Reader, word: str, end: int) -> Stop:
    start = reader.pos
    upper = word.upper()
    if upper in ELSES:
        return no_else(reader, upper, end, "another step")
    suggestions = did_you_mean(upper, ("ON_FAIL",))
    if suggestions:
        return reader.error(
            "LTP060",
            f"{word} is not a word of the language",
            start,
            end,
            help="did you mean ON_FAIL?",
            fix=replace("write ON_FAIL", start, end, "ON_FAIL"),
        )
    line_end = reader.line_end(start)
    written = shown(reader.text[start:line_end])
    return reader.error(
        "LTP019", f"the step ends before {written}", start, line_end, help="write a step on one line"
    )
