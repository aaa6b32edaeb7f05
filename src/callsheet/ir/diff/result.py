"""The data types of a diff of two plans: changed parts, pairs of steps, the whole diff."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from callsheet.ir.expr import Condition, Value
from callsheet.ir.plan import Plan
from callsheet.ir.step import Action, Foreach, OnFail, Retry, Step


class Part(StrEnum):
    """The changed part of the plan's head or of a step."""

    ID = "id"
    TITLE = "title"
    """Of the plan or of a step."""
    GOAL = "goal"
    ORDER = "order"
    """How the execution order is determined."""
    VARIABLE = "variable"
    """An initial variable, by its name."""
    VARIABLE_ORDER = "variable order"
    ACTION = "action"
    """Another kind of action, such as an answer instead of a call."""
    TOOL = "tool"
    ARGUMENT = "argument"
    """By its name, or by its number from 1."""
    ARGUMENT_ORDER = "argument order"
    TARGET = "goto"
    CONDITION = "condition"
    FOREACH = "foreach"
    """A loop that is added or removed."""
    LOOP_VARIABLE = "loop variable"
    LOOP_SOURCE = "loop source"
    OUTPUT = "output"
    CAST = "cast"
    RETRY = "retry"
    ON_FAIL = "on_fail"
    """Where a failure continues."""
    GROUP = "group"
    AFTER = "after"
    """The dependencies of a step in a DAG."""


Node: TypeAlias = "Value | Condition | Action | Foreach | OnFail | Retry | tuple[str, ...] | str | int | None"
"""One side of a change; None if the part is absent there."""


@dataclass(frozen=True, slots=True)
class Change:
    """A changed part; `name` is that of an argument or variable, or an argument's number from 1."""

    part: Part
    old: Node
    new: Node
    name: str | int | None = None


@dataclass(frozen=True, slots=True)
class StepDiff:
    """A pair of matched steps, or an added or removed one.

    `old` is None for an added step, `new` for a removed one; `old_index` and `new_index` count from 0.
    `moved` says that its position among the steps of both plans has changed.
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
        """Whether both plans have it with different ids."""
        return self.old is not None and self.new is not None and self.old.id != self.new.id

    @property
    def is_same(self) -> bool:
        """Whether it has no differences."""
        both = self.old is not None and self.new is not None
        return both and not (self.changes or self.moved or self.is_renamed)


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """The diff of two plans: changes of the head, and all steps.

    `steps` are in the order of the new plan; a removed one comes after the step that it followed.
    """

    old: Plan
    new: Plan
    head: tuple[Change, ...]
    steps: tuple[StepDiff, ...]

    @property
    def is_same(self) -> bool:
        """Whether the plans have no differences."""
        return not self.head and all(step.is_same for step in self.steps)

    def different(self) -> Iterator[StepDiff]:
        """The steps with differences."""
        return (step for step in self.steps if not step.is_same)
