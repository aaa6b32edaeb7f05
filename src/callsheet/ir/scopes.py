"""The scopes of a version 2 plan: where each variable lives, what loops read, set and end outside.

In: a tree whose statements have unique ids. Out, resolved once: a scope for the main plan, for each sub-plan
and for the items of each loop, which the checks of names and types share. The cost is linear in the size of
the plan, times the depth of its loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum

from callsheet.ir.tree import (
    Assign,
    Block,
    Foreach,
    Leave,
    Repeat,
    Say,
    Statement,
    Tree,
    Word,
    blocks_of_failure,
    inner_blocks,
    is_single,
    own_blocks,
    recovery_of,
    variables_read,
    variables_set,
)
from callsheet.lazy import dataclass


class ScopeKind(StrEnum):
    """What has variables of its own."""

    MAIN = "main"
    PLAN = "plan"
    ITEM = "item"


@dataclass(slots=True, eq=False)
class Scope:
    """The variables of the main plan, of a sub-plan or of one item of a loop; readers do not change it.

    `owner` is the name of the sub-plan or the id of the loop, empty for the main plan; `outer` is the scope
    around a loop, None for plans. A name means the variable of the innermost scope that has it, wherever in
    that scope it is set: a name of an outer scope is not made again in an inner one.
    """

    kind: ScopeKind
    owner: str
    outer: Scope | None = None
    names: dict[str, None] = field(default_factory=dict[str, None])
    """Its variables in the order of the text: inputs or the loop variable first."""
    bound: dict[str, None] = field(default_factory=dict[str, None])
    """The variables that handlers bind to a failure, each of which lives in the block of its handler only."""
    reads: dict[str, None] = field(default_factory=dict[str, None])
    """The variables of outer scopes that are read here or in an inner loop."""
    sets: dict[str, None] = field(default_factory=dict[str, None])
    """The variables of outer scopes that are SET here or in an inner loop."""
    leaves: bool = False
    """Whether the loop may end before its last item: by BREAK, or by what ends the plan around it."""

    def around(self) -> Iterator[Scope]:
        """This scope and those around it, from the innermost outwards."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def owner_of(self, name: str) -> Scope | None:
        """The scope whose variable a name means here, apart from what handlers bind; None without one."""
        return next((scope for scope in self.around() if name in scope.names), None)


@dataclass(frozen=True, slots=True)
class Scopes:
    """All scopes of a plan: `plans` by name, `items` by the id of the loop, `places` by statement.

    `places` has for each id of a statement the scope in which it stands: a loop stands in that around it.
    """

    main: Scope
    plans: Mapping[str, Scope]
    items: Mapping[str, Scope]
    places: Mapping[str, Scope]

    def all(self) -> Iterator[Scope]:
        """Every scope, those of plans first."""
        yield self.main
        yield from self.plans.values()
        yield from self.items.values()


