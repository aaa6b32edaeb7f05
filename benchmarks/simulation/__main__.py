"""Runs seeds of the simulation, one with its trace, or looks for a seed that finds each planted bug."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable
from functools import cache
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

from benchmarks.simulation.mutations import MUTATIONS, Mutation
from benchmarks.simulation.processes import reports, seldom_garbage
from benchmarks.simulation.simulation import Prepared, prepare, simulate


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation", description=__doc__)
    parser.add_argument(
        "--seeds",
        type=_seeds,
        help="A..B, A+COUNT, or one, whose trace is printed (1..1000, or for a planted bug its own)",
    )
    parser.add_argument("--jobs", type=int, default=1, help="try seeds in this many processes")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--mutations", nargs="?", const="", help="plant each bug whose name has this text")
    kinds.add_argument("--stops", action="store_true", help="with time limits, and groups that stop")
    given = parser.parse_args()
    seldom_garbage()
    if given.mutations is None:
        return _try_seeds(given.seeds or range(1, 1001), given.jobs, stops=given.stops)
    return _try_mutations(given.seeds, given.mutations)


def _seeds(text: str) -> range:
    """The seeds that a text names; raises ValueError or ArgumentTypeError for one that names none.

    >>> _seeds("7"), _seeds("1..9"), _seeds("20+5")
    (range(7, 8), range(1, 10), range(20, 25))
    """
    first, _, count = text.partition("+")
    if count:
        found = range(int(first), int(first) + int(count))
    else:
        first, _, last = text.partition("..")
        found = range(int(first), int(last or first) + 1)
    if not found:
        raise argparse.ArgumentTypeError(f"there is no seed in {text}")
    return found


def _try_seeds(seeds: range, jobs: int, *, stops: bool) -> int:
    began, tried, failed, calls = time.perf_counter(), 0, 0, 0
    faults: Counter[str] = Counter()
    for report in reports(seeds, jobs, stops=stops):
        tried += 1
        if tried % 1000 == 0:
            print(f"{tried} of {len(seeds)} seeds, {failed} failed", file=sys.stderr, flush=True)
        faults += report.faults
        calls += report.calls
        if len(seeds) == 1:
            print("\n".join(report.trace))
        if report.problems:
            failed += 1
            print(f"{report.seed}: {report.problems[0]}", flush=True)
    used = sum(getrusage(who).ru_utime + getrusage(who).ru_stime for who in (RUSAGE_SELF, RUSAGE_CHILDREN))
    took, rate = time.perf_counter() - began, tried / used * 60
    print(f"{tried} seeds, {calls} calls, {failed} failed; {took:.1f} s, {rate:.0f} a minute of CPU")
    print(", ".join(f"{name} {count}" for name, count in sorted(faults.items())))
    return 1 if failed else 0


def _try_mutations(seeds: range | None, text: str) -> int:
    found = 0
    chosen = [one for one in MUTATIONS if text in one.name]
    prepared = cache(prepare)
    for mutation in chosen:
        seed, problem = finding(mutation, map(prepared, seeds or [mutation.seed]))
        found += seed is not None
        print(f"{'not found' if seed is None else seed:>9}  {mutation.name}: {problem}"[:220], flush=True)
    where = f"seeds {seeds.start} to {seeds.stop - 1}" if seeds else "their seeds"
    print(f"{found} of {len(chosen)} planted bugs found by {where}")
    return 0 if found == len(chosen) else 1


def finding(mutation: Mutation, cases: Iterable[Prepared]) -> tuple[int | None, str]:
    """The first seed that fails only with a planted bug, and what it says; None if there is none."""
    for case in cases:
        with mutation.planted():
            try:
                problems = simulate(case).problems
            except Exception as error:  # the bug reaches the simulation itself
                problems = [f"{type(error).__name__}: {error}"]
        if problems and not simulate(case).problems:
            return case.case.seed, problems[0]
    return None, ""


if __name__ == "__main__":
    sys.exit(main())
