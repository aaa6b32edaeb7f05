"""Converts open calls to JSON data and back, for snapshots: calls of steps and of turn-by-turn operations.

In: an attempt, and the numbers of its frame and talk. What follows from the plan and from answers is left
out: an agent's calls are parsed again from its model's answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from callsheet.ir import JSON
from callsheet.machine.agents.actions import Action
from callsheet.machine.agents.conversation import CallOutcome, ObservedCall, Turn
from callsheet.machine.agents.talk import InnerCall, Talk, read_actions
from callsheet.machine.frames import Attempt, Frame, HeldResult

Keep: TypeAlias = "Callable[[JSON], JSON]"
Give: TypeAlias = "Callable[[Any], JSON]"


def call_to_json(attempt: Attempt, frame: int, talks: Mapping[int, int], keep: Keep) -> list[Any]:
    """A call as JSON data; `talks` are the numbers of talks by identity."""
    if isinstance(attempt, Talk):
        return ["talk", talks[id(attempt)]]
    if isinstance(attempt, InnerCall):
        return ["inner", talks[id(attempt.talk)], attempt.place, _lost(attempt)]
    return _attempt_to_json(attempt, frame, keep)


def call_from_json(data: list[Any], frames: Sequence[Frame], talks: Sequence[Talk], give: Give) -> Attempt:
    """The call from JSON data; raises KeyError, TypeError or ValueError if it is malformed."""
    if data[0] == "talk":
        talk_index: int = data[1]
        return talks[talk_index]
    if data[0] == "inner":
        number: int = data[1]
        call = talks[number].call_at(data[2])
        _put_lost(call, data[3])
        return call
    return _attempt_from_json(data, frames, give)


def talk_to_json(talk: Talk, frame: int, keep: Keep) -> dict[str, Any]:
    """A turn-by-turn operation as JSON data."""
    return {
        "attempt": _attempt_to_json(talk, frame, keep),
        "turns": [
            [keep(turn.answer), *(_seen_to_json(seen, keep) for seen in turn.seen)] for turn in talk.turns
        ],
        "now": [
            keep(talk.answer),
            *(None if seen is None else _seen_to_json(seen, keep) for seen in talk.seen),
        ]
        if talk.actions
        else None,
        "stands": [talk.next, talk.open, talk.refused],
    }


def talk_from_json(data: Mapping[str, Any], frames: Sequence[Frame], give: Give) -> Talk:
    """The operation from JSON data; raises KeyError, TypeError or ValueError if it is malformed."""
    given = _attempt_from_json(data["attempt"], frames, give)
    talk = Talk(given.frame, given.index, given.key, given.args, given.inputs)
    talk.number, talk.delivery, talk.held = given.number, given.delivery, given.held
    for answer, *kept in data["turns"]:
        value = give(answer)
        actions, fault = read_actions(talk, value)
        seen = [_seen_from_json(action, item, give) for action, item in zip(actions, kept, strict=True)]
        talk.turns.append(Turn(value, tuple(seen), fault))
    if data["now"] is not None:
        answer, *kept = data["now"]
        value = give(answer)
        actions, _ = read_actions(talk, value)
        talk.take(value, actions)
        talk.seen = [
            None if item is None else _seen_from_json(action, item, give)
            for action, item in zip(actions, kept, strict=True)
        ]
    talk.next, talk.open, talk.refused = data["stands"]
    return talk


def _seen_to_json(seen: ObservedCall, keep: Keep) -> list[Any]:
    return [keep(seen.value), str(seen.outcome), seen.key]


def _seen_from_json(action: Action, data: list[Any], give: Give) -> ObservedCall:
    value, outcome, key = data
    return ObservedCall(action.tool, action.args, give(value), CallOutcome(outcome), key)


def _lost(attempt: Attempt) -> list[Any] | None:
    lost = [attempt.delivery, attempt.redelivered, attempt.is_probing]
    return lost if any(lost) else None


def _put_lost(attempt: Attempt, lost: list[Any] | None) -> None:
    if lost is not None:
        attempt.delivery, attempt.redelivered, attempt.is_probing = lost


def _attempt_to_json(attempt: Attempt, frame: int, keep: Keep) -> list[Any]:
    args = {name: keep(value) for name, value in attempt.args.items()}
    inputs = [keep(value) for value in attempt.inputs]
    held_result = [] if attempt.held is None else [[keep(attempt.held.value), attempt.held.why]]
    return [frame, attempt.index, attempt.number, attempt.key, args, inputs, _lost(attempt), *held_result]


def _attempt_from_json(data: list[Any], frames: Sequence[Frame], give: Give) -> Attempt:
    frame_index: int = data[0]
    _, index, number, key, args, inputs, lost, *held_result = data
    given = {name: give(kept) for name, kept in args.items()}
    attempt = Attempt().begin(frames[frame_index], index, key, given, [give(kept) for kept in inputs])
    attempt.number = number
    _put_lost(attempt, lost)
    for value, why in held_result:
        attempt.held = HeldResult(give(value), str(why))
    return attempt
