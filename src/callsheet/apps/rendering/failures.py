"""Where a run failed and the likely cause, as lines for people and for models of clients.

In: a `FailureReport`. Out: lines, in the words of the plan's language.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from callsheet.api.explaining import FailureReport, traceback_of
from callsheet.apps.rendering.values import preview
from callsheet.trace.lineage.lineage import NONE
from callsheet.views.columns import printable_lines
from callsheet.views.lineage import node_line, use_of, visit_line, words_of

if TYPE_CHECKING:
    from callsheet.trace.blame import Suspect

_MOST_SUSPECTS = 6
_MARGIN = " " * 14
_WORDS = {
    "error": "an error instead of a result",
    "cast": "the value could not be cast",
    "unset": "the variable was not set",
    "empty": "the value was empty",
}


def failure_lines(report: FailureReport) -> Iterator[str]:
    """The step that failed with its call, and what flowed into it that may have caused it."""
    lineage, blamed = report.lineage, report.blame
    if blamed.visit == NONE:
        yield f"no step failed; the run ended with: {preview(blamed.error, 300)}"
        return
    visit = visit_line(lineage, lineage.visits[blamed.visit], words_of(lineage))
    yield f"failed        {visit}, event {blamed.seq}"
    yield f"{_MARGIN}{preview(blamed.error, 300)}"
    if blamed.key:
        yield f"{_MARGIN}call {blamed.key}: {preview(report.arguments, 300)}"
        yield from _traceback_lines(report.traceback)
    if not blamed.suspects:
        yield "likely cause  the step itself: none of its inputs was empty, an error or a failed cast"
    for number, suspect in enumerate(blamed.suspects[:_MOST_SUSPECTS]):
        yield from _suspect_lines(report, suspect, "likely cause" if number == 0 else "also")
    if len(blamed.suspects) > _MOST_SUSPECTS:
        yield f"{_MARGIN}and {len(blamed.suspects) - _MOST_SUSPECTS} more (--json lists all)"


def _suspect_lines(report: FailureReport, suspect: Suspect, label: str) -> Iterator[str]:
    lineage, node = report.lineage, suspect.node
    words = words_of(lineage)
    unset = f"{words.variable(suspect.name, node.path)}  ·  not set"
    yield f"{label:13} {unset if node.write == NONE else node_line(lineage, node, words)}"
    phrase = _WORDS[suspect.odd]
    if suspect.key:
        error = lineage.outcomes[suspect.key].value
        phrase = f"its call {suspect.key} failed at event {suspect.seq}: {error}"
    yield f"{_MARGIN}{preview(phrase, 300)}"
    yield from _traceback_lines(traceback_of(lineage, suspect.key))
    path = [words.variable(flow.name, flow.node.path) for flow in suspect.path]
    last = suspect.path[-1]
    step = lineage.label(lineage.visits[report.blame.visit])
    yield f"{_MARGIN}{' → '.join(path)} → {step}, {use_of(last.role, last.argument)}"


def _traceback_lines(text: str | None) -> Iterator[str]:
    return (f"{_MARGIN}{line}" for line in printable_lines((text or "").splitlines()))
