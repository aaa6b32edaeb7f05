"""User tasks of AgentDojo as goals: by other authors, and right if the suite's own check says so.

The tools are the package's functions with the types that they are annotated with; the benchmark of policies
says which of them only read (`benchmarks.agentdojo.worlds`). Needs `agentdojo` on the path:
`pip install --target DIR agentdojo`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.compiling.worlds import Case, Declared, Task, World

if TYPE_CHECKING:
    from benchmarks.agentdojo import worlds as dojo

_SUITES = ("banking", "slack", "travel", "workspace")
_EVERY = 8
_MENDED, _SEEN_ONCE = 3, 7
"""Which of every eight tasks of a suite, in the order of its list, are in which set."""


@dataclass(slots=True)
class SuiteWorld(World):
    """The tools of a suite over one environment of the package."""

    inside: Any = None


def suite_tasks() -> Iterator[Task]:
    """Every eighth task, from the fourth on: prompts and checks are mended with these 13."""
    yield from _chosen({_MENDED})


def unseen_tasks() -> Iterator[Task]:
    """Every eighth task, from the eighth on: nothing is mended with these 11."""
    yield from _chosen({_SEEN_ONCE})


def rest_tasks() -> Iterator[Task]:
    """The other tasks."""
    yield from _chosen({*range(_EVERY)} - {_MENDED, _SEEN_ONCE})


def _chosen(places: Collection[int]) -> Iterator[Task]:
    worlds: Any = import_module("benchmarks.agentdojo.worlds")
    for suite in _SUITES:
        for number, task in enumerate(worlds.tasks(suite)):
            if number % _EVERY in places:
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
