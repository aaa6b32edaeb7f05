"""Assigns each value of a run a confidence: by its source, and at most that of the values it was made from.

The numbers are a policy; they are not measured. An operator can set others per tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from callsheet.ir import Call, CallKind, Cast, Effect, Step
from callsheet.machine import ToolFacts
from callsheet.trace.lctl.receive import MOST_STATED
from callsheet.trace.projection.record import Record, Visit, Write

_WEB = frozenset({"FETCH_PAGE", "WEB_SEARCH"})
_CHECKED_CASTS = frozenset({Cast.INT, Cast.FLOAT, Cast.BOOL, Cast.JSON})


class Basis(NamedTuple):
    """A confidence from 0 to 1, and the reason for it in words."""

    value: float
    why: str


GIVEN = Basis(1.0, "given")
WRITTEN = Basis(1.0, "written in the plan")
COMPUTED = Basis(1.0, "computed by the plan")
ERROR = Basis(0.0, "the text of an error")
UNCAST = Basis(0.0, "the cast failed")
ITEM_FAILED = Basis(0.0, "an item failed")
LOCAL = Basis(1.0, "deterministic, on this machine")
PERSON = Basis(1.0, "a person said so")
NOBODY = Basis(0.70, "nobody answered; the default of the question, assumed")
WEB = Basis(0.80, "from the web")
READ = Basis(0.95, "read by a declared tool")
DECLARED = Basis(0.95, "told by a declared tool")
UNDECLARED = Basis(0.80, "told by a tool whose effect is not known")
CHECKED = Basis(0.90, "a model said so, in a form that was checked")
ASSUMED = Basis(0.70, "a model said so; assumed")
AGENT = Basis(0.60, "an agent said so; assumed")

_BY_KIND = {
    CallKind.TRANSFORM: LOCAL,
    CallKind.AGENT: AGENT,
}
_BY_EFFECT = {Effect.PURE: LOCAL, Effect.READ: READ, Effect.UNSAFE: UNDECLARED}


def own_basis(visit: Visit, facts: Mapping[str, ToolFacts], by_tool: Mapping[str, float]) -> Basis:
    """The confidence of a visit's result, regardless of its inputs.

    `by_tool` are the confidences that an operator has set, by canonical tool name.
    """
    step = visit.step
    if any(write.is_error for write in visit.wrote):
        return ERROR
    if visit.cast_failed:
        return UNCAST
    if visit.failures:
        return ITEM_FAILED
    if step is None or step.call is None:
        if visit.word and visit.data:
            return COMPUTED
        return PERSON if visit.is_edit else WRITTEN
    if step.call.tool in by_tool:
        return Basis(by_tool[step.call.tool], "set for this tool")
    return _of_call(visit, step, step.call, facts)


def _of_call(visit: Visit, step: Step, call: Call, facts: Mapping[str, ToolFacts]) -> Basis:
    match call.kind:
        case CallKind.AGENT if visit.stated is not None:
            most = AGENT.value if step.foreach is not None else MOST_STATED
            return Basis(min(visit.stated, most), "an agent said so, and how sure it is")
        case CallKind.MODEL:
            return CHECKED if _is_checked(step, call) else ASSUMED
        case CallKind.HUMAN:
            return NOBODY if visit.expired else PERSON
        case CallKind.TOOL if call.tool in _WEB:
            return WEB
        case CallKind.TOOL:
            effect = facts.get(call.tool, ToolFacts()).effect
            return _BY_EFFECT.get(effect, DECLARED)
        case kind:
            return _BY_KIND[kind]


def _is_checked(step: Step, call: Call) -> bool:
    """Whether the form of a model's answer is checked: as a verdict, against categories or by a cast."""
    if call.tool == "LLM_EVALUATE" or (
        call.tool == "LLM_CLASSIFY" and any(name == "categories" for name, _ in call.named)
    ):
        return True
    return step.output is not None and step.output.cast in _CHECKED_CASTS


class Worth(NamedTuple):
    """The confidence of a written value: its own basis, and `value`, the least of that and of its inputs."""

    basis: Basis
    value: float


def worth_of(record: Record, by_tool: Mapping[str, float]) -> dict[int, Worth]:
    """The worth of each write, by its number; `by_tool` as for `own_basis`."""
    worths: dict[int, Worth] = {}
    for write in record.given:
        worths[write.number] = _worth(WRITTEN if write.number in record.own else GIVEN, (), worths)
    for visit in record.visits:
        basis = own_basis(visit, record.facts, by_tool)
        for write in visit.wrote:
            worths[write.number] = _worth(basis, made_of(visit), worths)
    return worths


def made_of(visit: Visit) -> tuple[Write, ...]:
    """The writes whose confidence limits that of the visit's result: none if a person answered or set it.

    A person has seen what the question shows and vouches for the answer themselves.
    """
    return () if visit.step is None or _is_of_a_person(visit) else visit.data


def affirmed(visit: Visit) -> tuple[Write, ...]:
    """The writes that a person or a checked model was shown and whose value it returned unchanged."""
    step = visit.step
    if step is None or visit.failures or visit.cast_failed or step.call is None:
        return ()
    is_check = step.call.kind is CallKind.MODEL and _is_checked(step, step.call)
    if not (is_check or _is_of_a_person(visit)):
        return ()
    given = {write.text for write in visit.wrote if not write.is_error}
    return tuple(write for write in visit.data if write.text in given and not write.is_error)


def affirming(record: Record, first: int, upto: int) -> dict[int, int]:
    """The place of the last visit that affirmed each write, by the write's number.

    Only visits from `first` on and before `upto` are considered.
    """
    places = range(first, upto)
    return {write.number: place for place in places for write in affirmed(record.visits[place])}


def _is_of_a_person(visit: Visit) -> bool:
    """Whether the value comes from a person: an edit, or an answer that is not the question's default."""
    if visit.step is None or visit.step.call is None:
        return visit.is_edit
    return visit.step.call.kind is CallKind.HUMAN and not visit.expired


def _worth(basis: Basis, parents: tuple[Write, ...], known: Mapping[int, Worth]) -> Worth:
    return Worth(basis, min([basis.value, *(known[parent.number].value for parent in parents)]))
