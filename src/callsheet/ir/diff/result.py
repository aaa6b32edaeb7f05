"""The words for what differs between two plans: parts, changes of parts, steps side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from callsheet.ir.expr import Condition, Value
from callsheet.ir.plan import Plan
from callsheet.ir.step import Action, Foreach, OnFail, Retry, Step


class Part(StrEnum):
    """What a change is about: a part of the plan's head, or of a step."""

    ID = "id"
    TITLE = "title"
    """Of the plan or of a step."""
    GOAL = "goal"
    ORDER = "order"
    """What the order of steps means."""
    VARIABLE = "variable"
    """An initial variable, by its name."""
    VARIABLE_ORDER = "variable order"
    ACTION = "action"
    """Another kind of action: an answer instead of a call, say."""
    TOOL = "tool"
    ARGUMENT = "argument"
    """By its name, or by its number from 1."""
    ARGUMENT_ORDER = "argument order"
    TARGET = "goto"
    CONDITION = "condition"
    FOREACH = "foreach"
    """A loop that comes or goes."""
    LOOP_VARIABLE = "loop variable"
    LOOP_SOURCE = "loop source"
    OUTPUT = "output"
    CAST = "cast"
    RETRY = "retry"
    ON_FAIL = "on_fail"
    """Where a failure leads."""
    GROUP = "group"
    AFTER = "after"
    """The steps that it waits for, in a plan of dependencies."""


Node: TypeAlias = "Value | Condition | Action | Foreach | OnFail | Retry | tuple[str, ...] | str | int | None"
"""One side of a change; None where there is nothing on that side."""


@dataclass(frozen=True, slots=True)
class Change:
    """A part that is not the same; `name` is that of an argument or variable, or its number from 1."""

    part: Part
    old: Node
    new: Node
    name: str | int | None = None


@dataclass(frozen=True, slots=True)
class StepDiff:
    """A step of the one plan beside the step of the other that it corresponds to.

    `old` is None for a step that was added, `new` for one that was removed; `old_index` and
    `new_index` are their places from 0. `moved` says that it stands elsewhere among the steps
    that both plans have.
    """

    old: Step | None
    new: Step | None
    old_index: int | None
    new_index: int | None
    changes: tuple[Change, ...] = ()
    moved: bool = False

    @property
    def is_added(self) -> bool:
        """Whether only the new plan has it."""
        return self.old is None

    @property
    def is_removed(self) -> bool:
        """Whether only the old plan has it."""
        return self.new is None

    @property
    def is_renamed(self) -> bool:
        """Whether both plans have it, under two ids."""
        return self.old is not None and self.new is not None and self.old.id != self.new.id

    @property
    def is_same(self) -> bool:
        """Whether nothing is to be said about it."""
        both = self.old is not None and self.new is not None
        return both and not (self.changes or self.moved or self.is_renamed)


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """Two plans side by side: changes of the head, and all steps.

    `steps` stand in the order of the new plan; one that was removed stands behind the step that
    it followed.
    """

    old: Plan
    new: Plan
    head: tuple[Change, ...]
    steps: tuple[StepDiff, ...]

    @property
    def is_same(self) -> bool:
        """Whether both are the same plan."""
        return not self.head and all(step.is_same for step in self.steps)

    def different(self) -> Iterator[StepDiff]:
        """The steps about which something is to be said."""
        return (step for step in self.steps if not step.is_same)
