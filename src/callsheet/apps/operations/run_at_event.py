"""The state of a run after one of its events, as a JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from callsheet.apps.rendering.values import iso

if TYPE_CHECKING:
    from callsheet.api.explaining import RunMoment


def run_at_event_json(moment: RunMoment) -> dict[str, Any]:
    """The run after an event as a JSON object."""
    event, done, failed = moment.event, moment.done, moment.failed
    return {
        "run_id": moment.run_id,
        "event": {"seq": event.seq, "type": str(event.type), "key": event.key, "time": iso(event.ts)},
        "status": moment.status,
        "turn": moment.turn,
        "done": None if done is None else list(done),
        "failed": None if failed is None else dict(failed),
        "open": [
            {"key": c.key, "kind": type(c).__name__, "tool": getattr(c, "tool", None)}
            for c in moment.folded.waiting.values()
        ],
        "variables": dict(moment.variables),
        "visits": dict(moment.visits),
        "response": moment.response,
        "error": moment.error,
        "usage": moment.usage.to_json(),
    }
