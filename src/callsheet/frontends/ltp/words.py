"""The lexical patterns of LTP text: keywords, their loose spellings, and the starts of steps and lines."""

from __future__ import annotations

import re

from callsheet.frontends.values.reader import LABEL

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
VALUE_START = re.compile(_VALUE)
"""The beginning of a value without parentheses around it."""

_BARE_CONTROL = (
    rf"(?i:{_CONTROL_WORD})[ \t\r]*(?:\(|{_VALUE}|$|\#)"
    rf"|(?i:GOTO)[ \t]+{LABEL}[ \t\r]*(?:$|\#|>|(?i:ON_FAIL)\b)"
)
_BARE_GUARD = (
    r"(?i:IF)[ \t]*[( \t]*(?:[$\"']|\([ \t]*[-+]?\d|(?i:NOT[ \t]*\(|IS_EMPTY|NOT_EMPTY))"
    r"|(?i:FOREACH)[ \t]*\(?[ \t]*\$?[A-Za-z_]\w*[ \t]+(?i:IN)[ \t]+[$\[\"']"
)

MARKER = re.compile(
    r"(?P<open>\**`?)(?P<word>PLAN_START|PLAN_END)(?P<close>`?\**:?)[ \t\r]*"
    rf"(?=\n|\Z|\#|\}}|{LABEL}[ \t]*:)",
    re.IGNORECASE,
)
NAMED_STEP_START = re.compile(rf"{LABEL}[ \t]*:[ \t]*{_GUARD_OR_CALL}", re.IGNORECASE)
"""The beginning of a step with an id."""

STEP_START = re.compile(
    rf"{LABEL}[ \t]*:(?!:|//)[ \t]*(?i:{_GUARD_OR_CALL}|IF\b|FOREACH\b)"
    rf"|@(?!(?i:PARALLEL)\b)|\?[ \t]*[A-Za-z]|{_BARE_CONTROL}|{_BARE_GUARD}",
    re.MULTILINE,
)
"""What can only be a step, matched where one may begin. A keyword without an id begins one, in upper or lower
case, if a value, a bracket or the end of the line follows, so that words in a sentence do not."""

LABELLED = re.compile(rf"({LABEL})[ \t]*:(?!//)")
RECOVERY_LINE = re.compile(
    r"^[ \t]*(?:(?:[-*+•]|\d+[.)])[ \t]+)?\**"
    rf"(?:{LABEL}\**[ \t]*:\**[ \t]*{_GUARD_OR_CALL}|@[A-Za-z]|\?(?:IF|FOREACH)\b"
    rf"|{_CONTROL_WORD}[ \t]*[(\"'$]|\}}[ \t\r]*$|PLAN_(?:START|END)[ \t\r]*$)",
    re.IGNORECASE | re.MULTILINE,
)
"""A line at which parsing resumes after an error, even inside open brackets."""

NUMBERED_LINE = re.compile(r"[ \t]*S\d+[ \t]*:[ \t]*[A-Za-z?@]")
"""A line numbered like a step; parsing resumes there too after an error in brackets."""

PLAN_LIKE = re.compile(
    r"@[A-Za-z]|\$[A-Za-z_]|\?\s*(?:IF|FOREACH)\b|[{}]|>\s*[A-Za-z_]\w*"
    r"|\b(?:TERMINATE|GOTO|RE-?PLAN|RESPOND|ON_FAIL|PLAN_START|PLAN_END|PARALLEL|FOREACH|THEN)\b"
    r"|^\s*(?:S\d+\b|[A-Za-z_]\w*\s*\(.*\)\s*$|[A-Za-z_]\w*\s+[\"'\[]|[A-Za-z]\w*\s*:\s*[A-Z][A-Z_]+\b)"
)
"""What makes a line look like part of a plan rather than prose."""

BULLET = re.compile(rf"(?:[-+•*]|\d+[.)])[ \t]+(?=\**{LABEL}\**[ \t]*:|[@?]|{_CONTROL_WORD})", re.IGNORECASE)
BOLD_LABEL = re.compile(rf"\*\*({LABEL})(?:\*\*[ \t]*:|:\*\*)")
FENCE = re.compile(r"(?:```|~~~)[^\n`]*")
PARALLEL = re.compile(r"(@?)(PARALLEL)[ \t\r\n]*\{", re.IGNORECASE)
BLOCK_WORD = re.compile(r"@?([A-Za-z_]+)[ \t]*\{[ \t\r]*(?=\n|\Z|#)")
