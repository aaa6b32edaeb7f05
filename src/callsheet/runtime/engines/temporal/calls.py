"""The activity: one call through the gateway, with a heartbeat, whose result is checked in before it is told.

In: a command as data. Out: its outcome as data, or a ticket for it. A tool runs once: that its result is
too large, no JSON, or cannot be stored for a while, is dealt with here and is no reason to call it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from callsheet.runtime.engines.temporal.claims import ClaimCheck
from callsheet.runtime.engines.temporal.orders import CARRY_OUT, KEEP
from callsheet.runtime.engines.temporal.payloads import OrderedJson
from callsheet.runtime.engines.temporal.wire import command_from_json, outcome_to_json
from callsheet.runtime.gateway import Gateway, Ports
from callsheet.store.records import facts_from_json

_BEATS = 3
"""Signs of life within the time after which a worker is taken for dead."""
_PAUSE = 1.0
_log = logging.getLogger("callsheet")


class Calls:
    """Carries out the calls of all runs that come to one worker."""

    def __init__(self, ports: Ports, claims: ClaimCheck) -> None:
        self._ports = ports
        self._claims = claims

    @activity.defn(name=CARRY_OUT)
    async def carry_out(self, run_id: str, command: Mapping[str, Any], facts: Mapping[str, Any]) -> RawValue:
        """Make one call of a run and give its outcome; what the tool answers is never raised."""
        gateway = Gateway(self._ports, run_id, facts_from_json(facts))
        alive = asyncio.create_task(_beat())
        try:
            outcome = await gateway.carry_out(command_from_json(command))
            return RawValue(await self._checked_in(outcome_to_json(outcome)))
        finally:
            alive.cancel()

    @activity.defn(name=KEEP)
    async def keep_past(self, rows: Sequence[Any]) -> str:
        """Lay down what has happened in a run; gives the digest under which it lies."""
        payload = OrderedJson().to_payload(rows)
        return await self._claims.lay_down(payload.data)

    async def _checked_in(self, outcome: Mapping[str, Any]) -> Payload:
        """The outcome as a payload; a store that cannot be written is tried again, never the call."""
        payload = OrderedJson().to_payload(outcome)
        while True:
            try:
                (kept,) = await self._claims.encode([payload])
            except OSError as error:
                _log.warning("a result cannot be stored: %s; it is tried again", error)
                await asyncio.sleep(_PAUSE)
            else:
                return kept


async def _beat() -> None:
    """Tell the server again and again that this worker lives."""
    timeout = activity.info().heartbeat_timeout
    while timeout is not None:
        activity.heartbeat()
        await asyncio.sleep(timeout.total_seconds() / _BEATS)
