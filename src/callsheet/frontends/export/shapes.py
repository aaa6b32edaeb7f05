"""What an export is made of: the tools that a plan may call, and which constructs it may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from callsheet.ir import canonical_tool_name


class Form(StrEnum):
    """How the plan is written; both are LTP text."""

    LEAN = "lean"
    """As a model writes it with few tokens: `S1: @read_file (path="a") > $v1`, no markers. No text begins
    with `)`, as one would that swallows the call around it."""
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


class Leg(NamedTuple):
    """One part of the way that a plan has to go: a call of one of these, by canonical names.

    `is_each` says that it is made for each item of a list.
    """

    tools: frozenset[str]
    is_each: bool = False


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Which plans an export allows."""

    form: Form = Form.LEAN
    max_steps: int = 12
    """The most steps, the one that ends the plan among them."""
    min_results: int = 0
    """How many results a plan has before it may end for sure."""
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
    """`GOTO` under a condition and after a failure: over one to three calls, to one of two ways, and back
    to do one to three calls again. Its target is always a step of the plan."""
    replans: bool = False
    """`RE-PLAN (…)` as the end, also under a condition."""
    casts: bool = True
    """Outputs with a type: `> $v1:json`."""
    paths: bool = True
    """References into values: `$v1.field.0`."""
    fields: frozenset[str] | None = None
    """The names that a path may have, besides indexes; None for any."""
    bare_calls: bool = False
    """Calls whose result goes into no variable; without them every call has an output."""
    comments: bool = False
    """One line of comment, of at most 60 characters, before a step."""
    max_text: int = 200
    """The most characters of a text, up to each reference in it."""
    item: str = "item"
    """The variable of every loop; another name takes its place where it is given."""
    max_items: int = 8
    """The most items of a list, where its schema asks for no more."""
    course: tuple[Leg, ...] = ()
    """The calls that a plan makes, in their order, and no others; empty for any."""
