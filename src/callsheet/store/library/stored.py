"""The results of a plan library: a plan with its text and version, and the rows of a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from callsheet.frontends.spelling import Syntax
from callsheet.frontends.values import ParseResult
from callsheet.ir import JSON, Plan
from callsheet.store.library.params import Param
from callsheet.store.library.record import VersionRecord


class Listed(NamedTuple):
    """A plan as a list shows it; `place` is where its text stands, `steps` is None where that has errors."""

    id: str
    place: str
    syntax: Syntax
    title: str | None
    goal: str | None
    steps: int | None
    version: int | None = None
    is_edited: bool = False
    params: tuple[Param, ...] = ()


class Imported(NamedTuple):
    """A plan that is in the library now: how many versions were new, and how many it has."""

    id: str
    added: int
    versions: int


class Purpose(NamedTuple):
    """What a plan is for, and when that was said: a wall time in seconds since 1970."""

    id: str
    goal: str
    saved: float


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan of the library: its text as it stands in its file, and what was read from it.

    `place` is the path of the file, or its address in a store. `record` is the version that it was loaded
    from: the newest one, or an earlier one that was named; None for a file that was put there by hand.
    `is_edited` says that the file has changed since.
    """

    id: str
    place: str
    syntax: Syntax
    result: ParseResult
    record: VersionRecord | None = None
    is_edited: bool = False

    @property
    def name(self) -> str:
        """The plan as a command names it: its id, and the version if there is one."""
        return self.id if self.record is None else f"{self.id}@{self.record.version}"

    @property
    def version(self) -> int | None:
        """The number of the version, None where there is none."""
        return None if self.record is None else self.record.version

    @property
    def params(self) -> tuple[Param, ...]:
        """The variables that a run is to be given."""
        return () if self.record is None else self.record.params

    @property
    def tools(self) -> Mapping[str, str | None]:
        """What is known of the tools that the plan was saved for, by name: the hash of the declaration.

        That is "" for one that had none, None for one that was not reachable.
        """
        return {} if self.record is None or self.record.tools is None else self.record.tools

    @property
    def compiled(self) -> Mapping[str, JSON] | None:
        """What a compiler has told of how it made the plan."""
        return None if self.record is None else self.record.compiled

    @property
    def goal(self) -> str | None:
        """The goal that the plan was saved for, else its own, else its title."""
        said = None if self.record is None else self.record.goal
        return said or goal_of(self.result)

    @property
    def text(self) -> str:
        """The text of the file."""
        return self.result.source.text

    def require(self) -> Plan:
        """The plan, under its id; raises CallsheetError with all that is wrong with its text."""
        return replace(self.result.require(), id=self.id)


def goal_of(result: ParseResult) -> str | None:
    """What a text says itself that it is for: its goal, else its title."""
    part = result.plan or result.partial
    return part.goal or part.title
