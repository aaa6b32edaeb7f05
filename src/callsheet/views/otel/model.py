"""The telemetry data model: spans with events and links, log records, histograms.

Immutable, and independent of any telemetry library; the exporter is chosen elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

Scalar: TypeAlias = "str | bool | int | float"
Attributes: TypeAlias = "dict[str, Scalar | tuple[str, ...]]"
"""Names and values, in the order in which they are sent; not modified once they are in a span."""


class SpanKind(IntEnum):
    """Whether a span is internal or a request to another service; the numbers are those of OTLP."""

    INTERNAL = 1
    CLIENT = 3


class SpanEvent(NamedTuple):
    """An event within a span; `time` in nanoseconds since 1970."""

    name: str
    time: int
    attributes: Attributes


class Link(NamedTuple):
    """A link from a span to another one, which may be in another trace."""

    trace_id: str
    span_id: str
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Span:
    """An operation from `start` to `end`, in nanoseconds since 1970.

    Ids are hexadecimal; `parent_id` is empty for a root. `error` is None if the operation did not fail; its
    text is empty if content is not exported. `dropped_events` counts the events over the limit.
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
    """A log record that belongs to a span; `time` in nanoseconds since 1970."""

    trace_id: str
    span_id: str
    name: str
    time: int
    attributes: Attributes


class Histogram(NamedTuple):
    """The cumulative histogram of a metric for one set of attributes, in a run up to `time`.

    `counts` has one entry more than `bounds`, for the values above the last bound. Times are nanoseconds
    since 1970.
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
    """The telemetry to be exported; false if there is none."""

    spans: tuple[Span, ...] = ()
    logs: tuple[LogRecord, ...] = ()
    metrics: tuple[Histogram, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.spans or self.logs or self.metrics)
