"""The width and colour support of standard output.

Out: the same for all commands that draw; what goes into a pipe is drawn for a page.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

_PIPED_COLUMNS = 100


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; one that was closed before the start is None, and none."""
    return stream is not None and stream.isatty()


def columns(piped: int = _PIPED_COLUMNS) -> int:
    """How many columns a terminal has, or a drawing that goes into a pipe."""
    return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else piped


def is_coloured() -> bool:
    """Whether colours are shown: on a terminal, unless NO_COLOR is set."""
    return is_terminal(sys.stdout) and "NO_COLOR" not in os.environ
