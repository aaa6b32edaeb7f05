"""Where a run stands that is ahead of its turn: what has started, what waits for what, what has arrived."""

from __future__ import annotations

from typing import TypeAlias

from callsheet.ir import JSON
from callsheet.machine.events import Failed, Succeeded
from callsheet.machine.program import NOWHERE, StepCode

Outcome: TypeAlias = "Succeeded | Failed"
Patches: TypeAlias = "list[tuple[int, JSON]]"
"""Values that variables will have once the steps before are committed, by slot."""


class Early:
    """A step that has started before its turn.

    `outcomes` are those of its items that have arrived, by index (0 where it has none), and `arrivals` the
    order of all that have arrived. Once all have, `value` is what its variable will hold, if that `is_known`:
    after a failure it may depend on its turn.
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
        """The items that calls were made for, in their order."""
        self.is_known = False
        self.is_taken = False
        self.value: JSON = None


class Standing:
    """All that a run has come to ahead of its turn, but for what follows from its program.

    `low` is the step whose turn it was when steps were last looked at, `next` the first that has not been
    looked at, `high` the last that has started; `open` counts those whose turn has not come and that are
    under way, `arrived` all outcomes.
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
        self.calls: dict[str, tuple[Early, int]] = {}
        """All calls that the machine has not asked for yet, by key, each with its item."""
        self.queue: list[tuple[int, Outcome]] = []
        """The outcomes of calls that the machine has asked for, the first that arrived first."""
        self.arrived = 0
        self.forget()

    def forget(self) -> None:
        """Begin to look anew, wherever the run goes on."""
        self.steps: dict[int, Early] = {}
        self.skipped: set[int] = set()
        """Steps whose condition is settled and does not hold."""
        self.stops: set[int] = set()
        """Steps that have been passed and may still lead elsewhere."""
        self.waiters: dict[int, list[int]] = {}
        """The steps that wait for a step to be settled."""
        self.woken: list[int] = []
        self.ready: list[int] = []
        """Steps that could start if fewer were under way."""
        self.moved: list[Early] = []
        """Steps of which an outcome has arrived since steps were last looked at."""
        self.open = 0
        self.low = self.next = self.high = NOWHERE
