"""Tests whether a text is a sentence of a grammar, to detect servers that ignore the grammar.

In: a grammar and a text. Out: yes or no. All alternatives are followed at once from the first character on;
the ends of the matches of a rule at an offset are computed once.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import assert_never

from callsheet.frontends.export.rules import HOLE, Chars, Choice, Grammar, Many, Node, Seq, Text, Use


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
