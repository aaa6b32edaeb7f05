"""Sends the progress of a run to the client as progress notifications.

In: notes of the machine. Out: progress notifications in the same order, sent before the result of the call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from callsheet.apps.mcp.client_request import ClientRequest
from callsheet.ir import Order, Plan
from callsheet.machine.notes import Note, NoteKind, StepOutcome
from callsheet.views.describe import describe_action

_log = logging.getLogger("callsheet.mcp")
_MOST_WAITING = 1_000
"""The maximum number of queued notifications; further ones are dropped for a slow client."""


class Progress:
    """Counts the finished steps of a run and reports them to the client.

    `note` never blocks the run. The first `reported` steps, which an earlier call has reported, are skipped.
    """

    def __init__(self, plan: Plan, reported: int = 0) -> None:
        self._plan, self._actions = plan, _actions(plan)
        self._ended, self._reported = 0, reported
        self._updates: asyncio.Queue[tuple[int, str] | None] = asyncio.Queue()

    def note(self, note: Note) -> None:
        """Queue a notification for a finished step; a resumed run repeats the notes from its start."""
        if note.kind is NoteKind.REPLANNED and self._plan.order is not Order.DAG:
            self._actions = {}  # the new plan has other steps with the same ids
        outcome = note.outcome
        if outcome is None or not note.step:
            return
        word = "done" if outcome is StepOutcome.OK else outcome
        self._ended += 1
        if self._ended > self._reported and self._updates.qsize() < _MOST_WAITING:
            self._reported = self._ended
            action = self._actions.get(note.step, "")
            self._updates.put_nowait((self._ended, f"{note.step} {word}: {action}".removesuffix(": ")))

    @property
    def reported(self) -> int:
        """The number of steps that were reported to the client."""
        return self._reported

    def restart(self) -> None:
        """Reset the count, because a resumed run repeats its notes."""
        self._ended, self._actions = 0, _actions(self._plan)

    def set_plan(self, plan: Plan) -> None:
        """Report the steps of another plan from now on."""
        self._plan, self._actions = plan, _actions(plan)

    @asynccontextmanager
    async def reporting(self, caller: ClientRequest) -> AsyncGenerator[None]:
        """Send notifications during the block; queued ones are sent before it ends."""
        task = asyncio.create_task(self._report_all(caller))
        try:
            yield
            self._updates.put_nowait(None)
            await task
        finally:
            task.cancel()

    async def _report_all(self, caller: ClientRequest) -> None:
        total = len(self._plan.steps)
        while (update := await self._updates.get()) is not None:
            ended, message = update
            try:
                await caller.report_progress(ended, total if ended <= total else None, message)
            except Exception as error:  # notifications are best effort
                _log.debug("the client cannot be notified of progress: %s", error)


def _actions(plan: Plan) -> dict[str, str]:
    return {step.id: describe_action(step.action) for step in plan.steps}
