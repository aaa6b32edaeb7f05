"""Proves and runs random plans; prints how many were accepted, and each that broke its proof or its policy.

python -m benchmarks.soundness [--plans N] [--from SEED] [--graphs | --trees] [--enforced]
"""

from __future__ import annotations

import argparse
import sys
import time

from .checking import check, check_graph
from .drawing import draw
from .graphs import draw_graph
from .trees import check_tree, draw_tree


def main() -> int:
    """Check the plans and give the exit code: 1 if one of them broke its proof."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soundness")
    parser.add_argument("--plans", type=int, default=30_000, help="how many plans")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the number of the first plan")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--graphs", action="store_true", help="graphs instead of texts")
    kind.add_argument("--trees", action="store_true", help="plans of version 2 instead of texts of version 1")
    parser.add_argument("--enforced", action="store_true", help="also run all of them under their policies")
    options = parser.parse_args()
    one, drawn = (check_graph, draw_graph) if options.graphs else (check, draw)
    if options.trees:
        one, drawn = check_tree, draw_tree
    started = time.perf_counter()
    valid = accepted = documented = broken = stopped = surprising = 0
    for seed in range(options.first, options.first + options.plans):
        outcome = one(seed, is_enforced=options.enforced)
        valid += outcome.valid
        accepted += outcome.accepted
        documented += outcome.documented
        stopped += outcome.stopped
        surprising += outcome.surprises
        if outcome.breaches:
            broken += 1
            if broken <= 10:
                print(f"plan {seed}: {'; '.join(outcome.breaches)}\n{drawn(seed)}\n")
    print(f"{options.plans:,} plans, {valid:,} of them valid, in {time.perf_counter() - started:.0f} s")
    print(
        f"accepted {accepted:,} ({accepted / max(1, valid):.0%}); the documented rule accepts {documented:,}"
    )
    if options.enforced:
        print(f"{stopped:,} were ended by their policy in at least one world")
        print(f"{surprising} of these had a proof without an obligation for the step that was refused")
    print(f"{broken} of the plans broke their proof or their policy")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
