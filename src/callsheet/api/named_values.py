"""Lineages and slices of recorded runs, for places that are named as `rows.0.amount` or `rows[0]["amount"]`.

In: a journal, a run, the name of a place. Out: the slice, or an error that names what there is.
"""

from __future__ import annotations

import re

from callsheet import lazy
from callsheet.diagnostics import did_you_mean
from callsheet.store.errors import JournalError
from callsheet.store.journal import Journal
from callsheet.store.runs import RunInfo
from callsheet.trace.lineage.blocks import TreeLineage
from callsheet.trace.lineage.lineage import ANSWER, NONE, Lineage, differing
from callsheet.trace.lineage.reads import Path
from callsheet.trace.lineage.record import lineages_in
from callsheet.trace.lineage.slices import (
    Graph,
    Node,
    backward,
    forward,
    is_complete_slice,
    missing_at,
)
from callsheet.views.describe import LTP
from callsheet.views.lineage import words_of


def sliced(
    journal: Journal,
    info: RunInfo,
    variable: str,
    bounds: tuple[int | None, int | None] = (None, None),
    *,
    is_forward: bool = False,
) -> tuple[Lineage, Node, Graph]:
    """The slice of a place in a value, with its lineage: only of the last events of the run if they suffice.

    `bounds` are the maximum number of places and of steps from the first one. Raises JournalError as
    `node_named`.
    """
    name, _ = _parts(variable.removeprefix("$"))
    ends_early = is_forward and bounds != (None, None)
    for lineage in lineages_in(journal, info, name, is_forward=is_forward, ends_early=ends_early):
        try:
            start = node_named(lineage, variable)
        except JournalError:
            if lineage.begins == 1 and lineage.uses is None:
                raise
            continue
        graph = (forward if is_forward else backward)(lineage, start, *bounds)
        if is_complete_slice(lineage, graph, start, is_forward=is_forward):
            return lineage, start, graph
    raise AssertionError("the last lineage is complete")


def node_named(lineage: Lineage, text: str) -> Node:
    """The place that a text such as `rows.0.amount` or `rows[0]["amount"]` names.

    Raises JournalError (JRN040) if there is none.

    In a run of a plan with blocks it may name a variable of an item or a sub-plan, `S2[4]/row.amount`, or
    what a step made: `S2[4]/S5`, or the key of a call.
    """
    if isinstance(lineage, TreeLineage) and (of_step := _of_step(lineage, text)) is not None:
        return of_step
    scope, _, own = text.removeprefix("$").rpartition("/")
    name, path = _parts(own.removeprefix("$"))
    words = words_of(lineage)
    place_of = f"{scope}/{{}}" if scope else "{}"
    write = lineage.write_named(place_of.format(name))
    if write == NONE and len(called := _called(lineage, name)) == 1:
        [name] = called
        write = lineage.write_named(place_of.format(name))
    name = place_of.format(name)
    first, *others = [one.plan.tree is not None for one in lineage.programs]
    if write == NONE and not first and any(others):
        message = f"{name} was made after a new plan with blocks took over from steps, which is not followed"
        raise JournalError("JRN040", message, "`callsheet show` shows what it did")
    if write == NONE and name == ANSWER:
        hint = "`callsheet show` shows what it did, and its error; `callsheet blame` where it failed and why"
        hint = differing(lineage) or hint
        raise JournalError("JRN040", "the run has no answer: it failed, has not ended, or gave none", hint)
    if write == NONE:
        names = {one: words.variable(one) for one in lineage.names()}
        near = did_you_mean(name, names)
        hint = f"did you mean {' or '.join(names[one] for one in near)}?" if near else _all([*names.values()])
        hint = differing(lineage) or hint
        raise JournalError("JRN040", f"the run has no variable {words.missing(name)[:80]}", hint)
    node = Node(write, path)
    missing = missing_at(lineage, node)
    if missing is not None:
        there, keys = missing
        near = did_you_mean(str(path[len(there)]), keys)
        hint = f"did you mean {' or '.join(near)}?" if near else _keys(keys)
        whole, inner = words.variable(name, path)[:80], words.variable(name, there)
        raise JournalError("JRN040", f"there is nothing at {whole}: {inner} has no {path[len(there)]}", hint)
    return node


def _of_step(lineage: TreeLineage, text: str) -> Node | None:
    """What the last visit made that a text names; None if it names a variable, or none.

    Raises JournalError (JRN040) for a step that has made nothing.
    """
    name = text.removeprefix("$").split(".")[0]
    if lineage.write_named(name) != NONE or name == ANSWER:
        return None
    visit = lineage.visit_named(text)
    if visit is None:
        return None
    write = lineage.result_of(visit)
    if write == NONE:
        hint = "`callsheet show` shows what it did, `callsheet blame` why a run failed"
        raise JournalError("JRN040", f"{lineage.label(visit)} has made no value", hint)
    return Node(write, ())


def _called(lineage: Lineage, name: str) -> list[str]:
    """The variables that lines about the run of a Python plan call by a name that is not their own."""
    words = words_of(lineage)
    if words is LTP or name == ANSWER:
        return []
    return [one for one in lineage.names() if one != name and words.variable(one) == name]


_PART = lazy.pattern(
    r"""\.(?P<name>[^.\[]+)|\[(?P<index>-?[0-9]+)\]|\[(?P<quote>["'])(?P<key>.*?)(?P=quote)\]"""
)


def _parts(text: str) -> tuple[str, Path]:
    """The name of a variable, and the path behind it, with points or with brackets.

    >>> _parts("rows.0.amount") == _parts("rows[0]['amount']") == ("rows", (0, "amount"))
    True
    """
    name = re.split(r"[.\[]", text, maxsplit=1)[0]
    path: list[str | int] = []
    at = len(name)
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            return text, ()
        digits = part["index"] or part["name"] or ""
        path.append(int(digits) if re.fullmatch(r"-?[0-9]+", digits) else part["name"] or part["key"])
        at = part.end()
    return name, tuple(path)


def _all(names: list[str]) -> str:
    if not names:
        return "no variable has been set in it"
    more = " …" if len(names) > 12 else ""
    return f"it has {', '.join(names[:12])}{more}"


def _keys(keys: list[str]) -> str:
    more = " …" if len(keys) > 12 else ""
    return f"it has {', '.join(keys[:12])}{more}" if keys else "it is empty"
