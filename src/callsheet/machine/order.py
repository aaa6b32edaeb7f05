"""Control flow between steps: in text order, in a @PARALLEL block, or in a graph.

The outcomes of a group, and of the items of a FOREACH, are kept by position and committed together, so the
order in which they arrive does not matter.
"""

from __future__ import annotations

from heapq import heappop

from callsheet.ir import JSON, Cast
from callsheet.machine.commands import Command
from callsheet.machine.decision_log import DecisionKind
from callsheet.machine.frames import SKIPPED, Attempt, Control, End, Frame, Group, Jump, NewPlan
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.program import FIRST, NOWHERE, Kind, StepCode
from callsheet.machine.replanning import go_on_with_plan, plan_anew
from callsheet.machine.result import Status
from callsheet.machine.run import Run
from callsheet.machine.schedule import Schedule
from callsheet.machine.starting import fill, joined, jump, leave, start
from callsheet.machine.values import cast_value, to_text


def collect(run: Run, frame: Frame) -> None:
    """If a frame has no open call: set its value, and its control flow after a failure."""
    if frame.open:
        return
    if frame.items is not None:
        if frame.code.kind is Kind.RESPOND:
            answers = [r for r in frame.results if r is not SKIPPED]
            if answers:
                frame.control = End(Status.DONE, "\n".join(answers), ended_at=frame.code.id)
            return
        frame.value = _gathered(run, frame)
    if frame.failed and frame.control is None:
        frame.control = _diversion(run, frame, min(frame.failed))


def store_plain_result(run: Run, code: StepCode, value: JSON, key: str = "") -> None:
    """As `store`, for the value of a plain call; `key` is its key if it was in a group, otherwise ""."""
    if run.monitor is not None and key:
        run.monitor.stored(code, key.removesuffix(FIRST))
    slot = code.out_slot
    if slot >= 0:
        if code.cast is not None:
            value = _cast(run, code, value)
        run.slots[slot] = run.last = value
        run.scope.was_set[slot] = 1
    if run.observer is not None:
        _notify_finished(run, code, value)


def store(run: Run, frame: Frame) -> None:
    """Store the frame's value in its variable and tell the observer how the step ended."""
    if not frame.ran:
        return
    if run.monitor is not None:
        run.monitor.stored(frame.code, frame.prefix)
    code, value = frame.code, frame.value
    if frame.failed and frame.control is None:
        run.failed_steps[code.id] = None
    slot = code.out_slot
    if slot >= 0:
        if code.cast is not None and frame.items is None and not frame.failed:
            value = _cast(run, code, value)
        run.slots[slot] = run.last = value
        run.scope.was_set[slot] = 1
    if run.observer is not None and not (frame.failed and frame.items is None):
        end = frame.control
        if not isinstance(end, End) or end.status is Status.DONE:
            _notify_finished(run, code, value, is_failure=bool(frame.failed) and isinstance(end, Jump))
        elif end.refusal is not None:
            _notify_finished(run, code, value, end.refusal.describe())
        else:
            _notify_finished(run, code, value, end.error or end.response, is_failure=True)


def note_settled(run: Run, frame: Frame) -> None:
    """Tell the observer that a member of a group has no open call, and waits for the others.

    A member without items that has failed was told as such.
    """
    if run.observer is None or frame.open or not frame.ran or (frame.failed and frame.items is None):
        return
    leads_elsewhere = bool(frame.failed) and frame.control is not None
    run.observer(Note(NoteKind.SETTLED, frame.code.id, is_failure=leads_elsewhere))


def _notify_finished(
    run: Run, code: StepCode, value: JSON, why: str = "", *, is_failure: bool = False
) -> None:
    slot = code.out_slot
    var = run.program.names[slot] if slot != NOWHERE else None
    is_secret = (
        run.monitor is not None and slot != NOWHERE and run.monitor.variable_labels.labels[slot].is_secret
    )
    if run.observer is not None:
        run.observer(Note(NoteKind.FINISHED, code.id, why, var, value, is_secret, is_failure))


def _gathered(run: Run, frame: Frame) -> list[JSON]:
    """The results of the items in order, each cast, without skipped ones.

    If a failure leads elsewhere, results after the first failed item are dropped: which later items were
    started depends on the order in which answers arrived.
    """
    code, results = frame.code, frame.results
    upto = min(frame.failed) + 1 if frame.failed and frame.stopped else len(results)
    casts = code.cast is not None and code.cast is not Cast.LIST
    return [
        _cast(run, code, result) if casts and index not in frame.failed else result
        for index, result in enumerate(results[:upto])
        if result is not SKIPPED
    ]


def _diversion(run: Run, frame: Frame, index: int) -> Control | None:
    """Where ON_FAIL leads; its message may refer to the item and the error."""
    code, slots = frame.code, run.slots
    if code.fail_target is not None:
        return jump(code, run.program.number_of.get(code.fail_target, NOWHERE), code.fail_target)
    if not code.leads_on:
        return None
    error = frame.value if frame.items is None else frame.results[index]
    slots_before = list(slots)
    if frame.items is not None:
        slots[code.loop_slot] = frame.items[index]
    if code.out_slot != NOWHERE:
        slots[code.out_slot] = error
    message, text = joined(code.fail_values, slots), str(error)
    if run.monitor is not None:
        message = run.shown(code.id, message, run.monitor.shown_texts.message(frame, slots, message))
        text = run.monitor.shown_texts.failure(frame, text)
    slots[:] = slots_before
    return End(Status.FAILED, message, True, error=text, ended_at=code.id)


