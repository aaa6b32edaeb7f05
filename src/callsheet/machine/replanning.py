"""How a run goes on with another plan: that of a failed graph, of a RE-PLAN step, or the next part of one.

The planner of a failed graph is asked up to `Limits.replans_on_failure` times until its plan can be run.
If the new steps fail, they are not planned anew: the run has failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Order, Plan
from callsheet.machine.budget import REPLAN, ReplanReserve
from callsheet.machine.commands import Command, Compile
from callsheet.machine.compiling import compile_plan
from callsheet.machine.events import Failed, PlanCompiled
from callsheet.machine.frames import Attempt, End
from callsheet.machine.keys import visit_of
from callsheet.machine.notes import NoteKind
from callsheet.machine.program import NOWHERE, Program
from callsheet.machine.progress import Planning, progress_of
from callsheet.machine.result import Status
from callsheet.machine.run import Run
from callsheet.machine.schedule import Schedule

if TYPE_CHECKING:
    from callsheet.ir.labels import Label
    from callsheet.ir.tree import Tree
    from callsheet.machine.monitor.trees import TreeMonitor
    from callsheet.machine.program import StepCode


def plan_anew(run: Run, schedule: Schedule, end: End, out: list[Command]) -> bool:
    """Ask for other steps where a graph has failed and may be planned anew; whether that was done."""
    if end.status is not Status.FAILED or end.terminated or run.generation or not schedule.failures:
        return False
    return _ask_for_plan(run, end, "", out)


def compile_command(run: Run, planning: Planning) -> Compile:
    """The command that asks for other steps."""
    schedule = run.schedule
    assert schedule is not None
    progress = progress_of(
        run.program.plan, schedule.numbers_done(), schedule.failures, run.budget.replans + 1, planning.refused
    )
    end = planning.end
    command = Compile(
        planning.key,
        end.ended_at or "",
        end.error or "",
        run.scope.to_dict(),
        progress,
        repairs=run.budget.may_repair(planning.key),
    )
    return command if run.monitor is None else command._replace(**run.monitor.planning_labels(planning.key))


def not_planned(run: Run, event: Failed, out: list[Command]) -> None:
    """The planner gave no plan: it is asked again, or the run ends as it would have without it."""
    planning = run.planning
    assert planning is not None
    run.planning = None
    run.budget.measure(event.error)
    _plan_again(run, planning, event, event.error, out)


def planned(run: Run, event: PlanCompiled, out: list[Command]) -> bool:
    """The planner gave a plan; whether its steps have taken the place of those that were left."""
    planning = run.planning
    assert planning is not None
    run.planning = None
    try:
        program = _program(run, event)
    except CallsheetError as error:
        _plan_again(run, planning, event, str(error), out)
        return False
    if run.monitor is not None:
        run.monitor.plan_anew(NOWHERE, run.monitor.context_of(planning.key, event.context))
    replace_plan(run, visit_of(planning.key), program)
    run.budget.count_repairs(planning.key, event.spent)
    run.note_beside(visit_of(planning.key), event)
    return True


def go_on_with_part(run: Run, attempt: Attempt, event: PlanCompiled) -> None:
    """Continue with the next part of a plan of version 2, which has the variables that are set as inputs.

    Raises CallsheetError (RUN038) for a part that cannot go on with them.
    """
    program = compile_plan(event.plan, event.facts)
    tree = event.plan.tree
    if tree is None:
        raise CallsheetError.single(
            "RUN038",
            "the next part of a plan of version 2 is of version 1",
            help="begin it with `# ltp: 2`, or write it in Python",
        )
    check_inputs(carried_by(run), tree)
    if run.monitor is not None:
        monitor = cast("TreeMonitor", run.monitor)
        run.monitor = monitor.goes_on(tree, attempt, monitor.context_of(event.key, event.context))
    run.notify(NoteKind.FINISHED, attempt.frame.name)
    replace_plan(run, attempt.frame.name, program)


def check_inputs(carried: Mapping[str, JSON], tree: Tree) -> None:
    """Raise CallsheetError (RUN038) for a plan whose inputs are not among the variables that are set."""
    from callsheet.ir.types import type_text  # noqa: PLC0415 - only for version 2
    from callsheet.machine.tree.values import conformed  # noqa: PLC0415 - as above

    for one in tree.inputs:
        if one.name not in carried and one.is_required:
            raise CallsheetError.single("RUN038", f"the next part needs ${one.name}, which is not set")
        if one.name in carried and conformed(carried[one.name], one.type, tree.named_types)[1]:
            # without the value: the planner knows no label of it, and people may read this
            kind = type_text(one.type)
            raise CallsheetError.single(
                "RUN038", f"the next part takes ${one.name} as {kind}, which it is not"
            )


def go_on_with_plan(run: Run, code: StepCode, program: Program, context: Label | None) -> None:
    """Continue with the plan that a RE-PLAN step gave; `context` is what its planner was told."""
    tree = program.plan.tree
    if run.monitor is not None and tree is not None:
        from callsheet.machine.monitor.trees import TreeMonitor  # noqa: PLC0415 - version 2 under a policy

        run.monitor = TreeMonitor.after_steps(run.monitor, tree, code.number, context)
    elif run.monitor is not None:
        run.monitor.plan_anew(code.number, context)
    replace_plan(run, code.id, program)


def replace_plan(run: Run, step: str, program: Program) -> None:
    """Continue with the steps of another plan, which was made for `step`; variables keep their values."""
    carried = carried_by(run)
    run.budget.replans += 1
    run.generation = f"r{run.budget.replans}/"
    run.load(program)
    run.scope.take_over(carried)
    run.scope.set_initial()
    if run.tree is not None:
        run.tree.set_inputs(run, carried)
    count = len(program.plan.steps)
    run.notify(NoteKind.REPLANNED, step, f"{count} new step{'' if count == 1 else 's'}")


def carried_by(run: Run) -> dict[str, JSON]:
    """The variables that are set, as JSON data."""
    values = run.scope.to_dict()
    if run.tree is None:
        return values
    from callsheet.machine.tree.values import plain  # noqa: PLC0415 - only for version 2

    return {name: plain(value) for name, value in values.items()}


def _ask_for_plan(run: Run, end: End, refused: str, out: list[Command]) -> bool:
    if run.plans_asked >= run.limits.replans_on_failure:
        return False
    refusal = run.budget.reserve_model(REPLAN)
    word = _free_word(run.program)
    if refusal is not None:
        run.notify(NoteKind.FAILED, word, refusal.describe())
        return False
    run.plans_asked += 1
    run.planning = Planning(f"{run.generation}{word}.0.{run.plans_asked}", end, refused)
    run.budget.hold_repair(run.planning.key, ReplanReserve())
    out.append(compile_command(run, run.planning))
    return True


def _plan_again(
    run: Run, planning: Planning, event: Failed | PlanCompiled, error: str, out: list[Command]
) -> None:
    run.notify(NoteKind.FAILED, visit_of(planning.key), error)
    run.budget.count_repairs(planning.key, event.spent)
    run.note_beside(visit_of(planning.key), event)
    if _ask_for_plan(run, planning.end, error, out):
        return
    end = planning.end
    shown = error if run.monitor is None else run.monitor.shown_texts.failure(None, error)
    message = f"{end.error}; no new plan: {shown}"
    run.finish(end._replace(response=message, error=message), out)


def _program(run: Run, event: PlanCompiled) -> Program:
    """The program of the new steps; raises CallsheetError (RUN001) for a plan that cannot go on."""
    plan: Plan = event.plan
    if plan.order is not Order.DAG:
        raise _unusable("it is a plan in text order")
    if not plan.steps:
        raise _unusable("it has no steps")
    known = run.program.number_of
    twice = next((step.id for step in plan.steps if step.id in known), None)
    if twice is not None:
        raise _unusable(f"its step {twice} has the index of an earlier one")
    return compile_plan(plan, event.facts)


def _unusable(why: str) -> CallsheetError:
    return CallsheetError.single("RUN001", f"the new plan cannot be run: {why}")


def _free_word(program: Program) -> str:
    """What stands in the place of a step in the planner's key: the index of no step."""
    word = REPLAN
    while word in program.number_of:
        word += "+"
    return word
