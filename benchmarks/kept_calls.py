"""Kills fan-outs, edits their plans and resumes them: how many finished calls were made again.

python -m benchmarks.kept_calls --rounds 20 --items 40 --kills 4
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.runtime.test_kept_calls import kill_and_edit, puts


def main() -> None:
    """Print a line for the whole, and one for each round in which a call was made twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--items", type=int, default=40)
    parser.add_argument("--kills", type=int, default=4)
    given = parser.parse_args()
    made = repeated = 0
    for seed in range(given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            kill_and_edit(Path(folder), given.items, given.kills, seed)
            begun = {n: count for (what, n), count in puts(Path(folder)).items() if what == "begin"}
        made += len(begun)
        twice = [n for n, count in begun.items() if count > 1]
        repeated += len(twice)
        if twice:
            print(f"seed {seed}: made twice: {twice}")
    print(f"{given.rounds * given.kills} kills with edits, {made} calls, {repeated} made again")


if __name__ == "__main__":
    main()
