"""Bounds and schedules of a graph: lower bounds, list schedules by many rules, and levels with a barrier.

Written independently of the machine's scheduler, so that one can be compared with the other.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from heapq import heappop, heappush

from benchmarks.makespan.graphs import Work


def critical_path(work: Work) -> float:
    """The seconds of the longest path through the graph."""
    ends: list[float] = []
    for waited, seconds in zip(work.waits, work.seconds, strict=True):
        ends.append(seconds + max((ends[before] for before in waited), default=0.0))
    return max(ends, default=0.0)


def lower_bound(work: Work, slots: int | None) -> float:
    """The lower bound of all schedules: the longest path, and the work divided by the slots."""
    longest = critical_path(work)
    return longest if slots is None else max(longest, sum(work.seconds) / slots)


def level_barrier(work: Work, slots: int | None) -> float:
    """The seconds where each level waits for all of the level before, the longest steps first."""
    level: list[int] = []
    members: dict[int, list[float]] = {}
    for waited, seconds in zip(work.waits, work.seconds, strict=True):
        level.append(1 + max((level[before] for before in waited), default=-1))
        members.setdefault(level[-1], []).append(seconds)
    total = 0.0
    for times in members.values():
        free = [0.0] * min(slots or len(times), len(times))
        for seconds in sorted(times, reverse=True):
            heappush(free, heappop(free) + seconds)
        total += max(free)
    return total


def list_schedule(work: Work, slots: int, rank: Sequence[float]) -> float:
    """The seconds of the schedule that starts, whenever a slot is free, the ready step of highest rank."""
    followers = followers_of(work)
    left = [len(waited) for waited in work.waits]
    ready = [(-rank[number], number) for number, count in enumerate(left) if not count]
    ready.sort()
    running: list[tuple[float, int]] = []
    now = 0.0
    while ready or running:
        while ready and len(running) < slots:
            number = heappop(ready)[1]
            heappush(running, (now + work.seconds[number], number))
        now, number = heappop(running)
        for follower in followers[number]:
            left[follower] -= 1
            if not left[follower]:
                heappush(ready, (-rank[follower], follower))
    return now


def followers_of(work: Work) -> list[list[int]]:
    """The steps that wait for each step."""
    followers: list[list[int]] = [[] for _ in work.waits]
    for number, waited in enumerate(work.waits):
        for before in waited:
            followers[before].append(number)
    return followers


def longest_remaining(work: Work, seconds: Sequence[float]) -> list[float]:
    """The longest path from each step to an end, including the step."""
    rank = list(seconds)
    followers = followers_of(work)
    for number in reversed(range(len(rank))):
        rank[number] += max((rank[follower] for follower in followers[number]), default=0.0)
    return rank


def best_list_schedule(work: Work, slots: int, tries: int = 20) -> float:
    """The shortest of many list schedules, all of which know how long each step takes.

    By longest remaining way, by all work that hangs on a step, by its own length, by the order of
    the file, and by the longest remaining way shaken a little, `tries` times.
    """
    count = len(work.waits)
    longest = longest_remaining(work, work.seconds)
    followers = followers_of(work)
    hanging: list[set[int]] = [set() for _ in range(count)]
    for number in reversed(range(count)):
        for follower in followers[number]:
            hanging[number] |= hanging[follower] | {follower}
    all_work = [
        work.seconds[n] + sum(work.seconds[other] for other in sorted(hanging[n])) for n in range(count)
    ]
    ranks: list[Sequence[float]] = [longest, all_work, work.seconds, [-float(n) for n in range(count)]]
    chance = random.Random(count)
    for _ in range(tries):
        ranks.append([rank * chance.uniform(0.8, 1.2) for rank in longest])
    return min(list_schedule(work, slots, rank) for rank in ranks)
