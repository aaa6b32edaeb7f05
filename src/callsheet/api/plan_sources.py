"""Where the plan of a run comes from, a file or the library, and whether it has changed since.

In: a library, the id of a plan, the plan of the run; or a journal and a run that knows where its plan is.
Out: nothing, or an error that lists the differences. A run always continues with its own plan; a user who
has edited the plan may expect the current one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from callsheet.api.plan import Plan
from callsheet.api.texts import read_text, text_hash
from callsheet.diagnostics import CallsheetError, Source
from callsheet.frontends.spelling import Syntax, read_plan_text
from callsheet.ir import JSON, Order, Step
from callsheet.ir import Plan as Steps
from callsheet.ir.diff import Part, Piece, PieceDiff, PlanDiff, StepDiff, TreeDiff, diff_plans
from callsheet.store import Journal, JournalError
from callsheet.store.library import PlanLibrary, StoredPlan, library_at
from callsheet.store.writer import RunStatus

if TYPE_CHECKING:
    from callsheet.views.describe import Wording

_OF_THE_HEAD = frozenset({Part.ORDER, Part.VARIABLE, Part.VARIABLE_ORDER})
_MOST_SHOWN = 5


def check_unchanged(library: PlanLibrary, plan_id: str, original: Steps) -> None:
    """Raise CallsheetError (PLN029) if the library now has a different plan under this id.

    Differences in titles, goals and ids do not count, nor does a plan that is no longer there.
    """
    if plan_id in library.ids():
        check_same(plan_id, original, library.load(plan_id).result.plan)


def library_note(stored: StoredPlan) -> dict[str, JSON]:
    """What a run records of the library that its plan came from, for the same purpose."""
    return {"id": stored.id, "at": stored.library, "sha256": text_hash(stored.text)}


def check_file(journal: Journal, run_id: str) -> None:
    """Raise JournalError (JRN024) if a run's plan has changed since the run began, in its file or library.

    Edits that leave the plan the same do not count, nor does a file, plan or library that is no longer there.
    A run that ended for good is not checked by `resume`, since nothing of its plan is executed any more.
    """
    body = _start_of(journal, run_id)
    edited = _edited(body)
    if edited is None:
        return
    original = journal.plan_of(journal.find_run(run_id).plan_hash)
    try:
        now = edited.read(inputs=[*(body.get("inputs") or {})]).ir
        if now.tree is not None:
            from callsheet.ir.sagas import named_in, with_undo  # noqa: PLC0415 - version 1 does without

            now = with_undo(now, named_in(original))
        changes = list(_differences(diff_plans(original, now), details=True))
    except CallsheetError:
        changes = ["it has errors now"]
    if changes:
        kept = "" if original.tree is None else f"with the finished calls kept: --plan {edited.argument}; "
        raise JournalError(
            "JRN024",
            f"{edited.name} was edited after run {run_id} began: {_listed(changes)}",
            hint=f"to continue with the plan as it was: --as-recorded (as_recorded); to run it as it is now, "
            f"{kept}from the beginning: callsheet run {edited.argument}",
        )


def edited_file(journal: Journal, run_id: str) -> str | None:
    """The file or the id in the library of a run's plan, if its text has changed since the run began."""
    edited = _edited(_start_of(journal, run_id))
    return None if edited is None else edited.argument


class RecordedText(NamedTuple):
    """The text that a run's plan has in the journal, read again for the places in it."""

    plan: Steps | None
    """The plan with its places, None if this version cannot read the text."""
    source: Source
    """The text under the name of its file, or named as that of the run if no file is known to have it."""
    path: Path | None
    """The file that has exactly this text."""


def recorded_text(journal: Journal, run_id: str) -> RecordedText:
    """The text of a run's plan; if it is not that of the file now, its name says that it is the run's."""
    info = journal.find_run(run_id)
    return text_of_run(run_id, info.name, journal.plan(info.plan_hash)[1], _start_of(journal, run_id))


def text_of_run(run_id: str, name: str | None, text: str, start: Mapping[str, Any]) -> RecordedText:
    """The same of a run that may not be in a journal yet: its id, name, text and first event."""
    launch: dict[str, Any] = dict(start.get("launch") or {})
    note: dict[str, Any] = dict(launch.get("file") or {})
    is_own = not note and not launch.get("library")
    is_edited = is_own or _edited(start) is not None
    title = name or "plan"
    source = Source(f"{title} of run {run_id}" if is_edited else title, text)
    syntax = Syntax(note["syntax"]) if note.get("syntax") else None
    read = read_plan_text(text, source.name, syntax, variables=tuple(start.get("inputs") or ()))
    path = Path(note["path"]) if note.get("path") and not is_edited else None
    return RecordedText(read.result.plan, source, path)


