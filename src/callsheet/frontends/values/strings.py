"""Parses strings: where they end, what their escapes mean, and which references they contain.

In: a reader at an opening quote. Out: a `Literal`, `Ref` or `Template`, each reference with its
own span. References are found here only; values that are substituted later are never parsed.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from callsheet import lazy
from callsheet.diagnostics import Span
from callsheet.diagnostics.diagnostic import span_of
from callsheet.frontends.values.printer import format_text
from callsheet.frontends.values.reader import (
    MAX_INDEX_DIGITS,
    NAME,
    SURE_STEP_LINE,
    Reader,
    Stop,
    shown,
)
from callsheet.ir import Literal, PathPart, Ref, Template
from callsheet.ir.expr import template

Text: TypeAlias = "Literal | Ref | Template"

KEY = r"'(?:[^'\\\n]|\\.)*+'|\"(?:[^\"\\\n]|\\.)*+\""
"""A quoted key in the brackets of a path, as a pattern."""
PATH = rf"(?:\.\w+|\[[ \t]*(?:-?\d+|{KEY})[ \t]*\])*+"
"""The path after a variable's name: outside strings, and inside them in braces."""

_PATH_PART = lazy.pattern(rf"\.(\w+)|\[[ \t]*(?:(-?\d+)|({KEY}))[ \t]*\]")

_LINE_STRING = {q: lazy.pattern(rf"(?:[^{q}\\\n]++|\\[^\n])*+{q}") for q in "\"'"}
_LONG_STRING = {q: lazy.pattern(rf"(?:[^{q}\\]++|\\.)*+{q}", re.DOTALL) for q in "\"'"}
_BLOCK_STRING = {q: lazy.pattern(rf"(?:[^{q}\\]++|\\.|{q}(?!{q}{q}))*+{q}{q}{q}", re.DOTALL) for q in "\"'"}
_BLOCK_OPENING = lazy.pattern(r"[ \t]*\r?\n")
_BLANK = lazy.pattern(r"[ \t]*")

_AFTER_STRING = frozenset(["", *",)]}: \t\r\n=!<>#"])
"""What may follow a closing quote; before any other character a quote probably opens a string."""

_CLOSES = frozenset(")],}")
"""What may follow a value inside brackets."""

ESCAPES = {
    '"': '"',
    "'": "'",
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "$": "$",
}
"""The escapes of one character after the backslash."""
_TOKEN = lazy.pattern(
    rf"""
    \\u(?P<high>[dD][89abAB][0-9a-fA-F]{{2}})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{{2}})
  | \\u(?P<unit>[0-9a-fA-F]{{4}})
  | \\(?P<escape>\r\n|.)
  | (?P<dollars>\$\$)
  | \$\{{(?P<braced>{NAME}{PATH})\}}
  | \$(?P<ref>{NAME}(?:\.\w+)*+)
  | (?P<brace>\$\{{)
  | (?P<line>\r?\n)
    """,
    re.VERBOSE | re.DOTALL,
)


def path_of(text: str, start: int, end: int) -> tuple[PathPart, ...]:
    """The parts of a path that `PATH` has matched at `start:end`."""
    parts: list[PathPart] = []
    for match in _PATH_PART.finditer(text, start, end):
        word, index, key = match.groups()
        if word is not None:
            parts.append(_word_part(word))
        elif index is not None:
            parts.append(int(index) if len(index.lstrip("-")) <= MAX_INDEX_DIGITS else index)
        else:
            parts.append(_plain(key[1:-1]))
    return tuple(parts)


def _word_part(word: str) -> PathPart:
    is_index = word.isascii() and word.isdigit() and (word[0] != "0" or word == "0")
    return int(word) if is_index and len(word) <= MAX_INDEX_DIGITS else word


def _plain(body: str) -> str:
    """A string body with its escapes replaced and without references: a key in brackets."""
    return _TOKEN.sub(lambda m: _escaped(m) or m[0], body) if "\\" in body else body


