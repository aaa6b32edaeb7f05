"""Advances a talk: from an answer to its calls, from their outcomes to the next question, and to the end.

Nothing here depends on the order in which the calls of one turn are answered: outcomes are kept by place and
shown to the model together.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias, cast

from callsheet.ir import JSON
from callsheet.ir.failing import Failing
from callsheet.ir.labels import LITERAL, read_label
from callsheet.machine.agents.actions import (
    Action,
    CallOutcome,
    Decided,
    Finish,
    ObservedCall,
    Turn,
    Unreadable,
    read_action,
)
from callsheet.machine.agents.talk import InnerCall, Talk
from callsheet.machine.calls import emit, launch
from callsheet.machine.commands import Command
from callsheet.machine.keys import turn_key
from callsheet.machine.notes import CallEnd, Note, NoteKind
from callsheet.machine.program import Kind, LoopCode
from callsheet.machine.result import RefusedByPolicy
from callsheet.machine.run import Run
from callsheet.machine.values import to_json_text

_TOLD = 200
"""The most characters of a call in a note."""
_FAILED_TWICE = 2
_STOPPED = "what runs beside it has failed"
_PASSED = Turn(None)
"""A turn of a session: nobody reads its calls again."""


class Solved(NamedTuple):
    """The talk has ended with this value."""

    value: JSON


class GivenUp(NamedTuple):
    """The talk has ended without a value; `why` is the error of its step, `kind` that of the failure."""

    why: str
    kind: str = ""


Ended: TypeAlias = "Solved | GivenUp"


def take_answer(run: Run, talk: Talk, answer: JSON, out: list[Command]) -> Ended | None:
    """The model has answered a question; returns the end of the talk if it ends with that."""
    number = len(talk.turns) + 1
    if talk.code.kind is Kind.MODEL:
        talk.turns.append(Turn(answer))
        _note(run, talk, number, f"of {talk.allowed.turns} is written")
        return Solved(answer) if number >= talk.allowed.turns else _ask_model(run, talk, out)
    if talk.allowed.is_session:
        return _take_from_client(run, talk, answer, out)
    read = read_action(answer, talk.allowed.at_once)
    if isinstance(read, Finish):
        _note(run, talk, number, f"is done{talk.used and f', {talk.used}'}")
        return Solved(read.value)
    if isinstance(read, Unreadable):
        _note(run, talk, number, f"no action: {read.why}")
        if talk.turns and talk.turns[-1].fault:
            return GivenUp(f"@{talk.code.tool}: the model's answer is no action, twice: {read.why}")
        talk.turns.append(Turn(answer, fault=read.why))
    elif number >= talk.allowed.turns:
        _note(run, talk, number, f"wanted {_action_text(read[0])}, and has no turn left")
    elif why := overspent(run, talk):
        return out_of_budget(run, talk, why)
    else:
        talk.take(answer, read)
        return _continue_turn(run, talk, out)
    return _ask_model(run, talk, out) if number < talk.allowed.turns else _out_of_turns(talk)


def _take_from_client(run: Run, talk: Talk, answer: JSON, out: list[Command]) -> Ended | None:
    """What the client of a session reports: what its user has said, what it has read elsewhere, its calls."""
    told = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    said, read = [str(text) for text in told.get("said") or ()], told.get("read") or ()
    for text in said:
        _note(run, talk, len(talk.turns) + 1, f"the user has said: {_cut(text)}")
    for what, label in read:
        _note(run, talk, len(talk.turns) + 1, f"has read {what} ({label})")
    if run.monitor is not None:
        run.monitor.heard(talk.key, said)
        for what, label in read:
            run.monitor.has_read(talk.key, str(what), read_label(str(label)))
    if (said or read) and not told.get("calls"):
        talk.turns.append(_PASSED)
        launch(run, talk, out)
        return None
    if told.get("failed"):
        return GivenUp(str(told["failed"]))
    return _take_calls(run, talk, read_action(answer, talk.allowed.at_once), out)


def _take_calls(run: Run, talk: Talk, read: Decided, out: list[Command]) -> Ended | None:
    """The client of a session has made these calls, or has left; the next question is open at once.

    A call that may not be made is refused alone: its client is told why, and nothing else ends.
    """
    if isinstance(read, Unreadable):
        return GivenUp(f"the session cannot go on: {read.why}")
    if isinstance(read, Finish):
        talk.is_closing = True
        return None if talk.open else Solved(read.value)
    for place, action in enumerate(read):
        _start_for_client(run, talk, place, action, out)
    talk.turns.append(_PASSED)
    launch(run, talk, out)
    return None


def _start_for_client(run: Run, talk: Talk, place: int, action: Action, out: list[Command]) -> None:
    loop = talk.code.loop
    assert loop is not None
    number = len(talk.turns) + 1
    code = loop.tools.get(action.tool)
    if code is None:
        key = turn_key(talk.key, number, place + 1)
        _note_end(run, talk, key, action.tool, f"there is no tool {action.tool.lower()} here")
        return
    call = InnerCall(talk, place, code, action.args)
    try:
        if run.monitor is not None:
            run.monitor.admit_inner(call, is_asked=code.number in run.gated)
            run.note_observed(talk.code.id)
            run.note_apart(call, action.args)
    except RefusedByPolicy as refused:
        _note_end(run, talk, call.key, action.tool, refused.refusal.explain())
        return
    full = run.budget.reserve(action.tool)
    if full is not None:
        _note_end(run, talk, call.key, action.tool, full.describe())
        return
    talk.open += 1
    _note(run, talk, number, f"calls {_action_text(action)}")
    emit(run, call, out)


def _observed_by_client(run: Run, call: InnerCall, value: JSON, outcome: CallOutcome) -> Ended | None:
    """A call of a session has its outcome; the session ends with it if its client has left."""
    talk = call.talk
    talk.open -= 1
    why = "" if outcome is CallOutcome.OK else str(value) or "it failed"
    _note_end(run, talk, call.key, call.code.tool, why)
    return Solved(None) if talk.is_closing and not talk.open else None


def observed(
    run: Run, call: InnerCall, value: JSON, outcome: CallOutcome, out: list[Command]
) -> Ended | None:
    """A call of a talk has its outcome; returns the end of the talk if it ends with that."""
    talk = call.talk
    if talk.allowed.is_session:
        return _observed_by_client(run, call, value, outcome)
    action = talk.actions[call.place]
    talk.open -= 1
    talk.seen[call.place] = ObservedCall(action.tool, action.args, value, outcome, call.delivery or call.key)
    if outcome is not CallOutcome.OK:
        _note(run, talk, len(talk.turns) + 1, f"{action.tool} failed: {value}")
    return _continue_turn(run, talk, out)


def _continue_turn(run: Run, talk: Talk, out: list[Command]) -> Ended | None:
    """Make the calls that can be made now; once all are done, ask the next question."""
    while talk.next < len(talk.actions) and not talk.refused:
        if not _start(run, talk, talk.actions[talk.next], out):
            break
    if talk.open:
        return None
    if talk.refused:
        return GivenUp(talk.refused, Failing.CANCELLED.value if talk.refused == _STOPPED else "")
    talk.close_turn()
    return _ask_model(run, talk, out)


def _start(run: Run, talk: Talk, action: Action, out: list[Command]) -> bool:
    """Make one call, or record why it is not made; False if no other may be made before an outcome."""
    if _is_stopping(run, talk):
        talk.refused = _STOPPED
        return False
    loop = talk.code.loop
    assert loop is not None
    place, number = talk.next, len(talk.turns) + 1
    why = _objection(talk, loop, action)
    if why is not None:
        _note(run, talk, number, f"no call of {action.tool}: {why}")
        talk.seen[place] = ObservedCall(action.tool, action.args, why, CallOutcome.REFUSED)
        talk.next += 1
        return True
    code = loop.tools[action.tool]
    if talk.open and not code.concurrent:
        return False
    call = talk.call_at(place)
    if run.monitor is not None:
        written = call.args
        run.monitor.admit_inner(call, is_asked=code.number in run.gated)
        run.note_observed(talk.code.id)
        run.note_apart(call, written)
    refusal = run.budget.reserve(action.tool)
    if refusal is not None:
        run.has_room(talk.frame, refusal)
        talk.refused = refusal.describe()
        return False
    call.delivery = _lost(talk, action)
    talk.next += 1
    talk.open += 1
    _note(run, talk, number, f"calls {_action_text(action)}")
    emit(run, call, out)
    return code.concurrent


def _ask_model(run: Run, talk: Talk, out: list[Command]) -> Ended | None:
    """Ask the model the next question, if its own limits and the budget have room for it."""
    if _is_stopping(run, talk):
        return GivenUp(_STOPPED, Failing.CANCELLED.value)
    if why := overspent(run, talk):
        return out_of_budget(run, talk, why)
    refusal = run.budget.reserve_model(talk.code.tool)
    if refusal is not None:
        run.has_room(talk.frame, refusal)
        return GivenUp(refusal.describe())
    launch(run, talk, out)
    return None


def overspent(run: Run, talk: Talk) -> str:
    """Why a talk may not go on: it, or a sub-plan around it, has spent its own budget; else ""."""
    if talk.is_overspent:
        return f"@{talk.code.tool} has spent its own budget: {talk.used}"
    return "" if run.tree is None else run.tree.overspent(talk)


def out_of_budget(run: Run, talk: Talk, why: str) -> GivenUp:
    """The end of such a talk."""
    said = talk.used if talk.is_overspent else why
    _note(run, talk, len(talk.turns) + 1, f"may not go on: {said}")
    return GivenUp(why, Failing.BUDGET.value)


def _is_stopping(run: Run, talk: Talk) -> bool:
    return run.tree is not None and run.tree.is_stopping(talk)


# ---------------------------------------------------------------- what is not called


def _objection(talk: Talk, loop: LoopCode, action: Action) -> str | None:
    """Why a call that an answer asks for is not made; None if it may be made."""
    if action.tool not in loop.tools or action.tool not in talk.allowed.tools:
        return f"there is no tool {action.tool.lower()} here"
    if talk.allowed.arguments:
        from callsheet.policy.constraints import objection_to  # noqa: PLC0415 - only under a policy

        wrong = objection_to(talk.allowed.arguments, action.tool, action.args)
        if wrong is not None:
            return wrong
    most = talk.allowed.calls
    if most is not None and talk.calls_made() >= most:
        calls_made = "the one call is" if most == 1 else f"all {most} calls are"
        return f"{calls_made} made; finish with what is known"
    return _repeats(talk, loop, action)


def _repeats(talk: Talk, loop: LoopCode, action: Action) -> str | None:
    """Why a call is a useless repetition: made before, with no write since that could change its result."""
    under_way = zip(talk.actions[: talk.next], talk.seen, strict=False)
    if any(seen is None and earlier == action for earlier, seen in under_way):
        return "the same call stands before it in this turn"
    failures = 0
    every = [(n, s) for n, turn in enumerate(talk.turns, 1) for s in turn.seen]
    every += [(len(talk.turns) + 1, s) for s in talk.seen if s is not None]
    for number, seen in reversed(every):
        if not seen.key:
            continue
        if seen.tool == action.tool and seen.args == action.args:
            if seen.outcome is CallOutcome.OK:
                return f"the same call was made in turn {number}; its result stands there"
            if seen.outcome is CallOutcome.REFUSED:
                return f"the same call was refused in turn {number}: {seen.value}"
            if seen.outcome is CallOutcome.LOST and not loop.tools[seen.tool].effect.may_rerun:
                return f"it is not known whether the same call of turn {number} took place"
            failures += 1
            if failures >= _FAILED_TWICE:
                return f"the same call has failed {failures} times"
        elif not loop.tools[seen.tool].effect.only_reads:
            return None
    return None


def _lost(talk: Talk, action: Action) -> str:
    """The key of the same call's earlier delivery if its answer was lost, otherwise ""."""
    last = next(
        (s for turn in reversed(talk.turns) for s in reversed(turn.seen) if s[:2] == tuple(action)), None
    )
    return last.key if last is not None and last.outcome is CallOutcome.LOST else ""


