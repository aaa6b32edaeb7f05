"""Ids for the statements of a tree that has none written, from the words for them and their numbers."""

from __future__ import annotations

from dataclasses import replace

from callsheet.ir.sagas import with_undo_block
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Compute,
    Foreach,
    If,
    Invoke,
    Let,
    Parallel,
    Repeat,
    Require,
    Say,
    Statement,
    Tree,
    Try,
    all_statements,
    inner_blocks,
    is_single,
)
from callsheet.ir.tree_edits import map_blocks


def with_ids(tree: Tree) -> Tree:
    """The plan with an id for each statement that has none, unique in the plan.

    A statement without a written id is named after the one around it, as in `S2.let1`: by the word for its
    kind and its number among those of this kind. Sub-plans give their name in front.
    """
    taken = {one.id: 0 for one in all_statements(tree) if one.id}
    if not tree.plans and all(one.id and is_single(one) for one in tree.body):
        return tree
    plans = tuple(replace(one, body=_named_block(one.body, one.name, taken)) for one in tree.plans)
    return replace(tree, body=_named_block(tree.body, "", taken), plans=plans)


_WORDS: dict[type, str] = {
    Act: "call",
    Invoke: "plan",
    Compute: "compute",
    Let: "let",
    Assign: "set",
    Require: "require",
    If: "if",
    Foreach: "foreach",
    Repeat: "repeat",
    Try: "try",
    Parallel: "parallel",
}


def _word(statement: Statement) -> str:
    if isinstance(statement, Say):
        return statement.word.value.removeprefix("@").replace("-", "").lower()
    return _WORDS[type(statement)]


def _named_block(block: Block, around: str, taken: dict[str, int]) -> Block:
    return tuple(
        [one if one.id and is_single(one) else _named_statement(one, around, taken) for one in block]
    )


def _named_statement(statement: Statement, around: str, taken: dict[str, int]) -> Statement:
    """`taken` has the ids there are, and for each stem of made ones the last number."""
    own = statement.id
    if not own:
        stem = f"{around}.{_word(statement)}" if around else _word(statement)
        number = taken.get(stem, 0) + 1
        while (own := f"{stem}{number}") in taken:
            number += 1
        taken[stem] = number
        taken.setdefault(own, 0)
    return _with_inner(statement, own, taken)


def _with_inner(statement: Statement, own: str, taken: dict[str, int]) -> Statement:
    if own == statement.id and next(inner_blocks(statement), None) is None:
        return statement

    def inner(block: Block) -> Block:
        return _named_block(block, own, taken)

    made = map_blocks(statement, inner)
    if made.id != own:
        made = replace(made, id=own)
    if isinstance(made, Try) and made.recovery.undo and not made.recovery.handlers:
        return with_undo_block(made)
    return made
