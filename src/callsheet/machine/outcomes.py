"""The outcome of a step whose calls are done: its value, its variable, where a failure leads."""

from __future__ import annotations

from callsheet.ir import JSON, Cast
from callsheet.machine.decision_log import DecisionKind
from callsheet.machine.frames import SKIPPED, Control, End, Frame, Jump
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.program import FIRST, NOWHERE, Kind, StepCode
from callsheet.machine.result import Status
from callsheet.machine.run import Run
from callsheet.machine.starting import joined, jump
from callsheet.machine.values import cast_value


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
    if code.fail_message is None:
        return None
    error = frame.value if frame.items is None else frame.results[index]
    slots_before = list(slots)
    if frame.items is not None:
        slots[code.loop_slot] = frame.items[index]
    if code.out_slot != NOWHERE:
        slots[code.out_slot] = error
    message, text = joined(code.fail_message, slots), str(error)
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
