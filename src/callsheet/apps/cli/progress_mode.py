"""The modes of the progress display, in a separate module so that parsing options imports nothing else."""

from __future__ import annotations

from enum import StrEnum


class ProgressMode(StrEnum):
    """How progress is displayed."""

    AUTO = "auto"
    """Live on a terminal, otherwise plain."""
    LIVE = "live"
    PLAIN = "plain"
    JSON = "json"
    NONE = "none"
