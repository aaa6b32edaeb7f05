"""`callsheet blame`: where a run failed, and the likely cause."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.inspection.gc_control import without_gc
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text
from callsheet.apps.operations.lineage import flow_json
from callsheet.apps.rendering.values import preview

if TYPE_CHECKING:
    from callsheet.api.explaining import FailureReport, FaultyValue
    from callsheet.trace.blame import Blame, Suspect
    from callsheet.trace.lineage.lineage import Lineage

_MAX_SUSPECTS = 6
_WORDS = {
    "error": "an error instead of a result",
    "cast": "the value could not be cast",
    "unset": "the variable was not set",
    "empty": "the value was empty",
}


@click.command()
@click.argument("run", metavar="RUN")
@journals.journal_path
@options.as_json
@without_gc
def blame(run: str, journal: Path | None, as_json: bool) -> int:
    """Show where RUN failed and, separately, the likely cause, with the evidence.

    RUN is a run id, a unique prefix of one, or `last`. The likely cause is a guess by rule. Among all data
    that flowed into the failed step it is the first error, otherwise the first value that could not be cast,
    otherwise a value that was not set or was empty.
    """
    from callsheet.api.explaining import blame_run  # noqa: PLC0415 - imports the store

    with journals.open_to_read(journal) as opened:
        report = blame_run(opened, run)
    with ignoring_broken_pipe():
        if as_json:
            print_json(_json(report))
        else:
            _print(report)
    return Exit.OK


def _print(report: FailureReport) -> None:
    from callsheet.trace.lineage.lineage import NONE  # noqa: PLC0415 - as above
    from callsheet.views.lineage import visit_line  # noqa: PLC0415 - as above

    lineage, blamed = report.lineage, report.blame
    if blamed.visit == NONE:
        print_text(f"no step failed; the run ended with: {preview(blamed.error, 300)}")
        return
    print_text(f"failed        {visit_line(lineage, lineage.visits[blamed.visit])}, event {blamed.seq}")
    print_text(f"              {preview(blamed.error, 300)}")
    if blamed.key:
        print_text(f"              call {blamed.key}: {preview(report.arguments, 300)}")
        _print_traceback(report.traceback)
    if not blamed.suspects:
        print_text("likely cause  the step itself: none of its inputs was empty, an error or a failed cast")
        return
    for n, suspect in enumerate(blamed.suspects[:_MAX_SUSPECTS]):
        _print_suspect(lineage, blamed, suspect, "likely cause" if n == 0 else "also")
    if len(blamed.suspects) > _MAX_SUSPECTS:
        print_text(f"              and {len(blamed.suspects) - _MAX_SUSPECTS} more (--json lists all)")


def _print_suspect(lineage: Lineage, blamed: Blame, suspect: Suspect, label: str) -> None:
    from callsheet.api.explaining import traceback_of  # noqa: PLC0415 - as above
    from callsheet.trace.lineage.lineage import NONE  # noqa: PLC0415 - as above
    from callsheet.views.lineage import node_line, place  # noqa: PLC0415 - as above

    node = suspect.node
    is_set = node.write != NONE
    line = node_line(lineage, node) if is_set else f"{place(suspect.name, node.path)}  ·  not set"
    print_text(f"{label:13} {line}")
    phrase = _WORDS[suspect.odd]
    if suspect.key:
        phrase = (
            f"its call {suspect.key} failed at event {suspect.seq}: {lineage.outcomes[suspect.key].value}"
        )
    print_text(f"              {preview(phrase, 300)}")
    _print_traceback(traceback_of(lineage, suspect.key))
    path = [place(flow.name, flow.node.path) for flow in suspect.path]
    last = suspect.path[-1]
    into = f"its argument {last.argument}" if last.argument else str(last.role)
    step = lineage.label(lineage.visits[blamed.visit])
    print_text(f"              {' → '.join(path)} → {step}, {into}")


def _print_traceback(text: str | None) -> None:
    from callsheet.views.columns import printable_lines  # noqa: PLC0415 - as above

    for line in printable_lines((text or "").splitlines()):
        print_text(f"              {line}")


def _json(report: FailureReport) -> dict[str, Any]:
    causes = [_cause_json(cause) for cause in report.causes]
    return {
        "run_id": report.run_id,
        "failed": None
        if report.step is None
        else {
            "step": report.step,
            "visit": report.visit,
            "event": report.event,
            "call": report.call,
            "preview": preview(report.arguments, 200) if report.call else None,
            "traceback": report.traceback,
        },
        "error": report.error,
        "likely_cause": causes[0] if causes else None,
        "method": "backward slice: the first error, else odd cast, else what is not set, else empty",
        "evidence": causes,
    }


def _cause_json(cause: FaultyValue) -> dict[str, Any]:
    return {
        "what": cause.what,
        "variable": cause.variable,
        "path": list(cause.path),
        "preview": preview(cause.value, 200),
        "step": cause.step,
        "event": cause.event,
        "call": cause.call,
        "error": cause.error,
        "traceback": cause.traceback,
        "way": [flow_json(flow) for flow in cause.way],
    }
