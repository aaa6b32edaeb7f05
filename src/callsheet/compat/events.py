"""The events of a run for listeners: a dict for each event.

Every event has these keys:

- `event`: `started`, `skipped`, `finished`, `failed`, `retrying`, `jumped` (a GOTO, or an ON_FAIL that
  jumps), `cast_failed`, `replanned`, `cut` (an input or the result of a call was truncated), `fact` (how
  a result was produced: the name of the prompt), or `ended` for the whole run.
- `step`, `tool`: the step and its tool, as in `LTPStep`; for `ended` the step that ended the run, or
  empty strings.
- `detail`: the error of `failed` and `retrying`, the target of `jumped`, the status of `ended`, what was
  truncated to which size; otherwise mostly empty.
- `variable`, `value`: for `finished` the variable with its `$` (None if the step has none) and
  the step's result; for `cast_failed` the unchanged value; otherwise None.

A step that runs has `started`, then any number of `retrying`, `cut` and `fact` (and one `failed` for
each item that finally fails), then `finished`, unless it failed and is not a FOREACH. A step whose guard
does not hold has only `skipped`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy
from inspect import isawaitable
from typing import Any, TypeAlias

from callsheet.compat.documented_form import tool_of
from callsheet.ir import Plan
from callsheet.machine.notes import Note, NoteKind

Listener: TypeAlias = "Callable[[dict[str, Any]], Awaitable[None] | None]"
"""Called with an event; may be a coroutine function or a plain one."""

_log = logging.getLogger(__name__)
_EVENTS_BETWEEN_YIELDS = 256
"""Yield to the event loop after this many events, since listeners may never await."""


class Events:
    """Turns the machine's notes into events and delivers them to listeners, in order.

    A listener that raises is logged and not called again; the run goes on.
    """

    def __init__(self, plan: Plan, listeners: Sequence[Listener]) -> None:
        self._listeners = list(listeners)
        self._waiting: list[dict[str, Any]] = []
        self._tools = _tools_of(plan)
        self._compiled: dict[str, Plan] = {}

    def compiled(self, step: str, plan: Plan) -> None:
        """Record the plan that this step's RE-PLAN got; it is used once the run continues with it."""
        self._compiled[step] = plan

    def note(self, note: Note) -> None:
        """Queue a note until the next `deliver`."""
        self._waiting.append(
            {
                "event": str(note.kind),
                "step": note.step,
                "tool": self._tools.get(note.step, ""),
                "detail": note.detail,
                "variable": None if note.var is None else f"${note.var}",
                "value": deepcopy(note.value),
            }
        )
        if note.kind is NoteKind.REPLANNED and note.step in self._compiled:
            self._tools = _tools_of(self._compiled.pop(note.step))

    async def deliver(self) -> None:
        """Deliver the queued events to the listeners."""
        events, self._waiting = self._waiting, []
        for number, event in enumerate(events, start=1):
            if number % _EVENTS_BETWEEN_YIELDS == 0:
                await asyncio.sleep(0)
            for listener in tuple(self._listeners):
                try:
                    result = listener(dict(event))
                    if isawaitable(result):
                        await result
                except Exception:
                    _log.warning("a listener failed and is not called again", exc_info=True)
                    self._listeners.remove(listener)


def _tools_of(plan: Plan) -> dict[str, str]:
    """The tool of each step; of two steps with the same id the first counts."""
    return {step.id: tool_of(step) for step in reversed(plan.steps)}