def _start_of(journal: Journal, run_id: str) -> Mapping[str, Any]:
    first = next(iter(journal.events(run_id, lenient=True)), None)
    return {} if first is None or first.body is None else first.body


def _edited(start: Mapping[str, Any]) -> _Edited | None:
    launch: dict[str, Any] = dict(start.get("launch") or {})
    return _edited_file(launch.get("file") or {}) or _edited_in_library(launch.get("library") or {})


class _Edited(NamedTuple):
    """Where a plan comes from whose text has changed: its name, and how `callsheet run` names it."""

    name: str
    argument: str
    read: Callable[..., Plan]
    """Reads the plan as it is now; `inputs` are the names of the run's variables."""


def _edited_file(note: Mapping[str, Any]) -> _Edited | None:
    path, syntax = str(note.get("path", "")), note.get("syntax")
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            text = read_text(file, path, "")
    except (OSError, CallsheetError):
        return None
    if text_hash(text) == note.get("sha256"):
        return None
    return _Edited(path, path, partial(Plan.load, path, syntax=syntax))


def _edited_in_library(note: Mapping[str, Any]) -> _Edited | None:
    plan_id, place = str(note.get("id", "")), str(note.get("at", ""))
    if not plan_id or not place:
        return None
    try:
        library = library_at(place)
        stored = library.load(plan_id) if library is not None and plan_id in library.ids() else None
    except CallsheetError:
        return None
    if stored is None or text_hash(stored.text) == note.get("sha256"):
        return None
    return _Edited(
        f"the plan {plan_id} of the library",
        plan_id,
        partial(Plan.parse, stored.text, syntax=stored.syntax.value),
    )


def continues(journal: Journal, run_id: str) -> bool:
    """Whether `resume` may execute steps of this run: it has not ended, or is a graph that has failed."""
    info = journal.find_run(run_id)
    if not info.status.is_final:
        return True
    return info.status is RunStatus.FAILED and journal.plan_of(info.plan_hash).order is Order.DAG


def _listed(changes: Sequence[str]) -> str:
    more = f" and {len(changes) - _MOST_SHOWN} more" if len(changes) > _MOST_SHOWN else ""
    return f"{', '.join(changes[:_MOST_SHOWN])}{more}"


def check_same(plan_id: str, original: Steps, stored: Steps | None) -> None:
    """Like `check_unchanged`, given the plan that is kept under the id; None if it could not be parsed."""
    changes = ["it has errors now"] if stored is None else list(_differences(diff_plans(original, stored)))
    if changes:
        raise CallsheetError.single(
            "PLN029",
            f"the plan {plan_id} has changed since its run started: {_listed(changes)}",
            help="--accept-changed-plan (accept_changed_plan=True) continues with the original plan;"
            f" `callsheet plan run {plan_id}` runs the current one",
        )


def _differences(diff: PlanDiff | TreeDiff, *, details: bool = False) -> Iterator[str]:
    """The differences that change what is executed; `details` says which parts of the steps differ."""
    for change in diff.head:
        if change.part in _OF_THE_HEAD:
            yield "what its order means" if change.part is Part.ORDER else f"variable {change.name}"
    was = now = None
    if isinstance(diff, TreeDiff):
        from callsheet.views.tree_diff import sides_of  # noqa: PLC0415 - for plans with blocks

        was, now = (side.words for side in sides_of(diff))
    for step in diff.different():
        yield _of_step(step, was, now, details=details)


def _of_step(step: StepDiff | PieceDiff, was: Wording | None, now: Wording | None, *, details: bool) -> str:
    if step.new is None:
        return f"{_name(step.old, was)} is gone" if step.old is not None else ""
    if step.old is None:
        return f"{_name(step.new, now)} is new"
    parts = [str(c.part) if c.name is None else f"{c.part} {c.name}" for c in step.changes if details]
    if step.moved and details:
        parts.append("its place")
    name = _name(step.new, now)
    return f"{name} ({', '.join(parts[:_MOST_SHOWN])})" if parts else name


def _name(step: Step | Piece, words: Wording | None) -> str:
    if isinstance(step, Piece) and words is not None:
        from callsheet.views.tree_diff import noun_of  # noqa: PLC0415 - as above

        return noun_of(step, words)
    return f"step {step.id}"
