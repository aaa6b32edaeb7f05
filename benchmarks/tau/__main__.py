"""Tasks of tau-bench as plans of version 2, run on its tools and compared with its end states.

    python -m benchmarks.tau FOLDER                    all plans; FOLDER is a copy of sierra-research/tau-bench
    python -m benchmarks.tau FOLDER --only retail_17   one, with what became of it

A plan is `plans/DOMAIN_NUMBER.ltp`, for the task of that number among the test tasks of its domain; what several
need stands in `plans/shop.ltp` and `plans/flights.ltp`. A task is right if the plan ended as done, the data are
those after the calls that the authors of the task expect, and the answer has all that they want to be told.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.tau.worlds import Domain

from callsheet import Plan, Runtime

PLANS = Path(__file__).with_name("plans")
_NAME = re.compile(r"(retail|airline)_(\d+)")


@dataclass(frozen=True)
class Outcome:
    """What became of a plan."""

    name: str
    is_right: bool
    why: str
    statements: int
    findings: int


def numbered() -> list[Path]:
    """The plans for tasks."""
    return sorted(path for path in PLANS.glob("*.ltp") if _NAME.fullmatch(path.stem))


def statements(text: str) -> int:
    """The statements of a text: its lines without comments, declarations and ends of blocks."""
    own = re.compile(r"\s*(?:#|TYPE |INPUT |USE |PLAN |\}\s*(?:$|ELSE \{|> )|$)")
    return sum(not own.match(line) for line in _joined(text))


def _joined(text: str) -> list[str]:
    """The lines of a text; what goes on inside brackets is one line."""
    lines: list[str] = []
    depth = 0
    for line in text.splitlines():
        if depth > 0:
            lines[-1] += line.strip()
        else:
            lines.append(line)
        bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", line)
        depth += sum(bare.count(c) for c in "([") - sum(bare.count(c) for c in ")]")
    return lines


async def carry_out(path: Path, folder: Path) -> Outcome:
    """Check and run a plan on fresh data."""
    found = _NAME.fullmatch(path.stem)
    assert found
    domain, number = Domain(folder, found[1]), int(found[2])
    task: Any = domain.tasks[number]
    data = domain.data()
    tools = domain.tools(data)
    plan = Plan.load(path)
    findings = plan.check(tools=tools)
    result = await Runtime(tools).run(plan)
    said = str(result.response or "").lower().replace(",", "")
    why = [result.error or f"ended as {result.status.value}"] if result.status.value != "done" else []
    if domain.digest(data) != domain.replay(number):
        why.append("the data differ")
    why += [f"did not say {each}" for each in task.outputs if each.lower() not in said]
    why += [str(each) for each in findings]
    right = not why or (len(why) == len(list(findings)))
    return Outcome(path.stem, right, "; ".join(why), statements(path.read_text("utf-8")), len(list(findings)))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="*", metavar="PATTERN")
    options = parser.parse_args()
    paths = [path for path in numbered() if fnmatch(path.stem, options.only)]
    for path in paths:
        print(asyncio.run(carry_out(path, options.folder)))


if __name__ == "__main__":
    main()
