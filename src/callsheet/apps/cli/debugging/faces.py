"""What `run`, `resume` and `debug` share under the debugger: who steers them, and the text that is shown.

In: the options `--step` and `--break`, or the adapter of an editor; a plan with its text. Out: a debugger.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.output import is_terminal

if TYPE_CHECKING:
    from callsheet.api.plan_sources import RecordedText
    from callsheet.apps.cli.debugging.model import Debugger, Face
    from callsheet.apps.masking import Masker
    from callsheet.diagnostics import Source
    from callsheet.ir import Plan
    from callsheet.runtime.forking import Forking
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunInfo


class Stops(NamedTuple):
    """Where a run stops on a terminal: before its first statement, and at breakpoints."""

    steps: bool
    breaks: tuple[str, ...]


NOWHERE = Stops(steps=False, breaks=())
stops = options.grouped(
    "stops",
    Stops,
    steps=click.option("--step", "steps", is_flag=True, help="Stop before the next statement."),
    breaks=click.option(
        "--break",
        "breaks",
        multiple=True,
        metavar="LINE|STEP",
        help="Stop before this statement; `LINE if EXPRESSION` sets a condition. May be repeated.",
    ),
)
"""The options, as an argument `stops`."""


def is_stopped(stops: Stops) -> bool:
    """Whether somebody wants to steer the run statement by statement."""
    return any(stops) or click.get_current_context().obj is not None


def face_of(stops: Stops, *, otherwise: str) -> Face | None:
    """Who steers a run statement by statement: an editor, the terminal, or nobody (None).

    Raises click.UsageError if both an editor and options say where it stops, or if there is no terminal;
    `otherwise` then says what to do instead.
    """
    adapter: Face | None = click.get_current_context().obj
    """The adapter of an editor, if `callsheet dap` has started this command."""
    if adapter is not None:
        if any(stops):
            raise click.UsageError("an editor says where the run stops: remove --step and --break")
        return adapter
    if not any(stops):
        return None
    if not is_terminal(sys.stdin):
        raise click.UsageError(
            f"--step and --break ask how to go on, and standard input is no terminal; {otherwise}"
        )
    from callsheet.apps.cli.debugging.terminal import TerminalFace  # noqa: PLC0415 - only where a run stops

    return TerminalFace(stops.breaks, stops_at_entry=stops.steps)


def debugger_of(plan: Plan, source: Source, path: Path | None, face: Face, masker: Masker) -> Debugger:
    """The debugger of a plan that stands in a text, with the breakpoints of its face.

    `path` is the file with exactly this text, None if there is none.
    """
    from callsheet.apps.cli.debugging.model import Debugger, Places  # noqa: PLC0415 - only under a debugger

    return _attached(Debugger(plan, Places(plan, source), path, face, masker.value, masker.ask))


def _attached(debugger: Debugger) -> Debugger:
    debugger.face.attach(debugger)
    return debugger


def debugger_of_recorded(journal: Journal, info: RunInfo, face: Face, masker: Masker) -> Debugger:
    """The debugger of a run in the journal; it shows the file of its plan only if that is unchanged."""
    from callsheet.api.plan_sources import recorded_text  # noqa: PLC0415 - only under a debugger

    return _debugger_in(recorded_text(journal, info.run_id), journal.plan_of(info.plan_hash), face, masker)


def check_breaks(made: Forking, run_id: str, face: Face, masker: Masker) -> None:
    """Raise click.BadParameter for a breakpoint that a branch cannot have, before it is recorded."""
    from callsheet.api.plan_sources import text_of_run  # noqa: PLC0415 - only under a debugger

    text = text_of_run(run_id, made.parent.name, made.text, made.branch.start)
    _debugger_in(text, made.branch.plan, face, masker)


def _debugger_in(text: RecordedText, plan: Plan, face: Face, masker: Masker) -> Debugger:
    from callsheet.apps.cli.debugging.model import Debugger, Places  # noqa: PLC0415 - only under a debugger

    places = Places(text.plan or plan, text.source)  # only a plan that was read has places
    return _attached(Debugger(plan, places, text.path, face, masker.value, masker.ask))
