"""The kinds of progress display, in a module of its own so that parsing options imports nothing else."""

from __future__ import annotations

from enum import StrEnum


class ProgressMode(StrEnum):
    """How progress is shown."""

    AUTO = "auto"
    """Live on a terminal, else plain."""
    LIVE = "live"
    PLAIN = "plain"
    JSON = "json"
    NONE = "none"
