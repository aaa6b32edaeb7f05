"""The state of running ahead: early steps and calls, their outcomes, and what waits for what."""

from __future__ import annotations

from typing import TypeAlias

from callsheet.ir import JSON
from callsheet.machine.events import Failed, Succeeded
from callsheet.machine.program import NOWHERE, StepCode

Outcome: TypeAlias = "Succeeded | Failed"
Patches: TypeAlias = "list[tuple[int, JSON]]"
"""Values, with their slots, that variables will have once earlier steps are committed."""


class EarlyStep:
    """A step that has started before its turn.

    `outcomes` has the outcomes that have arrived, by item (0 without FOREACH), `arrivals` their global order
    of arrival. Once all have arrived, `value` is what its variable will hold, if `is_known`: after a failure
    that may not be certain. `is_taken` says that the machine has asked for one of its calls.
    """

    __slots__ = (
        "arrivals",
        "code",
        "is_known",
        "is_taken",
        "items",
        "next",
        "open",
        "outcomes",
        "patches",
        "prefix",
        "ran",
        "stopped",
        "value",
    )

    def __init__(self, code: StepCode, prefix: str, items: list[JSON] | None, patches: Patches) -> None:
        self.code = code
        self.prefix = prefix
        self.items = items
        self.patches = patches
        self.next = 0
        self.open = 0
        self.stopped = False
        self.outcomes: dict[int, Outcome] = {}
        self.arrivals: dict[int, int] = {}
        self.ran: list[int] = []
        """The items that calls were made for, in order."""
        self.is_known = False
        self.is_taken = False
        self.value: JSON = None


class AheadState:
    """The state of running ahead that does not follow from the program.

    `low` is the step whose turn it was when steps were last examined, `next` the first step not examined yet,
    `high` the last one started. `open` counts early steps with open calls whose turn has not come, `arrived`
    all outcomes that have arrived.
    """

    __slots__ = (
        "arrived",
        "calls",
        "high",
        "low",
        "moved",
        "next",
        "open",
        "queue",
        "ready",
        "skipped",
        "steps",
        "stops",
        "waiters",
        "woken",
    )

    def __init__(self) -> None:
        self.calls: dict[str, tuple[EarlyStep, int]] = {}
        """Early calls that the machine has not asked for yet, by key, each with its item."""
        self.queue: list[tuple[int, Outcome]] = []
        """Outcomes of calls that the machine has asked for, a heap by arrival."""
        self.arrived = 0
        self.forget()

    def forget(self) -> None:
        """Forget all examined steps, so that examining starts again wherever the run continues."""
        self.steps: dict[int, EarlyStep] = {}
        self.skipped: set[int] = set()
        """Steps certain to be skipped."""
        self.stops: set[int] = set()
        """Examined or current steps that may still lead elsewhere."""
        self.waiters: dict[int, list[int]] = {}
        """The steps that wait for a step to be settled, by that step."""
        self.woken: list[int] = []
        """Steps to examine again, a heap."""
        self.ready: list[int] = []
        """Steps that could start if fewer were open, a heap."""
        self.moved: list[EarlyStep] = []
        """Steps with an outcome that has arrived since steps were last examined."""
        self.open = 0
        self.low = self.next = self.high = NOWHERE
