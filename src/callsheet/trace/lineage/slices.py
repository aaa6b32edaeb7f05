"""Backward and forward slices of a lineage: from what a value was made, and what was made from it.

In: a write and a path in its value. Out: the writes and paths that flowed into it, or into which it flowed,
step by step. A tool is a black box: its whole result depends on all of its arguments. In a FOREACH, each
result depends on its own item only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from callsheet.ir import JSON, Effect, ListExpr, Ref
from callsheet.machine import CallModel, CallTool, RunAgent
from callsheet.machine.keys import attempt_key
from callsheet.machine.values import items_of, parse_json, walk
from callsheet.trace.lineage.blocks import TreeLineage
from callsheet.trace.lineage.lineage import (
    NEVER,
    NONE,
    Flow,
    LastUses,
    Lineage,
    Node,
    ValueSource,
    Visit,
    Write,
)
from callsheet.trace.lineage.reads import Path, Role, Use, element, is_list, overlap

WHOLE: Path = ()


Graph: TypeAlias = "dict[Node, tuple[Flow, ...]]"
_Neighbours: TypeAlias = "Callable[[Node], tuple[Flow, ...]]"


def backward(lineage: Lineage, start: Node, most: int | None = None, depth: int | None = None) -> Graph:
    """The backward slice: each node that flowed into `start`, with the flows into it, nearest first.

    It has at most `most` nodes, none of them more than `depth` steps away.
    """
    return _closure(start, lambda node: flows_into(lineage, node), most, depth)


def forward(lineage: Lineage, start: Node, most: int | None = None, depth: int | None = None) -> Graph:
    """The forward slice: each node made from `start`, with the flows out of it; limits as for `backward`."""
    return _closure(start, lambda node: flows_from(lineage, node), most, depth)


def _closure(start: Node, neighbours: _Neighbours, most: int | None, depth: int | None) -> Graph:
    graph: Graph = {}
    waiting, seen = deque([(start, 0)]), {start}
    while waiting and (most is None or len(graph) < most):
        node, steps = waiting.popleft()
        flows = graph[node] = neighbours(node)
        if steps == depth:
            continue
        for flow in flows:
            if flow.node.write != NONE and flow.node not in seen:
                seen.add(flow.node)
                waiting.append((flow.node, steps + 1))
    return graph


def is_complete_slice(lineage: Lineage, graph: Graph, start: Node, *, is_forward: bool) -> bool:
    """Whether a slice of a partial lineage equals that of the whole run."""
    if lineage.uses is not None and not (is_forward and _is_settled(lineage, graph, start, lineage.uses)):
        return False
    if lineage.begins == 1:
        return True
    if is_forward:  # the readers of earlier writes are not known
        return lineage.writes[start.write].visit != NONE and lineage.knows(start.write)
    met = {node.write for node in graph}
    met.update(flow.node.write for flows in graph.values() for flow in flows)
    met.discard(NONE)
    return all(lineage.knows(write) for write in met)


def _is_settled(lineage: Lineage, graph: Graph, start: Node, uses: LastUses) -> bool:
    """Whether a forward slice is final: no later step reads its nodes or sets its start again.

    The lineage ends where no group is under way, in a run that is neither edited, reopened nor planned anew.
    """
    pc = lineage.machine.pc
    if uses.made.get(lineage.writes[start.write].name, NEVER) >= pc:
        return False
    return all(_is_past(lineage, write, pc, uses) for write in {node.write for node in graph})


def _is_past(lineage: Lineage, write: int, pc: int, uses: LastUses) -> bool:
    """Whether all steps that can read a write are done."""
    name = lineage.writes[write].name
    if uses.read.get(name, NEVER) < pc:
        return True
    is_replaced = lineage.current.get(name, NONE) != write
    readers = lineage.readers.get(write, ())
    return is_replaced and all(lineage.visits[number].number < pc for number in readers)


def item_at(lineage: Lineage, visit: Visit, path: Path) -> tuple[int | None, Path]:
    """The item of a FOREACH that a place in its result was made for, and the place in the item's result."""
    if lineage.step(visit).foreach is None:
        return None, path
    at, items = path[0] if path else None, items_in(lineage, visit)
    if isinstance(at, int) and -len(items) <= at < len(items):
        return items[at], path[1:]
    return None, path


def items_in(lineage: Lineage, visit: Visit) -> Sequence[int]:
    """The items of a FOREACH that its result holds, in the order of the result."""
    items = lineage.items_of(visit)
    if isinstance(lineage, TreeLineage):
        return items
    written = lineage.write_of.get(visit.id)
    if written is not None:
        value = lineage.writes[written].value
        return items[: len(value)] if isinstance(value, list) and len(value) < len(items) else items
    if items or lineage.step(visit).call is not None:
        return items
    source = lineage.reads_of(visit).source
    if isinstance(source, ListExpr):
        return range(len(source.items))
    return range(len(items_of(source_of(lineage, visit))))


