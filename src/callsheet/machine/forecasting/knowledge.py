"""The input of a forecast besides the plan: tool facts, transforms, costs of model calls, assumptions.

All of it is known without touching anything; the layers above fill it in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from callsheet.ir import JSON
from callsheet.machine.program import ToolFacts


class Computed(NamedTuple):
    """The outcome of a transform: its value, or the text of its error."""

    succeeds: bool
    value: JSON


class ModelUse(NamedTuple):
    """The model calls of one model operation.

    `least` and `most` count its calls if it succeeds, `most` is None if there is no bound; `tokens` estimates
    the prompts of the fewest calls, as far as their text is known (`is_whole`: all of it).
    """

    least: int
    most: int | None
    tokens: int
    is_whole: bool


Compute: TypeAlias = "Callable[[str, dict[str, Any]], Computed | None]"
"""Evaluates a transform; None for one that it does not know or whose result is too large."""
AskModel: TypeAlias = "Callable[[str, Sequence[JSON], Mapping[str, JSON], bool], ModelUse]"
"""Estimates a model operation from its inputs and arguments: unknown parts of texts are left out, unknown
values are null, and the last argument says whether all is known."""


def _nothing(tool: str, arguments: dict[str, Any]) -> None:
    return None


def _one_call(tool: str, inputs: Sequence[JSON], arguments: Mapping[str, JSON], is_whole: bool) -> ModelUse:
    return ModelUse(1, None, 0, False)


def _no_approval(tool: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What is known about the world before a run.

    `facts` are by canonical tool name; a tool without facts is taken to be unsafe. `assumed` gives results by
    step id. `needs_approval` says, for a canonical tool name, whether its calls need an approval. At most
    `most_visits` items of a FOREACH are given with their arguments.
    """

    facts: Mapping[str, ToolFacts] = field(default_factory=dict[str, ToolFacts])
    assumed: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    compute: Compute = _nothing
    ask_model: AskModel = _one_call
    needs_approval: Callable[[str], bool] = _no_approval
    most_visits: int = 20
