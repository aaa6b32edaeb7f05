"""How progress can be shown; apart from the showing, so that a command line is read at no cost."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """How progress is shown."""

    AUTO = "auto"
    """Live on a terminal, else plain."""
    LIVE = "live"
    PLAIN = "plain"
    JSON = "json"
    NONE = "none"
