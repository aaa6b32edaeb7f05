"""The compiler's input: a goal with what a plan may use, and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from callsheet.diagnostics import Diagnostic
from callsheet.ir import Plan
from callsheet.ports.tools import ToolSpec

Check: TypeAlias = "Callable[[Plan], Sequence[Diagnostic]]"
"""Returns the diagnostics of a plan: from the passes, and from other checks."""


@dataclass(frozen=True, slots=True)
class Request:
    """A goal, data about it, and what a plan may use.

    `tools` are declarations under the names by which plans call them, `given` the variables that are set
    before the plan runs, each with a description.
    """

    goal: str
    tools: tuple[ToolSpec, ...]
    context: str = ""
    given: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Options:
    """How a goal is compiled.

    `max_tools` limits how many tools the model is told about; None means few for small models, and more for
    others. `max_steps` limits a plan that is constrained by a
    grammar, `max_tokens` each answer. `constrained` False asks for plain text whatever the model supports.
    `repairs` False asks only once; `second_look` False asks again only for an invalid plan, not for one that
    seems to leave out parts of the goal.
    """

    max_tools: int | None = None
    max_steps: int = 12
    max_tokens: int | None = 2_000
    constrained: bool = True
    repairs: bool = True
    second_look: bool = True
