"""A run at one of its events as data: variables, open calls, and what loops under way have given so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from callsheet.apps.operations.schema import Object
from callsheet.apps.rendering.values import iso

if TYPE_CHECKING:
    from callsheet.api.explaining import RunMoment
    from callsheet.machine.tree.variables import LoopUnderWay


class ItemResult(TypedDict):
    """What an item of a loop has given, or the error with which it has failed."""

    item: int
    value: Any
    error: str | None


class LoopRow(TypedDict):
    """A loop that is under way."""

    loop: Annotated[str, "its place in the run"]
    variable: Annotated[str | None, "the variable that its list will be in"]
    items: Annotated[int, "how many there are"]
    ended: Annotated[list[ItemResult], "the items that are done or have failed, in their order"]


class MomentResult(TypedDict):
    """The state of a run after one of its events."""

    run_id: str
    event: Object
    status: str
    turn: Annotated[str | None, "the next step"]
    done: list[str] | None
    failed: Object | None
    open: Annotated[list[Object], "calls in progress"]
    loops: Annotated[list[LoopRow], "loops under way, with the results of their items so far"]
    variables: Object
    visits: Object
    response: str | None
    error: str | None
    usage: Object


def _loop_json(loop: LoopUnderWay) -> LoopRow:
    ended: list[ItemResult] = [
        {"item": item, "value": loop.results.get(item), "error": loop.failed.get(item)}
        for item in sorted({*loop.results, *loop.failed})
    ]
    return {"loop": loop.place, "variable": loop.variable, "items": loop.items, "ended": ended}


def run_at_event_json(moment: RunMoment) -> MomentResult:
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
        "loops": [_loop_json(loop) for loop in moment.loops],
        "variables": dict(moment.variables),
        "visits": dict(moment.visits),
        "response": moment.response,
        "error": moment.error,
        "usage": moment.usage.to_json(),
    }
