"""The parts of a report that a plan with blocks has of its own: its statements, and what values are made of.

In: the lineage of such a run. Out: rows and a layout for the viewer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callsheet.diagnostics import Source
from callsheet.frontends.expressions import format_expression
from callsheet.frontends.spelling import read_plan_text
from callsheet.ir.tree import (
    Block,
    Foreach,
    If,
    Repeat,
    Statement,
    Tree,
    all_statements,
    inner_blocks,
    recovery_of,
    variables_set,
)
from callsheet.trace.lineage.blocks import Site, TreeLineage, word_of_statement
from callsheet.trace.lineage.lineage import NONE, Flow
from callsheet.trace.lineage.reads import Role
from callsheet.views.columns import printable
from callsheet.views.describe import LTP, Wording, wording_of
from callsheet.views.lanes import NO_GROUP, nested_layout
from callsheet.views.report.document import PlanPart, StepRow
from callsheet.views.report.values import Values
from callsheet.views.tree import statements_apart

_ANY = -1
_MOST_TEXT = 200_000


def plan_part_of_blocks(lineage: TreeLineage, source: str, hash_: str, seq: int, values: Values) -> PlanPart:
    """Returns the data of a plan with blocks; `source` is its text, `hash_` its hash."""
    plan = lineage.machine.program.plan
    tree = plan.tree
    assert tree is not None
    lines, words = _lines(tree, source), wording_of(plan)
    steps = tuple(_step(site, lines.get(site.statement.id, []), values, words) for site in lineage.sites)
    title, text = plan.title or plan.id or "", source[:_MOST_TEXT]
    return PlanPart(
        hash_, title, plan.goal or "", str(plan.order), text, seq, steps, _layout(tree, lineage.sites)
    )


def _step(site: Site, lines: list[int], values: Values, words: Wording) -> StepRow:
    statement = site.statement
    made = ", ".join(map(words.variable, variables_set(statement)))
    return StepRow(
        site.id,
        printable(getattr(statement, "title", None) or ""),
        printable(_word(site, words)),
        "plan",
        _action(site, words),
        "",
        made,
        "" if recovery_of(statement) is None else words.part("ON_FAIL").partition(" ")[0],
        NO_GROUP,
        "",
        lines,
        list(site.reads.names),
        [
            [str(use.role), _used_as(use.role, use.argument, words), use.name, list(use.path), _ANY, _ANY]
            for use in site.reads.uses
            if use.role is not Role.MESSAGE
        ],
        [[name, values.add(value)] for name, value in site.reads.literals],
    )


def _used_as(role: Role, argument: str, words: Wording) -> str:
    return words.expression(argument) if role is Role.CONDITION and argument else argument


def _word(site: Site, words: Wording) -> str:
    if site.id != site.statement.id:
        return "now()"
    if words is not LTP:
        return words.word(site.statement)
    word = word_of_statement(site.statement)
    return word.removeprefix("@") if word.startswith("@") else word


def _action(site: Site, words: Wording) -> str:
    match site.statement:
        case If():
            return words.condition("?IF", site.condition)
        case Repeat(until=until) if until is not None and format_expression(until) == site.condition:
            return words.condition("UNTIL", site.condition)
        case Repeat():
            return words.condition("WHILE", site.condition)
        case _:
            return words.statement(site.statement)


def _lines(tree: Tree, source: str) -> Mapping[str, list[int]]:
    """Returns first and last line of each statement in the text, from 0; empty if the text is not this plan.

    Those of a statement with blocks end where its first block begins.
    """
    read = read_plan_text(source).result.plan if source else None
    if read is None or read.tree is None or _ids(read.tree) != _ids(tree):
        return {}
    text = Source("", source)
    lines: dict[str, list[int]] = {}
    for one in all_statements(read.tree):
        if one.span is None:
            continue
        first = text.position(one.span.start).line - 1
        last = text.position(max(one.span.start, one.span.end - 1)).line - 1
        inner = [
            each.span.start for block in inner_blocks(one) for each in block[:1] if each.span is not None
        ]
        if inner:
            last = max(first, min(last, text.position(min(inner)).line - 2))
        lines[one.id] = [first, last]
    return lines


def _ids(tree: Tree) -> list[str]:
    return [one.id for one in all_statements(tree)]


def _layout(tree: Tree, sites: Sequence[Site]) -> dict[str, Any]:
    """Returns the layout: a row for each place, its column is how deep it stands in blocks."""
    depth: dict[str, int] = {}
    for one in tree.plans:
        _measure(one.body, 1, depth)
    _measure(tree.body, 0, depth)
    apart = statements_apart(tree)
    rows = [row for row, site in enumerate(sites) if site.statement.id in apart]
    return nested_layout([depth.get(site.statement.id, 0) for site in sites], rows)


def _measure(block: Block, depth: int, found: dict[str, int]) -> None:
    for one in block:
        found[one.id] = depth
        for inner in inner_blocks(one):
            _measure(inner, depth + 1 if _is_shown(one) else depth, found)


def _is_shown(statement: Statement) -> bool:
    """Whether a statement with blocks has a place of its own in the graph."""
    return isinstance(statement, If | Foreach | Repeat)


def parts_row(lineage: TreeLineage, write: int, words: Wording, *, redacts: bool) -> list[list[Any]]:
    """Returns what a write is made of: `[at, is_copy, of_whole, role, argument, item, name, write, path]`.

    If `redacts`, without paths, as their keys may be values.
    """
    rows = [
        [list(part.at), int(part.is_copy), int(part.of_whole), *_flow(part.flow, words, redacts=redacts)]
        for part in lineage.parts_of(write)
    ]
    visit = lineage.writes[write].visit
    if visit != NONE:
        because = lineage.because(lineage.visits[visit])
        rows += [[[], 0, 0, *_flow(flow, words, redacts=redacts)] for flow in dict.fromkeys(because)]
    return rows


def _flow(flow: Flow, words: Wording, *, redacts: bool) -> list[Any]:
    item = _ANY if flow.item is None else flow.item
    path: list[Any] = [] if redacts else list(flow.node.path)
    argument = _used_as(flow.role, flow.argument, words)
    return [str(flow.role), argument, item, flow.name, flow.node.write, path]
