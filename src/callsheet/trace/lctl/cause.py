"""Finds the likely cause of a failed chain, with the evidence, as distinct from the step that failed.

The cause is found in a fixed order: (1) the analysis names an agent; (2) a fact's note says ISSUE; (3) the
fact with the lowest confidence below 0.70 that was known at the failure; (4) the step that failed.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from callsheet.diagnostics.wrong_type import wanted
from callsheet.trace.lctl.confidence import FLAG_BELOW, effective
from callsheet.trace.lctl.model import DebugDocument, Entry, Fact

_MOST_WORDS = 4_000
"""The number of characters of an analysis that are searched for agents."""


class Evidence(StrEnum):
    """The kind of evidence for a cause."""

    ANALYSIS = "analysis"
    NOTE = "note"
    CONFIDENCE = "confidence"
    FAILED_AT_STEP = "failed_at_step"


class Cause(NamedTuple):
    """The likely cause: its step, the kind of evidence, and the evidence in words."""

    step: int
    by: Evidence
    because: str
    agent: str | None = None
    """The agent of the step, if the evidence names it."""


def root_cause(document: DebugDocument) -> Cause | None:
    """The likely cause of a failure; None if there is no evidence.

    >>> from callsheet.trace.lctl.model import Analysis, Chain
    >>> trace = (Entry(1, "prober"), Entry(2, "payer", error="refused"))
    >>> chain = Chain("c", status="FAILED", failed_at_step=2)
    >>> root_cause(DebugDocument(chain, trace=trace, analysis=Analysis("prober looked elsewhere"))).step
    1
    """
    wanted("document", document, DebugDocument, "a debug document")
    return _named_by_analysis(document) or _noted(document) or _least_sure(document) or _failed(document)


def _named_by_analysis(document: DebugDocument) -> Cause | None:
    named = document.analysis.root_cause if document.analysis is not None else None
    if named is None:
        return None
    named = named[:_MOST_WORDS]
    folded = named.casefold()
    agents = {entry.agent for entry in document.entries if entry.agent and entry.step is not None}
    for agent in sorted(agents, key=lambda name: (-len(name), name)):
        if agent.casefold() in folded and re.search(
            rf"(?<![\w-]){re.escape(agent)}(?![\w-])", named, re.IGNORECASE
        ):
            step = next(e.step for e in document.entries if e.agent == agent and e.step is not None)
            return Cause(step, Evidence.ANALYSIS, f"the analysis names {agent}: {named}", agent)
    return None


def _noted(document: DebugDocument) -> Cause | None:
    facts = [
        (step, place, fact)
        for place, fact in enumerate(document.facts.values())
        if fact.note is not None and fact.note.startswith("ISSUE")
        and (step := _step_of(fact, document)) is not None
    ]  # fmt: skip
    if not facts:
        return None
    step, _, fact = min(facts, key=lambda row: row[:2])
    return Cause(step, Evidence.NOTE, f"the note of {fact.id}: {fact.note}")


def _least_sure(document: DebugDocument) -> Cause | None:
    values = effective(document)
    known = _known_at_failure(document)
    candidates = [
        (value, step, fact_id)
        for fact_id, fact in document.facts.items()
        if fact_id in known
        and (value := values[fact_id]) is not None
        and value < FLAG_BELOW
        and (step := _adder_of(fact_id, document) or fact.step) is not None
    ]
    if not candidates:
        return None
    value, step, fact_id = min(candidates)
    return Cause(step, Evidence.CONFIDENCE, f"{fact_id}, known at the failure, is {value:g}")


def failed_step(document: DebugDocument) -> int | None:
    """The step that failed: the one that the chain names, or else that of the last entry with an error.

    None for a chain whose status says that it has not failed.
    """
    chain = document.chain
    if chain.failed_at_step is not None:
        return chain.failed_at_step
    if chain.status is not None and not chain.has_failed:
        return None
    errors = (entry.step for entry in reversed(document.entries) if entry.has_error)
    return next((step for step in errors if step is not None), None)


def _failed(document: DebugDocument) -> Cause | None:
    step = failed_step(document)
    if step is None:
        return None
    return Cause(step, Evidence.FAILED_AT_STEP, "nothing points to an earlier step")


def failed_entries(document: DebugDocument) -> tuple[Entry, ...]:
    """The entries of the step that failed."""
    failed = failed_step(document)
    return tuple(entry for entry in document.entries if failed is not None and entry.step == failed)


def _known_at_failure(document: DebugDocument) -> frozenset[str]:
    failed = failed_entries(document)
    known = [entry.facts_at_failure for entry in failed if entry.facts_at_failure is not None]
    if known:
        return frozenset(fact for facts in known for fact in facts)
    last = failed_step(document)
    return frozenset(
        fact
        for entry in document.entries
        if last is None or entry.step is None or entry.step < last
        for fact in entry.facts_added
    )


def _step_of(fact: Fact, document: DebugDocument) -> int | None:
    return fact.step if fact.step is not None else _adder_of(fact.id, document)


def _adder_of(fact_id: str, document: DebugDocument) -> int | None:
    return next((e.step for e in document.entries if fact_id in e.facts_added), None)
