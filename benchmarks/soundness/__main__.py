"""Prove and run random plans; prints how many were accepted, and each that broke its proof.

python -m benchmarks.soundness [--plans N] [--from SEED]
"""

from __future__ import annotations

import argparse
import sys
import time

from .checking import check
from .drawing import draw


def main() -> int:
    """Check the plans and give the exit code: 1 if one of them broke its proof."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soundness")
    parser.add_argument("--plans", type=int, default=30_000, help="how many plans")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the number of the first")
    options = parser.parse_args()
    started = time.perf_counter()
    valid = accepted = documented = broken = 0
    for seed in range(options.first, options.first + options.plans):
        outcome = check(seed)
        valid += outcome.valid
        accepted += outcome.accepted
        documented += outcome.documented
        if outcome.breaches:
            broken += 1
            if broken <= 10:
                print(f"plan {seed}: {'; '.join(outcome.breaches)}\n{draw(seed).text}\n")
    print(f"{options.plans:,} plans, {valid:,} can be read, in {time.perf_counter() - started:.0f} s")
    print(
        f"accepted {accepted:,} ({accepted / max(1, valid):.0%}); the documented rule accepts {documented:,}"
    )
    print(f"{broken} of the accepted plans broke their proof")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
