"""Plans that other plans use: a whole plan becomes a sub-plan under the name of its USE. Reads no files.

A used plan keeps its own names: the ids of its statements begin with its name, its sub-plans are told apart
by it, and its types are written out where it uses them. Its place in the text is that of its USE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from callsheet.diagnostics import CallsheetError
from callsheet.ir import Plan
from callsheet.ir.tree import Act, Block, Foreach, Invoke, Let, Origin, Say, Statement, SubPlan, Tree, Word
from callsheet.ir.tree_edits import map_blocks, placed, with_tree
from callsheet.ir.types import DictOf, ListOf, Maybe, Named, Record, Type


def unread_uses(plan: Plan) -> tuple[SubPlan, ...]:
    """The sub-plans of which a plan has only the place, in the order of the text."""
    if plan.tree is None:
        return ()
    uses = (one for one in plan.tree.plans if one.origin is not None and not one.origin.is_inner)
    return tuple(one for one in uses if not one.body)


def with_plans(plan: Plan, found: Mapping[str, Plan]) -> Plan:
    """The plan with these plans in the place of its unread ones, by the names of their USE.

    Raises CallsheetError (PLN031) for a plan that cannot be a sub-plan.
    """
    tree = plan.tree
    if tree is None:
        return plan
    plans: list[SubPlan] = []
    for one in tree.plans:
        used = found.get(one.name)
        plans.extend(
            (one,) if used is None or one.origin is None or one.body else _used(one, one.origin, used)
        )
    made = replace(tree, plans=tuple(plans))
    return with_tree(plan, made)


def _used(use: SubPlan, origin: Origin, plan: Plan) -> list[SubPlan]:
    """The sub-plans that a use brings along, its own first."""
    tree = plan.tree
    if tree is None:
        raise _refuse(use, "is a plan of version 1", "callsheet upgrade rewrites it as version 2")
    declared = tree.plan(use.name)
    names = {one.name: f"{use.name}__{one.name}" for one in tree.plans}
    if declared is not None:
        names[use.name] = use.name
        whole = replace(declared, origin=origin, comments=use.comments, span=use.span)
        others = tuple(one for one in tree.plans if one is not declared)
    else:
        body = tuple(_returning(one, use) for one in tree.body)
        whole = SubPlan(use.name, tree.inputs, body, tree.result, origin, use.comments, use.span)
        others = tree.plans
    if not whole.body:
        raise _refuse(use, "does nothing", "its block has no statement")
    rename = _Renaming(use, names, tree)
    inner = replace(origin, is_inner=True)
    made = [
        rename.plan(whole, use.name),
        *(rename.plan(replace(one, origin=inner), names[one.name]) for one in others),
    ]
    return [placed(one, use.span) for one in made]


def _refuse(use: SubPlan, why: str, help_: str) -> CallsheetError:
    return CallsheetError.single("PLN031", f"the plan {use.name} {why}", help=help_)


def _returning(statement: Statement, use: SubPlan) -> Statement:
    """The statement of a main plan as one of a sub-plan: its answer is the result."""
    if isinstance(statement, Say) and statement.word is Word.RESPOND:
        if len(statement.values) != 1:
            help_ = "write @RESPOND (value) or RETURN (value) in it"
            raise _refuse(use, "answers with several values, but a sub-plan has one result", help_)
        return replace(statement, word=Word.RETURN, is_named=False)

    def inner(block: Block) -> Block:
        return tuple(_returning(one, use) for one in block)

    return map_blocks(statement, inner)


class _Renaming:
    """What a used plan calls its own, with other names: ids, sub-plans and types."""

    def __init__(self, use: SubPlan, names: Mapping[str, str], tree: Tree) -> None:
        self._use = use
        self._names = names
        self._types = tree.named_types
        self._around: tuple[str, ...] = ()
        """The types inside which one is written out."""

    def plan(self, plan: SubPlan, name: str) -> SubPlan:
        inputs = tuple(replace(one, type=self.type(one.type)) for one in plan.inputs)
        result = None if plan.result is None else self.type(plan.result)
        return replace(plan, name=name, inputs=inputs, result=result, body=self.block(plan.body))

    def block(self, block: Block) -> Block:
        return tuple(self.statement(one) for one in block)

    def statement(self, statement: Statement) -> Statement:
        changes: dict[str, Any] = {"id": f"{self._use.name}.{statement.id}"}
        if isinstance(statement, Act | Invoke | Foreach) and statement.into is not None:
            kind = statement.into.type
            if kind is not None:
                changes["into"] = replace(statement.into, type=self.type(kind))
        if isinstance(statement, Let) and statement.type is not None:
            changes["type"] = self.type(statement.type)
        if isinstance(statement, Invoke):
            changes["plan"] = self._names.get(statement.plan, statement.plan)
        return map_blocks(replace(statement, **changes), self.block)

    def type(self, kind: Type) -> Type:
        """The type without the names of the used plan."""
        match kind:
            case Named(name=name) if name in self._types:
                if name in self._around:
                    help_ = "a type has no field of itself: json is any value"
                    raise _refuse(self._use, f"has the type {name}, which contains itself", help_)
                around, self._around = self._around, (*self._around, name)
                made = self.type(self._types[name])
                self._around = around
                return made
            case ListOf(item=item):
                return ListOf(self.type(item))
            case DictOf(value=value):
                return DictOf(self.type(value))
            case Maybe(of=inner):
                return Maybe(self.type(inner))
            case Record(fields=fields):
                return Record(tuple((name, self.type(each)) for name, each in fields))
            case _:
                return kind
