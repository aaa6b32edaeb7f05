"""User tasks of AgentDojo as goals: by other authors, and right if the suite's own check says so.

The tools are the package's functions with the types that they are annotated with; the benchmark of policies
says which of them only read (`benchmarks.agentdojo.worlds`). Needs `agentdojo` on the path:
`pip install --target DIR agentdojo`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.compiling.worlds import Case, Declared, Task, World

if TYPE_CHECKING:
    from benchmarks.agentdojo import worlds as dojo

_NUMBERS = {
    "banking": (*range(0, 16, 2), 1, 3),
    "slack": range(0, 20, 4),
    "workspace": range(0, 40, 4),
    "travel": range(0, 20, 4),
}
"""The places of the tasks in each suite's list that are in the set; `rest_tasks` has the others."""


@dataclass(slots=True)
class SuiteWorld(World):
    """The tools of a suite over one environment of the package."""

    inside: Any = None


def suite_tasks() -> Iterator[Task]:
    """Thirty tasks, chosen by their numbers alone: ten of the office, ten of the bank, five of each other."""
    yield from _chosen(is_rest=False)


def rest_tasks() -> Iterator[Task]:
    """The tasks that `suite_tasks` leaves out."""
    yield from _chosen(is_rest=True)


def _chosen(*, is_rest: bool) -> Iterator[Task]:
    worlds: Any = import_module("benchmarks.agentdojo.worlds")
    for suite, numbers in _NUMBERS.items():
        for number, task in enumerate(worlds.tasks(suite)):
            if (number in numbers) != is_rest:
                yield _task(task)


def _task(task: dojo.Task) -> Task:
    def is_right(after: World, answer: str) -> bool:
        assert isinstance(after, SuiteWorld)
        return task.is_right(after.inside, answer)

    case = Case(lambda: _world(task), is_right)
    return Task(f"{task.suite}/{task.id}", task.goal, (case,), (task.suite,))


def _world(task: dojo.Task) -> SuiteWorld:
    inside = task.world()

    def declared(tool: Any) -> Declared:
        spec = tool.spec

        def function(**arguments: Any) -> Any:
            return inside.call(spec.executor, arguments)

        only_reads = spec.effect.only_reads
        return Declared(
            spec.executor, spec.description, spec.parameters, spec.result or {}, function, only_reads
        )

    return SuiteWorld(tuple(map(declared, inside.tools())), lambda: repr(inside.env), inside=inside)
