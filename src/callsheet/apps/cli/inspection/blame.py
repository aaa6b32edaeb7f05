"""`callsheet blame`: where a run failed, and the likely cause."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.inspection.gc_control import without_gc
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text
from callsheet.apps.rendering.values import preview
from callsheet.machine.remarks import SAME_PLACE

if TYPE_CHECKING:
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
    from callsheet.apps.operations.lineages import lineage_in  # noqa: PLC0415 - imports the store
    from callsheet.store.errors import JournalError  # noqa: PLC0415 - as above
    from callsheet.trace.blame import blame_of  # noqa: PLC0415 - as above

    with journals.open_to_read(journal) as opened:
        info = opened.find_run(run)
        lineage = lineage_in(opened, info)
    blamed = blame_of(lineage)
    if blamed is None:
        help_text = f"to see where a value came from: callsheet why {info.run_id} VAR"
        raise JournalError("JRN042", f"run {info.run_id} has not failed", help_text)
    with ignoring_broken_pipe():
        if as_json:
            print_json(_json(info.run_id, lineage, blamed))
        else:
            _print(lineage, blamed)
    return Exit.OK


def _print(lineage: Lineage, blamed: Blame) -> None:
    from callsheet.trace.lineage.lineage import NONE  # noqa: PLC0415 - as above
    from callsheet.views.lineage import visit_line  # noqa: PLC0415 - as above

    if blamed.visit == NONE:
        print_text(f"no step failed; the run ended with: {preview(blamed.error, 300)}")
        return
    print_text(f"failed        {visit_line(lineage, lineage.visits[blamed.visit])}, event {blamed.seq}")
    print_text(f"              {preview(blamed.error, 300)}")
    if blamed.key:
        print_text(f"              call {blamed.key}: {preview(_arguments(lineage, blamed.key), 300)}")
        _print_traceback(lineage, blamed.key)
    if not blamed.suspects:
        print_text("likely cause  the step itself: none of its inputs was empty, an error or a failed cast")
        return
    for n, suspect in enumerate(blamed.suspects[:_MAX_SUSPECTS]):
        _print_suspect(lineage, blamed, suspect, "likely cause" if n == 0 else "also")
    if len(blamed.suspects) > _MAX_SUSPECTS:
        print_text(f"              and {len(blamed.suspects) - _MAX_SUSPECTS} more (--json lists all)")


def _print_suspect(lineage: Lineage, blamed: Blame, suspect: Suspect, label: str) -> None:
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
    _print_traceback(lineage, suspect.key)
    path = [place(flow.name, flow.node.path) for flow in suspect.path]
    last = suspect.path[-1]
    into = f"its argument {last.argument}" if last.argument else str(last.role)
    step = lineage.label(lineage.visits[blamed.visit])
    print_text(f"              {' → '.join(path)} → {step}, {into}")


def _traceback(lineage: Lineage, key: str) -> str:
    """Where the tool's code raised the error of a call; empty if it did not."""
    outcome = lineage.outcomes.get(key)
    text = "" if outcome is None else outcome.traceback
    same = text.removeprefix(SAME_PLACE)
    return _traceback(lineage, same) or text if same not in (text, key) else text


def _print_traceback(lineage: Lineage, key: str) -> None:
    from callsheet.views.columns import printable_lines  # noqa: PLC0415 - as above

    for line in printable_lines(_traceback(lineage, key).splitlines()):
        print_text(f"              {line}")


def _arguments(lineage: Lineage, key: str) -> dict[str, Any]:
    """The arguments of a call by name; positional inputs of models and agents have their numbers as names."""
    command: Any = lineage.commands[key]
    inputs = enumerate(getattr(command, "inputs", ()))
    return {**{str(number): value for number, value in inputs}, **getattr(command, "args", {})}


def _json(run_id: str, lineage: Lineage, blamed: Blame) -> dict[str, Any]:
    from callsheet.trace.lineage.lineage import NONE  # noqa: PLC0415 - as above

    visit = None if blamed.visit == NONE else lineage.visits[blamed.visit]
    suspects = [_suspect_json(lineage, suspect) for suspect in blamed.suspects]
    return {
        "run_id": run_id,
        "failed": None
        if visit is None
        else {
            "step": lineage.code(visit).id,
            "visit": visit.visit,
            "event": blamed.seq,
            "call": blamed.key or None,
            "preview": preview(_arguments(lineage, blamed.key), 200) if blamed.key else None,
            "traceback": _traceback(lineage, blamed.key) or None,
        },
        "error": blamed.error,
        "likely_cause": suspects[0] if suspects else None,
        "method": "backward slice: the first error, else odd cast, else what is not set, else empty",
        "evidence": suspects,
    }


def _suspect_json(lineage: Lineage, suspect: Suspect) -> dict[str, Any]:
    from callsheet.trace.lineage.lineage import NONE  # noqa: PLC0415 - as above
    from callsheet.trace.lineage.slices import value_at  # noqa: PLC0415 - as above

    node = suspect.node
    made_by = NONE if node.write == NONE else lineage.writes[node.write].visit
    return {
        "what": str(suspect.odd),
        "variable": suspect.name,
        "path": list(node.path),
        "preview": preview(value_at(lineage, node), 200),
        "step": None if made_by == NONE else lineage.code(lineage.visits[made_by]).id,
        "event": suspect.seq,
        "call": suspect.key or None,
        "error": lineage.outcomes[suspect.key].value if suspect.key else None,
        "traceback": _traceback(lineage, suspect.key) or None,
        "way": [
            {
                "variable": flow.name,
                "path": list(flow.node.path),
                "role": str(flow.role),
                "argument": flow.argument or None,
                "item": flow.item,
            }
            for flow in suspect.path
        ],
    }
