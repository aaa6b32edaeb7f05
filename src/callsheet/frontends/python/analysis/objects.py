"""Objects that variables may share, as nodes of a graph that are merged where they may be one.

As in Steensgaard's analysis, merging is all that ever happens to a node: what is merged stays so.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Sequence, Set
from functools import partial
from typing import Final, NamedTuple, TypeAlias


class Node:
    """An object, or all objects inside one."""

    __slots__ = ("content", "fields", "fills_itself", "held", "is_object", "named", "parent")

    def __init__(self, fields: list[Node] | None = None) -> None:
        self.parent: Node | None = None
        self.content: Node | None = None
        self.fields = fields
        """The parts of a tuple, as long as they are told apart."""
        self.held: list[Node] = []
        """What was put into it, as long as nothing is taken out of it."""
        self.named: dict[str, Node] = {}
        """Its parts under literal keys, as long as these are all that is taken out of it or put into it."""
        self.is_object = False
        """Whether a class of the program makes it, which says what its methods do."""
        self.fills_itself = False
        """Whether it may be a defaultdict, which puts an item where one is looked for."""


_MOST_APART: Final = 16
"""How many objects that are put into one are told apart."""


def find(node: Node) -> Node:
    """The node that stands for all that were merged with this one."""
    while (above := node.parent) is not None:
        if above.parent is not None:
            node.parent = above.parent  # halves the way for the next one that asks
        node = above
    return node


def merge(left: Node, right: Node) -> Node:
    """Let two nodes be one object."""
    first, second = find(left), find(right)
    if first is second:
        return first
    if _is_blank(first):  # what is known of the other one keeps its node
        first, second = second, first
    second.parent = first
    first.held += second.held
    first.is_object |= second.is_object
    first.fills_itself |= second.fills_itself
    if first.named or second.named:
        _merge_named(first, second)
        first = find(first)
        if second.fields is None and second.content is None:
            return first
    if first.fields is None and first.content is None:
        first.fields, first.content = second.fields, second.content
        return first
    if second.fields is None and second.content is None:
        return first
    if first.fields is not None and second.fields is not None and len(first.fields) == len(second.fields):
        for one, other in zip(first.fields, second.fields, strict=True):
            merge(one, other)
        return find(first)
    parts = [*(first.fields or ()), *(second.fields or ())]
    first.fields = None
    if first.content is None:
        first.content = second.content
    elif second.content is not None:
        merge(first.content, second.content)
    for one in parts:
        merge(inside(first), one)
    return find(first)


def _is_blank(node: Node) -> bool:
    """Whether nothing is known of an object, as of one that an expression has just made."""
    has_parts = node.fields is not None or node.content is not None or node.held or node.named
    return not (has_parts or node.is_object or node.fills_itself)


def _merge_named(first: Node, second: Node) -> None:
    """Let two objects be one, of which one at least has parts under names."""
    has_others = any(one.fields is not None or one.content is not None or one.held for one in (first, second))
    parts = [*first.named.items(), *second.named.items()]
    first.named, second.named = {}, {}
    if has_others:
        for _, one in parts:
            merge(inside(first), one)
        return
    for name, one in parts:
        known = first.named.get(name)
        if known is None:
            first.named[name] = one
        else:
            merge(known, one)


def named_part(node: Node, name: str) -> Node:
    """The object in another one under a literal key."""
    top = find(node)
    if top.fields is not None or top.content is not None or top.held:
        return inside(top)
    return find(top.named.setdefault(name, Node()))


def inside(node: Node) -> Node:
    """The objects inside one."""
    top = find(node)
    while top.named:
        _, one = top.named.popitem()
        if top.content is None:
            top.content = Node()
        merge(top.content, one)
        top = find(top)
    if top.fields is not None:
        parts, top.fields = top.fields, None
        for one in parts:
            merge(inside(top), one)
        return inside(top)
    if top.content is None:
        top.content = Node()
    while top.held:
        merge(top.content, top.held.pop())
        top = find(top)
        if top.content is None:
            return inside(top)
    return find(top.content)


def put(node: Node, value: Node) -> None:
    """Note that an object is put into another one."""
    top = find(node)
    if top.named:
        inside(top)
        top = find(top)
    if any(find(one) is find(value) for one in top.held):
        return
    if len(top.held) == _MOST_APART:
        top.held = list(dict.fromkeys(map(find, top.held)))
    if len(top.held) == _MOST_APART:
        merge(top.held[-1], value)
    else:
        top.held.append(value)


def chain(node: Node, without: Container[Node] = frozenset()) -> list[Node]:
    """A node and all that is inside it; what is only inside of those `without` is left out, and these."""
    made: dict[Node, None] = {}
    _is_found(node, frozenset(), made, without)
    return list(made)


def holds(node: Node, wanted: Set[Node]) -> bool:
    """Whether a node is one of these, or has one of them inside it."""
    return _is_found(node, wanted, {})


def holding(nodes: Iterable[tuple[str, Node]], wanted: frozenset[Node]) -> set[str]:
    """The names whose nodes are one of these, or have one of them inside; each node is looked at once."""
    found: set[str] = set()
    known = set(wanted)
    without: dict[Node, None] = {}
    for name, node in nodes if wanted else ():
        top = find(node)
        if top in known:
            found.add(name)
        elif top not in without:
            made: dict[Node, None] = {}
            if _is_found(top, known, made, without):
                found.add(name)
                known.add(top)
            else:
                without |= made
    return found


def _is_found(
    node: Node, wanted: Set[Node], made: dict[Node, None], without: Container[Node] = frozenset()
) -> bool:
    """Whether a wanted node is this one or inside it; `made` gets those that were looked at.

    It stops at the first that is wanted, and does not look at those that are known to be `without` one.
    """
    todo = [node]
    while todo:
        at = find(todo.pop())
        if at in made or at in without:
            continue
        made[at] = None
        if at in wanted:
            return True
        if at.fields:
            todo += at.fields
        if at.held:
            todo += at.held
        if at.named:
            todo += at.named.values()
        if at.content is not None:
            todo.append(at.content)
    return False


def holds_itself(node: Node) -> bool:
    """Whether an object may be inside another one that the same node stands for."""
    top = find(node)
    around = Node(top.fields)
    around.held, around.named, around.content = top.held, top.named, top.content
    return holds(around, {top})


class Shape(NamedTuple):
    """How the objects that a function is given and gives are one another, or in one another, when it ends.

    `roots` are its parameters and the variables around it, by their names; `results` what it may return;
    `changed` what it changes; `doubled` what may be in one container more than once.
    """

    roots: tuple[tuple[str, Node], ...]
    results: tuple[Node, ...]
    changed: tuple[Node, ...]
    doubled: tuple[Node, ...]


NOTHING_SHARED: Final = Shape((), (), (), ())


def form_of(shape: Shape) -> Hashable:
    """What is the same for shapes that share in the same way: their objects by numbers, in order."""
    tops = [
        *(one for _, one in shape.roots),
        *(one for part in (shape.results, shape.changed, shape.doubled) for one in part),
    ]
    found = list(dict.fromkeys(each for one in tops for each in chain(one)))
    number = {one: at for at, one in enumerate(found)}

    def numbers(nodes: Iterable[Node]) -> tuple[int, ...]:
        return tuple(number[find(one)] for one in nodes)

    inner = tuple(
        (
            None if one.fields is None else numbers(one.fields),
            numbers(one.held),
            tuple(zip(one.named, numbers(one.named.values()), strict=True)),
            None if one.content is None else number[find(one.content)],
            one.is_object,
            one.fills_itself,
        )
        for one in found
    )
    names = tuple(name for name, _ in shape.roots)
    parts = (numbers(one) for one in (shape.results, shape.changed, shape.doubled))
    return names, numbers(one for _, one in shape.roots), *parts, inner


Pairs: TypeAlias = "Sequence[tuple[Node, Node]]"
"""Objects of a function, each with the one of its caller that it is."""


def transfer(pairs: Pairs, doubled: Iterable[Node]) -> list[Node]:
    """Let objects of a caller share what those of a function share.

    Gives the objects of the caller that one container may hold more than once.
    """
    seen: dict[Node, set[Node]] = {}
    for inner, outer in pairs:
        for one in chain(inner):
            seen.setdefault(one, set()).add(find(outer))
    twice = {find(one) for one in doubled}
    wanted = frozenset(one for one, outer in seen.items() if len(outer) > 1 or one in twice)
    known = _matched(pairs, wanted, puts=True)
    return [known[one] for one in twice if one in known]


def counterparts(pairs: Pairs, wanted: Iterable[Node]) -> list[Node]:
    """The objects of a caller that some of a function are, but for those that the function puts into them."""
    among = frozenset(map(find, wanted))
    known = _matched(pairs, among, puts=False)
    return [find(known[one]) for one in among if one in known]


def _matched(pairs: Pairs, wanted: frozenset[Node], *, puts: bool) -> dict[Node, Node]:
    """The objects of a caller by those of the function, on all ways to the wanted ones.

    With `puts`, what the function puts into an object is put into that of the caller.
    """
    known: dict[Node, Node] = {}
    todo = [(inner, outer) for inner, outer in pairs if wanted and holds(inner, wanted)]
    while todo:
        inner, outer = find(todo[-1][0]), todo.pop()[1]
        if inner in known:
            merge(known[inner], outer)
            continue
        known[inner] = outer
        for one in inner.held if puts else ():
            if holds(one, wanted):
                held = known.get(find(one)) or Node()
                put(outer, held)
                todo.append((one, held))
        parts: list[tuple[Node, Callable[[Node], Node]]] = [
            (one, partial(named_part, name=name)) for name, one in inner.named.items()
        ]
        parts += [(one, partial(_field, number=at)) for at, one in enumerate(inner.fields or ())]
        parts += [] if inner.content is None else [(inner.content, inside)]
        todo += [(one, part(outer)) for one, part in parts if holds(one, wanted)]
    return known


def _field(node: Node, number: int) -> Node:
    """A part of a tuple, or all that is inside it if its parts are not told apart."""
    fields = find(node).fields
    return fields[number] if fields is not None and number < len(fields) else inside(node)
