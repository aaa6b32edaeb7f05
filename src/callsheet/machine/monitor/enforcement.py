"""A policy made ready for a run: its rules, and the labels of the run's inputs."""

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

    `inputs` are the labels of the run's input variables by name; others have the label `given`. `rules` is
    the Judge behind `judge`, if known: then judgements can be cached.
    """

    policy: Policy
    judge: Judging
    inputs: Mapping[str, Label] = field(default_factory=dict[str, Label])
    given: Label = LITERAL
    rules: Judge | None = None

    @classmethod
    def under(cls, policy: Policy, inputs: Mapping[str, Label] | None = None) -> Enforcement:
        """The enforcement of a policy; raises ValueError if one of its patterns or hosts is invalid."""
        rules = judge_of(policy)
        return cls(policy, rules.decide, inputs or {}, policy.inputs, rules)

    def of_items(self, source: Argument) -> Label:
        """The label of the items of a loop whose source is written in the plan."""
        return (self.rules or judge_of(self.policy)).of_items(source)

    def of_new_plans(self) -> Enforcement:
        """The enforcement for plans made during the run: rules that name steps do not apply to them."""
        own = self.policy.without_steps()
        return self if own is self.policy else Enforcement.under(own, self.inputs)
