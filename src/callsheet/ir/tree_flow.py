"""What each statement of a tree governs: what depends on its condition, its early end, its failure.

In: the body of a plan or sub-plan. Out: for each statement its number in the order of the text, and regions
of numbers. `decides` is executed or not by the statement's own condition, and by the early ends inside it;
`stops` is what its failure skips, or what handles it. The proof and the monitor share this table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias, assert_never

from callsheet.ir.expr import Literal
from callsheet.ir.expression import Text, Variable
from callsheet.ir.failing import BY_NAME, Failing
from callsheet.ir.scopes import runs_one_by_one
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Compute,
    Ends,
    Foreach,
    GoOn,
    Handler,
    If,
    Invoke,
    Leave,
    Let,
    Parallel,
    Recovery,
    Repeat,
    Require,
    Say,
    Skip,
    Statement,
    SubPlan,
    Try,
    Use,
    Word,
    is_single,
    own_blocks,
    recovery_of,
)


class Region(NamedTuple):
    """The statements numbered from `first` to `last`.

    `is_behind_loop` marks, for a failure inside a loop, what stands behind the outermost loop around it:
    there all items together are one failure. `is_raced` marks what runs beside a failure that stops it: how
    far it has come by then, time decides.
    """

    first: int
    last: int
    is_behind_loop: bool = False
    is_raced: bool = False


class Governed(NamedTuple):
    """What one statement governs; `number` is its own place, `last` that of the last statement inside it.

    `in_loop` says that a loop or a retried block is around it, `in_rounds` that it is not only a FOREACH.
    `is_caught` says that something handles its failure, `ends_item` that it may end an item or round of a
    loop, `escapes` that it may end the whole body as failed. `is_timed` says that time decides whether it is
    reached: a time limit is around it, or a loop that ends with its first item. `skips` says that it leaves
    out whatever fails inside, and not only what no name is needed for.
    """

    number: int
    last: int
    in_loop: bool
    in_rounds: bool
    decides: tuple[Region, ...]
    stops: tuple[Region, ...]
    is_caught: bool
    ends_item: bool
    escapes: bool
    is_timed: bool = False
    skips: bool = False


class _Exit(Enum):
    """How a statement may leave what is around it."""

    END = "the plan ends, or the sub-plan returns"
    BREAK = "the loop ends"
    CONTINUE = "the item or round ends"
    CANCELLED = "the plan fails as if cancelled, which only its name catches"
    DENIED = "the plan fails as if denied, which only its name catches"
    FAIL = "a test of content fails"


Exits: TypeAlias = "frozenset[_Exit]"
_NONE: Exits = frozenset()
_FAIL: Exits = frozenset({_Exit.FAIL})
_OF_KINDS = {Failing.DENIED.value: _Exit.DENIED, Failing.CANCELLED.value: _Exit.CANCELLED}
_BY_NAME: Exits = frozenset(_OF_KINDS[kind] for kind in BY_NAME)
_FAILS = _FAIL | _BY_NAME
_OF_WORDS = {
    Word.RESPOND: _Exit.END,
    Word.TERMINATE: _Exit.END,
    Word.REPLAN: _Exit.END,
    Word.RETURN: _Exit.END,
    Word.BREAK: _Exit.BREAK,
    Word.CONTINUE: _Exit.CONTINUE,
    Word.FAIL: _Exit.FAIL,
}


class _Beyond(NamedTuple):
    """What all statements of one block have in common: where it stands, and what a failure does behind it.

    `stops` are the regions after the block itself; the others are as in `Governed`.
    """

    in_loop: bool
    in_rounds: bool
    stops: tuple[Region, ...]
    is_caught: bool
    ends_item: bool
    escapes: bool
    is_timed: bool


class _Frame(NamedTuple):
    """A block on the way to a statement: the statement around it, where the block ends, and what it is."""

    owner: Statement | None
    last: int
    is_protected: bool
    """Whether the owner's recovery handles failures inside the block."""
    is_loop: bool
    is_side_by_side: bool = False
    """Whether it has the members of a @PARALLEL, which do not wait for one another."""
    is_own: bool = False
    """Whether it is a block of the owner, and not about its failure."""


