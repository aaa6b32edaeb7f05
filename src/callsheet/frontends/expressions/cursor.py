"""A place in the text of an expression: blanks, words, limits, errors, numbers and texts in quotes there."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Final, NoReturn

from callsheet import lazy
from callsheet.diagnostics import Span
from callsheet.frontends.expressions.names import OTHER_WORDS
from callsheet.frontends.values.reader import NAME
from callsheet.frontends.values.strings import ESCAPES, block_body, raw_lines, without_indent
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression, Hole, Text, children

MAX_DEPTH: Final = 60
"""How deep expressions nest at most."""
MAX_HEIGHT: Final = 100
"""How many operations, fields and calls lie one inside the other at most, those without brackets included."""
MAX_DIGITS: Final = 4_000
"""How many digits an integer may have."""


class NotAnExpression(Exception):
    """What stands at `span` cannot be read; `help` says the way out."""

    def __init__(self, message: str, span: Span, help_: str | None = None) -> None:
        super().__init__(message)
        self.message, self.span, self.help = message, span, help_


BLANK: Final = re.compile(r"[ \t\r]*")
_SPACE: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_WHITE: Final = " \t\r\n#"
_NO_WORD: Final = "),]}:.$\"'=<>!+-*/%|&?"
_BEGINS_OPERATOR: Final = frozenset("*/?=!<>&|-+%^")
WORD: Final = re.compile(NAME)
_NUMBER: Final = re.compile(r"(?:\d[\d_]*(?:\.\d[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?")
_OPERATOR: Final = re.compile(r"\*\*|//|\?\?|==|!=|<=|>=|<>|&&|\|\||[-+*/%|&^<>!=]")
_ENDS: Final = re.compile(r"[ \t]*(?:\?\?|[)\]},:]|$)")
"""What follows a `?` behind a value that has no field, and no `c ? a : b`."""
NEVER_ABSENT: Final = "a variable alone is never absent; where it may be null, write $name ?? value"
WRONG_OPERATORS: Final = {"&&": "and", "||": "or", "<>": "!=", "=": "==", "!": "not "}
"""Operators of other languages, and what they are here."""
_SPREADS: Final = {
    "*": "lists are joined with +: $first + $second",
    "**": "dicts are joined with |: $first | $second",
}
_PLAIN: Final = lazy.pattern(r"[^\\$\r\n]+")
_BODIES: Final = {
    '"': lazy.pattern(r'([^"\\]*+(?:\\.[^"\\]*+)*)"', re.DOTALL),
    "'": lazy.pattern(r"([^'\\]*+(?:\\.[^'\\]*+)*)'", re.DOTALL),
    '"""': lazy.pattern(r'([^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*)"""', re.DOTALL),
    "'''": lazy.pattern(r"([^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*)'''", re.DOTALL),
}
"""What stands in quotes, and the closing ones."""
_RAW_BODIES: Final = {
    '"': lazy.pattern(r'([^"\n]*+)"'),
    "'": lazy.pattern(r"([^'\n]*+)'"),
    '"""': lazy.pattern(r'([^"]*+(?:"(?!"")[^"]*+)*)"""'),
    "'''": lazy.pattern(r"([^']*+(?:'(?!'')[^']*+)*)'''"),
}
"""The same of raw texts, where a backslash is itself."""
_ESCAPE: Final = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(\r\n|.))",
    re.DOTALL,
)


class _Inside:
    """What a cursor is inside of until a `with` block ends; an error ends the reading as a whole."""

    __slots__ = ("cursor",)

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor

    def __enter__(self) -> None:
        """Whoever made this has counted it."""


class _Level(_Inside):
    __slots__ = ()

    def __exit__(self, *_: object) -> None:
        self.cursor.depth -= 1


class _Bracket(_Inside):
    __slots__ = ()

    def __exit__(self, *_: object) -> None:
        self.cursor.brackets -= 1


class Cursor(ABC):
    """A position in a text, how deep in brackets it is, and what stands there."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text, self.pos, self.end = text, start, end
        self.brackets = 0
        self.depth = 0
        self.names: Collection[str] = ()
        """Variables that are written without their `$`, too."""
        self.lone: set[Span] = set()
        """Where `${name}` stands without its `$`: the variable, unless a comprehension binds the name."""

    # ------------------------------------------------------------ the cursor

    def skip(self) -> str:
        """Skip blanks, and inside brackets line ends and comments; the character there, "" at the end."""
        char = self.text[self.pos : self.pos + 1]
        if char == " ":  # by far the most frequent cases: one blank, or none
            char = self.text[self.pos + 1 : self.pos + 2]
            if char not in _WHITE and self.pos + 1 < self.end:
                self.pos += 1
                return char
        elif char not in _WHITE and self.pos < self.end:
            return char
        found = (_SPACE if self.brackets else BLANK).match(self.text, self.pos, self.end)
        if found is not None:
            self.pos = found.end()
        return self.text[self.pos] if self.pos < self.end else ""

    def word(self) -> str:
        """The word at the position, not consumed; "" where there is none."""
        if self.skip() in _NO_WORD:
            return ""
        found = WORD.match(self.text, self.pos, self.end)
        return "" if found is None else found[0]

    def takes(self, word: str) -> bool:
        """Consume a keyword if it stands here."""
        if self.word() != word:
            return False
        self.pos += len(word)
        return True

    def operator(self) -> str:
        """The operator at the position, not consumed."""
        if self.skip() not in _BEGINS_OPERATOR:
            return ""
        found = _OPERATOR.match(self.text, self.pos, self.end)
        return "" if found is None else found[0]

    def fail(self, message: str, start: int, end: int | None = None, help_: str | None = None) -> NoReturn:
        """Raise NotAnExpression; without `end` it points to one character."""
        raise NotAnExpression(message, Span(start, max(start, start + 1 if end is None else end)), help_)

    def unexpected(self) -> NoReturn:
        """Raise NotAnExpression for what stands here."""
        char = self.skip()
        at = self.pos
        if not char or char == "\n":
            self.fail("a value is missing here", at, at)
        operator = self.operator()
        instead = WRONG_OPERATORS.get(operator)
        if instead is not None:
            self.fail(f"{operator} is written {instead.strip()} here", at, at + len(operator))
        if char == "?":
            self.fail("? stands behind a field or an index: $row.title?", at, None, NEVER_ABSENT)
        self.fail(f"{char!r} is not expected here", at, None, _SPREADS.get(operator))

    def other_word(self, word: str) -> NoReturn:
        """The error for a word of another language."""
        self.skip()
        self.fail(f"{word} is written {OTHER_WORDS[word]}", self.pos, self.pos + len(word))

    def expect(self, char: str, why: str) -> None:
        """Consume a character; raise NotAnExpression where there is another one."""
        if self.skip() != char:
            if self.operator() in WRONG_OPERATORS:
                self.unexpected()
            if self.word() in OTHER_WORDS:
                self.other_word(self.word())
            if self.text[self.pos : self.pos + 1] == "?":
                if _ENDS.match(self.text, self.pos + 1) is not None:
                    self.unexpected()
                self.fail("c ? a : b is written a if c else b", self.pos)
            self.fail(f"{char} is missing {why}", min(self.pos, self.end))
        self.pos += 1

    def inside(self, start: int) -> _Level:
        """One level deeper."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(
                f"expressions nest more than {MAX_DEPTH} deep",
                start,
                None,
                "compute a part of it with LET before",
            )
        return _Level(self)

    def bounded(self, node: Expression, start: int, end: int) -> Expression:
        """The expression, unless sums or fields in a row make it too high for whoever descends in it."""
        level = [node] if end - start > MAX_HEIGHT else []
        for _ in range(MAX_HEIGHT):
            level = [inner for one in level for inner in children(one)]
            if not level:
                return node
        self.fail(
            f"an expression has at most {MAX_HEIGHT} operations one inside the other",
            start,
            end,
            "compute a part of it with LET before",
        )

    def bracket(self) -> _Bracket:
        """Inside brackets, whose opening one is consumed."""
        self.brackets += 1
        return _Bracket(self)

    # ------------------------------------------------------------ numbers and texts

    def number(self) -> Expression:
        """An integer or a float."""
        start = self.pos
        found = _NUMBER.match(self.text, start, self.end)
        written = "" if found is None else found[0]
        self.pos += len(written)
        follows = self.text[self.pos : min(self.pos + 1, self.end)]
        digits = written.replace("_", "")
        if follows.isalnum() or "__" in written or written.endswith("_"):
            self.fail("this is not a number", start, self.pos + 1)
        span = Span(start, self.pos)
        if digits.isdigit():
            return Literal(self.integer(digits, start), span)
        value = float(digits)
        if math.isinf(value):
            self.fail("this number is larger than a float can be", start, self.pos)
        return Literal(value, span)

    def integer(self, digits: str, start: int) -> int:
        """The integer with these digits, which stand at `start`."""
        if len(digits) > MAX_DIGITS:
            self.fail(f"an integer has at most {MAX_DIGITS} digits", start)
        if len(digits) > 1 and digits[0] == "0":
            self.fail("an integer does not begin with 0", start, start + len(digits))
        return int(digits)

    def string(self, found: re.Match[str]) -> Expression:
        """A text, with the texts that follow it directly as in Python."""
        start = self.pos
        prefix, quote = found.groups()
        if prefix.lower() not in {"", "r"}:
            help_ = 'references stand in plain texts: "${x:.2f}"' if "f" in prefix.lower() else None
            self.fail(f"a text has no prefix {prefix}", start, start + len(prefix), help_)
        opening = found.end()
        body_end, self.pos = self.string_end(start, opening, quote, is_raw=bool(prefix))
        span = Span(start, self.pos)
        indent = ""
        if len(quote) == 3:
            opening, body_end, indent = block_body(self.text, opening, body_end)
        if prefix:
            return Literal(raw_lines(self.text[opening:body_end], indent), span)
        return self.body(opening, body_end, indent, span, is_block=len(quote) == 3)

    def string_end(self, start: int, opening: int, quote: str, *, is_raw: bool) -> tuple[int, int]:
        """Where the text in quotes ends, and where what follows it begins."""
        found = (_RAW_BODIES if is_raw else _BODIES)[quote].match(self.text, opening, self.end)
        if found is None:
            self.fail(f"this text is not closed: its closing {quote} is missing", start)
        return found.end(1), found.end()

    def body(self, start: int, end: int, indent: str, span: Span, *, is_block: bool) -> Expression:
        """The text between the quotes: escapes, references and holes."""
        text = self.text
        parts: list[str | Hole] = []
        at = without_indent(text, start, end, indent) if is_block and indent else start
        while at < end:
            char = text[at]
            if char == "\\":
                at = self.escape(at, end, parts)
            elif char == "$":
                at = self.reference(at, end, parts)
            elif char == "\n" or text.startswith("\r\n", at):
                parts.append("\n")
                at = without_indent(text, at + (1 if char == "\n" else 2), end, indent)
            else:
                plain = _PLAIN.match(text, at, end)
                stop = at + 1 if plain is None else plain.end()
                parts.append(text[at:stop])
                at = stop
        return text_of(parts, span)

    def escape(self, at: int, end: int, parts: list[str | Hole]) -> int:
        """Add what a backslash stands for, and give where it ends."""
        found = _ESCAPE.match(self.text, at, end)
        if found is None:
            self.fail("a backslash stands alone at the end", at)
        high, low, unit, char = found.groups()
        if high is not None:
            parts.append(chr(0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF)))
        elif unit is not None:
            parts.append(chr(int(unit, 16)))
        elif char in ESCAPES:
            parts.append(ESCAPES[char])
        else:
            self.fail(
                f"\\{char} is not an escape",
                at,
                found.end(),
                'write \\\\ for a backslash, or r"…" for a raw text',
            )
        return found.end()

    @abstractmethod
    def reference(self, at: int, end: int, parts: list[str | Hole]) -> int:
        """Add what a dollar sign in a text in quotes stands for, and give where it ends."""


def text_of(parts: list[str | Hole], span: Span) -> Expression:
    """The normal form of a text: no empty or adjacent texts; without a hole it is a literal."""
    merged: list[str | Hole] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part != "":
            merged.append(part)
    if not merged:
        return Literal("", span)
    if len(merged) == 1 and isinstance(merged[0], str):
        return Literal(merged[0], span)
    return Text(tuple(merged), span)
