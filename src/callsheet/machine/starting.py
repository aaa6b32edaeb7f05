"""Starting a step: evaluates its guard and items, then makes its first calls or performs its action."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from callsheet.ir import JSON
from callsheet.machine.agents.talk import opened
from callsheet.machine.budget import REPLAN, Refusal
from callsheet.machine.calls import emit
from callsheet.machine.closures import Eval, Unresolved
from callsheet.machine.commands import CallTool, Command
from callsheet.machine.decision_log import DecisionKind
from callsheet.machine.frames import SKIPPED, Attempt, Control, End, Frame, Jump
from callsheet.machine.notes import CallPlace, NoteKind
from callsheet.machine.program import FIRST, NOWHERE, Kind, StepCode
from callsheet.machine.result import Status
from callsheet.machine.run import Run, failure
from callsheet.machine.values import is_empty, items_of, to_text

if TYPE_CHECKING:
    from callsheet.machine.monitor.monitor import Monitor

_CALLS = frozenset({Kind.TOOL, Kind.MODEL, Kind.AGENT, Kind.ASK})
_call: Callable[[tuple[object, ...]], CallTool] = partial(cast("Any", tuple).__new__, CallTool)
"""Makes a CallTool from a tuple of all its fields; faster than its constructor."""
_TOOL, _RESPOND = Kind.TOOL, Kind.RESPOND
"""Read for every step: a module global is faster than an enum member."""


def leave(run: Run, code: StepCode, place: int, out: list[Command]) -> bool:
    """Issue the call of a plain step without a frame; False, with nothing done, if it needs `start`.

    `place` is its position in the open group. This is the fast path that nearly all steps take; a frame and
    an attempt are made later, only if something other than success happens to the call.
    """
    budget, slots, monitor = run.budget, run.slots, run.monitor
    if budget.ahead <= 0 or not run.is_free:
        return False
    if code.reads:
        was_set = run.scope.was_set
        for slot, _ in code.reads:
            if not was_set[slot]:
                return False
    try:
        test = code.condition
        if test is not None:
            if not test(slots):
                return False
            if monitor is not None:  # `start` may call it again, which changes nothing
                monitor.tested(code)
        args = code.arguments(slots)
    except Unresolved:
        return False
    admitted = None
    if monitor is not None:
        admitted = monitor.judgement_cache.admitted(code, args)
        if admitted is None:
            return False
    visits, identity, tool = run.visits, code.identity, code.tool
    visits[identity] = visit = visits[identity] + 1
    key = code.first_key if visit == 1 and not run.generation else run.prefix(code) + FIRST
    budget.steps += 1
    budget.ahead -= 1
    budget.calls[tool] += 1
    if run.observer is not None:
        run.notify(NoteKind.STARTED, code.id)
        if code.texts:
            _note_empty(run, code)
    run.attempts[key] = (code, args, place, None)
    if monitor is None or admitted is None:
        out.append(_call((key, code.id, tool, args, code.wants_data, "", None)))
    else:
        monitor.open_calls.calls[key] = admitted
        out.append(_call((key, code.id, tool, args, code.wants_data, "", admitted.sent)))
    return True


def start(run: Run, code: StepCode, grouped: bool, out: list[Command]) -> Frame:
    """Begin a visit of a step: evaluate its guard, make its first calls.

    If all items of a FOREACH are done at once, the caller still has to `collect` them.
    """
    run.visits[code.identity] += 1
    frame = Frame().begin(code, run.prefix(code), grouped)
    if code.source is not None:
        frame.items = items = items_of(code.source(run.slots))
        if run.monitor is not None:
            run.monitor.loop(frame, run.slots)
        if run.has_room(frame, run.budget.refuse_items(len(items))) and _count(run, frame):
            frame.results = [SKIPPED] * len(items)
            fill(run, frame, out)
        return frame
    why = _reason_to_skip(run, code) if code.may_skip else None
    if why is not None:
        run.notify(NoteKind.SKIPPED, code.id, why)
    elif _count(run, frame):
        try:
            if code.reads:
                _require_set(run, code)
            _perform(run, frame, 0, out)
        except Unresolved as error:
            if run.monitor is not None:
                run.monitor.record_argument_error(frame)
            _fail_unmade(run, frame, f"${{{error}}} has no value")
    return frame


def fill(run: Run, frame: Frame, out: list[Command]) -> None:
    """Start items of a FOREACH, in order, as long as the window has room.

    A pause is counted in `open` like a call, so that the frame stays open.
    """
    code, items, slots = frame.code, frame.items, run.slots
    assert items is not None
    window, loop_slot, condition = run.limits.window if code.concurrent else 1, code.loop_slot, code.condition
    before = slots[loop_slot]
    budget, monitor = run.budget, run.monitor
    label = None if monitor is None else monitor.enter(frame)
    are_plain = code.is_plain and run.is_free
    while frame.next < len(items) and frame.open < window and not frame.stopped:
        if run.units_left <= 0:
            frame.open += 1
            run.unfilled, run.is_paused = frame, True
            break
        run.units_left -= 1
        index = frame.next
        frame.next += 1
        slots[loop_slot] = items[index]
        if monitor is not None and condition is not None:
            monitor.tested(code)
        if condition is not None and not condition(slots):
            continue
        if are_plain and budget.ahead > 0:
            key, tool, args, sent = f"{frame.prefix}{index}.1", code.tool, code.arguments(slots), None
            if monitor is not None:
                admitted = monitor.judgement_cache.admitted(code, args)
                if admitted is None:
                    _perform(run, frame, index, out)
                    continue
                monitor.open_calls.calls[key] = admitted
                sent = admitted.sent
            if code.texts and run.observer is not None:
                _note_empty(run, code, CallPlace(index + 1, len(items), 1, code.retries + 1))
            budget.ahead -= 1
            budget.calls[tool] += 1
            frame.open += 1
            run.attempts[key] = (code, args, index, frame)
            out.append(_call((key, code.id, tool, args, code.wants_data, "", sent)))
        else:
            _perform(run, frame, index, out)
    slots[loop_slot] = before
    if monitor is not None and label is not None:
        monitor.leave(frame, label)


def jump(code: StepCode, number: int, target: str) -> Control:
    """A jump to a step, or a failure of the run if no step has that name."""
    if number == NOWHERE:
        return failure(code, f"there is no step {target} to go to")
    return Jump(number, target)


def joined(inputs: tuple[Eval, ...], slots: list[Any]) -> str:
    """The values as one text, separated by spaces, without empty ones."""
    return _join([make(slots) for make in inputs])


def _require_set(run: Run, code: StepCode) -> None:
    """Raise Unresolved for the first variable that the step reads and that is not set."""
    was_set = run.scope.was_set
    for slot, name in code.reads:
        if not was_set[slot]:
            raise Unresolved(name)


def _fail_unmade(run: Run, frame: Frame, error: str) -> None:
    """Fail a step whose arguments cannot be evaluated; no call is issued."""
    frame.failed |= {0}
    frame.value = error
    run.notify(NoteKind.FAILED, frame.code.id, error)


def _reason_to_skip(run: Run, code: StepCode) -> str | None:
    """Why the step is skipped in this visit; None if it is not."""
    if run.monitor is not None and code.condition is not None:
        run.monitor.tested(code)
    if code.condition is not None and not code.condition(run.slots):
        return "the condition does not hold"
    if code.kind is _RESPOND and _has_no_answer(run, code):
        return "there is nothing to answer with"
    return None


def _has_no_answer(run: Run, code: StepCode) -> bool:
    """Whether a RESPOND has only empty values and other steps follow."""
    if code.number + 1 == len(run.program.steps):
        return False
    if run.monitor is not None:
        run.monitor.answers(code)
    silent = all(is_empty(make(run.slots)) for make in code.inputs)
    return (
        silent
        if run.decision_log is None
        else run.decision_log.decide(DecisionKind.SILENT, code.number, silent)
    )


def _count(run: Run, frame: Frame) -> bool:
    """Count an executed step; False if `max_steps` is reached."""
    budget, most = run.budget, run.limits.max_steps
    if budget.steps >= most:
        return run.has_room(frame, Refusal("max_steps", most, budget.steps))
    budget.steps += 1
    budget.ahead -= 1
    frame.ran = True
    if run.observer is not None:
        at = None if frame.items is None else CallPlace(items=len(frame.items))
        run.notify(NoteKind.STARTED, frame.code.id, at=at)
    return True


def _perform(run: Run, frame: Frame, index: int, out: list[Command]) -> None:
    """Perform the action once, for one item, or make the call that does."""
    code, slots = frame.code, run.slots
    kind = code.kind
    if code.texts and run.observer is not None:
        items = frame.items
        place = None if items is None else CallPlace(index + 1, len(items), 1, code.retries + 1)
        _note_empty(run, code, place)
    if kind is _TOOL and code.number not in run.gated:
        args = code.arguments(slots)
        if run.monitor is not None:
            _perform_watched(
                run, run.monitor, Attempt().begin(frame, index, f"{frame.prefix}{index}.1", args, []), out
            )
            return
        if not run.has_room(frame, run.budget.reserve(code.tool, args if code.recurs else None)):
            return
        frame.open += 1
        key = f"{frame.prefix}{index}.1"
        run.attempts[key] = Attempt().begin(frame, index, key, args, [])
        out.append(_call((key, code.id, code.tool, args, code.wants_data, "", None)))
    elif kind in _CALLS:
        _perform_call(run, frame, index, out)
    elif kind is _RESPOND:
        _respond(run, frame, index)
    elif kind is Kind.GOTO:
        frame.stopped = True
        frame.control = jump(code, code.target, code.goto_name)
    elif kind is Kind.TERMINATE:
        frame.stopped = True
        message = joined(code.inputs, slots)
        if run.monitor is not None:
            message = run.shown(code.id, message, run.monitor.shown_texts.answer(code, slots, message))
        frame.control = End(Status.DONE, message, terminated=True, ended_at=code.id)
    else:
        _ask_replan(run, frame, index, out)


def _perform_watched(run: Run, monitor: Monitor, attempt: Attempt, out: list[Command]) -> None:
    """Make a tool call under a policy, or ask for the approval that the policy demands."""
    frame = attempt.frame
    code, budget = frame.code, run.budget
    written = attempt.args
    admitted = monitor.admit(attempt, run.slots, is_asked=False)
    run.note_apart(attempt, written)
    if budget.ahead > 0 and not code.recurs:  # as without a policy
        budget.ahead -= 1
        budget.calls[code.tool] += 1
    elif not run.has_room(frame, budget.reserve(code.tool, attempt.args if code.recurs else None)):
        return
    frame.open += 1
    if admitted.reasons:
        emit(run, attempt, out)
        return
    run.attempts[attempt.key] = attempt
    call = CallTool(attempt.key, code.id, code.tool, attempt.args, code.wants_data, "", admitted.sent)
    out.append(call)


def _perform_call(run: Run, frame: Frame, index: int, out: list[Command]) -> None:
    """Make a call of a model, an agent or a person, or a tool call that needs an approval."""
    code, slots, budget = frame.code, run.slots, run.budget
    inputs, args = [make(slots) for make in code.inputs], code.arguments(slots)
    made_of = [inputs, args] if code.recurs else None
    asks_model = code.kind is Kind.MODEL or code.kind is Kind.AGENT
    attempt = opened(frame, index, f"{frame.prefix}{index}.1", args, inputs)
    if run.monitor is not None:
        run.monitor.admit(attempt, slots, is_asked=code.number in run.gated)
        run.note_apart(attempt, args)
    reserve = budget.reserve_model if asks_model else budget.reserve
    if run.has_room(frame, reserve(code.tool, made_of)):
        frame.open += 1
        emit(run, attempt, out)


def _respond(run: Run, frame: Frame, index: int) -> None:
    """Set the answer of the run, or of one item."""
    code = frame.code
    values = [make(run.slots) for make in code.inputs]
    text = _join(values)
    if run.monitor is not None:
        text = run.shown(code.id, text, run.monitor.shown_texts.answer(code, run.slots, text))
    if frame.items is None:
        frame.control = End(Status.DONE, text, ended_at=code.id)
    elif not all(is_empty(value) for value in values):
        frame.results[index] = text


def _ask_replan(run: Run, frame: Frame, index: int, out: list[Command]) -> None:
    code = frame.code
    frame.stopped = True
    refusal = run.budget.reserve_replan()
    if refusal is not None:
        why = refusal.describe()
        frame.control = End(Status.FAILED, why, True, error=why, ended_at=code.id, refusal=refusal)
        return
    if not run.has_room(frame, run.budget.reserve_model(REPLAN)):
        return
    attempt = Attempt().begin(frame, index, f"{frame.prefix}{index}.1", {}, [joined(code.inputs, run.slots)])
    if run.monitor is not None:
        run.monitor.admit(attempt, run.slots, is_asked=False)
    frame.open += 1
    emit(run, attempt, out)


def _note_empty(run: Run, code: StepCode, at: CallPlace | None = None) -> None:
    """Tell the observer which references in the texts of a step have no value."""
    try:
        names = [f"${name}" for name, make in code.texts if make(run.slots) is None]
    except Unresolved:  # the step of a graph fails
        return
    if names:
        have = "has" if len(names) == 1 else "have"
        effect = "the text has nothing there" if run.program.graph is None else "the text says null there"
        run.notify(NoteKind.EMPTY, code.id, f"{', '.join(names)} {have} no value: {effect}", at)


def _join(values: list[JSON]) -> str:
    return " ".join([text for text in map(to_text, values) if text])
