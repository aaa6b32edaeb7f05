"""The lineage of values of a run, and where two runs diverge: as lines of text and as data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict

from callsheet.apps.operations.schema import Count, Object
from callsheet.apps.rendering.runs import ForkOrigin, origin_of
from callsheet.apps.rendering.values import iso, preview

if TYPE_CHECKING:
    from callsheet.api.explaining import Explanation, RecordedCall, ValueFlow, ValuePlace
    from callsheet.api.run_differences import RunDifference
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunInfo
    from callsheet.trace.comparing import Compared, ValueDifference, VisitDifference
    from callsheet.trace.lineage.lineage import Lineage, Visit
    from callsheet.views.describe import Wording

_PREVIEW = 200
MAX_LINES = 20
"""The maximum number of differences in text output."""
_MOST_PLACES = 3


class LineageResult(TypedDict):
    """The lineage of a value, nearest places first."""

    run_id: str
    variable: str
    path: list[Any]
    direction: Literal["forward", "backward"]
    more: Annotated[bool, "whether there are further places"]
    nodes: list[Object]
    calls: NotRequired[list[Object]]
    people: NotRequired[Annotated[list[Object], "who has answered what of the calls that it comes from"]]
    warnings: NotRequired[Annotated[list[str], "what is not known of the run"]]


DifferenceResult = TypedDict(
    "DifferenceResult",
    {
        "a": str,
        "b": str,
        "same_plan": bool,
        "equal": bool,
        "from": Object,
        "inputs": Object,
        "alike": Annotated[Count, "the number of equal visits"],
        "first": Object | None,
        "differing": list[Object],
    },
)


# ---------------------------------------------------------------- lineage


def slice_json(found: Explanation) -> LineageResult:
    """The slice as a JSON object."""
    flows = "flows_to" if found.is_forward else "made_of"
    data: LineageResult = {
        "run_id": found.run_id,
        "variable": found.variable,
        "path": list(found.path),
        "direction": "forward" if found.is_forward else "backward",
        "more": found.is_cut,
        "nodes": [
            {**_place_json(place), flows: [{**flow_json(flow), "node": flow.place} for flow in place.flows]}
            for place in found.places
        ],
    }
    if found.people:
        data["people"] = [{**each._asdict(), "at": iso(each.at)} for each in found.people]
    if found.warnings:
        data["warnings"] = [*found.warnings]
    if found.is_forward:
        data["calls"] = [
            {
                "key": reached.call.key,
                "tool": reached.call.tool,
                "effect": str(reached.effect),
                "role": reached.role,
                "argument": reached.argument or None,
                **_times(reached.call),
            }
            for reached in found.calls
        ]
    return data


def flow_json(flow: ValueFlow) -> dict[str, Any]:
    """A flow of a value into another as a JSON object."""
    return {
        "role": flow.role,
        "argument": flow.argument or None,
        "item": flow.item,
        "variable": flow.variable,
        "path": list(flow.path),
    }


def _place_json(place: ValuePlace) -> dict[str, Any]:
    data: dict[str, Any] = {
        "variable": place.variable,
        "path": list(place.path),
        "preview": preview(place.value, _PREVIEW),
        "made": place.made,
        "event": place.event,
        "fits_cast": place.fits_cast,
    }
    if place.step is None:
        return data
    return {
        **data,
        "step": place.step,
        "visit": place.visit,
        "plan": place.plan,
        "item": place.item,
        "calls": [_call_json(call) for call in place.calls],
        "literals": [{"argument": name, "value": value} for name, value in place.literals],
        **({"unused": place.unused} if place.unused else {}),
    }


def _call_json(call: RecordedCall) -> dict[str, Any]:
    return {
        "key": call.key,
        "tool": call.tool or None,
        "item": call.item,
        "attempt": call.attempt,
        **_times(call),
        **({"label": call.label} if call.label else {}),
    }


def _times(call: RecordedCall) -> dict[str, Any]:
    return {"left": call.left, "outcome": call.outcome, "answered": call.answered}


# ---------------------------------------------------------------- differences


def diff_json(journal: Journal, a: RunInfo, b: RunInfo) -> DifferenceResult:
    """The differences of two complete runs, as data; raises JournalError for unreadable events."""
    from callsheet.api.run_differences import diff_runs  # noqa: PLC0415 - brings the store

    return compared_json(diff_runs(journal, a.run_id, b.run_id), origins_of(journal, a, b))


def origins_of(journal: Journal, a: RunInfo, b: RunInfo) -> list[ForkOrigin | None]:
    """Where two runs come from; None for one that did not branch off."""
    return [origin_of(next(iter(journal.events(info.run_id))).body) for info in (a, b)]


def compared_json(difference: RunDifference, origins: list[ForkOrigin | None]) -> DifferenceResult:
    """The differences of two runs, as data."""
    compared = difference.compared
    froms = [None if origin is None else origin.to_json() for origin in origins]
    pairs = [_pair_json(one) for one in compared.differences]
    return {
        "a": difference.a.run_id,
        "b": difference.b.run_id,
        "same_plan": difference.is_same_plan,
        "equal": difference.is_equal,
        "from": {"a": froms[0], "b": froms[1]},
        "inputs": {name: {"a": mine, "b": theirs} for name, (mine, theirs) in compared.inputs.items()},
        "alike": compared.alike,
        "first": pairs[0] if pairs else None,
        "differing": pairs,
    }


def diff_lines(compared: Compared) -> Iterator[str]:
    """The differences of two runs, as lines of text."""
    for name, (mine, theirs) in compared.inputs.items():
        shown = _words(compared.differences[0][1]).variable(name) if compared.differences else name
        yield f"input   {shown}: A {preview(mine)}, B {preview(theirs)}"
    if not compared.differences:
        yield f"same    all {_count_visits(compared.alike)}"
        return
    first, *rest = compared.differences
    yield from _pair_lines(first, "first")
    for one in rest[:MAX_LINES]:
        yield from _pair_lines(one, "follows" if one.pair.follows else "apart")
    if compared.upto is not None:
        a, b = compared.upto
        yield f"same    {_count_visits(compared.alike)} up to event {a} of A, {b} of B"
        yield "there are more differences; --all compares the whole runs"
        return
    if len(rest) > MAX_LINES:
        yield f"and {len(rest) - MAX_LINES} more (--json prints all of them)"
    yield f"same    {_count_visits(compared.alike)}"


def _count_visits(count: int) -> str:
    return f"{count} step visit{'' if count == 1 else 's'}"


def _pair_lines(found: VisitDifference, head: str) -> Iterator[str]:
    from callsheet.views.lineage import visit_line  # noqa: PLC0415 - brings the views

    pair, old, new = found
    line = visit_line(new, pair.new, _words(new)) if pair.old is None and pair.new is not None else ""
    line = visit_line(old, pair.old, _words(old)) if pair.old is not None else line
    yield f"{head:7} {line}: {', '.join(pair.what)}"
    if pair.old is not None and pair.new is not None:
        yield f"        A {_outcome_text(old, pair.old)}"
        yield f"        B {_outcome_text(new, pair.new)}"
        for line in _places(old, pair.old, new, pair.new):
            yield f"        {line}"


def _words(lineage: Lineage) -> Wording:
    from callsheet.views.describe import wording_of  # noqa: PLC0415 - brings the views

    return wording_of(lineage.programs[0].plan)


def _outcome_text(lineage: Lineage, visit: Visit) -> str:
    """The outcome of a visit, as text."""
    if visit.skipped:
        return visit.skipped
    written = lineage.write_of.get(visit.id)
    if written is not None:
        from callsheet.views.lineage import place_in  # noqa: PLC0415 - brings the views

        write = lineage.writes[written]
        return f"{place_in(write, words=_words(lineage))} = {preview(write.value)}"
    failure = next((f.error for f in lineage.failures if f.visit == visit.id), None)
    return f"failed: {preview(failure)}" if failure is not None else "done"


def _apart(old: Lineage, one: Visit, new: Lineage, other: Visit) -> list[tuple[str, ValueDifference]]:
    """The first places where the values differ that two visits assigned to the same variable."""
    from callsheet.trace.comparing import parts  # noqa: PLC0415 - not for --help
    from callsheet.views.lineage import place_in  # noqa: PLC0415 - as above

    mine, theirs = old.write_of.get(one.id), new.write_of.get(other.id)
    if mine is None or theirs is None or old.writes[mine].name != new.writes[theirs].name:
        return []
    found = islice(parts(old.writes[mine].value, new.writes[theirs].value), MAX_LINES)
    write = old.writes[mine]
    return [(place_in(write, part.path, _words(old)), part) for part in found if part.path]


def _places(old: Lineage, one: Visit, new: Lineage, other: Visit) -> Iterator[str]:
    found = _apart(old, one, new, other)
    for name, part in found[:_MOST_PLACES]:
        mine = "nothing" if part.missing == "a" else preview(part.old)
        theirs = "nothing" if part.missing == "b" else preview(part.new)
        yield f"{name}: A {mine}, B {theirs}"
    if len(found) > _MOST_PLACES:
        yield "and more places"


def _pair_json(found: VisitDifference) -> dict[str, Any]:
    pair, old, new = found
    return {
        "what": list(pair.what),
        "follows": pair.follows,
        "a": _visit_json(old, pair.old),
        "b": _visit_json(new, pair.new),
        "places": []
        if pair.old is None or pair.new is None
        else [
            {"place": name, "a": part.old, "b": part.new, "missing": part.missing or None}
            for name, part in _apart(old, pair.old, new, pair.new)
        ],
    }


def _visit_json(lineage: Lineage, visit: Visit | None) -> dict[str, Any] | None:
    if visit is None:
        return None
    return {
        "step": lineage.place(visit),
        "visit": visit.visit,
        "event": visit.seq,
        "tool": lineage.code(visit).tool or None,
        "came": _outcome_text(lineage, visit),
    }
