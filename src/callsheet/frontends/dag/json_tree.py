"""Parses JSON text to a tree with spans.

In: a text and a report. Out: the tree, or `Unreadable` after the reason was reported. A valid text
has exactly the values that `json.loads` returns; what that accepts beyond JSON (NaN, duplicate keys) is
an error. After unambiguous mistakes (an additional comma, a comment) parsing continues.
"""

from __future__ import annotations

import re
from json import JSONDecodeError, JSONDecoder

from callsheet import lazy
from callsheet.diagnostics import Diagnostic, Edit, Fix, Severity, Span
from callsheet.frontends.tree import Entry, Mapping, Node, Scalar, Sequence

MOST_ERRORS = 1_000


class Unreadable(Exception):
    """The rest of the text cannot be read; the reason is in the report."""


class Report:
    """The diagnostics of one text.

    The error after `MOST_ERRORS` errors is replaced by DAG006 and raises `Unreadable`.
    """

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.errors = 0

    def error(
        self,
        code: str,
        message: str,
        span: Span,
        help_: str | None = None,
        *,
        fix: Fix | None = None,
        step: str | None = None,
    ) -> Unreadable:
        """Record an error; returns the exception that a caller raises if it cannot go on."""
        if self.errors == MOST_ERRORS:
            text = f"more than {MOST_ERRORS:,} errors; the rest of the text was not checked"
            self.diagnostics.append(
                Diagnostic("DAG006", Severity.ERROR, text, span, "repair these first, then check again")
            )
            self.errors += 1
            raise Unreadable
        self.errors += 1
        self.diagnostics.append(Diagnostic(code, Severity.ERROR, message, span, help_, fix, step))
        return Unreadable()

    def warning(
        self, code: str, message: str, span: Span, help_: str | None = None, *, step: str | None = None
    ) -> None:
        """Record a warning: the text is read, but perhaps not as intended."""
        self.diagnostics.append(Diagnostic(code, Severity.WARNING, message, span, help_, None, step))


MAX_DEPTH = 64
"""The largest nesting depth of lists and objects."""
MAX_DIGITS = 4_300
"""Longer whole numbers are refused: converting them takes quadratic time."""

