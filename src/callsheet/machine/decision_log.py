"""Records the decisions that values made in a run, so that a fold without secret values can replay them.

In: a run with its values, event by event. Out: the decisions made at each event: which guards held, how many
items there were, what the policy judged. Given these, a run over placeholders takes the same path. They
reveal nothing about a value beyond what the path itself shows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, TypeAlias, TypeVar

from callsheet.ir import JSON
from callsheet.ir.labels import Label
from callsheet.lazy import NamedTuple
from callsheet.machine.closures import Eval, Slots, Test, Unresolved
from callsheet.machine.program import Program
from callsheet.machine.values import items_of
from callsheet.policy.calls import CallView, Judgement, Objection, Rule

_T = TypeVar("_T")


class DecisionKind(Enum):
    """The kinds of decisions."""

    HOLDS = auto()
    """Whether the guard of a step holds."""
    ITEMS = auto()
    """How many items a loop has."""
    LOST = auto()
    """The reference that could not be resolved for a call's arguments; "" if all could."""
    SILENT = auto()
    """Whether a RESPOND has nothing to answer with."""
    FITS = auto()
    """Whether a result could be cast."""
    WEIGHS = auto()
    """How many bytes a result has."""
    JUDGED = auto()
    """The policy's judgement of a call."""


class Decision(NamedTuple):
    """A decision at a step: its number, for JUDGED its id."""

    kind: DecisionKind
    step: int | str
    outcome: Any


_EVERY = ""
"""Stands for the step of decisions that are not told apart by step."""

Decisions: TypeAlias = "tuple[Decision, ...]"
"""The decisions made at one event, in order."""


class Judged(NamedTuple):
    """A policy's judgement of a call: the rule against it, whether an approval is needed, the result's label,
    and whether links with data in them are possible.
    """

    rule: Rule | None
    asks: bool
    result: Label
    links: bool


class DecisionLog:
    """The decisions of one machine, recorded or replayed.

    With `notes` they are recorded as they are made. Otherwise decisions given by `follow` are replayed, and
    all others are made by the values.
    """

    __slots__ = ("_is_told", "_noted", "_notes", "_outcomes_left")

    def __init__(self, *, notes: bool) -> None:
        self._notes = notes
        self._noted: list[Decision] = []
        self._outcomes_left: dict[tuple[DecisionKind, int | str], deque[Any]] = {}
        self._is_told = False
        """Whether the decisions of the current event are known."""

    def follow(self, decisions: Decisions | None) -> None:
        """Replay these decisions at the next event; None if they are not known."""
        self._outcomes_left, self._is_told = {}, decisions is not None
        for kind, step, outcome in decisions or ():
            self._outcomes_left.setdefault((kind, step), deque()).append(outcome)

    def taken(self) -> Decisions:
        """The decisions recorded since the last call."""
        decisions, self._noted = tuple(self._noted), []
        return decisions

    def decide(self, kind: DecisionKind, step: int | str, outcome: _T) -> _T:
        """The decision that counts, given that the values at hand decide `outcome`."""
        if self._notes:
            self._noted.append(Decision(kind, step, outcome))
            return outcome
        outcomes_left = self._outcomes_left.get((kind, step))
        return outcomes_left.popleft() if outcomes_left else outcome

    def lead(self, program: Program) -> None:
        """Intercept the decisions of a program by changing it; no other machine may use that program."""
        if program.tree is not None:
            from callsheet.machine.tree.decisions import lead_tree  # noqa: PLC0415 - only for version 2

            lead_tree(self, program.tree)
            return
        for code in program.steps:
            if code.condition is not None:
                code.condition = self._test(code.number, code.condition)
            if code.source is not None:
                code.source = self._source(code.number, code.source)
            if program.graph is not None:
                code.arguments = self._logged(code.number, code.arguments, {})
                code.inputs = tuple([self._logged(code.number, make, None) for make in code.inputs])

    def weighing(self, weigh: Callable[[JSON], int]) -> Callable[[JSON], int]:
        """Intercept the sizes of results; at a known event, a size that was not recorded is 0."""

        def weighed(value: JSON) -> int:
            own = weigh(value)
            return self.decide(DecisionKind.WEIGHS, _EVERY, own if self._notes or not self._is_told else 0)

        return weighed

    def judging(self, judge: Callable[[CallView], Judgement]) -> Callable[[CallView], Judgement]:
        """Intercept a policy's judgements of calls."""

        def judged(call: CallView) -> Judgement:
            judgement = judge(call)
            rule = judgement.objections[0].rule if judgement.objections else None
            own = Judged(rule, bool(judgement.approvals), judgement.result, judgement.links)
            decided = self.decide(DecisionKind.JUDGED, call.step, own)
            return judgement if decided == own else _recorded_judgement(decided, judgement)

        return judged

    def _test(self, number: int, test: Test) -> Test:
        return lambda slots: self.decide(DecisionKind.HOLDS, number, test(slots))

    def _source(self, number: int, make: Eval) -> Eval:
        def source(slots: Slots) -> Any:
            value = make(slots)
            items = items_of(value)
            count = self.decide(DecisionKind.ITEMS, number, len(items))
            return items if count == len(items) else [*items[:count], *[value] * (count - len(items))]

        return source

    def _logged(self, number: int, make: Callable[[Slots], _T], nothing: _T) -> Callable[[Slots], _T]:
        def made(slots: Slots) -> _T:
            value, lost = nothing, ""
            try:
                value = make(slots)
            except Unresolved as error:
                lost = str(error)
            decided = self.decide(DecisionKind.LOST, number, lost)
            if decided:
                raise Unresolved(decided)
            return value

        return made


def _recorded_judgement(judged: Judged, judgement: Judgement) -> Judgement:
    """The recorded judgement, made of values that are not visible here, in words that fit."""
    objections: tuple[Objection, ...] = ()
    if judged.rule is not None:
        same = tuple(objection for objection in judgement.objections if objection.rule is judged.rule)
        objections = same or (Objection(judged.rule, "a value that is sealed here rules it out"),)
    approvals = (judgement.approvals or ("a value that is sealed here requires it",)) if judged.asks else ()
    return Judgement(objections, approvals, judgement.obligations, judged.result, judged.links)
