"""What values have decided in a run, for one who is told of it without seeing all of them.

In: a run that sees its values, event by event. Out: the decisions that it made at each: which guards held,
how many items there were, what the policy said. Told of these, a run over placeholders goes the same way;
nothing of a value is in them but what the way itself shows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, NamedTuple, TypeAlias, TypeVar

from callsheet.ir import JSON
from callsheet.ir.labels import Label
from callsheet.machine.closures import Eval, Slots, Test, Unresolved
from callsheet.machine.program import Program
from callsheet.machine.values import items_of
from callsheet.policy.calls import CallView, Judgement, Objection, Rule

_T = TypeVar("_T")


class What(Enum):
    """What kind of thing was decided."""

    HOLDS = auto()
    """Whether the guard of a step holds."""
    ITEMS = auto()
    """How many items a loop has."""
    LOST = auto()
    """The path that led nowhere as a call was made, or nothing."""
    SILENT = auto()
    """Whether there is nothing to answer with."""
    FITS = auto()
    """Whether a result could be made what its step wants it to be."""
    WEIGHS = auto()
    """How many bytes a result has."""
    JUDGED = auto()
    """What the policy says of a call."""


class Decision(NamedTuple):
    """Something that was decided at a step (of a call that is judged: its id)."""

    what: What
    step: int | str
    said: Any


_EVERY = ""
"""Of what is counted over all steps."""

Way: TypeAlias = "tuple[Decision, ...]"
"""What was decided at one event, in order."""


class Judged(NamedTuple):
    """What a policy says of a call: the rule against it, whether a person is asked, the result's label, and
    whether what it leaves behind may hold an address with data in it.
    """

    rule: Rule | None
    asks: bool
    result: Label
    links: bool


class Course:
    """The decisions of one machine: those that it makes, or those that it is told to make.

    With `notes` they are kept as they are made. Without, what is told by `follow` is decided so, and all else
    by the values.
    """

    __slots__ = ("_is_told", "_left", "_noted", "_notes")

    def __init__(self, *, notes: bool) -> None:
        self._notes = notes
        self._noted: list[Decision] = []
        self._left: dict[tuple[What, int | str], deque[Any]] = {}
        self._is_told = False
        """Whether it is known how the present event was decided."""

    def follow(self, way: Way | None) -> None:
        """Decide so at the event that comes now; None where that is not known."""
        self._left, self._is_told = {}, way is not None
        for what, step, said in way or ():
            self._left.setdefault((what, step), deque()).append(said)

    def taken(self) -> Way:
        """What has been decided since this was asked last."""
        way, self._noted = tuple(self._noted), []
        return way

    def told(self, what: What, step: int | str, said: _T) -> _T:
        """What counts where the values at hand say this."""
        if self._notes:
            self._noted.append(Decision(what, step, said))
            return said
        left = self._left.get((what, step))
        return left.popleft() if left else said

    def lead(self, program: Program) -> None:
        """Be asked for each decision of a program, which no other machine may have."""
        for code in program.steps:
            if code.condition is not None:
                code.condition = self._test(code.number, code.condition)
            if code.source is not None:
                code.source = self._source(code.number, code.source)
            if program.graph is not None:
                code.arguments = self._made(code.number, code.arguments, {})
                code.inputs = tuple([self._made(code.number, make, None) for make in code.inputs])

    def weighing(self, weigh: Callable[[JSON], int]) -> Callable[[JSON], int]:
        """Be asked for the bytes of results; what is told of none had none that count."""

        def weighed(value: JSON) -> int:
            own = weigh(value)
            return self.told(What.WEIGHS, _EVERY, own if self._notes or not self._is_told else 0)

        return weighed

    def judging(self, judge: Callable[[CallView], Judgement]) -> Callable[[CallView], Judgement]:
        """Be asked for what a policy says of calls."""

        def judged(call: CallView) -> Judgement:
            made = judge(call)
            rule = made.objections[0].rule if made.objections else None
            own = Judged(rule, bool(made.approvals), made.result, made.links)
            said = self.told(What.JUDGED, call.step, own)
            return made if said == own else _as_said(said, made)

        return judged

    def _test(self, number: int, test: Test) -> Test:
        return lambda slots: self.told(What.HOLDS, number, test(slots))

    def _source(self, number: int, make: Eval) -> Eval:
        def source(slots: Slots) -> Any:
            value = make(slots)
            items = items_of(value)
            count = self.told(What.ITEMS, number, len(items))
            return items if count == len(items) else [*items[:count], *[value] * (count - len(items))]

        return source

    def _made(self, number: int, make: Callable[[Slots], _T], nothing: _T) -> Callable[[Slots], _T]:
        def made(slots: Slots) -> _T:
            value, lost = nothing, ""
            try:
                value = make(slots)
            except Unresolved as error:
                lost = str(error)
            said = self.told(What.LOST, number, lost)
            if said:
                raise Unresolved(said)
            return value

        return made


def _as_said(said: Judged, made: Judgement) -> Judgement:
    """A judgement such as it was of the values that are not seen here."""
    objections: tuple[Objection, ...] = ()
    if said.rule is not None:
        same = tuple(objection for objection in made.objections if objection.rule is said.rule)
        objections = same or (Objection(said.rule, "a value that is sealed here speaks against it"),)
    approvals = (made.approvals or ("a value that is sealed here asks for it",)) if said.asks else ()
    return Judgement(objections, approvals, made.obligations, said.result, said.links)
