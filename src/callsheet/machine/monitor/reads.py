"""Compiles what a step reads into functions that give labelled arguments, as the policy judges them.

In: a step and the slots of variables. Out: functions from values and labels to the `Argument`s of its call
or message, and the slots read by its guard and loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from callsheet.ir import (
    JSON,
    Compare,
    Condition,
    DictExpr,
    ListExpr,
    Literal,
    Ref,
    Step,
    Template,
    Value,
)
from callsheet.ir.expr import names_in, tests_of
from callsheet.ir.labels import LITERAL, Label
from callsheet.machine.closures import SlotOf
from callsheet.machine.program import Program, StepCode, Written
from callsheet.machine.values import to_json_text, to_text, walk
from callsheet.policy.calls import Argument, Hole, bare
from callsheet.policy.field_labels import FieldLabels

Values: TypeAlias = "list[Any]"
Labels: TypeAlias = "list[Label]"
Make: TypeAlias = "Callable[[Values, Labels], Argument]"

MOST_MEMBERS = 64
"""A list or dict with more members is judged as one text."""
DEEPEST = 4


class Reads(NamedTuple):
    """What one step reads, by slot.

    `arguments` make the arguments of its call or answer, `slots` are all that those read. `message` makes the
    values of an ON_FAIL TERMINATE.
    """

    arguments: tuple[Make, ...]
    slots: tuple[int, ...]
    message: tuple[Make, ...]


class Guards(NamedTuple):
    """The slots that decide whether a step is executed, and how often.

    `tests` are those that its guard compares, `emptiness` those that it only tests for being empty; `source`
    are those that its loop iterates over.
    """

    tests: tuple[int, ...]
    emptiness: tuple[int, ...]
    source: tuple[int, ...]


def reads_of(step: Step, written: Written, slot_of: SlotOf, literal: Label, *, exact: bool) -> Reads:
    """What a step reads.

    `written` are its arguments by name, `literal` is the label of the plan's literals; `exact` says that
    values are written into texts by the rules for graphs.
    """

    making = _ArgumentCompiler(slot_of, literal, exact)
    arguments = tuple([making.argument(name, value) for name, value in written])
    used = tuple(dict.fromkeys(making.used))
    return Reads(
        arguments,
        used,
        tuple([making.argument(str(number), value) for number, value in enumerate(step.failure_values())]),
    )


def guards_of(step: Step, slot_of: SlotOf) -> Guards:
    """What decides whether a step is executed."""
    condition = step.condition
    if step.foreach is None and type(condition) is Compare:  # as nearly all are
        left, right = condition.left, condition.right
        if type(left) is Ref and type(right) is Literal:
            return bare(Guards, ((slot_of(left.name),), (), ()))
    tests, empties = ([], []) if condition is None else tests_of(condition)
    source = () if step.foreach is None else slots_in((step.foreach.source,), slot_of)
    return Guards(slots_in(tests, slot_of), slots_in(empties, slot_of), source)


def source_of(step: Step, slot_of: SlotOf, literal: Label, *, exact: bool) -> Make | None:
    """A function that makes an argument of a loop's source; None if the source is a variable."""
    if step.foreach is None or isinstance(step.foreach.source, Ref):
        return None
    return _ArgumentCompiler(slot_of, literal, exact).argument("", step.foreach.source)


def slots_in(nodes: Sequence[Value | Condition], slot_of: SlotOf) -> tuple[int, ...]:
    """The slots of the variables that values and conditions read, each once."""
    if not nodes:
        return ()
    return tuple(dict.fromkeys([slot_of(name) for name in names_in(nodes)]))


def written_of(step: Step, code: StepCode) -> Written:
    """The arguments of a step by name; those of an answer by number."""
    if step.call is not None:
        return code.written
    return tuple((str(number), value) for number, value in enumerate(step.values()))


