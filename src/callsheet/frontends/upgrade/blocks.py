"""Nests lines with jumps: forward ones become `?IF`, backward ones `?REPEAT`.

In: `Line`s, each with its statements and perhaps a jump at its end. Out: a block. A jump out of a block sets
a variable that what it leaves out asks for; a jump into a loop from outside has no block (`CannotNest`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from callsheet.frontends.upgrade.values import negated
from callsheet.ir.expr import Literal
from callsheet.ir.expression import (
    Expression,
    Variable,
)
from callsheet.ir.tree import Block, Branch, If, Let, Repeat, Say, Statement, Word


class CannotNest(Exception):
    """The jump of this line has no place in a tree of blocks."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line, self.message = line, message


@dataclass(frozen=True, slots=True)
class Jump:
    """A jump to the line `to`, where the condition holds, or in any case."""

    to: int
    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """Statements that run one after another, then perhaps a jump; `ends` says that nothing follows."""

    statements: Block
    jump: Jump | None = None
    ends: bool = False

    @property
    def goes_on(self) -> bool:
        """Whether the next line may follow."""
        return not self.ends and (self.jump is None or self.jump.condition is not None)


@dataclass(slots=True)
class _Loop:
    """The loop that is being written: its lines, and where jumps out of it lead."""

    head: int
    end: int
    exits: set[int] = field(default_factory=set[int])


def reached(lines: list[Line]) -> set[int]:
    """The lines that some run may come to; also the number after the last, if a run may end there."""
    found: set[int] = set()
    waiting = [0]
    while waiting:
        number = waiting.pop()
        if number in found:
            continue
        found.add(number)
        if number < len(lines):
            line = lines[number]
            if line.goes_on:
                waiting.append(number + 1)
            if line.jump is not None:
                waiting.append(line.jump.to)
    return found


def nested(lines: list[Line], flag: Callable[[int], str]) -> Block:
    """The lines as a block; `flag` names the variable that says whether to jump to a line.

    Raises CannotNest.
    """
    return tuple(_Nesting(lines, flag).whole())


