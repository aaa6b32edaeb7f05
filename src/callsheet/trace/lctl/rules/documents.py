"""Rules about one document, an ack and what it acknowledges, a post-mortem, and confidence on receipt."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise

from callsheet.trace.lctl.confidence import (
    BLOCK_BELOW,
    FLAG_BELOW,
    Confidence,
    Hop,
    is_blocked,
    is_flagged,
    needs_review,
)
from callsheet.trace.lctl.findings import Notes
from callsheet.trace.lctl.model import (
    SHORT_ID,
    Ack,
    Body,
    DebugDocument,
    Entry,
    Fact,
    not_blank,
    shown_id,
    shown_ids,
)


def check_step(document: Body, notes: Notes) -> None:
    """C06, C07, C08: the document's step against the highest of its trace."""
    step, highest = document.chain.step, document.highest_step
    if step is None or highest is None or step == highest:
        return
    message = f"chain.step is {step}, the highest step of the trace {highest}"
    rule = "C06" if step < highest else "C08" if step == highest + 1 else "C07"
    notes.add(rule, message, "chain", "step")


def check_order(document: Body, notes: Notes) -> None:
    """T05, T06, T07: the order of the steps."""
    numbered = [(place, entry.step) for place, entry in enumerate(document.entries) if entry.step is not None]
    if numbered and numbered[0][1] != 1:
        notes.add("T06", f"the trace begins at step {numbered[0][1]}", "trace", numbered[0][0], "step")
    for (_, before), (place, step) in pairwise(numbered):
        if step < before:
            notes.add("T05", f"step {step} comes after step {before}", "trace", place, "step")
        elif step > before + 1:
            notes.add("T06", f"step {step} follows step {before}", "trace", place, "step")
    together: defaultdict[int, list[int]] = defaultdict(list)
    for place, step in numbered:
        together[step].append(place)
    for step, places in together.items():
        alone = [place for place in places if not document.entries[place].parallel]
        if len(places) > 1 and alone:
            notes.add(
                "T07", f"step {step} occurs {len(places)} times without parallel: true on each",
                "trace", alone[0],
            )  # fmt: skip


def check_writers(document: Body, notes: Notes) -> None:
    """T08, T09, T10, T11, T12, V08: the entries that add and modify facts."""
    if document.trace is None:
        return
    added: dict[str, int] = {}
    last: dict[str, Entry] = {}
    for place, entry in enumerate(document.trace):
        for fact in dict.fromkeys(entry.facts_added):
            if fact in added:
                message = f"{shown_id(fact)} was added by entry {added[fact] + 1} already"
                notes.add("T08", message, "trace", place, "facts_added", fact=fact)
            added.setdefault(fact, place)
        for fact in dict.fromkeys(entry.facts_modified):
            if fact not in added:
                message = f"{shown_id(fact)} is modified before an entry adds it"
                notes.add("T09", message, "trace", place, "facts_modified", fact=fact)
        for fact in entry.written:
            last[fact] = entry
        _check_known(document, entry, place, notes)
    for fact in document.facts.values():
        if fact.id not in added:
            notes.add(
                "T11", f"no entry of the trace added {shown_id(fact.id)}", "facts", fact.id, fact=fact.id
            )
        if fact.id in last:
            _check_writer(fact, last[fact.id], notes)


def _check_known(document: Body, entry: Entry, place: int, notes: Notes) -> None:
    if "facts" in document.extra:
        return
    missing = [fact for fact in dict.fromkeys(entry.written) if fact not in document.facts]
    for fact in missing:
        message = f"the trace names {shown_id(fact)}, which is not in the registry"
        notes.add("T10", message, "trace", place, fact=fact)


def _check_writer(fact: Fact, writer: Entry, notes: Notes) -> None:
    wrong: list[str] = []
    if fact.source is not None and fact.source != writer.agent:
        wrong.append(f"source is {fact.source[:40]!r}, the last writer {(writer.agent or 'nobody')[:40]!r}")
    if fact.step is not None and fact.step != writer.step:
        wrong.append(f"step is {fact.step}, that of the last writer {writer.step or 'unknown'}")
    if wrong:
        notes.add("T12", f"{shown_id(fact.id)}: {'; '.join(wrong)}", "facts", fact.id, fact=fact.id)
    stated, of_step = fact.confidence, writer.confidence
    if stated is not None and of_step is not None and stated > of_step:
        message = f"{shown_id(fact.id)} has {stated:g}, the step that wrote it {of_step:g}"
        notes.add("V08", message, "facts", fact.id, "confidence", fact=fact.id)


def check_failures(document: Body, notes: Notes) -> None:
    """T14: a failed step with a confidence."""
    for place, entry in enumerate(document.entries):
        if entry.has_error and entry.confidence is not None and entry.confidence > 0:
            message = f"the entry has an error and a confidence of {entry.confidence:g}"
            notes.add("T14", message, "trace", place, "confidence")


