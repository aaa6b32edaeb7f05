"""The width and colour support of standard output.

For a pipe, a fixed width and no colours are used, the same for all commands.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

_PIPED_COLUMNS = 100


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; None is a stream that was closed before the start."""
    return stream is not None and stream.isatty()


def can_redraw(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal on which lines can be drawn again: not one that `TERM` calls dumb."""
    return is_terminal(stream) and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def columns(piped: int = _PIPED_COLUMNS) -> int:
    """The width of the terminal, or `piped` for a pipe or a file."""
    return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else piped


def is_coloured() -> bool:
    """Whether to use colours: on a terminal, unless NO_COLOR is set."""
    return is_terminal(sys.stdout) and "NO_COLOR" not in os.environ
