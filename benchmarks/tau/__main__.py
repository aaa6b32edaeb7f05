"""Tasks of tau-bench as plans of version 2, run on its tools and compared with its end states.

    python -m benchmarks.tau FOLDER                    all plans; FOLDER has sierra-research/tau-bench
    python -m benchmarks.tau FOLDER --only retail_17   some, and what became of them

A plan is `plans/DOMAIN_NUMBER.ltp`, for the task of that number among the test tasks of its domain; what
several need stands in `plans/shop.ltp` and `plans/flights.ltp`. A task is right if the plan ended as done,
with failures that it handles or without, the data are those after the calls that the authors of the task
expect, and the answer has all that they want to be told. *Most* and *statements* are those of a plan without
what it uses, *copied* are plans that have two successive statements twice.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.tau.measures import NAME, copied, longest_lookup, numbered, statements
from benchmarks.tau.worlds import Domain

from callsheet import Plan, Runtime


@dataclass(frozen=True)
class Outcome:
    """What became of a plan: why it is not right, and what `check` found."""

    why: tuple[str, ...]
    findings: tuple[str, ...]


async def carry_out(path: Path, folder: Path) -> Outcome:
    """Check and run the plan of a task on fresh data."""
    found = NAME.fullmatch(path.stem)
    assert found
    domain, number = Domain(folder, found[1]), int(found[2])
    task: Any = domain.tasks[number]
    data = domain.data()
    tools = domain.tools(data)
    plan = Plan.load(path)
    findings = tuple(f"{each.code}: {each.message}" for each in plan.check(tools=tools))
    result = await Runtime(tools).run(plan)
    said = str(result.response or "").lower().replace(",", "")
    status = result.status.value
    why = [result.error or f"ended as {status}"] if not status.startswith("done") else []
    if domain.digest(data) != domain.replay(number):
        why.append("the data differ")
    why += [f"did not say {each}" for each in task.outputs if each.lower() not in said]
    return Outcome(tuple(why), findings)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="*", metavar="PATTERN")
    options = parser.parse_args()
    print("domain   plans  right  statements  most  longest lookup  copied  found by check")
    for domain in ("retail", "airline"):
        paths = [
            path for path in numbered() if path.stem.startswith(domain) and fnmatch(path.stem, options.only)
        ]
        if not paths:
            continue
        outcomes = {path.stem: asyncio.run(carry_out(path, options.folder)) for path in paths}
        texts = [path.read_text(encoding="utf-8") for path in paths]
        counts = [len(statements(text)) for text in texts]
        right = sum(not outcome.why for outcome in outcomes.values())
        found = sum(len(outcome.findings) for outcome in outcomes.values())
        twice = sum(bool(copied(text)) for text in texts)
        print(
            f"{domain:7}  {len(paths):>5}  {right:>5}  {median(counts):>10}  {max(counts):>4}"
            f"  {max(map(longest_lookup, texts)):>14}  {twice:>6}  {found:>14}"
        )
        for name, outcome in outcomes.items():
            if outcome.why or outcome.findings:
                print(f"  {name}: {'; '.join([*outcome.why, *outcome.findings])}")


if __name__ == "__main__":
    main()
