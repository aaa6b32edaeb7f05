"""Rules about parallel branches and their merges (M01, M02, M04-M06)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from callsheet.trace.lctl.findings import Notes
from callsheet.trace.lctl.hops import Hop
from callsheet.trace.lctl.ids import shown_id
from callsheet.trace.lctl.model import Body, Handoff, not_blank

_CONFLICT_WORDS = re.compile(r"conflict|contradict|differ|disagree|mismatch|inconsisten", re.IGNORECASE)


class Conflict(NamedTuple):
    """Different statements of branches about one fact."""

    fact: str
    texts: tuple[str, ...]
    """The different texts; empty if they are equal."""
    confidences: tuple[float, ...]
    """The different confidences, ascending; empty if they are equal."""


def conflicts(branches: Sequence[Body], before: Sequence[Body] = ()) -> Iterator[Conflict]:
    """The facts about which branches make different statements.

    `before` are the documents from before the fork: a text that one of them has is no change by a
    branch.
    """
    ids = Counter(fact for branch in branches for fact in branch.facts)
    for fact, count in ids.items():
        if count > 1:
            versions = [branch.facts[fact] for branch in branches if fact in branch.facts]
            texts = tuple(dict.fromkeys(text for v in versions if (text := not_blank(v.text)) is not None))
            old = {body.facts[fact].text for body in before if fact in body.facts}
            texts = tuple(text for text in texts if text not in old)
            values = sorted({v.confidence for v in versions if v.confidence is not None})
            if len(texts) > 1 or len(values) > 1:
                yield Conflict(
                    fact, texts if len(texts) > 1 else (), tuple(values) if len(values) > 1 else ()
                )


def origins(branches: Sequence[Hop]) -> list[Body]:
    """The parents of the branches."""
    return [body for branch in branches for body in branch.parents]


def check_merge(hop: Hop, notes: Notes) -> None:
    """All rules about merges."""
    _check_marks(hop, notes)
    if not hop.is_merge:
        return
    conflicting = list(conflicts(hop.parents, origins(hop.above)))
    for conflict in conflicting:
        fact = conflict.fact
        if conflict.texts:
            message = f"branches give {shown_id(fact)} {len(conflict.texts)} different texts"
            notes.add("M01", message, "facts", fact, fact=fact)
        if conflict.confidences:
            values = ", ".join(f"{value:g}" for value in conflict.confidences)
            notes.add(
                "M02", f"branches give {shown_id(fact)} {values}; the lowest holds", "facts", fact, fact=fact
            )
    if conflicting and not _mentions_conflict(hop):
        notes.add("M06", None, "chain")


def _mentions_conflict(hop: Hop) -> bool:
    """Whether there is any warning, or a new fact or step that mentions a conflict."""
    document = hop.body
    if document.lists is not None and any(text.strip() for text in document.lists.warnings):
        return True
    known = {fact for parent in hop.parents for fact in parent.facts}
    new = [fact.text for fact in document.facts.values() if fact.id not in known]
    old = {(entry.step, entry.agent) for parent in hop.parents for entry in parent.entries}
    done = [entry.action for entry in document.entries if (entry.step, entry.agent) not in old]
    return any(text is not None and _CONFLICT_WORDS.search(text) for text in (*new, *done))


def _check_marks(hop: Hop, notes: Notes) -> None:
    """M04, M05: parallel_merge compared to the trace."""
    document = hop.body
    parallel = sum(entry.parallel for entry in document.entries)
    if document.chain.parallel_merge:
        if parallel < 2:
            notes.add("M04", None, "chain", "parallel_merge")
    elif isinstance(document, Handoff) and _joins(hop):
        notes.add("M05", None, "chain")


def _joins(hop: Hop) -> bool:
    """Whether the document has a parallel step that no parent has."""
    groups = _groups(hop.body)
    joined = {step for parent in hop.parents for step in _groups(parent)}
    return bool(groups - joined)


def _groups(document: Body) -> set[int]:
    """The steps with more than one parallel entry."""
    counted = Counter(entry.step for entry in document.entries if entry.parallel and entry.step is not None)
    return {step for step, count in counted.items() if count > 1}
