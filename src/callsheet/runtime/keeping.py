"""Gives calls of a run of an edited plan the outcomes that the run before it has recorded for them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from callsheet.machine import CallTool, Doubted, RunAgent
from callsheet.runtime.gateway import NOTES, Carried, Gateway, Outcome
from callsheet.runtime.recording import JournalRecorder
from callsheet.store.folded import Folded
from callsheet.store.kept_calls import Kept, KeptCalls, as_kept, content_of_command


def keeping(gateway: Gateway, kept: KeptCalls) -> Callable[[Carried], Coroutine[Any, Any, Outcome]]:
    """How calls are carried out: a kept outcome where there is one, under a policy too, else by the gateway.

    A call that had left before, and of which nothing is known, is in doubt if it may not be repeated.
    """

    async def carry_out(command: Carried) -> Outcome:
        if isinstance(command, Kept):
            found = kept.take(content_of_command(command), command.key)
            if found is not None and found.outcome is not None:
                if isinstance(command, CallTool) and command.tool == NOTES:
                    await gateway.keep_again(command)
                return as_kept(found, command.key)
            if found is not None and isinstance(command, CallTool | RunAgent):
                return Doubted(command.key, f"it had left before, and its answer is unknown: {found.source}")
        return await gateway.carry_out(command)

    return carry_out


def settle_kept(folded: Folded, recorder: JournalRecorder, kept: KeptCalls) -> None:
    """On resumption, give calls without an outcome the one that they keep: they have never been sent."""
    for key, command in folded.in_doubt().items():
        found = None if key in folded.asked else kept.take(content_of_command(command), key)
        if found is not None and found.outcome is not None:
            folded.feed(recorder.event(as_kept(found, key)))
