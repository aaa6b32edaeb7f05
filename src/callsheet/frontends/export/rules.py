"""A regular grammar as data, its sentences, and its text for decoders: llguidance's Lark, GBNF."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, TypeAlias, assert_never

HOLE = "%"
"""The part of a name in a pattern that is replaced in its copies."""


ANY_NUMBER = 1_000_000
"""The `most` of a node that may be repeated without a bound: decoders keep less for it than for a bound."""


@dataclass(frozen=True, slots=True)
class Text:
    """These characters."""

    text: str


@dataclass(frozen=True, slots=True)
class Chars:
    """One character within these ranges (first and last code point), or with `outside` outside of them."""

    ranges: tuple[tuple[int, int], ...]
    outside: bool = False


@dataclass(frozen=True, slots=True)
class Seq:
    """A sequence of nodes."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several nodes."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Many:
    """A node repeated at least `least` and at most `most` times."""

    node: Node
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Use:
    """A reference to the rule of this name."""

    name: str


Node: TypeAlias = "Text | Chars | Seq | Choice | Many | Use"


@dataclass(frozen=True, slots=True)
class Rule:
    """The definition of a name; if the node is a pattern, `filler` replaces `HOLE` in its names."""

    node: Node
    filler: str = ""


@dataclass(frozen=True, slots=True)
class Grammar:
    """Rules by name, and the name of the start rule.

    `tokens` are the names of rules that are tokens of a lexer, which use only tokens. Names consist of
    lower-case letters, digits and `-`. Without a lexer (`by_character`) each character is a token: a lexer
    takes the longest token, and does not go back to a shorter one that the rest of the text needs.
    """

    start: str
    rules: Mapping[str, Rule]
    tokens: frozenset[str] = field(default_factory=frozenset[str])
    by_character: bool = False

    @property
    def nodes(self) -> dict[str, Node]:
        """The node of each name, with patterns filled in."""
        return {name: filled(rule.node, rule.filler) for name, rule in self.rules.items()}


def uses(node: Node) -> Iterator[str]:
    """The names that a node uses, with duplicates.

    >>> list(uses(seq("a", optional(Use("x")), Use("y-%"))))
    ['x', 'y-%']
    """
    match node:
        case Use(name=name):
            yield name
        case Many(node=part):
            yield from uses(part)
        case Seq(parts=parts) | Choice(options=parts):
            for part in parts:
                yield from uses(part)
        case Text() | Chars():
            pass


def is_pattern(node: Node) -> bool:
    """Whether a name in the node has `HOLE`."""
    return any(HOLE in name for name in uses(node))


def filled(node: Node, filler: str) -> Node:
    """The node with `filler` for each `HOLE`.

    >>> filled(seq("$", Use("names-%i")), "3")
    Seq(parts=(Text(text='$'), Use(name='names-3i')))
    """
    match node:
        case Use(name=name):
            return Use(name.replace(HOLE, filler)) if HOLE in name else node
        case Many(node=part):
            return Many(filled(part, filler), node.least, node.most)
        case Seq(parts=parts):
            return Seq(tuple(filled(part, filler) for part in parts))
        case Choice(options=options):
            return Choice(tuple(filled(option, filler) for option in options))
        case Text() | Chars():
            return node


def chars(spec: str, *, outside: bool = False) -> Chars:
    """The characters of a class such as `a-z0-9_`; a literal `-` is last.

    >>> chars("a-c_").ranges
    ((97, 99), (95, 95))
    """
    ranges: list[tuple[int, int]] = []
    at = 0
    while at < len(spec):
        is_range = spec[at + 1 : at + 2] == "-" and at + 2 < len(spec)
        last = spec[at + 2] if is_range else spec[at]
        ranges.append((ord(spec[at]), ord(last)))
        at += 3 if is_range else 1
    return Chars(tuple(ranges), outside)


def seq(*parts: Node | str) -> Node:
    """A sequence; adjacent texts are merged, nested sequences flattened.

    >>> seq("a", seq("b", Use("x")), "c")
    Seq(parts=(Text(text='ab'), Use(name='x'), Text(text='c')))
    """
    flat: list[Node] = []
    for part in parts:
        node = Text(part) if isinstance(part, str) else part
        for one in node.parts if isinstance(node, Seq) else (node,):
            if not isinstance(one, Text):
                flat.append(one)
            elif flat and isinstance(last := flat[-1], Text):
                flat[-1] = Text(last.text + one.text)
            elif one.text:
                flat.append(one)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat)) if flat else Text("")


