"""Creates a run of a graph in which some steps were already done elsewhere.

In: a plan of dependencies, what it is started with, and the results of the finished steps. Out: a run in the
journal in which these steps have succeeded, for `resume_run` to continue. No tool is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Order, Plan
from callsheet.machine import CallModel, CallTool, Command, Limits, Machine, Started, Succeeded
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.program import compile_graph
from callsheet.policy.judge import judge_of
from callsheet.runtime.doubt import close_run
from callsheet.runtime.launch import Launch, start_of
from callsheet.runtime.places import LabelTracker
from callsheet.runtime.recording import JournalRecorder
from callsheet.runtime.runs import create_run
from callsheet.sealing.known import Known
from callsheet.store import Journal, JournalError
from callsheet.store.database import UNAVAILABLE
from callsheet.store.label_transfer import open_labels
from callsheet.store.replay import begin
from callsheet.store.start import Start

Labelled: TypeAlias = "Callable[[CallTool, Succeeded], Succeeded]"


def adopt_run(
    plan: Plan,
    known: Known,
    launch: Launch,
    journal: Journal,
    run_id: str,
    done: Mapping[str, JSON],
    workspace: str = "",
) -> None:
    """Create a run in which the steps of `done` have ended with these results, by step id.

    `known` are the secrets of its tools. Under a policy, results that were read from files of the `workspace`
    or from the memory have the labels stored for these, and what the steps wrote there gets labels. Calls
    made elsewhere do not count against the run's limits. On return the run is durable and not owned by any
    process. Raises CallsheetError: PLN028 for a step that cannot be taken over, JRN010 if labels cannot be
    used, and what `start_run` raises before a run begins.
    """
    check_done(plan, done)
    wide = replace(launch, limits=with_room(launch.limits, plan, done))
    start = start_of(plan, wide, journal)
    start = start._replace(ranks=ranks_before(plan, start.ranks, done))
    _try(plan, start, done)
    folded = begin(plan, start)
    with create_run(plan, start, wide, known, journal, run_id) as writer:
        recorder = JournalRecorder(writer, journal.durability, folded=folded)
        commands = folded.machine.feed(Started(start.inputs))
        with _labelling(launch, journal, run_id, workspace) as labelled:
            for call, outcome in ended_before(folded.machine, commands, done, labelled):
                recorder.intent(call)
                recorder.event(outcome)
        if folded.machine.result is not None:
            close_run(journal, writer, folded)
        writer.commit()


@contextmanager
def _labelling(launch: Launch, journal: Journal, run_id: str, workspace: str) -> Generator[Labelled]:
    """Adds stored labels to what finished calls have read, and stores those of what they wrote."""
    if launch.policy is None:
        yield _unlabelled
        return
    with open_labels(journal.path) as store:
        tracker = LabelTracker(judge_of(launch.policy), store, workspace, run_id)

        def labelled(call: CallTool, outcome: Succeeded) -> Succeeded:
            try:
                tracker.end(tracker.begin(call), outcome)
                return tracker.labelled(call, outcome)
            except UNAVAILABLE as error:
                raise JournalError(
                    "JRN010", f"the labels of files and facts cannot be used: {error}"
                ) from error

        yield labelled


def _unlabelled(call: CallTool, outcome: Succeeded) -> Succeeded:
    return outcome


def ended_before(
    machine: Machine,
    commands: Iterable[Command],
    done: Mapping[str, JSON],
    labelled: Labelled = _unlabelled,
) -> Iterator[tuple[CallTool | CallModel, Succeeded]]:
    """The calls of finished steps with their outcomes; the machine is fed each one after it is yielded.

    `commands` are those that the machine has issued so far. `labelled` adds a label to the outcome of a tool.
    """
    waiting = list(commands)
    for command in waiting:
        if isinstance(command, CallTool | CallModel) and command.step in done:
            outcome = Succeeded(command.key, done[command.step])
            if isinstance(command, CallTool):
                outcome = labelled(command, outcome)
            yield command, outcome
            waiting += machine.feed(outcome)


def ranks_before(plan: Plan, ranks: Mapping[str, int], done: Mapping[str, JSON]) -> dict[str, int]:
    """Ranks in which finished steps precede all others, which keep their order."""
    place = compile_graph(plan, ranks).place
    count = len(plan.steps)
    return {
        step.id: count - at + (count if step.id in done else 0)
        for step, at in zip(plan.steps, place, strict=True)
    }


def with_room(limits: Limits, plan: Plan, done: Mapping[str, JSON]) -> Limits:
    """The limits enlarged by the calls that were made elsewhere."""
    count = len(done)
    calls = Counter(s.call.tool for s in plan.steps if s.id in done and s.call is not None)
    by_tool = {name: most + calls[name] for name, most in limits.max_calls_by_tool.items()}
    return replace(
        limits,
        max_steps=limits.max_steps + count,
        max_calls=None if limits.max_calls is None else limits.max_calls + count,
        max_model_calls=None if limits.max_model_calls is None else limits.max_model_calls + count,
        max_calls_by_tool=by_tool,
    )


def check_done(plan: Plan, done: Mapping[str, JSON]) -> None:
    """Raise CallsheetError (PLN028) for an unknown step, or one that is done before its dependencies."""
    steps = {step.id: step for step in plan.steps}
    if plan.order is not Order.DAG:
        raise _refused("only a plan with dependencies can have steps that are already done")
    for step_id in done:
        step = steps.get(step_id)
        if step is None:
            raise _refused(f"the plan has no step {step_id[:60]}")
        missing = [other for other in step.depends_on or () if other not in done]
        if missing:
            raise _refused(f"step {step_id} is done, but step {missing[0]}, on which it depends, is not")
        if step.foreach is not None:
            raise _refused(f"step {step_id} is a loop: the result of each item is not given")


def _try(plan: Plan, start: Start, done: Mapping[str, JSON]) -> None:
    """Simulate the adoption without a journal; refuse steps that cannot be reported as done."""
    left_out: set[str] = set()
    failed: dict[str, str] = {}

    def hear(note: Note) -> None:
        if note.kind is NoteKind.SKIPPED:
            left_out.add(note.step)
        elif note.kind is NoteKind.FAILED:
            failed[note.step] = note.detail

    machine = begin(plan, start, hear).machine
    steps = {call.step for call, _ in ended_before(machine, machine.feed(Started(start.inputs)), done)}
    for step in plan.steps:
        if step.id in done and step.id not in steps | left_out:
            why = failed.get(step.id, "it is not a call of a tool or a model")
            raise _refused(f"step {step.id} cannot be marked as done: {why}")


def _refused(why: str) -> CallsheetError:
    return CallsheetError.single(
        "PLN028", f"the run cannot be taken over: {why}", help="nothing was run and nothing was written"
    )
