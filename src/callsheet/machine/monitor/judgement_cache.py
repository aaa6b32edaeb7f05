"""A cache of judgements: admits a call by its shape and labels if an equivalent call was judged before.

In: a call that was judged in full. Out: the same judgement for calls of the same shape: same tool, same
argument names and labels, and the same label of what decided that the call is made. A judgement is reused
only if the rules do not depend on the values: no rule reads them, or the plan itself writes them, or checks
on the texts (`clears`) pass; and if all data is public, or the texts stand apart so that joining them forms
nothing new. Every other call is judged in full, with its values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from callsheet.ir import DictExpr, ListExpr, Literal, Template, Value
from callsheet.ir.control import Control, control_of, decides
from callsheet.ir.flow import flow_of
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.machine.monitor.variable_labels import NOTHING_SHOWN, Admitted, Extended, VariableLabels
from callsheet.machine.program import NOWHERE, Graph, Kind, Program, StepCode
from callsheet.machine.values import to_text
from callsheet.policy.calls import bare
from callsheet.policy.composing import ALONE, YES, Separation, opens_nothing, separation
from callsheet.policy.judge import Judge, is_address, itself, key_of_beside, key_of_seen
from callsheet.policy.prepared import Clears
from callsheet.policy.rules.base import BETWEEN
from callsheet.policy.urls import head_of


class _Controls:
    """The control dependencies of a program, computed on demand for all its runs."""

    def __init__(self, program: Program) -> None:
        self._program = program.plan, program.graph
        self.reach: dict[int, tuple[int, ...]] = {}
        """By step: the slots of the variables that are set or not depending on its decision."""

    @cached_property
    def control(self) -> Control:
        """The plan's control flow."""
        return control_of(flow_of(self._program[0]))

    @cached_property
    def guards(self) -> Sequence[Sequence[int]]:
        """By step: the steps that decide whether it is executed."""
        graph = self._program[1]
        return self.control.guards() if graph is None else _waits(graph)


class ImplicitFlows:
    """The decisions made so far in one program.

    `base` is the label of what decided that the program runs at all, `noted` has the labels of its steps'
    decisions by number. With `counts_bits` (the strict policy) single bits, as emptiness, always count.
    """

    __slots__ = ("_controls", "_ended", "_program", "base", "counts_bits", "noted")

    def __init__(self, program: Program, base: Label, *, counts_bits: bool) -> None:
        self.base = base
        self.noted: dict[int, Label] = {}
        self.counts_bits = counts_bits
        self._ended = LITERAL
        self._program = program
        self._controls = program.cached(_Controls, lambda: _Controls(program))

    def resume(self, noted: dict[int, Label]) -> None:
        """Restore the decisions made before."""
        self.noted = noted
        codes = self._program.steps
        self._ended = join(label for number, label in noted.items() if self._may_end(codes[number]))

    def _may_end(self, code: StepCode) -> bool:
        """Whether a failure of the step ends a graph, so that later steps reveal that it did not fail."""
        return code.leads_on and code.fail_target is None and self._program.graph is not None

    def about(self, number: int, besides: int = NOWHERE) -> Label:
        """The label of what decided that a step is executed, without the guard `besides`."""
        label = self.base
        if self.noted:
            label = label.join(self._ended)
            for guard in self._controls.guards[number]:
                noted = self.noted.get(guard)
                if noted is not None and guard != besides:
                    label = label.join(noted)
        return label

    def untrusted_deciders(self, number: int) -> tuple[str, ...]:
        """The steps by whose untrusted data it was decided that a step is executed, in the plan's order."""
        codes, noted = self._program.steps, self.noted
        deciders = {*self._controls.guards[number], *(n for n in noted if self._may_end(codes[n]))}
        return tuple(codes[n].id for n in sorted(deciders) if n in noted and noted[n].untrusted)

    def note(self, code: StepCode, label: Label) -> tuple[tuple[int, ...], Label]:
        """A step has made a decision by data of this label; gives the slots that reveal it, and its label."""
        number = code.number
        label = label.join(self.about(number, besides=number))
        if label == LITERAL:
            return (), label
        known = self.noted.get(number)
        self.noted[number] = label if known is None else known.join(label)
        if self._may_end(code):
            self._ended = self._ended.join(label)
        return self._slots_behind(code), label

    def counts_all(self, code: StepCode) -> bool:
        """Whether single bits that a step reveals count: by the policy, or because it may repeat."""
        return self.counts_bits or self.repeats(code)

    def repeats(self, code: StepCode) -> bool:
        """Whether the step is in a cycle of the plan."""
        return (
            code.recurs and self._program.graph is None and bool(self._controls.control.in_cycle[code.number])
        )

    def _slots_behind(self, code: StepCode) -> tuple[int, ...]:
        """The slots of the variables that are set or not depending on what a step decides."""
        slots = self._controls.reach.get(code.number)
        if slots is None:
            step = self._program.plan.steps[code.number]
            if self._program.graph is not None or (step.is_guarded and not decides(step)):
                slots = () if code.out_slot == NOWHERE else (code.out_slot,)  # nothing else depends on it
            else:
                slot_of = self._program.slot_of
                slots = tuple(slot_of[name] for name in self._controls.control.variables(code.number))
            self._controls.reach[code.number] = slots
        return slots


