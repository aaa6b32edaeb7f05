"""`callsheet at`: the state of a run after one of its events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.inspection.gc_control import without_gc
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text
from callsheet.apps.operations.runs import run_at_event_json
from callsheet.apps.rendering.timestamps import iso
from callsheet.apps.rendering.values import preview

if TYPE_CHECKING:
    from callsheet.api.explaining import RunMoment
    from callsheet.store.folded import Folded


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("seq", metavar="SEQ", type=int)
@journals.journal_path
@options.as_json
@without_gc
def at(run: str, seq: int, journal: Path | None, as_json: bool) -> int:
    """Show the state of RUN after its event SEQ: status, position, pending calls, variables.

    RUN is a run id, a unique prefix of one, or `last`. `callsheet show RUN --events` lists the events with
    their numbers. Nothing is executed.

    \b
    Example:
      callsheet at last 8
    """
    from callsheet.api.explaining import run_at  # noqa: PLC0415 - imports the store

    with journals.open_to_read(journal) as opened:
        moment = run_at(opened, run, seq)
        events = opened.find_run(moment.run_id).events
    with ignoring_broken_pipe():
        if as_json:
            print_json(run_at_event_json(moment))
        else:
            _print(moment, events)
    return Exit.OK


def _print(moment: RunMoment, events: int) -> None:
    event, folded = moment.event, moment.folded
    key = f" {event.key}" if event.key else ""
    told = f"event {event.seq} of {events}: {event.type}{key}, {iso(event.ts)}"
    print_text(f"run      {moment.run_id} after {told}")
    print_text(f"status   {moment.status}, {_position(folded)}")
    print_text(f"used     {moment.usage.describe()}")
    for command in folded.waiting.values():
        print_text(f"pending  {command.key}  {_describe_command(command)}")
    variables = [f"${name} = {preview(value, 100)}" for name, value in moment.variables.items()]
    if variables:
        print_text("\n".join(variables))
    if folded.machine.result is not None:
        print_text(f"{'answer' if moment.error is None else 'error'}: {moment.error or moment.response}")


def _position(folded: Folded) -> str:
    """The position of a run in its plan, in words."""
    machine = folded.machine
    steps = machine.program.steps
    if machine.result is not None:
        return f"ended at {machine.result.ended_at}" if machine.result.ended_at else "ended"
    if machine.schedule is not None:
        done, failed = len(machine.schedule.numbers_done()), len(machine.schedule.failures)
        message = f"{done} of {len(steps)} steps done, {machine.schedule.open} running"
        return message + (f", {failed} failed" if failed else "")
    if machine.pc >= len(steps):
        return "after the last step"
    group = machine.group
    if group is not None:
        return f"in the group {steps[machine.pc].id} to {steps[group.end - 1].id}"
    return f"at {steps[machine.pc].id}"


def _describe_command(command: object) -> str:
    words = {"CallTool": "tool call", "CallModel": "model call", "RunAgent": "agent"}
    kind = type(command).__name__
    tool = getattr(command, "tool", "")
    return f"{words.get(kind, kind)} @{tool}" if tool else _OTHERS.get(kind, kind)


_OTHERS = {
    "Ask": "request to a person",
    "AgentTurn": "model call of an agent",
    "Sleep": "delay before the next attempt",
    "Compile": "new plan from a model",
    "Probe": "probe: whether the call took place",
}
