"""Displays the progress of a run: live on a terminal, as lines, as JSON lines, or not at all."""

from callsheet.apps.cli.progress.progress import Progress, choose_progress

__all__ = ["Progress", "choose_progress"]
