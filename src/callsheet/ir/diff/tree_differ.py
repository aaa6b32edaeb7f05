"""Computes the diff of two plans with blocks: declarations and statements matched by content, part by part.

A statement is compared without the statements inside its blocks, which are compared on their own; where one
stands (in which block, behind what) is a move if it differs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, assert_never

from callsheet.ir import tree
from callsheet.ir.diff.differ import Diff, Pair, head_changes, in_order
from callsheet.ir.diff.matching import (
    Matching,
    StepKey,
    encode,
    is_number,
    pair_alike,
    pair_equal_content,
    pair_in_place,
    staying,
)
from callsheet.ir.plan import Plan
from callsheet.ir.tree_codec import node_to_json
from callsheet.ir.types import Record, Type

Declared: TypeAlias = "tree.Statement | tree.Input | tree.SubPlan | Record | Type"
Label: TypeAlias = "tuple[str, str | int | None]"
"""What a part is, and the name or number of an argument or another part of which there are several."""


class Block(NamedTuple):
    """Which block of a statement: `body`, `branch`, `else`, `handler` or `finally`, and its number."""

    word: str
    number: int = 0


_BODY = Block("body")
DECLARATIONS = frozenset({"TYPE", "INPUT", "RESULT", "PLAN"})
"""The kinds of pieces that are no statements."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A declaration or a statement of a plan, apart from what is inside its blocks.

    `id` is the written id, or the name of an input, a type or a sub-plan; "" if there is none. `within` is
    the number of the piece around it, -1 at the top.
    """

    id: str
    kind: str
    node: Declared
    parts: dict[Label, Any]
    within: int = -1
    block: Block = _BODY

    @property
    def is_statement(self) -> bool:
        """Whether it is a statement, and no declaration."""
        return self.kind not in DECLARATIONS


@dataclass(frozen=True, slots=True)
class PartChange:
    """A changed part of a piece: a value, a type, a text; None where it is absent."""

    part: str
    old: Any
    new: Any
    name: str | int | None = None


@dataclass(frozen=True, slots=True)
class PieceDiff(Pair[Piece, PartChange]):
    """A pair of matched pieces, or an added or removed one."""


@dataclass(frozen=True, slots=True)
class TreeDiff(Diff[PieceDiff]):
    """The diff of two plans with blocks; `old_pieces` and `new_pieces` are those of each, by number."""

    old_pieces: tuple[Piece, ...]
    new_pieces: tuple[Piece, ...]


# ------------------------------------------------------------------ the pieces of a plan


def pieces_of(plan: tree.Tree) -> tuple[Piece, ...]:
    """The declarations and statements of a plan in the order of the text, each before what is inside it."""
    found: list[Piece] = []
    for name, record in plan.types:
        found.append(Piece(name, "TYPE", record, {("fields", None): record}))
    for given in plan.inputs:
        found.append(Piece(f"${given.name}", "INPUT", given, dict(_of_input(given))))
    if plan.result is not None:
        found.append(Piece("RESULT", "RESULT", plan.result, {("type", None): plan.result}))
    for one in plan.plans:
        parts: dict[Label, Any] = {("input", given.name): _bare(given) for given in one.inputs}
        parts |= {("result", None): one.result, ("origin", None): one.origin}
        parts[("order", None)] = tuple(given.name for given in one.inputs)
        found.append(Piece(one.name, "PLAN", one, _given(parts)))
        _add_block(found, one.body, len(found) - 1, _BODY)
    _add_block(found, plan.body, -1, _BODY)
    return tuple(found)


def _of_input(one: tree.Input) -> Iterator[tuple[Label, Any]]:
    yield ("type", None), one.type
    if not one.is_required:
        yield ("default", None), encode(one.default)
    if one.is_secret:
        yield ("secret", None), "SECRET"


def _bare(one: tree.Input) -> tree.Input:
    return replace(one, help=None, comments=(), span=None)


def _given(parts: dict[Label, Any]) -> dict[Label, Any]:
    return {label: part for label, part in parts.items() if part is not None and part != ()}


def _add_block(found: list[Piece], block: tree.Block, within: int, of: Block) -> None:
    for one in block:
        place = len(found)
        found.append(Piece(_written_id(one), kind_of(one), one, _given(dict(_parts(one))), within, of))
        for name, inner in _blocks(one):
            _add_block(found, inner, place, name)


def _written_id(one: tree.Statement) -> str:
    if isinstance(one, tree.Let | tree.Assign | tree.Require) or not one.is_named:
        return ""
    return one.id


def kind_of(one: tree.Statement) -> str:
    """The tool that a statement calls, or its word."""
    match one:
        case tree.Act(tool=tool):
            return f"@{tool}"
        case tree.Say(word=word):
            return word.value
        case _:
            return _WORDS[type(one)]


_WORDS: dict[type, str] = {
    tree.Invoke: "CALL",
    tree.Compute: "COMPUTE",
    tree.Let: "LET",
    tree.Assign: "SET",
    tree.Require: "REQUIRE",
    tree.If: "?IF",
    tree.Foreach: "?FOREACH",
    tree.Repeat: "?REPEAT",
    tree.Try: "TRY",
    tree.Parallel: "@PARALLEL",
}


def _blocks(one: tree.Statement) -> Iterator[tuple[Block, tree.Block]]:
    match one:
        case tree.If(branches=branches, otherwise=otherwise):
            for number, branch in enumerate(branches):
                yield Block("branch", number), branch.body
            if otherwise is not None:
                yield Block("else"), otherwise
        case _:
            for block in tree.own_blocks(one):
                yield _BODY, block
    recovery = tree.recovery_of(one)
    if recovery is not None:
        for number, handler in enumerate(recovery.handlers):
            yield Block("handler", number), handler.body
        if recovery.final is not None:
            yield Block("finally"), recovery.final


def _parts(one: tree.Statement) -> Iterator[tuple[Label, Any]]:  # noqa: PLR0912 - a case for each
    match one:
        case tree.Act(positional=positional, named=named, into=into, title=title):
            yield from _arguments(positional, named)
            yield from _output(into)
            yield ("title", None), title
        case tree.Invoke(plan=plan, named=named, into=into):
            yield ("plan", None), plan
            yield from _arguments((), named)
            yield from _output(into)
        case tree.Compute(source=source, names=names, into=made):
            yield ("source", None), source
            yield ("reads", None), names
            yield ("output", None), made
        case tree.Let(name=name, value=value, type=kind):
            yield from ((("variable", None), name), (("value", None), value), (("type", None), kind))
        case tree.Assign(name=name, value=value):
            yield from ((("variable", None), name), (("value", None), value))
        case tree.Require(condition=condition, message=message):
            yield from ((("condition", None), condition), (("message", None), message))
        case tree.Say(values=values, kind=kind):
            yield from _arguments(values, ())
            yield ("kind", None), kind
        case tree.If(branches=branches, otherwise=otherwise):
            for number, branch in enumerate(branches):
                yield ("condition", number + 1 if number else None), branch.condition
            yield ("else", None), None if otherwise is None else "ELSE"
        case tree.Foreach():
            yield from ((("loop variable", None), one.var), (("loop source", None), one.source))
            yield ("limit", None), one.limit
            yield ("schedule", None), one.order or None
            yield from _output(one.into)
        case tree.Repeat(most=most, every=every, until=until, while_=while_):
            yield from ((("max", None), most or "run"), (("every", None), every))
            yield from ((("until", None), until), (("while", None), while_))
        case tree.Try(within=within):
            yield ("within", None), within
        case tree.Parallel(stops=stops):
            yield ("schedule", None), "STOP" if stops else None
        case _:
            assert_never(one)
    recovery = tree.recovery_of(one)
    if recovery is not None:
        yield from _handling(recovery)


def _arguments(
    positional: tuple[Any, ...], named: tuple[tuple[str, Any], ...]
) -> Iterator[tuple[Label, Any]]:
    yield from ((("argument", number), value) for number, value in enumerate(positional, 1))
    yield from ((("argument", name), value) for name, value in named)
    yield ("argument order", None), tuple(name for name, _ in named) if len(named) > 1 else None


def _output(into: tree.Into | None) -> Iterator[tuple[Label, Any]]:
    if into is not None:
        yield ("output", None), f"${into.name}"
        yield ("cast", None), into.type


def _handling(recovery: tree.Recovery) -> Iterator[tuple[Label, Any]]:
    yield ("retry", None), recovery.again
    yield ("on_fail", None), recovery.remedy
    for number, handler in enumerate(recovery.handlers, 1):
        kinds = ", ".join(handler.kinds) or "any kind"
        bound = "" if handler.binds == "error" else f" AS ${handler.binds}"
        yield ("on_fail block", number if number > 1 else None), kinds + bound
    yield ("finally", None), None if recovery.final is None else "FINALLY"


# ------------------------------------------------------------------ matching


def _key(part: Any) -> str:
    return encode([type(part).__name__, node_to_json(part)])


def _features(piece: Piece) -> frozenset[str]:
    own = {f"{label} {_key(part)}" for label, part in piece.parts.items() if label[0] != "argument order"}
    return frozenset({f"do {piece.kind}", *own})


def _keys(pieces: tuple[Piece, ...]) -> list[StepKey]:
    return [
        StepKey(encode([one.kind, [[*label, _key(part)] for label, part in one.parts.items()]]), one.kind)
        for one in pieces
    ]


def _match(old: tuple[Piece, ...], new: tuple[Piece, ...]) -> Matching[Piece]:
    matching = Matching(old, new, _keys(old), _keys(new), _features)
    names = {one.id for one in new if one.id and not is_number(one.id)}
    matching.pair_equal(
        lambda i: (old[i].id, old[i].kind) if old[i].id in names else None, lambda j: (new[j].id, new[j].kind)
    )
    known: dict[tuple[int, Block, str], int] = {}
    around = [
        _contexts(side, keys, known) for side, keys in ((old, matching.old_keys), (new, matching.new_keys))
    ]
    matching.pair_equal(lambda i: around[0][i], lambda j: around[1][j])
    _pair_inside(matching)
    _pair_unique(matching)
    _pair_numbered(matching)
    pair_alike(matching)
    _pair_inside(matching)
    pair_equal_content(matching)
    pair_in_place(matching)
    return matching


def _contexts(pieces: tuple[Piece, ...], keys: Any, known: dict[tuple[int, Block, str], int]) -> list[int]:
    """A number for the content of each piece with that of what is around it; `known` is shared by plans."""
    made: list[int] = []
    for piece, key in zip(pieces, keys, strict=True):
        above = made[piece.within] if piece.within >= 0 else -1
        made.append(known.setdefault((above, piece.block, key.content), len(known)))
    return made


def _pair_inside(matching: Matching[Piece]) -> None:
    """Pairs equal content in the blocks of pairs, outer ones first."""
    inside: defaultdict[tuple[int, Block, str], list[int]] = defaultdict(list)
    for j in reversed(matching.left_new()):
        piece = matching.new[j]
        inside[piece.within, piece.block, matching.new_keys[j].content].append(j)
    for i in matching.left_old():
        piece = matching.old[i]
        within = matching.partner.get(piece.within, -2) if piece.within >= 0 else -1
        same = inside.get((within, piece.block, matching.old_keys[i].content))
        if same:
            matching.pair(i, same.pop())


def _pair_unique(matching: Matching[Piece]) -> None:
    """Pairs content that stands once on each side, wherever that is."""
    olds = Counter(matching.old_keys[i].content for i in matching.left_old())
    news = Counter(matching.new_keys[j].content for j in matching.left_new())
    once = {content for content, count in olds.items() if count == 1 and news[content] == 1}

    def name(i: int) -> str | None:
        content = matching.old_keys[i].content
        return content if content in once else None

    matching.pair_equal(name, lambda j: matching.new_keys[j].content)


def _pair_numbered(matching: Matching[Piece]) -> None:
    """Pairs statements that keep their number and kind while their content changes."""
    matching.pair_equal(
        lambda i: (matching.old[i].id or None, matching.old_keys[i].kind) if matching.old[i].id else None,
        lambda j: (matching.new[j].id, matching.new_keys[j].kind),
    )


# ------------------------------------------------------------------ the differences


def diff_trees(old: Plan, new: Plan) -> TreeDiff:
    """The differences between two plans with blocks. Raises ValueError for a plan without."""
    if old.tree is None or new.tree is None:
        raise ValueError("a plan without blocks")
    was, now = pieces_of(old.tree), pieces_of(new.tree)
    matching = _match(was, now)
    moved = _moved(matching)
    sides = {
        j: PieceDiff(was[i], now[j], i, j, tuple(_changes(was[i], now[j])), i in moved)
        for i, j in matching.partner.items()
    }
    head = tuple(head_changes(old, new))
    return TreeDiff(old, new, head, tuple(in_order(matching, sides, PieceDiff)), was, now)


def _changes(old: Piece, new: Piece) -> Iterator[PartChange]:
    if old.kind != new.kind:
        yield PartChange("kind of statement", old.kind, new.kind)
    for label in dict.fromkeys((*old.parts, *new.parts)):
        was, now = old.parts.get(label), new.parts.get(label)
        if label[0] in {"argument order", "order"}:
            if not _is_reordered(was, now):
                continue
        elif _key(was) == _key(now):
            continue
        yield PartChange(label[0], was, now, label[1])


def _is_reordered(old: tuple[str, ...] | None, new: tuple[str, ...] | None) -> bool:
    """Whether the names that both have stand in another order, or new ones before old ones."""
    was, now = old or (), new or ()
    common = [name for name in was if name in now]
    return bool(now) and [*common, *(name for name in now if name not in was)] != [*now]


def _moved(matching: Matching[Piece]) -> set[int]:
    """The old numbers of the pairs that stand in another block, or behind others in the same one."""
    moved: set[int] = set()
    inside: defaultdict[tuple[int, Block], list[tuple[int, int]]] = defaultdict(list)
    for i, j in sorted(matching.partner.items(), key=lambda pair: pair[1]):
        old, new = matching.old[i], matching.new[j]
        within = matching.partner.get(old.within, -2) if old.within >= 0 else -1
        if (within, old.block) != (new.within, new.block):
            moved.add(i)
        else:
            inside[new.within, new.block].append((i, j))
    for pairs in inside.values():
        stay = staying([i for i, _ in pairs])
        moved |= {i for position, (i, _) in enumerate(pairs) if position not in stay}
    return moved
