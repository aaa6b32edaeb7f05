"""One seed, with and without faults, and what must hold.

Without faults it gives the expected end and the number of points; with faults, at some of these points, it
must come to the same end, and break none of the promises that `world` and `course` check on the way. Where
a failure stops others (`Case.stops`), it must come to an end.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from benchmarks.simulation.case import ENDLESS, Case, End, Report
from benchmarks.simulation.course import Course
from benchmarks.simulation.faults import Faults
from benchmarks.simulation.watching import Memory, watching

from callsheet.machine import Status
from callsheet.machine.keys import parse_key

_SMALL_RESULTS = 100_000
"""More bytes than all small results of a run have together."""


class Prepared(NamedTuple):
    """A case, and what came of it without faults."""

    case: Case
    report: Report
    end: End | None
    points: Counter[str]
    """How often it came to points of each kind."""
    approved: frozenset[str]
    """The calls that somebody had to say yes to."""
    memory: Memory
    is_timely: bool
    """Whether what took place depends on how long each call took."""


def prepare(seed: int | Case) -> Prepared:
    """Run the case of a seed without faults."""
    case = Case.of(seed) if isinstance(seed, int) else seed
    report = Report(case.seed)
    course, memory = Course(case, report), Memory()
    _play(course, memory)
    report.problems[:] = [f"without faults: {one}" for one in report.problems]
    points = sum((one.passed for one in course.owners), Counter[str]())
    approved = frozenset(course.world.approved)
    return Prepared(case, report, course.end, points, approved, memory, _is_timely(course))


def simulate(seed: int | Prepared) -> Report:
    """Run a seed with its faults, and report what is wrong."""
    prepared = prepare(seed) if isinstance(seed, int) else seed
    case, before, expected, points, approved, memory, is_timely = prepared
    if before.problems:
        return before
    report = Report(case.seed)
    report.trace += [
        f"seed {case.seed}",
        *case.text.splitlines(),
        str(case.settings._replace(policy=None)),
        str(expected),
        "",
    ]
    course = Course(case, report)
    course.world.need_yes = approved
    Faults(course, points)
    _play(course, memory)
    most = case.settings.limits.max_calls
    if not course.has_lost and most is not None:
        if len(course.world.made) > most:
            report.problems.append(f"{len(course.world.made)} calls were made, of {most}")
        elif (
            most == ENDLESS
            and not (course.is_cancelled or course.world.has_failed)
            and not report.problems
            and not case.stops
            and not _is_alike(course.end, expected, is_timely or _is_timely(course))
            and not _has_come_to_too_much(course)
        ):
            report.problems.append(f"the run ended as {course.end} instead of {expected}")
    return report


def _is_timely(course: Course) -> bool:
    """Whether calls under way were given up, one was refused, or an item failed.

    What runs beside a refused call is then as far as it is; a loop of a plan of version 1 begins no more
    items after a failed one.
    """
    world, error = course.world, (course.end and course.end.error) or ""
    failed = {f"{parse_key(key).step}: ?FOREACH" for key in world.recorded.failed}
    has_ended_loop = any(line.lstrip().startswith(tuple(failed)) for line in course.text.splitlines())
    is_refused = course.end is not None and course.end.status == Status.REFUSED.value
    return world.has_given_up or is_refused or "a higher max_bytes allows more" in error or has_ended_loop


def _has_come_to_too_much(course: Course) -> bool:
    """Whether a run was ended by the bytes of its results, and they are as many.

    Which call comes last, and so which are refused, is a matter of time where they are about as many as the
    limit allows.
    """
    error = (course.end and course.end.error) or ""
    told = re.search(r"the results of the run have come to (\d+) bytes", error)
    return told is not None and int(told[1]) <= sum(course.world.large.values()) + _SMALL_RESULTS


def _is_alike(end: End | None, expected: End | None, is_timely: bool) -> bool:
    if is_timely and end is not None and expected is not None:
        expected = expected._replace(error=end.error, effects=end.effects)
    return end == expected


def _play(course: Course, memory: Memory) -> None:
    """Carry a run to its end, and look at what it has left."""
    try:
        with course.kernel.in_place(), memory.used(), watching(course):
            course.play()
            if course.end is not None and not course.world.problems:
                if course.has_faults:
                    course.check_resumed()
                course.check_journal()
                if course.has_faults and course.settings.undoes and not course.has_lost:
                    course.check_undone()
    finally:
        course.close()
    course.report.calls += course.world.made.total()
    course.report.problems += course.world.problems + course.kernel.errors
