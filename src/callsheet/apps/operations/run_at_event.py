"""The state of a run after one of its events, as a JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from callsheet.apps.rendering.timestamps import iso

if TYPE_CHECKING:
    from callsheet.store.events import Event
    from callsheet.store.folded import Folded
    from callsheet.store.runs import RunInfo


def check_event(info: RunInfo, seq: int) -> None:
    """Raise JournalError (JRN041) for an event that a run does not have."""
    from callsheet.store.errors import JournalError  # noqa: PLC0415 - brings the store

    if not 1 <= seq <= info.events:
        raise JournalError(
            "JRN041", f"the run has no event {seq}", f"its events have the numbers 1 to {info.events}"
        )


def status_then(folded: Folded) -> str:
    """The status at the event: `running`, or the final status."""
    result = folded.machine.result
    return "running" if result is None else str(result.status)


def run_at_event_json(run_id: str, event: Event, folded: Folded) -> dict[str, Any]:
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
        "status": status_then(folded),
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
