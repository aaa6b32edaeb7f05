"""The shapes of calls: two calls of one shape are judged alike if their labels are equal and texts clear.

In: the steps of a program, and the rules of a policy. Out: for each step the shape of its calls, with the
judgements that are cached for it. A shape is the form of a call, together with all that the rules look at in
texts that the plan writes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeAlias

from callsheet.ir import DictExpr, ListExpr, Literal, Template, Value
from callsheet.ir.labels import LITERAL, Label
from callsheet.machine.monitor.implicit_flows import ImplicitFlows
from callsheet.machine.program import Kind, StepCode
from callsheet.machine.values import to_text
from callsheet.policy.calls import bare
from callsheet.policy.judge import Judge
from callsheet.policy.prepared import Clears
from callsheet.policy.separation import Separation, opens_nothing, separation
from callsheet.policy.text_keys import is_address, key_of_beside, key_of_seen
from callsheet.policy.urls import head_of

MOST = 4_096
"""The most shapes, and the most judgements for each, that are cached; a run has a handful."""
_TOOL, _MODEL = Kind.TOOL, Kind.MODEL


class CachedJudgement(NamedTuple):
    """A cached judgement: the label of the call's result, and of all data it sends.

    With `is_separate` it applies only to calls whose values stand apart.
    """

    result: Label
    sent: Label
    is_separate: bool


Known: TypeAlias = "dict[tuple[Label, ...], CachedJudgement]"
"""Cached judgements: by the label of what decided that the call is made, and those of the slots it reads."""


class CallShape(NamedTuple):
    """What to check for calls of a shape: the judgements that are known, and what texts have to pass.

    `of_private` says that judgements of calls with private data may be cached.
    """

    known: Known
    clears: tuple[Clears, ...]
    of_private: bool


ALWAYS_JUDGED = CallShape({}, (), False)
"""The shape of calls that are always judged in full."""


class _Counting(NamedTuple):
    """An argument whose text counts: its position, and what of its value does.

    That is None for a value that makes its call one that is always judged in full, if it `must` be known.
    """

    position: int
    key: Callable[[Value], Hashable]
    must: bool


class _FormRules(NamedTuple):
    """What the rules look at in calls of one form, besides labels."""

    counting: tuple[_Counting, ...]
    clears: tuple[Clears, ...]
    of_private: bool


class CallShapes:
    """The shapes of the calls of one program under one set of rules, shared by all its runs."""

    __slots__ = ("_by_step", "_marks", "_named", "_of_forms", "_rules", "_separations", "_shapes", "by_form")

    def __init__(self, rules: Judge) -> None:
        self._rules = rules
        self._named = rules.policy.approved | rules.policy.declassify
        """Steps that the policy treats by name, so that their judgements apply to no other step."""
        self._marks = rules.policy.planner != LITERAL
        """Whether the plan's literals are not plain, so that a list's label depends on whether it has any."""
        self.by_form: dict[int, CallShape] = {}
        """The shapes of forms that have only one, for steps that are not in a cycle of the plan."""
        self._by_step: dict[int, CallShape] = {}
        self._of_forms: dict[tuple[int, bool], _FormRules | None] = {}
        self._separations: dict[int, Separation] = {}
        self._shapes: dict[tuple[Hashable, ...], CallShape] = {}

    def of(self, code: StepCode, implicit_flows: ImplicitFlows) -> CallShape:
        """The shape of the calls of a step."""
        if not code.recurs and (shape := self.by_form.get(code.form)) is not None:
            return shape
        return self._by_step.get(code.number) or self._new(code, implicit_flows)

    def _new(self, code: StepCode, implicit_flows: ImplicitFlows) -> CallShape:
        repeats = code.recurs and implicit_flows.repeats(code)
        form = code.form, repeats
        if form in self._of_forms:
            rules = self._of_forms[form]
        else:
            rules = self._of_forms[form] = self._rules_of(code, repeats)
        shape = ALWAYS_JUDGED if rules is None or code.id in self._named else self._shape(form, rules, code)
        if self._named or code.recurs or (rules is not None and rules.counting):
            self._by_step[code.number] = shape
        else:
            self.by_form[code.form] = shape
        return shape

    def separation(self, code: StepCode) -> Separation:
        """Whether the values of a step stand apart; those that are the same in all calls of a shape do."""
        known = self._separations.get(code.number)
        if known is None:
            prose = self._rules.prepared(code.tool).prose
            values = [value for name, value in code.written if not _is_whole(prose, name, value)]
            known = self._separations[code.number] = separation(values)
        return known

    def _shape(self, form: tuple[int, bool], rules: _FormRules, code: StepCode) -> CallShape:
        """The shape of a step's calls, by what counts of the texts in it."""
        key: list[Hashable] = [form]
        for position, key_of, must in rules.counting:
            counts = key_of(code.written[position][1])
            if must and counts is None:
                return ALWAYS_JUDGED
            key.append(counts)
        shapes, whole = self._shapes, tuple(key)
        shape = shapes.get(whole)
        if shape is None:
            if len(shapes) >= MOST:
                shapes.clear()
            shape = shapes[whole] = bare(CallShape, ({}, rules.clears, rules.of_private))
        return shape

    def _rules_of(self, code: StepCode, repeats: bool) -> _FormRules | None:
        """What the rules look at in calls of a step's form; None if such calls are always judged in full."""
        if not (code.kind is _TOOL or (code.kind is _MODEL and code.loop is None)):
            return None
        prepared = self._rules.prepared(code.tool)
        seen = prepared.of_labels_again if repeats or code.retries else prepared.of_labels
        if seen is None:
            return None
        counting: list[_Counting] = []
        of_private = prepared.of_private
        for position, (name, value) in enumerate(code.written):
            if name.casefold() in seen:
                key = self._key_of_seen(code.tool, name.casefold(), value)
                if key is None:
                    return None
                counting.append(_Counting(position, key, True))
            if prepared.prose is not None and name not in prepared.prose:
                if type(value) is Literal:
                    key = _of_literal(key_of_beside(self._rules, code.tool, name))
                    counting.append(_Counting(position, key, False))
                else:
                    of_private = False  # the data itself names its recipient
            if self._marks and isinstance(value, ListExpr | DictExpr):
                counting.append(_Counting(position, repr, True))
        return _FormRules(tuple(counting), prepared.clears, of_private)

    def _key_of_seen(self, tool: str, name: str, value: Value) -> Callable[[Value], Hashable] | None:
        """All that rules look at in an argument; None if that is not written in the plan."""
        if type(value) is Literal:
            key = key_of_seen(self._rules, tool, name)
            return None if key is None else _of_literal(key)
        if type(value) is Template and is_address(self._rules, tool, name):
            return _head_of_template
        return None


def _of_literal(key: Callable[[str], Hashable]) -> Callable[[Value], Hashable]:
    def of_literal(value: Value) -> Hashable:
        assert type(value) is Literal
        text = value.value
        return key(text if type(text) is str else to_text(text))

    return of_literal


def _head_of_template(value: Value) -> Hashable:
    assert type(value) is Template
    first = value.parts[0]
    return head_of(first) if type(first) is str else None


def _is_whole(prose: frozenset[str] | None, name: str, value: Value) -> bool:
    """Whether an argument is the same in all calls of a shape, and separate from those beside it."""
    return (
        prose is not None
        and name not in prose
        and type(value) is Literal
        and opens_nothing(to_text(value.value))
    )
