"""What a sweep needs to know about a plan that it runs, kills and resumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from crashes.oracle import Call, History

Answer = dict[str, Any]
"""`status`, `response` and `variables` of a run."""

RUN_ID = "crash"


class Subject(Protocol):
    """A plan, the world it acts on, and the expected results of both."""

    env: Mapping[str, str]
    journal: Path
    """A new path for every trial."""

    def prepare(self) -> None:
        """Recreate the world, without a journal."""

    def run_arguments(self) -> Sequence[str]:
        """The `callsheet run` that starts the plan."""
        ...

    def stamp(self) -> str:
        """What an answer depends on besides the plan; a reference holds as long as it is the same."""
        ...

    def happened(self, call: Call) -> bool:
        """Whether a call in doubt took place, as a person would find out."""
        ...

    def times(self) -> Mapping[str, int]:
        """How often each call took place, by key, as far as the world shows."""
        ...

    def expected(self, reference: Answer, history: History) -> Answer:
        """The answer that a run must have, given the decisions in its history."""
        ...

    def world_problems(self, history: History) -> list[str]:
        """Problems in the world after this history; no process of the run is alive any more."""
        ...


def answer_of(data: Mapping[str, Any]) -> Answer:
    """The compared part of the JSON that `run` and `resume` print."""
    return {name: data[name] for name in ("status", "response", "variables")}
