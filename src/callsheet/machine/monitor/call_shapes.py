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
from callsheet.policy.judge import Judge
from callsheet.policy.prepared import Clears
from callsheet.policy.separation import Separation, opens_nothing, separation
from callsheet.policy.text_keys import is_address, itself, key_of_beside, key_of_seen
from callsheet.policy.urls import head_of

MOST = 4_096
"""The most shapes of a form, and judgements of a shape, that are cached; a run has a handful."""
_TOOL, _MODEL = Kind.TOOL, Kind.MODEL


class CachedJudgement(NamedTuple):
    """A cached judgement: the label of the call's result, and of all data it sends.

    With `is_separate` it applies only to calls whose values stand apart, with `is_safe` only to those whose
    texts are safe (see `CallShape.safe`).
    """

    result: Label
    sent: Label
    is_separate: bool
    is_safe: bool


Known: TypeAlias = "dict[tuple[Label, ...], CachedJudgement]"
"""Cached judgements: by the label of what decided that the call is made, and those of the slots it reads."""


class CallShape(NamedTuple):
    """What to check for calls of a shape: the judgements that are known, and what texts have to pass.

    `clears` are for the texts of all arguments, `safe` for those that the plan writes at some positions, if
    the call has untrusted data. `of_private` says that judgements of calls with private data may be cached.
    `varying` are the positions of the arguments that may differ between two calls of the shape, or are not
    separate from those beside them.
    """

    known: Known
    clears: tuple[Clears, ...]
    safe: tuple[tuple[int, Clears], ...]
    of_private: bool
    varying: tuple[int, ...]


ALWAYS_JUDGED = CallShape({}, (), (), False, ())
"""The shape of calls that are always judged in full."""


class _Counting(NamedTuple):
    """An argument whose text counts: its position, and a function from its value to what counts of it.

    Where the result `must` not be None, but is, the call is always judged in full.
    """

    position: int
    key: Callable[[Value], Hashable]
    must: bool


class _Form(NamedTuple):
    """What the rules look at in calls of one form, besides labels, and the shapes of the form so far.

    `beside` are the positions of the arguments outside `Prepared.prose`, if the plan writes them.
    """

    counting: tuple[_Counting, ...]
    clears: tuple[Clears, ...]
    safe: tuple[tuple[int, Clears], ...]
    of_private: bool
    beside: tuple[int, ...]
    shapes: dict[tuple[Hashable, ...], CallShape]


class CallShapes:
    """The shapes of the calls of one program under one set of rules, shared by all its runs."""

    __slots__ = ("_by_step", "_forms", "_marks", "_named", "_rules", "_separations", "by_form")

    def __init__(self, rules: Judge) -> None:
        self._rules = rules
        self._named = rules.policy.approved | rules.policy.declassify
        """Steps that the policy treats by name, so that their judgements apply to no other step."""
        self._marks = rules.policy.planner != LITERAL
        """Whether the plan's literals are not plain, so that a list's label depends on whether it has any."""
        self.by_form: dict[int, CallShape] = {}
        """The shapes of forms that have only one, for steps that are not in a cycle of the plan."""
        self._by_step: dict[int, CallShape] = {}
        self._forms: dict[tuple[int, bool], _Form | None] = {}
        self._separations: dict[int, Separation] = {}

    def of(self, code: StepCode, implicit_flows: ImplicitFlows) -> CallShape:
        """The shape of the calls of a step."""
        shape = self._by_step.get(code.number)
        if shape is None and not code.recurs:
            shape = self.by_form.get(code.form)
        return self._new(code, implicit_flows) if shape is None else shape

    def separation(self, code: StepCode, shape: CallShape) -> Separation:
        """Whether the values of a step stand apart."""
        known = self._separations.get(code.number)
        if known is None:
            written = code.written
            known = separation([written[position][1] for position in shape.varying])
            self._separations[code.number] = known
        return known

    def _new(self, code: StepCode, implicit_flows: ImplicitFlows) -> CallShape:
        """The shape of the calls of a step that had none yet."""
        key = code.form, code.recurs and implicit_flows.repeats(code)
        form = self._forms.get(key)
        if form is None and key not in self._forms:
            form = self._forms[key] = self._new_form(code, repeats=key[1])
        shape = ALWAYS_JUDGED if form is None or code.id in self._named else _shape_in(form, code)
        if self._named or code.recurs or (form is not None and form.counting):
            self._by_step[code.number] = shape
        else:
            self.by_form[code.form] = shape
        return shape

    def _new_form(self, code: StepCode, *, repeats: bool) -> _Form | None:
        """What the rules look at in calls of a step's form; None if such calls are always judged in full."""
        if not (code.kind is _TOOL or (code.kind is _MODEL and code.loop is None)):
            return None
        prepared = self._rules.prepared(code.tool)
        seen = prepared.of_labels_again if repeats or code.retries else prepared.of_labels
        if seen is None:
            return None
        counting: list[_Counting] = []
        beside: list[int] = []
        safe: list[tuple[int, Clears]] = []
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
                    beside.append(position)
                else:
                    of_private = False  # the data itself names its recipient
            for argument, is_safe in prepared.safe:
                if argument == name.casefold():
                    if type(value) is not Literal:
                        return None
                    safe.append((position, is_safe))
            if self._marks and isinstance(value, ListExpr | DictExpr):
                counting.append(_Counting(position, repr, True))
        return _Form(tuple(counting), prepared.clears, tuple(safe), of_private, tuple(beside), {})

    def _key_of_seen(self, tool: str, name: str, value: Value) -> Callable[[Value], Hashable] | None:
        """All that rules look at in an argument; None if that is not written in the plan."""
        if type(value) is Literal:
            key = key_of_seen(self._rules, tool, name)
            return None if key is None else _of_literal(key)
        if type(value) is Template and is_address(self._rules, tool, name):
            return _head_of_template
        return None


def has_safe_texts(code: StepCode, shape: CallShape) -> bool:
    """Whether the texts of a step are safe for a call with untrusted data."""
    return all(is_safe(_text(code.written[position][1])) for position, is_safe in shape.safe)


def _shape_in(form: _Form, code: StepCode) -> CallShape:
    """The shape of a step's calls in its form, by what counts of the texts in them."""
    key: list[Hashable] = []
    for position, key_of, must in form.counting:
        counts = key_of(code.written[position][1])
        if must and counts is None:
            return ALWAYS_JUDGED
        key.append(counts)
    shapes, whole = form.shapes, tuple(key)
    shape = shapes.get(whole)
    if shape is None:
        if len(shapes) >= MOST:
            shapes.clear()
        same = [at for at in form.beside if opens_nothing(_text(code.written[at][1]))]
        varying = tuple([at for at in range(len(code.written)) if at not in same])
        shape = shapes[whole] = CallShape({}, form.clears, form.safe, form.of_private, varying)
    return shape


def _of_literal(key: Callable[[str], Hashable]) -> Callable[[Value], Hashable]:
    if key is itself:
        return _text

    def of_literal(value: Value) -> Hashable:
        assert type(value) is Literal
        text = value.value
        return key(text if type(text) is str else to_text(text))

    return of_literal


def _text(value: Value) -> str:
    """The text of a literal."""
    assert type(value) is Literal
    text = value.value
    return text if type(text) is str else to_text(text)


def _head_of_template(value: Value) -> Hashable:
    assert type(value) is Template
    first = value.parts[0]
    return head_of(first) if type(first) is str else None