def choice(*options: Node | str | None) -> Node | None:
    """One of the options that are not None, without duplicates; None if there are none."""
    nodes = [Text(option) if isinstance(option, str) else option for option in options if option is not None]
    flat: list[Node] = []
    for node in nodes:
        flat.extend(node.options if isinstance(node, Choice) else (node,))
    alternatives = tuple(dict.fromkeys(flat))
    return None if not alternatives else alternatives[0] if len(alternatives) == 1 else Choice(alternatives)


def one_of(options: Iterable[Node | str]) -> Node:
    """One of the options, of which there are some."""
    made = choice(*options)
    assert made is not None
    return made


def optional(node: Node | None) -> Node:
    """The node or nothing."""
    return Text("") if node is None else Many(node, 0, 1)


def maybe(*parts: Node | str) -> Node:
    """A sequence or nothing."""
    return optional(seq(*parts))


def separated(node: Node, separator: str, least: int, most: int) -> Node | None:
    """`least` to `most` times the node, with a separator between; None if `most` is less than `least`.

    >>> separated(Use("x"), ", ", 1, 3)
    Seq(parts=(Use(name='x'), Many(node=Seq(parts=(Text(text=', '), Use(name='x'))), least=0, most=2)))
    """
    if most < max(least, 1):
        return Text("") if least == 0 else None
    rest = Many(seq(separator, node), max(least - 1, 0), most - 1)
    all_ = node if most == 1 else seq(node, rest)
    return all_ if least else Many(all_, 0, 1)


def is_sentence(grammar: Grammar, text: str) -> bool:
    """Whether the text is a sentence of the grammar.

    >>> from callsheet.frontends.export import ExportOptions, plan_grammar
    >>> some = plan_grammar([], ExportOptions(max_steps=1))
    >>> is_sentence(some, 'S1: @respond ("Hi")'), is_sentence(some, 'S1: @respond ("Hi") and more')
    (True, False)
    """
    return len(text) in _Reading(grammar, text).after(Use(grammar.start), "", 0)


class _Reading:
    """The matches of the rules at the offsets of one text."""

    def __init__(self, grammar: Grammar, text: str) -> None:
        self._rules = grammar.rules
        self._text = text
        self._known: dict[tuple[str, int], AbstractSet[int]] = {}

    def after(self, node: Node, filler: str, at: int) -> AbstractSet[int]:
        """The offsets at which matches of a node that begin at `at` end."""
        match node:
            case Text(text=text):
                return {at + len(text)} if self._text.startswith(text, at) else _NOWHERE
            case Chars():
                return {at + 1} if at < len(self._text) and _holds(node, ord(self._text[at])) else _NOWHERE
            case Use(name=name):
                return self._by_rule(name.replace(HOLE, filler), at)
            case Seq(parts=parts):
                places: AbstractSet[int] = {at}
                for part in parts:
                    places = self._all_after(part, filler, places)
                return places
            case Choice(options=options):
                return {place for option in options for place in self.after(option, filler, at)}
            case Many(node=part, least=least, most=most):
                return self._repeated(part, filler, at, least, most)
            case _:
                assert_never(node)

    def _by_rule(self, name: str, at: int) -> AbstractSet[int]:
        known = self._known.get((name, at))
        if known is None:
            rule = self._rules[name]
            known = self._known[name, at] = self.after(rule.node, rule.filler, at)
        return known

    def _all_after(self, node: Node, filler: str, places: AbstractSet[int]) -> AbstractSet[int]:
        return {after for place in places for after in self.after(node, filler, place)}

    def _repeated(self, node: Node, filler: str, at: int, least: int, most: int) -> AbstractSet[int]:
        reached: set[int] = set() if least else {at}
        places: AbstractSet[int] = {at}
        for count in range(1, most + 1):
            places = self._all_after(node, filler, places)
            if not places:
                break
            if count >= least:
                reached |= places
        return reached


_NOWHERE: frozenset[int] = frozenset()


def _holds(chars: Chars, code: int) -> bool:
    return any(first <= code <= last for first, last in chars.ranges) != chars.outside


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
    quoted = _in_characters if grammar.by_character else _quoted
    lines += _Writer(": ", name_of, quoted, class_of, is_naming=True).rules(grammar)
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
    if most >= ANY_NUMBER and least <= 1:
        return "+" if least else "*"
    return "?" if (least, most) == (0, 1) else f"{{{least},{most}}}"


def _class(node: Chars, char: Callable[[int], str]) -> str:
    inside = "".join(
        char(first) if first == last else f"{char(first)}-{char(last)}" for first, last in node.ranges
    )
    return f"[{'^' if node.outside else ''}{inside}]"


def _in_characters(text: str) -> str:
    return f"({' '.join(map(_quoted, text))})" if len(text) > 1 else _quoted(text)


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