_SPACE = lazy.pattern(r"[ \t\n\r]*")
_PLAIN_TEXT = lazy.pattern(r'"([^"\\\x00-\x1f]*)"')
_USUAL_NAME = lazy.pattern(r'[ \t\n\r]*"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*(?![#/ \t\n\r])')
"""The most frequent spelling of a name and its colon, up to the value."""
_USUAL_COMMA = lazy.pattern(r"[ \t\n\r]*,(?=[ \t\n\r]*[\"{\[0-9a-z-])")
_NUMBER = lazy.pattern(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?(?![\w.+-])")
_NUMBER_LIKE = lazy.pattern(r"[+-]?(?:[0-9.][\w.+-]*|(?:Infinity|NaN)\b)|(?:Infinity|NaN)\b")
_WORD = lazy.pattern(r"[A-Za-z_$][\w$.-]*")
_SINGLE_QUOTED = lazy.pattern(r"'((?:[^'\\\n]|\\.)*)'")
_COMMENT = lazy.pattern(r"#[^\n]*|//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORDS = {"true": True, "false": False, "null": None}
_MEANT = {"True": True, "TRUE": True, "False": False, "FALSE": False}
_NOTHING = frozenset({"None", "NULL", "Null", "nil", "undefined"})
_decode = JSONDecoder().raw_decode


def read_json(text: str, report: Report) -> Node:
    """The tree of a JSON text. Raises `Unreadable` if it cannot be read to its end."""
    reader = _JsonReader(text, report)
    return reader.whole()


class _JsonReader:
    """A cursor over the text, which never moves back."""

    def __init__(self, text: str, report: Report) -> None:
        self._text = text
        self._report = report
        self._pos = 1 if text.startswith("\ufeff") else 0
        self._depth = 0

    def whole(self) -> Node:
        if not self._skip():
            raise self._error("DAG001", "this text is empty", 0, 0, 'a plan is {"steps": […]}')
        node = self._value()
        if self._skip():
            raise self._error(
                "DAG001",
                "text follows after the end of the plan",
                self._pos,
                self._pos + 1,
                "a file contains one plan: remove the rest",
            )
        return node

    # ------------------------------------------------------------ moving and saying

    def _skip(self) -> str:
        """Skip white space, and comments with an error each; returns the character there."""
        text = self._text
        while True:
            match = _SPACE.match(text, self._pos)
            if match is not None:
                self._pos = match.end()
            char = text[self._pos : self._pos + 1]
            if char not in ("#", "/"):
                return char
            comment = _COMMENT.match(text, self._pos)
            if comment is None:
                return char
            self._error("DAG001", "JSON has no comments", *comment.span(), "use a title, or write YAML")
            self._pos = comment.end()

    def _error(
        self, code: str, message: str, start: int, end: int, help_: str | None = None, fix: Fix | None = None
    ) -> Unreadable:
        return self._report.error(code, message, Span(start, end), help_, fix=fix)

    # ------------------------------------------------------------ values

    def _value(self) -> Node:
        """The value at the position, which is no white space."""
        text, start = self._text, self._pos
        char = text[start : start + 1]
        if char == '"':
            return Scalar(self._string(), Span(start, self._pos))
        if char == "{":
            return self._object()
        if char == "[":
            return self._array()
        number = _NUMBER.match(text, start)
        if number is not None:
            self._pos = number.end()
            return self._number(number)
        word = _WORD.match(text, start)
        if word is not None and word[0] in _WORDS:
            self._pos = word.end()
            return Scalar(_WORDS[word[0]], Span(start, self._pos))
        return self._odd_scalar(word)

    def _string(self) -> str:
        start = self._pos
        match = _PLAIN_TEXT.match(self._text, start)
        if match is not None:
            self._pos = match.end()
            return match[1]
        try:
            value, self._pos = _decode(self._text, start)
        except JSONDecodeError as error:
            raise self._bad_string(start, error) from None
        return value

    def _bad_string(self, start: int, error: JSONDecodeError) -> Unreadable:
        at = error.pos
        if error.msg.startswith("Unterminated"):
            end = self._text.find("\n", start)
            end = len(self._text) if end == -1 else end
            return self._error("DAG001", "this text is not closed: its closing quote is missing", start, end)
        if "escape" in error.msg:
            help_ = r"a backslash is written \\ in JSON; escapes are \" \\ \/ \b \f \n \r \t \u0041"
            return self._error("DAG001", "this is not a JSON escape", at, at + 2, help_)
        help_ = r"a line end is written \n in JSON, a tab \t; or close the quote before it"
        return self._error(
            "DAG001", "this string contains a line end or another control character", at, at + 1, help_
        )

    def _number(self, match: re.Match[str]) -> Scalar:
        span = Span(*match.span())
        if match.lastindex is not None:
            value = float(match[0])
            if value - value == 0.0:
                return Scalar(value, span)
            self._too_large(span)
            return Scalar(None, span)
        if len(match[0]) > MAX_DIGITS:
            self._too_large(span)
            return Scalar(None, span)
        return Scalar(int(match[0]), span)

    def _too_large(self, span: Span) -> None:
        self._error("DAG004", "this number is too large", *span, "put it in quotes to keep it as a text")

    def _odd_scalar(self, word: re.Match[str] | None) -> Node:
        """Report what is no JSON value, and skip it if it is unambiguous; else raise `Unreadable`."""
        text, start = self._text, self._pos
        like = _NUMBER_LIKE.match(text, start)
        if like is not None:
            help_ = "write it as JSON does (12, -0.5, 1e6), or put it in quotes to keep it as a text"
            self._error("DAG004", f"{like[0][:40]} is not a JSON number", *like.span(), help_)
            self._pos = like.end()
            return Scalar(None, Span(*like.span()))
        if word is not None:
            return self._odd_word(word)
        quoted = _SINGLE_QUOTED.match(text, start)
        if quoted is not None:
            self._error("DAG001", "strings need double quotes in JSON", *quoted.span(), 'write "…"')
            self._pos = quoted.end()
            return Scalar(quoted[1], Span(*quoted.span()))
        if not text[start : start + 1] or text[start] in ",:]}":
            before = len(text[:start].rstrip()) if start >= len(text) else start
            raise self._error("DAG001", "a value is missing here", before, min(before + 1, len(text)))
        raise self._error("DAG001", f"a value cannot begin with {text[start]!r}", start, start + 1)

    def _odd_word(self, word: re.Match[str]) -> Scalar:
        span = Span(*word.span())
        self._pos = span.end
        if word[0] in _MEANT or word[0] in _NOTHING:
            value = _MEANT.get(word[0])
            meant = "null" if value is None else "true" if value else "false"
            fix = Fix(f"write {meant}", (Edit(span, meant),))
            self._error("DAG001", f"{word[0]} is not a JSON value", *span, f"did you mean {meant}?", fix)
            return Scalar(value, span)
        fix = Fix("put it in quotes", (Edit(span, f'"{word[0]}"'),))
        self._error("DAG001", f"{word[0][:40]} has no quotes", *span, f'write "{word[0][:40]}"', fix)
        return Scalar(word[0], span)

    # ------------------------------------------------------------ lists and objects

    def _open(self, what: str) -> int:
        start = self._pos
        if self._depth >= MAX_DEPTH:
            raise self._error(
                "DAG003",
                f"lists and objects are nested more than {MAX_DEPTH} deep",
                start,
                start + 1,
                "compute deep data in a step and pass it as a variable",
            )
        self._depth += 1
        self._pos += 1
        return start

    def _array(self) -> Sequence:
        start = self._open("[")
        items: list[Node] = []
        comma = -1
        while (char := self._skip()) != "]":
            self._check_goes_on(char, start, "]")
            items.append(self._value())
            comma = self._after_item("]")
        self._close(comma)
        return Sequence(items, Span(start, self._pos))

    def _object(self) -> Mapping:
        start = self._open("{")
        entries: list[Entry] = []
        known: dict[str, Span] = {}
        comma = -1
        while True:
            usual = _USUAL_NAME.match(self._text, self._pos)
            if usual is not None:
                key, key_span = usual[1], Span(usual.start(1) - 1, usual.end(1) + 1)
                self._pos = usual.end()
            elif (char := self._skip()) == "}":
                break
            else:
                self._check_goes_on(char, start, "}")
                key, key_span = self._odd_name(char)
            value = self._value()
            first = known.setdefault(key, key_span)
            if first is key_span:
                entries.append(Entry(key, key_span, value))
            else:
                note_repeated(self._report, self._text, key, first, key_span)
            comma = self._after_item("}")
        self._close(comma)
        return Mapping(entries, Span(start, self._pos))

    def _odd_name(self, char: str) -> tuple[str, Span]:
        """A name and its colon, up to the value."""
        start = self._pos
        key = self._key(char)
        span = Span(start, self._pos)
        if self._skip() != ":":
            raise self._error("DAG001", "expected : and a value after the name", self._pos, self._pos + 1)
        self._pos += 1
        self._skip()
        return key, span

    def _key(self, char: str) -> str:
        if char == '"':
            return self._string()
        start = self._pos
        word = _WORD.match(self._text, start)
        if word is not None:
            self._pos = word.end()
            fix = Fix("put it in quotes", (Edit(Span(start, self._pos), f'"{word[0]}"'),))
            self._error("DAG001", f"the name {word[0][:40]} has no quotes", start, self._pos, fix=fix)
            return word[0]
        quoted = _SINGLE_QUOTED.match(self._text, start)
        if quoted is not None:
            self._pos = quoted.end()
            self._error("DAG001", "names have double quotes in JSON", start, self._pos, 'write "…"')
            return quoted[1]
        raise self._error("DAG001", "expected a name in quotes", start, start + 1)

    def _check_goes_on(self, char: str, start: int, closing: str) -> None:
        if char and char not in ")]}":
            return
        opening = self._text[start]
        line = self._text.count("\n", 0, start) + 1
        end = len(self._text.rstrip()) if not char else self._pos
        raise self._error(
            "DAG001",
            f"the {opening} of line {line} is not closed: {closing} is missing",
            max(end - 1, 0) if not char else end,
            end if not char else end + 1,
            f"write {closing} here",
        )

    def _after_item(self, closing: str) -> int:
        """Skip the comma after an item; returns its offset, or -1 if there is none."""
        usual = _USUAL_COMMA.match(self._text, self._pos)
        if usual is not None:
            self._pos = usual.end()
            return self._pos - 1
        after = self._pos
        char = self._skip()
        if char == ",":
            self._pos += 1
            return self._pos - 1
        if char and char not in ")]}:=":
            fix = Fix("insert a comma", (Edit(Span(after, after), ","),))
            self._error("DAG001", "a comma is missing after this", after - 1, after, "write , here", fix)
        elif char in (":", "="):
            raise self._error("DAG001", f"expected , or {closing} here", self._pos, self._pos + 1)
        return -1

    def _close(self, comma: int) -> None:
        if comma >= 0:
            fix = Fix("remove the comma", (Edit(Span(comma, comma + 1), ""),))
            self._error(
                "DAG001", "no comma follows the last item in JSON", comma, comma + 1, "remove it", fix
            )
        self._pos += 1
        self._depth -= 1


def note_repeated(report: Report, text: str, key: str, first: Span, second: Span) -> None:
    """Report a duplicate name of an object, with both places."""
    line = text.count("\n", 0, first.start) + 1
    column = first.start - text.rfind("\n", 0, first.start)
    report.error(
        "DAG002",
        f"the name {key[:40]!r} occurs twice in this object: first at line {line}, column {column}",
        second,
        "one of the two would be lost: give it another name or remove it",
    )