class _ArgumentCompiler:
    """Compiles values into functions that make arguments, and collects the slots that those read."""

    def __init__(self, slot_of: SlotOf, literal: Label, exact: bool) -> None:
        self.used: list[int] = []
        self.literal = literal
        self._slot_of = slot_of
        self._exact = exact

    def _slot(self, name: str) -> int:
        slot = self._slot_of(name)
        self.used.append(slot)
        return slot

    def argument(self, name: str, value: Value) -> Make:
        match value:
            case Literal(value=scalar):
                constant = Argument(name, (self._text(scalar),), self.literal)
                return lambda values, labels: constant
            case Ref():
                return self._ref(name, value)
            case Template():
                return self._template(name, value)
            case ListExpr(items=items):
                return self._members(name, [self.argument(name, item) for item in items])
            case DictExpr(items=pairs):
                members: list[Make] = []
                for key, item in pairs:
                    members += self.argument(name, Literal(key)), self.argument(key, item)
                return self._members(name, members)

    def _text(self, value: JSON) -> str:
        return to_json_text(value) if self._exact else to_text(value)

    def _ref(self, name: str, ref: Ref) -> Make:
        slot, path, variable = self._slot(ref.name), ref.path, ref.dotted

        def make(values: Values, labels: Labels) -> Argument:
            value = values[slot]
            if path:
                value = walk(value, path)
            if type(value) is str:
                label = labels[slot]
                return bare(Argument, (name, (bare(Hole, (variable, label, value)),), label, ()))
            return argument_of(name, value, labels[slot], variable)

        return make

    def _template(self, name: str, template: Template) -> Make:
        makers = [
            part if isinstance(part, str) else (self._slot(part.name), part.path, part.dotted)
            for part in template.parts
        ]
        text = self._text
        literal = self.literal if any(isinstance(part, str) for part in template.parts) else LITERAL

        def make(values: Values, labels: Labels) -> Argument:
            joined = literal
            parts: list[str | Hole] = []
            for part in makers:
                if isinstance(part, str):
                    parts.append(part)
                    continue
                slot, path, variable = part
                label, value = labels[slot], values[slot]
                if path:
                    value = walk(value, path)
                if label is not joined:
                    joined = joined.join(label)
                parts.append(bare(Hole, (variable, label, value if type(value) is str else text(value))))
            return bare(Argument, (name, tuple(parts), joined, ()))

        return make

    def _members(self, name: str, members: list[Make]) -> Make:
        empty = Argument(name, ("",), self.literal)

        def make(values: Values, labels: Labels) -> Argument:
            items = tuple([member(values, labels) for member in members])
            joined = LITERAL
            for item in items:
                joined = joined.join(item.label)
            return Argument(name, (), joined, items) if items else empty

        return make


def argument_of(
    name: str,
    value: JSON,
    label: Label,
    variable: str = "",
    depth: int = 0,
    fields: FieldLabels | None = None,
) -> Argument:
    """An argument for a value of this label: by members, or as one text if those are many or deep.

    `fields` are the labels of its members.
    """
    if isinstance(value, list | dict) and 0 < len(value) <= MOST_MEMBERS and depth < DEEPEST:
        items: list[Argument] = []
        if isinstance(value, dict):
            for key, item in cast("dict[str, JSON]", value).items():
                items.append(Argument(name, (Hole(variable, label, key),), label))
                own, inner = (label, None) if fields is None else fields.at(key)
                items.append(argument_of(key, item, own, variable, depth + 1, inner))
        else:
            own, inner = (label, None) if fields is None else fields.item
            items += [argument_of(name, item, own, variable, depth + 1, inner) for item in value]
        return Argument(name, (), label, tuple(items))
    return Argument(name, (Hole(variable, label, to_text(value)),), label)


class ReadsCache:
    """What the steps of a program read; `literal` is the label of the plan's literals."""

    __slots__ = ("_exact", "_guards", "_literal", "_plan", "_reads", "_slot_of", "_sources")

    def __init__(self, program: Program, literal: Label) -> None:
        self._plan = program.plan
        self._exact = program.graph is not None
        self._slot_of = program.slot_of.__getitem__
        self._literal = literal
        self._reads: list[Reads | None] = [None] * len(program.steps)
        self._guards: dict[int, Guards] = {}
        self._sources: dict[int, Make | None] = {}

    @classmethod
    def of(cls, program: Program, literal: Label) -> ReadsCache:
        """The Reading of a program, shared by all runs with the same label for literals."""
        return program.cached((cls, literal), lambda: cls(program, literal))

    def reads(self, code: StepCode) -> Reads:
        """What the action of a step reads."""
        reads = self._reads[code.number]
        if reads is None:
            step = self._plan.steps[code.number]
            written = written_of(step, code)
            reads = reads_of(step, written, self._slot_of, self._literal, exact=self._exact)
            self._reads[code.number] = reads
        return reads

    def slots(self, code: StepCode) -> tuple[int, ...]:
        """The slots that the action of a step reads, found without compiling them if they are not cached."""
        if code.tool:
            return code.read_slots
        reads = self._reads[code.number]
        if reads is not None:
            return reads.slots
        written = written_of(self._plan.steps[code.number], code)
        return slots_in([value for _, value in written], self._slot_of)

    def guards(self, code: StepCode) -> Guards:
        """What decides whether a step is executed, and how often."""
        guards = self._guards.get(code.number)
        if guards is None:
            guards = self._guards[code.number] = guards_of(self._plan.steps[code.number], self._slot_of)
        return guards

    def source(self, code: StepCode) -> Make | None:
        """A function that makes an argument of a loop's source; None if the source is a variable."""
        if code.number not in self._sources:
            step = self._plan.steps[code.number]
            self._sources[code.number] = source_of(step, self._slot_of, self._literal, exact=self._exact)
        return self._sources[code.number]
