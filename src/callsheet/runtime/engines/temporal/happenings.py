"""What happens in a run, in its order and with its times: from it the journal of the run is written."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from callsheet.machine import Awaited, Event, Result

What: TypeAlias = "Event | Awaited | Result"


class Happening(NamedTuple):
    """Something that a journal has an event for: `what` is told to the machine, asked by it, or its end.

    `at` is wall time in seconds since 1970; `due` is until when a wait lasts or a question is open.
    """

    at: float
    what: What
    due: float | None = None
