"""Renders the differences between two plans with blocks: as lines, and as data.

In: a `TreeDiff`. Out: declarations and statements in the order of the new plan, each with the statement that
it stands in; in LTP text, or in Python if both plans are written in it. Invisible characters are escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeGuard

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.structured import format_structured
from callsheet.ir import tree, types
from callsheet.ir.diff import PartChange, Piece, PieceDiff, TreeDiff
from callsheet.ir.diff.matching import renamings_of
from callsheet.ir.diff.tree_differ import Declared
from callsheet.ir.tree_edits import plan_of_tree
from callsheet.views.columns import cut, escaped
from callsheet.views.describe import LTP, Wording, wording_of
from callsheet.views.diff_lines import Page, kinds_of, lines_of
from callsheet.views.statements import describe_recovery

_TYPES = types.Basic | types.ListOf | types.DictOf | types.OneOf | types.Maybe | types.Named | types.Record
_MOST_ID = 40
_BLOCKS = {"branch": "ELSE IF", "else": "ELSE", "handler": "ON_FAIL", "finally": "FINALLY"}
_IN_PYTHON = {"branch": "elif", "else": "else", "handler": "except", "finally": "finally"}


class Side(NamedTuple):
    """One of two plans: its pieces, and how they are worded."""

    pieces: Sequence[Piece]
    words: Wording


def sides_of(diff: TreeDiff) -> tuple[Side, Side]:
    """Returns the old and the new plan; both are worded in LTP unless both are written in Python."""
    is_python = diff.old.in_python and diff.new.in_python
    old, new = (wording_of(plan) if is_python else LTP for plan in (diff.old, diff.new))
    return Side(diff.old_pieces, old), Side(diff.new_pieces, new)


class TreePage(Page):
    """Renders one difference as lines."""

    def __init__(self, diff: TreeDiff, ansi: bool, columns: int) -> None:
        super().__init__(diff, ansi, columns)
        self._diff = diff
        self._old, self._new = sides_of(diff)

    def head(self) -> Iterator[str]:
        """Yields the changes of the head and the renamings."""
        yield from super().head()
        yield from self._renamings()

    def _renamings(self) -> Iterator[str]:
        """Yields the renamings; a run of shifted numbers is one line."""
        pairs = [step for step in self._diff.steps if step.old and step.new and step.old.id and step.new.id]
        pairs.sort(key=lambda one: one.old_index or 0)
        rows = (
            (number, number, step.old.id, step.new.id)
            for number, step in enumerate(pairs)
            if step.old is not None and step.new is not None
        )
        for run in renamings_of(rows):
            first, last = pairs[run[0]], pairs[run[-1]]
            was, now = self._old.words, self._new.words
            spans = (name_of(first.old, was), name_of(first.new, now))
            if len(run) > 1:
                spans = (f"{spans[0]}–{name_of(last.old, was)}", f"{spans[1]}–{name_of(last.new, now)}")
            yield self.coloured("=", f"= {spans[0]} renamed to {spans[1]}")

    def step(self, step: PieceDiff) -> Iterator[str]:
        """Yields what differs in a declaration or statement; nothing if it is the same."""
        if step.old is None and step.new is not None:
            yield from self._whole("+", step.new, self._new)
        elif step.new is None and step.old is not None:
            yield from self._whole("-", step.old, self._old)
        elif step.new is not None and step.old is not None:
            if step.changes or step.moved:
                sign = "~" if step.changes else ">"
                text = f"{sign} {head_of(step.new, self._new.words)}"
                text += f"  moved: {self._place(step)}" if step.moved else self._within(step.new)
                yield self.coloured(sign, text)
            elif step.is_renamed and not (step.old.id and step.new.id):
                yield self.coloured("~", f"~ {head_of(step.new, self._new.words)}{self._within(step.new)}")
            for label, old, new in changes_of(step, self._old.words, self._new.words):
                yield from self.changed(label, old, new, indent="    ")

    def _whole(self, sign: str, piece: Piece, side: Side) -> Iterator[str]:
        yield from self.whole(sign, spelled_piece(piece, side.words), place_words(piece, side))

    def _within(self, piece: Piece) -> str:
        within = place_words(piece, self._new)
        return f"  [in {within}]" if within else ""

    def _place(self, step: PieceDiff) -> str:
        now = _behind(step.new_index, self._new)
        was = _behind(step.old_index, self._old)
        return f"{now}, was {was}"


def head_of(piece: Piece, words: Wording) -> str:
    """Returns what identifies a piece in a line: its id and its word, or what it does."""
    match piece.node:
        case tree.Input(name=name):
            return escaped(words.given(name))
        case tree.SubPlan(name=name):
            return escaped(words.function(name))
        case node if _is_statement(node) and piece.kind != "RESULT":
            said = words.word(node) if piece.id else words.statement(node)
            return f"{_id(piece)}  {escaped(said)}" if piece.id else escaped(said)
        case _:
            return escaped(_declared(piece, words))


def _declared(piece: Piece, words: Wording) -> str:
    """How a type, or the type of the result, is declared."""
    if piece.kind == "TYPE":
        return f"{'TYPE' if words is LTP else 'class'} {piece.id}"
    return piece.kind if words is LTP else "returns"


def name_of(piece: Piece | None, words: Wording) -> str:
    """Returns the id of a piece, or the name of an input as its plan writes it."""
    if piece is not None and isinstance(piece.node, tree.Input):
        return cut(escaped(words.variable(piece.node.name)), _MOST_ID)
    return _id(piece)


def noun_of(piece: Piece, words: Wording) -> str:
    """Returns what to call a piece in a sentence: by its id or its word, in Python by how it is written."""
    if piece.is_statement and piece.id:
        return f"step {piece.id}"
    if words is not LTP:
        return cut(head_of(piece, words), _MOST_ID)
    return piece.id or f"a {piece.kind}"


def _is_statement(node: Declared) -> TypeGuard[tree.Statement]:
    return not isinstance(node, tree.Input | tree.SubPlan | _TYPES)


def _id(piece: Piece | None) -> str:
    return cut(" ".join(lines_of(piece.id)), _MOST_ID) if piece is not None else ""


def place_words(piece: Piece, side: Side) -> str:
    """Returns the statements and the block that a piece stands in; "" at the top of the plan.

    The word of a block is left out where a statement has only one.
    """
    found: list[str] = []
    while piece.within >= 0:
        around = side.pieces[piece.within]
        names = _BLOCKS if side.words is LTP else _IN_PYTHON
        block = names.get(piece.block.word, "") if piece.block != ("branch", 0) else ""
        name = cut(head_of(around, side.words), _MOST_ID) if around.kind == "PLAN" else _id(around)
        kind = side.words.word(around.node) if _is_statement(around.node) else around.kind
        found.append(f"{name or escaped(kind)} {block}".strip())
        piece = around
    return " › ".join(reversed(found))


def _behind(index: int | None, side: Side) -> str:
    """Returns where a piece stands, in words."""
    if index is None:
        return ""
    piece = side.pieces[index]
    siblings = (
        one
        for one in reversed(side.pieces[:index])
        if one.within == piece.within and one.block == piece.block
    )
    before = next((one for one in siblings if piece.within >= 0 or _is_statement(one.node)), None)
    within = place_words(piece, side)
    said = "" if before is None else _id(before) or cut(head_of(before, side.words), _MOST_ID)
    after = "at the beginning" if before is None else f"after {said}"
    return (
        f"{after} of {within}" if within and before is None else f"{after} in {within}" if within else after
    )


# ------------------------------------------------------------------ spelling


def spelled_piece(piece: Piece, words: Wording) -> tuple[str, ...]:
    """Returns the lines of a declaration or a statement, without what is inside its blocks."""
    node = piece.node
    if words is not LTP and (isinstance(node, tree.Input | tree.SubPlan) or _is_statement(node)):
        return tuple(escaped(line) for line in _in_python(piece, words))
    match node:
        case tree.Input():
            made = tree.Tree((), (replace(node, help=None, comments=()),))
        case tree.SubPlan():
            made = None
        case _ if _is_statement(node):
            made = tree.Tree((_alone(node),)) if next(tree.inner_blocks(node), None) is None else None
        case _:
            made = None
    if made is not None:
        try:
            lines = format_structured(plan_of_tree(made)).rstrip("\n").split("\n")[1:]
        except CallsheetError:
            lines = []
        if lines:
            return tuple(escaped(line) for line in lines)
    if isinstance(node, tree.SubPlan):
        given = ", ".join(f"${one.name}: {types.type_text(one.type)}" for one in node.inputs)
        result = "" if node.result is None else f" -> {types.type_text(node.result)}"
        origin = "" if node.origin is None else f"  FROM {node.origin.reference}"
        return (escaped(f"PLAN {node.name} ({given}){result}{origin}"),)
    if _is_statement(node):
        label = f"{piece.id}: " if piece.id else ""
        return (escaped(f"{label}{words.statement(node)}"),)
    name = _declared(piece, words) + (" = " if piece.kind == "TYPE" else " ")
    return (escaped(name + "".join(" ".join(_spelled(part, words)) for part in piece.parts.values())),)


def _in_python(piece: Piece, words: Wording) -> Iterator[str]:
    match piece.node:
        case tree.Input(name=name, type=kind, is_required=is_required, default=default):
            yield f"{words.given(name)}: {types.type_text(kind)}" + ("" if is_required else f" = {default!r}")
        case tree.SubPlan(name=name, inputs=inputs):
            yield words.function(name, [one.name for one in inputs])
        case tree.Compute() as node:
            yield f"{piece.id}:"
            yield from (f"  {line}" for line in words.code(node.source).strip("\n").split("\n"))
        case node:
            assert _is_statement(node)
            yield (f"{piece.id}: " if piece.id else "") + words.statement(node)


def _alone(node: tree.Statement) -> tree.Statement:
    bare = replace(node, comments=(), remark=None)
    return replace(bare, title=None) if isinstance(bare, tree.Act) else bare


def changes_of(
    step: PieceDiff, was: Wording, now: Wording
) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Yields the changed parts of a pair: their labels, and the lines of both sides."""
    if (
        step.old is not None
        and step.new is not None
        and step.is_renamed
        and not (step.old.id and step.new.id)
    ):
        yield "id", tuple(filter(None, (_id(step.old),))), tuple(filter(None, (_id(step.new),)))
    for change in step.changes:
        old, new = _spelled_in(change.part, change.old, was), _spelled_in(change.part, change.new, now)
        yield _label(change, was if change.new is None else now), old, new