def check_facts(document: Body, notes: Notes) -> None:
    """F03, F04, F05: ids, sources and steps of facts."""
    steps = [step for step in (document.chain.step, document.highest_step) if step is not None]
    now = max(steps, default=None)
    for fact in document.facts.values():
        if not SHORT_ID.fullmatch(fact.id):
            message = f"{shown_id(fact.id)} is not a short identifier"
            notes.add("F03", message, "facts", fact.id, fact=fact.id)
        if not document.is_minimal and (fact.source is None or fact.step is None):
            lacks = " and no ".join(
                name for name, value in (("source", fact.source), ("step", fact.step)) if value is None
            )
            notes.add("F04", f"{shown_id(fact.id)} has no {lacks}", "facts", fact.id, fact=fact.id)
        if fact.step is not None and now is not None and fact.step > now:
            message = f"{shown_id(fact.id)} is of step {fact.step}, the document of step {now}"
            notes.add("F05", message, "facts", fact.id, "step", fact=fact.id)


def check_lists(document: Body, notes: Notes) -> None:
    """H01, H02, H03, H04: the ids in the lists of the hand-off and of the trace, compared to the facts."""
    lists = document.lists
    if lists is not None:
        for rule, key, ids in (
            ("H01", "critical_facts", lists.critical),
            ("H02", "context_facts", lists.context),
        ):
            for fact in dict.fromkeys(ids):
                if fact not in document.facts and "facts" not in document.extra:
                    notes.add(rule, f"{shown_id(fact)} is not in the registry", "handoff", key, fact=fact)
            check_twice(ids, notes, "handoff", key)
        context = frozenset(lists.context)
        for fact in dict.fromkeys(lists.critical):
            if fact in context:
                message = f"{shown_id(fact)} is both critical and context"
                notes.add("H03", message, "handoff", "context_facts", fact=fact)
    for place, entry in enumerate(document.entries):
        check_twice(entry.facts_added, notes, "trace", place, "facts_added")
        check_twice(entry.facts_modified, notes, "trace", place, "facts_modified")


def check_twice(ids: tuple[str, ...], notes: Notes, *path: str | int) -> None:
    """H04: an id that occurs twice in a list of facts."""
    for fact, count in Counter(ids).items():
        if count > 1:
            notes.add("H04", f"{shown_id(fact)} occurs {count} times", *path, fact=fact)


STATUSES = ("received",)


def check_status(ack: Ack, notes: Notes) -> None:
    """A07: the only status that the specification has, in any case of letters as that of a chain."""
    status = not_blank(ack.status)
    if status is not None and status.casefold() not in STATUSES:
        notes.add("A07", f"the status {status[:40]!r} is unknown", "lctl_ack", "status")


def check_ack(ack: Ack, hop: Hop, notes: Notes) -> None:
    """A01-A06 and H04: the ack compared to the document that it acknowledges.

    An ack that is no mapping has been reported as such, and names nothing to compare.
    """
    if "lctl_ack" in ack.beside:
        return
    chain = hop.body.chain
    ours, theirs = not_blank(ack.chain_id), not_blank(chain.id)
    if ours is not None and theirs not in (None, ours):
        message = f"the ack is of chain {ours[:40]!r}, the document of {theirs!r:.42}"
        notes.add("A01", message, "lctl_ack", "chain_id")
    if ack.step is not None and chain.step is not None and ack.step - chain.step not in (0, 1):
        message = f"the ack is of step {ack.step}, the document of step {chain.step}"
        notes.add("A02", message, "lctl_ack", "step")
    agent, target = not_blank(ack.agent), not_blank(chain.target)
    if agent is not None and target not in (None, agent):
        message = f"the ack is of {agent[:40]!r}, the document for {target!r:.42}"
        notes.add("A03", message, "lctl_ack", "agent")
    check_twice(ack.facts_loaded or (), notes, "lctl_ack", "facts_loaded")
    check_twice(ack.confidence_concerns or (), notes, "lctl_ack", "confidence_concerns")
    _check_facts(ack, hop, notes)


def _check_facts(ack: Ack, hop: Hop, notes: Notes) -> None:
    document = hop.body
    if "facts_loaded" not in ack.extra:
        loaded = dict.fromkeys(ack.facts_loaded or ())
        for fact in document.critical:
            if fact not in loaded and fact in document.facts:
                notes.add(
                    "A04",
                    f"the critical fact {shown_id(fact)} was not loaded",
                    "lctl_ack",
                    "facts_loaded",
                    fact=fact,
                )
        for fact in loaded:
            if fact not in document.facts:
                notes.add("A05", f"{shown_id(fact)} was not sent", "lctl_ack", "facts_loaded", fact=fact)
    if "confidence_concerns" not in ack.extra:
        concerns = frozenset(ack.confidence_concerns or ())
        for fact in document.critical:
            if fact in document.facts and is_flagged(hop.effective.get(fact)) and fact not in concerns:
                message = f"{shown_id(fact)} is below 0.70 or unknown, and no concern of the ack"
                notes.add("A06", message, "lctl_ack", "confidence_concerns", fact=fact)


_MOST_NAMED = 5


