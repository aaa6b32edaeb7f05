"""Random plans with blocks are killed at each commit and around each call, and resumed.

    python -m benchmarks.tree_kills [--plans N] [--from SEED] [--snapshots]

Prints how many runs were resumed, and each that came to another end than the run that was not killed: another
answer, other variables, outcomes or visits in its journal, or a write that was made twice or not at all. What
is left at a point is a copy of the journal's files (`tests/structured_crashes.py`). With `--snapshots` a
snapshot is taken after each event, and runs are resumed from it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from tests.structured_crashes import Left, wrong_ends
from tests.structured_plans import programs

from callsheet.frontends.structured import format_structured
from callsheet.ir import Plan
from callsheet.machine.limits import AUTO, SEQUENTIAL
from callsheet.runtime import recording
from callsheet.store.snapshots import SnapshotIntervals

_AT_ONCE = 50
"""The plans that are drawn from one seed."""
_MOST_TOLD = 10


def main() -> int:
    """Kill and resume; the exit code is 1 if a run came to another end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tree_kills")
    parser.add_argument("--plans", type=int, default=1_000, help="how many plans")
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first seed")
    parser.add_argument("--snapshots", action="store_true", help="take a snapshot after each event")
    given_options = parser.parse_args()
    if given_options.snapshots:
        recording.INTERVALS = SnapshotIntervals(1, 1, sys.maxsize)
    runs = resumed = broken = 0

    def all_of(left: list[Left]) -> list[Left]:
        nonlocal resumed
        resumed += len(left)
        return left

    def kill(plan: Plan) -> None:
        nonlocal runs, broken
        for schedule in (SEQUENTIAL, AUTO):
            runs += 1
            with tempfile.TemporaryDirectory() as folder:
                wrong = wrong_ends(plan, Path(folder), schedule, all_of)
            if wrong:
                broken += 1
                if broken <= _MOST_TOLD:
                    print(
                        f"{schedule}:\n{format_structured(plan)}\n" + "\n".join(wrong[:5]) + "\n", flush=True
                    )

    began = time.monotonic()
    for number in range(given_options.first, given_options.first + -(-given_options.plans // _AT_ONCE)):
        rules = settings(
            max_examples=min(_AT_ONCE, given_options.plans),
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=[
                HealthCheck.too_slow,
                HealthCheck.filter_too_much,
                HealthCheck.data_too_large,
            ],
        )
        seed(number)(rules(given(programs())(kill)))()
        print(
            f"seed {number}: {runs} runs, {resumed} resumed, {broken} came to another end,"
            f" {time.monotonic() - began:.0f} s",
            flush=True,
        )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
