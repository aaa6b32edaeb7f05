"""The places of a plan tree that read or set variables, and the activations that do in a run.

In: a program, and what its activations reach. Out: for each operation that reads or sets something its
site, and why it was reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from callsheet.frontends.expressions import format_expression
from callsheet.ir import JSON
from callsheet.ir.expression import Expression
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Compute,
    Foreach,
    If,
    Invoke,
    Leave,
    Let,
    Parallel,
    Recovery,
    Repeat,
    Require,
    Say,
    Statement,
    Tree,
    Try,
    Use,
    all_statements,
    own_blocks,
    recovery_of,
)
from callsheet.machine.tree.activations import Activation
from callsheet.machine.tree.program import (
    NONE,
    Body,
    BranchOp,
    CallOp,
    ClockOp,
    ComputeOp,
    EnterOp,
    InvokeOp,
    LetOp,
    LimitOp,
    LoopOp,
    Operation,
    ParallelOp,
    ReplanOp,
    RequireOp,
    RoundOp,
    SayOp,
    UntilOp,
    YieldOp,
)
from callsheet.trace.lineage.blocks import Around, Reasons, Site
from callsheet.trace.lineage.reads import Computed, Reads, Role, Source, derived_from, literal_of, sources_of
from callsheet.trace.lineage.reads import Use as Read


class Sites:
    """The sites of a plan tree; `of` gives that of an operation, None for those without one.

    Their numbers count from `first` on.
    """

    def __init__(self, tree: Tree, main: Body, first: int = 0) -> None:
        self.all: list[Site] = []
        self._first = first
        self._of: dict[int, Site] = {}
        self._operations: list[Operation] = []
        """Keeps the operations alive, by whose identity sites are found."""
        self._around = _all_around(tree)
        self._statements = {one.id: one for one in all_statements(tree)}
        self._seen: set[int] = set()
        self._body(main)

    def of(self, operation: Operation) -> Site | None:
        """The site of an operation."""
        return self._of.get(id(operation))

    def _body(self, body: Body) -> None:
        if id(body) in self._seen:
            return
        self._seen.add(id(body))
        for operation in body.operations:
            match operation:
                case BranchOp(id=own, branch=number):
                    statement = self._statements[own]
                    assert isinstance(statement, If)
                    self._add(operation, own, _condition(statement.branches[number].condition))
                case RoundOp(id=own) | UntilOp(id=own) | EnterOp(id=own):
                    self._repeat(operation, own)
                case CallOp(code=code):
                    names = [str(n) for n in range(len(operation.positional))]
                    names += [name for name, _ in operation.named]
                    self._add(operation, code.id, _made(self._statements[code.id], names))
                case ComputeOp(code=code):
                    self._add(operation, code.id, _made(self._statements[code.id]))
                case ClockOp(code=code):
                    own = code.id.removesuffix(":clock")
                    self._add(operation, own, _Made(), code.id)
                case ReplanOp(code=code):
                    self._add(operation, code.id, _made(self._statements[code.id]))
                case LetOp(id=own) | RequireOp(id=own) | YieldOp(id=own) | SayOp(id=own):
                    self._add(operation, own, _made(self._statements[own]))
                case LimitOp(id=own):
                    statement = self._statements[own]
                    assert isinstance(statement, Try)
                    assert statement.within is not None
                    self._add(operation, own, _Made(tuple(_read(Role.SOURCE, "", (statement.within,)))))
                case LoopOp(id=own, body=inner) | InvokeOp(id=own, body=inner):
                    self._add(operation, own, _made(self._statements[own]))
                    self._body(inner)
                case ParallelOp(members=members):
                    for member in members:
                        self._body(member)
                case _:
                    pass

    def _repeat(self, operation: RoundOp | UntilOp | EnterOp, own: str) -> None:
        statement = self._statements[own]
        assert isinstance(statement, Repeat)
        test = statement.until if isinstance(operation, UntilOp) else statement.while_
        if test is not None and not isinstance(operation, EnterOp):
            self._add(operation, own, _condition(test))

    def _add(self, operation: Operation, own: str, made: _Made, shown: str = "") -> None:
        names = tuple(dict.fromkeys(name for use in made.uses for name in _names_in(use)))
        reads = Reads(names, tuple(dict.fromkeys(made.uses)), made.literals, "", None)
        around = self._around.get(own, ())
        site = Site(
            self._first + len(self.all),
            shown or own,
            self._statements[own],
            reads,
            made.makes,
            around,
            made.condition,
        )
        self.all.append(site)
        self._of[id(operation)] = site
        self._operations.append(operation)


class _Made(NamedTuple):
    """What a statement reads, its literals, and how it composes its value."""

    uses: tuple[Read, ...] = ()
    literals: tuple[tuple[str, JSON], ...] = ()
    makes: tuple[Source, ...] | None = None
    condition: str = ""


def _names_in(use: Read) -> Iterator[str]:
    yield use.name
    yield from (key.name for key in use.rest if isinstance(key, Computed))


def _read(role: Role, argument: str, nodes: Iterable[Expression]) -> Iterator[Read]:
    for source in derived_from(nodes):
        at = next((n for n, key in enumerate(source.place) if isinstance(key, Computed)), len(source.place))
        path = tuple(key for key in source.place[:at] if not isinstance(key, Computed))
        yield Read(role, argument, source.name, path, source.place[at:])


def _condition(node: Expression) -> _Made:
    return _Made(tuple(_read(Role.CONDITION, "", (node,))), condition=format_expression(node))


def _made(statement: Statement, names: Sequence[str] = ()) -> _Made:
    """What a statement reads and makes; `names` are those of a call's arguments."""
    match statement:
        case Act(positional=positional, named=named):
            return _call(
                zip(names, (*positional, *(one for _, one in named)), strict=True), statement.recovery
            )
        case Invoke(named=named):
            return _call(named, None)
        case Compute(names=read):
            uses = tuple(Read(Role.ARGUMENT, name, name, ()) for name in read)
            return _Made((*uses, *_remedy(statement.recovery)))
        case Let(value=value) | Assign(value=value):
            return _value((value,))
        case Say(values=values):
            return _value(values)
        case Require(condition=condition, message=message):
            said = () if message is None else tuple(_read(Role.MESSAGE, "", (message,)))
            return _Made((*_read(Role.CONDITION, "", (condition,)), *said))
        case Foreach(source=source, limit=limit):
            nodes = (source,) if limit is None else (source, limit)
            return _Made(tuple(_read(Role.SOURCE, "", nodes)))
        case If() | Repeat() | Try() | Parallel():
            raise AssertionError(statement)


