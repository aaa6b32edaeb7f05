"""Projects an ended run onto an LCTL debug document: its visits, and for a failed run the likely cause.

In: the record of a run. Out: a document without errors under the rules of LCTL, with an entry for the failure
and an analysis that names the step and the value to look at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from callsheet.machine import Result, Status
from callsheet.trace.lctl.confidence import is_blocked
from callsheet.trace.lctl.model import Analysis, Chain, DebugDocument, Entry, Handoff, Lists
from callsheet.trace.projection.project import NO_VALUES, Projection, handoff_of
from callsheet.trace.projection.record import (
    ASSUMED,
    BEFORE_ALL,
    MOST_OF_A_NAME,
    Record,
    Worth,
    agent_of,
    fact_id,
    shown_text,
)

METHOD = "backward slice over data and conditions, least basis first"

_BROKEN = 0.70
_DOUBTFUL = 0.50
_ALONE = 0.60


class Suspect(NamedTuple):
    """The likely cause of a failure: the place of a visit, and the confidence in that, from 0 to 1.

    `steps` is the number of visits in the slice without the failed one. `write` is the number of the doubtful
    value, None if the failed visit itself is suspected.
    """

    place: int
    confidence: float
    steps: int
    write: int | None = None


def backward_slice(record: Record, place: int) -> set[int]:
    """The places of all visits that a visit depends on, directly or not, without its own."""
    reached: set[int] = set()
    stack = [place]
    while stack:
        for write in record.visits[stack.pop()].reads:
            if write.visit != BEFORE_ALL and write.visit not in reached:
                reached.add(write.visit)
                stack.append(write.visit)
    return reached - {place}


def suspect(record: Record, place: int, worth: Mapping[int, Worth]) -> Suspect:
    """The likely cause of the failure of the visit at `place`; `worth` is by the numbers of writes."""
    reached = backward_slice(record, place)
    rows = [
        (worth[write.number].basis.value, at, write.number)
        for at in reached
        for write in record.visits[at].wrote
        if record.visits[at].step is not None
    ]
    if rows:
        value, at, number = min(rows)
        if value <= ASSUMED.value:
            return Suspect(at, _BROKEN if value == 0 else _DOUBTFUL, len(reached), number)
    return Suspect(place, _ALONE, len(reached))


_LOOK = "Look at the error of the failed step."
_FAILED = "FAILED"
_STATUSES = {
    Status.FAILED: _FAILED,
    Status.REFUSED: _FAILED,
    Status.CANCELLED: "CANCELLED",
    Status.DONE: "DONE",
}


def debug_document_of(record: Record, run_id: str, by_tool: Mapping[str, float] = NO_VALUES) -> DebugDocument:
    """The post-mortem of a run: its visits with their durations, and for one that failed an analysis.

    `by_tool` are the confidences of tools' results, by canonical name.
    """
    projection = Projection.of(record, run_id, len(record.visits), by_tool)
    result = record.result
    facts = MappingProxyType(dict(projection.facts))
    if result is None or _STATUSES[result.status] != _FAILED:
        chain = Chain(run_id, status=None if result is None else _STATUSES[result.status])
        return DebugDocument(chain, facts, tuple(projection.entries()), purpose="debugging")
    error = shown_text(result.error or result.response or "the run failed")
    place = record.ending()
    entries = projection.entries(place, error)
    if place is None or place < projection.first:
        place = None
        entries.append(_entry_outside_visits(projection, result, error, entries))
        step = entries[-1].step
    else:
        step = projection.steps[place]
    chain = Chain(run_id, status=_FAILED, failed_at_step=step)
    analysis = _analysis(projection, place, result)
    return DebugDocument(chain, facts, tuple(entries), purpose="debugging", analysis=analysis)


def has_failed(record: Record) -> bool:
    """Whether the run has ended as failed or refused."""
    return record.result is not None and record.result.status in (Status.FAILED, Status.REFUSED)


def _entry_outside_visits(
    projection: Projection, result: Result, error: str, entries: Sequence[Entry]
) -> Entry:
    """The entry for a failure outside any visit: a refused step, a limit, a cycle of jumps."""
    agent = shown_text(result.ended_at or "", MOST_OF_A_NAME)
    return Entry(
        (entries[-1].step or 0) + 1,
        f"{agent}:run" if agent else "run",
        f"FAILED: {'the step was not done' if agent else 'the run was ended'}",
        0.0,
        duration_ms=0.0,
        error=error,
        facts_at_failure=tuple(projection.facts),
    )


def _analysis(projection: Projection, place: int | None, result: Result) -> Analysis:
    """The likely cause of the failure of the visit at `place`, or of one outside any visit."""
    if place is None or result.refusal is not None or result.objection is not None:
        return Analysis(f"{_reason_outside_steps(result)}: no step is suspected ({METHOD})", 0.9, _LOOK)
    suspected = suspect(projection.record, place, projection.worth)
    agent = agent_of(projection.record.visits[suspected.place])
    failed_step = f"step {projection.steps[place]}"
    if suspected.write is None or suspected.place < projection.first:
        message = (
            f"{agent} itself: none of the {suspected.steps} visits it depended on rests on an assumption"
        )
        tip = f"Look at the error of {failed_step} and at the call itself."
    else:
        basis = projection.worth[suspected.write].basis
        reason = f"{basis.why} ({basis.value:g})"
        message = f"{agent} wrote F{suspected.write}, which {failed_step} depended on: {reason}"
        tip = f"Check F{suspected.write} before {failed_step} is done."
    return Analysis(f"{message} ({METHOD})", suspected.confidence, tip)


def _reason_outside_steps(result: Result) -> str:
    """Why a run failed for which no step is to blame."""
    if result.objection is not None:
        return "the policy of the run refused the call"
    return "a limit of the run ended it" if result.refusal is not None else "it failed outside any step"


def briefing_of(record: Record, run_id: str, label: str) -> Handoff | None:
    """The block for the visit with this label, such as `S3@2`; None if no such visit is under way.

    Its instruction is empty, because the step itself states the task.
    """
    visit = next((visit for visit in record.under_way if visit.label == label), None)
    if visit is None:
        return None
    handoff = handoff_of(record, run_id)
    ids = [i for i in map(fact_id, visit.data) if i in handoff.facts]
    facts = {
        i: replace(
            handoff.facts[i],
            derived_from=tuple(parent for parent in handoff.facts[i].derived_from if parent in ids),
        )
        for i in ids
    }
    fit = tuple(i for i in ids if not is_blocked(facts[i].confidence))
    warnings = tuple(f"{i} is worth {facts[i].confidence:g}: do not rely on it" for i in ids if i not in fit)
    chain = replace(handoff.chain, target=agent_of(visit), parallel_merge=False)
    lists = Lists(fit, (), warnings)
    return Handoff(chain, MappingProxyType(facts), None, lists, "", handoff.purpose)
