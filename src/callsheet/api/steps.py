"""Collects the results of the steps of a dependency plan: status, value, time.

In: the machine's notes and a clock. Out: `StepResult`s in the order in which steps ended. The steps of text
plans may run a million times; for them there are only events.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from callsheet.ir import JSON, Order, Plan, Step, executor_name
from callsheet.machine import Usage
from callsheet.machine.notes import Note, NoteKind
from callsheet.runtime.launch import Watch
from callsheet.runtime.local import LocalDriver
from callsheet.sealing.masking import MaskedFields, MaskedRepr, masked


@dataclass(frozen=True, slots=True, repr=False)
class StepResult(MaskedRepr):
    """The result of a step of a dependency plan; its `repr` masks secrets.

    `index` and `title` are the plan's; `tool` is the provider's name of the tool, empty for a step that
    calls none. `value` is the result of a finished step and `variable` where it was assigned; `error` says
    why a step failed or was skipped. `seconds` is the duration with retries, None for what happened before
    a run was resumed.
    """

    index: str
    title: str
    tool: str
    status: Literal["done", "failed", "skipped"]
    value: JSON = None
    variable: str | None = None
    error: str | None = None
    seconds: float | None = None

    @property
    def success(self) -> bool:
        """Whether the step finished without failing."""
        return self.status == "done"

    @property
    def was_skipped(self) -> bool:
        """Whether the step was skipped: by its condition, or because a step that it depends on failed."""
        return self.status == "skipped"


class StepLog:
    """Collects the step results of one run."""

    def __init__(self, plan: Plan | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._steps = {} if plan is None else _steps_of(plan)
        self._clock = clock
        self._is_live = plan is not None
        self._begun: dict[str, float] = {}
        self._results: dict[str, StepResult] = {}
        self._calls: Counter[str] = Counter()
        self.hides: MaskedFields | None = None
        """The secrets that the `repr` of the results masks."""

    def begin_from(self, plan: Plan, new_plans: Iterable[tuple[str, Plan]]) -> None:
        """Set the plan of a resumed run and the plans that replaced it."""
        self._steps = _steps_of(plan)
        for _, new in new_plans:
            self._steps |= _steps_of(new)

    def compiled(self, plan: Plan) -> None:
        """Add the steps of a new plan."""
        self._steps |= _steps_of(plan)

    def calls_begun(self) -> Usage:
        """The calls begun so far, counting each attempt, and also those that a budget refused."""
        return Usage(calls=sum(self._calls.values()), calls_by_tool=dict(self._calls))

    def results(self) -> tuple[StepResult, ...]:
        """The results so far, in the order in which the steps ended."""
        return tuple(self._results.values())

    def title(self, index: str) -> str:
        """The title of a step in any plan of the run; empty if it has none."""
        step = self._steps.get(index)
        return "" if step is None else step.title or ""

    def get(self, index: str) -> StepResult | None:
        """The result of a step; None until it has ended."""
        return self._results.get(index)

    def watching(self, watch: Watch) -> Watch:
        """The watch, with this log added as an observer."""
        observer, on_driver = watch.observer, watch.on_driver

        def note(new: Note) -> None:
            self.note(new)
            if observer is not None:
                observer(new)

        def begins(driver: LocalDriver) -> None:
            self._is_live = True
            if on_driver is not None:
                on_driver(driver)

        return replace(watch, observer=note, on_driver=begins)

    def note(self, note: Note) -> None:
        """Record a note of the machine."""
        step = self._steps.get(note.step)
        if step is None:
            return
        match note.kind:
            case NoteKind.RETRYING:
                self._count(step)
            case NoteKind.STARTED:
                self._count(step)
                self._begun[step.id] = self._clock() if self._is_live else -1.0
                self._results.pop(step.id, None)
            case NoteKind.FINISHED:
                self._end(step, "done", value=note.value, variable=note.var, is_secret=note.is_secret)
            case NoteKind.FAILED:
                self._end(step, "failed", error=note.detail, is_secret=note.is_secret)
            case NoteKind.SKIPPED:
                self._end(step, "skipped", error=note.detail)
            case _:
                pass

    def _count(self, step: Step) -> None:
        if self._is_live and step.call is not None:
            self._calls[step.call.tool] += 1

    def _end(
        self,
        step: Step,
        status: Literal["done", "failed", "skipped"],
        *,
        value: JSON = None,
        variable: str | None = None,
        error: str | None = None,
        is_secret: bool = False,
    ) -> None:
        begun = self._begun.get(step.id, -1.0)
        seconds = max(0.0, self._clock() - begun) if self._is_live and begun >= 0 else None
        if status == "skipped" and self._is_live:
            seconds = 0.0
        tool = executor_name(step.call.tool) if step.call is not None else ""
        self._results.pop(step.id, None)
        result = StepResult(step.id, step.title or "", tool, status, value, variable, error, seconds)
        if self.hides is not None:
            hides = self.hides
            result = masked(result, hides._replace(names=_VALUES) if is_secret else hides)
        self._results[step.id] = result


_VALUES = frozenset({"value", "error"})


def log_of(plan: Plan) -> StepLog | None:
    """A log for a run of this plan; None for a text plan."""
    return StepLog(plan) if plan.order is Order.DAG else None


def _steps_of(plan: Plan) -> dict[str, Step]:
    return {step.id: step for step in plan.steps} if plan.order is Order.DAG else {}
