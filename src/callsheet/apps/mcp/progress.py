"""Sends the progress of a run to the client as progress notifications.

In: notes of the machine, as they come. Out: progress notifications, in their order, all before the answer.
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
"""A client that reads slowly is told no more than so many steps at once."""


class Progress:
    """Counts the steps that have ended; hears notes from where the run is driven, and never waits there.

    Of steps that were `told` in an earlier round nothing is said again.
    """

    def __init__(self, plan: Plan, reported: int = 0) -> None:
        self._plan, self._actions = plan, _actions(plan)
        self._ended, self._reported = 0, reported
        self._updates: asyncio.Queue[tuple[int, str] | None] = asyncio.Queue()

    def note(self, note: Note) -> None:
        """Hear what happened; a run that is taken up tells what happened before once more."""
        if note.kind is NoteKind.REPLANNED and self._plan.order is not Order.DAG:
            self._actions = {}  # the new plan has steps of these ids that do something else
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
        """How many steps the client has heard of."""
        return self._reported

    def restart(self) -> None:
        """Expect to hear everything from the start of the run again."""
        self._ended, self._actions = 0, _actions(self._plan)

    def set_plan(self, plan: Plan) -> None:
        """Tell of another plan from now on."""
        self._plan, self._actions = plan, _actions(plan)

    @asynccontextmanager
    async def reporting(self, caller: ClientRequest) -> AsyncGenerator[None]:
        """Tell the client within; what has been heard is told before this ends."""
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
            except Exception as error:  # nothing depends on whether the client hears it
                _log.debug("the client cannot be told how far it is: %s", error)


def _actions(plan: Plan) -> dict[str, str]:
    return {step.id: describe_action(step.action) for step in plan.steps}
