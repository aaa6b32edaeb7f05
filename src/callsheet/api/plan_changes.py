"""Checks whether a plan in the library has changed since a run of it began.

In: a library, the id of a plan, the plan of the run. Out: nothing, or an error that lists the differences.
A run always continues with its own plan; a user who names it by plan id may expect the current one.
"""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.diagnostics import CallsheetError
from callsheet.ir import Plan
from callsheet.ir.diff import Part, PlanDiff, StepDiff, diff_plans
from callsheet.store.library import PlanLibrary

_OF_THE_HEAD = frozenset({Part.ORDER, Part.VARIABLE, Part.VARIABLE_ORDER})
_MOST_SHOWN = 5


def check_unchanged(library: PlanLibrary, plan_id: str, original: Plan) -> None:
    """Raise CallsheetError (PLN029) if the library now has a different plan under this id.

    Differences in titles, goals and ids do not count, nor does a plan that is no longer there.
    """
    if plan_id in library.ids():
        check_same(plan_id, original, library.load(plan_id).result.plan)


def check_same(plan_id: str, original: Plan, stored: Plan | None) -> None:
    """Like `check_unchanged`, given the plan that is kept under the id; None if it could not be parsed."""
    changes = ["it has errors now"] if stored is None else list(_differences(diff_plans(original, stored)))
    if changes:
        more = f" and {len(changes) - _MOST_SHOWN} more" if len(changes) > _MOST_SHOWN else ""
        raise CallsheetError.single(
            "PLN029",
            f"the plan {plan_id} has changed since its run started: {', '.join(changes[:_MOST_SHOWN])}{more}",
            help="--accept-changed-plan (accept_changed_plan=True) continues with the original plan;"
            f" `callsheet plan run {plan_id}` runs the current one",
        )


def _differences(diff: PlanDiff) -> Iterator[str]:
    for change in diff.head:
        if change.part in _OF_THE_HEAD:
            yield "what its order means" if change.part is Part.ORDER else f"variable {change.name}"
    for step in diff.different():
        yield _of_step(step)


def _of_step(step: StepDiff) -> str:
    if step.new is None:
        return f"step {step.old.id} is gone" if step.old is not None else ""
    if step.old is None:
        return f"step {step.new.id} is new"
    return f"step {step.new.id}"
