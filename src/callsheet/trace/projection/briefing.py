"""Builds the LCTL block for an agent that a plan calls: its goal, and the confidence of its inputs.

In: the record of a run in which the agent's visit is under way. Out: a hand-off without a trace. It names
only values that the step passes to the agent anyway.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from callsheet.trace.lctl.confidence import is_blocked
from callsheet.trace.lctl.model import Handoff, Lists
from callsheet.trace.projection.project import handoff_of
from callsheet.trace.projection.record import Record
from callsheet.trace.projection.wording import agent_of, fact_id


def briefing_of(record: Record, run_id: str, label: str) -> Handoff | None:
    """The block for the visit with this label, such as `S3@2`; None if no such visit is under way.

    Its instruction is empty, because the step itself states the task.
    """
    visit = next((visit for visit in record.under_way if visit.label == label), None)
    if visit is None:
        return None
    handoff = handoff_of(record, run_id)
    ids = [i for i in map(fact_id, visit.data) if i in handoff.facts]
    facts = {
        i: replace(
            handoff.facts[i],
            derived_from=tuple(parent for parent in handoff.facts[i].derived_from if parent in ids),
        )
        for i in ids
    }
    fit = tuple(i for i in ids if not is_blocked(facts[i].confidence))
    warnings = tuple(f"{i} is worth {facts[i].confidence:g}: do not rely on it" for i in ids if i not in fit)
    chain = replace(handoff.chain, target=agent_of(visit), parallel_merge=False)
    lists = Lists(fit, (), warnings)
    return Handoff(chain, MappingProxyType(facts), None, lists, "", handoff.purpose)
