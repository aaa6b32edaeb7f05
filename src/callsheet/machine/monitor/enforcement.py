"""What holds for a run under a policy: its rules, and the labels of what the run is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from callsheet.ir.labels import LITERAL, Label
from callsheet.policy.calls import Argument, CallView, Judgement
from callsheet.policy.judge import Judge, judge_of
from callsheet.policy.model import Policy

Judging: TypeAlias = "Callable[[CallView], Judgement]"


@dataclass(frozen=True, slots=True)
class Enforcement:
    """The policy of a run, and its rules.

    `inputs` are the labels of variables that the run begins with, by name; of others it is `given`. `rules`
    are what `judge` goes by, where that is known: then no call is judged again that looks to them as another.
    """

    policy: Policy
    judge: Judging
    inputs: Mapping[str, Label] = field(default_factory=dict[str, Label])
    given: Label = LITERAL
    rules: Judge | None = None

    @classmethod
    def under(cls, policy: Policy, inputs: Mapping[str, Label] | None = None) -> Enforcement:
        """What holds under a policy; raises ValueError for one with a pattern or a host that is none."""
        rules = judge_of(policy)
        return cls(policy, rules.decide, inputs or {}, policy.inputs, rules)

    def of_items(self, source: Argument) -> Label:
        """The label of the items of a loop over what a plan writes out."""
        return (self.rules or judge_of(self.policy)).of_items(source)

    def of_new_plans(self) -> Enforcement:
        """What holds for plans that the run makes itself: their steps are not those that the policy names."""
        own = self.policy.without_steps()
        return self if own is self.policy else Enforcement.under(own, self.inputs)