def _cast(run: Run, code: StepCode, value: JSON) -> JSON:
    assert code.cast is not None
    result, fits = cast_value(code.cast, value)
    if run.decision_log is not None:
        fits = run.decision_log.decide(DecisionKind.FITS, code.number, fits)
        result = result if fits else value
    if not fits and run.observer is not None:
        is_secret = run.monitor is not None and run.monitor.variable_labels.labels[code.out_slot].is_secret
        detail = f"not a value for :{code.cast}"
        run.observer(Note(NoteKind.CAST_FAILED, code.id, detail, None, value, is_secret))
    return result


def advance(run: Run, out: list[Command]) -> None:
    """Start steps until the run has to wait for an outcome, ends or pauses."""
    if run.edits is not None:
        run.hold_edits()
    if run.schedule is not None:
        _start_ready(run, run.schedule, out)
        return
    if run.tree is not None:
        run.tree.advance(run, out)
        return
    steps = run.program.steps
    while run.result is None:
        if run.units_left <= 0:
            run.is_paused = True
            return
        run.units_left -= 1
        if run.pc >= len(steps):
            answer = to_text(run.last)
            if run.monitor is not None:
                answer = run.shown(
                    steps[-1].id if steps else "", answer, run.monitor.shown_texts.implied(answer)
                )
            run.finish(End(Status.DONE, answer), out)
            return
        code = steps[run.pc]
        if code.group != NOWHERE:
            run.group = group = Group(code.number, code.group_end)
            _start_members(run, group, out)
            if group.open or group.next < group.end:
                return
            _commit_group(run, group, out)
            continue
        if code.leaves and leave(run, code, NOWHERE, out):
            return
        frame = start(run, code, False, out)
        if frame.open:
            return
        if frame.items is not None:
            collect(run, frame)
        _commit(run, frame, code.number + 1, out)


def settle(run: Run, attempt: Attempt, value: JSON, out: list[Command]) -> None:
    """A call has its final outcome: store it, start further items, commit what is complete."""
    frame = attempt.frame
    if frame.items is not None:
        item_ended(run, frame, attempt.index, value, out)
        return
    if run.tree is not None:
        run.tree.settled(run, attempt, value, out)
        return
    frame.open -= 1
    frame.value = value
    complete(run, frame, out)


def item_ended(run: Run, frame: Frame, index: int, value: JSON, out: list[Command]) -> None:
    """As `settle`, for an item of a FOREACH."""
    items = frame.items
    assert items is not None
    frame.open -= 1
    frame.results[index] = value
    if frame.next < len(items):
        fill(run, frame, out)
    if not frame.open:
        complete(run, frame, out)


def catch_up(run: Run, out: list[Command]) -> None:
    """Continue the work that a pause interrupted."""
    if run.tree is not None:
        run.tree.catch_up(run, out)
        return
    frame, group = run.unfilled, run.group
    run.unfilled, run.is_paused = None, False
    if frame is not None:
        frame.open -= 1
        fill(run, frame, out)
        if group is None or not frame.grouped or group.next >= group.end:
            complete(run, frame, out)
            return
        group.open -= not frame.open
        collect(run, frame)
        note_settled(run, frame)
    if group is not None:
        _start_members(run, group, out)
        complete_group(run, group, out)
    else:
        advance(run, out)


def complete(run: Run, frame: Frame, out: list[Command]) -> None:
    """If a frame has no open call: commit its step, or its group if that is complete, and go on."""
    if frame.open:
        return
    group = run.group
    if group is not None:
        group.open -= 1
        if frame.items is not None or frame.failed:
            collect(run, frame)
        if not group.open:
            complete_group(run, group, out)
        else:
            note_settled(run, frame)
        return
    if frame.items is not None or frame.failed:
        collect(run, frame)
    if not frame.grouped:
        _commit(run, frame, frame.code.number + 1, out)
        advance(run, out)
        return
    assert run.schedule is not None
    complete_node(run, run.schedule, frame, out)


def complete_node(run: Run, schedule: Schedule, frame: Frame, out: list[Command]) -> None:
    """Commit a step of a graph that has no open call, and start the steps that are ready."""
    _commit_node(run, schedule, frame)
    if run.edits is not None:
        run.hold_edits()
    _start_ready(run, schedule, out)


def go_on_behind(run: Run, schedule: Schedule, number: int, out: list[Command]) -> None:
    """A step of a graph has succeeded and its value is stored: start the steps that are ready."""
    heir = schedule.heir(number)
    if heir >= 0:
        # A faster `_start_ready` for one step. `max_concurrency` has room, as a step has just ended. If it
        # was lowered there may be none, but then `leave` declines: the budget must check new limits first.
        code = run.program.steps[heir]
        if run.units_left > 0 and run.edits is None and code.leaves and leave(run, code, NOWHERE, out):
            schedule.open += 1
            run.units_left -= 1
            return
        schedule.put_back(heir)
    if run.edits is not None:
        run.hold_edits()
    if schedule.ready or not schedule.open:
        _start_ready(run, schedule, out)


