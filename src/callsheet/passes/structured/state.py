"""What the variables hold at the current place: changed by statements, and narrowed by conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from callsheet.ir.expr import Literal
from callsheet.ir.expression import (
    Bound,
    Call,
    Compared,
    Comparison,
    Expression,
    Field,
    Index,
    Logic,
    LogicOp,
    Unary,
    UnaryOp,
    Variable,
)
from callsheet.passes.structured.shapes import ANY, FAILURE, NULL, Shape, Special, join

Path: TypeAlias = "tuple[str | int, ...]"
"""A variable, as `$name`, or a bound name, and the literal keys that follow it."""
Change: TypeAlias = "Callable[[Shape], Shape]"


def _not_null(shape: Shape) -> Shape:
    rest = shape.without(Special.NULL)
    return rest if rest.kinds else ANY


def _succeeded(shape: Shape) -> Shape:
    rest = shape.without(Special.FAILURE)
    return rest if rest.kinds else ANY


def tests_of(node: Expression, truth: bool) -> Iterator[tuple[Expression, Change]]:  # noqa: PLR0912
    """What a condition tells if it is true, or false: parts of it, and how their shapes change."""
    match node:
        case Unary(op=UnaryOp.NOT, operand=operand):
            yield from tests_of(operand, not truth)
        case Logic(op=op, operands=operands):
            if truth == (op is LogicOp.AND):
                for operand in operands:
                    yield from tests_of(operand, truth)
        case Call(function=function, arguments=(argument,)) if function.upper() == "FAILED":
            yield argument, (lambda shape: FAILURE) if truth else _succeeded
        case Call(function=function, arguments=(argument,)) if function.upper() == "IS_EMPTY":
            if not truth:
                yield from _there(argument)
        case Compared(first=first, rest=((op, right),)):
            is_null = isinstance(right, Literal) and right.value is None
            if is_null and op in (Comparison.IS, Comparison.EQ, Comparison.IS_NOT, Comparison.NE):
                if truth == (op in (Comparison.IS, Comparison.EQ)):
                    yield first, lambda shape: NULL
                else:
                    yield from _there(first)
            elif truth and op is Comparison.EQ and isinstance(right, Literal):
                yield from _there(first)
            elif (
                truth and op is Comparison.IN and isinstance(first, Literal) and isinstance(first.value, str)
            ):
                yield Field(right, first.value, is_optional=True), lambda shape: shape
        case Variable() | Bound() | Field() | Index() if truth:
            yield from _there(node)
        case _:
            pass


def _there(node: Expression) -> Iterator[tuple[Expression, Change]]:
    """A path that is not null, and so is each part before a step of it."""
    yield node, _not_null
    while isinstance(node, Field | Index):
        node = node.target
        yield node, _not_null


def can_be(condition: Expression, *, truth: bool) -> bool:
    """Whether a condition can turn out so: a constant is always true, or always false."""
    return not isinstance(condition, Literal) or bool(condition.value) is truth


def path_of(node: Expression) -> Path | None:
    """The variable or bound name and the literal keys that a path consists of; None for anything else."""
    keys: list[str | int] = []
    while True:
        match node:
            case Field(target=target, name=name):
                keys.append(name)
                node = target
            case Index(target=target, index=Literal(value=str() | int() as key)):
                keys.append(key)
                node = target
            case Variable(name=name):
                return (f"${name}", *reversed(keys))
            case Bound(name=name):
                return (name, *reversed(keys))
            case _:
                return None


_NO_FACTS: Mapping[Path, Shape] = MappingProxyType({})


class Holding(NamedTuple):
    """What is known of a variable at a place: whether it is set on every path there, and what it holds.

    `facts` are what tests have shown of paths into it.
    """

    shape: Shape
    always: bool = True
    facts: Mapping[Path, Shape] = _NO_FACTS


Changes = dict[str, "Holding | None"]


class State:
    """What all variables hold at the current place, with what was changed since any earlier one."""

    def __init__(self) -> None:
        self.holdings: dict[str, Holding] = {}
        self._trail: list[tuple[str, Holding | None]] = []
        self.is_dead = False
        """Whether the current place is never reached."""

    def get(self, name: str) -> Holding | None:
        """What is known of a variable; None if it is set on no path."""
        return self.holdings.get(name)

    def set(self, name: str, holding: Holding | None) -> None:
        """Note what a variable holds from here on; None if nothing."""
        self._trail.append((name, self.holdings.get(name)))
        if holding is None:
            self.holdings.pop(name, None)
        else:
            self.holdings[name] = holding

    def mark(self) -> int:
        """The current place."""
        return len(self._trail)

    def changes(self, mark: int) -> Changes:
        """What the variables changed since a place hold now."""
        return {name: self.holdings.get(name) for name, _ in self._trail[mark:]}

    def every(self, mark: int) -> dict[str, list[Holding | None]]:
        """What the variables changed since a place have held since: first at that place, now last."""
        found: dict[str, list[Holding | None]] = {}
        for name, before in self._trail[mark:]:
            found.setdefault(name, []).append(before)
        for name, held in found.items():
            held.append(self.holdings.get(name))
        return found

    def undo(self, mark: int) -> Changes:
        """Go back to a place; gives what had changed since."""
        made = self.changes(mark)
        while len(self._trail) > mark:
            name, before = self._trail.pop()
            if before is None:
                self.holdings.pop(name, None)
            else:
                self.holdings[name] = before
        return made

    def apply(self, changes: Changes) -> None:
        """Set all of these."""
        for name, holding in changes.items():
            self.set(name, holding)

    def merge(self, outcomes: Iterable[Changes]) -> None:
        """Go on from the current place by one of these ways, each what it changes; dead without any."""
        every = list(outcomes)
        if not every:
            self.is_dead = True
            return
        self.is_dead = False
        if len(every) == 1:
            self.apply(every[0])
            return
        for name in dict.fromkeys(name for one in every for name in one):
            now = self.holdings.get(name)
            self.set(name, joined([one.get(name, now) if name in one else now for one in every]))


def joined(holdings: list[Holding | None]) -> Holding | None:
    """What a variable holds that has held one of these."""
    there = [one for one in holdings if one is not None]
    if not there:
        return None
    always = len(there) == len(holdings) and all(one.always for one in there)
    first = there[0]
    if all(one is first for one in there):
        return first if first.always == always else first._replace(always=always)
    facts = {
        path: join(shape, *(one.facts[path] for one in there[1:]))
        for path, shape in first.facts.items()
        if all(path in one.facts for one in there[1:])
    }
    return Holding(join(*(one.shape for one in there)), always, facts)


@dataclass(slots=True)
class Loop:
    """A loop that is being gone through: the changes at its BREAKs and CONTINUEs since its beginning."""

    mark: int
    breaks: list[Changes] = field(default_factory=list[Changes])
    ends: list[Changes] = field(default_factory=list[Changes])


YIELDED = "\0yield"
"""The variable that stands for what YIELD has given in the current item."""
