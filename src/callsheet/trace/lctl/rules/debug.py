"""Rules about post-mortems (D01-D09): the failed step, its error, and the facts known at the failure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice

from callsheet.trace.lctl.findings import Notes
from callsheet.trace.lctl.ids import shown_id, shown_ids
from callsheet.trace.lctl.model import DebugDocument

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
