"""Builds the root span of a segment: the work of one process on a run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from callsheet.ir import JSON
from callsheet.machine import Result, Status
from callsheet.machine.trace_ids import span_id, trace_id
from callsheet.views.otel.calls import Failure
from callsheet.views.otel.model import Attributes, Link, Span
from callsheet.views.otel.names import CallsheetKey, ErrorType, Gen, Kind, LinkType, Op, OpenInference
from callsheet.views.otel.operations import SpanBuilder, as_text
from callsheet.views.otel.run_info import RunDescription


@dataclass(slots=True)
class Segment:
    """The work of one process on a run: its number from 1, the owner's epoch, its times in nanoseconds."""

    number: int
    epoch: int
    start: int
    last: int = field(default=0)
    is_exported: bool = False

    def __post_init__(self) -> None:
        self.last = self.start


def root_span(
    builder: SpanBuilder,
    about: RunDescription,
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
        CallsheetKey.SEGMENT: segment.number,
        CallsheetKey.PLAN_HASH: about.plan_hash,
        **({CallsheetKey.PLAN: about.plan_id} if about.plan_id else {}),
    }
    failure: Failure | None = None
    if result is None:
        attributes[CallsheetKey.SEGMENT_STATUS] = "waiting" if waits else "interrupted"
    else:
        attributes[CallsheetKey.RUN_STATUS] = str(result.status)
        attributes[CallsheetKey.RUN_OUTCOME] = str(result.outcome)
        if result.failed_steps:
            attributes[CallsheetKey.FAILED_STEPS] = result.failed_steps
        if result.status is not Status.DONE:
            error_type = _error_type_of_end(result.status, has_budget=result.refusal is not None)
            failure = Failure(error_type, result.error or "")
    if about.includes_content:
        attributes |= {OpenInference.INPUT: as_text(inputs), OpenInference.INPUT_TYPE: "application/json"}
        if result is not None and result.status is Status.DONE:
            attributes[OpenInference.OUTPUT] = result.response
    name = builder.named(Op.WORKFLOW, about.plan_name)
    own, times = span_id(about.run_id, segment.number), (segment.start, segment.last)
    root = builder.span(own, "", name, times, attributes, failure)
    return replace(root, links=_links_back(about, segment.number))


def _links_back(about: RunDescription, number: int) -> tuple[Link, ...]:
    if number > 1:
        before = span_id(about.run_id, number - 1)
        return (Link(trace_id(about.run_id), before, {CallsheetKey.LINK: LinkType.RESUMED_FROM}),)
    if about.parent:
        attributes: Attributes = {CallsheetKey.LINK: LinkType.FORKED_FROM, CallsheetKey.RUN: about.parent}
        return (Link(trace_id(about.parent), span_id(about.parent, 1), attributes),)
    return ()


def _error_type_of_end(status: Status, *, has_budget: bool) -> ErrorType:
    if has_budget:
        return ErrorType.BUDGET
    return {Status.REFUSED: ErrorType.POLICY, Status.CANCELLED: ErrorType.CANCELLED}.get(
        status, ErrorType.STEP
    )
