"""The lexical patterns of LTP text: keywords, their loose spellings, and the starts of steps and lines."""

from __future__ import annotations

import re
from dataclasses import replace

from callsheet import lazy
from callsheet.diagnostics import Diagnostic, Span
from callsheet.frontends.values.reader import LABEL, STEP_LINE, Reader, Stop

RESERVED = frozenset(
    {
        "RESPOND",
        "TERMINATE",
        "GOTO",
        "REPLAN",
        "RE_PLAN",
        "PARALLEL",
        "RETRY",
        "IF",
        "FOREACH",
        "ELSE",
        "THEN",
        "ON_FAIL",
    }
)
"""Keywords, with or without `@`; no tool in a plan can have these names."""

CONTROL = {"RESPOND": "@RESPOND", "TERMINATE": "TERMINATE", "GOTO": "GOTO", "RE-PLAN": "RE-PLAN"}
"""The keywords that are actions, and their canonical spelling."""

CONTROL_SPELLINGS = {**{word: word for word in CONTROL}, "REPLAN": "RE-PLAN", "RE_PLAN": "RE-PLAN"}

CASTS_MEANT = {
    "integer": "int",
    "number": "float",
    "double": "float",
    "boolean": "bool",
    "array": "list",
    "dict": "json",
    "object": "json",
}

_CONTROL_WORD = r"(?:RESPOND|TERMINATE|GOTO|RE-?PLAN|RE_PLAN)\b"

_GUARD_OR_CALL = rf"(?:@|\?[ \t]*[A-Za-z]|{_CONTROL_WORD})"

_VALUE = r"(?:[\"'$\[\d]|r[\"']|[A-Za-z_]\w*[ \t]*=(?!=))"
VALUE_START = lazy.pattern(_VALUE)
"""The beginning of a value without parentheses around it."""

_BARE_CONTROL = (
    rf"(?i:{_CONTROL_WORD})[ \t\r]*(?:\(|{_VALUE}|$|\#)"
    rf"|(?i:GOTO)[ \t]+{LABEL}[ \t\r]*(?:$|\#|>|(?i:ON_FAIL)\b)"
)
_BARE_GUARD = (
    r"(?i:IF)[ \t]*[( \t]*(?:[$\"']|\([ \t]*[-+]?\d|(?i:NOT[ \t]*\(|IS_EMPTY|NOT_EMPTY))"
    r"|(?i:FOREACH)[ \t]*\(?[ \t]*\$?[A-Za-z_]\w*[ \t]+(?i:IN)[ \t]+[$\[\"']"
)

MARKER = lazy.pattern(
    r"(?P<open>\**`?)(?P<word>PLAN_START|PLAN_END)(?P<close>`?\**:?)[ \t\r]*"
    rf"(?=\n|\Z|\#|\}}|{LABEL}[ \t]*:)",
    re.IGNORECASE,
)
NAMED_STEP_START = lazy.pattern(rf"{LABEL}[ \t]*:[ \t]*{_GUARD_OR_CALL}", re.IGNORECASE)
"""The beginning of a step with an id."""

STEP_START = lazy.pattern(
    rf"{LABEL}[ \t]*:(?!:|//)[ \t]*(?i:{_GUARD_OR_CALL}|IF\b|FOREACH\b)"
    rf"|@(?!(?i:PARALLEL)\b)|\?[ \t]*[A-Za-z]|{_BARE_CONTROL}|{_BARE_GUARD}",
    re.MULTILINE,
)
"""What can only be a step, matched where one may begin. A keyword without an id begins one, in upper or lower
case, if a value, a bracket or the end of the line follows, so that words in a sentence do not."""

