"""Where a run stands in its plan, so that what is left of the plan can be proved.

In: the step that comes next, those that are done for good, what the variables hold, what has decided so far.
Out: the flow of the plan, entered there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from callsheet.ir import JSON, ListExpr, Literal, Value
from callsheet.ir.flow import Flow
from callsheet.ir.labels import Label


@dataclass(frozen=True, slots=True)
class Standing:
    """The point of a run that goes on.

    `next` is the number of the step that comes next, 0 for a graph, of which `done` are the steps that are
    over. `ways` has by number the label of what has decided so far whether a step is come to, `presence` by
    variable that of what has decided whether it is set, `values` what the variables hold.
    """

    next: int = 0
    done: frozenset[int] = frozenset()
    ways: Mapping[int, Label] = field(default_factory=dict[int, Label])
    presence: Mapping[str, Label] = field(default_factory=dict[str, Label])
    values: Mapping[str, JSON] = field(default_factory=dict[str, JSON])


AT_THE_START = Standing()


def entered_at(flow: Flow, standing: Standing) -> Flow:
    """The flow as it is entered where the run stands."""
    if standing.next == 0:
        return flow
    successors, predecessors = list(flow.successors), list(flow.predecessors)
    successors[flow.entry] = [standing.next]
    predecessors[0] = [node for node in predecessors[0] if node != flow.entry]
    predecessors[standing.next] = [*predecessors[standing.next], flow.entry]
    return replace(flow, successors=successors, predecessors=predecessors)


def literal_of(value: JSON) -> Value | None:
    """A value as a plan could hold it: a scalar, or a list of them; None for every other."""
    if not isinstance(value, list | dict):
        return Literal(value)
    items = cast("list[JSON]", value) if isinstance(value, list) else [value]
    if any(isinstance(item, list | dict) for item in items):
        return None
    return ListExpr(tuple(Literal(item) for item in items if not isinstance(item, list | dict)))
