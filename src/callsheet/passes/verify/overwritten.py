"""Decides whether a plan has overwritten a file on every path to a step that reads it.

In: a prepared plan, a step number. Out: yes or no. A failed write changes nothing; the file then has its own
label, which is known when it is read at run time.
"""

from __future__ import annotations

from callsheet.ir import Order
from callsheet.passes.verify.places import ALL_FILES, BELOW, FOLDER, SOME_FILE
from callsheet.passes.verify.subject import AT_THE_START, Subject
from callsheet.policy.builtins import fold


def reads_its_own(subject: Subject, number: int) -> bool:
    """Whether the single file that a step reads was written by the plan on every control-flow path to it."""
    if subject.plan.order is Order.DAG or subject.position is not AT_THE_START:
        return False
    reads = subject.accesses[number].reads
    places = [place for place in reads if place != SOME_FILE and not place.startswith((FOLDER, BELOW))]
    if len(places) != 1 or places[0] == ALL_FILES or not places[0].startswith("file:"):
        return False
    flow, place = subject.flow, places[0]
    group = flow.group_end[number]
    seen = bytearray(len(flow.successors))
    stack = [flow.entry]
    while stack:
        node = stack.pop()
        if node == number:
            return False
        if seen[node] or (
            node < flow.end and _writes(subject, node, place) and flow.group_end[node] != group
        ):
            continue
        seen[node] = 1
        stack += flow.successors[node]
    return True


def _writes(subject: Subject, number: int, place: str) -> bool:
    """Whether a step, once reached, replaces the whole content of this place."""
    step = subject.plan.steps[number]
    if step.condition is not None or step.foreach is not None or step.call is None:
        return False
    return fold(step.call.tool) == "WRITE_FILE" and place in subject.accesses[number].writes
