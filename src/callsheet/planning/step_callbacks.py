"""Notifies callbacks of the steps of a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from callsheet.api.events import RunEvent, StepFailed, StepFinished, StepStarted
from callsheet.api.handle import RunHandle
from callsheet.api.models import called
from callsheet.api.result import RunResult
from callsheet.ir import executor_name
from callsheet.planning.results import StepExecutionResult

OnStart = Callable[[str, str, str], object]
"""Called when a step begins, with its index, title and tool; may be async."""
OnComplete = Callable[[StepExecutionResult], object]
"""Called when a step is done or has failed; may be async."""

_log = logging.getLogger("callsheet")


async def follow_run(
    handle: RunHandle,
    on_start: OnStart | None,
    on_complete: OnComplete | None,
    elsewhere: Collection[str] | None = None,
) -> RunResult:
    """The result of a run, during which the callbacks are notified; their exceptions are logged.

    Events from before a resume are not repeated. In a run taken over from another program, which completed
    the steps `elsewhere`, the start of all other steps is reported too.
    """
    async with handle:
        async for event in handle:
            if on_start is None and on_complete is None:
                continue
            if event.replayed and not _begins_here(event, elsewhere):
                continue
            if isinstance(event, StepStarted) and on_start is not None:
                tool = executor_name(event.action.removeprefix("@"))
                await _call(on_start, event.step, handle.title(event.step), tool)
            elif isinstance(event, StepFinished | StepFailed) and on_complete is not None:
                step = handle.step(event.step)
                if step is not None:
                    await _call(on_complete, StepExecutionResult.of(step))
    return await handle.result()


def _begins_here(event: RunEvent, elsewhere: Collection[str] | None) -> bool:
    return elsewhere is not None and isinstance(event, StepStarted) and event.step not in elsewhere


async def _call(function: Callable[..., object], *arguments: object) -> None:
    try:
        await called(function, *arguments)
    except Exception:
        _log.warning("a callback of a plan's run failed", exc_info=True)
