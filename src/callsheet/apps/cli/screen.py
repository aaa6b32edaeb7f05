"""What standard output can show: how wide it is, and whether in colours.

Out: the same for all commands that draw; what goes into a pipe is drawn for a page.
"""

from __future__ import annotations

import os
import shutil
import sys

_PIPED_COLUMNS = 100


def columns(piped: int = _PIPED_COLUMNS) -> int:
    """How many columns a terminal has, or a drawing that goes into a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else piped


def is_coloured() -> bool:
    """Whether colours are shown: on a terminal, unless NO_COLOR is set."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ
