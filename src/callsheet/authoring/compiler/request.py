"""What is to be compiled, and how: a goal with what a plan for it may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from callsheet.diagnostics import Diagnostic
from callsheet.ir import Plan
from callsheet.ports.tools import ToolSpec

Check: TypeAlias = "Callable[[Plan], Sequence[Diagnostic]]"
"""What is wrong with a plan, or could be better: the passes, and whatever else has to agree."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be compiled: a goal, data about it, and what a plan may use.

    `tools` are declarations under the names by which plans call them, `given` the variables that are set
    before the plan runs, each with words on what it is.
    """

    goal: str
    tools: tuple[ToolSpec, ...]
    context: str = ""
    given: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Options:
    """How a goal is compiled.

    `max_tools` bounds how many tools the model is told; None: few where it is held to a grammar, which small
    models are, and more where not. `max_steps` bounds a plan that is held to a grammar, `max_tokens` one
    answer. `constrained` False asks for plain text whatever the model accepts. `repairs` False asks once,
    `second_look` False asks again for a plan that cannot run, not for one that leaves out what the goal says.
    """

    max_tools: int | None = None
    max_steps: int = 12
    max_tokens: int | None = 2_000
    constrained: bool = True
    repairs: bool = True
    second_look: bool = True
