"""Random sentences of a grammar, drawn from its rules: what a constrained decoder might write.

In: a `Grammar` and a random generator. Out: texts. The printed form of the grammar is not used.
"""

from __future__ import annotations

from random import Random
from typing import assert_never

from callsheet.frontends.export.rules import Chars, Choice, Grammar, Many, Node, Seq, Text, Use

_ODD = "'`#{}()[]<>|&;:,.!?=+-*/%@~^_ éß東🙂\u00a0\u0301ΩЖ٣"
_USUAL = "etaoin shrdlu ETAOIN 0123456789 "


class Sentences:
    """Draws sentences of one grammar; the same generator draws the same ones."""

    def __init__(self, grammar: Grammar, random: Random) -> None:
        self._rules = grammar.nodes
        self._start = grammar.start
        self._random = random

    def draw(self) -> str:
        """One sentence."""
        out: list[str] = []
        self._write(self._rules[self._start], out)
        return "".join(out)

    def _write(self, node: Node, out: list[str]) -> None:
        match node:
            case Text(text=text):
                out.append(text)
            case Chars():
                out.append(self._character(node))
            case Seq(parts=parts):
                for part in parts:
                    self._write(part, out)
            case Choice(options=options):
                self._write(self._random.choice(options), out)
            case Many(node=part, least=least, most=most):
                for _ in range(self._times(least, most)):
                    self._write(part, out)
            case Use(name=name):
                self._write(self._rules[name], out)
            case _:
                assert_never(node)

    def _times(self, least: int, most: int) -> int:
        """Mostly few, sometimes the least or the most that there may be."""
        drawn = self._random.random()
        if drawn < 0.1:
            return least
        if drawn > 0.995:
            return most
        return min(most, least + int(self._random.expovariate(1 / 4 if most > 8 else 1)))

    def _character(self, node: Chars) -> str:
        if not node.outside:
            first, last = self._random.choice(node.ranges)
            return chr(self._random.randint(first, last))
        while True:
            drawn = self._random.random()
            pool = _USUAL if drawn < 0.6 else _ODD
            found = self._random.choice(pool) if drawn < 0.97 else chr(self._random.randint(32, 0x2FFFF))
            if all(not first <= ord(found) <= last for first, last in node.ranges) and not (
                0xD800 <= ord(found) <= 0xDFFF
            ):
                return found