@dataclass(slots=True)
class TreeFlow:
    """What the statements of one body govern, by their ids."""

    of: dict[str, Governed] = field(default_factory=dict[str, Governed])
    size: int = 0


ByName: TypeAlias = Mapping[str, Exits]
"""The sub-plans that may fail so that only a name catches it, with how."""
_NO_PLANS: ByName = {}


def failing_by_name(plans: Iterable[SubPlan]) -> ByName:
    """The sub-plans of a tree that may fail so that only a name catches it.

    A person's no is not among it: which calls people are asked about, no plan says.
    """
    found: dict[str, Exits] = {}
    left, rose = list(plans), True
    while rose:
        rose = False
        for plan in left:
            exits = _Maker(found).number(plan.body) & _BY_NAME
            if exits != found.get(plan.name, _NONE):
                found[plan.name], rose = exits, True
    return found


def flow_of_block(block: Block, called: ByName = _NO_PLANS) -> TreeFlow:
    """What the statements of a body govern; `called` are the sub-plans that fail by name.

    >>> from callsheet.ir.expr import Literal
    >>> from callsheet.ir.tree import Branch
    >>> inner = If("S1", (Branch(Literal(True), (Say("S2", Word.RESPOND),)),))
    >>> governed = flow_of_block((inner, Say("S3", Word.NOTE))).of["S1"]
    >>> [(region.first, region.last) for region in governed.decides]
    [(1, 1), (2, 2)]
    """
    maker = _Maker(called)
    maker.number(block)
    maker.place(block, [_Frame(None, maker.count - 1, False, False)])
    return TreeFlow(maker.made, maker.count)


_ENDING = (Say, Require)
"""Statements without blocks that may leave what is around them."""


class _Blocks(NamedTuple):
    """The numbers that the parts of a statement span; a part without statements has last < first."""

    own: int
    last: int
    bodies: tuple[tuple[int, int], ...]
    handlers: tuple[tuple[int, int], ...]
    final: tuple[int, int] | None
    handled: Exits = _NONE
    """How the handlers may leave what is around the statement."""