LABELLED = lazy.pattern(rf"({LABEL})[ \t]*:(?!//)")
RECOVERY_LINE = lazy.pattern(
    r"^[ \t]*(?:(?:[-*+•]|\d+[.)])[ \t]+)?\**"
    rf"(?:{LABEL}\**[ \t]*:\**[ \t]*{_GUARD_OR_CALL}|@[A-Za-z]|\?(?:IF|FOREACH)\b"
    rf"|{_CONTROL_WORD}[ \t]*[(\"'$]|\}}[ \t\r]*$|PLAN_(?:START|END)[ \t\r]*$)",
    re.IGNORECASE | re.MULTILINE,
)
"""A line at which parsing resumes after an error, even inside open brackets."""

NUMBERED_LINE = lazy.pattern(r"[ \t]*S\d+[ \t]*:[ \t]*[A-Za-z?@]")
"""A line numbered like a step; parsing resumes there too after an error in brackets."""

PLAN_LIKE = lazy.pattern(
    r"@[A-Za-z]|\$[A-Za-z_]|\?\s*(?:IF|FOREACH)\b|[{}]|>\s*[A-Za-z_]\w*"
    r"|\b(?:TERMINATE|GOTO|RE-?PLAN|RESPOND|ON_FAIL|PLAN_START|PLAN_END|PARALLEL|FOREACH|THEN)\b"
    r"|^\s*(?:S\d+\b|[A-Za-z_]\w*\s*\(.*\)\s*$|[A-Za-z_]\w*\s+[\"'\[]|[A-Za-z]\w*\s*:\s*[A-Z][A-Z_]+\b)"
)
"""What makes a line look like part of a plan rather than prose."""

BULLET = lazy.pattern(
    rf"(?:[-+•*]|\d+[.)])[ \t]+(?=\**{LABEL}\**[ \t]*:|[@?]|{_CONTROL_WORD})", re.IGNORECASE
)
BOLD_LABEL = lazy.pattern(rf"\*\*({LABEL})(?:\*\*[ \t]*:|:\*\*)")
FENCE = lazy.pattern(r"(?:```|~~~)[^\n`]*")
PARALLEL = lazy.pattern(r"(@?)(PARALLEL)[ \t\r\n]*\{", re.IGNORECASE)
BLOCK_WORD = lazy.pattern(r"@?([A-Za-z_]+)[ \t]*\{[ \t\r]*(?=\n|\Z|#)")


_BRACKETS = lazy.pattern(r"\"(?:[^\"\\\n]++|\\[^\n])*+\"?|[()\[\]{}]|\n")
_HASHES = lazy.pattern(r"\"(?:[^\"\\\n]++|\\[^\n])*+\"?|(?:=[ \t]*|[(\[,])(#[^\s,()\[\]{}\"#]{1,40})|#[^\n]*")
"""Texts and comments; the group is a word that begins with # where a value is expected."""
_STRUCTURE = lazy.pattern(r"^[ \t]*(?:PLAN_END|\})[ \t\r]*$", re.MULTILINE)


def recover(reader: Reader, start: int, known_errors: int) -> None:
    """Moves the reader to where parsing resumes after an error in the step that begins at `start`.

    `known_errors` is the number of diagnostics before that step.
    """
    text = reader.text
    error = reader.diagnostics[-1]
    depth, reader.depth = reader.depth, 0
    at = max(reader.pos, start + 1)
    line = reader.line_start(at)
    if line > start and RECOVERY_LINE.match(text, line):
        reader.pos = line
        _end_before(reader, line, error, known_errors)
    elif error.code == "LTP020":
        has_id = LABELLED.match(text, start) is not None
        match = (STEP_LINE if has_id else RECOVERY_LINE).search(text, reader.line_end(at))
        reader.pos = len(text) if match is None else match.start()
        if has_id:
            reader.pos = _before_structure(reader, at, reader.pos)
    else:
        reader.pos = _end_of_brackets(text, at, depth)
    _name_hash(reader, start, error, known_errors)
    _cover(reader, reader.diagnostics[-1], known_errors)


