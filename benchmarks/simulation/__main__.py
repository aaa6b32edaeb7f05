"""Runs seeds of the simulation, one with its trace, or looks for a seed that finds each planted bug."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable

from benchmarks.simulation.mutations import MUTATIONS, Mutation
from benchmarks.simulation.simulation import Prepared, prepare, simulate


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation", description=__doc__)
    parser.add_argument("--seeds", default="1..1000", help="A..B, or one seed, whose trace is printed")
    parser.add_argument("--mutations", nargs="?", const="", help="plant each bug whose name has this text")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    return _try_seeds(seeds) if given.mutations is None else _try_mutations(seeds, given.mutations)


def _try_seeds(seeds: range) -> int:
    began, cpu = time.perf_counter(), time.process_time()
    failed, calls = 0, 0
    faults: Counter[str] = Counter()
    for seed in seeds:
        report = simulate(seed)
        faults += report.faults
        calls += report.calls
        if len(seeds) == 1:
            print("\n".join(report.trace))
        if report.problems:
            failed += 1
            print(f"{seed}: {report.problems[0]}", flush=True)
    took, used = time.perf_counter() - began, time.process_time() - cpu
    rate = len(seeds) / used * 60
    print(f"{len(seeds)} seeds, {calls} calls, {failed} failed; {took:.1f} s, {rate:.0f} a minute of CPU")
    print(", ".join(f"{name} {count}" for name, count in sorted(faults.items())))
    return 1 if failed else 0


def _try_mutations(seeds: range, text: str) -> int:
    found = 0
    chosen = [one for one in MUTATIONS if text in one.name]
    prepared = [prepare(seed) for seed in seeds]
    for mutation in chosen:
        seed, problem = finding(mutation, prepared)
        found += seed is not None
        print(f"{'not found' if seed is None else seed:>9}  {mutation.name}: {problem}"[:220], flush=True)
    print(f"{found} of {len(chosen)} planted bugs found by seeds {seeds.start} to {seeds.stop - 1}")
    return 0 if found == len(chosen) else 1


def finding(mutation: Mutation, cases: Iterable[Prepared]) -> tuple[int | None, str]:
    """The first seed that finds a planted bug, and what it says; None if there is none."""
    for case in cases:
        with mutation.planted():
            try:
                problems = simulate(case).problems
            except Exception as error:  # the bug reaches the simulation itself
                problems = [f"{type(error).__name__}: {error}"]
        if problems:
            return case.case.seed, problems[0]
    return None, ""


if __name__ == "__main__":
    sys.exit(main())