def _out_of_turns(talk: Talk) -> GivenUp:
    turns = talk.allowed.turns
    return GivenUp(f"@{talk.code.tool}: no answer within {turns} turn{'s' if turns != 1 else ''}")


# ---------------------------------------------------------------- what is told


def _action_text(action: Action) -> str:
    given = ", ".join(f"{name}={to_json_text(value)}" for name, value in action.args.items())
    return _cut(f"{action.tool} ({given})")


def _cut(text: str) -> str:
    return text if len(text) <= _TOLD else f"{text[: _TOLD - 1]}…"


def _note_end(run: Run, talk: Talk, key: str, tool: str, why: str) -> None:
    """Tell that a call of a session has its outcome, or was refused."""
    if run.observer is not None:
        text = f"{tool}: {why}" if why else f"{tool} has answered"
        seen = LITERAL if run.monitor is None else run.monitor.seen_by(talk.key)
        run.observer(Note(NoteKind.TURN, talk.code.id, text, ended=CallEnd(key, why, seen)))


def _note(run: Run, talk: Talk, number: int, text: str) -> None:
    if run.observer is not None:
        item = "" if talk.frame.items is None else f"item {talk.index + 1}, "
        head = f"round {number}" if talk.code.kind is Kind.MODEL else f"turn {number}:"
        run.notify(NoteKind.TURN, talk.frame.name, f"{item}{head} {text}")
