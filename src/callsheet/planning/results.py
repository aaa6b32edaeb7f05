"""The results of steps and plans, in the documented form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from callsheet.api.dryrun import DryRun
from callsheet.api.result import RunResult, StepResult
from callsheet.ir import Call, Plan, executor_name
from callsheet.machine.forecasting import Fields, Foreseen, Items, Text, Unknown


@dataclass(frozen=True, slots=True)
class StepExecutionResult:
    """The result of a step; `duration` is in seconds."""

    step_index: str
    step_title: str
    tool_name: str
    success: bool
    result: Any = None
    error: str | None = None
    duration: float = 0.0
    dry_run: bool = False

    @classmethod
    def of(cls, step: StepResult) -> StepExecutionResult:
        """The result in the documented form; a step skipped by its condition is a success."""
        skipped = step.was_skipped and not _never_ran(step)
        return cls(
            step.index,
            step.title,
            step.tool,
            step.success or skipped,
            step.value,
            None if step.success or skipped else step.error,
            step.seconds or 0.0,
        )


@dataclass(frozen=True, slots=True)
class PlanExecutionResult:
    """The result of a plan; `total_duration` is in seconds, `run_id` the id of the run in the journal."""

    plan_id: str
    plan_title: str
    success: bool
    steps: list[StepExecutionResult] = field(default_factory=list[StepExecutionResult])
    variables: dict[str, Any] = field(default_factory=dict[str, Any])
    total_duration: float = 0.0
    error: str | None = None
    replanned: bool = False
    run_id: str | None = None

    @classmethod
    def of(cls, plan: Plan, result: RunResult, seconds: float, *, is_recorded: bool) -> PlanExecutionResult:
        """The result in the documented form.

        After a re-plan, the steps are the completed ones of the first plan and the new ones. A step that did
        not run, because one that it depends on failed, is not among them.
        """
        first = {step.id for step in plan.steps} if result.replanned else set[str]()
        steps = [StepExecutionResult.of(step) for step in result.steps if not _never_ran(step)]
        return cls(
            plan.id or "",
            plan.title or "",
            result.ok,
            [step for step in steps if step.success or step.step_index not in first],
            result.variables,
            seconds,
            None if result.ok else (result.error or result.response or f"the run is {result.status}"),
            result.replanned,
            result.run_id if is_recorded else None,
        )

    @classmethod
    def foreseen(cls, plan: Plan, dry_run: DryRun, variables: dict[str, Any]) -> PlanExecutionResult:
        """The result of a dry run: each step, marked as such; placeholders stand for unknown results."""
        steps: list[StepExecutionResult] = []
        for foreseen in dry_run.forecast.steps:
            step = foreseen.step
            tool = executor_name(step.action.tool) if isinstance(step.action, Call) else ""
            stands_for = f"<{tool} result>"
            arguments = dict(foreseen.visits[0].arguments) if foreseen.visits else {}
            shown = {name: _plain(value) for name, value in arguments.items()}
            steps.append(
                StepExecutionResult(
                    step.id, step.title or "", tool, True, {"args": shown}, None, 0.0, dry_run=True
                )
            )
            if step.output is not None:
                variables[step.output.var] = stands_for
        return cls(plan.id or "", plan.title or "", True, steps, variables)


def _never_ran(step: StepResult) -> bool:
    """Whether a step was skipped because of a failure, and not by its condition."""
    return step.was_skipped and (step.error or "").endswith(" failed")


def _plain(value: Foreseen) -> Any:
    """A foreseen argument as data, with placeholders as texts."""
    match value:
        case Unknown():
            what, _, rest = str(value)[1:].partition(" ")
            return f"<{executor_name(what)} {rest}" if rest else str(value)
        case Text(parts=parts):
            return "".join(part if isinstance(part, str) else _plain(part) for part in parts)
        case Items(items=items):
            return [_plain(item) for item in items]
        case Fields(pairs=pairs):
            return {name: _plain(item) for name, item in pairs}
        case _:
            return value