# ---------------------------------------------------------------- in text order


def _commit(run: Run, frame: Frame, following: int, out: list[Command]) -> None:
    store(run, frame)
    if frame.control is None:
        run.pc = following
    else:
        _obey(run, frame.code, frame.control, out)


def _obey(run: Run, code: StepCode, control: Control, out: list[Command]) -> None:
    if run.ahead is not None:
        run.ahead.drop(run.budget)
    match control:
        case Jump(number=number, target=target):
            run.notify(NoteKind.JUMPED, code.id, target)
            run.pc = number
        case End():
            run.finish(control, out)
        case NewPlan(program=program, context=context):
            go_on_with_plan(run, code, program, context)


# ---------------------------------------------------------------- in a @PARALLEL block


def _start_members(run: Run, group: Group, out: list[Command]) -> None:
    """Start the members of a group in text order, until a pause."""
    steps = run.program.steps
    while group.next < group.end and run.unfilled is None:
        if run.units_left <= 0:
            run.is_paused = True
            return
        run.units_left -= 1
        code = steps[group.next]
        if code.leaves and leave(run, code, len(group.frames), out):
            group.next += 1
            group.open += 1
            group.frames.append((code, None, ""))
            continue
        frame = start(run, code, True, out)
        group.next += 1
        group.frames.append(frame)
        if frame.open:
            group.open += 1
        else:
            if frame.items is not None:
                collect(run, frame)
            note_settled(run, frame)


def complete_group(run: Run, group: Group, out: list[Command]) -> None:
    """If all members of a group have started and none is open: commit the group, and go on."""
    if not group.open and group.next >= group.end:
        _commit_group(run, group, out)
        advance(run, out)


def _commit_group(run: Run, group: Group, out: list[Command]) -> None:
    run.group = None
    led: list[Frame] = []
    for frame in group.frames:
        if isinstance(frame, tuple):
            code, value, key = frame
            store_plain_result(run, code, value, key)
            continue
        store(run, frame)
        if frame.control is not None:
            led.append(frame)
    if not led:
        run.pc = group.end
        return
    refused = (f for f in led if isinstance(f.control, End) and f.control.refusal is not None)
    frame = next(refused, led[0])
    assert frame.control is not None
    for other in led:
        if other is not frame and other.failed:  # its ON_FAIL leads nowhere: another member's is obeyed
            run.failed_steps[other.code.id] = None
    _obey(run, frame.code, frame.control, out)


# ---------------------------------------------------------------- in a graph


def _start_ready(run: Run, schedule: Schedule, out: list[Command]) -> None:
    """Start the ready steps of a graph, as many as may be open; end the run if none is open then."""
    steps, most = run.program.steps, run.limits.max_concurrency
    at_once, ready, order = run.limits.max_concurrency_by_tool, schedule.ready, schedule.order
    while ready and schedule.open < most and run.result is None:
        if run.units_left <= 0:
            run.is_paused = True
            return
        if at_once:
            number = schedule.next(at_once)
            if number is None:
                break
        else:
            number = order[heappop(ready)]
            schedule.open += 1
        run.units_left -= 1
        code = steps[number]
        if code.leaves and leave(run, code, NOWHERE, out):
            continue
        frame = start(run, code, True, out)
        if not frame.open:
            collect(run, frame)
            _commit_node(run, schedule, frame)
    if not schedule.open and run.result is None:
        end = schedule.end(steps, run.slots)
        if not plan_anew(run, schedule, end, out):
            if run.monitor is not None and end.ended_at is None and steps and steps[-1].out_slot != NOWHERE:
                answer = run.monitor.shown_texts.implied(end.response, steps[-1].out_slot)
                end = end._replace(response=run.shown(steps[-1].id, end.response, answer))
            run.finish(end, out)


def _commit_node(run: Run, schedule: Schedule, frame: Frame) -> None:
    """Commit a step of a graph: its dependents become ready, or are skipped if it failed."""
    code, control = frame.code, frame.control
    end = control if isinstance(control, End) else None
    if not frame.failed and (end is None or end.status is Status.DONE):
        store(run, frame)
        schedule.done(code.number)
    else:
        error = to_text(frame.value)
        if end is not None and not end.terminated:
            error = f"a budget is spent: {end.response}"
            run.notify(NoteKind.FAILED, code.id, error)
        elif run.monitor is not None:
            error = run.monitor.shown_texts.failure(frame, error)
        if run.monitor is not None:
            run.monitor.graph_step_failed(frame)
        for number in schedule.failed(code.number, error):
            run.notify(NoteKind.SKIPPED, run.program.steps[number].id, f"{code.id} failed")
    if end is not None and (end.terminated or end.status is Status.DONE):
        schedule.leads_to(code.number, end)
