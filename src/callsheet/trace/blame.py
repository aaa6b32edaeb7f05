"""Finds the step at which a run failed, and the likely cause with its evidence.

In: a lineage. Out: the step that failed, and the earlier faults in its backward slice: an error used as a
result, a value that did not fit its cast, an unset or empty value that was read. The likely cause is the
earliest of the most severe kind: a heuristic, and presented as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from callsheet.machine import Status
from callsheet.machine.values import is_empty
from callsheet.store.events import EventType
from callsheet.trace.lineage.lineage import NONE, Failure, Lineage, ValueSource, Visit
from callsheet.trace.lineage.slices import (
    Flow,
    Node,
    flows_into,
    item_at,
    items_in,
    missing_at,
    reads_by,
)


class ValueFault(StrEnum):
    """What is wrong with a value that flowed into a failure, the most severe first."""

    ERROR = "error"
    """A call had failed, and its error took the place of its result."""
    CAST = "cast"
    """The value did not fit its cast."""
    UNSET = "unset"
    """The variable was not set, or had nothing at this path."""
    EMPTY = "empty"


class Suspect(NamedTuple):
    """A fault that flowed into the failure.

    `seq` is the event at which it arose; `key` the call that failed, "" if none did. `path` has the flows
    from the fault to the failed step, in order.
    """

    odd: ValueFault
    name: str
    node: Node
    seq: int
    key: str
    path: tuple[Flow, ...]


class Blame(NamedTuple):
    """The failed visit, the event, the error, and the suspected causes, the likeliest first.

    `visit` is NONE if no step failed, as when a run was cancelled. `key` is the call that failed with this
    error, "" if none did.
    """

    visit: int
    seq: int
    error: str
    suspects: tuple[Suspect, ...]
    key: str = ""


def blame_of(lineage: Lineage) -> Blame | None:
    """What failed in a run and what likely caused it; None if nothing has failed."""
    failure = _failure(lineage)
    if failure is None:
        return None
    if failure.visit == NONE:
        return Blame(NONE, failure.seq, failure.error, ())
    visit = lineage.visits[failure.visit]
    ranks = list(ValueFault)
    suspects = sorted(_suspects(lineage, visit), key=lambda s: (ranks.index(s.odd), s.seq))
    key = _call_of(lineage, visit, failure.error)
    return Blame(failure.visit, failure.seq, failure.error, tuple(suspects), key)


def _call_of(lineage: Lineage, visit: Visit, error: str) -> str:
    """The first call of a visit whose last attempt failed with an error; "" if there is none."""
    for key in lineage.last_keys(visit):
        outcome = lineage.outcomes.get(key)
        if outcome is not None and outcome.type == EventType.ERR and outcome.value == error:
            return key
    return ""


def _failure(lineage: Lineage) -> Failure | None:
    """The failure that ended the run, or else the last final failure of a step."""
    result = lineage.machine.result
    last = lineage.failures[-1] if lineage.failures else None
    if result is None or result.status is Status.DONE:
        return last
    visit = lineage.visit_at(result.ended_at or "")
    error = result.error or result.response
    if visit is None:
        return Failure(NONE, lineage.seq, error)
    own = [failure for failure in lineage.failures if failure.visit == visit.id]
    if not own:
        return Failure(visit.id, visit.seq, error)
    # of a loop several items may have failed, and the run ends with the error of the first in its order
    return next((failure for failure in own if failure.error == error), own[-1])


def _suspects(lineage: Lineage, visit: Visit) -> list[Suspect]:
    suspects: list[Suspect] = []
    met: list[tuple[Flow, int]] = [(flow, NONE) for flow in reads_by(lineage, visit)]
    """The queue of flows, each with the index of the one that led to it."""
    seen: set[Node] = set()
    for at, (flow, _) in enumerate(met):
        node = flow.node
        if node in seen:
            continue
        seen.add(node)
        suspect = _look_at(lineage, flow, visit)
        if suspect is not None:
            suspects.append(suspect._replace(path=(*suspect.path, *_rest_of_path(met, at))))
        if node.write != NONE:
            met.extend((other, at) for other in flows_into(lineage, node))
    return suspects


def _rest_of_path(met: list[tuple[Flow, int]], at: int) -> Iterator[Flow]:
    """The flows after the one at this index, up to the failed step."""
    at = met[at][1]
    while at != NONE:
        flow, at = met[at]
        yield flow


def _look_at(lineage: Lineage, flow: Flow, failed: Visit) -> Suspect | None:
    """What is wrong with the node of a flow, if anything; its `path` has this flow only."""
    node, path = flow.node, (flow,)
    if node.write == NONE:
        return Suspect(ValueFault.UNSET, flow.name, node, failed.seq, "", path)
    write = lineage.writes[node.write]
    key, place = _failed_call(lineage, node)
    if key:
        narrowed = flow._replace(node=place)
        return Suspect(ValueFault.ERROR, write.name, place, lineage.outcomes[key].seq, key, (narrowed,))
    if write.made is ValueSource.ERROR:
        return Suspect(ValueFault.ERROR, write.name, node, write.seq, "", path)
    if write.is_odd:
        return Suspect(ValueFault.CAST, write.name, node, write.seq, "", path)
    if missing_at(lineage, node) is not None:
        return Suspect(ValueFault.UNSET, write.name, node, write.seq, "", path)
    if is_empty(lineage.value_at(node)):
        return Suspect(ValueFault.EMPTY, write.name, node, write.seq, "", path)
    return None


def _failed_call(lineage: Lineage, node: Node) -> tuple[str, Node]:
    """The key of the failed call whose error is here, or first in this list, and its node; "" if none."""
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
