"""Rules about post-mortems (D01-D09): the failed step, its error, what was known then."""

from __future__ import annotations

from callsheet.trace.lctl.findings import Notes
from callsheet.trace.lctl.model import DebugDocument


def check_debug(document: DebugDocument, notes: Notes) -> None:
    """All rules about a post-mortem."""
    _check_failed_step(document, notes)
    _check_known_then(document, notes)
    if document.chain.has_failed and document.analysis is None and "analysis" not in document.extra:
        notes.add("D07", None, "chain")
    for place, entry in enumerate(document.entries):
        if entry.error is not None and not document.chain.has_failed:
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
    elif all(document.entries[place].error is None for place in places):
        notes.add("D03", f"the entry of step {failed} has no error", "trace", places[0])


def _check_known_then(document: DebugDocument, notes: Notes) -> None:
    """D04, D05, D06: what entries say was known when they failed, against what had been added."""
    for place, entry in enumerate(document.entries):
        if entry.facts_at_failure is None:
            continue
        before, with_it = _known_at(document, place)
        path = ("trace", place, "facts_at_failure")
        claimed = dict.fromkeys(entry.facts_at_failure)
        for fact in claimed:
            if fact not in with_it:
                notes.add("D04", f"nobody had added {fact[:40]} by then", *path, fact=fact)
            if fact not in document.facts and "facts" not in document.extra:
                notes.add("D06", f"{fact[:40]} is not in the registry", *path, fact=fact)
        for fact in before:
            if fact not in claimed:
                notes.add("D05", f"{fact[:40]} was known by then, and is left out", *path, fact=fact)


def _known_at(document: DebugDocument, place: int) -> tuple[dict[str, None], frozenset[str]]:
    """The facts that were surely known when an entry failed, and all that may have been.

    What the entry itself and those beside it added may have been known.
    """
    step = document.entries[place].step
    before: dict[str, None] = {}
    maybe: set[str] = set()
    for other, entry in enumerate(document.entries):
        is_beside = other == place or (step is not None and entry.step == step)
        if other < place and not is_beside:
            before.update(dict.fromkeys(entry.facts_added))
        if other <= place or is_beside:
            maybe.update(entry.facts_added)
    return before, frozenset(maybe)
