"""Kills fan-outs, edits their plans and resumes them: how many calls were made again, and how many never.

python -m benchmarks.kept_calls --rounds 20 --items 1000 --kills 50
python -m benchmarks.kept_calls --failed-items      reruns of the failed items of a mended tool are killed
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.runtime.test_failed_items import LOOPS, mend_and_kill
from tests.runtime.test_kept_calls import kill_and_edit, puts


def main() -> None:
    """Print a line for each round and for the whole."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first round")
    parser.add_argument("--items", type=int, default=40)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--failed-items", action="store_true")
    given = parser.parse_args()
    if given.failed_items:
        rerun_failed_items(given.rounds, given.items, given.kills)
        return
    made = repeated = missing = killed = 0
    for seed in range(given.first, given.first + given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            killed += kill_and_edit(Path(folder), given.items, given.kills, seed)
            begun = {n: count for (what, n), count in puts(Path(folder)).items() if what == "begin"}
        made += len(begun)
        twice, never = [n for n, count in begun.items() if count > 1], {*range(given.items)} - {*begun}
        repeated, missing = repeated + len(twice), missing + len(never)
        print(f"round {seed}: {len(begun)} calls, made again: {twice}, never made: {never or []}", flush=True)
    print(
        f"{killed} kills with edits, {made} calls, {repeated} made again, {missing} of the last plan not made"
    )


def rerun_failed_items(rounds: int, items: int, kills: int) -> None:
    """Print what reruns of failed items that were killed have made again."""
    for plan in LOOPS:
        failed = made = again = 0
        for seed in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                calls, bad = mend_and_kill(Path(folder), plan, items, kills, seed)
            failed += len(bad)
            made += len(calls)
            again += sum(count - (n in bad) for n, count in calls.items())
        print(
            f"{plan}: {rounds} reruns of {failed} failed items of {rounds * items}, {rounds * kills} kills, "
            f"{made} calls, {again} finished ones made again"
        )


if __name__ == "__main__":
    main()
