"""The scopes of a version 2 plan, resolved once: where each variable lives, what each loop's body touches.

In: a tree whose statements have unique ids. Out: a scope for the main plan, for each sub-plan and for the
items of each loop. The machine, the proof and the checks share it. The cost is linear in the size of the
plan, times the depth of its loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Foreach,
    Invoke,
    Leave,
    Repeat,
    Say,
    Statement,
    Tree,
    Word,
    inner_blocks,
    recovery_of,
    variables_read,
    variables_set,
)


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
    tools: set[str] = field(default_factory=set[str])
    """The canonical names of all that is called here, in inner loops and in the sub-plans that are called."""
    plans: set[str] = field(default_factory=set[str])
    """The sub-plans that are called here and in inner loops, without those that they call in turn."""

    def around(self) -> Iterator[Scope]:
        """This scope and those around it, from the innermost outwards."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def owner_of(self, name: str) -> Scope | None:
        """The scope whose variable a name means here, apart from what handlers bind; None without one."""
        return next((scope for scope in self.around() if name in scope.names), None)

    @property
    def depends_on_order(self) -> bool:
        """Whether the items must run one after another because of what the body does beside its calls."""
        return self.leaves or bool(self.sets)


def runs_in_order(loop: Foreach, body: Scope, only_reads: Callable[[str], bool]) -> bool:
    """Whether the items of a loop run one after another; `body` is the scope of its items.

    `only_reads` tells of a tool, by its canonical name, whether calls of it may be made in any order.
    """
    if loop.in_order or body.depends_on_order:
        return True
    return not loop.together and not all(map(only_reads, body.tools))


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
    found = Scopes(main, maker.plans, maker.items, maker.places)
    _add_tools_of_plans(found)
    return found


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in the text: its scope, what handlers around it bind in that scope, and the place of the loop.

    `in_repeat` says that the innermost loop is a REPEAT of this scope, which a BREAK leaves.
    """

    scope: Scope
    bound: tuple[str, ...] = ()
    outer: _Place | None = None
    in_repeat: bool = False


_ENDS = frozenset({Word.RESPOND, Word.TERMINATE, Word.RETURN})


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
                scope.names.update(dict.fromkeys(variables_set(statement)))
            recovery = recovery_of(statement)
            if recovery is not None:
                scope.bound.update(dict.fromkeys(handler.binds for handler in recovery.handlers))
            if isinstance(statement, Foreach):
                item = Scope(ScopeKind.ITEM, statement.id, scope, {statement.var: None})
                self.items[statement.id] = item
                self.declare(statement.body, item)
            for inner in _blocks_of_scope(statement):
                self.declare(inner, scope)

    def resolve(self, block: Block, place: _Place) -> None:
        """Note what the statements of a block read, set, call and leave."""
        for statement in block:
            self._resolve_own(statement, place)
            recovery = recovery_of(statement)
            if isinstance(statement, Foreach):
                item = self.items[statement.id]
                self.resolve(statement.body, _Place(item, outer=place))
                place.scope.tools |= item.tools
                place.scope.plans |= item.plans
            elif isinstance(statement, Repeat):
                self.resolve(statement.body, _Place(place.scope, place.bound, place.outer, in_repeat=True))
            else:
                for inner in _own_blocks(statement):
                    self.resolve(inner, place)
            if recovery is None:
                continue
            for handler in recovery.handlers:
                bound = (*place.bound, handler.binds)
                self.resolve(handler.body, _Place(place.scope, bound, place.outer, place.in_repeat))
            if recovery.final is not None:
                self.resolve(recovery.final, place)

    def _resolve_own(self, statement: Statement, place: _Place) -> None:
        scope = place.scope
        for name in variables_read(statement):
            for inner in _crossed(name, place):
                inner.reads[name] = None
        if isinstance(statement, Assign):
            for inner in _crossed(statement.name, place):
                inner.sets[statement.name] = None
        elif isinstance(statement, Act):
            scope.tools.add(statement.tool)
        elif isinstance(statement, Invoke):
            scope.plans.add(statement.plan)
        if _ends_plan(statement):
            for around in scope.around():
                around.leaves = around.leaves or around.kind is ScopeKind.ITEM
        elif isinstance(statement, Say) and statement.word is Word.BREAK and not place.in_repeat:
            scope.leaves = scope.leaves or scope.kind is ScopeKind.ITEM


def _own_blocks(statement: Statement) -> Iterator[Block]:
    """The blocks of a statement that are not about its failure."""
    recovery = recovery_of(statement)
    about_failure = 0 if recovery is None else len(recovery.handlers) + (recovery.final is not None)
    blocks = list(inner_blocks(statement))
    yield from blocks[: len(blocks) - about_failure]


def _blocks_of_scope(statement: Statement) -> Iterator[Block]:
    """The blocks inside a statement that share the scope in which it stands."""
    blocks = inner_blocks(statement)
    if isinstance(statement, Foreach):
        next(blocks)
    yield from blocks


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


def _ends_plan(statement: Statement) -> bool:
    """Whether a statement itself may end the plan in which it stands."""
    if isinstance(statement, Say):
        return statement.word in _ENDS
    recovery = recovery_of(statement)
    return recovery is not None and isinstance(recovery.remedy, Leave)


def _add_tools_of_plans(scopes: Scopes) -> None:
    """Add to each scope the tools of the sub-plans that it calls, and those that these call."""
    whole: dict[str, set[str]] = {}
    for name in scopes.plans:
        _tools_of_plan(name, scopes.plans, whole)
    for scope in scopes.all():
        for name in scope.plans:
            scope.tools |= whole.get(name, set())


def _tools_of_plan(name: str, plans: Mapping[str, Scope], whole: dict[str, set[str]]) -> None:
    """Find the tools of a sub-plan with all that it calls; each sub-plan reaches each at most once."""
    if name in whole:
        return
    reached, waiting = {name}, [name]
    tools: set[str] = set()
    while waiting:
        scope = plans.get(waiting.pop())
        if scope is not None:
            tools |= scope.tools
            fresh = scope.plans - reached
            reached |= fresh
            waiting.extend(fresh)
    whole[name] = tools
