"""Goals out of two published sets, over a company's desk and a phone, scored as those of `jobs` are.

The words of the goals are by the authors of WorkBench (olly-styles/WorkBench, MIT) and ToolSandbox
(apple/ToolSandbox), some shortened, and for the desk with the date in front that WorkBench tells its models.
The end states were written here, before any model was asked. Goals with an odd number are looked at, those
with an even one only counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.compiling.jobs import even_numbered, odd_numbered, tasks_of
from benchmarks.compiling.toolsandbox import Phone
from benchmarks.compiling.workbench import Desk
from benchmarks.compiling.worlds import Task

GOALS = Path(__file__).parent / "published.jsonl"


def published_tasks() -> Iterator[Task]:
    """The goals with an odd number, with which prompts and checks are mended."""
    yield from odd_numbered(_tasks())


def published_unseen_tasks() -> Iterator[Task]:
    """The goals with an even number, whose answers nobody reads before the last measurement."""
    yield from even_numbered(_tasks())


def _tasks() -> Iterator[Task]:
    yield from tasks_of(GOALS, {"desk": Desk, "phone": Phone})
