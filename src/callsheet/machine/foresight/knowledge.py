"""What a forecast is told of the world: facts of tools, pure functions, prices in calls, assumptions.

Everything here is known without touching anything; the layers above fill it in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from callsheet.ir import JSON
from callsheet.machine.program import ToolFacts


class Computed(NamedTuple):
    """The outcome of a pure function: its value, or the text of its failure."""

    succeeds: bool
    value: JSON


class ModelUse(NamedTuple):
    """What one model operation asks of a model.

    `least` and `most` are calls if it succeeds, `most` None without a bound; `tokens` estimates
    the prompts of the fewest calls, as far as their text is known (`is_whole`: all of it).
    """

    least: int
    most: int | None
    tokens: int
    is_whole: bool


Compute: TypeAlias = "Callable[[str, dict[str, Any]], Computed | None]"
"""Works out a transform; None for one that it does not know or that gives too much."""
AskModel: TypeAlias = "Callable[[str, Sequence[JSON], Mapping[str, JSON], bool], ModelUse]"
"""What a model operation will cost, of its inputs and arguments; unknown parts of texts are left out,
unknown values are null, and the last argument says whether all is known."""


def _nothing(tool: str, arguments: dict[str, Any]) -> None:
    return None


def _one_call(tool: str, inputs: Sequence[JSON], arguments: Mapping[str, JSON], is_whole: bool) -> ModelUse:
    return ModelUse(1, None, 0, False)


def _no_approval(tool: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What is known of the world before a run.

    `facts` tell effects and parameters by canonical name; a tool that is not there may do
    anything. `assumed` gives results by step id. `needs_approval` says by a tool's canonical
    name whether a person is asked before it is called.
    """

    facts: Mapping[str, ToolFacts] = field(default_factory=dict[str, ToolFacts])
    assumed: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    compute: Compute = _nothing
    ask_model: AskModel = _one_call
    needs_approval: Callable[[str], bool] = _no_approval
