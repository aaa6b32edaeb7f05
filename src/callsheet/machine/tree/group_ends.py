"""For what a group of tasks ends before all of them, and what it has come to then.

In: a loop or block under way, with what its items or members have come to. Out: the cause for which the
others are stopped, None while there is none; at the end the failure of the whole, None if it has succeeded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Final, assert_never

from callsheet.ir.failing import BY_NAME, Failing
from callsheet.ir.tree import Ends
from callsheet.machine.frames import Attempt, TreeFrame
from callsheet.machine.tree.activations import Cause, Loop, Members
from callsheet.machine.tree.failures import (
    RECORDS,
    Failure,
    by_gravity,
    gravest,
    joined_label,
    kinds_of,
    kinds_of_record,
    marked_record,
    records_of,
    shown,
    words_of,
)

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


def failure_of_loop(loop: Loop, *, is_told: bool) -> Failure | None:
    """The failure of a loop of which items have failed; None if it goes on.

    Then `loop.failures` keeps only those that ON_FAIL SKIP leaves out. `is_told` says that the task around it
    is stopped itself.
    """
    failures, skips = loop.failures, loop.op.skips
    match loop.op.ends:
        case Ends.ALL:
            if skips and not any(one.kind in BY_NAME for one in failures.values()):
                return None
            return _of_items(failures, len(loop.items), _of_all(_in_order(failures)))
        case Ends.FAILED:
            failure = _of_group(failures, frozenset(), is_told=is_told)
            if failure is None:
                failures.clear()
            return failure
        case Ends.FIRST:
            return _of_first(loop)
    assert_never(loop.op.ends)


def failure_of_members(members: Members, *, is_told: bool) -> Failure | None:
    """The failure of a @PARALLEL of which members have failed; None if it goes on."""
    failures = members.failures
    if not members.op.stops:
        return _of_all(_in_order(failures))
    joined = frozenset(number for number in failures if members.op.joins(number))
    return _of_group(failures, joined, is_told=is_told)


def left_out(loop: Loop) -> str:
    """What is said of the items that ON_FAIL SKIP leaves out."""
    failures = _in_order(loop.failures)
    return f"{_of_items(loop.failures, len(loop.items), failures[0]).text}; left out"


def _in_order(failures: Mapping[int, Failure]) -> list[Failure]:
    return [failures[number] for number in sorted(failures)]


def _of_all(failures: Sequence[Failure]) -> Failure:
    """What a group of tasks that all run to their ends fails with; one that was ended comes before others."""
    ended = (one for one in failures if one.kind == Failing.CANCELLED)
    return gravest(failures) or next(ended, failures[0])


def _of_first(loop: Loop) -> Failure | None:
    """The failure of a loop that ends with its first item; what others come to counts only if it is grave."""
    failures, skips = loop.failures, loop.op.skips
    first = _first_of(loop)
    is_skipped = skips and not any(one.kind == Failing.DENIED for one in failures.values())
    failure = None if is_skipped else gravest(_in_order(failures))
    if failure is None and first is not None:
        failure = failures.get(first)
    if failure is None and first is None:
        failure = next((one for one in failures.values() if one.kind == Failing.CANCELLED), None)
    if failure is None:
        for number in [n for n, one in failures.items() if one.kind == Failing.CANCELLED or not skips]:
            del failures[number]
    return failure


def _of_group(failures: Mapping[int, Failure], joined: Set[int], *, is_told: bool) -> Failure | None:
    """The failure of a group that stops; None if nothing but tasks that ended themselves is in it.

    `joined` are the members that are loops of the same group, whose tasks are tasks of this one.
    """
    numbers = [number for number in sorted(failures) if failures[number].kind != Failing.CANCELLED]
    own = [failures[number] for number in numbers]
    if not own:
        return _in_order(failures)[0] if is_told else None
    grave = gravest(own)
    if grave is not None and len(own) == 1:
        return grave
    records: list[Any] = []
    for number in numbers:
        one = failures[number]
        records += records_of(one) if number in joined else [marked_record(one)]
    whole = grave or own[0]
    ordered = by_gravity(records, kinds_of_record)
    told = shown(ordered, lambda record: words_of(record["kind"], record["error"], whole))
    count = f"{len(records)} sub-exception" + ("" if len(records) == 1 else "s")
    return Failure(
        Failing.GROUP.value if grave is None else grave.kind,
        f"unhandled errors in a TaskGroup ({count})" if grave is None else grave.message,
        whole.step,
        f"{len(records)} failed: {told}",
        label=joined_label(own),
        fields={RECORDS: records},
    )


def _of_items(failures: Mapping[int, Failure], count: int, whole: Failure) -> Failure:
    """The failure of a loop of so many items: `whole`, with the items that failed in its full text."""
    ordered = by_gravity(sorted(failures), lambda number: kinds_of(failures[number]))

    def said(number: int) -> str:
        one = failures[number]
        return f"[{number}] {words_of(one.kind, one.text, whole)}"

    items = "item" if count == 1 else "items"
    return whole._replace(error=f"{len(failures)} of {count} {items} failed: {shown(ordered, said)}")
