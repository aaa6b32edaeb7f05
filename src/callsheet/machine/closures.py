"""Compiles values and conditions of a plan into functions of the variable slots.

Names are resolved and paths parsed only once, here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, assert_never

from callsheet.ir import (
    JSON,
    And,
    Compare,
    CompareOp,
    Condition,
    DictExpr,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    Or,
    Ref,
    Template,
    Value,
)
from callsheet.machine.values import compare, contains, equals, is_empty, to_json_text, to_text, walk

Slots: TypeAlias = "list[Any]"
"""The variables' values by slot; None where nothing was set."""
Eval: TypeAlias = "Callable[[Slots], JSON]"
Test: TypeAlias = "Callable[[Slots], bool]"
SlotOf: TypeAlias = "Callable[[str], int]"


class Unresolved(Exception):
    """A path that leads nowhere, in a plan that does not take that for null; the text names it."""


def compile_value(value: Value, slot_of: SlotOf, *, exact: bool = False) -> Eval:
    """A function that gives the value; containers are new ones each time.

    `exact` is the rule of plans of dependencies: a path that leads nowhere raises Unresolved
    instead of giving null, and inside a text a value is written as JSON.
    """
    match value:
        case Literal(value=scalar):
            return lambda slots: scalar
        case Ref():
            return _compile_ref(value, slot_of, exact)
        case Template(parts=parts):
            return _compile_template(parts, slot_of, exact)
        case ListExpr(items=items):
            inner = [compile_value(item, slot_of, exact=exact) for item in items]
            return lambda slots: [make(slots) for make in inner]
        case DictExpr(items=pairs):
            members = [(key, compile_value(item, slot_of, exact=exact)) for key, item in pairs]
            return lambda slots: {key: make(slots) for key, make in members}
    assert_never(value)


def _compile_ref(ref: Ref, slot_of: SlotOf, exact: bool) -> Eval:
    slot, path = slot_of(ref.name), ref.path
    if not path:
        return lambda slots: slots[slot]
    if not exact:
        return lambda slots: walk(slots[slot], path)
    name = ref.dotted

    def follow(slots: Slots) -> JSON:
        value = walk(slots[slot], path, _NOTHING)
        if value is _NOTHING:
            raise Unresolved(name)
        return value

    return follow


_NOTHING: Any = object()


def _compile_template(parts: tuple[str | Ref, ...], slot_of: SlotOf, exact: bool) -> Eval:
    show = to_json_text if exact else to_text
    pieces: list[str | int] = []
    for part in parts:
        if isinstance(part, str):
            pieces.append(part)
        elif part.path:
            return _compile_template_of_paths(parts, slot_of, exact)
        else:
            pieces.append(slot_of(part.name))
    return lambda slots: "".join(
        [piece if isinstance(piece, str) else show(slots[piece]) for piece in pieces]
    )


def _compile_template_of_paths(parts: tuple[str | Ref, ...], slot_of: SlotOf, exact: bool) -> Eval:
    show = to_json_text if exact else to_text
    compiled = [part if isinstance(part, str) else _compile_ref(part, slot_of, exact) for part in parts]

    def fill(slots: Slots) -> str:
        return "".join([part if isinstance(part, str) else show(part(slots)) for part in compiled])

    return fill


def compile_condition(condition: Condition, slot_of: SlotOf) -> Test:
    """A function that says whether the condition holds."""
    match condition:
        case Compare(op=op, left=left, right=right):
            return _compile_compare(op, compile_value(left, slot_of), compile_value(right, slot_of))
        case IsEmpty(value=value):
            make = compile_value(value, slot_of)
            return lambda slots: is_empty(make(slots))
        case NotEmpty(value=value):
            make = compile_value(value, slot_of)
            return lambda slots: not is_empty(make(slots))
        case Not(condition=inner):
            test = compile_condition(inner, slot_of)
            return lambda slots: not test(slots)
        case And(conditions=inner):
            tests = [compile_condition(c, slot_of) for c in inner]
            return lambda slots: all(test(slots) for test in tests)
        case Or(conditions=inner):
            tests = [compile_condition(c, slot_of) for c in inner]
            return lambda slots: any(test(slots) for test in tests)
    assert_never(condition)


def _compile_compare(op: CompareOp, left: Eval, right: Eval) -> Test:
    match op:
        case CompareOp.EQ:
            return lambda slots: equals(left(slots), right(slots))
        case CompareOp.NE:
            return lambda slots: not equals(left(slots), right(slots))
        case CompareOp.CONTAINS:
            return lambda slots: contains(left(slots), right(slots))
        case _:
            return lambda slots: compare(op, left(slots), right(slots))


def compile_arguments(
    arguments: tuple[tuple[str, Value], ...], slot_of: SlotOf, *, exact: bool = False
) -> Callable[[Slots], dict[str, Any]]:
    """A function that gives the named arguments as a new dict, in their written order."""
    constants: dict[str, Any] = {}
    direct: list[tuple[str, int]] = []
    compiled: list[tuple[str, Eval]] = []
    for name, value in arguments:
        if type(value) is Literal:
            constants[name] = value.value
            continue
        constants[name] = None
        if type(value) is Ref and not value.path:
            direct.append((name, slot_of(value.name)))
        else:
            compiled.append((name, compile_value(value, slot_of, exact=exact)))

    if not compiled:
        return _plain_arguments(constants, direct)

    def build(slots: Slots) -> dict[str, Any]:
        args = constants.copy()
        for name, slot in direct:
            args[name] = slots[slot]
        for name, make in compiled:
            args[name] = make(slots)
        return args

    return build


def _plain_arguments(
    constants: dict[str, Any], direct: list[tuple[str, int]]
) -> Callable[[Slots], dict[str, Any]]:
    """As `compile_arguments`, for arguments that are literals or variables, as most are."""
    if not direct:
        return lambda slots: constants.copy()
    if len(constants) == 1:
        ((name, slot),) = direct
        return lambda slots: {name: slots[slot]}

    def build(slots: Slots) -> dict[str, Any]:
        args = constants.copy()
        for name, slot in direct:
            args[name] = slots[slot]
        return args

    return build