class _Nesting:
    def __init__(self, lines: list[Line], flag: Callable[[int], str]) -> None:
        self.lines, self.flag = lines, flag
        self.live = reached(lines)
        self.jumps = [
            (number, jump)
            for number, line in enumerate(lines)
            if number in self.live and (jump := line.jump) is not None
        ]
        self.loops = self._loops()

    def _loops(self) -> dict[int, int]:
        """The last line of the loop that begins at each line, so that all loops nest."""
        loops: dict[int, int] = {}
        for number, jump in self.jumps:
            if jump.to <= number:
                loops[jump.to] = max(number, loops.get(jump.to, 0))
        changed = True
        while changed:  # a loop that crosses the end of another makes that one longer
            changed = False
            for head, last in loops.items():
                for inner, its_last in loops.items():
                    if head < inner <= last < its_last:
                        loops[head], changed = its_last, True
                        break
        for number, jump in self.jumps:
            for head, last in loops.items():
                if head < jump.to <= last and not head <= number <= last:
                    raise CannotNest(number, "it jumps into the middle of a loop")
        return loops

    def whole(self) -> list[Statement]:
        """All lines."""
        made, escapes = self.region(0, len(self.lines), None)
        assert not escapes
        return made

    # -------------------------------------------------------------- lines in a row

    def region(
        self, low: int, high: int, loop: _Loop | None, flags: frozenset[int] = frozenset()
    ) -> tuple[list[Statement], frozenset[int]]:
        """The lines from `low` to before `high`, and the jumps beyond `high` that they have noted.

        `flags` are the lines to which a jump may have been noted before.
        """
        out: list[Statement] = []
        number = low
        while True:
            flags -= {number}
            if flags:
                to = max(flags, key=lambda one: (self.leaves(one, loop), one))
                flags -= {to}
                noted = Variable(self.flag(to))
                if loop is not None and self.leaves(to, loop):
                    out.append(when(noted, self.left(to, loop, is_noted=True)))
                    continue
                inner, escapes = self.region(number, min(to, high), loop, flags)
                if to > high:
                    return [*out, *unless_empty(negated(noted), inner)], escapes | {to}
                out += [*self.lowered(escapes, to, high, loop), *unless_empty(negated(noted), inner)]
                number, flags = to, escapes
                continue
            if number >= high:
                return out, flags
            if number not in self.live:
                number += 1
                continue
            if number in self.loops and (loop is None or loop.head != number):
                end = self.loops[number] + 1
                if end > high:
                    raise CannotNest(self.loops[number], "its loop crosses the end of another block")
                statement, exits = self._loop(number, end)
                out += [*self.lowered(exits, end, high, loop), statement]
                number, flags = end, frozenset(exits)
                continue
            line = self.lines[number]
            out += line.statements
            if line.ends:
                return out, flags
            if line.jump is None:
                number += 1
                continue
            ends = self._jump(out, number, line.jump, high, loop)
            if isinstance(ends, frozenset):
                return out, ends
            number, flags = ends

    # -------------------------------------------------------------- jumps

    def _jump(
        self, out: list[Statement], number: int, jump: Jump, high: int, loop: _Loop | None
    ) -> tuple[int, frozenset[int]] | frozenset[int]:
        """Write a jump to `out`; where to go on with which noted jumps, or only these, if the row is done."""
        to, condition = jump.to, jump.condition
        nothing = frozenset[int]()
        if loop is not None and self.leaves(to, loop):
            left = self.left(to, loop, is_noted=False)
            if condition is None:
                out += left
                return nothing
            out.append(when(condition, left))
            return number + 1, nothing
        if to > high:
            noted: Statement = self._set(to, truth=True)
            if condition is None:
                out.append(noted)
                return frozenset({to})
            rest, escapes = self.region(number + 1, high, loop)
            out.append(If("", (Branch(condition, (noted,)),), tuple(rest) or None, is_named=False))
            return escapes | {to}
        if condition is None:
            return to, nothing
        both = self._alternative(out, number, to, condition, high, loop)
        if both is not None:
            return both
        inner, escapes = self.region(number + 1, to, loop)
        out += [*self.lowered(escapes, to, high, loop), *unless_empty(negated(condition), inner)]
        return to, escapes

    def _alternative(
        self, out: list[Statement], number: int, to: int, condition: Expression, high: int, loop: _Loop | None
    ) -> tuple[int, frozenset[int]] | None:
        """Write a condition with both sides: the lines before `to` end with a jump behind those after it."""
        last = to - 1
        line = self.lines[last] if number < last and last in self.live else None
        if line is None or line.jump is None or line.jump.condition is not None:
            return None
        end = line.jump.to
        inside = [jump.to for at, jump in self.jumps if number < at < last]
        if not to < end <= high or self.leaves(end, loop) or any(one >= to for one in inside):
            return None
        if any(number < head <= last <= self.loops[head] for head in self.loops):
            return None
        first, escapes = self.region(number + 1, last, loop)
        second, beyond = self.region(to, end, loop)
        first += line.statements
        if first:
            branch = Branch(negated(condition), tuple(first))
            made: list[Statement] = [If("", (branch,), tuple(second) or None, is_named=False)]
        else:
            made = unless_empty(condition, second)
        out += [*self.lowered(escapes | beyond, end, high, loop), *made]
        return end, escapes | beyond

    def leaves(self, to: int, loop: _Loop | None) -> bool:
        """Whether a jump to a line ends a round of the loop around it."""
        return loop is not None and not loop.head < to < loop.end

    def left(self, to: int, loop: _Loop, *, is_noted: bool) -> list[Statement]:
        """What ends the round of a loop for a jump."""
        if to == loop.head:
            return [Say("", Word.CONTINUE)]
        if to == loop.end:
            return [Say("", Word.BREAK)]
        loop.exits.add(to)
        return [*([] if is_noted else [self._set(to, truth=True)]), Say("", Word.BREAK)]

    def lowered(self, flags: Iterable[int], low: int, high: int, loop: _Loop | None) -> list[Statement]:
        """No jump is noted yet to those lines that this row of lines itself has."""
        own = sorted(
            to
            for to in flags
            if (to in (loop.head, loop.end) if loop and self.leaves(to, loop) else low < to <= high)
        )
        return [self._set(to, truth=False) for to in own]

    def _set(self, to: int, *, truth: bool) -> Let:
        return Let("", self.flag(to), Literal(truth))

    # -------------------------------------------------------------- loops

    def _loop(self, head: int, end: int) -> tuple[Statement, set[int]]:
        """The loop of the lines from `head` to before `end`, and the lines that it jumps out to."""
        loop = _Loop(head, end)
        back = [number for number, jump in self.jumps if jump.to == head and head <= number < end]
        last = self.lines[end - 1]
        is_inner = any(head < one <= end - 1 <= self.loops[one] for one in self.loops)
        if back == [end - 1] and not is_inner:
            assert last.jump is not None
            body, escapes = self.region(head, end - 1, loop) if end - 1 > head else ([], frozenset[int]())
            assert not escapes
            body += last.statements
            until = Literal(False) if last.jump.condition is None else negated(last.jump.condition)
            return Repeat("", None, tuple(body), until=until, is_named=False), loop.exits
        body, escapes = self.region(head, end, loop)
        assert not escapes
        if last.goes_on and end - 1 in self.live:
            body.append(Say("", Word.BREAK))
        return Repeat("", None, tuple(body), while_=Literal(True), is_named=False), loop.exits


def when(condition: Expression, body: Iterable[Statement]) -> Statement:
    """`?IF (condition) { … }`."""
    return If("", (Branch(condition, tuple(body)),), is_named=False)


def unless_empty(condition: Expression, body: list[Statement]) -> list[Statement]:
    """`?IF (condition) { … }`, nothing without statements: a condition changes nothing."""
    return [when(condition, body)] if body else []
