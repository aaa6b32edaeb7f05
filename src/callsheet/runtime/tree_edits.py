"""Edits of single statements of a plan with blocks: another argument of a call, another line.

In: a plan, the id of a statement, what is edited. Out: the edited plan, or a JournalError (JRN084).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, did_you_mean
from callsheet.frontends.structured import read_structured
from callsheet.ir import JSON, Literal, Plan
from callsheet.ir.expression import Display, Expression, Kind, Mapping
from callsheet.ir.tree import (
    Act,
    Block,
    If,
    Statement,
    Tree,
    all_statements,
    inner_blocks,
    map_blocks,
    plan_of_tree,
    statements,
    with_ids,
)
from callsheet.store import JournalError


def with_argument(plan: Plan, step: str, name: str, value: JSON) -> Plan:
    """The plan with another argument of a call, a positional one by its index; it is data, no expression."""

    def changed(old: Statement) -> Statement:
        if not isinstance(old, Act):
            raise JournalError("JRN084", f"step {step} calls no tool", "edit the step: --replace")
        given = _constant(value)
        if name.isascii() and name.isdigit() and int(name) < len(old.positional):
            at = int(name)
            return replace(old, positional=(*old.positional[:at], given, *old.positional[at + 1 :]))
        if any(known == name for known, _ in old.named):
            return replace(old, named=tuple((n, given if n == name else v) for n, v in old.named))
        return replace(old, named=(*old.named, (name, given)))

    return _with_statement(plan, step, changed)


def with_line(plan: Plan, step: str, text: str) -> Plan:
    """The plan with another line in place of a statement; raises CallsheetError for what is no line."""

    def changed(old: Statement) -> Statement:
        new = _read_line(old.id, text)
        is_written = getattr(old, "is_named", None)
        return replace(new, id=old.id) if is_written is None else _with_id(new, old.id, is_named=is_written)

    return _with_statement(plan, step, changed)


def _with_id(new: Statement, id_: str, *, is_named: bool) -> Statement:
    return replace(new, id=id_, is_named=is_named) if hasattr(new, "is_named") else replace(new, id=id_)


def _read_line(id_: str, text: str) -> Statement:
    """A statement of one line, with its id or without."""
    written = text.strip()
    texts = [written] if written.startswith(f"{id_}:") else [f"{id_}: {written}", written]
    reads = [read_structured(f"# ltp: 2\n{each}\n", "--replace") for each in texts]
    read = next((each for each in reads if each.plan is not None), reads[-1])
    if read.plan is None or read.plan.tree is None:
        raise CallsheetError(read.diagnostics, read.source)
    body = read.plan.tree.body
    if len(body) != 1 or "\n" in written:
        raise _wrong("this must be one line of a plan", read.source)
    if not isinstance(body[0], If) and next(inner_blocks(body[0]), None) is not None:
        raise _wrong("a block is not a step", read.source)
    return body[0]


def _with_statement(plan: Plan, step: str, change: Callable[[Statement], Statement]) -> Plan:
    tree = plan.tree
    assert tree is not None
    ids = [one.id for one in all_statements(tree)]
    if step not in ids:
        near = did_you_mean(step, ids)
        hint = f"did you mean {' or '.join(near)}?" if near else f"its steps are {', '.join(ids[:12])}"
        raise JournalError("JRN084", f"the plan of the run has no step {step[:80]}", hint)
    for one in tree.plans:
        if one.origin is not None and any(each.id == step for each in statements(one.body)):
            raise JournalError(
                "JRN084",
                f"step {step} is one of {one.name}, which the plan uses from {one.origin.reference}",
                hint="edit that plan, and run with it: callsheet rerun RUN --plan FILE",
            )
    plans = tuple(replace(one, body=_in_block(one.body, step, change)) for one in tree.plans)
    made: Tree = replace(tree, body=_in_block(tree.body, step, change), plans=plans)
    now = [one.id for one in all_statements(with_ids(made))]
    if len(set(now)) != len(now):
        raise JournalError("JRN084", f"the new line for {step} has an id that the plan has already")
    return plan_of_tree(with_ids(made), id=plan.id, title=plan.title, goal=plan.goal, comments=plan.comments)


def _in_block(block: Block, step: str, change: Callable[[Statement], Statement]) -> Block:
    def inside(inner: Block) -> Block:
        return _in_block(inner, step, change)

    return tuple(
        change(one)
        if one.id == step
        else map_blocks(one, inside)
        if next(inner_blocks(one), None) is not None
        else one
        for one in block
    )


def _constant(data: JSON) -> Expression:
    """A value as an expression: itself, whatever it contains."""
    if isinstance(data, dict):
        return Mapping(tuple((Literal(key), _constant(value)) for key, value in data.items()))
    if isinstance(data, list):
        return Display(Kind.LIST, tuple(_constant(value) for value in data))
    return Literal(data)


def _wrong(message: str, source: Source) -> CallsheetError:
    return CallsheetError([Diagnostic("JRN084", Severity.ERROR, message)], source)