def flows_into(lineage: Lineage, node: Node) -> tuple[Flow, ...]:
    """The flows into a node; none for a write that no visit made."""
    if isinstance(lineage, TreeLineage):
        return lineage.flows_into(node)
    write = lineage.writes[node.write]
    if write.visit == NONE:
        return ()
    visit = lineage.visits[write.visit]
    item, _ = item_at(lineage, visit, node.path)
    return tuple(_reads(lineage, visit, item))


def reads_by(lineage: Lineage, visit: Visit) -> tuple[Flow, ...]:
    """The flows of everything that a visit has read, for all items."""
    if isinstance(lineage, TreeLineage):
        return lineage.flows_of(visit)
    return tuple(_reads(lineage, visit, None))


def _reads(lineage: Lineage, visit: Visit, item: int | None) -> Iterator[Flow]:
    """What a visit has read for one item, or for all of them."""
    reads = lineage.reads_of(visit)
    seen: set[Flow] = set()
    for use in reads.uses:
        if use.role is Role.SOURCE and item is not None:
            continue  # its own item flows in where the loop's variable is read
        if use.role is Role.MESSAGE:
            continue
        for flow in _flows_of(lineage, visit, use, item):
            if flow not in seen:
                seen.add(flow)
                yield flow


def _flows_of(
    lineage: Lineage, visit: Visit, use: Use, item: int | None, called: Sequence[int] = ()
) -> Iterator[Flow]:
    """What a use has read for one item; without one for those in the result, or `called` for."""
    reads = lineage.reads_of(visit)
    if use.name != reads.loop or use.role is Role.SOURCE:
        yield Flow(use.role, use.argument, item, use.name, lineage.node_of(visit, use))
        return
    for index in (called or items_in(lineage, visit)) if item is None else [item]:
        for name, path in _element(lineage, visit, index, use.path):
            yield Flow(use.role, use.argument, index, name, Node(lineage.version(visit, name), path))


def _element(lineage: Lineage, visit: Visit, index: int, path: Path) -> tuple[tuple[str, Path], ...]:
    reads = lineage.reads_of(visit)
    source = reads.source
    assert source is not None
    return element(source, index, path, has_members=_has_members(lineage, visit))


def _has_members(lineage: Lineage, visit: Visit) -> bool:
    """Whether the FOREACH of a visit went through the members of what one variable held."""
    has_members = lineage.has_members.get(visit.id)
    if has_members is None:
        has_members = lineage.has_members[visit.id] = is_list(source_of(lineage, visit))
    return has_members


def source_of(lineage: Lineage, visit: Visit) -> JSON:
    """The value that the FOREACH of a visit went through, where that is one variable's."""
    use = next((u for u in lineage.reads_of(visit).uses if u.role is Role.SOURCE), None)
    return None if use is None else lineage.value_at(Node(lineage.version(visit, use.name), use.path))


# ---------------------------------------------------------------- forward


def flows_from(lineage: Lineage, node: Node) -> tuple[Flow, ...]:
    """The flows out of a node, through the visits that read it."""
    if isinstance(lineage, TreeLineage):
        return lineage.flows_from(node)
    flows: dict[Flow, None] = {}
    for number in dict.fromkeys(lineage.readers.get(node.write, ())):
        visit = lineage.visits[number]
        makers = _made_by(lineage, visit)
        for role, argument, item in touched(lineage, visit, node):
            if makers is None:
                continue
            where: Path = WHOLE
            if item is not None and makers.made is ValueSource.STEP:
                items = items_in(lineage, visit)
                at = bisect_left(items, item)
                if at == len(items) or items[at] != item:
                    continue
                where = (at,)
            flows[Flow(role, argument, item, makers.name, Node(makers.id, where))] = None
    return tuple(flows)


def touched(lineage: Lineage, visit: Visit, node: Node) -> Iterator[tuple[Role, str, int | None]]:
    """The reads of a node in a visit: the role, the argument and the item of each."""
    if isinstance(lineage, TreeLineage):
        yield from ((role, argument, None) for role, argument in lineage.touched(visit, node))
        return
    where = _settled_path(lineage, node)
    for use in lineage.reads_of(visit).uses:
        if use.role is Role.MESSAGE:
            continue
        if use.role is Role.SOURCE and _has_own_result(lineage, visit, use, node):
            continue  # a member of it reaches its own item alone
        seen: set[int | None] = set()
        for flow in _flows_of(lineage, visit, use, None, _may_touch(lineage, visit, use, node)):
            is_own = flow.node.write == node.write and flow.item not in seen
            if is_own and overlap(_settled_path(lineage, flow.node), where):
                seen.add(flow.item)
                yield use.role, use.argument, flow.item