def _waits(graph: Graph) -> list[list[int]]:
    """For each step of a graph, itself and those it waits for: their failure would keep it from starting."""
    waits: list[list[int]] = [[number] for number in range(len(graph.dependents))]
    for number, dependents in enumerate(graph.dependents):
        for dependent in dependents:
            waits[dependent].append(number)
    return waits


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


Args: TypeAlias = "Mapping[str, Any]"
Inputs: TypeAlias = "Sequence[Any]"


class JudgementCache:
    """The judgement cache for one run of a program under one set of rules; without rules, always empty."""

    __slots__ = ("_by_form", "_extended", "_implicit_flows", "_rules", "_shapes", "_variables")

    def __init__(
        self,
        rules: Judge | None,
        implicit_flows: ImplicitFlows,
        variables: VariableLabels,
        extended: Extended,
        program: Program,
    ) -> None:
        self._rules = rules
        self._implicit_flows = implicit_flows
        self._variables = variables
        self._extended = extended
        # a judgement of a shape depends only on the rules, so every run of the program can use it
        shapes = None if rules is None else program.cached((CallShapes, rules), lambda: CallShapes(rules))
        self._shapes = shapes
        self._by_form: dict[int, CallShape] = {} if shapes is None else shapes.by_form

    def admitted(self, code: StepCode, args: Args, inputs: Inputs = ()) -> Admitted | None:
        """The cached judgement for the call a step is about to make; None if it must be judged in full."""
        shape = self._by_form.get(code.form)
        if shape is None or code.recurs:
            if self._shapes is None:
                return None
            shape = self._shapes.of(code, self._implicit_flows)
        known = shape.known
        if not known:
            return None
        implicit_flows, variables, slots = self._implicit_flows, self._variables, code.read_slots
        pc = implicit_flows.about(code.number) if implicit_flows.noted else implicit_flows.base
        if len(slots) == 1:
            (slot,) = slots
            cached = known.get((pc, variables.labels[slot]))
            origins = variables.origins[slot]
        else:
            labels = variables.labels
            cached = known.get((pc, *[labels[slot] for slot in slots]))
            origins = variables.origins_at(slots)
        if cached is None:
            return None
        result, sent, is_separate, is_safe = cached
        if is_safe and not has_safe_texts(code, shape):
            return None
        if shape.clears or is_separate:
            if not self._passes(code, shape, is_separate, args, inputs):
                return None
        elif not _are_scalars(args):
            return None
        return bare(Admitted, (result, sent, self._extended.extend(origins, code.id), (), NOTHING_SHOWN))

    def note(self, code: StepCode, admitted: Admitted, args: Args, inputs: Inputs) -> None:
        """Cache the judgement of a call that was judged in full, if it does not depend on its values."""
        result, sent = admitted.result, admitted.sent
        if admitted.reasons or result.is_secret or self._shapes is None or self._rules is None:
            return
        shape = self._shapes.of(code, self._implicit_flows)
        if shape is ALWAYS_JUDGED:
            return
        labels = [self._variables.labels[slot] for slot in code.read_slots]
        if any(label.may_link for label in labels) and self._rules.is_message(code.tool):
            return  # the links in the message must be disabled, which needs the values
        is_separate = not sent.is_public or not (result.is_public or self._rules.prepared(code.tool).adds)
        if is_separate:
            if LITERAL in labels or not shape.of_private:
                return
            if not self._passes(code, shape, True, args, inputs):
                return
        if len(shape.known) >= MOST:
            shape.known.clear()
        shape.known[self._implicit_flows.about(code.number), *labels] = CachedJudgement(
            result, sent, is_separate, bool(shape.safe) and sent.untrusted
        )

    def _passes(
        self, code: StepCode, shape: CallShape, is_separate: bool, args: Args, inputs: Inputs
    ) -> bool:
        """Whether the texts of a call pass the checks, and stand apart if `is_separate`."""
        texts: list[str] = []
        for value in (*inputs, *args.values()) if inputs else args.values():
            if type(value) is str:
                texts.append(value)
            elif type(value) is int:
                texts.append(str(value))
            else:
                return False
        text = texts[0] if len(texts) == 1 else BETWEEN.join(texts)
        for clear in shape.clears:
            if not clear(text):
                return False
        if not is_separate:
            return True
        assert self._shapes is not None
        how = self._shapes.separation(code, shape)
        return how is ALONE or (how is YES and opens_nothing(text))


def _are_scalars(args: Args) -> bool:
    """Whether no argument is a dict or a list: the keys of a dict are data, and may name recipients."""
    for value in args.values():  # noqa: SIM110 - for each call: faster than `any`
        if type(value) is dict or type(value) is list:
            return False
    return True