def scopes_of(tree: Tree) -> Scopes:
    """The scopes of a plan. Names that nothing sets belong to no scope and are in no `reads`.

    >>> from callsheet.ir.expression import Variable
    >>> from callsheet.ir.tree import Let
    >>> loop = Foreach("S1", "m", Variable("all"), (Let("l", "x", Variable("who")),))
    >>> found = scopes_of(Tree((Let("a", "who", Variable("who")), loop)))
    >>> list(found.main.names), list(found.items["S1"].names), list(found.items["S1"].reads)
    (['who'], ['m', 'x'], ['who'])
    """
    maker = _Maker()
    main = Scope(ScopeKind.MAIN, "", names=dict.fromkeys(one.name for one in tree.inputs))
    maker.declare(tree.body, main)
    for plan in tree.plans:
        scope = Scope(ScopeKind.PLAN, plan.name, names=dict.fromkeys(one.name for one in plan.inputs))
        maker.plans[plan.name] = scope
        maker.declare(plan.body, scope)
    for plan in tree.plans:
        maker.resolve(plan.body, _Place(maker.plans[plan.name]))
    maker.resolve(tree.body, _Place(main))
    return Scopes(main, maker.plans, maker.items, maker.places)


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in the text: its scope, what handlers around it bind there, and the place of its loop."""

    scope: Scope
    bound: tuple[str, ...] = ()
    outer: _Place | None = None


class _Maker:
    def __init__(self) -> None:
        self.plans: dict[str, Scope] = {}
        self.items: dict[str, Scope] = {}
        self.places: dict[str, Scope] = {}

    def declare(self, block: Block, scope: Scope) -> None:
        """Note the variables that the statements of a block make, and make the scopes of its loops."""
        for statement in block:
            self.places[statement.id] = scope
            if not isinstance(statement, Assign):
                for name in variables_set(statement):
                    scope.names[name] = None
            if is_single(statement):
                continue
            recovery = recovery_of(statement)
            if recovery is not None:
                scope.bound.update(dict.fromkeys(handler.binds for handler in recovery.handlers))
            if isinstance(statement, Foreach):
                item = Scope(ScopeKind.ITEM, statement.id, scope, {statement.var: None})
                item.leaves = ends_early(statement.body)
                self.items[statement.id] = item
                self.declare(statement.body, item)
            for inner in blocks_of_scope(statement):
                self.declare(inner, scope)

    def resolve(self, block: Block, place: _Place) -> None:
        """Note what the statements of a block read and set."""
        for statement in block:
            self._resolve_own(statement, place)
            if is_single(statement):
                continue
            if isinstance(statement, Foreach):
                self.resolve(statement.body, _Place(self.items[statement.id], outer=place))
            else:
                for inner in own_blocks(statement):
                    self.resolve(inner, place)
            recovery = recovery_of(statement)
            if recovery is None:
                continue
            for handler in recovery.handlers:
                self.resolve(handler.body, replace(place, bound=(*place.bound, handler.binds)))
            if recovery.final is not None:
                self.resolve(recovery.final, place)

    def _resolve_own(self, statement: Statement, place: _Place) -> None:
        if place.outer is None:
            return  # a plan sees no variable of outside
        for name in variables_read(statement):
            for inner in _crossed(name, place):
                inner.reads[name] = None
        if isinstance(statement, Assign):
            for inner in _crossed(statement.name, place):
                inner.sets[statement.name] = None


def _crossed(name: str, place: _Place) -> list[Scope]:
    """The scopes between a place and the variable that the name means there; none for an unknown name."""
    crossed: list[Scope] = []
    at: _Place | None = place
    while at is not None:
        if name in at.scope.names or name in at.bound:
            return crossed
        crossed.append(at.scope)
        at = at.outer
    return []


# ------------------------------------------------------------------ single loops and blocks


def runs_one_by_one(loop: Foreach) -> bool:
    """Whether the first failed item ends a loop: it is in order, assigns outer variables or may end early."""
    return loop.in_order or bool(assigned_outside(loop)) or ends_early(loop.body)


_ENDS = frozenset({Word.RESPOND, Word.TERMINATE, Word.RETURN})


def ends_early(block: Block, *, in_loop: bool = False) -> bool:
    """Whether a statement in the body of a loop may end the loop, or what is around it.

    `in_loop` says that the block is the body of another loop in that body, whose BREAK is its own. What a
    loop does about its failure stands outside of it.
    """
    for statement in block:
        if isinstance(statement, Say) and (
            statement.word in _ENDS or (statement.word is Word.BREAK and not in_loop)
        ):
            return True
        recovery = recovery_of(statement)
        if recovery is not None and isinstance(recovery.remedy, Leave):
            return True
        deeper = in_loop or isinstance(statement, Foreach | Repeat)
        if any(ends_early(body, in_loop=deeper) for body in own_blocks(statement)):
            return True
        if recovery is not None and any(
            ends_early(body, in_loop=in_loop) for body in blocks_of_failure(recovery)
        ):
            return True
    return False


def names_made(block: Block) -> frozenset[str]:
    """The variables that statements of this scope make: not those that they assign, nor those of items."""
    made: set[str] = set()
    for statement in _same_scope(block):
        if not isinstance(statement, Assign):
            made.update(variables_set(statement))
        recovery = recovery_of(statement)
        if recovery is not None:
            made.update(handler.binds for handler in recovery.handlers)
    return frozenset(made)


def assigned_outside(loop: Foreach) -> frozenset[str]:
    """The outer variables that the body of a loop assigns."""
    return assigned(loop.body) - names_made(loop.body) - {loop.var}


def assigned(block: Block) -> frozenset[str]:
    """The variables that SET assigns in a block, those of items inside it left out."""
    found: set[str] = set()
    for statement in _same_scope(block):
        if isinstance(statement, Assign):
            found.add(statement.name)
        elif isinstance(statement, Foreach):
            found |= assigned_outside(statement)
    return frozenset(found)


def _same_scope(block: Block) -> Iterator[Statement]:
    """The statements of a block and of the blocks inside it that share its scope."""
    stack = list(reversed(block))
    while stack:
        statement = stack.pop()
        yield statement
        for one in reversed(list(blocks_of_scope(statement))):
            stack.extend(reversed(one))


def blocks_of_scope(statement: Statement) -> Iterator[Block]:
    """The blocks directly inside a statement whose variables are those of the place where it stands."""
    blocks = inner_blocks(statement)
    if isinstance(statement, Foreach):
        next(blocks)
    yield from blocks
