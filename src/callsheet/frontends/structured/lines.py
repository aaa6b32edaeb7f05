"""The lines of version 2: its words, where a statement begins, and where reading resumes after an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from callsheet import lazy
from callsheet.diagnostics import Span
from callsheet.frontends.values.reader import NAME, comment_text
from callsheet.ir.tree import Word

ID_SHAPE: Final = r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*"
"""The shape of an id of a statement, as a pattern: dots join the names of what it stands in."""

_NO_IDS = "ELSE|ELIF|ELSEIF|ON_FAIL|CATCH|EXCEPT|RESCUE|FINALLY|ENSURE|UNTIL"
ID: Final = rf"(?!(?i:{_NO_IDS})(?![A-Za-z0-9_.-])){ID_SHAPE}"
"""An id, as a pattern. A word that goes on with a block is none: `ELSE: @SEND ()` would run in any case."""

ID_RULE: Final = "an id is made of ASCII letters, digits, _, - and dots, and is no word such as else"

SIMPLE: Final = {word.value.removeprefix("@"): word for word in Word}
"""The statements of one word by that word, without the `@` of RESPOND."""

BLOCKS: Final = frozenset({"?IF", "?FOREACH", "?REPEAT", "TRY", "@PARALLEL"})
"""The words that open a block."""

DECLARATIONS: Final = frozenset({"INPUT", "TYPE", "PLAN", "USE", "RESULT"})
"""The words of declarations, which stand outside all blocks."""

CONTINUATIONS: Final = frozenset({"ELSE", "ON_FAIL", "FINALLY", "UNTIL"})
"""The words that go on behind the `}` of a block."""

REMEDIES: Final = frozenset({"CONTINUE", "USE", "SKIP", "TERMINATE"})
"""The words after ON_FAIL that are no kinds of failure."""

_OTHERS: Final = frozenset({"LET", "SET", "REQUIRE", "CALL", "COMPUTE", "GOTO"})

WORDS: Final = frozenset(
    {*SIMPLE, *(word.lstrip("?@") for word in BLOCKS), *DECLARATIONS, *CONTINUATIONS, *_OTHERS}
)
"""The words that begin a line of version 2, without `@` and `?`."""

RESERVED_TOOLS: Final = frozenset({"RESPOND", "PARALLEL", "RETRY", "TERMINATE", "IF", "FOREACH", "REPEAT"})
"""What no tool can be called, since it means something else after `@`; the other words are still tools."""

RESERVED_KINDS: Final = REMEDIES | {"UNDO", "AS", "GOTO", "ON_FAIL", "FINALLY", "RETRY"}
"""What no failure can be of the kind of, since it means something else after ON_FAIL."""

OTHER_WORDS: Final = {
    "FOR": "?FOREACH ($x IN $list) {",
    "EACH": "?FOREACH ($x IN $list) {",
    "LOOP": "?FOREACH ($x IN $list) {",
    "WHILE": "?REPEAT (max=30) WHILE (condition) {",
    "DO": "?REPEAT (max=30) {",
    "UNLESS": "?IF (not …) {",
    "SWITCH": "?IF … { } ELSE IF … { }",
    "CASE": "ELSE IF (condition) {",
    **dict.fromkeys(("ELIF", "ELSEIF"), "} ELSE IF (condition) {"),
    "MATCH": "?IF … { } ELSE IF … { }",
    **dict.fromkeys(("DEF", "FUNCTION", "FUNC", "SUB", "TASK"), "PLAN name ($x: str) -> str {"),
    **dict.fromkeys(("PRINT", "LOG", "ECHO", "CONSOLE"), 'NOTE ("…")'),
    **dict.fromkeys(("RAISE", "THROW", "ERROR"), 'FAIL ("…", kind="own")'),
    "ASSERT": 'REQUIRE (condition) "message"',
    **dict.fromkeys(("SLEEP", "PAUSE", "DELAY"), 'WAIT ("10s")'),
    "IMPORT": 'USE name FROM "name.ltp"',
    **dict.fromkeys(("CONST", "VAR", "ASSIGN", "DEFINE"), "LET $x = value"),
    "PARAM": "INPUT $x: str",
    **dict.fromkeys(("STOP", "EXIT"), 'TERMINATE ("…"), or @RESPOND (value)'),
    **dict.fromkeys(
        ("END", "ENDIF", "ENDFOR", "ENDWHILE", "FI", "DONE"),
        '} to close a block, TERMINATE ("…") or @RESPOND (value) to end the plan',
    ),
    "STRUCT": "TYPE T = {id: int}",
    **dict.fromkeys(("ANSWER", "REPLY", "OUTPUT", "RESULT"), "@RESPOND (value)"),
    "CLASS": "TYPE T = {id: int}",
    **dict.fromkeys(("CATCH", "EXCEPT", "RESCUE"), "} ON_FAIL {"),
    "ENSURE": "} FINALLY {",
}
"""Words of other languages at the beginning of a line, and what is written here."""

_WORD = "|".join(sorted((re.escape(word) for word in WORDS), key=len, reverse=True))
STATEMENT_LINE: Final = lazy.pattern(
    rf"^[ \t]*(?:{ID}[ \t]*:[ \t]*(?=[@?A-Z])|@[A-Za-z]|\?(?:IF|FOREACH|REPEAT)\b"
    rf"|(?:{_WORD})(?:[ \t]+[$({{A-Za-z]|[ \t\r]*(?:$|#))|\}}[ \t]*(?:ELSE|ON_FAIL|FINALLY|UNTIL)\b)",
    re.MULTILINE,
)
"""A line at which reading resumes after an error, even inside open brackets."""

_TEXT = r"\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?"
_TOKEN: Final = lazy.pattern(rf"(?P<text>{_TEXT})|(?P<comment>#[^\n]*)|[()\[\]{{}}\n]", re.DOTALL)
_BLOCK_HEAD: Final = lazy.pattern(
    rf"[ \t]*(?:{ID}[ \t]*:[ \t]*)?(?:\?|TRY\b|@?PARALLEL\b|PLAN\b|\}}|(?:IF|FOREACH|REPEAT|ELSE)\b)"
    r"|[^\n]*\b(?:ON_FAIL|FINALLY)\b",
    re.IGNORECASE,
)
_FIRST_WORD: Final = lazy.pattern(r"[ \t]*(?:\}[ \t]*)?([A-Za-z]+)")
VARIABLE: Final = lazy.pattern(rf"\$({NAME})")


def comments_in(text: str, start: int, end: int) -> Iterator[str]:
    """The comments inside a statement, in the order of the text."""
    if text.find("#", start, end) < 0:
        return
    for token in _TOKEN.finditer(text, start, end):
        if token["comment"] is not None:
            yield comment_text(token["comment"])


def statement_end(text: str, start: int) -> int:
    """Where a statement that cannot be read ends: at the end of the line on which its brackets close.

    A later line that begins like a statement ends it in any case, as does the `}` of the block around it.
    """
    open_brackets: list[str] = []
    for token in _TOKEN.finditer(text, start):
        mark, at = token[0], token.start()
        if mark == "\n":
            if not open_brackets or STATEMENT_LINE.match(text, at + 1) or opens_block(text, start, at):
                return at
        elif mark in "([{":
            open_brackets.append(mark)
        elif mark == "}" and "{" not in open_brackets and text.find("\n", start, at) >= 0:
            return text.rfind("\n", start, at)
        elif mark in ")]}":
            if open_brackets:
                open_brackets.pop()
        elif token["text"] is not None and "\n" in mark and STATEMENT_LINE.search(mark):
            return text.find("\n", at)
    return len(text)


def opens_block(text: str, start: int, end: int) -> bool:
    """Whether the line `start:end`, of a statement that cannot be read, opens a block at its end."""
    line = text[start:end]
    for token in _TOKEN.finditer(line):
        if token["comment"] is not None:
            line = line[: token.start()]
            break
    if not line.rstrip().endswith("{"):
        return False
    first = _FIRST_WORD.match(line)
    return _BLOCK_HEAD.match(line) is not None or (first is not None and first[1].upper() in OTHER_WORDS)


def next_statement(text: str, at: int) -> int:
    """The offset of the next line that begins like a statement, the end of the text if there is none."""
    line = text.find("\n", at)
    found = None if line < 0 else STATEMENT_LINE.search(text, line + 1)
    return len(text) if found is None else found.start()


def gap_before(text: str, at: int) -> Span:
    """The blanks and line ends before a place."""
    start = at
    while start and text[start - 1] in " \t\r\n":
        start -= 1
    return Span(start, at)