class _Maker:
    def __init__(self, called: ByName) -> None:
        self.count = 0
        self._called = called
        self._bound: dict[str, Exits] = {}
        """How the failures that handlers around the current place have bound fail, if raised again."""
        self._possible = _BY_NAME
        """Inside what an ON_FAIL UNDO does, how its block may have failed: it raises that again."""
        self.made: dict[str, Governed] = {}
        self._blocks: dict[str, _Blocks] = {}
        self._exits: dict[str, Exits] = {}
        self._in_order: dict[str, bool] = {}

    # ------------------------------------------------------------ numbers, and how statements may end

    def number(self, block: Block) -> Exits:
        """Number the statements of a block; gives how they may leave it."""
        exits = _NONE
        for statement in block:
            if is_single(statement) and not self._may_end(statement):
                self._blocks[statement.id] = _Blocks(self.count, self.count, (), (), None)
                self.count += 1
            else:
                exits |= self._number(statement)
        return exits

    def _may_end(self, statement: Statement) -> bool:
        """Whether a statement without blocks may leave what is around it, or fail so that a remedy does."""
        return (
            isinstance(statement, _ENDING)
            or recovery_of(statement) is not None
            or bool(self._by_name(statement))
        )

    def _by_name(self, statement: Statement) -> Exits:
        """How a statement may fail by itself so that only a name catches it."""
        return self._kinds(statement) & self._possible

    def _kinds(self, statement: Statement) -> Exits:
        match statement:
            case Invoke(plan=plan):
                return self._called.get(plan, _NONE)
            case Compute(source=source):  # its own exceptions are kinds of failure, by their names
                return frozenset(exit_ for kind, exit_ in _OF_KINDS.items() if kind in source)
            case Say(word=Word.FAIL, kind=str() as kind) if kind:
                return frozenset({_OF_KINDS[kind]}) if kind in _OF_KINDS else _NONE
            case Say(word=Word.FAIL, values=(Variable(name=name),)) if name in self._bound:
                return self._bound[name]
            case Say(word=Word.FAIL, values=(Text() | Literal(),)):
                return _NONE
            case Say(word=Word.FAIL, values=(_,)):  # data that tells of a failure is raised as that
                return _BY_NAME
            case _:
                return _NONE

    def _handler(self, handler: Handler, recovery: Recovery, inside: Exits) -> tuple[tuple[int, int], Exits]:
        """The span of a handler, in which a failure of what is `inside` may be raised again."""
        around, possible = self._bound, self._possible
        named = _caught_by_name(handler) & inside
        if recovery.undo is not None:
            self._possible = named = possible & inside
        self._bound = {**around, handler.binds: named}
        spanned = self._span(handler.body)
        self._bound, self._possible = around, possible
        return spanned

    def _span(self, block: Block) -> tuple[tuple[int, int], Exits]:
        first = self.count
        exits = self.number(block)
        return (first, self.count - 1), exits

    def _number(self, statement: Statement) -> Exits:
        own = self.count
        self.count += 1
        bodies = [self._span(body) for body in own_blocks(statement)]
        inner = frozenset[_Exit]().union(*(exits for _, exits in bodies))
        recovery = recovery_of(statement)
        handlers = [] if recovery is None else [self._handler(o, recovery, inner) for o in recovery.handlers]
        final = None if recovery is None or recovery.final is None else self._span(recovery.final)
        match statement:
            case Say(word=word):
                inner |= {_OF_WORDS[word]} if word in _OF_WORDS else _NONE
            case Require() | Repeat():
                inner |= {_Exit.FAIL}
            case Act() | Invoke() | Compute() | Let() | Assign() | If() | Foreach() | Try() | Parallel():
                pass
            case _:
                assert_never(statement)
        inner |= self._by_name(statement)
        if isinstance(statement, Foreach | Repeat):
            inner -= {_Exit.BREAK, _Exit.CONTINUE}
        if recovery is not None:
            inner -= _caught(recovery)
        outer = inner.union(*(exits for _, exits in handlers), _NONE if final is None else final[1])
        if recovery is not None and isinstance(recovery.remedy, Leave):
            outer |= {_Exit.END}
        self._exits[statement.id] = outer
        self._blocks[statement.id] = _Blocks(
            own,
            self.count - 1,
            tuple(span for span, _ in bodies),
            tuple(span for span, _ in handlers),
            None if final is None else final[0],
            _NONE.union(*(exits for _, exits in handlers)),
        )
        return outer

    # ------------------------------------------------------------ regions

    def place(self, block: Block, chain: list[_Frame]) -> None:
        """Work out what the statements of a block govern; `chain` are the blocks around them."""
        beyond = self._beyond(chain)
        last = -1 if chain[-1].is_side_by_side else chain[-1].last
        for statement in block:
            if statement.id in self._exits:
                self._place(statement, chain, beyond)
                continue
            number = self._blocks[statement.id].own
            stops = (Region(number + 1, last), *beyond.stops) if number < last else beyond.stops
            self.made[statement.id] = Governed(number, number, *beyond[:2], (), stops, *beyond[3:])

    def _place(self, statement: Statement, chain: list[_Frame], beyond: _Beyond) -> None:
        blocks = self._blocks[statement.id]
        is_limited = isinstance(statement, Try) and statement.within is not None
        ends: dict[Region, None] = {}
        if is_limited or not isinstance(statement, Try | Parallel):
            ends.update(dict.fromkeys(self._body(statement)))
        inside = self._exits[statement.id]
        stops, is_caught, ends_item, escapes = self._failing(statement, chain, beyond)
        if is_limited:  # an early end that its time limit prevents; what is behind a failure, `stops` says
            inside = inside - _FAILS if is_caught else _NONE
        if is_limited or isinstance(statement, If | Foreach | Repeat | Require | Say):
            for one in sorted(inside, key=lambda kind: kind.value):
                if one in _FAILS:
                    ends.update(dict.fromkeys(stops))
                else:
                    ends.update(dict.fromkeys(self._leaving(statement, chain, one)))
        self.made[statement.id] = Governed(
            blocks.own,
            blocks.last,
            beyond.in_loop,
            beyond.in_rounds,
            tuple(ends),
            tuple(stops),
            is_caught,
            ends_item,
            escapes,
            beyond.is_timed,
            skips_failures(statement) and not inside & _BY_NAME,
        )
        is_loop = isinstance(statement, Foreach | Repeat)
        recovery = recovery_of(statement)
        handles = recovery is not None and (
            recovery.again is not None or recovery.remedy is not None or bool(recovery.handlers)
        )
        for body, (_, last) in zip(own_blocks(statement), blocks.bodies, strict=True):
            is_side_by_side = isinstance(statement, Parallel)
            self.place(body, [*chain, _Frame(statement, last, handles, is_loop, is_side_by_side, True)])
        if recovery is not None:
            for handler, (_, last) in zip(recovery.handlers, blocks.handlers, strict=True):
                self.place(handler.body, [*chain, _Frame(statement, last, False, False)])
            if recovery.final is not None and blocks.final is not None:
                self.place(recovery.final, [*chain, _Frame(statement, blocks.final[1], False, False)])

    def _rest(self, statement: Statement, frame: _Frame) -> Iterator[Region]:
        """What follows a statement in its block."""
        last = self._blocks[statement.id].last
        if last < frame.last and not frame.is_side_by_side:
            yield Region(last + 1, frame.last)

    def _leaving(self, statement: Statement, chain: list[_Frame], how: _Exit) -> Iterator[Region]:
        """What is not executed if a statement leaves its surroundings like this."""
        current = statement
        for frame in reversed(chain):
            yield from self._rest(current, frame)
            if frame.is_loop and how is _Exit.CONTINUE:
                return
            if frame.is_loop and frame.owner is not None:
                yield from self._body(frame.owner)
                if how is _Exit.BREAK:
                    return
            if frame.owner is not None:
                current = frame.owner

    def _body(self, owner: Statement) -> Iterator[Region]:
        yield from (Region(first, last) for first, last in self._blocks[owner.id].bodies if first <= last)

    def _beside(self, bodies: Iterable[Block], *, is_begun: bool) -> Iterator[Region]:
        """What a failure in one of these bodies stops in all: not the call with which each has begun."""
        for body in filter(None, bodies):
            first, last = self._blocks[body[0].id].own, self._blocks[body[-1].id].last
            if is_begun and isinstance(body[0], Act) and not _is_retried(recovery_of(body[0])):
                first += 1
            if first <= last:
                yield Region(first, last, is_raced=True)

    def _failing(
        self, statement: Statement, chain: list[_Frame], beyond: _Beyond
    ) -> tuple[list[Region], bool, bool, bool]:
        """What a failure skips or begins; whether it is handled, may end an item, may escape."""
        regions: list[Region] = []
        is_caught = False
        own = recovery_of(statement)
        fails = not isinstance(statement, Try) or statement.within is not None
        ways = _FAIL | (self._exits[statement.id] & _BY_NAME)
        if own is not None and fails and not isinstance(own.remedy, Skip):
            is_caught = self._handled(statement, own, chain, regions)
            ways = self._left(statement, own, ways)
            if not ways:
                return regions, True, False, False
        if ways != _FAIL:
            beyond = self._beyond(chain, ways)
        regions += (*self._rest(statement, chain[-1]), *beyond.stops)
        return regions, is_caught or beyond.is_caught, beyond.ends_item, beyond.escapes

    def _beyond(self, chain: list[_Frame], ways: Exits = _FAIL) -> _Beyond:
        """What a failure does that leaves the innermost of these blocks in one of these ways."""
        regions: list[Region] = []
        is_caught = ends_item = False
        loops = sum(frame.is_loop for frame in chain)
        was_in_loop = loops > 0
        for depth in range(len(chain) - 1, 0, -1):
            frame = chain[depth]
            owner = frame.owner
            assert owner is not None
            if frame.is_loop:
                ends_item = True
                loops -= 1
                is_ended = not isinstance(owner, Foreach) or self._runs_one_by_one(owner)
                if is_ended or _Exit.CANCELLED in ways:
                    regions += self._body(owner)
                elif isinstance(owner, Foreach) and owner.ends is Ends.FAILED:
                    regions += self._beside((owner.body,), is_begun=owner.most is None)
            elif frame.is_side_by_side and isinstance(owner, Parallel) and owner.stops:
                regions += self._beside([(member,) for member in owner.members], is_begun=True)
            recovery = recovery_of(owner)
            if frame.is_protected and recovery is not None:
                is_caught = self._handled(owner, recovery, chain[:depth], regions) or is_caught
                ways = self._left(owner, recovery, ways)
                if not ways:
                    break
            rest = self._rest(owner, chain[depth - 1])
            is_behind = was_in_loop and loops == 0
            regions += (one._replace(is_behind_loop=True) for one in rest) if is_behind else rest
        in_rounds = any(_is_repeated(frame) for frame in chain)
        in_loop = in_rounds or any(frame.is_loop for frame in chain)
        return _Beyond(
            in_loop, in_rounds, tuple(regions), is_caught, ends_item, bool(ways),
            any(frame.owner is not None and is_timed(frame.owner) and frame.is_own for frame in chain),
        )  # fmt: skip

    def _runs_one_by_one(self, loop: Foreach) -> bool:
        if loop.id not in self._in_order:
            self._in_order[loop.id] = runs_one_by_one(loop)
        return self._in_order[loop.id]

    def _handled(
        self, owner: Statement, recovery: Recovery, around: list[_Frame], regions: list[Region]
    ) -> bool:
        """Add what a recovery executes; whether it handles a failure."""
        regions += (Region(first, last) for first, last in self._blocks[owner.id].handlers if first <= last)
        if recovery.again is not None:
            regions += self._body(owner)
        ends = self._blocks[owner.id].handled - _FAILS
        if isinstance(recovery.remedy, Leave):
            ends |= {_Exit.END}
        for one in sorted(ends, key=lambda kind: kind.value):
            regions += self._leaving(owner, around, one)
        return recovery.remedy is not None or bool(recovery.handlers) or recovery.again is not None

    def _left(self, owner: Statement, recovery: Recovery, ways: Exits) -> Exits:
        """The failures that leave a recovery: those that it does not handle, and those of its handlers."""
        return ways - _caught(recovery) | self._blocks[owner.id].handled & _FAILS


