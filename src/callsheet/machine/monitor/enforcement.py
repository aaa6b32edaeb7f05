"""A policy made ready for a run: its rules, and the labels of the run's inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from callsheet.ir.labels import LITERAL, Label
from callsheet.machine.keys import place_of_key
from callsheet.machine.monitor.client_words import ClientWords
from callsheet.machine.monitor.variable_labels import Admitted, Origins, merged
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


class OpenCalls:
    """The labels of what is in progress, by key of a call or by key prefix of a step's visit."""

    __slots__ = ("calls", "loops", "results", "talks", "words")

    def __init__(self) -> None:
        self.calls: dict[str, Admitted] = {}
        """Calls without an outcome, by key."""
        self.talks: dict[str, tuple[Label, Origins]] = {}
        """All that the model of a turn-by-turn operation has seen so far, by key."""
        self.words: dict[str, ClientWords] = {}
        """What the users of sessions have said, by key of the talk."""
        self.loops: dict[str, tuple[Label, Origins]] = {}
        """The items of open loops, by key prefix."""
        self.results: dict[str, tuple[Label, Origins]] = {}
        """The results so far of open steps, by key prefix."""

    def has_seen(self, talk: str, label: Label, origins: Origins) -> None:
        """The model of a talk has seen data of this label."""
        seen, before = self.talks[talk]
        self.talks[talk] = seen.join(label), merged(before, origins)

    def add_result(self, prefix: str, label: Label, origins: Origins) -> None:
        """Join a label into that of a step's result."""
        known = self.results.get(prefix)
        if known is None:
            self.results[prefix] = label, origins
        elif known[0] is not label or known[1] is not origins:
            self.results[prefix] = label.join(known[0]), merged(known[1], origins)

    def forget(self, prefix: str) -> None:
        """Drop the labels of the failed step whose keys have this prefix."""
        self.results.pop(prefix, None)
        self.loops.pop(prefix, None)

    def rename(self, before: str, key: str) -> None:
        """A call is retried under another key."""
        if before in self.calls:
            self.calls[key] = self.calls.pop(before)
        if before in self.talks:
            self.talks[key] = self.talks.pop(before)

    def sent_by(self, key: str) -> Label | None:
        """The label of all data that a call sends; None if it is not open."""
        admitted = self.calls.get(key)
        return None if admitted is None else admitted.sent

    def holds_secrets_of(self, step: str) -> bool:
        """Whether an open call of a step sends, or has given, secret data."""
        calls = [key for key, a in self.calls.items() if a.result.is_secret or a.sent.is_secret]
        prefixes = (*self.results.items(), *self.loops.items())
        calls += [f"{prefix}0.1" for prefix, (label, _) in prefixes if label.is_secret]
        calls += [key for key, (label, _) in self.talks.items() if label.is_secret]
        return any(place_of_key(key)[0] == step for key in calls)
