"""For what a group of tasks ends before all of them, and what it has come to then.

In: a loop or block under way, with what its items or members have come to. Out: the cause for which the
others are stopped, None while there is none; at the end the failure of the whole, None if it has succeeded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Final, assert_never

from callsheet.ir.failing import Failing
from callsheet.ir.tree import Ends
from callsheet.machine.frames import Attempt, TreeFrame
from callsheet.machine.tree.activations import Cause, Loop, Members
from callsheet.machine.tree.failures import Failure, of_group

TIMER: Final = 0
"""The member of a block with a time limit that is its timer; the block itself follows."""


def is_timer_of(attempt: Attempt, members: Members) -> bool:
    """Whether a timer is that of a block with a time limit."""
    frame = attempt.frame
    return isinstance(frame, TreeFrame) and frame.act.role is members and frame.act.index == TIMER


def cause_of(failures: Mapping[int, Failure]) -> Cause | None:
    """The failure for which a group stops; None if there are only tasks that have ended themselves."""
    every = (failures[number] for number in sorted(failures))
    first = next((one for one in every if one.kind != Failing.CANCELLED), None)
    return None if first is None else Cause(first.step, first.label)


def cause_in(loop: Loop) -> Cause | None:
    """For what a loop stops its items; None if it does not."""
    match loop.op.ends:
        case Ends.ALL:
            return None
        case Ends.FAILED:
            return cause_of(loop.failures)
        case Ends.FIRST:
            first = _first_of(loop)
            if first is None or first not in loop.failures:
                return None if first is None else Cause(f"{loop.path}[{first}]", None, "is done")
            failed = loop.failures[first]
            return None if failed.kind == Failing.CANCELLED else Cause(failed.step, failed.label)
    assert_never(loop.op.ends)


def _first_of(loop: Loop) -> int | None:
    """The first item that is done, in a loop that ends with it; with SKIP, the first that has succeeded."""
    return next((one for one in loop.places if not (loop.op.skips and one in loop.failures)), None)


def items_of(loop: Loop) -> Sequence[int]:
    """The items whose results make the list of a loop that has ended, in its order."""
    if loop.op.ends is Ends.FIRST:
        first = _first_of(loop)
        return () if first is None else (first,)
    return loop.places if loop.op.as_done else range(len(loop.results))


def results_of(loop: Loop) -> list[Any]:
    """The results of items that make the list of a loop, in its order."""
    items = items_of(loop)
    return loop.results if isinstance(items, range) else [loop.results[item] for item in items]


def failure_of_first(loop: Loop) -> Failure | None:
    """The failure of a loop that ends with its first item; what the others have come to does not count.

    Without one, `loop.failures` keeps only those that ON_FAIL SKIP leaves out.
    """
    failures = loop.failures
    first = _first_of(loop)
    denied = next((one for one in failures.values() if one.kind == Failing.DENIED), None)
    failure = denied or (None if first is None else failures.get(first))
    if failure is None and first is None:
        failure = next((one for one in failures.values() if one.kind == Failing.CANCELLED), None)
    if failure is None:
        skips = loop.op.skips
        for number in [n for n, one in failures.items() if one.kind == Failing.CANCELLED or not skips]:
            del failures[number]
    return failure


def failure_of_group(
    failures: Mapping[int, Failure], joined: Set[int] = frozenset(), *, is_told: bool
) -> Failure | None:
    """The failure of a group that stops; None if nothing but tasks that ended themselves is in it.

    `joined` are the members that are loops of the same group; `is_told` says that it is stopped itself.
    """
    every = [failures[number] for number in sorted(failures)]
    denied = next((one for one in every if one.kind == Failing.DENIED), None)
    own = [
        (failures[number], number in joined)
        for number in sorted(failures)
        if failures[number].kind != Failing.CANCELLED
    ]
    if denied is not None or own:
        return denied or of_group(own)
    return every[0] if is_told else None
