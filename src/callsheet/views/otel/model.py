"""The telemetry data model: spans with events and links, log records, histograms.

Immutable, and independent of any library: what carries it to a collector is chosen at the edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

Scalar: TypeAlias = "str | bool | int | float"
Attributes: TypeAlias = "dict[str, Scalar | tuple[str, ...]]"
"""Names and values, in the order in which they are sent; nobody changes one that stands in a span."""


class SpanKind(IntEnum):
    """Whether a span is of this program, or of its asking another; the numbers are those of OTLP."""

    INTERNAL = 1
    CLIENT = 3


class SpanEvent(NamedTuple):
    """Something that happened within a span, at a moment in nanoseconds since 1970."""

    name: str
    time: int
    attributes: Attributes


class Link(NamedTuple):
    """That a span has to do with another one, perhaps of another trace."""

    trace_id: str
    span_id: str
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took a time: from `start` to `end`, in nanoseconds since 1970.

    Ids are hexadecimal; `parent_id` is empty for a root. `error` is a text where it failed and that text may
    be told, empty where not; None says that it did not fail. `dropped_events` counts those that were too
    many.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: SpanKind
    start: int
    end: int
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    links: tuple[Link, ...] = ()
    error: str | None = None
    dropped_events: int = 0


class LogRecord(NamedTuple):
    """An event that stands for itself, and belongs to a span."""

    trace_id: str
    span_id: str
    name: str
    time: int
    attributes: Attributes


class Histogram(NamedTuple):
    """How often values of a measure fell between its bounds, in a run up to a moment, for some attributes.

    `counts` has one more than `bounds`: what lies above the last of them.
    """

    name: str
    unit: str
    description: str
    attributes: Attributes
    start: int
    time: int
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float
    least: float
    most: float


class Telemetry(NamedTuple):
    """What there is to be sent."""

    spans: tuple[Span, ...] = ()
    logs: tuple[LogRecord, ...] = ()
    metrics: tuple[Histogram, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.spans or self.logs or self.metrics)
