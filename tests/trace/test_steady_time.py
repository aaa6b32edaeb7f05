"""Durations of a run whose machine's clock was set back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from callsheet.ir import Plan
from callsheet.machine.notes import Note, NoteKind
from callsheet.store.events import Event, EventType
from callsheet.trace.visits import SteadyTime, Visits

HOUR = 3600.0


def event(seq: int, ts: float, mono: float, epoch: int = 1) -> Event:
    return Event("r1", seq, epoch, EventType.INTENT, None, None, None, None, ts, mono, None, b"")


def times(rows: Sequence[tuple[float, float, int]]) -> list[float]:
    steady = SteadyTime()
    return [steady.of(event(seq, *row)) for seq, row in enumerate(rows, 1)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(9000.0, 5.0, 1), (9001.0, 6.0, 1)], [9000.0, 9001.0]),
        ([(9000.0, 5.0, 1), (9000.0 + HOUR, 6.0, 1)], [9000.0, 9000.0 + HOUR]),
        ([(9000.0, 5.0, 1), (8999.9, 5.1, 1), (9001.0, 6.0, 1)], [9000.0, 8999.9, 9001.0]),
        ([(9000.0, 5.0, 1), (9002.0 - HOUR, 7.0, 1), (9003.0 - HOUR, 8.0, 1)], [9000.0, 9002.0, 9003.0]),
        ([(9000.0, 5.0, 1), (9000.0 - HOUR, 1.0, 2)], [9000.0, 9000.0 - HOUR]),
    ],
    ids=["forward", "set forward", "slightly out of order", "set back", "event of another process"],
)
def test_time_passes_as_measured_when_the_clock_is_set_back(
    rows: list[tuple[float, float, int]], expected: list[float]
) -> None:
    assert times(rows) == pytest.approx(expected)


def test_plan_that_no_step_asked_for_has_time_of_its_request() -> None:
    visits = Visits(Plan(()))
    visits.at(10.0)
    visits.leaves("RE-PLAN", "RE-PLAN.0.1")
    visits.at(12.5)
    visits.answer("RE-PLAN", "RE-PLAN.0.1")
    made = visits.note(Note(NoteKind.FAILED, "RE-PLAN", "no plan"))
    assert made is not None
    assert (made.started, made.turn, made.ended, made.outcome, made.calls) == (10.0, 10.0, 12.5, "failed", 1)


def test_visit_of_member_ends_with_its_own_call_and_not_with_its_group() -> None:
    visits = Visits(Plan(()))
    visits.at(1.0)
    visits.note(Note(NoteKind.STARTED, "S1"))
    visits.leaves("S1", "S1.0.1")
    visits.at(2.0)
    visits.answer("S1", "S1.0.1")
    assert visits.timed(Note(NoteKind.SETTLED, "S1")) == 1.0
    visits.at(9.0)
    assert visits.timed(Note(NoteKind.FINISHED, "S1")) == 1.0
    assert visits.timed(Note(NoteKind.FINISHED, "S1")) is None
