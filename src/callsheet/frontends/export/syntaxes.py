"""A grammar as decoders want it: Lark in llguidance's dialect, and llama.cpp's GBNF.

In: a `Grammar`. Out: its text. Both say the same sentences.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import assert_never

from callsheet.frontends.export.rules import HOLE, Chars, Choice, Grammar, Many, Node, Seq, Text, Use

_LOWER_HOLE, _UPPER_HOLE = "\0", "\1"
"""What stands for the hole of a pattern in its text: characters that no text of a grammar holds."""


def as_lark(grammar: Grammar) -> str:
    """The grammar in Lark for llguidance: what a lexer reads as one piece has a name in capitals."""

    def name_of(name: str) -> str:
        plain = name.replace("-", "_")
        before, hole, _ = name.partition(HOLE)
        if before + hole not in grammar.tokens:
            return plain.replace(HOLE, _LOWER_HOLE)
        return plain.upper().replace(HOLE, _UPPER_HOLE)

    def class_of(node: Chars) -> str:
        return f"/{_class(node, _lark_char)}/"

    lines = ["%llguidance {}", f"start: {name_of(grammar.start)}"]
    lines += _rules(grammar, ": ", name_of, _quoted, class_of)
    return "\n".join([*lines, ""])


def as_gbnf(grammar: Grammar) -> str:
    """The grammar in llama.cpp's GBNF."""

    def name_of(name: str) -> str:
        return name.replace(HOLE, _LOWER_HOLE)

    def class_of(node: Chars) -> str:
        return _class(node, _gbnf_char)

    lines = _rules(grammar, " ::= ", name_of, _gbnf_quoted, class_of)
    return "\n".join([f"root ::= {grammar.start}", *lines, ""])


def _rules(
    grammar: Grammar,
    is_: str,
    name_of: Callable[[str], str],
    quoted: Callable[[str], str],
    class_of: Callable[[Chars], str],
) -> Iterator[str]:
    """The lines of all rules; each pattern is written once, and its copies are made of that text."""
    written: dict[int, str] = {}
    for name, rule in grammar.rules.items():
        text = written.get(id(rule.node))
        if text is None:
            text = written[id(rule.node)] = _written(rule.node, name_of, quoted, class_of)
        if rule.filler:
            text = text.replace(_LOWER_HOLE, rule.filler).replace(_UPPER_HOLE, rule.filler.upper())
        yield f"{name_of(name)}{is_}{text}"


def _written(
    node: Node,
    name_of: Callable[[str], str],
    quoted: Callable[[str], str],
    class_of: Callable[[Chars], str],
    *,
    is_inside: bool = False,
) -> str:
    """The node; where it stands inside another one, as one piece."""

    def inner(part: Node) -> str:
        return _written(part, name_of, quoted, class_of, is_inside=True)

    match node:
        case Text(text=text):
            return quoted(text)
        case Chars():
            return class_of(node)
        case Use(name=name):
            return name_of(name)
        case Many(node=part, least=least, most=most):
            return inner(part) + _times(least, most)
        case Seq(parts=parts):
            said = " ".join(inner(part) for part in parts)
        case Choice(options=options):
            said = " | ".join(inner(option) for option in options)
        case _:
            assert_never(node)
    return f"({said})" if is_inside else said


def _times(least: int, most: int) -> str:
    return "?" if (least, most) == (0, 1) else f"{{{least},{most}}}"


def _class(node: Chars, char: Callable[[int], str]) -> str:
    inside = "".join(
        char(first) if first == last else f"{char(first)}-{char(last)}" for first, last in node.ranges
    )
    return f"[{'^' if node.outside else ''}{inside}]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _lark_char(code: int) -> str:
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\x{{{code:x}}}"


def _gbnf_quoted(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{"".join(c if c.isprintable() else _gbnf_escape(ord(c)) for c in plain)}"'


def _gbnf_char(code: int) -> str:
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else _gbnf_escape(code)


def _gbnf_escape(code: int) -> str:
    if code <= 0xFF:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"
