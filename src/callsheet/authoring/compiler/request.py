"""The compiler's input, a goal with what a plan may use, and its output, a plan or what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from callsheet.diagnostics import Diagnostic, Source
from callsheet.ir import Plan
from callsheet.machine import Fact, Remark
from callsheet.machine.events import describe_remark
from callsheet.ports.models.model import Completion, Failure, ModelFailed, Usage
from callsheet.ports.tools import ToolSpec

Check: TypeAlias = "Callable[[Plan], Sequence[Diagnostic]]"
"""Returns the diagnostics of a plan: from the passes, and from other checks."""


@dataclass(frozen=True, slots=True)
class Request:
    """A goal, data about it, and what a plan may use.

    `tools` are declarations under the names by which plans call them, `given` the variables that are set
    before the plan runs, each with a description. `answers` are those of the user to questions that the model
    asked before, by question.
    """

    goal: str
    tools: tuple[ToolSpec, ...]
    context: str = ""
    given: Mapping[str, str] = field(default_factory=dict[str, str])
    answers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def told(self) -> tuple[str, ...]:
        """What a model is told beside the tools, in which a value of the goal may stand."""
        said = (text for answer in self.answers.items() for text in answer)
        return self.goal, self.context, *said, *self.given.values()


class PlanForm(StrEnum):
    """The form in which a plan is asked for and given."""

    PYTHON = "python"
    """An async function over typed stubs of the tools."""
    LTP = "ltp"
    MICRO = "micro"
    """Micro-CLI; the model is asked for LTP text, which is converted."""
    JSON = "json"
    """A JSON plan; the model is asked for LTP text, which is converted."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a goal is compiled.

    `form` is that of the plan; an answer in another syntax of callsheet is a plan too.
    `max_tools` limits how many tools the model is told about; None means as many as there is room for.
    `max_tokens` limits each answer; None leaves that to the settings of a strong model, which may think
    before it writes, and means few for a small one, which repeats itself. `constrained` False asks for plain
    text whatever the model supports. `repairs` False asks only once; `second_look` False asks a small model
    again only for an invalid plan, not for one that is doubtful. `max_steps` limits LTP text that is held to
    a grammar.
    """

    form: PlanForm | Literal["python", "ltp", "micro", "json"] = PlanForm.PYTHON
    max_tools: int | None = None
    max_steps: int = 12
    max_tokens: int | None = None
    constrained: bool = True
    repairs: bool = True
    second_look: bool = True
    answers: Mapping[str, str] = field(default_factory=dict[str, str])
    """The user's answers, by question, to what the model asked when the goal was compiled before (CMP012)."""


@dataclass(frozen=True, slots=True)
class Accounting:
    """What compiling used.

    `calls` counts the calls of the model, `repaired` says whether the last of them repaired an answer.
    `usage` sums up their tokens, seconds and cost in US dollars, None if a price is unknown. `prompt` names
    the prompt and its version, `model` is the model that answered; `remarks` say what was cut and which
    constraint applied.
    """

    calls: int = 0
    repaired: bool = False
    usage: Usage = field(default_factory=lambda: Usage(tries=0))
    model: str = ""
    prompt: str = ""
    remarks: tuple[Remark, ...] = ()

    @property
    def facts(self) -> tuple[Remark, ...]:
        """Remarks on the prompt, on what was cut, and on whether an answer was repaired."""
        prompt = (Fact("prompt", self.prompt),) if self.prompt else ()
        again = (Fact("asked again", "the first answer was wrong"),) if self.repaired else ()
        return (*prompt, *self.remarks, *again)

    def to_json(self) -> dict[str, Any]:
        """The accounting as JSON data; `cost` is null if unknown."""
        usage = self.usage
        return {
            "calls": self.calls,
            "repaired": self.repaired,
            "model": self.model,
            "prompt": self.prompt,
            "input_tokens": usage.input_tokens,
            "cached_tokens": usage.cached_tokens,
            "output_tokens": usage.output_tokens,
            "cost": usage.cost,
            "seconds": round(usage.seconds, 3),
            "remarks": [describe_remark(remark) for remark in self.remarks],
        }

    def with_answer(self, completion: Completion) -> Accounting:
        """The accounting with one more answer."""
        cost = completion.usage.cost if not self.calls else added(self.usage.cost, completion.usage.cost)
        usage = replace(_sum(self.usage, completion.usage), cost=cost)
        return replace(self, calls=self.calls + 1, usage=usage, model=completion.model or self.model)

    def with_remarks(self, *remarks: Remark) -> Accounting:
        """The accounting with further remarks, without duplicates."""
        new = (remark for remark in remarks if remark not in self.remarks)
        return replace(self, remarks=(*self.remarks, *new))


@dataclass(frozen=True, slots=True)
class Draft:
    """The result of asking for a plan.

    `answer` is the last text of the model, unchanged. `plan` is the checked plan, None if the answer contains
    none or an invalid one; then `diagnostics` say why, with spans in `source`.
    """

    answer: str
    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]
    source: Source
    accounting: Accounting
    failure: ModelFailed | None = None
    """Why the model gave no answer, if it gave none."""
    doubts: tuple[str, ...] = ()
    """Findings that make it doubtful that a valid plan does what was meant, with their places."""
    question: str = ""
    """What the model asks instead of writing a plan."""

    @property
    def unanswered(self) -> ModelFailed | None:
        """The failure to answer at all, including an empty answer; a run may retry it."""
        if self.failure is not None or self.plan is not None or self.answer.strip():
            return self.failure
        return ModelFailed(Failure.EMPTY, "its answer is empty", model=self.accounting.model)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The errors, which keep the plan from running."""
        return tuple(d for d in self.diagnostics if d.is_error)


def added(one: float | None, other: float | None) -> float | None:
    """The sum of two costs; None if one of them is unknown."""
    return None if one is None or other is None else one + other


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cached_tokens + other.cached_tokens,
        None,
        one.seconds + other.seconds,
        one.tries + other.tries,
    )
