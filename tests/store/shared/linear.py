"""Whether operations of several machines, which overlapped, gave what they would have given one by one.

In: what each operation gave, when it began and when it was done; and how a model answers one operation after
another. Out: an order of the operations that explains all results, in which none precedes one that was done
before it began; or None. That is the definition of a linearizable object.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any, NamedTuple, TypeVar

State = TypeVar("State", bound=Hashable)


class Operation(NamedTuple):
    """An operation of one machine: what was asked, what it gave, and when it began and was done."""

    asked: tuple[Any, ...]
    gave: Any
    began: int
    done: int


def linear_order(
    history: Sequence[Operation], state: State, answer: Callable[[State, tuple[Any, ...]], tuple[Any, State]]
) -> list[Operation] | None:
    """An order that explains a history which began in a state; `answer` gives a result and the next state."""
    seen: set[tuple[frozenset[int], State]] = set()
    stack: list[tuple[frozenset[int], State, tuple[int, ...]]] = [(frozenset(range(len(history))), state, ())]
    while stack:
        left, now, order = stack.pop()
        if not left:
            return [history[one] for one in order]
        if (left, now) in seen:
            continue
        seen.add((left, now))
        first_done = min(history[one].done for one in left)
        for one in left:
            if history[one].began < first_done:
                gave, following = answer(now, history[one].asked)
                if gave == history[one].gave:
                    stack.append((left - {one}, following, (*order, one)))
    return None


def played(machines: Sequence[Callable[[Callable[..., Any]], None]]) -> list[Operation]:
    """The history of machines that begin at once, each in its thread.

    Each is given a function that carries out and records one operation: what is asked, and how it is done.
    """
    ticks, history, start = count(), list[Operation](), threading.Barrier(len(machines))

    def carried_out(asked: tuple[Any, ...], work: Callable[[], Any]) -> Any:
        began = next(ticks)
        gave = work()
        history.append(Operation(asked, gave, began, next(ticks)))
        return gave

    def run(machine: Callable[[Callable[..., Any]], None]) -> None:
        start.wait()
        machine(carried_out)

    with ThreadPoolExecutor(len(machines)) as threads:
        for done in [threads.submit(run, machine) for machine in machines]:
            done.result()
    return history
