"""Redraws a display in place on a terminal, until the terminal is closed or the run has ended."""

from __future__ import annotations

from rich.console import Console
from rich.live import Live


class Screen(Console):
    """A console on standard error; if it is closed, drawing stops and the process continues."""

    def on_broken_pipe(self) -> None:
        """Stop drawing; rich would end the process."""
        self.quiet = True


class Drawing(Live):
    """A live display that stops if it cannot be written."""

    def refresh(self) -> None:
        """Draw; also called by the refresh thread."""
        try:
            super().refresh()
        except (OSError, ValueError):
            self.console.quiet = True
