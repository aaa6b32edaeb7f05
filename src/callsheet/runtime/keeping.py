"""Gives calls of a run of an edited plan the outcomes that the run before it has recorded for them."""

from __future__ import annotations

from callsheet.machine import CallTool, Doubted, RunAgent
from callsheet.runtime.gateway import Carried, Gateway, Outcome
from callsheet.runtime.recording import JournalRecorder
from callsheet.store.folded import Folded
from callsheet.store.kept_calls import Kept, KeptCalls, as_kept, content_of_command


class KeepingGateway(Gateway):
    """A gateway that asks what an earlier run has recorded before it sends a call.

    A call that had left there, and of which nothing is known, is in doubt here if it may not be repeated.
    """

    kept: KeptCalls

    async def carry_out(self, command: Carried) -> Outcome:
        """The outcome of a call: a kept one, or that of the call itself."""
        if isinstance(command, Kept):
            found = self.kept.take(content_of_command(command), command.key)
            if found is not None and found.outcome is not None:
                return as_kept(found, command.key)
            if found is not None and isinstance(command, CallTool | RunAgent):
                return Doubted(command.key, f"it had left before, and its answer is unknown: {found.source}")
        return await super().carry_out(command)


def settle_kept(folded: Folded, recorder: JournalRecorder, kept: KeptCalls) -> None:
    """On resumption, give calls without an outcome the one that they keep: they have never been sent."""
    for key, command in folded.in_doubt().items():
        found = None if key in folded.asked else kept.take(content_of_command(command), key)
        if found is not None and found.outcome is not None:
            folded.feed(recorder.event(as_kept(found, key)))
