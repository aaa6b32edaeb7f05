"""Reports lines inside a plan that are not steps, with a suggestion of what was probably meant."""

from __future__ import annotations

import re

from callsheet.diagnostics import Span, did_you_mean
from callsheet.frontends.ltp.words import CONTROL, CONTROL_SPELLINGS
from callsheet.frontends.values.reader import Reader, shown

_ELSE = re.compile(r"ELSE\b|ELIF\b|ELSEIF\b", re.IGNORECASE)
_WORD = re.compile(r"@?([A-Za-z_][A-Za-z0-9_-]*)([ \t]*\()?")
_GROUP = re.compile(r"@?PARALLEL\b", re.IGNORECASE)
_ELSEWHERE = re.compile(r"(?:>|ON_FAIL\b|THEN\b)", re.IGNORECASE)


def report_stray(reader: Reader, span: Span, line: str) -> None:
    """Reports a line that is not a step (LTP002), or an ELSE, which the language lacks (LTP015)."""
    if _ELSE.match(line):
        hint = "write a step with the opposite condition: ?IF (NOT (…)) THEN …"
        reader.error("LTP015", "the language has no ELSE", *span, help=hint)
        return
    reader.error("LTP002", f"this line is not a step: {shown(line)}", *span, help=_meant(line))


def _meant(line: str) -> str:
    word = _WORD.match(line)
    if _ELSEWHERE.match(line):
        return "a step is written on one line: join this to the line above"
    if _GROUP.match(line):
        return "write @PARALLEL { before the steps that run concurrently, and } on a line after them"
    if word is not None and (control := CONTROL_SPELLINGS.get(word[1].upper())) is not None:
        return f"write {'GOTO S5' if control == 'GOTO' else f'{CONTROL[control]} (values)'}"
    if word is not None and word[2] is not None:
        return f"did you mean @{word[1].upper()} (…)? A call begins with @"
    suggestions = did_you_mean(
        line.split("(", maxsplit=1)[0].split(" ", maxsplit=1)[0],
        ("TERMINATE", "RESPOND", "GOTO", "RE-PLAN"),
    )
    return (
        f"did you mean {suggestions[0]}?"
        if suggestions
        else "write S1: @TOOL (arguments) > $result, or # before a comment"
    )
