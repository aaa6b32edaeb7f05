"""Exports a journaled run as an LCTL document (hand-off or post-mortem).

In: a journal and a run. Out: its document, rebuilt from its events each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType

from callsheet.store.errors import JournalError
from callsheet.store.journal import Journal
from callsheet.trace.lctl.model import DebugDocument, Handoff
from callsheet.trace.projection.post_mortem import debug_document_of, has_failed
from callsheet.trace.projection.project import handoff_of
from callsheet.trace.projection.recording import record_of

_NO_VALUES: Mapping[str, float] = MappingProxyType({})


def lctl_of(
    journal: Journal,
    run_id: str,
    at: str | int | None = None,
    *,
    debug: bool | None = None,
    with_items: bool = False,
    by_tool: Mapping[str, float] = _NO_VALUES,
) -> Handoff | DebugDocument:
    """The document of a run in its current state, or after the step or event number `at`.

    `debug` chooses between a post-mortem and a hand-off; the default is a post-mortem for a failed run unless
    `at` is given. `with_items` lists the results of a FOREACH one by one. `by_tool` is the confidence in
    tools' results, from 0 to 1 by canonical name. Raises CallsheetError: JRN002 for an unknown run, JRN012,
    JRN015 or JRN020 if its events cannot be read, RUN060 for a step that it has not done, JRN041 for an
    unknown event.
    """
    info = journal.find_run(run_id)
    plan = journal.plan_of(info.plan_hash)
    events = journal.events(info.run_id)
    if isinstance(at, int):
        if not 1 <= at <= info.events:
            raise JournalError(
                "JRN041", f"the run has no event {at}", f"its events have the numbers 1 to {info.events}"
            )
        events = islice(events, at)
    record = record_of(plan, events, journal.plan_of, with_items=with_items)
    wanted = has_failed(record) and at is None if debug is None else debug
    if wanted:
        return debug_document_of(record, info.run_id, by_tool)
    return handoff_of(record, info.run_id, at if isinstance(at, str) else None, by_tool)
