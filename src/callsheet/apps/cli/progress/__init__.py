"""Displays the progress of a run: live on a terminal, as lines, as JSON lines, or not at all.

What a display needs is loaded only if there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from callsheet.apps.cli.options import ProgressMode
from callsheet.apps.cli.output import can_redraw

if TYPE_CHECKING:
    from callsheet.apps.cli.progress import progress
    from callsheet.ir import Plan
    from callsheet.machine.notes import Note
    from callsheet.trace.replay import Moment

    Progress: TypeAlias = "progress.Progress | NoProgress"
    """Shows the progress of a run, or nothing."""


class NoProgress:
    """Shows nothing, and so need not be told of anything."""

    observer = listener = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def note(self, note: Note) -> None:
        """Do nothing."""

    def begin(self, _driver: Any = None) -> None:
        """Do nothing."""

    def restore(self, moments: Callable[[Callable[[Moment], bool]], object]) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


def choose_progress(stage: ProgressMode, plan: Plan, *, as_json: bool) -> Progress:
    """The progress for a mode; with a JSON result there is none unless the mode is explicit."""
    if stage is ProgressMode.AUTO:
        shown = ProgressMode.LIVE if can_redraw(sys.stderr) else ProgressMode.PLAIN
        stage = ProgressMode.NONE if as_json else shown
    if stage is ProgressMode.NONE:
        return NoProgress()
    from callsheet.apps.cli.progress.progress import Progress, display_for  # noqa: PLC0415 - see above

    return Progress(display_for(stage, plan), plan, draws=stage is ProgressMode.LIVE)
