"""What comes of a goal: a plan that may run or what is wrong with it, and what it took."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from callsheet.diagnostics import Diagnostic, Source
from callsheet.ir import Plan
from callsheet.machine import Remark
from callsheet.ports.models.model import Completion, Usage


@dataclass(frozen=True, slots=True)
class Accounting:
    """What compiling took.

    `calls` are those of the model, `repaired` says that the last of them repaired an answer. `usage` sums up
    their tokens, seconds and cost in US dollars, None where the price of one is not known. `prompt` names the
    prompt and its version, `model` who answered; `remarks` say what was cut and how the answer was held.
    """

    calls: int = 0
    repaired: bool = False
    usage: Usage = field(default_factory=lambda: Usage(tries=0))
    model: str = ""
    prompt: str = ""
    remarks: tuple[Remark, ...] = ()

    def with_answer(self, completion: Completion) -> Accounting:
        """The accounting with one more answer."""
        cost = completion.usage.cost if not self.calls else added(self.usage.cost, completion.usage.cost)
        usage = replace(_sum(self.usage, completion.usage), cost=cost)
        return replace(self, calls=self.calls + 1, usage=usage, model=completion.model or self.model)

    def with_remarks(self, *remarks: Remark) -> Accounting:
        """The accounting with further remarks."""
        return replace(self, remarks=(*self.remarks, *remarks))


@dataclass(frozen=True, slots=True)
class Draft:
    """What came of asking for a plan.

    `answer` is the last text of the model, as it came. `plan` is the checked plan, None where the answer is
    none or cannot run; then `diagnostics` hold what is wrong with it, and their spans point into `source`.
    """

    answer: str
    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]
    source: Source
    accounting: Accounting

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """What keeps the plan from running."""
        return tuple(d for d in self.diagnostics if d.is_error)


def added(one: float | None, other: float | None) -> float | None:
    """The sum of two costs; None where one of them is not known."""
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
