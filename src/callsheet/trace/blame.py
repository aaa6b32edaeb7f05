"""Finds the step at which a run failed, and the likely cause with its evidence.

In: a lineage. Out: the step that failed; and among all that flowed into it the earlier faults: an error used
as a result, a value that did not fit its cast, an unset value that was read. The likely cause is the first of
the gravest. It is a guess by rule, and is presented as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from callsheet.machine import Status
from callsheet.machine.program import NOWHERE
from callsheet.machine.values import is_empty
from callsheet.store.events import EventType
from callsheet.trace.lineage.lineage import NONE, Failure, Lineage, Made, Visit
from callsheet.trace.lineage.slices import (
    Flow,
    Node,
    flows_into,
    item_at,
    items_in,
    missing_at,
    reads_by,
    value_at,
)


class Odd(StrEnum):
    """What is wrong with a place that flowed into a failure, the gravest first."""

    ERROR = "error"
    """A call had failed, and its error stood where its result would."""
    CAST = "cast"
    """The value did not fit its cast."""
    UNSET = "unset"
    """The variable was not set, or had nothing at this place."""
    EMPTY = "empty"


class Suspect(NamedTuple):
    """A place that was wrong before it flowed into the failure.

    `seq` is the event at which it came to be so; `key` the call that failed, where one did. `way` leads from
    this place to the step that failed: each is what the next was made of.
    """

    odd: Odd
    name: str
    node: Node
    seq: int
    key: str
    way: tuple[Flow, ...]


class Blame(NamedTuple):
    """What failed, at which event, and why; and what likely led to it, the likeliest first.

    `visit` is NONE where no step failed, as when a run was cancelled.
    """

    visit: int
    seq: int
    error: str
    suspects: tuple[Suspect, ...]


def blame_of(lineage: Lineage) -> Blame | None:
    """What failed in a run, and what likely led to it; None where nothing has failed."""
    found = _failure(lineage)
    if found is None:
        return None
    if found.visit == NONE:
        return Blame(NONE, found.seq, found.error, ())
    visit = lineage.visits[found.visit]
    ranks = list(Odd)
    suspects = sorted(_suspects(lineage, visit), key=lambda s: (ranks.index(s.odd), s.seq))
    return Blame(found.visit, found.seq, found.error, tuple(suspects))


def _failure(lineage: Lineage) -> Failure | None:
    """What ended the run, or where it did not end so, the last step that failed for good."""
    result = lineage.machine.result
    last = lineage.failures[-1] if lineage.failures else None
    if result is None or result.status is Status.DONE:
        return last
    number = lineage.machine.program.number_of.get(result.ended_at or "", NOWHERE)
    program = len(lineage.programs) - 1
    visit = next((v for v in reversed(lineage.visits) if (v.program, v.number) == (program, number)), None)
    error = result.error or result.response
    if visit is None:
        return Failure(NONE, lineage.seq, error)
    own = next((f for f in reversed(lineage.failures) if f.visit == visit.id), None)
    return own if own is not None else Failure(visit.id, visit.seq, error)


def _suspects(lineage: Lineage, visit: Visit) -> list[Suspect]:
    found: list[Suspect] = []
    met: list[tuple[Flow, int]] = [(flow, NONE) for flow in reads_by(lineage, visit)]
    """What has been come to, and from which of these before it; they are looked at in their order."""
    seen: set[Node] = set()
    for at, (flow, _) in enumerate(met):
        node = flow.node
        if node in seen:
            continue
        seen.add(node)
        suspect = _look_at(lineage, flow, visit)
        if suspect is not None:
            found.append(suspect._replace(way=(*suspect.way, *_way_on(met, at))))
        if node.write != NONE:
            met.extend((other, at) for other in flows_into(lineage, node))
    return found


def _way_on(met: list[tuple[Flow, int]], at: int) -> Iterator[Flow]:
    """The way from one of these to the step that failed, itself not among it."""
    at = met[at][1]
    while at != NONE:
        flow, at = met[at]
        yield flow


def _look_at(lineage: Lineage, flow: Flow, failed: Visit) -> Suspect | None:
    """What is wrong with a place, if anything is; of its way the first flow."""
    node, way = flow.node, (flow,)
    if node.write == NONE:
        return Suspect(Odd.UNSET, flow.name, node, failed.seq, "", way)
    write = lineage.writes[node.write]
    key, place = _failed_call(lineage, node)
    if key:
        narrowed = flow._replace(node=place)
        return Suspect(Odd.ERROR, write.name, place, lineage.outcomes[key].seq, key, (narrowed,))
    if write.made is Made.ERROR:
        return Suspect(Odd.ERROR, write.name, node, write.seq, "", way)
    if write.is_odd:
        return Suspect(Odd.CAST, write.name, node, write.seq, "", way)
    if missing_at(lineage, node) is not None:
        return Suspect(Odd.UNSET, write.name, node, write.seq, "", way)
    if is_empty(value_at(lineage, node)):
        return Suspect(Odd.EMPTY, write.name, node, write.seq, "", way)
    return None


def _failed_call(lineage: Lineage, node: Node) -> tuple[str, Node]:
    """The call that failed and whose error stands here, or first in this list, and where; "" for none."""
    write = lineage.writes[node.write]
    if write.visit == NONE:
        return "", node
    visit = lineage.visits[write.visit]
    item, _ = item_at(lineage, visit, node.path)
    is_list = item is None and lineage.step(visit).foreach is not None
    for n, index in enumerate(items_in(lineage, visit) if item is None else [item]):
        key = lineage.last_key(visit, index)
        outcome = lineage.outcomes.get(key)
        if outcome is not None and outcome.type == EventType.ERR:
            return key, Node(node.write, (n,)) if is_list else node
    return "", node
