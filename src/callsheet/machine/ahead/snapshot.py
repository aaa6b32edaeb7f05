"""Converts the state of early calls to JSON data and back, for snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from callsheet.ir import JSON
from callsheet.machine.ahead.state import AheadState, EarlyStep, Outcome
from callsheet.machine.events import Failed, Succeeded
from callsheet.machine.program import Program
from callsheet.machine.usage import Spent

Keep: TypeAlias = "Callable[[JSON], JSON]"
Give: TypeAlias = "Callable[[Any], JSON]"


def ahead_to_json(state: AheadState, keep: Keep) -> dict[str, Any] | None:
    """The state as JSON data, each value passed through `keep`; None if no snapshot can be taken now.

    That is the case for a while: as long as a kept outcome has remarks, outcomes are yet to be handled, or
    the machine is still to ask for calls of a step that is not tracked any more.
    """
    steps = state.steps.values()
    if any(outcome.remarks for early in steps for outcome in early.outcomes.values()):
        return None
    if (
        state.queue
        or state.moved
        or any(state.steps.get(e.code.number) is not e for e, _ in state.calls.values())
    ):
        return None
    return {
        "steps": [_early_to_json(early, keep) for early in steps],
        "calls": [[key, early.code.number, index] for key, (early, index) in state.calls.items()],
        "skipped": sorted(state.skipped),
        "stops": sorted(state.stops),
        "waiters": [[number, waiters] for number, waiters in state.waiters.items()],
        "ready": state.ready,
        "counts": [state.open, state.low, state.next, state.high, state.arrived],
    }


def ahead_from_json(program: Program, data: Mapping[str, Any], give: Give) -> AheadState:
    """The state from JSON data; raises KeyError, IndexError, TypeError or ValueError if it is malformed."""
    state = AheadState()
    for item in data["steps"]:
        early = _early_from_json(program, item, give)
        state.steps[early.code.number] = early
    state.calls = {key: (state.steps[number], index) for key, number, index in data["calls"]}
    state.skipped, state.stops = set(data["skipped"]), set(data["stops"])
    state.waiters = {number: list(waiters) for number, waiters in data["waiters"]}
    state.ready = list(data["ready"])
    state.open, state.low, state.next, state.high, state.arrived = data["counts"]
    return state


def _early_to_json(early: EarlyStep, keep: Keep) -> list[Any]:
    return [
        early.code.number,
        early.prefix,
        None if early.items is None else keep(early.items),
        [[slot, keep(value)] for slot, value in early.patches],
        early.next,
        early.open,
        early.stopped,
        early.ran,
        [
            [index, early.arrivals[index], *_outcome_to_json(outcome, keep)]
            for index, outcome in early.outcomes.items()
        ],
        early.is_known,
        early.is_taken,
        keep(early.value),
    ]


def _early_from_json(program: Program, data: list[Any], give: Give) -> EarlyStep:
    number: int = data[0]
    _, prefix, items, patches, following, is_open, stopped, ran, outcomes, is_known, is_taken, value = data
    list_items = None if items is None else give(items)
    if list_items is not None and not isinstance(list_items, list):
        raise ValueError("the items of a loop are no list")
    early = EarlyStep(
        program.steps[number], prefix, list_items, [(slot, give(kept)) for slot, kept in patches]
    )
    early.next, early.open, early.stopped, early.ran = following, is_open, stopped, ran
    for index, arrival, *outcome in outcomes:
        early.outcomes[index] = _outcome_from_json(f"{prefix}{index}.1", outcome, give)
        early.arrivals[index] = arrival
    early.is_known, early.is_taken, early.value = is_known, is_taken, give(value)
    return early


def _outcome_to_json(outcome: Outcome, keep: Keep) -> list[Any]:
    spent = None if outcome.spent is None else list(outcome.spent)
    if isinstance(outcome, Succeeded):
        return ["ok", keep(outcome.value), spent]
    return ["err", keep(outcome.error), spent, outcome.unsettled, outcome.final, outcome.forbidden]


def _outcome_from_json(key: str, data: list[Any], give: Give) -> Outcome:
    kind, value, spent, *more = data
    took = None if spent is None else Spent(*spent)
    if kind == "ok":
        return Succeeded(key, give(value), (), took)
    return Failed(key, str(give(value)), (), took, *more)
