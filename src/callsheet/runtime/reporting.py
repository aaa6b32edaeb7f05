"""Builds the report of a journaled run: the viewer's document, and the HTML page that shows it.

In: a journal and a run. Out: data or HTML, rebuilt from the events each time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from itertools import chain, islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import MappingProxyType
from typing import Any, NamedTuple

from callsheet.ir import JSON, Plan
from callsheet.ir.gc_pause import gc_paused
from callsheet.runtime.answers import PendingAsk, misleading_letters, origins
from callsheet.runtime.doubt import DoubtfulCall, doubtful_calls, fold_run, unanswered_calls
from callsheet.runtime.inbox import asks_of
from callsheet.store.errors import require_event
from callsheet.store.events import Event, EventType
from callsheet.store.journal import Journal
from callsheet.store.journal_paths import is_owned, is_special, place_of
from callsheet.store.pauses import pause_of
from callsheet.store.runs import RunInfo
from callsheet.trace.lctl.model import DebugDocument, Handoff
from callsheet.trace.projection.post_mortem import debug_document_of, has_failed
from callsheet.trace.projection.project import handoff_of
from callsheet.trace.projection.recording import record_of
from callsheet.version import VERSION
from callsheet.views.report.build import Recorded, Showing, Waits, document_of
from callsheet.views.report.document import Document
from callsheet.views.report.page import bundle, page_of

MADE_BY = f"callsheet {VERSION}"
INTERRUPTED = "interrupted"
"""The status shown for a run that has not ended and that no process owns."""
_STANDS = (INTERRUPTED, "in_doubt", "paused", "failed", "refused", "cancelled")
_ENTRY = "viewer/main.js"
_STYLES = ("base", "frame", "controls", "steps", "graph", "time", "tables", "narrow")
"""In cascade order: the rules for narrow screens come last."""
_VENDORED = {
    "preact": "preact.js",
    "preact/hooks": "hooks.js",
    "htm": "htm.js",
    "@preact/signals-core": "signals-core.js",
    "@preact/signals": "signals.js",
}
"""The libraries that the viewer imports by name, and their files."""
_DEFAULT = Showing()


class Viewer(NamedTuple):
    """The viewer bundled into one script and one style sheet."""

    script: str
    style: str


def report_document(
    journal: Journal, run: str, made_by: str = MADE_BY, showing: Showing = _DEFAULT, other: str | None = None
) -> Document:
    """The document of a run; `run` and `other`, the run to compare with, are ids or prefixes of ids.

    Raises JournalError: JRN002 for an unknown run, JRN012, JRN015 or JRN020 if events cannot be read.
    """
    with gc_paused(True):  # many rows and no reference cycles
        against = None if other is None else recorded(journal, other)
        return document_of(recorded(journal, run), showing, made_by, against)


def report_page(document: Document) -> str:
    """The HTML page that shows a document."""
    viewer = the_viewer()
    title = f"{document.run['id']} · {document.run['words']} · callsheet"
    return page_of(document.to_json(), title, viewer.script, viewer.style)


def sketch_page(sketch: dict[str, Any], title: str) -> str:
    """The HTML page that shows the graph of a plan, as `views.lanes.sketch` gives it."""
    script = bundle(viewer_modules(), "viewer/graph.js")
    return page_of(sketch, f"{title} · callsheet", script, viewer_style())


def save_page(path: Path, page: str) -> Path:
    """Write a page to a file atomically, or to a pipe or device directly; raises OSError."""
    if is_special(path):
        path.write_text(page, encoding="utf-8")
        return path
    temporary: str | None = None
    try:
        with NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name[:40]}-", delete=False
        ) as file:
            temporary = file.name
            file.write(page)
        os.replace(temporary, path)
    except OSError:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)
        raise
    return path


@cache
def the_viewer() -> Viewer:
    """The installed viewer's script and style."""
    return Viewer(bundle(viewer_modules(), _ENTRY), viewer_style())


def viewer_modules() -> dict[str, str]:
    """The viewer's modules under `viewer/`, and its libraries under the names that imports use."""
    folder = files("callsheet.views").joinpath("viewer")
    vendor = folder.joinpath("vendor")
    modules = {name: vendor.joinpath(file).read_text(encoding="utf-8") for name, file in _VENDORED.items()}
    own = sorted((f for f in folder.iterdir() if f.name.endswith(".js")), key=lambda file: file.name)
    return modules | {f"viewer/{file.name}": file.read_text(encoding="utf-8") for file in own}


def viewer_style() -> str:
    """The viewer's style sheets, joined."""
    styles = files("callsheet.views").joinpath("viewer", "styles")
    return "\n".join(styles.joinpath(f"{name}.css").read_text(encoding="utf-8") for name in _STYLES)


def recorded(journal: Journal, run: str) -> Recorded:
    """Everything that a run's document is made of, read once."""
    info = journal.find_run(run)
    rows = list(journal.events(info.run_id))
    entries = list(journal.entries(info.run_id))
    plans = _plans(journal, info, rows)
    is_left = str(info.status) == "running" and not is_owned(place_of(journal.path), info.run_id)
    status = INTERRUPTED if is_left else str(info.status)
    return Recorded(
        info,
        journal.names(info).name,
        status,
        rows,
        entries,
        plans,
        journal.verify(info.run_id),
        [_ask(a) for a in asks_of(journal, info.run_id)],
        [_doubt(call) for call in _doubts(journal, info, status, plans)],
        pause_of(journal, info),
    )


def _plans(journal: Journal, info: RunInfo, rows: list[Event]) -> dict[str, tuple[Plan, str]]:
    hashes = (str((row.body or {}).get("plan", "")) for row in rows if row.type is EventType.PLAN)
    return {name: journal.plan(name) for name in dict.fromkeys(chain([info.plan_hash], hashes)) if name}


def _doubts(
    journal: Journal, info: RunInfo, status: str, plans: dict[str, tuple[Plan, str]]
) -> tuple[DoubtfulCall, ...]:
    if status not in _STANDS:
        return ()
    folded = fold_run(journal, info.run_id, plans[info.plan_hash][0])
    return (*doubtful_calls(folded), *(unanswered_calls(folded) if status == INTERRUPTED else ()))


def _ask(ask: PendingAsk) -> Waits:
    given: JSON = None if ask.args is None else {**ask.args}
    if ask.inputs:
        args = ask.args or {}
        given = {"(inputs)" if "inputs" in args else "inputs": [*ask.inputs], **args}
    return Waits(
        ask.key,
        ask.step,
        ask.kind,
        ask.tool,
        ask.since,
        ask.until,
        ask.prompt,
        given,
        ask.options,
        ask.reasons,
        ask.digest,
        ask.is_answered,
        ask.answer,
        (*origins(ask), *misleading_letters(ask)),
        ask.role,
        ask.site,
    )


def _doubt(call: DoubtfulCall) -> Waits:
    return Waits(call.key, call.step, "doubt", call.tool, call.since, None, call.why, dict(call.args))


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
        require_event(at, info.events)
        events = islice(events, at)
    record = record_of(plan, events, journal.plan_of, with_items=with_items)
    wanted = has_failed(record) and at is None if debug is None else debug
    if wanted:
        return debug_document_of(record, info.run_id, by_tool)
    return handoff_of(record, info.run_id, at if isinstance(at, str) else None, by_tool)
