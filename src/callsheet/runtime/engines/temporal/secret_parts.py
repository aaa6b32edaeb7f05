"""Determines the secret parts of a Temporal run's events by their labels, for its journal.

In: the rows of a run under a policy, in order. Out: the secret parts of the body of each. A machine is fed
with them, so that it knows the labels.
"""

from __future__ import annotations

from collections.abc import Mapping

from callsheet.machine import Ask, Started
from callsheet.runtime.engines.temporal.event_rows import Row, event_in
from callsheet.runtime.engines.temporal.run_order import RunOrder
from callsheet.runtime.recording import secrecy_of
from callsheet.sealing.sealer import Path
from callsheet.store.events import EventType
from callsheet.store.replay import begin


class SecretParts:
    """The labels of one run, as they become known."""

    def __init__(self, order: RunOrder) -> None:
        self._machine = begin(order.plan, order.start).machine
        self._machine.feed(Started(order.start.inputs))
        self._secrecy = secrecy_of(self._machine)
        self._has_secrets = False

    def of(self, row: Row) -> Mapping[Path, str] | None:
        """The secret parts of the body of the next row, None if there are none."""
        places = self._find_parts(row)
        self._has_secrets = self._has_secrets or bool(places)
        return places or None

    def _find_parts(self, row: Row) -> Mapping[Path, str] | None:
        secrecy, machine = self._secrecy, self._machine
        if secrecy is None:
            return None
        if row["type"] == EventType.ASK:
            command = machine.open_commands().get(row["key"])
            return secrecy.of_question(command) if isinstance(command, Ask) else None
        if row["type"] == EventType.END:
            result = machine.result
            return None if result is None else secrecy.of_end(result, has_sealed=self._has_secrets)
        event = event_in(row)
        if event is None:
            return None
        secret = secrecy.of(event)
        machine.feed(event)
        return secret
