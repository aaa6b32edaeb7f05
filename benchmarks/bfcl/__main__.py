"""Multi-turn tasks of BFCL as plans of version 2, run on its classes and compared with its possible answers.

    python -m benchmarks.bfcl FOLDER                  all plans; FOLDER is gorilla's leaderboard
    python -m benchmarks.bfcl FOLDER --only base_8    some, and what became of them

A plan is `plans/base_NUMBER.ltp`, for the task of that number in the category `multi_turn_base`: every eighth
one. A task is right by the two tests of BFCL: the public attributes of its classes are those after the calls
of the possible answer, and among the answers of the plan's calls are all answers of those calls. *Found* is
what `check` finds with the declared results of the tools.
"""

from __future__ import annotations

import argparse
import asyncio
from fnmatch import fnmatch
from pathlib import Path
from statistics import median

from benchmarks.bfcl.worlds import Task
from benchmarks.tau.measures import NAME, copied, longest_lookup, numbered, statements

from callsheet import Plan, PlanError, Runtime

PLANS = Path(__file__).with_name("plans")


async def carry_out(path: Path, folder: Path) -> tuple[list[str], list[str]]:
    """Check and run the plan of a task: why it is not right, and what was found before."""
    found = NAME.fullmatch(path.stem)
    assert found
    task = Task(folder, int(found[2]))
    world = task.world()
    plan = Plan.load(path)
    findings = [f"{each.code}: {each.message}" for each in plan.check(tools=world.tools)]
    try:
        result = await Runtime(world.tools).run(plan)
    except PlanError as error:
        return [f"refused: {error}"], findings
    status = result.status.value
    why = [] if status.startswith("done") else [result.error or f"ended as {status}"]
    return why + task.missed(world), findings


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="*", metavar="PATTERN")
    options = parser.parse_args()
    paths = [path for path in numbered(PLANS) if fnmatch(path.stem, options.only)]
    outcomes = {path.stem: asyncio.run(carry_out(path, options.folder)) for path in paths}
    texts = [path.read_text(encoding="utf-8") for path in paths]
    counts = [len(statements(text)) for text in texts]
    print("plans  right  statements  most  longest lookup  copied  found by check")
    print(
        f"{len(paths):>5}  {sum(not why for why, _ in outcomes.values()):>5}  {median(counts):>10}"
        f"  {max(counts):>4}  {max(map(longest_lookup, texts)):>14}"
        f"  {sum(bool(copied(text)) for text in texts):>6}"
        f"  {sum(len(found) for _, found in outcomes.values()):>14}"
    )
    for name, (why, found) in outcomes.items():
        if why or found:
            print(f"  {name}: {'; '.join([*why, *found])}")


if __name__ == "__main__":
    main()
