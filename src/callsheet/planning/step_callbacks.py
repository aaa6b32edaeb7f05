"""Notifies callbacks of the steps of a run: of a step that calls a tool, before the tool is called."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from callsheet.api.events import RunEvent, StepFailed, StepFinished, StepStarted
from callsheet.api.handle import RunHandle
from callsheet.api.models import called
from callsheet.api.result import RunResult
from callsheet.ir import executor_name
from callsheet.machine.keys import parse_key
from callsheet.planning.checkpoints import StateFile
from callsheet.planning.results import StepExecutionResult
from callsheet.ports.calls import CallContext

OnStart = Callable[[str, str, str], object]
"""Called when a step begins, with its index, title and tool; may be async."""
OnComplete = Callable[[StepExecutionResult], object]
"""Called when a step is done or has failed; may be async."""

_log = logging.getLogger("callsheet")


class StepCallbacks:
    """The callbacks of one run; their exceptions are logged.

    They are told in the order of the run: of a step's end before the call of a step that depends on it. So a
    call waits for a callback that takes long.
    """

    def __init__(self, on_start: OnStart | None, on_complete: OnComplete | None) -> None:
        self._on_start = on_start
        self._on_complete = on_complete
        self._handle: RunHandle | None = None
        self._begun: set[str] = set()
        self._is_telling = False
        self._told = asyncio.Event()

    async def before_call(self, context: CallContext, tool: str) -> None:
        """Report the start of a step whose tool is about to be called, unless it was reported."""
        step = parse_key(context.key).step if context.key else ""
        if step:
            await self._catch_up()
            await self.begin(step, "" if self._handle is None else self._handle.title(step), tool)

    async def _catch_up(self) -> None:
        """Wait until the callbacks know of everything that has happened."""
        while self._is_telling or (self._handle is not None and self._handle.has_unread):
            self._told.clear()
            await self._told.wait()

    async def begin(self, step: str, title: str, tool: str) -> None:
        """Report that a step begins, once."""
        if self._on_start is not None and step not in self._begun:
            self._begun.add(step)
            await _call(self._on_start, step, title, tool)

    async def end(self, result: StepExecutionResult) -> None:
        """Report that a step has ended."""
        self._begun.discard(result.step_index)
        if self._on_complete is not None:
            await _call(self._on_complete, result)

    async def follow(
        self,
        handle: RunHandle,
        elsewhere: Collection[str] | None = None,
        state: StateFile | None = None,
    ) -> RunResult:
        """The result of a run, during which the callbacks are notified.

        Events from before a resume are not repeated. In a run taken over from another program, which
        completed the steps `elsewhere`, the start of all other steps is reported too. `state` is written.
        """
        self._handle = handle
        async with handle:
            async for event in handle:
                self._is_telling = True
                try:
                    await self._tell(event, handle, elsewhere, state)
                finally:
                    self._is_telling = False
                    self._told.set()
        result = await handle.result()
        if state is not None:
            state.write("completed" if result.ok else "failed", result.variables)
        return result

    async def _tell(
        self, event: RunEvent, handle: RunHandle, elsewhere: Collection[str] | None, state: StateFile | None
    ) -> None:
        """Notify the callbacks of an event, and write the state."""
        if state is not None and isinstance(event, StepFinished):
            done = handle.step(event.step)
            if done is not None and done.success:
                state.step_done(done.index, done.variable, done.value)
        if event.replayed and not _begins_here(event, elsewhere):
            return
        if isinstance(event, StepStarted):
            tool = executor_name(event.action.removeprefix("@"))
            await self.begin(event.step, handle.title(event.step), tool)
        elif isinstance(event, StepFinished | StepFailed):
            step = handle.step(event.step)
            if step is not None:
                await self.end(StepExecutionResult.of(step))


def _begins_here(event: RunEvent, elsewhere: Collection[str] | None) -> bool:
    return elsewhere is not None and isinstance(event, StepStarted) and event.step not in elsewhere


async def _call(function: Callable[..., object], *arguments: object) -> None:
    try:
        await called(function, *arguments)
    except Exception:
        _log.warning("a callback of a plan's run failed", exc_info=True)
