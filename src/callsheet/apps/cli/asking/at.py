"""`callsheet at`: a run as it was after one of its events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.asking.resting import collector_rests
from callsheet.apps.cli.exits import Exit
from callsheet.apps.cli.moments import iso
from callsheet.apps.cli.output import may_stay_unread, preview, print_json, print_text

if TYPE_CHECKING:
    from callsheet.store.events import Event
    from callsheet.store.reader import RunInfo
    from callsheet.store.replay import Folded


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("seq", metavar="SEQ", type=int)
@options.journal_path
@options.as_json
@collector_rests
def at(run: str, seq: int, journal: Path | None, as_json: bool) -> int:
    """Show RUN as it was after its event SEQ: variables, calls under way, where its plan stood.

    Nothing is run. `callsheet show RUN --events` lists the events with their numbers.
    """
    from callsheet.trace.standing import standing_of  # noqa: PLC0415 - brings the store

    with options.open_to_read(journal) as opened:
        info = opened.find_run(run)
        check_event(info, seq)
        event, folded = standing_of(opened, info, seq)
    with may_stay_unread():
        if as_json:
            print_json(moment_json(info.run_id, event, folded))
        else:
            _print(info.run_id, info.events, event, folded)
    return Exit.OK


def check_event(info: RunInfo, seq: int) -> None:
    """Raise JournalError (JRN041) for an event that a run does not have."""
    from callsheet.store.errors import JournalError  # noqa: PLC0415 - brings the store

    if not 1 <= seq <= info.events:
        raise JournalError(
            "JRN041", f"the run has no event {seq}", f"its events have the numbers 1 to {info.events}"
        )


def _status(folded: Folded) -> str:
    result = folded.machine.result
    return "running" if result is None else str(result.status)


# ---------------------------------------------------------------- for people


def _print(run_id: str, events: int, event: Event, folded: Folded) -> None:
    key = f" {event.key}" if event.key else ""
    print_text(f"run    {run_id} after event {event.seq} of {events}: {event.type}{key}, {iso(event.ts)}")
    print_text(f"is     {_status(folded)}, {_place(folded)}")
    print_text(f"used   {folded.usage().describe()}")
    for command in folded.waiting.values():
        print_text(f"open   {command.key}  {_what(command)}")
    said = [f"${name} = {preview(value, 100)}" for name, value in folded.machine.variables().items()]
    if said:
        print_text("\n".join(said))
    result = folded.machine.result
    if result is not None:
        print_text(f"{'answer' if result.error is None else 'error'}: {result.error or result.response}")


def _place(folded: Folded) -> str:
    """Where the plan stands, in words."""
    machine = folded.machine
    steps = machine.program.steps
    if machine.result is not None:
        return f"ended at {machine.result.ended_at}" if machine.result.ended_at else "ended"
    if machine.schedule is not None:
        done, failed = len(machine.schedule.numbers_done()), len(machine.schedule.failures)
        said = f"{done} of {len(steps)} steps done, {machine.schedule.open} under way"
        return said + (f", {failed} failed" if failed else "")
    if machine.pc >= len(steps):
        return "behind its last step"
    group = machine.group
    if group is not None:
        return f"in the group {steps[machine.pc].id} to {steps[group.end - 1].id}"
    return f"at {steps[machine.pc].id}"


def _what(command: object) -> str:
    words = {"CallTool": "a call of", "CallModel": "a model does", "RunAgent": "an agent does"}
    kind = type(command).__name__
    tool = getattr(command, "tool", "")
    return f"{words.get(kind, kind)} @{tool}" if tool else _OTHERS.get(kind, kind)


_OTHERS = {
    "Ask": "a person is asked",
    "AgentTurn": "an agent's model is asked",
    "Sleep": "a wait before the next attempt",
    "Compile": "a new plan is made",
    "Probe": "a probe looks whether the call took place",
}


# ---------------------------------------------------------------- for programs


def moment_json(run_id: str, event: Event, folded: Folded) -> dict[str, Any]:
    """The run after an event as a JSON object."""
    machine = folded.machine
    result = machine.result
    steps, schedule = machine.program.steps, machine.schedule
    turn = None
    if schedule is None and result is None and machine.pc < len(steps):
        turn = steps[machine.pc].id
    return {
        "run_id": run_id,
        "event": {"seq": event.seq, "type": str(event.type), "key": event.key, "time": iso(event.ts)},
        "status": _status(folded),
        "turn": turn,
        "done": None if schedule is None else [steps[n].id for n in sorted(schedule.numbers_done())],
        "failed": None if schedule is None else {steps[n].id: why for n, why in schedule.failures.items()},
        "open": [
            {"key": c.key, "kind": type(c).__name__, "tool": getattr(c, "tool", None)}
            for c in folded.waiting.values()
        ],
        "variables": machine.variables(),
        "visits": {code.id: n for code, n in zip(steps, machine.visits, strict=True) if n},
        "response": None if result is None else result.response,
        "error": None if result is None else result.error,
        "usage": folded.usage().to_json(),
    }
