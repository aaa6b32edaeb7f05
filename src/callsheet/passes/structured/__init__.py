"""The checks of version 2: names and what is set, words and their places, types, calls, sub-plans.

`check_tree` gives all diagnostics of a plan; nothing is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from callsheet.diagnostics import Diagnostic
from callsheet.ir.gc_pause import gc_paused
from callsheet.ir.scopes import scopes_of
from callsheet.ir.tree import Tree, all_statements, statements
from callsheet.passes.finding import ToolSignature
from callsheet.passes.structured import placement
from callsheet.passes.structured.calls import Calls
from callsheet.passes.structured.doubts import doubtful
from callsheet.passes.structured.findings import Report
from callsheet.passes.structured.flow import Flow

__all__ = ["check_tree"]


def check_tree(tree: Tree, *, tools: Mapping[str, ToolSignature] | None = None) -> tuple[Diagnostic, ...]:
    """All findings about a plan of version 2, in the order of the text; empty for a good plan.

    `tools` is the catalogue by canonical name, or None. A diagnostic of severity error means that the plan
    must not run. Where two statements have one id only that is told, since the other checks go by ids.
    """
    every = list(all_statements(tree))
    order = {one.id: number for number, one in enumerate(every)}
    with gc_paused(True):
        report = Report(tools)
        if len(order) < len(every):
            placement.repeated_ids(every, report)
            return tuple(report.found)
        placement.repeated_names(tree, report)
        placement.unknown_types(tree, every, report)
        placement.wrong_defaults(tree, report)
        callees_first = placement.sub_plans(tree, every, report)
        placement.unknown_kinds(every, report)
        placement.misplaced_words(tree, report)
        scopes = scopes_of(tree)
        placement.changes_beside(every, scopes, report)
        beside = placement.members(every, scopes, report)
        Flow(tree, scopes, report, Calls(tools).check, beside).run(callees_first)
        doubtful(tree, tools, report)
        return _at_their_use(tree, report.sorted(order))


def _at_their_use(tree: Tree, found: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    """The findings, where those about used plans, whose text is another, say so once and offer no edits."""
    used = {
        inner.id: one.origin for one in tree.plans if one.origin is not None for inner in statements(one.body)
    }
    if not used:
        return found
    made: list[Diagnostic] = []
    told: set[tuple[str, str]] = set()
    for one in found:
        origin = used.get(one.step or "")
        if origin is None:
            made.append(one)
            continue
        which = "the plan" if origin.is_library else "the file"
        message = f"in {which} {origin.reference}: {one.message}"
        if (one.code, message) not in told:
            told.add((one.code, message))
            made.append(replace(one, message=message, fix=None, swap=None))
    return tuple(made)
