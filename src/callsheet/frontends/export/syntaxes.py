"""Writes a grammar in the syntaxes of decoders: Lark in llguidance's dialect, and llama.cpp's GBNF.

In: a `Grammar`. Out: its text. Both define the same language.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple, assert_never

from callsheet.frontends.export.rules import HOLE, Chars, Choice, Grammar, Many, Node, Seq, Text, Use

_LOWER_HOLE, _UPPER_HOLE = "\0", "\1"
"""Placeholders for `HOLE` in the text of a pattern: characters that occur in no grammar."""


def as_lark(grammar: Grammar) -> str:
    """The grammar in Lark for llguidance; the names of tokens are upper-case.

    Texts of patterns are rules of their own, which saves llguidance a third of its time.
    """

    def name_of(name: str) -> str:
        plain = name.replace("-", "_")
        before, hole, _ = name.partition(HOLE)
        if before + hole not in grammar.tokens:
            return plain.replace(HOLE, _LOWER_HOLE)
        return plain.upper().replace(HOLE, _UPPER_HOLE)

    def class_of(node: Chars) -> str:
        return f"/{_class(node, _lark_char)}/"

    lines = ["%llguidance {}", f"start: {name_of(grammar.start)}"]
    lines += _Writer(": ", name_of, _quoted, class_of, is_naming=True).rules(grammar)
    return "\n".join([*lines, ""])


def as_gbnf(grammar: Grammar) -> str:
    """The grammar in llama.cpp's GBNF."""

    def name_of(name: str) -> str:
        return name.replace(HOLE, _LOWER_HOLE)

    def class_of(node: Chars) -> str:
        return _class(node, _gbnf_char)

    lines = _Writer(" ::= ", name_of, _gbnf_quoted, class_of, is_naming=False).rules(grammar)
    return "\n".join([f"root ::= {grammar.start}", *lines, ""])


class _Writer(NamedTuple):
    """The spelling of names, texts and characters, and the separator between a name and its rule."""

    is_: str
    name_of: Callable[[str], str]
    quoted: Callable[[str], str]
    class_of: Callable[[Chars], str]
    is_naming: bool
    """Whether texts of patterns become rules, so that copies only have their names."""

    def rules(self, grammar: Grammar) -> Iterator[str]:
        """The lines of all rules; each pattern is formatted once, and its copies are made from that text."""
        written: dict[int, str] = {}
        named: dict[str, str] = {}
        for name, rule in grammar.rules.items():
            text = written.get(id(rule.node))
            if text is None:
                can_name = self.is_naming and bool(rule.filler) and name not in grammar.tokens
                known = len(named)
                text = written[id(rule.node)] = self._written(rule.node, named if can_name else None)
                for spelled, its_name in islice(named.items(), known, None):
                    yield f"{its_name}{self.is_}{self.quoted(spelled)}"
            if rule.filler:
                text = text.replace(_LOWER_HOLE, rule.filler).replace(_UPPER_HOLE, rule.filler.upper())
            yield f"{self.name_of(name)}{self.is_}{text}"

    def _written(self, node: Node, named: dict[str, str] | None) -> str:
        """The text of a node on its own; `named` collects the texts that become rules, with their names."""
        match node:
            case Text(text=text):
                if named is None or not text:
                    return self.quoted(text)
                return named.setdefault(text, self.name_of(f"said-{len(named)}"))
            case Chars():
                return self.class_of(node)
            case Use(name=name):
                return self.name_of(name)
            case Many(node=part, least=least, most=most):
                return self._piece(part, named) + _times(least, most)
            case Seq(parts=parts):
                return " ".join([self._piece(part, named) for part in parts])
            case Choice(options=options):
                return " | ".join([self._written(option, named) for option in options])
            case _:
                assert_never(node)

    def _piece(self, node: Node, named: dict[str, str] | None) -> str:
        """The text of a node within another, in parentheses if necessary."""
        written = self._written(node, named)
        return f"({written})" if isinstance(node, Seq | Choice) else written


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