def _has_own_result(lineage: Lineage, visit: Visit, use: Use, node: Node) -> bool:
    """Whether a place inside of what a FOREACH went through is a member whose result is among its results.

    A loop that failed has fewer: then the others have led to that end as part of the whole, also those that
    it has not come to.
    """
    depth = len(use.path)
    if len(node.path) <= depth:
        return False
    written = lineage.write_of.get(visit.id)
    if written is None or not _has_members(lineage, visit):
        return True
    member, items = str(node.path[depth]), items_in(lineage, visit)
    if not member.isdecimal():
        return True
    at = bisect_left(items, int(member))
    return at < len(items) and items[at] == int(member)


def _settled_path(lineage: Lineage, node: Node) -> Path:
    """A place as backward slices take it: what is no place in the results of a FOREACH is all of them."""
    write, path = lineage.writes[node.write], node.path
    if (
        not path
        or write.made is not ValueSource.STEP
        or lineage.step(lineage.visits[write.visit]).foreach is None
    ):
        return path
    count, at = len(items_in(lineage, lineage.visits[write.visit])), path[0]
    return (at % count, *path[1:]) if isinstance(at, int) and -count <= at < count else WHOLE


def _may_touch(lineage: Lineage, visit: Visit, use: Use, node: Node) -> Sequence[int]:
    """The items of a visit in which a use may have read the place of a value: of a member its own alone."""
    items = lineage.items_of(visit)
    reads = lineage.reads_of(visit)
    source = reads.source
    if use.name != reads.loop or not isinstance(source, Ref) or not items:
        return items
    depth = len(source.path)
    if len(node.path) <= depth or not _has_members(lineage, visit):
        return items
    member = str(node.path[depth])
    at = bisect_left(items, int(member)) if member.isdecimal() else len(items)
    own = items[at : at + 1]
    return own if own and str(own[0]) == member else items[:1]


def _made_by(lineage: Lineage, visit: Visit) -> Write | None:
    written = lineage.write_of.get(visit.id)
    if written is not None:
        return lineage.writes[written]
    answer = lineage.answer
    if answer != NONE and lineage.writes[answer].visit == visit.id:
        return lineage.writes[answer]
    return None


def missing_at(lineage: Lineage, node: Node) -> tuple[Path, list[str]] | None:
    """The longest existing prefix of a node's path and the keys there; None if the whole path exists."""
    value = lineage.writes[node.write].value
    nothing = object()
    for depth in range(1, len(node.path) + 1):
        if walk(value, node.path[:depth], nothing) is nothing:
            there = node.path[: depth - 1]
            value_there: JSON = walk(value, there)
            if isinstance(value_there, str):
                value_there = parse_json(value_there)[1]
            if isinstance(value_there, dict):
                return there, [str(key) for key in value_there]
            return there, [str(n) for n in range(len(value_there))] if isinstance(value_there, list) else []
    return None


class Reached(NamedTuple):
    """A call that data has reached in the role `role`, for an argument in `argument`."""

    key: str
    tool: str
    effect: Effect
    visit: Visit
    role: Role
    argument: str


def reached_by(lineage: Lineage, nodes: Iterable[Node]) -> list[Reached]:
    """The calls that any of these nodes has reached, in the order in which they were made."""
    by_key: dict[str, Reached] = {}
    for node in nodes:
        for key, visit, role, argument in _touched_calls(lineage, node):
            tool = tool_of(lineage, key)
            known = by_key.get(key)
            if tool and (known is None or (known.role, role) == (Role.SOURCE, Role.ARGUMENT)):
                effect = effect_of(lineage, visit, key, tool)
                by_key[key] = Reached(key, tool, effect, visit, role, argument)
    order = {key: n for n, key in enumerate(lineage.commands)}
    return sorted(by_key.values(), key=lambda reached: order[reached.key])


def _touched_calls(lineage: Lineage, node: Node) -> Iterator[tuple[str, Visit, Role, str]]:
    """The key of each command of a visit that read the node, with the visit, the role and the argument."""
    for number in dict.fromkeys(lineage.readers.get(node.write, ())):
        visit = lineage.visits[number]
        for role, argument, item in touched(lineage, visit, node):
            keys = lineage.keys_of(visit) if item is None else lineage.keys_of_item(visit, item)
            yield from ((key, visit, role, argument) for key in keys)
            if isinstance(lineage, TreeLineage):
                for other in lineage.decided_by(visit):
                    yield from ((key, other, Role.CONDITION, "") for key in lineage.keys_of(other))


def tool_of(lineage: Lineage, key: str) -> str:
    """The tool of a call; "" for a wait, a question or a compilation."""
    command = lineage.commands.get(key)
    return command.tool if isinstance(command, CallTool | CallModel | RunAgent) else ""


def effect_of(lineage: Lineage, visit: Visit, key: str, tool: str) -> Effect:
    """The effect of a call."""
    code = lineage.code(visit)
    if attempt_key(key) != key and code.loop is not None and tool in code.loop.tools:
        return code.loop.tools[tool].effect
    return code.effect
