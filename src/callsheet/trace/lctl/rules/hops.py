"""Rules from hop to hop, and about merges of parallel branches: what a document keeps of its parents."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from callsheet import lazy
from callsheet.trace.lctl.confidence import Hop, modified_since
from callsheet.trace.lctl.findings import Notes
from callsheet.trace.lctl.model import (
    Body,
    DebugDocument,
    Entry,
    Fact,
    Handoff,
    alike,
    not_blank,
    shown_id,
    shown_name,
)

_MOST_CANDIDATES = 50
"""The number of entries with one step and agent among which an equal one is searched."""


def check_ids(hop: Hop, notes: Notes) -> None:
    """F03: ids that read like others of the document or of its parents."""
    known = dict.fromkeys(fact for parent in hop.parents for fact in parent.facts)
    new = [fact for fact in hop.body.facts if fact not in known]
    for fact, other in alike(new, known):
        message = f"{shown_id(fact)} reads like {shown_id(other)}, and is another fact"
        notes.add("F03", message, "facts", fact, fact=fact)


def check_hop(hop: Hop, notes: Notes) -> None:
    """All rules about a document and its parents."""
    if not hop.parents:
        return
    _check_chain(hop, notes)
    _check_trace(hop, notes)
    _check_critical(hop, notes)
    _check_facts(hop, notes)


# ---------------------------------------------------------------- chain


def _check_chain(hop: Hop, notes: Notes) -> None:
    chain = hop.body.chain
    for before in (parent.chain for parent in hop.parents):
        was, is_now = not_blank(before.id), not_blank(chain.id)
        if was is not None and is_now is not None and is_now != was:
            notes.add("X01", f"the chain was {was[:40]!r}, and is {is_now[:40]!r}", "chain", "id")
            break
    steps = [parent.chain.step for parent in hop.parents if parent.chain.step is not None]
    if steps and chain.step is not None:
        if chain.step <= max(steps):
            notes.add("X02", f"chain.step is {chain.step} after {max(steps)}", "chain", "step")
        elif chain.step > max(steps) + 1:
            notes.add("X03", f"chain.step is {chain.step} after {max(steps)}", "chain", "step")
    for before in (parent.chain for parent in hop.parents):
        addressed, source = not_blank(before.target), not_blank(chain.source)
        if addressed is not None and source is not None and source != addressed:
            message = f"{addressed[:40]!r} was addressed, {source[:40]!r} hands on"
            notes.add("X10", message, "chain")
            break


# ---------------------------------------------------------------- trace


def _check_trace(hop: Hop, notes: Notes) -> None:
    """X04 or M07, X05, X06: whether the trace has the entries of the parents, unchanged."""
    if hop.body.is_minimal:
        return
    for parent in hop.parents:
        entries_of: defaultdict[tuple[int | None, str | None], list[tuple[int, Entry]]] = defaultdict(list)
        for place, entry in enumerate(hop.body.entries):
            entries_of[entry.step, entry.agent].append((place, entry))
        for entry in parent.entries:
            same = entries_of[entry.step, entry.agent]
            if not same:
                message = f"step {entry.step} of {shown_name(entry.agent or 'nobody')} is gone from the trace"
                notes.add("M07" if hop.is_merge else "X04", message, "trace")
                continue
            best = next((n for n, (_, now) in enumerate(same[:_MOST_CANDIDATES]) if now == entry), 0)
            place, now = same.pop(best)
            _check_entry(entry, now, place, notes)


def _check_entry(before: Entry, now: Entry, place: int, notes: Notes) -> None:
    who = f"step {now.step} of {shown_name(now.agent or 'nobody')}"
    if before.action != now.action:
        notes.add("X05", f"{who} is reworded", "trace", place, "action")
    changed = [
        name
        for name, one, other in (
            ("confidence", before.confidence, now.confidence),
            ("facts_added", set(before.facts_added), set(now.facts_added)),
            ("facts_modified", set(before.facts_modified), set(now.facts_modified)),
            ("facts_at_failure", set(before.facts_at_failure or ()), set(now.facts_at_failure or ())),
        )
        if one != other
    ]
    if changed:
        notes.add("X06", f"{who} was rewritten: {', '.join(changed)}", "trace", place)


# ---------------------------------------------------------------- facts


def lost_facts(hop: Hop) -> list[str]:
    """The facts that a parent carries as critical and the document does not carry at all."""
    if "facts" in hop.body.extra:
        return []
    return list(
        dict.fromkeys(
            fact
            for parent in hop.parents
            for fact in parent.critical
            if fact in parent.facts and fact not in hop.body.facts
        )
    )


def _check_critical(hop: Hop, notes: Notes) -> None:
    """X07 or M03, X08, X09: facts of the parents that are lost, no longer critical or dropped."""
    document = hop.body
    lost = lost_facts(hop)
    for fact in lost:
        message = f"the critical fact {shown_id(fact)} is lost"
        notes.add("M03" if hop.is_merge else "X07", message, "facts", fact=fact)
    critical, handed_on = frozenset(document.critical), frozenset(document.handed_on)
    was_critical = dict.fromkeys(fact for parent in hop.parents for fact in parent.critical)
    for fact in was_critical:
        if fact in document.facts and fact not in critical and not isinstance(document, DebugDocument):
            place = "context" if fact in handed_on else "on no list"
            notes.add("X08", f"{shown_id(fact)} was critical, and is {place}", "handoff", fact=fact)
    if "facts" in document.extra:
        return
    for fact in dict.fromkeys(fact for parent in hop.parents for fact in parent.facts):
        if fact not in document.facts and fact not in was_critical:
            notes.add("X09", f"{shown_id(fact)} was dropped", "facts", fact=fact)


def _check_facts(hop: Hop, notes: Notes) -> None:
    modified = modified_since(hop.body, hop.parents)
    for fact in hop.body.facts.values():
        before = [parent.facts[fact.id] for parent in hop.parents if fact.id in parent.facts]
        if before:
            if fact.id not in modified:
                _check_unlisted_changes(fact, before, notes)
            _check_value(fact, before, fact.id in modified, notes)


def _check_unlisted_changes(fact: Fact, before: list[Fact], notes: Notes) -> None:
    """X11, X12: parts that changed without facts_modified; each may be that of any parent."""
    path = ("facts", fact.id)
    said = not_blank(fact.text)
    if said is not None and all(not_blank(old.text) not in (None, said) for old in before):
        text = f"the text of {shown_id(fact.id)} changed without facts_modified"
        notes.add("X11", text, *path, "text", fact=fact.id)
    for name in ("source", "step"):
        value = getattr(fact, name)
        if value is not None and all(getattr(old, name) not in (None, value) for old in before):
            text = f"the {name} of {shown_id(fact.id)} changed without facts_modified"
            notes.add("X12", text, *path, name, fact=fact.id)


def raised_facts(document: Body, parents: tuple[Body, ...]) -> frozenset[str]:
    """The facts whose value is above what any parent stated, with an entry that lists them as modified."""
    modified = modified_since(document, parents)
    return frozenset(
        fact.id
        for fact in document.facts.values()
        if fact.id in modified and _is_raised(fact, [p.facts[fact.id] for p in parents if fact.id in p.facts])
    )


def _is_raised(fact: Fact, before: list[Fact]) -> bool:
    known = [old.confidence for old in before if old.confidence is not None]
    return fact.confidence is not None and bool(known) and fact.confidence > max(known)


def _check_value(fact: Fact, before: list[Fact], is_modified: bool, notes: Notes) -> None:
    """X13, X14, X15: stated confidences that have risen or fallen."""
    known = [old.confidence for old in before if old.confidence is not None]
    if fact.confidence is None or not known:
        return
    path = ("facts", fact.id, "confidence")
    if _is_raised(fact, before):
        message = f"{shown_id(fact.id)} rose from {max(known):g} to {fact.confidence:g}"
        notes.add("X14" if is_modified else "X13", message, *path, fact=fact.id)
    elif fact.confidence < min(known):
        message = f"{shown_id(fact.id)} sank from {min(known):g} to {fact.confidence:g}"
        notes.add("X15", message, *path, fact=fact.id)


_CONFLICT_WORDS = lazy.pattern(r"conflict|contradict|differ|disagree|mismatch|inconsisten", re.IGNORECASE)


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