def _escaped(match: re.Match[str]) -> str | None:
    """The character of an escape; None if it is not an escape of JSON."""
    high, low, unit, escape = match.group("high", "low", "unit", "escape")
    if high is not None:
        return chr(0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF))
    if unit is not None:
        return chr(int(unit, 16))
    return ESCAPES.get(escape)


def read_string(reader: Reader) -> Text:
    """Parse the string at the position: `"…"`, `'…'`, triple-quoted, each with an optional `r`."""
    text, start = reader.text, reader.pos
    raw = text[start] in "rR"
    at = start + raw
    quote = text[at]
    if text.startswith(quote * 3, at):
        opening, closing = at + 3, _block_end(reader, at, quote, raw)
        body_end = closing - 3
    else:
        opening, closing = at + 1, _line_end(reader, at, quote, raw)
        body_end = closing - 1
    reader.pos = closing
    indent = ""
    if opening == at + 3:
        opening, body_end, indent = block_body(text, opening, body_end)
    value = read_body(
        reader, span_of((start, closing)), span_of((opening, body_end)), indent, raw=raw, quote=quote
    )
    if quote == "'" and isinstance(value, Literal):
        _note_single_quotes(reader, value, span_of((opening, body_end)), raw)
    return value


# ---------------------------------------------------------------- where a text ends


def _line_end(reader: Reader, at: int, quote: str, raw: bool) -> int:
    text = reader.text
    if raw:
        close = text.find(quote, at + 1, reader.line_end(at))
        if close != -1:
            return close + 1
        raise _unterminated(
            reader, at, reader.line_end(at), f"r{quote * 3}…{quote * 3} may span several lines"
        )
    match = _LINE_STRING[quote].match(text, at + 1)
    if match is not None:
        return match.end()
    match = _LONG_STRING[quote].match(text, at + 1, reader.next_step_line(at))
    if match is not None and text[match.end() : match.end() + 1] in _AFTER_STRING:
        return match.end()
    match = _LONG_STRING[quote].match(text, at + 1)
    if match is not None and _is_closing_quote(reader, match.end()):
        return match.end()
    raise _unterminated(
        reader,
        at,
        reader.line_end(at),
        f"end it with {quote} before the next step; a backslash before it is written \\\\",
    )


def _is_closing_quote(reader: Reader, end: int) -> bool:
    """Whether a quote after a line that looks like a step closes a string and does not open one.

    It does if its line does not begin a step, and a comma or closing bracket follows.
    """
    if SURE_STEP_LINE.match(reader.text, reader.line_start(end)) is not None:
        return False
    follows = _BLANK.match(reader.text, end)
    at = end if follows is None else follows.end()
    return reader.text[at : at + 1] in _CLOSES


def _block_end(reader: Reader, at: int, quote: str, raw: bool) -> int:
    text = reader.text
    if raw:
        closing = text.find(quote * 3, at + 3)
        close = -1 if closing == -1 else closing + 3
    else:
        match = _BLOCK_STRING[quote].match(text, at + 3)
        close = -1 if match is None else match.end()
    if close == -1:
        raise _unterminated(reader, at, reader.line_end(at), f"end the text with {quote * 3}")
    follows = text[close : close + 1]
    if follows not in _AFTER_STRING and reader.next_step_line(at) < close:
        raise _unterminated(
            reader,
            at,
            reader.line_end(at),
            f"the next {quote * 3} seems to open another text: close this one before",
        )
    return close


def _unterminated(reader: Reader, start: int, end: int, help_: str) -> Stop:
    return reader.error(
        "LTP020", "this text is not closed: its closing quote is missing", start, end, help=help_
    )


# ---------------------------------------------------------------- what a text says


def block_body(text: str, start: int, end: int) -> tuple[int, int, str]:
    """The span of the content of a triple-quoted string, and the indentation that is removed from its lines.

    That is the indentation of the line of the closing quotes. A newline directly after the opening
    quotes, and one before closing quotes on a line of their own, do not belong to the content.
    """
    last_line = text.rfind("\n", start, end) + 1
    if not last_line:
        return start, end, ""
    blank = _BLANK.match(text, last_line, end)
    indent = "" if blank is None else blank[0]
    opening = _BLOCK_OPENING.match(text, start, end)
    body_start = start if opening is None else opening.end()
    if last_line + len(indent) == end and last_line > start:
        end = max(body_start, last_line - 1)
        if end > body_start and text[end - 1] == "\r":
            end -= 1
    return body_start, end, indent


