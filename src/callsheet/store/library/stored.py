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
    """A row of the list of plans; `place` is the path of its text, `steps` is None if that has errors."""

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
    """An imported plan: the number of new versions, and of all."""

    id: str
    added: int
    versions: int


class Purpose(NamedTuple):
    """The goal of a plan, and when it was saved, in seconds since 1970 (0 without a version)."""

    id: str
    goal: str
    saved: float


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan of the library: its text and the result of parsing it.

    `place` is the path of the file, or its address in a store. `record` is the version that was loaded:
    the newest, or the requested one; None for a file without versions. `is_edited` tells that the file
    has changed since. `library` is the folder or the address of the library whose current plan this is;
    "" for a version that was requested by its number, which stays as it is.
    """

    id: str
    place: str
    syntax: Syntax
    result: ParseResult
    record: VersionRecord | None = None
    is_edited: bool = False
    library: str = ""

    @property
    def name(self) -> str:
        """The name of the plan in commands: its id, with the version if there is one."""
        return self.id if self.record is None else f"{self.id}@{self.record.version}"

    @property
    def version(self) -> int | None:
        """The number of the version; None without one."""
        return None if self.record is None else self.record.version

    @property
    def params(self) -> tuple[Param, ...]:
        """The parameters of the plan."""
        return () if self.record is None else self.record.params

    @property
    def tools(self) -> Mapping[str, str | None]:
        """The hashes of the declarations of the tools when the plan was saved, by name.

        "" for a tool without a declaration, None for one that was not reachable.
        """
        return {} if self.record is None or self.record.tools is None else self.record.tools

    @property
    def compiled(self) -> Mapping[str, JSON] | None:
        """Data from the compiler that made the plan."""
        return None if self.record is None else self.record.compiled

    @property
    def goal(self) -> str | None:
        """The goal that the plan was saved for, else its own, else its title."""
        recorded = None if self.record is None else self.record.goal
        return recorded or goal_of(self.result)

    @property
    def text(self) -> str:
        """The text of the file."""
        return self.result.source.text

    def require(self) -> Plan:
        """The plan with its id; raises CallsheetError with all errors of its text."""
        return replace(self.result.require(), id=self.id)


def goal_of(result: ParseResult) -> str | None:
    """The goal that a text states itself: its goal, else its title."""
    part = result.plan or result.partial
    return part.goal or part.title
