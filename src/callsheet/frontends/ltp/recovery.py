"""Error recovery: finds where parsing resumes after a syntax error in a step.

In: a reader that has stopped in a step. Out: the reader where the next step may begin; the error covers
the skipped text.
"""

from __future__ import annotations

import re
from dataclasses import replace

from callsheet.diagnostics import Diagnostic, Span
from callsheet.frontends.ltp.words import LABELLED, NUMBERED_LINE, RECOVERY_LINE
from callsheet.frontends.values.reader import STEP_LINE, Reader

_BRACKETS = re.compile(r"\"(?:[^\"\\\n]++|\\[^\n])*+\"?|[()\[\]{}]|\n")
_HASHES = re.compile(r"\"(?:[^\"\\\n]++|\\[^\n])*+\"?|(?:=[ \t]*|[(\[,])(#[^\s,()\[\]{}\"#]{1,40})|#[^\n]*")
"""Texts and comments; the group is a word that begins with # where a value is expected."""
_STRUCTURE = re.compile(r"^[ \t]*(?:PLAN_END|\})[ \t\r]*$", re.MULTILINE)


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