def read_body(
    reader: Reader, span: Span, body: Span, indent: str = "", *, raw: bool = False, quote: str = '"'
) -> Text:
    """The value of a string: `span` is that of the string with its quotes, `body` without."""
    text = reader.text
    start, end = body
    if indent and body.start > span.start + 3 + raw:
        start = without_indent(text, start, end, indent)
    content = text[start:end]
    if raw:
        return Literal(raw_lines(content, indent), span)
    if "\\" not in content and "$" not in content and "\r" not in content and not indent:
        return Literal(content, span)
    parts: list[str | Ref] = []
    at = start
    for match in _TOKEN.finditer(text, start, end):
        begin, after = match.span()
        parts.append(text[at:begin])
        at = after
        kind = match.lastgroup
        if kind == "line":
            parts.append("\n")
            at = without_indent(text, after, end, indent)
        elif kind in {"ref", "braced"} and quote == '"':
            parts.append(_reference(reader, match, kind, end))
        elif kind in {"ref", "braced", "dollars", "brace"}:
            parts.append(match[0])
            if kind == "brace" and quote == '"':
                reader.loose(
                    "LTP119",
                    "this is not a reference and stays as it is: ${name.path} is one",
                    begin,
                    after,
                    "\\${",
                )
        else:
            parts.append(_escape(reader, match))
    parts.append(text[at:end])
    return template(parts, span)


def without_indent(text: str, start: int, end: int, indent: str) -> int:
    """The offset after the longest prefix of `indent` that the line at `start` begins with."""
    at = start
    for blank in indent:
        if at >= end or text[at] != blank:
            break
        at += 1
    return at


def raw_lines(content: str, indent: str) -> str:
    """The content of a raw text without the indentation of its lines."""
    if "\r\n" in content:
        content = content.replace("\r\n", "\n")
    if not indent:
        return content
    first, *rest = content.split("\n")
    return "\n".join([first, *(line[without_indent(line, 0, len(line), indent) :] for line in rest)])


def _escape(reader: Reader, match: re.Match[str]) -> str:
    character = _escaped(match)
    if character is not None:
        return character
    written = match[0]
    reader.loose(
        "LTP118",
        f"{shown(written)} is not an escape, and is kept as it is",
        match.start(),
        match.end(),
        None if "\n" in written else "\\" + written,
    )
    return written.replace("\r\n", "\n")


def _reference(reader: Reader, match: re.Match[str], kind: str, end: int) -> Ref:
    text = reader.text
    start, after = match.span(kind)
    name_end = start
    while name_end < after and text[name_end] not in ".[":
        name_end += 1
    ref = Ref(text[start:name_end], path_of(text, name_end, after), span_of(match.span()))
    if kind == "ref" and after < end:
        follows = text[after]
        if follows == "[" or (follows.isalnum() and not follows.isascii()):
            reader.loose(
                "LTP119",
                f"the reference ends before {follows!r}; in a text, brackets and other letters need braces",
                match.start(),
                after,
                "${" + text[start:after] + "}",
            )
    return ref


_LOOKS_LIKE_REF = lazy.pattern(rf"(?<!\\)\$(?:{NAME}|\{{{NAME})")


def _note_single_quotes(reader: Reader, value: Literal, body: Span, raw: bool) -> None:
    start, end = value.span or body
    reader.loose("LTP108", "strings need double quotes", start, end, format_text(str(value.value)))
    reference = None if raw else _LOOKS_LIKE_REF.search(reader.text, body.start, body.end)
    if reference is not None:
        reader.warning(
            "LTP120",
            f"{reference[0]} in single quotes is literal text and is not replaced",
            *reference.span(),
            help='write "…" for a text with references, or \\$ for a dollar sign',
        )
