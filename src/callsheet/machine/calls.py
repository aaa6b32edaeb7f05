"""Turns attempts into commands, and makes them again: retries and repeated deliveries."""

from __future__ import annotations

from callsheet.machine.agents.talk import QUESTION, InnerCall, Talk, asked_in
from callsheet.machine.budget import REPLAN, ReplanReserve
from callsheet.machine.commands import (
    AgentTurn,
    Ask,
    Awaited,
    CallModel,
    Command,
    Compile,
    Probe,
    RunAgent,
    Sleep,
)
from callsheet.machine.doubt import call_of
from callsheet.machine.frames import Attempt, Wait
from callsheet.machine.notes import NoteKind
from callsheet.machine.program import Kind, StepCode
from callsheet.machine.questions import headline
from callsheet.machine.replanning import compile_command
from callsheet.machine.run import Run

_ASKING_MODELS = frozenset({Kind.MODEL, Kind.AGENT, Kind.REPLAN})
_OF_MANY = 100
"""The number of calls assumed for a loop or an agent, whose real number is unknown.

Only used to decide whether limits are tight enough to give up the spare call for a repair.
"""


def emit(run: Run, attempt: Attempt, out: list[Command]) -> None:
    """Make the call of an attempt, or first ask a person: about the call, or about its result."""
    code = attempt.code
    admitted = None if run.monitor is None else run.monitor.open_calls.calls.get(attempt.key)
    has_reasons = attempt.held is not None or (admitted is not None and bool(admitted.reasons))
    if code.kind is Kind.ASK or has_reasons or code.number in run.gated:
        asked = run.asking.ask(attempt, run.program, admitted)
        if asked is not None:
            run.drop(attempt)  # a call in doubt that is to be made again
            if run.observer is not None:
                run.notify_of(NoteKind.ASKED, attempt, headline(asked))
            out.append(Ask(attempt.key, code.id, asked))
            return
    launch(run, attempt, out)


def launch(run: Run, attempt: Attempt, out: list[Command]) -> None:
    """Make the call of an attempt; for a talk, its next question."""
    if isinstance(attempt, Talk):
        attempt = attempt.question()
    run.register(attempt)
    if attempt.code.kind is Kind.REPLAN:
        run.budget.hold_repair(attempt.key, _replan_reserve(run, attempt.code))
    out.append(command_of(run, attempt))


def _replan_reserve(run: Run, code: StepCode) -> ReplanReserve:
    """The calls that the other steps of the same @PARALLEL block may still make."""
    group = run.group
    if group is None:
        return ReplanReserve()
    others = (one for one in run.program.steps[: group.end] if one.group == code.group and one is not code)
    calls = [(one.kind, _most_calls(one) - (one.number < group.next)) for one in others]
    return ReplanReserve(sum(n for _, n in calls), sum(n for kind, n in calls if kind in _ASKING_MODELS))


def _most_calls(code: StepCode) -> int:
    """The most calls that a step may make, with an assumed number for a loop or an agent."""
    once = _OF_MANY if code.source is not None or code.loop is not None else 1
    return once * (1 + code.retries) * (2 if code.kind is Kind.REPLAN else 1)


def command_of(run: Run, attempt: Attempt) -> Awaited:
    """The command for an attempt."""
    code, key = attempt.code, attempt.key
    kind = code.kind
    if isinstance(attempt, InnerCall) and attempt.place == QUESTION:
        asked = asked_in(attempt)
        if run.monitor is not None and isinstance(asked, AgentTurn):
            asked = asked._replace(label=run.monitor.open_calls.talks[attempt.talk.key][0])
        return asked
    if kind is Kind.TOOL or kind is Kind.ASK:
        return call_of(attempt, None if run.monitor is None else run.monitor.label_of(key))
    if kind is Kind.MODEL:
        may_fail = code.heeds_failure(attempt.number)
        return CallModel(key, code.id, code.tool, attempt.inputs, attempt.args, may_fail)
    if kind is Kind.AGENT:
        return RunAgent(key, code.id, code.tool, attempt.inputs, attempt.args)
    goal, reason = run.program.plan.goal or "", str(attempt.inputs[0])
    repairs, values = run.budget.may_repair(key), run.scope.to_dict()
    has_blocks = run.tree is not None
    if has_blocks:
        from callsheet.machine.tree.values import plain  # noqa: PLC0415 - only for version 2

        values = {name: plain(value) for name, value in values.items()}
    compile_ = Compile(key, code.id, reason, values, goal=goal, repairs=repairs, has_blocks=has_blocks)
    return compile_ if run.monitor is None else compile_._replace(**run.monitor.planning_labels(key))


def open_commands(run: Run) -> dict[str, Awaited]:
    """The commands that were issued and not answered yet, by key."""
    under_way = (*run.calls(), *run.inner.values(), *run.compiling.values())
    calls = [_awaited(run, attempt) for attempt in under_way]
    asks = [Ask(attempt.key, attempt.code.id, asked) for attempt, asked in run.asking.open()]
    waits = [pause_of(run, attempt) for attempt in run.asleep.values()]
    plans = () if run.planning is None else (compile_command(run, run.planning),)
    return {command.key: command for command in (*calls, *asks, *waits, *plans)}


def _awaited(run: Run, attempt: Attempt) -> Awaited:
    if attempt.is_probing:
        return Probe(attempt.key, attempt.code.id, call_of(attempt))
    return command_of(run, attempt)


def may_retry(run: Run, attempt: Attempt) -> bool:
    """Reserve one more attempt and the wait before it; whether the budget has room for both."""
    code, budget = attempt.code, run.budget
    refusal = budget.reserve_wait(run.limits.pause(attempt.number, code.delay, code.backoff))
    if refusal is None:
        reserve = budget.reserve_model if code.kind in _ASKING_MODELS else budget.reserve
        refusal = reserve(code.tool or REPLAN)
    if refusal is None:
        budget.retries += 1
    return run.has_room(attempt.frame, refusal)


def give_back(run: Run, attempt: Attempt) -> None:
    """Undo the reservation of a call that is never issued."""
    code = attempt.code
    run.budget.give_back(code.tool or REPLAN, asks_model=code.kind in _ASKING_MODELS)


def retry(run: Run, attempt: Attempt, error: str, out: list[Command]) -> None:
    """Make the next attempt of a failed call, after a wait if there is one."""
    before = attempt.key
    attempt.number += 1
    attempt.key = attempt.frame.key(attempt.index, attempt.number)
    if run.monitor is not None:
        run.monitor.renamed(before, attempt.key)
    run.notify_of(NoteKind.RETRYING, attempt, error)
    pause = pause_of(run, attempt)
    if pause.seconds > 0:
        run.asleep[attempt.key] = attempt
        out.append(pause)
    else:
        emit(run, attempt, out)


def pause_of(run: Run, attempt: Attempt) -> Sleep:
    """The wait before a further attempt, or the timer that it is."""
    code = attempt.code
    if isinstance(attempt, Wait):
        return Sleep(attempt.key, code.id, attempt.seconds)
    return Sleep(attempt.key, code.id, run.limits.pause(attempt.number - 1, code.delay, code.backoff))


def deliver_again(run: Run, attempt: Attempt, out: list[Command]) -> bool:
    """Make the same call again under the same key; False if the budget has no call left."""
    attempt.redelivered += 1
    if not run.has_room(attempt.frame, run.budget.reserve(attempt.code.tool)):
        return False
    emit(run, attempt, out)
    return True
