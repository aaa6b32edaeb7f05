"""Rules about one document: its step and its trace (C06-C08, T05-T14), ids and steps of facts (F03-F05)."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from callsheet.trace.lctl.findings import Notes
from callsheet.trace.lctl.ids import SHORT_ID, shown_id
from callsheet.trace.lctl.model import Body, Entry, Fact


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