def _value(values: tuple[Expression, ...]) -> _Made:
    uses = tuple(_read(Role.ARGUMENT, "", values))
    literal = literal_of(values[0]) if len(values) == 1 else None
    makes = sources_of(values[0]) if len(values) == 1 else derived_from(values)
    return _Made(uses, () if literal is None else (("", literal[0]),), makes)


def _call(given: Iterable[tuple[str, Expression]], recovery: Recovery | None) -> _Made:
    uses: list[Read] = []
    literals: list[tuple[str, JSON]] = []
    for name, value in given:
        uses += _read(Role.ARGUMENT, name, (value,))
        literal = literal_of(value)
        if literal is not None:
            literals.append((name, literal[0]))
    return _Made((*uses, *_remedy(recovery)), tuple(literals))


def _remedy(recovery: Recovery | None) -> Iterator[Read]:
    """What is read when a call has failed."""
    match None if recovery is None else recovery.remedy:
        case Use(value=value):
            yield from _read(Role.MESSAGE, "", (value,))
        case Leave(values=values):
            yield from _read(Role.MESSAGE, "", values)
        case _:
            pass


# ---------------------------------------------------------------- what is around a statement


def _all_around(tree: Tree) -> Mapping[str, tuple[Around, ...]]:
    around: dict[str, tuple[Around, ...]] = {}
    for one in tree.plans:
        _around(one.body, (), around)
    _around(tree.body, (), around)
    return around


def _around(block: Block, outer: tuple[Around, ...], found: dict[str, tuple[Around, ...]]) -> None:
    """Find for each statement those around it that decide whether it is reached."""
    for one in block:
        recovery = recovery_of(one)
        is_retried = recovery is not None and recovery.again is not None
        tried = (*outer, Around(one.id, is_failure=True, is_retried=True)) if is_retried else outer
        found[one.id] = tried
        match one:
            case If() | Repeat():
                inside = (*tried, Around(one.id))
            case Foreach():
                inside = ()
            case _:
                inside = tried
        for inner in own_blocks(one):
            _around(inner, inside, found)
        if recovery is not None:
            for handler in recovery.handlers:
                _around(handler.body, (*outer, Around(one.id, is_failure=True)), found)
            if recovery.final is not None:
                _around(recovery.final, outer, found)


Waiting = CallOp | ComputeOp | ClockOp | LoopOp | InvokeOp | ReplanOp
"""Operations that are over when the next one of their activation begins."""


class UnderWay(NamedTuple):
    """A statement of an activation that may wait for outcomes: its operation, its place in the body."""

    operation: Waiting
    pc: int
    visit: int


class Frame:
    """An activation: the writes that its variables have, by slot, and what has decided in it so far."""

    __slots__ = (
        "act",
        "base",
        "clock",
        "conditions",
        "failures",
        "owner",
        "place",
        "scope",
        "waiting",
        "yielded",
    )

    def __init__(self, act: Activation, base: Reasons, owner: int) -> None:
        self.act, self.base, self.owner = act, base, owner
        self.place = act.path
        self.scope: dict[int, int] = {}
        self.conditions: dict[str, tuple[int, ...]] = {}
        """The visits of the conditions of each ?IF and REPEAT that hold now, by its id."""
        self.failures: dict[Around, int] = {}
        """The write of the failure that each statement's handler, or its next attempt, has."""
        self.waiting: UnderWay | None = None
        self.yielded = NONE
        self.clock = NONE

    def beside(self, act: Activation) -> Frame:
        """The frame of a member of @PARALLEL, which shares the variables."""
        other = Frame(act, self.base, self.owner)
        other.place, other.scope, other.clock = self.place, self.scope, self.clock
        other.conditions, other.failures = self.conditions, self.failures
        return other

    def reached(self, operation: Operation, visit: int) -> None:
        """Take account of a visit that begins: it may decide about what comes after, or wait for outcomes."""
        match operation:
            case BranchOp(id=own):
                before = () if operation.branch == 0 else self.conditions.get(own, ())
                self.conditions[own] = (*before, visit)
            case RoundOp(id=own) | UntilOp(id=own):
                self.conditions[own] = (visit,)
            case _ if isinstance(operation, Waiting):
                self.waiting = UnderWay(operation, self.act.pc, visit)
            case _:
                pass

    def reasons(self, site: Site) -> Reasons:
        """The conditions and failures that lead to a site of it."""
        conditions: tuple[int, ...] = ()
        failures: tuple[int, ...] = ()
        for around in site.around:
            if around.is_failure and around in self.failures:
                failures += (self.failures[around],)
            elif not around.is_failure:
                conditions += self.conditions.get(around.id, ())
        if not conditions and not failures:
            return self.base
        return Reasons(self.base.conditions + conditions, self.base.failures + failures)
