"""The position of a run in progress in its plan, so that the remaining part can be verified.

In: the next step, the finished steps, the values of variables, the labels of earlier decisions. Out: the
plan's control flow, entered at that point.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from callsheet.ir import JSON, ListExpr, Literal, Value
from callsheet.ir.flow import Flow
from callsheet.ir.labels import Label


@dataclass(frozen=True, slots=True)
class RunPosition:
    """The state of a run in progress.

    `next` is the number of the next step; in a graph it is 0 and `done` are the finished steps. `pcs` are by
    step number the pc labels of earlier decisions, `presence` by variable the labels of decisions that
    determine whether it is set, `values` the values of variables.
    """

    next: int = 0
    done: frozenset[int] = frozenset()
    pcs: Mapping[int, Label] = field(default_factory=dict[int, Label])
    presence: Mapping[str, Label] = field(default_factory=dict[str, Label])
    values: Mapping[str, JSON] = field(default_factory=dict[str, JSON])


AT_THE_START = RunPosition()


def entered_at(flow: Flow, position: RunPosition) -> Flow:
    """The control flow with its entry moved to where the run stands."""
    if position.next == 0:
        return flow
    successors, predecessors = list(flow.successors), list(flow.predecessors)
    successors[flow.entry] = [position.next]
    predecessors[0] = [node for node in predecessors[0] if node != flow.entry]
    predecessors[position.next] = [*predecessors[position.next], flow.entry]
    return replace(flow, successors=successors, predecessors=predecessors)


def literal_of(value: JSON) -> Value | None:
    """A value as an expression of a plan: a scalar or a list of scalars; None for others."""
    if not isinstance(value, list | dict):
        return Literal(value)
    items = cast("list[JSON]", value) if isinstance(value, list) else [value]
    if any(isinstance(item, list | dict) for item in items):
        return None
    return ListExpr(tuple(Literal(item) for item in items if not isinstance(item, list | dict)))
