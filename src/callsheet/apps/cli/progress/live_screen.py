"""Redraws a display in place on a terminal, until the terminal is lost or the run has ended."""

from __future__ import annotations

from rich.console import Console
from rich.live import Live


class Screen(Console):
    """A console on standard error whose loss ends the drawing and nothing else."""

    def on_broken_pipe(self) -> None:
        """Draw no more; rich would end the process."""
        self.quiet = True


class Drawing(Live):
    """A drawing that stops where it cannot be written."""

    def refresh(self) -> None:
        """Draw, also in the thread that does so ten times a second."""
        try:
            super().refresh()
        except (OSError, ValueError):
            self.console.quiet = True
