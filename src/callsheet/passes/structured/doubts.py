"""Doubts about what a plan changes: calls that nothing decides, items chosen by their place, lookups unread.

In: the tree of a plan, the tools. Out: findings (CHK130 to CHK134). No word of a goal is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from callsheet.diagnostics import Severity
from callsheet.ir import CallKind, Literal
from callsheet.ir.expression import (
    Call,
    Compared,
    Comparison,
    Expression,
    Field,
    Index,
    Unary,
    UnaryOp,
    Variable,
    nodes,
    variables_in,
)
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Foreach,
    If,
    Let,
    Recovery,
    Repeat,
    Require,
    Say,
    Statement,
    Tree,
    all_statements,
    blocks_of_failure,
    inner_blocks,
    operands,
    own_blocks,
    recovery_of,
    statements,
    variables_read,
    variables_set,
)
from callsheet.passes.finding import ToolSignature
from callsheet.passes.structured.consequences import ENDS, in_brief, may_change, spelled
from callsheet.passes.structured.findings import Report


def _ends(block: Block) -> bool:
    """Whether what stands behind a block is not reached after it."""
    return bool(block) and isinstance(last := block[-1], Say) and last.word in ENDS


def doubtful(tree: Tree, tools: Mapping[str, ToolSignature] | None, report: Report) -> None:
    """Notes CHK130 to CHK134, which say what is told about a call: see their pages."""
    if tools is None:
        return
    _undecided(tree, tools, report)
    _unread(tree, tools, report)
    _same_for_each(tree, tools, report)
    for block in (tree.body, *(plan.body for plan in tree.plans)):
        _too_early(block, tools, report)
        _first_of_all(block, tools, report)


def _undecided(tree: Tree, tools: Mapping[str, ToolSignature], report: Report) -> None:
    inner = (block for one in all_statements(tree) for block in inner_blocks(one))
    for block in (tree.body, *(plan.body for plan in tree.plans), *inner):
        whole: _Calls | None = None
        for number, statement in enumerate(block):
            if not isinstance(statement, If):
                continue
            first, *others = (_Calls(branch.body, tools) for branch in statement.branches)
            if not first.by_what or (
                statement.otherwise is None and not all(_ends(branch.body) for branch in statement.branches)
            ):
                continue
            if statement.otherwise is not None:
                last, start = _Calls(statement.otherwise, tools), 0
            else:
                last = whole = whole or _Calls(block, tools)
                start = number + 1
            for what, calls in first.by_what.items():
                if first.has(what) and all(one.has(what) for one in others) and last.has(what, start):
                    act = calls[0].act
                    report.add(
                        "CHK130",
                        f"@{act.tool} is called with the same arguments whether or not {_decides(statement)}",
                        act,
                        severity=Severity.WARNING,
                        help="make the call in one branch only, or in front of the condition",
                    )


def _decides(one: If) -> str:
    """What a statement tests first, without the negation around it, in brief."""
    condition = one.branches[0].condition
    while isinstance(condition, Unary) and condition.op is UnaryOp.NOT:
        condition = condition.operand
    return in_brief(spelled(condition))


class _Placed(NamedTuple):
    """A call in a block, its place there, and the first place from which its arguments are what they are."""

    act: Act
    place: int
    since: int


class _Calls:
    """The calls directly in a block that may change something, by what they do."""

    def __init__(self, block: Block, tools: Mapping[str, ToolSignature]) -> None:
        self.by_what: dict[tuple[object, ...], list[_Placed]] = {}
        known_since: dict[str, int] = {}
        for place, one in enumerate(block):
            if isinstance(one, Act) and may_change(one, tools):
                since = max((known_since.get(name, 0) for name in variables_read(one)), default=0)
                what = one.tool, one.positional, one.named
                self.by_what.setdefault(what, []).append(_Placed(one, place, since))
            for inner in statements((one,)):
                known_since.update(dict.fromkeys(variables_set(inner), place + 1))

    def has(self, what: tuple[object, ...], start: int = 0) -> bool:
        """Whether a call is made behind a place with what its arguments are there."""
        return any(one.since <= start <= one.place for one in self.by_what.get(what, ()))


def _unread(tree: Tree, tools: Mapping[str, ToolSignature], report: Report) -> None:
    """CHK131 for a lookup that nothing reads, and for a text that is put into a variable and not read."""
    read = {name for one in all_statements(tree) for name in variables_read(one)}
    for one in all_statements(tree):
        match one:
            case Let(name=name, value=Literal(value=str()), is_placeholder=False) if name not in read:
                report.add(
                    "CHK131",
                    f"nothing reads {name}",
                    one,
                    severity=Severity.WARNING,
                    help="use it where it is meant to be used, or leave it out",
                )
            case _:
                pass
    for one in _acts_without_handler(tree):
        if one.kind is not CallKind.TOOL or one.tool not in tools or may_change(one, tools):
            continue
        if one.into is None or one.into.name not in read:
            report.add(
                "CHK131",
                f"nothing reads what @{one.tool} finds",
                one,
                severity=Severity.WARNING,
                help="use its result, or leave the call out",
            )


def _same_for_each(tree: Tree, tools: Mapping[str, ToolSignature], report: Report) -> None:
    """CHK132 for a change in a loop over items that is the same for each of them; a range has no items."""
    for loop in all_statements(tree):
        if not isinstance(loop, Foreach) or (
            isinstance(loop.source, Call) and loop.source.function == "range"
        ):
            continue
        own = {loop.var} | {name for one in statements(loop.body) for name in variables_set(one)}
        blocks = [loop.body]
        while blocks:
            block = blocks.pop()
            for one in () if _ends(block) else block:
                if isinstance(one, Act) and may_change(one, tools) and own.isdisjoint(variables_read(one)):
                    report.add(
                        "CHK132",
                        f"@{one.tool} is called with the same arguments for each {loop.var}",
                        one,
                        severity=Severity.WARNING,
                        help=f"use {loop.var} in its arguments, or make the call once, outside the loop",
                    )
                blocks += () if isinstance(one, Foreach) else own_blocks(one)


def _too_early(body: Block, tools: Mapping[str, ToolSignature], report: Report) -> None:
    """CHK133 for a change in front of a condition on what was looked up, behind which nothing is changed."""
    looked_up: set[str] = set()
    changes: list[Act] = []
    for place, one in enumerate(body):
        if isinstance(one, If) and changes and _reads(one, looked_up):
            if not any(
                isinstance(each, Act) and may_change(each, tools) for each in statements(body[place:])
            ):
                report.add(
                    "CHK133",
                    f"@{changes[-1].tool} is called before it is known whether {_decides(one)}, "
                    "which then changes nothing",
                    changes[-1],
                    severity=Severity.WARNING,
                    help="make the call in the condition if it depends on it",
                )
            return
        if isinstance(one, Act) and may_change(one, tools):
            changes.append(one)
            looked_up -= set(variables_set(one))
        elif isinstance(one, Act) and one.kind is CallKind.TOOL and one.into is not None:
            looked_up.add(one.into.name)


def _reads(one: If, names: set[str]) -> bool:
    return any(not names.isdisjoint(variables_in(branch.condition)) for branch in one.branches)


def _acts_without_handler(tree: Tree) -> Iterator[Act]:
    """The calls whose failure nothing handles: of others that may be what is looked for."""
    blocks = [(plan.body, False) for plan in tree.plans] + [(tree.body, False)]
    while blocks:
        block, is_handled = blocks.pop()
        for one in block:
            recovery = recovery_of(one)
            handles = recovery is not None and bool(recovery.remedy or recovery.handlers)
            if isinstance(one, Act) and not handles and not is_handled:
                yield one
            blocks += ((inner, is_handled or handles) for inner in own_blocks(one))
            blocks += ((inner, is_handled) for inner in blocks_of_failure(recovery or Recovery()))


def _first_of_all(body: Block, tools: Mapping[str, ToolSignature], report: Report) -> None:
    """CHK134 for a change of what stands at a fixed place of a list that was looked up without arguments.

    None where a condition in front looks at the item or asks whether there is only one, where one call takes
    several places, as of a pair, and in a loop that looks the list up again.
    """
    found = _Found({}, {})
    decided: set[str] = set()
    again: dict[str, list[set[str]]] = {}
    for one in statements(body):
        decided.update(lookup.id for each in _conditions(one) for lookup in found.decided_by(each))
        if isinstance(one, Repeat):
            inside = [*statements(one.body)]
            names = {name for each in inside for name in variables_set(each)}
            for each in inside:
                again.setdefault(each.id, []).append(names)
        if isinstance(one, Act) and may_change(one, tools):
            items = [item for given in operands(one) if (item := found.item(given)) is not None]
            lookups = {lookup.id: lookup for lookup, _ in items}
            is_one_of_each = len({(lookup.id, place) for lookup, place in items}) == len(lookups)
            for lookup in lookups.values() if is_one_of_each else ():
                loops = again.get(one.id, ())
                if lookup.id not in decided and all(own.isdisjoint(variables_set(lookup)) for own in loops):
                    report.add(
                        "CHK134",
                        f"@{one.tool} gets one of all that @{lookup.tool} finds by its place alone",
                        one,
                        severity=Severity.WARNING,
                        help="choose it by what is known of it, in a condition or a comprehension",
                    )
        taken = found.item(one.value) if isinstance(one, Let | Assign) else None
        for name in variables_set(one):
            found.lists.pop(name, None)
            found.items.pop(name, None)
            if taken is not None:
                found.items[name] = taken
            elif isinstance(one, Act) and _finds_all(one, tools):
                found.lists[name] = one


def _finds_all(act: Act, tools: Mapping[str, ToolSignature]) -> bool:
    """Whether a lookup gets nothing to find something by."""
    given = (*act.positional, *(value for _, value in act.named))
    is_lookup = act.kind is CallKind.TOOL and act.tool in tools and not may_change(act, tools)
    return is_lookup and all(isinstance(one, Literal) and one.value is None for one in given)


def _conditions(one: Statement) -> Iterator[Expression]:
    """The conditions that a statement decides by before what is inside it."""
    match one:
        case If(branches=branches):
            yield from (branch.condition for branch in branches)
        case Require(condition=condition):
            yield condition
        case Repeat(while_=condition) if condition is not None:
            yield condition
        case _:
            return


class _Found(NamedTuple):
    """What variables hold of lookups: whole lists, and items with their places."""

    lists: dict[str, Act]
    items: dict[str, tuple[Act, int]]

    def item(self, node: Expression) -> tuple[Act, int] | None:
        """The lookup and the place of the item that an expression is, or is a part of."""
        while True:
            match node:
                case Index(target=Variable(name=name), index=Literal(value=int() as place)) if (
                    name in self.lists
                ):
                    return self.lists[name], place
                case Variable(name=name):
                    return self.items.get(name)
                case Index(target=inner) | Field(target=inner):
                    node = inner
                case _:
                    return None

    def decided_by(self, condition: Expression) -> Iterator[Act]:
        """The lookups of which a condition looks at a part of an item, or asks whether there is only one."""
        for node in nodes(condition):
            match node:
                case Index(target=inner) | Field(target=inner):
                    item = self.item(inner)
                    if item is not None:
                        yield item[0]
                case Compared(
                    first=Call(function="len", arguments=(Variable(name=name),)),
                    rest=((Comparison.EQ | Comparison.NE | Comparison.GT | Comparison.LE, Literal(value=1)),),
                ) if name in self.lists:
                    yield self.lists[name]
                case _:
                    pass
