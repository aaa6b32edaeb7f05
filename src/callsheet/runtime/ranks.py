"""Ranks the steps of a graph for scheduling, by their durations in the plan's last run.

In: a journal, a plan, its limits. Out: a rank by step, or none if nothing is known or gained. The ranks are
kept with the run, since they determine its order.
"""

from __future__ import annotations

from callsheet.ir import Order, Plan, plan_hash
from callsheet.ir.precedence import Precedence
from callsheet.machine import Limits
from callsheet.machine.graph import compile_graph
from callsheet.machine.ranking import ranks_of
from callsheet.store import Journal

_MOST_STEPS = 10_000


def ranks_for(journal: Journal, plan: Plan, limits: Limits) -> dict[str, int]:
    """The ranks of the steps by id; empty for a plan without a choice, without a previous run, or too large.

    Steps without a known duration count as the mean of the others. Raises CallsheetError (RUN001) for a graph
    that cannot be run, JournalError if the journal cannot be read.
    """
    count = len(plan.steps)
    if plan.order is not Order.DAG or not limits.max_concurrency < count <= _MOST_STEPS:
        return {}
    if max(map(len, Precedence.of(plan).levels()), default=0) <= limits.max_concurrency:
        return {}
    took = journal.step_seconds(plan_hash(plan))
    if not took:
        return {}
    usual = sum(took.values()) / len(took)
    seconds = [took.get(step.id, usual) for step in plan.steps]
    ranks = ranks_of(compile_graph(plan), seconds, limits.max_concurrency)
    return {step.id: rank for step, rank in zip(plan.steps, ranks, strict=True)}
