"""The input of an export: the tools that a plan may call, and the constructs that it may use."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from callsheet.ir import canonical_tool_name


class Form(StrEnum):
    """The spelling of the plan; both are LTP text."""

    LEAN = "lean"
    """With few tokens: `S1: @read_file (path="a") > $v1`, without markers. No string begins with `)`:
    it would contain the rest of its call."""
    CANONICAL = "canonical"
    """As `fmt` prints it: names in capitals, between the markers."""


@dataclass(frozen=True, slots=True)
class ToolShape:
    """A tool that a plan may call: its name, in any case, and the JSON schema of its arguments."""

    name: str
    parameters: Mapping[str, Any]

    @property
    def canonical(self) -> str:
        """The name by which a plan calls it.

        >>> ToolShape("git-log", {}).canonical
        'GIT_LOG'
        """
        return canonical_tool_name(self.name)


def check_names(tools: Sequence[ToolShape], reserved: Collection[str], taken: Collection[str]) -> None:
    """Raise ValueError for a tool that no plan can call, by its name, and for a name that two have."""
    names = [tool.canonical for tool in tools]
    for name in names:
        if not name or name in reserved:
            raise ValueError(f"no plan can call a tool {name!r}")
        if names.count(name) > 1 or name in taken:
            raise ValueError(f"two tools are called {name}")


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The plans that an export allows."""

    form: Form = Form.LEAN
    max_steps: int = 12
    """The largest number of steps, including the one that ends the plan."""
    min_results: int = 0
    """The least number of results before a plan may end unconditionally."""
    operations: frozenset[str] = frozenset()
    """The operations of callsheet itself that may be called, by canonical name: `LLM_…`, `AGENT_CRITIQUE`,
    `CONSENSUS`, `SELF_REFINE`, `AGENT_SOLVE`, `SELECT`, `CALC`, `FORMAT`."""
    given: tuple[str, ...] = ()
    """Variables that are set before the first step, without `$`."""
    conditions: bool = True
    """Steps under `?IF`."""
    loops: bool = True
    """Steps under `?FOREACH`."""
    failures: bool = True
    """`ON_FAIL @RETRY(n)` and `ON_FAIL TERMINATE (…)`."""
    groups: bool = False
    """`@PARALLEL { … }` of two to four calls."""
    jumps: bool = False
    """`GOTO` under a condition and after a failure: past one to three calls, to one of two branches, and back
    to repeat one to three calls. Its target is always a step of the plan."""
    replans: bool = False
    """`RE-PLAN (…)` as the end, also under a condition."""
    casts: bool = True
    """Outputs with a type: `> $v1:json`."""
    paths: bool = True
    """References into values: `$v1.field.0`."""
    fields: frozenset[str] | None = None
    """The field names in paths, besides indexes; None for any."""
    bare_calls: bool = False
    """Calls without an output variable; otherwise every call has one."""
    comments: bool = False
    """One line of comment, of at most 60 characters, before a step."""
    max_text: int = 200
    """The most characters of a string before each reference in it."""
    item: str = "item"
    """The variable of all loops; a number is added if the name is taken."""
    max_items: int = 8
    """The most items of a list, unless its schema requires more."""
