"""Builds the root span of a segment: the work of one process on a run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from callsheet.ir import JSON
from callsheet.machine import Result, Status
from callsheet.machine.trace_ids import span_id, trace_id
from callsheet.views.otel.about import About
from callsheet.views.otel.model import Attributes, Link, Span
from callsheet.views.otel.names import Gen, Kind, Linked, Op, OpenInference, Own, Wrong
from callsheet.views.otel.operations import Teller, as_text


@dataclass(slots=True)
class Segment:
    """The work of one process on a run: its number from 1, the owner's epoch, its times in nanoseconds."""

    number: int
    epoch: int
    start: int
    last: int = field(default=0)
    is_told: bool = False

    def __post_init__(self) -> None:
        self.last = self.start


def root_span(
    teller: Teller,
    about: About,
    segment: Segment,
    result: Result | None,
    inputs: dict[str, JSON],
    *,
    waits: bool,
) -> Span:
    """Returns the root span of a segment.

    `result` is the result of the run if it ended in the segment, `waits` whether it only waits for people.
    """
    attributes: Attributes = {
        Gen.OPERATION: Op.WORKFLOW,
        Gen.WORKFLOW: about.plan_name,
        Gen.AGENT: about.plan_name,
        OpenInference.KIND: Kind.CHAIN,
        Own.SEGMENT: segment.number,
        Own.PLAN_HASH: about.plan_hash,
        **({Own.PLAN: about.plan_id} if about.plan_id else {}),
    }
    wrong, said = None, ""
    if result is None:
        attributes[Own.SEGMENT_STATUS] = "waiting" if waits else "interrupted"
    else:
        attributes[Own.RUN_STATUS] = str(result.status)
        if result.status is not Status.DONE:
            wrong = _wrong_end(result.status, has_budget=result.refusal is not None)
            said = result.error or ""
    if about.tells_content:
        attributes |= {OpenInference.INPUT: as_text(inputs), OpenInference.INPUT_TYPE: "application/json"}
        if result is not None and result.status is Status.DONE:
            attributes[OpenInference.OUTPUT] = result.response
    name = teller.named(Op.WORKFLOW, about.plan_name)
    own, times = span_id(about.run_id, segment.number), (segment.start, segment.last)
    root = teller.span(own, "", name, times, attributes, wrong, said)
    return replace(root, links=_links_back(about, segment.number))


def _links_back(about: About, number: int) -> tuple[Link, ...]:
    if number > 1:
        before = span_id(about.run_id, number - 1)
        return (Link(trace_id(about.run_id), before, {Own.LINK: Linked.RESUMED_FROM}),)
    if about.parent:
        told: Attributes = {Own.LINK: Linked.FORKED_FROM, Own.RUN: about.parent}
        return (Link(trace_id(about.parent), span_id(about.parent, 1), told),)
    return ()


def _wrong_end(status: Status, *, has_budget: bool) -> Wrong:
    if has_budget:
        return Wrong.BUDGET
    return {Status.REFUSED: Wrong.POLICY, Status.CANCELLED: Wrong.CANCELLED}.get(status, Wrong.STEP)