def _end_before(reader: Reader, line: int, error: Diagnostic, known_errors: int) -> None:
    """If a step ran on into the next one, moves the error to where the step should have ended."""
    span = error.span
    if span is None or span.start < line or len(reader.diagnostics) <= known_errors:
        return
    end = line
    while reader.text[end - 1] in " \t\r\n":
        end -= 1
    message = "the step does not end here, although the next one follows"
    help_ = "close its brackets and quotes on this line"
    reader.diagnostics[-1] = Diagnostic("LTP021", error.severity, message, Span(end, end), help_)


def _name_hash(reader: Reader, start: int, error: Diagnostic, known_errors: int) -> None:
    """If an unquoted value began with #, and thus was skipped as a comment, reports this as the cause."""
    if (
        error.span is None
        or len(reader.diagnostics) <= known_errors
        or reader.text.find("#", start, error.span.start) < 0
    ):
        return
    for match in _HASHES.finditer(reader.text, start, error.span.start):
        if match[1]:
            message = f"the text {match[1]} is not in quotes, and a # begins a comment"
            span = Span(match.start(1), match.end(1))
            reader.diagnostics[-1] = Diagnostic(
                "LTP023", error.severity, message, span, f'write "{match[1]}"'
            )
            return


def _before_structure(reader: Reader, at: int, end: int) -> int:
    """The start of the first line before `end` that is PLAN_END or a lone closing brace, else `end`."""
    match = _STRUCTURE.search(reader.text, reader.line_end(at), end)
    return end if match is None else match.start()


def _end_of_brackets(text: str, at: int, depth: int) -> int:
    """The end of the line on which the `depth` brackets open at `at` close, or an earlier step start."""
    for match in _BRACKETS.finditer(text, at):
        mark = match[0]
        if mark == "\n":
            if depth <= 0:
                return match.start()
            if RECOVERY_LINE.match(text, match.end()) or NUMBERED_LINE.match(text, match.end()):
                return match.end()
        elif mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
    return len(text)


def _cover(reader: Reader, error: Diagnostic, known_errors: int) -> None:
    """Extends the error's span over the further lines that are skipped."""
    text, span = reader.text, error.span
    if span is None or len(reader.diagnostics) <= known_errors:
        return
    end = reader.pos
    while end > span.end and text[end - 1] in " \t\r\n":
        end -= 1
    if "\n" in text[span.start : end]:
        reader.diagnostics[-1] = replace(error, span=Span(span.start, end))


VERSION_2 = 2
"""The version of the language that is a tree of blocks (`frontends.structured`)."""

_HEADER = lazy.pattern(rf"^\ufeff?[ \t]*#[ \t]*(?i:ltp):[ \t]*{VERSION_2}[ \t\r]*$", re.MULTILINE)
_BEGINNING = lazy.pattern(r"^[ \t]*PLAN_START\b", re.MULTILINE)


def header_of(text: str) -> re.Match[str] | None:
    """The line `# ltp: 2`, if it opens the plan of the text; what precedes it is no part of a plan."""
    found = _HEADER.search(text) if "ltp:" in text or "LTP:" in text else None
    if found is None:
        return None
    before = STEP_LINE.search(text, 0, found.start()) or _BEGINNING.search(text, 0, found.start())
    return None if before is not None else found


def is_structured(text: str) -> bool:
    """Whether a text says that it is version 2 of the language.

    >>> is_structured("# ltp: 2\\nLET $x = 1"), is_structured("S1: @A\\n# ltp: 2")
    (True, False)
    """
    return header_of(text) is not None


ELSES = frozenset({"ELSE", "ELIF", "ELSEIF"})


def no_else(reader: Reader, word: str, end: int, what: str = "the step") -> Stop:
    """The error for an ELSE at the place of the reader, which steps do not have."""
    help_ = f"write {what} with the opposite condition: ?IF (NOT (…)) THEN …"
    return reader.error("LTP015", f"the language has no {word}", reader.pos, end, help=help_)
