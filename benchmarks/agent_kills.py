"""Kills fan-outs of agents within their turns and resumes them: how many finished turns were made again.

python -m benchmarks.agent_kills --rounds 10 --items 40 --kills 3
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.runtime.test_agent_fan_out import kill_and_resume


def main() -> None:
    """Print a line for the whole, and one for each round in which something was made again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--items", type=int, default=40)
    parser.add_argument("--kills", type=int, default=3)
    given = parser.parse_args()
    turns = again = 0
    for seed in range(given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            tally = kill_and_resume(Path(folder), given.items, given.kills, seed)
        assert tally.answer == [f"item {n}" for n in range(given.items)], tally
        turns += tally.turns
        again += len(tally.again)
        if tally.again:
            print(f"seed {seed}: made again: {tally.again}")
    print(
        f"{given.rounds} fan-outs of {given.items} agents, {given.rounds * given.kills} kills, "
        f"{turns} turns, {again} finished turns or calls made again"
    )


if __name__ == "__main__":
    main()
