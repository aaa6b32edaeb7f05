"""Predicts the side effects of a run of a plan with blocks that branches off.

In: the new run as folded at its beginning, and the parent's calls that it does not inherit. Out: an entry for
each statement ahead that calls a tool with side effects. What lies ahead follows from where each activation
stands: the statements behind, whole bodies of loops with items or rounds to come, handlers. An argument is
exact where nothing ahead changes what it reads, else a placeholder. Nothing is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from callsheet.ir import CallKind, Effect
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Foreach,
    If,
    Invoke,
    Parallel,
    Recovery,
    Repeat,
    Say,
    Statement,
    Tree,
    Word,
    all_statements,
    blocks_of_failure,
    inner_blocks,
    own_blocks,
    recovery_of,
    statements,
    variables_set,
)
from callsheet.machine.expressions import ExpressionFailed
from callsheet.machine.forecasting import Foreseen, Unknown
from callsheet.machine.forecasting.partial_expressions import Evaluator
from callsheet.machine.forecasting.partial_values import list_of
from callsheet.machine.forecasting.tree_calls import arguments_of
from callsheet.machine.keys import segment
from callsheet.machine.tree.activations import Activation, Loop, Members
from callsheet.machine.tree.program import CatchOp, ClockOp, UntilOp, statement_of
from callsheet.machine.tree.values import plain
from callsheet.machine.tree.variables import activations_under_way, names_in, place_of
from callsheet.runtime.effects import (
    REPLAN,
    AheadCall,
    EffectAhead,
    OpenCall,
    ParentCalls,
    calls_that_are_open,
    effect_of,
    inner_tools,
    same_arguments,
)
from callsheet.store.folded import Folded
from callsheet.views.describe import wording_of


class _Ahead(NamedTuple):
    """A statement that the run may still come to, and from where.

    `path` is what its key begins with, None if it may be executed for several items or rounds, as `per` says.
    `act` is the activation under way whose variables it reads, None for those that only begin then.
    """

    statement: Statement
    path: str | None
    act: Activation | None
    on_failure: bool
    per: str = "item"


@dataclass(slots=True)
class _Row:
    """What lies ahead of one statement."""

    calls: list[AheadCall] = field(default_factory=list[AheadCall])
    repeats: bool = False
    on_failure: bool = True


def tree_effects_ahead(folded: Folded, parent: ParentCalls) -> tuple[EffectAhead, ...]:
    """The statements that may have side effects when the run goes on, in the order of the text."""
    if folded.machine.result is not None:
        return ()
    return tuple(_Preview(folded, parent).effects())


class _Preview:
    def __init__(self, folded: Folded, parent: ParentCalls) -> None:
        self._machine, self._facts, self._parent = folded.machine, folded.facts, parent
        tree = self._machine.program.plan.tree
        assert tree is not None
        self._tree: Tree = tree
        self._statements = {one.id: one for one in all_statements(tree)}
        self._listed = {step.id: step for step in self._machine.program.plan.steps}
        self._words = wording_of(self._machine.program.plan)
        self._evaluator = Evaluator()
        self._before = {call.key: call for call in parent.calls}
        self._open: dict[str, list[OpenCall]] = {}
        for call in calls_that_are_open(folded):
            self._open.setdefault(call.step, []).append(call)
        self._ahead = list(self._from_activations())
        self._changed = self._changed_names()

    def effects(self) -> Iterator[EffectAhead]:
        """An entry for each statement ahead that may have side effects, and for the calls of its agent."""
        rows: dict[tuple[str, str], _Row] = {}
        for step, calls in self._open.items():
            for call in calls:
                row = rows.setdefault((step, call.tool), _Row())
                row.calls.append(self._open_call(call))
                row.on_failure = False
        for one in self._ahead:
            self._add(rows, one)
        order = {id_: number for number, id_ in enumerate(self._statements)}
        for (step, tool), row in sorted(rows.items(), key=lambda item: order.get(item[0][0], 0)):
            effect = self._effect(step, tool)
            if effect is None:
                continue
            named = {call.earlier.event for call in row.calls if call.earlier is not None}
            is_open = row.repeats or not all(call.is_known and call.key for call in row.calls)
            mine = (c for c in self._parent.calls if (c.step, c.tool) == (step, tool) and c.seq not in named)
            yield EffectAhead(
                step, tool, effect, self._parent.run_id, tuple(row.calls),
                may_call=inner_tools(tool, self._listed.get(step), self._facts),
                repeats=row.repeats, on_failure=row.on_failure,
                earlier=tuple(map(self._parent.earlier, mine)) if is_open else (), words=self._words,
            )  # fmt: skip

    def _add(self, rows: dict[tuple[str, str], _Row], one: _Ahead) -> None:
        statement = one.statement
        if isinstance(statement, Say) and statement.word is Word.REPLAN:
            row = rows.setdefault((statement.id, REPLAN), _Row())
            row.calls.append(AheadCall(statement.id, {"reason": list_of(self._said(one, statement))}))
            row.on_failure = row.on_failure and one.on_failure
        if not isinstance(statement, Act) or self._effect(statement.id, statement.tool) is None:
            return
        row = rows.setdefault((statement.id, statement.tool), _Row())
        row.on_failure = row.on_failure and one.on_failure
        inputs, arguments = arguments_of(statement, self._facts, lambda node: self._value(one, node))
        if inputs or statement.kind is CallKind.AGENT:
            arguments = {"inputs": list_of(inputs), **arguments}
        key = "" if one.path is None else f"{one.path}{segment(statement.id)}.1"
        if key and any(call.key == key for call in row.calls):
            row.repeats = True
            return
        ahead, before = AheadCall(key, arguments, per=one.per), self._before.get(key)
        call = self._parent.compared(ahead, statement.tool, before, arguments)
        if not any(same_arguments(call.args, each.args) and not each.key for each in row.calls if not key):
            row.calls.append(call)

    def _said(self, one: _Ahead, statement: Say) -> tuple[Foreseen, ...]:
        return tuple(self._value(one, value) for value in statement.values)

    # ------------------------------------------------------------ where the run stands

    def _from_activations(self) -> Iterator[_Ahead]:
        for act in activations_under_way(self._machine):
            id_ = _current(act)
            if id_:
                yield from self._behind(self._block_of(act), id_, act, after_failure=False)

    def _block_of(self, act: Activation) -> Block:
        role = act.role
        if role is None:
            return self._tree.body
        if isinstance(role, Loop):
            loop = self._statements[role.op.id]
            assert isinstance(loop, Foreach)
            return loop.body
        if isinstance(role, Members):
            group = self._statements[role.op.id]
            assert isinstance(group, Parallel)
            return (group.members[act.index],)
        plan = self._tree.plan(role.plan)
        assert plan is not None
        return plan.body

    def _behind(self, block: Block, id_: str, act: Activation, *, after_failure: bool) -> Iterator[_Ahead]:
        """What is left of a block in which the statement with this id is under way."""
        for place, one in enumerate(block):
            if one.id == id_ or _is_inside(one, id_):
                yield from self._inside(one, id_, act, after_failure=after_failure)
                yield from self._all(block[place + 1 :], _around(one, act), act, after_failure=after_failure)
                return

    def _inside(self, one: Statement, id_: str, act: Activation, *, after_failure: bool) -> Iterator[_Ahead]:
        """What is left of a statement that is under way, or has the one that is inside."""
        recovery = recovery_of(one)
        if one.id == id_:
            yield from self._itself(one, act, after_failure=after_failure)
        else:
            for block in own_blocks(one):
                if any(each.id == id_ for each in _of_scope(block)):
                    yield from self._behind(block, id_, act, after_failure=after_failure)
        if isinstance(one, Repeat):
            yield from self._rounds(one, act, after_failure=after_failure)
        if recovery is None:
            return
        for block in blocks_of_failure(recovery):
            if any(each.id == id_ for each in _of_scope(block)):
                yield from self._behind(block, id_, act, after_failure=after_failure)
        yield from self._attempts(one, recovery)
        yield from self._failing(recovery, _around(one, act), act, after_failure=after_failure)

    def _itself(self, one: Statement, act: Activation, *, after_failure: bool) -> Iterator[_Ahead]:
        operation = act.body.operations[act.pc]
        match operation:
            case ClockOp():
                yield from self._all((one,), act.path, act, after_failure=after_failure)
            case CatchOp():
                yield from self._all((one,), None, act, after_failure=after_failure)
            case UntilOp():
                pass  # the rounds to come are those of every REPEAT under way
            case _ if isinstance(one, Foreach):
                if self._has_more_items(one, act):
                    yield from self._all(one.body, None, None, after_failure=after_failure)
            case _:
                pass

    def _has_more_items(self, loop: Foreach, act: Activation) -> bool:
        for item in activations_under_way(self._machine):
            if isinstance(item.role, Loop) and item.role.act is act and item.role.op.id == loop.id:
                return item.role.next < len(item.role.items) and not item.role.is_stopped
        return True

    def _all(
        self, block: Block, path: str | None, act: Activation | None, *, after_failure: bool
    ) -> Iterator[_Ahead]:
        """All statements of a block that has not begun."""
        for one in block:
            yield _Ahead(one, path, act, after_failure)
            match one:
                case Foreach(body=body):
                    yield from self._all(body, None, None, after_failure=after_failure)
                case Repeat():
                    yield from self._rounds(one, act, after_failure=after_failure)
                case Invoke(plan=name) if (plan := self._tree.plan(name)) is not None:
                    inner = None if path is None else f"{path}{segment(one.id)}/"
                    yield from self._all(plan.body, inner, None, after_failure=after_failure)
                case _:
                    for inner_block in own_blocks(one):
                        yield from self._all(inner_block, path, act, after_failure=after_failure)
            recovery = recovery_of(one)
            if recovery is not None:
                if path is not None:
                    yield from self._attempts(one, recovery)
                yield from self._failing(recovery, path, act, after_failure=after_failure)

    def _attempts(self, one: Statement, recovery: Recovery) -> Iterator[_Ahead]:
        """What a block or a sub-plan does again if it fails; further attempts at a call have its place."""
        if recovery.again is None:
            return
        plan = self._tree.plan(one.plan) if isinstance(one, Invoke) else None
        for block in own_blocks(one) if plan is None else (plan.body,):
            for each in self._all(block, None, None, after_failure=True):
                yield each._replace(per="attempt")

    def _rounds(self, one: Repeat, act: Activation | None, *, after_failure: bool) -> Iterator[_Ahead]:
        for each in self._all(one.body, None, act, after_failure=after_failure):
            yield each._replace(per="round") if each.act is act else each

    def _failing(
        self, recovery: Recovery, path: str | None, act: Activation | None, *, after_failure: bool
    ) -> Iterator[_Ahead]:
        for handler in recovery.handlers:
            yield from self._all(handler.body, path, act, after_failure=True)
        if recovery.final is not None:
            yield from self._all(recovery.final, path, act, after_failure=after_failure)

    # ------------------------------------------------------------ values

    def _changed_names(self) -> frozenset[str]:
        """The variables that anything ahead or under way may set."""
        changed: set[str] = set()
        for one in self._ahead:
            changed.update(_made_by(one.statement))
        for act in activations_under_way(self._machine):
            under_way = self._statements.get(_current(act))
            if under_way is not None:
                changed.update(_made_by(under_way))
        return frozenset(changed)

    def _value(self, one: _Ahead, node: object) -> Foreseen:
        act, hidden = one.act, self._parent.hidden
        known: dict[str, object] = {}
        if act is not None:
            slot_of = {name: slot for slot, name in enumerate(act.body.names)}
            known = {name: act.slots[slot_of[name]] for name in names_in(act)}
        place = "" if act is None else place_of(act)

        def read(name: str) -> Foreseen:
            full = f"{place}/{name}" if place else name
            if hidden is None or name in hidden or full in hidden:
                return Unknown(f"secret ${name}")
            if name not in known or name in self._changed:
                return Unknown(f"${name}")
            return plain(known[name])

        try:
            return self._evaluator.value(node, read)  # pyright: ignore[reportArgumentType]
        except ExpressionFailed:
            return Unknown("a failure")

    def _open_call(self, call: OpenCall) -> AheadCall:
        return self._parent.with_open(call, self._before.get(call.key), lambda: self._planned(call))

    def _planned(self, call: OpenCall) -> Mapping[str, Foreseen]:
        """The arguments of an open call as far as variables that may be shown make them."""
        statement = self._statements.get(call.step)
        planned: Mapping[str, Foreseen] = {}
        for act in activations_under_way(self._machine):
            place = f"{act.path}{segment(call.step)}"
            if isinstance(statement, Act) and call.key.startswith(f"{place}.") and _current(act) == call.step:
                here = _Ahead(statement, act.path, act, on_failure=False)
                planned = arguments_of(statement, self._facts, lambda node, h=here: self._value(h, node))[1]
        return planned

    def _effect(self, step: str, tool: str) -> Effect | None:
        return effect_of(tool, self._listed.get(step), self._facts)


def _around(one: Statement, act: Activation) -> str:
    """The place of what stands beside a statement under way: without the attempt or round that this is in."""
    begins = segment(one.id)
    found = [f"/{act.path}".find(f"/{begins}{mark}") for mark in ("~", "[#")]
    return act.path[: max(found)] if max(found) >= 0 else act.path


def _current(act: Activation) -> str:
    """The id of the statement that an activation is at."""
    return statement_of(act.body.operations[act.pc])


def _of_scope(block: Block) -> Iterator[Statement]:
    """The statements of a block and of the blocks inside it that the same activation executes."""
    for one in block:
        yield one
        for inner in inner_blocks(one):
            if not (isinstance(one, Foreach) and inner is one.body) and not isinstance(one, Parallel):
                yield from _of_scope(inner)
        if isinstance(one, Parallel) and one.recovery is not None:
            for inner in blocks_of_failure(one.recovery):
                yield from _of_scope(inner)


def _is_inside(one: Statement, id_: str) -> bool:
    return any(each.id == id_ for each in _of_scope((one,)))


def _made_by(one: Statement) -> Iterator[str]:
    """The variables that a statement sets, those of its blocks not counted."""
    yield from variables_set(one)
    match one:
        case Foreach(var=name):
            yield name
        case Assign(name=name):
            yield name
        case If() | Repeat():
            for inner in own_blocks(one):
                for each in statements(inner):
                    yield from variables_set(each)
        case _:
            pass
    recovery = recovery_of(one)
    if recovery is not None:
        yield from (handler.binds for handler in recovery.handlers)


__all__ = ["tree_effects_ahead"]