def _spelled_in(name: str, part: Any, words: Wording) -> tuple[str, ...]:
    match name, part:
        case "source", str():
            return lines_of(words.code(part))
        case "on_fail block", str() if words is not LTP:
            kinds = part.partition(" AS ")[0]
            return lines_of(words.failure(() if kinds == "any kind" else kinds.split(", ")))
        case _:
            return _spelled(part, words)


def _label(change: PartChange, words: Wording) -> str:
    match change.part, change.name:
        case "argument", str(name):
            return cut(escaped(name), 60)
        case "on_fail", _:
            return "ON_FAIL"
        case "on_fail block", _:
            return "ON_FAIL block" if words is LTP else "except"
        case "finally" | "else", _:
            return words.part(change.part.upper()).removesuffix(":")
        case "input", str(name):
            return cut(escaped(words.variable(name)), 60)
        case part, None:
            return part
        case part, name:
            return f"{part} {name}"


def _spelled(part: Any, words: Wording) -> tuple[str, ...]:  # noqa: PLR0911 - a case for each kind of part
    match part:
        case None:
            return ()
        case str() if part.startswith("$"):
            return lines_of(words.variable(part[1:]))
        case str():
            return lines_of(str(part))
        case bool() | int() | float() | list() | dict():
            return lines_of(json.dumps(part, ensure_ascii=False))
        case tuple():
            return (escaped(", ".join(f"{one}" for one in part)) or "nothing",)  # pyright: ignore[reportUnknownVariableType]
        case tree.Again(count=count, delay=delay, backoff=backoff):
            options = {"delay": delay, "backoff": backoff}
            given = [f"{name}={value!r}" for name, value in options.items() if value is not None]
            return (f"@RETRY({', '.join([str(count), *given])})",)
        case tree.GoOn() | tree.Skip() | tree.Use() | tree.Leave():
            return lines_of(describe_recovery(tree.Recovery(remedy=part)))
        case tree.Input(type=kind, is_required=is_required, default=default):
            after = "" if is_required else f" = {json.dumps(default, ensure_ascii=False)}"
            return (escaped(types.type_text(kind) + after),)
        case tree.Origin(reference=reference):
            return (escaped(reference),)
        case types.ListOf() | types.DictOf() | types.OneOf() | types.Maybe() | types.Record() | types.Named():
            return (escaped(types.type_text(part)),)
        case _:
            try:
                return lines_of(words.node(part))
            except ValueError:
                return (escaped(repr(part)),)


# ------------------------------------------------------------------ data


def piece_diff_json(step: PieceDiff, sides: tuple[Side, Side]) -> dict[str, Any]:
    """Returns one difference as data, of the same form as that of a step of version 1, with `within`."""
    out: dict[str, Any] = {"kinds": kinds_of(step)}
    old, new = sides
    both = (
        ("old", step.old, step.old_index, old, step.is_removed),
        ("new", step.new, step.new_index, new, step.is_added),
    )
    for name, piece, index, side, is_whole in both:
        if piece is None or index is None:
            continue
        out[name] = {"id": piece.id or None, "number": index + 1, "kind": piece.kind}
        out[name]["within"] = place_words(piece, side) or None
        if is_whole:
            out[name]["text"] = "\n".join(spelled_piece(piece, side.words))
    changes = [
        {"part": change.part}
        | ({} if change.name is None else {"name": change.name})
        | {
            "old": "\n".join(_spelled_in(change.part, change.old, old.words)) or None,
            "new": "\n".join(_spelled_in(change.part, change.new, new.words)) or None,
        }
        for change in step.changes
    ]
    if changes:
        out["changes"] = changes
    return out
