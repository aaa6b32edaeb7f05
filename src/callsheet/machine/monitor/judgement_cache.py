"""A cache of judgements: admits a call by its shape and labels if an equivalent call was judged before.

In: a call that was judged in full. Out: the same judgement for calls of the same shape: same tool, same
argument names and labels, and the same label of what decided that the call is made. A judgement is reused
only if the rules do not depend on the values: no rule reads them, or the plan itself writes them, or checks
on the texts (`clears`) pass; and if all data is public, or the texts stand apart so that joining them forms
nothing new. Every other call is judged in full, with its values.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from callsheet.ir import Call, Literal, Ref, Template, Value
from callsheet.ir.expr import refs_of
from callsheet.ir.labels import LITERAL, Label
from callsheet.machine.monitor.admitted import NOTHING_SHOWN, Admitted
from callsheet.machine.monitor.implicit_flows import ImplicitFlows
from callsheet.machine.monitor.origins import Extended
from callsheet.machine.monitor.reads import Written
from callsheet.machine.monitor.reads_cache import named_of
from callsheet.machine.monitor.variable_labels import VariableLabels
from callsheet.machine.program import Kind, Program, StepCode
from callsheet.machine.values import to_text
from callsheet.policy.calls import bare
from callsheet.policy.judge import Judge
from callsheet.policy.prepared import Clears
from callsheet.policy.rules.base import BETWEEN
from callsheet.policy.separation import opens_nothing, stand_apart
from callsheet.policy.urls import head_of

_Shape: TypeAlias = "tuple[Hashable, ...]"


class CachedJudgement(NamedTuple):
    """A cached judgement: the label of the call's result, and of all data it sends.

    With `is_separate` it applies only to calls whose values stand apart.
    """

    result: Label
    sent: Label
    is_separate: bool


Known: TypeAlias = "dict[tuple[Label, ...], CachedJudgement]"
"""Cached judgements: by the label of what decided that the call is made, and those of the slots it reads."""
Args: TypeAlias = "Mapping[str, Any]"
Inputs: TypeAlias = "Sequence[Any]"

_MOST = 4_096
"""The most shapes, and the most entries for each, that are cached; a run has a handful."""
_TOOL, _MODEL = Kind.TOOL, Kind.MODEL
_WRITTEN = -1
"""In a shape: this argument contains text of the plan itself."""


class StepShape(NamedTuple):
    """What to check for a step: the slots that its call reads, and the cached judgements of its shape.

    `clears` are checks that the texts of its call must pass. `of_private` says that judgements of calls with
    private data may be cached.
    """

    slots: tuple[int, ...]
    known: Known
    clears: tuple[Clears, ...]
    of_private: bool


class Separation(Enum):
    """Whether the values of a step stand apart, as `stand_apart` defines it."""

    NO = 0
    ALONE = 1
    """There is at most one piece of data in them."""
    YES = 2


class _SharedCache:
    """The cache for one program under one set of rules, shared by all its runs."""

    __slots__ = ("by_step", "separations", "shapes")

    def __init__(self) -> None:
        self.by_step: dict[int, StepShape | None] = {}
        self.separations: dict[int, Separation] = {}
        self.shapes: dict[_Shape, Known] = {}


class JudgementCache:
    """The judgement cache for one run of a program under one set of rules; without rules, always empty."""

    __slots__ = (
        "_cache",
        "_extended",
        "_implicit_flows",
        "_marks",
        "_named",
        "_program",
        "_rules",
        "_slot_of",
        "_variables",
    )

    def __init__(
        self,
        rules: Judge | None,
        implicit_flows: ImplicitFlows,
        variables: VariableLabels,
        extended: Extended,
        program: Program,
    ) -> None:
        self._rules = rules
        # the policy treats these steps by name, so their judgements apply to no other step
        self._named = frozenset[str]() if rules is None else rules.policy.approved | rules.policy.declassify
        # if the plan's literals are not plain, the label of an argument depends on whether it has any
        self._marks = rules is not None and rules.policy.planner != LITERAL
        self._implicit_flows = implicit_flows
        self._variables = variables
        self._extended = extended
        self._program = program
        self._slot_of = program.slot_of.__getitem__
        # a judgement of a shape depends only on the rules, so every run of the program can use it
        self._cache = _SharedCache() if rules is None else program.cached((_SharedCache, rules), _SharedCache)

    def admitted(self, code: StepCode, args: Args, inputs: Inputs = ()) -> Admitted | None:
        """The cached judgement for the call a step is about to make; None if it must be judged in full."""
        shape = self._shape_of(code)
        if shape is None:
            return None
        slots, known, clears, _ = shape
        if not known:
            return None
        implicit_flows, variables = self._implicit_flows, self._variables
        pc = implicit_flows.about(code.number) if implicit_flows.noted else implicit_flows.base
        if len(slots) == 1:
            (slot,) = slots
            cached = known.get((pc, variables.labels[slot]))
            origins = variables.origins[slot]
        else:
            labels = variables.labels
            cached = known.get((pc, *[labels[slot] for slot in slots]))
            origins = variables.origins_at(slots)
        if cached is None or (
            (clears or cached.is_separate) and not self._passes(code, shape, cached.is_separate, args, inputs)
        ):
            return None
        for value in args.values():
            if type(value) is dict or type(value) is list:
                return None  # keys are data and may name recipients
        return bare(
            Admitted, (cached.result, cached.sent, self._extended.extend(origins, code.id), (), NOTHING_SHOWN)
        )

    def note(self, code: StepCode, admitted: Admitted, args: Args, inputs: Inputs) -> None:
        """Cache the judgement of a call that was judged in full, if it does not depend on its values."""
        result, sent = admitted.result, admitted.sent
        if admitted.reasons or result.is_secret:
            return
        shape = self._shape_of(code)
        if shape is None or self._rules is None:
            return
        labels = [self._variables.labels[slot] for slot in shape.slots]
        if any(label.may_link for label in labels) and self._rules.is_message(code.tool):
            return  # the links in the message must be disabled, which needs the values
        is_separate = not sent.is_public or not (result.is_public or self._rules.prepared(code.tool).adds)
        if is_separate and (
            LITERAL in labels or not shape.of_private or not self._passes(code, shape, True, args, inputs)
        ):
            return
        if len(shape.known) >= _MOST:
            shape.known.clear()
        shape.known[self._implicit_flows.about(code.number), *labels] = CachedJudgement(
            result, sent, is_separate
        )

    def _passes(
        self, code: StepCode, shape: StepShape, is_separate: bool, args: Args, inputs: Inputs
    ) -> bool:
        """Whether the texts of a call pass the checks, and stand apart if `is_separate`."""
        texts = [*inputs, *args.values()] if inputs else list(args.values())
        for number, text in enumerate(texts):
            if type(text) is int:
                texts[number] = str(text)
            elif type(text) is not str:
                return False
        text = texts[0] if len(texts) == 1 else BETWEEN.join(texts)
        for clear in shape.clears:
            if not clear(text):
                return False
        if not is_separate:
            return True
        how = self._cache.separations.get(code.number) or self._separation(code)
        return how is Separation.ALONE or (how is Separation.YES and opens_nothing(text))

    def _separation(self, code: StepCode) -> Separation:
        assert self._rules is not None
        prose = self._rules.prepared(code.tool).prose
        values = [value for name, value in self._written(code) if not _is_whole(prose, name, value)]
        how = Separation.NO
        if stand_apart(values):
            how = Separation.YES if sum(_holes(value) for value in values) > 1 else Separation.ALONE
        self._cache.separations[code.number] = how
        return how

    def _shape_of(self, code: StepCode) -> StepShape | None:
        """What to check for a step; None if its calls are always judged in full."""
        rules = self._rules
        if rules is None or not (code.kind is _TOOL or (code.kind is _MODEL and code.loop is None)):
            return None
        number, by_step = code.number, self._cache.by_step
        if number in by_step:
            return by_step[number]
        by_step[number] = shape = self._new_shape(code, rules)
        return shape

    def _written(self, code: StepCode) -> Written:
        """The arguments of a call by name, as written in the plan; positional ones of a model by number."""
        if code.kind is _TOOL:
            return code.written
        call = self._program.plan.steps[code.number].action
        assert isinstance(call, Call)
        return named_of(code, call)

    def _new_shape(self, code: StepCode, rules: Judge) -> StepShape | None:
        tool, prepared = code.tool, rules.prepared(code.tool)
        repeats = code.recurs and self._implicit_flows.repeats(code)
        seen = prepared.of_labels_again if repeats or code.retries else prepared.of_labels
        if seen is None or code.id in self._named:
            return None
        places: dict[int, int] = {}
        slot_of = self._slot_of
        prose, of_private = prepared.prose, prepared.of_private
        shape: list[Hashable] = [tool, code.retries, repeats]
        for name, value in code.written if code.kind is _TOOL else self._written(code):
            shape.append(name)
            if seen and name.casefold() in seen:
                counts = _what_counts(rules, tool, name.casefold(), value)
                if counts is None:
                    return None
                shape.append(counts)
            if prose is not None and name not in prose:
                if type(value) is Literal:
                    shape.append((name, rules.beside(tool, name, to_text(value.value))))
                else:
                    of_private = False  # the data itself names its recipient
            if type(value) is Ref:  # nearly all values are references, templates or literals
                shape.append(places.setdefault(slot_of(value.name), len(places)))
            elif type(value) is Template:
                for part in value.parts:
                    if type(part) is Ref:
                        shape.append(places.setdefault(slot_of(part.name), len(places)))
                if self._marks and not all(type(part) is Ref for part in value.parts):
                    shape.append(_WRITTEN)
            elif type(value) is not Literal:
                if self._marks:
                    shape.append(repr(value))
                shape += [places.setdefault(slot_of(ref.name), len(places)) for ref in refs_of(value)]
        known = self._cache.shapes.get(tuple(shape)) or self._new(tuple(shape))
        return bare(StepShape, (tuple(places), known, prepared.clears, of_private))

    def _new(self, shape: _Shape) -> Known:
        """An empty entry for a shape that has none yet."""
        shapes = self._cache.shapes
        if shape not in shapes and len(shapes) >= _MOST:
            shapes.clear()
        return shapes.setdefault(shape, {})


def _what_counts(rules: Judge, tool: str, name: str, value: Value) -> Hashable:
    """All that rules look at in an argument; None if that is not written in the plan."""
    if type(value) is Literal:
        return rules.what_counts(tool, name, to_text(value.value))
    traits = rules.traits(tool)
    is_address = traits is not None and name == traits.address
    if is_address and type(value) is Template and type(value.parts[0]) is str:
        return head_of(value.parts[0])
    return None


def _is_whole(prose: frozenset[str] | None, name: str, value: Value) -> bool:
    """Whether an argument is the same in all calls of a shape, and separate from those beside it."""
    return (
        prose is not None
        and name not in prose
        and type(value) is Literal
        and opens_nothing(to_text(value.value))
    )


def _holes(value: Value) -> int:
    """How many references to data a value has."""
    if type(value) is Template:
        return sum(type(part) is Ref for part in value.parts)
    return int(type(value) is Ref)