def _is_repeated(frame: _Frame) -> bool:
    """Whether a block may be executed again with the same values: rounds, another attempt."""
    owner = frame.owner
    is_retried = frame.is_protected and owner is not None and _is_retried(recovery_of(owner))
    return is_retried or (frame.is_loop and isinstance(owner, Repeat))


def is_timed(statement: Statement) -> bool:
    """Whether time decides how far the block of a statement comes: its time limit, or its first item."""
    match statement:
        case Foreach(ends=ends):
            return ends is Ends.FIRST and not runs_one_by_one(statement)
        case Try(within=within):
            return within is not None
        case _:
            return False


def _is_retried(recovery: Recovery | None) -> bool:
    return recovery is not None and recovery.again is not None


def _caught(recovery: Recovery) -> Exits:
    """The failures that a recovery handles."""
    match recovery.remedy:
        case GoOn() | Use() | Skip() | Leave():
            return _FAIL
        case None:
            general = _NONE if all(handler.kinds for handler in recovery.handlers) else _FAIL
            named = (_OF_KINDS.get(kind) for handler in recovery.handlers for kind in handler.kinds)
            return general.union(exit_ for exit_ in named if exit_ is not None)
    assert_never(recovery.remedy)


def _caught_by_name(handler: Handler) -> Exits:
    """The failures that a handler is for by their names."""
    return frozenset(_OF_KINDS[kind] for kind in handler.kinds if kind in _OF_KINDS)


def skips_failures(statement: Statement) -> bool:
    """Whether a statement is a loop that leaves out the items that have failed."""
    recovery = statement.recovery if isinstance(statement, Foreach) else None
    return recovery is not None and isinstance(recovery.remedy, Skip)
