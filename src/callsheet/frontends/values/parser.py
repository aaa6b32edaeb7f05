"""Parses values: strings, numbers, words, lists, dicts, references and argument lists.

In: a reader at a value. Out: a `Value` with its span. The nesting depth is limited, and so is the recursion.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from callsheet import lazy
from callsheet.diagnostics import Span, did_you_mean
from callsheet.diagnostics.diagnostic import span_of
from callsheet.frontends.values.reader import NAME, Reader, Stop, replace, shown
from callsheet.frontends.values.strings import PATH, path_of, read_body, read_string
from callsheet.ir import DictExpr, ListExpr, Literal, Ref, Value

OTHER_QUOTES = "“”„«»‘’"
"""Typographic quotes, with which no string of the language begins."""
MAX_DIGITS = 4_000
"""Longer whole numbers are kept as strings: converting them takes quadratic time."""

_REF = lazy.pattern(rf"\$({NAME})({PATH})")
_BRACED_REF = lazy.pattern(rf"\$\{{({NAME})({PATH})\}}")
_NUMBER = lazy.pattern(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?(?![\w.])")
_NUMBER_LIKE = lazy.pattern(r"[+-]?\.?[0-9](?:[eE][+-]|[\w.])*")
_LOOSE_NUMBER = lazy.pattern(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eE][+-]?[0-9]+)?")
_WORD = lazy.pattern(r"[^\W\d][\w-]*")
_UNQUOTED = lazy.pattern(r"[^,)\]}\n\"'#]*")
_WORDS = {"true": True, "false": False, "null": None, "none": None}
_SPELLING = {True: "true", False: "false", None: "null"}


def read_value(reader: Reader) -> Value:
    """The value at the position, after white space."""
    char = reader.skip()
    start = reader.pos
    if char in {'"', "'"}:
        return read_string(reader)
    if char == "$":
        return read_reference(reader)
    if char == "[":
        return _read_list(reader)
    if char == "{":
        return _read_dict(reader)
    if char in {"r", "R"} and reader.text[start + 1 : start + 2] in {'"', "'"}:
        if char == "R":
            reader.loose("LTP105", "the r of a raw text is lower case", start, start + 1, "r")
        return read_string(reader)
    if _NUMBER_LIKE.match(reader.text, start):
        return _read_number(reader)
    word = _WORD.match(reader.text, start)
    if word is not None:
        return _read_word(reader, word)
    raise missing_value(reader)


def missing_value(reader: Reader) -> Stop:
    """The error for a missing value."""
    char = reader.text[reader.pos : reader.pos + 1]
    if not char or char in ",)]}\n>=":
        return reader.error("LTP022", "a value is missing here")
    if char in OTHER_QUOTES:
        return reader.error(
            "LTP032", f"{char} is not a quotation mark of the language", help='write "…" with straight quotes'
        )
    return reader.error("LTP032", f"a value cannot begin with {char!r}")


# ---------------------------------------------------------------- references


def read_reference(reader: Reader) -> Ref:
    """The reference at the position: `$name`, `$name.path.0`, `$name[0]["odd key"]`."""
    text, start = reader.text, reader.pos
    match = _REF.match(text, start)
    if match is None:
        match = _BRACED_REF.match(text, start)
        if match is None:
            raise _bad_reference(reader)
        reader.loose(
            "LTP119", "braces belong to references in texts", start, match.end(), "$" + match[0][2:-1]
        )
    end = match.end()
    follows = text[end : end + 1]
    if follows in {".", "["} or (follows.isalnum() and not follows.isascii()):
        reader.pos = end
        raise _bad_reference(reader)
    reader.pos = end
    path_start, path_end = match.span(2)
    path = () if path_start == path_end else path_of(text, path_start, path_end)
    return Ref(match[1], path, span_of((start, end)))


def _bad_reference(reader: Reader) -> Stop:
    follows = reader.text[reader.pos : reader.pos + 1]
    if follows == "[":
        help_ = 'an index is a whole number or a key in quotes: $x[0], $x["a key"]'
    elif follows == ".":
        help_ = "a field consists of letters, digits and _: $x.name; any other key is written in brackets"
    elif follows == "$":
        help_ = "a variable is written $name"
    else:
        help_ = "a variable's name is made of ASCII letters, digits and _"
    return reader.error("LTP030", "this is not a reference to a variable", help=help_)


# ---------------------------------------------------------------- numbers and words


def _read_number(reader: Reader) -> Literal:
    text, start = reader.text, reader.pos
    match = _NUMBER.match(text, start)
    if match is not None:
        reader.pos = match.end()
        return _number(reader, match[0], span_of((start, reader.pos)), is_int=match.lastindex is None)
    like = _NUMBER_LIKE.match(text, start)
    end = start if like is None else like.end()
    written = text[start:end]
    loose = _LOOSE_NUMBER.fullmatch(written)
    if loose is None or (len(loose[2]) > 1 and loose[2].startswith("0")):
        plain = written.replace("_", "")
        raise reader.error(
            "LTP024",
            f"{shown(written)} is not a number",
            start,
            end,
            help=f"write {shown(plain)}" if _NUMBER.fullmatch(plain) else 'put a text in quotes: "…"',
            fix=replace("put it in quotes", start, end, f'"{written}"'),
        )
    sign, whole, fraction, exponent = loose.groups()
    plain = (sign if sign == "-" else "") + (whole or "0") + (f".{fraction}" if fraction else "")
    if fraction == "" and not exponent:
        plain += ".0"
    plain += exponent or ""
    reader.loose("LTP117", f"a number is written {shown(plain)}", start, end, plain)
    reader.pos = end
    return _number(reader, plain, span_of((start, end)), is_int=fraction is None and not exponent)


def _number(reader: Reader, written: str, span: Span, *, is_int: bool) -> Literal:
    if is_int:
        if len(written) <= MAX_DIGITS:
            return Literal(int(written), span)
        why = f"a whole number of more than {MAX_DIGITS:,} digits"
    else:
        value = float(written) if len(written) <= MAX_DIGITS else float("inf")
        if value - value == 0.0:
            return Literal(value, span)
        why = "a number beyond the range of a float"
    reader.warning("LTP025", f"{why} is kept as text", *span, help="put it in quotes if it is a text")
    return Literal(written, span)


def _read_word(reader: Reader, match: re.Match[str]) -> Literal:
    word = match[0]
    start, end = match.span()
    fold = word.lower()
    if fold in _WORDS:
        value = _WORDS[fold]
        if word != _SPELLING[value]:
            reader.loose("LTP105", f"{word} is written {_SPELLING[value]}", start, end, _SPELLING[value])
        reader.pos = end
        return Literal(value, span_of((start, end)))
    raw = _UNQUOTED.match(reader.text, start)
    stretch = (word if raw is None else raw[0]).rstrip()
    suggestions = did_you_mean(word, ("true", "false", "null"))
    raise reader.error(
        "LTP023",
        f"the text {shown(stretch)} has no quotes",
        start,
        start + len(stretch),
        help=f"did you mean {suggestions[0]}?"
        if suggestions
        else f'write "{shown(stretch)}", or ${word} for a variable',
        fix=replace("put it in quotes", start, start + len(stretch), f'"{stretch}"')
        if "\\" not in stretch
        else None,
    )


# ---------------------------------------------------------------- lists and dicts


def _read_list(reader: Reader) -> ListExpr:
    start = reader.pos
    reader.open()
    items: list[Value] = []
    while reader.skip() != "]":
        items.append(read_value(reader))
        separator(reader, "]", start)
    reader.pos += 1
    reader.depth -= 1
    return ListExpr(tuple(items), span_of((start, reader.pos)))


def _read_dict(reader: Reader) -> DictExpr:
    start = reader.pos
    reader.open()
    items: dict[str, Value] = {}
    while reader.skip() != "}":
        key_start = reader.pos
        key = _read_key(reader)
        if key in items:
            raise reader.error(
                "LTP028",
                f"the key {shown(key)!r} occurs twice in this dict",
                key_start,
                reader.pos,
                help="one of the two would be lost: give it another name or remove it",
            )
        if reader.skip() != ":":
            raise reader.error("LTP021", "expected : and a value after the key")
        reader.pos += 1
        items[key] = read_value(reader)
        separator(reader, "}", start)
    reader.pos += 1
    reader.depth -= 1
    return DictExpr(tuple(items.items()), span_of((start, reader.pos)))


def _read_key(reader: Reader) -> str:
    start = reader.pos
    word = _WORD.match(reader.text, start)
    if word is not None and reader.text[word.end() : word.end() + 1] not in {'"', "'"}:
        raise reader.error(
            "LTP029",
            f"the key {shown(word[0])} has no quotes",
            start,
            word.end(),
            help=f'write "{shown(word[0])}"',
            fix=replace("put it in quotes", start, word.end(), f'"{word[0]}"'),
        )
    key = read_value(reader)
    if isinstance(key, Literal) and isinstance(key.value, str) and reader.text[start] not in "-0123456789":
        return key.value
    raise reader.error(
        "LTP029",
        "the key of a dict is a text in quotes, without references",
        start,
        reader.pos,
        help='write {"key": value}; \\$ is a dollar sign',
    )


def separator(reader: Reader, closing: str, opening: int) -> None:
    """Skip the comma after an item; it is optional before the closing bracket."""
    after = reader.pos
    char = reader.skip()
    if char == ",":
        reader.pos += 1
    elif char != closing:
        raise unclosed(reader, closing, opening, after)


def unclosed(reader: Reader, closing: str, opening: int, after: int) -> Stop:
    """The error for an item that is followed neither by a comma nor by the closing bracket."""
    text = reader.text
    if "\n" in text[after : reader.pos] or reader.pos >= len(text) or text[reader.pos] in ">)]}":
        return reader.error(
            "LTP021",
            f"the bracket {text[opening]} is not closed: {closing} is missing",
            max(after - 1, opening),
            after,
            help=f"write {closing} here",
            fix=replace(f"insert {closing}", after, after, closing),
        )
    return reader.error("LTP021", f"expected , or {closing} here, not {shown(text[reader.pos :][:40])}")


# ---------------------------------------------------------------- arguments

Arguments: TypeAlias = "tuple[tuple[Value, ...], tuple[tuple[str, Value], ...]]"

_ARGUMENT_NAME = lazy.pattern(rf"({NAME})[ \t\r\n]*=(?!=)")
_EQUALS = lazy.pattern(r"[ \t\r\n]*=(?!=)")
_USUAL_ARGUMENT = lazy.pattern(
    rf"[ ]?(?:({NAME})=)?"
    rf"(?:\"(?!\"\")([^\"\\\r\n]*)\"|\$({NAME})((?:\.\w+)*+)|(-?(?:0|[1-9][0-9]{{0,14}})(?:\.[0-9]{{1,15}})?))([,)])"
)
"""The most frequent spellings of an argument, with the character after it, in one match."""


def read_arguments(reader: Reader) -> Arguments:
    """The arguments in the parentheses at the position: positional ones, then named ones.

    A name that is no identifier is quoted: `("max-results"=5)`.
    """
    opening = reader.pos
    reader.open()
    text = reader.text
    positional: list[Value] = []
    named: dict[str, Value] = {}
    while True:
        usual = _USUAL_ARGUMENT.match(text, reader.pos)
        if usual is not None:
            start, end = usual.span()
            value = _usual_value(reader, usual)
            name = usual[1]
            if name is not None and name not in named:
                named[name] = value
            else:
                reader.pos = end - 1
                _add(reader, start, name, value, positional, named)
            reader.pos = end
            if text[end - 1] == ")":
                break
            continue
        if reader.skip() == ")":
            reader.pos += 1
            break
        start = reader.pos
        name, value = _read_argument(reader)
        _add(reader, start, name, value, positional, named)
        separator(reader, ")", opening)
    reader.depth -= 1
    return tuple(positional), tuple(named.items())


def _usual_value(reader: Reader, match: re.Match[str]) -> Value:
    _, string, ref, path, number, _ = match.groups()
    if string is not None:
        start, end = match.span(2)
        span = span_of((start - 1, end + 1))
        return read_body(reader, span, span_of((start, end))) if "$" in string else Literal(string, span)
    if ref is not None:
        start, (path_start, end) = match.start(3) - 1, match.span(4)
        return Ref(ref, path_of(reader.text, path_start, end) if path else (), span_of((start, end)))
    return Literal(float(number) if "." in number else int(number), span_of(match.span(5)))


def _read_argument(reader: Reader) -> tuple[str | None, Value]:
    name = _read_argument_name(reader)
    value = read_value(reader)
    if name is None and isinstance(value, Literal) and isinstance(value.value, str):
        equals = _EQUALS.match(reader.text, reader.pos)
        if equals is not None:
            reader.pos = equals.end()
            return value.value, read_value(reader)
    return name, value


def _add(
    reader: Reader,
    start: int,
    name: str | None,
    value: Value,
    positional: list[Value],
    named: dict[str, Value],
) -> None:
    """Add an argument that ends at the position to the positional or the named ones."""
    if name is None:
        if named:
            raise _late_positional(reader, start)
        positional.append(value)
    elif name in named:
        raise reader.error(
            "LTP027",
            f"the argument {shown(name)} is given twice",
            start,
            reader.pos,
            help="one of the two would be lost: remove it",
        )
    else:
        named[name] = value


def _read_argument_name(reader: Reader) -> str | None:
    match = _ARGUMENT_NAME.match(reader.text, reader.pos)
    if match is None:
        return None
    reader.pos = match.end()
    return match[1]


def _late_positional(reader: Reader, start: int) -> Stop:
    written = reader.text[start : reader.pos].lstrip()
    start = reader.pos - len(written)
    return reader.error(
        "LTP026",
        "a value without a name follows a named one",
        start,
        reader.pos,
        help=f"write {shown(written)} first, or give it its name: name={shown(written)}",
    )
