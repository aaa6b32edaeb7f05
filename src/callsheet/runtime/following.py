"""Tells the listener of a run, if it has one, when calls are sent and when they have an outcome.

In: a gateway. Out: its `carry_out`, the very same one for a run that nobody follows.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from callsheet.machine import Sleep, Succeeded
from callsheet.ports.calls import CallListener
from callsheet.runtime.gateway import Carried, Gateway, Outcome

CarryOut = Callable[[Carried], Coroutine[Any, Any, Outcome]]


def followed(gateway: Gateway) -> CarryOut:
    """How calls are carried out, with the gateway's listener told of them."""
    if gateway.listener is None:
        return gateway.carry_out
    return _telling(gateway.carry_out, gateway.listener)


def _telling(carry_out: CarryOut, listener: CallListener) -> CarryOut:
    async def carry_out_told(command: Carried) -> Outcome:
        if isinstance(command, Sleep):
            return await carry_out(command)
        listener.began(command.key)
        succeeded = False
        try:
            outcome = await carry_out(command)
            succeeded = isinstance(outcome, Succeeded)
            return outcome
        finally:
            listener.ended(command.key, succeeded=succeeded)

    return carry_out_told