def check_debug(document: DebugDocument, notes: Notes) -> None:
    """All rules about a post-mortem."""
    _check_failed_step(document, notes)
    _check_known_then(document, notes)
    if document.chain.has_failed and document.analysis is None and "analysis" not in document.extra:
        notes.add("D07", None, "chain")
    for place, entry in enumerate(document.entries):
        if entry.has_error and not document.chain.has_failed:
            notes.add("D08", None, "trace", place, "error")
        if entry.duration_ms is None:
            notes.add("D09", None, "trace", place)


def _check_failed_step(document: DebugDocument, notes: Notes) -> None:
    chain = document.chain
    failed = chain.failed_at_step
    if failed is None:
        if chain.has_failed and "failed_at_step" not in chain.extra:
            notes.add("D02", None, "chain", "status")
        return
    places = [place for place, entry in enumerate(document.entries) if entry.step == failed]
    if not places:
        notes.add("D01", f"no entry of the trace has step {failed}", "chain", "failed_at_step")
    elif not any(document.entries[place].has_error for place in places):
        notes.add("D03", f"the entry of step {failed} has no error", "trace", places[0])


def _check_known_then(document: DebugDocument, notes: Notes) -> None:
    """D04, D05, D06: the facts_at_failure of entries, compared to the facts added until then."""
    beside: defaultdict[int | None, set[str]] = defaultdict(set)
    for entry in document.entries:
        beside[entry.step].update(entry.facts_added)
    before: dict[str, None] = {}
    now: list[str] = []
    added: set[str] = set()
    step: int | None = None
    for place, entry in enumerate(document.entries):
        if entry.step is None or entry.step != step:
            before.update(dict.fromkeys(now))
            now, step = [], entry.step
        now.extend(entry.facts_added)
        added.update(entry.facts_added)
        if entry.facts_at_failure is not None:
            maybe = (added, beside[entry.step] if entry.step is not None else added)
            _check_claim(document, place, before, maybe, notes)


def _check_claim(
    document: DebugDocument, place: int, before: Iterable[str], maybe: Sequence[set[str]], notes: Notes
) -> None:
    """Check the facts_at_failure of an entry: all of `before` must be in it, others only from `maybe`."""
    path = ("trace", place, "facts_at_failure")
    claimed = dict.fromkeys(document.entries[place].facts_at_failure or ())
    for fact in claimed:
        if not any(fact in known for known in maybe):
            notes.add("D04", f"{shown_id(fact)} had not been added by then", *path, fact=fact)
        if fact not in document.facts and "facts" not in document.extra:
            notes.add("D06", f"{shown_id(fact)} is not in the registry", *path, fact=fact)
    left_out = list(islice((fact for fact in before if fact not in claimed), _MOST_NAMED + 1))
    if left_out:
        names = shown_ids(left_out[:_MOST_NAMED])
        more = " and others" if len(left_out) > _MOST_NAMED else ""
        notes.add("D05", f"{names}{more} were known by then, and are left out", *path, fact=left_out[0])


def check_worth(hop: Hop, notes: Notes) -> None:
    """V03-V07, V10: the facts that are listed, and those that are not."""
    document = hop.body
    handed_on, critical = frozenset(document.handed_on), frozenset(document.critical)
    for fact in document.facts.values():
        value = hop.effective.get(fact.id)
        if value is None:
            continue
        shown = f"{shown_id(fact.id)} is {_fact_text(fact, value)}"
        path = ("facts", fact.id, "confidence")
        if fact.id in critical and value < FLAG_BELOW:
            notes.add("V03", f"the critical fact {shown}", *path, fact=fact.id)
        if fact.id in handed_on:
            _check_handed_on(fact, value, shown, notes)
        elif value < BLOCK_BELOW:
            notes.add("V10", f"{shown}; it is kept, and not handed on", *path, fact=fact.id)


def _check_handed_on(fact: Fact, value: float, shown: str, notes: Notes) -> None:
    path = ("facts", fact.id, "confidence")
    if is_blocked(value):
        notes.add("V05", f"{shown}: do not propagate", *path, fact=fact.id)
    elif needs_review(value):
        notes.add("V04", f"{shown}: human review", *path, fact=fact.id)
    elif value < 0.80:
        notes.add("V07", f"{shown}: verify before acting", *path, fact=fact.id)
    elif value < 0.95 and fact.source is None:
        notes.add("V06", f"{shown} and has no source", *path, fact=fact.id)


def _fact_text(fact: Fact, value: Confidence) -> str:
    if fact.confidence is not None and value is not None and value < fact.confidence:
        return f"{value:g} (it says {fact.confidence:g})"
    return f"{value:g}"


def check_derived(hop: Hop, notes: Notes) -> None:
    """V09: a derived fact with a higher confidence than one that it derives from."""
    for fact in hop.body.facts.values():
        known = [
            (value, parent)
            for parent in fact.derived_from
            if parent != fact.id and (value := hop.effective.get(parent)) is not None
        ]
        if known and fact.confidence is not None and fact.confidence > min(known)[0]:
            value, parent = min(known)
            source = f"{shown_id(parent)} with {value:g}"
            message = f"{shown_id(fact.id)} has {fact.confidence:g}, and derives from {source}"
            notes.add("V09", message, "facts", fact.id, "confidence", fact=fact.id)
