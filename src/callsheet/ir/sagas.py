"""`ON_FAIL UNDO` of a TRY: the inverse calls that take back, newest first, what its block had done.

In: a tree, and the inverses of its tools. Out: the same tree, in which each such TRY names its inverses and
has a handler of ordinary statements that calls them and raises the failure again. So an undo is checked,
proved, forecast, journaled, resumed and explained as any block is; only which calls are to be taken back is
the machine's to say (`machine.tree.undoing`), in the fields ORDER and ARGS of the failure that is bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias, cast

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Compared, Comparison, Expression, Field, Hole, Index, Text, Variable
from callsheet.ir.failing import Failing
from callsheet.ir.inverse import Inverse, read_inverse
from callsheet.ir.operations import CallKind
from callsheet.ir.plan import Plan
from callsheet.ir.tree import (
    Act,
    Block,
    Branch,
    Foreach,
    Handler,
    If,
    Invoke,
    Say,
    Statement,
    Tree,
    Try,
    Word,
    all_statements,
    recovery_of,
    statements,
)
from callsheet.ir.tree_edits import map_blocks, with_tree

InverseOf: TypeAlias = Callable[[str], "tuple[str, Inverse] | None"]
"""The inverse of a tool, with the name by which plans call it; None if none is declared."""
OnlyReads: TypeAlias = Callable[[str], bool]
"""Whether the calls of a tool change nothing."""

UNDOABLE = frozenset({CallKind.TOOL, CallKind.AGENT})
"""What calls may have to be undone: models, transforms and questions change nothing; an agent may."""
ORDER, ARGS = "order", "args"
"""Of what is undone, newest first: objects of a TOOL and a NUMBER; the arguments of each inverse call."""
TOOL, NUMBER = "tool", "number"
UNDO = "UNDO"
"""Stands for the kinds of failure of an undo block: it is for all of them, and no failure is of this kind."""


def undo_name(id_: str) -> str:
    """The variable in which the undo block of a TRY has the failure, and what is undone.

    The ids of its statements begin with it.
    """
    return f"{id_}.undo"


def undoing_loop(id_: str) -> str:
    """The id of the loop over the calls that the undo block of a TRY takes back."""
    return f"{undo_name(id_)}.calls"


def sagas(tree: Tree) -> Iterator[Try]:
    """The statements that say ON_FAIL UNDO, those of sub-plans first."""
    for one in all_statements(tree):
        if isinstance(one, Try) and one.recovery.undo is not None:
            yield one


def tools_within(tree: Tree, one: Try) -> dict[str, Act]:
    """The tools that the block of a TRY calls, also in sub-plans, each with its first call."""
    found: dict[str, Act] = {}
    seen: set[str] = set()
    waiting: list[Block] = [one.body]
    while waiting:
        for inner in statements(waiting.pop(0)):
            if isinstance(inner, Act) and inner.kind in UNDOABLE:
                found.setdefault(inner.tool, inner)
            if isinstance(inner, Invoke) and inner.plan not in seen:
                seen.add(inner.plan)
                plan = tree.plan(inner.plan)
                waiting += () if plan is None else (plan.body,)
    return found


def with_undo(plan: Plan, inverse_of: InverseOf) -> Plan:
    """The plan in which each ON_FAIL UNDO names the inverses that its tools declare.

    One that names inverses keeps them. Raises CallsheetError (CHK112) for a block in which nothing can be
    undone, and what `inverse_of` raises.
    """
    tree = plan.tree
    if tree is None or all(one.recovery.undo for one in sagas(tree)):
        return plan

    def bound(block: Block) -> Block:
        return tuple(map(changed, block))

    def changed(one: Statement) -> Statement:
        recovery = recovery_of(one)
        if not (isinstance(one, Act) and recovery is None):
            one = map_blocks(one, bound)
        if isinstance(one, Try) and one.recovery.undo == ():
            return with_undo_block(replace(one, recovery=replace(one.recovery, undo=declared(one))))
        return one

    def declared(one: Try) -> tuple[tuple[str, str], ...]:
        pairs: list[tuple[str, str]] = []
        for tool in tools_within(tree, one):
            found = inverse_of(tool)
            if found is not None and all(name.isidentifier() for name in found[1].arguments):
                pairs.append((tool, str(replace(found[1], tool=found[0]))))
        if not pairs:
            raise CallsheetError((nothing_to_undo(one),))
        return tuple(pairs)

    plans = tuple(replace(each, body=bound(each.body)) for each in tree.plans)
    made = replace(tree, body=bound(tree.body), plans=plans)
    return with_tree(plan, made)


def named_in(plan: Plan) -> InverseOf:
    """The inverses that a recorded plan names, so that a text is compared with it under the same ones."""
    blocks = () if plan.tree is None else sagas(plan.tree)
    known = {tool: read_inverse(text) for one in blocks for tool, text in one.recovery.undo or ()}
    return lambda tool: (known[tool].tool, known[tool]) if tool in known else None


def nothing_to_undo(one: Try) -> Diagnostic:
    """The error for a block without any call that could be undone."""
    return Diagnostic(
        "CHK112",
        Severity.ERROR,
        "ON_FAIL UNDO has nothing to undo: no tool that its block calls declares an inverse",
        one.span,
        help='declare one (@tool(undo="…")), or name it: ON_FAIL UNDO (tool="inverse(id=result.id)")',
        step=one.id,
    )


def not_undone(tree: Tree, only_reads: OnlyReads) -> Iterator[Diagnostic]:
    """A warning at the first call, in each block, of a tool that may change something and has no inverse."""
    for one in sagas(tree):
        named = dict(one.recovery.undo or ())
        for tool, act in tools_within(tree, one).items():
            if named and tool not in named and not only_reads(tool):
                message = (
                    f"ON_FAIL UNDO of {one.id} cannot take this call back: no inverse of @{tool} is known"
                )
                help_ = "make it behind the block, or declare its inverse"
                yield Diagnostic("CHK113", Severity.WARNING, message, act.span, help=help_, step=act.id)


def inverses_of(pairs: tuple[tuple[str, str], ...]) -> Mapping[str, Inverse]:
    """The inverses that an ON_FAIL UNDO names, by tool; raises NotAnInverse for a text that says none."""
    return {tool: read_inverse(text) for tool, text in pairs}


def with_undo_block(one: Try) -> Try:
    """A TRY whose ON_FAIL UNDO names its inverses, with the handler that calls them; its id is known."""
    pairs = one.recovery.undo
    assert pairs
    return replace(one, recovery=replace(one.recovery, handlers=(_handler(one, pairs),)))


def _handler(one: Try, pairs: tuple[tuple[str, str], ...]) -> Handler:
    name = undo_name(one.id)
    failed, each = f"{name}.failed", Variable(f"{name}.call")
    argument = Index(Field(Variable(name), ARGS), Field(each, NUMBER))
    calls = [(tool, _inverse_call(f"{name}.{tool.lower()}", inverse, argument)) for tool, inverse in
             inverses_of(pairs).items()]  # fmt: skip
    if len(calls) == 1:
        body: Block = (calls[0][1],)
    else:
        branches = tuple(Branch(_is(Field(each, TOOL), tool), (call,)) for tool, call in calls)
        body = (If(f"{name}.which", branches, is_named=False),)
    loop = Foreach(
        undoing_loop(one.id), each.name, Field(Variable(name), ORDER), body, in_order=True, is_named=False
    )
    told = Text((Hole(Field(Variable(name), "error")), "; the undo stopped: ", _error(failed)))

    def stopped(id_: str, kind: Failing) -> Say:
        return Say(f"{name}.{id_}", Word.FAIL, (told,), kind.value)

    no = Branch(
        _is(Field(Variable(name), "kind"), Failing.DENIED.value), (stopped("still_denied", Failing.DENIED),)
    )
    which = If(f"{name}.what", (no,), (stopped("stopped", Failing.NOT_UNDONE),), is_named=False)
    handlers = (
        Handler((Failing.DENIED.value,), (stopped("denied", Failing.DENIED),), failed),
        Handler((), (which,), failed),
    )
    undone = Try(f"{name}.try", (loop,), replace(one.recovery, undo=None, handlers=handlers))
    again = Say(f"{name}.again", Word.FAIL, (Variable(name),))
    return Handler((UNDO,), (undone, again), name)


def _inverse_call(id_: str, inverse: Inverse, argument: Expression) -> Act:
    return Act(
        id_, inverse.tool, named=tuple((name, Field(argument, name)) for name in inverse.arguments),
        is_named=False,
    )  # fmt: skip


def _is(value: Expression, tool: str) -> Expression:
    return Compared(value, ((Comparison.EQ, cast("Expression", Literal(tool))),))


def _error(name: str) -> Hole:
    return Hole(Field(Variable(name), "error"))
