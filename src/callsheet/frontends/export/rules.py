"""A regular grammar as data: texts, characters, sequences, choices, repetitions, and names of rules.

Independent of plans and of the syntax of a decoder's grammar. A rule may refer to another by its name, but
not recursively, so that the language is regular.

Rules that differ only in the names that they use are created once, as a pattern: `HOLE` in its names is
replaced in each copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

HOLE = "%"
"""The part of a name in a pattern that is replaced in its copies."""


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
    lower-case letters, digits and `-`.
    """

    start: str
    rules: Mapping[str, Rule]
    tokens: frozenset[str] = field(default_factory=frozenset[str])

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


def optional(node: Node | None) -> Node:
    """The node or nothing."""
    return Text("") if node is None else Many(node, 0, 1)


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
