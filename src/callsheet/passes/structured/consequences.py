"""What a plan changes and when: each call that may change something, and under which conditions.

In: the tree of a plan, the tools. Out: consequences, and sentences that say them. No word of a goal is
looked at: what is told follows from the plan alone, so that a person can compare it with the goal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, TypeAlias

from callsheet.frontends.expressions.printer import format_expression
from callsheet.ir import CallKind, Effect
from callsheet.ir.expression import Expression, Unary, UnaryOp
from callsheet.ir.tree import (
    Act,
    Block,
    Foreach,
    If,
    Invoke,
    Leave,
    Parallel,
    Repeat,
    Require,
    Say,
    Statement,
    Tree,
    Try,
    Word,
    recovery_of,
)
from callsheet.passes.finding import ToolSignature

Spell: TypeAlias = "Callable[[Expression], str]"
"""Writes an expression as the reader of the plan knows it."""
_READS = (Effect.PURE, Effect.READ)
ENDS = frozenset(
    (Word.RESPOND, Word.TERMINATE, Word.RETURN, Word.FAIL, Word.BREAK, Word.CONTINUE, Word.REPLAN)
)
_LONGEST = 160
_MOST_FOLLOWED = 200
"""The most calls of sub-plans that are followed: each may call another one in two branches, and so on."""


@dataclass(frozen=True, slots=True)
class Circumstance:
    """What a call depends on: a condition and whether it has to hold, a loop (`each`), or a failure."""

    kind: str
    """`if`, `each`, `while` or `failure`."""
    text: str
    holds: bool = True

    def __str__(self) -> str:
        match self.kind:
            case "if":
                return f"only if {self.text}" if self.holds else f"unless {self.text}"
            case "each":
                return f"for each {self.text}"
            case "while":
                return f"again and again {self.text}"
            case _:
                return f"if {self.text} fails"


@dataclass(frozen=True, slots=True)
class Consequence:
    """A call that may change something, and its circumstances from the outside in."""

    call: str
    circumstances: tuple[Circumstance, ...] = ()


def consequences(tree: Tree, tools: Mapping[str, ToolSignature], spell: Spell) -> list[Consequence]:
    """Every call of a plan that may change something, in the order of the text.

    A sub-plan is looked at where it is called, once for all calls that depend on the same. A tool without a
    declared effect may change something.
    """
    return list(_Walk(tree, tools, spell).block(tree.body, ()))


def sentences(found: Iterable[Consequence]) -> list[str]:
    """A sentence for each consequence; one for a call that is made whether or not a condition holds."""
    told: dict[tuple[str, tuple[Circumstance, ...]], None] = {}
    for one in found:
        told[one.call, one.circumstances] = None
    merged: list[str] = []
    while told:
        call, circumstances = next(iter(told))
        del told[call, circumstances]
        other = _opposite(circumstances)
        if other is not None and (call, other) in told:
            del told[call, other]
            *before, last = circumstances
            around = "".join(f", {one}" for one in before)
            merged.append(f"calls {call} whether or not {last.text}{around}")
        else:
            merged.append(_sentence(call, circumstances))
    return merged


def _sentence(call: str, circumstances: Sequence[Circumstance]) -> str:
    if not circumstances:
        return f"calls {call} in any case"
    return f"calls {call} {', '.join(map(str, circumstances))}"


def _opposite(circumstances: tuple[Circumstance, ...]) -> tuple[Circumstance, ...] | None:
    """The same, with the last condition the other way round."""
    match circumstances:
        case (*before, Circumstance("if", text, holds)):
            return (*before, Circumstance("if", text, not holds))
        case _:
            return None


class _Leaves(Enum):
    """What a statement ends besides its block."""

    LOOP = "loop"
    PLAN = "plan"
    RUN = "run"
    FAILED = "failed"


_LEAVES = {
    Word.BREAK: _Leaves.LOOP,
    Word.CONTINUE: _Leaves.LOOP,
    Word.RETURN: _Leaves.PLAN,
    Word.FAIL: _Leaves.FAILED,
}


class _Exits(NamedTuple):
    """When a block is left before its end: what is left, and the conditions that hold together then."""

    ways: tuple[tuple[_Leaves, tuple[Circumstance, ...]], ...] = ()
    is_always: bool = False
    """Whether what stands behind is never reached."""


def _opposite_of(together: tuple[Circumstance, ...]) -> Circumstance:
    """That these conditions do not hold together."""
    if len(together) == 1:
        return replace(together[0], holds=not together[0].holds)
    return Circumstance("if", _joined(together), holds=False)


def _joined(together: tuple[Circumstance, ...]) -> str:
    """Conditions that hold together, as one text."""
    texts: list[str] = []
    for one in together:
        is_joined = any(word in one.text for word in (" or ", " if ", " and "))
        text = f"({one.text})" if is_joined and (len(together) > 1 or not one.holds) else one.text
        texts.append(text if one.holds else f"not {text}")
    return " and ".join(texts)


class _Walk:
    """Follows the blocks of a plan with what each depends on."""

    def __init__(self, tree: Tree, tools: Mapping[str, ToolSignature], spell: Spell) -> None:
        self._tree = tree
        self._tools = tools
        self._spell = spell
        self._inside: list[str] = []
        self._followed: set[tuple[str, tuple[Circumstance, ...]]] = set()
        """The sub-plans that were looked at, and what their call depended on."""
        self._exits_of_plans: dict[str, _Exits] = {}

    def block(self, block: Block, around: tuple[Circumstance, ...]) -> Iterator[Consequence]:
        for statement in block:
            yield from self._statement(statement, around)
            left = self._exits_of(statement)
            around = tuple(dict.fromkeys((*around, *(_opposite_of(one) for _, one in left.ways))))

    # -------------------------------------------------------------- exits

    def _exits(self, block: Block) -> _Exits:
        """When a block is left before its end."""
        ways: dict[tuple[_Leaves, tuple[Circumstance, ...]], None] = {}
        for statement in block:
            found = self._exits_of(statement)
            for what, when in found.ways:
                before = (_opposite_of(one) for other, one in ways if other is not what)
                ways[what, (*before, *when)] = None
            if found.is_always:
                kinds = {what for what, _ in ways}
                return _Exits(((kinds.pop(), ()),) if len(kinds) == 1 else tuple(ways), is_always=True)
        return _Exits(tuple(ways))

    def _exits_of(self, statement: Statement) -> _Exits:
        match statement:
            case Say(word=word) if word in ENDS:
                return _Exits(((_LEAVES.get(word, _Leaves.RUN), ()),), is_always=True)
            case Require(condition=condition):
                return _Exits(((_Leaves.FAILED, (self._if(condition, holds=False),)),))
            case If():
                return self._exits_of_branches(statement)
            case Foreach(var=var, source=source, body=body):
                listed = self._said(source)
                ways: list[tuple[_Leaves, tuple[Circumstance, ...]]] = []
                for what, when in self._exits(body).ways:
                    text = f"{_joined(when)} for some {var} in {listed}" if when else f"{listed} has an item"
                    if what is not _Leaves.LOOP:
                        ways.append((what, (Circumstance("if", text),)))
                return self._unless_handled(statement, _Exits(tuple(ways)))
            case Repeat(body=body, while_=while_):
                inner = self._exits(body)
                first = () if while_ is None else (self._if(while_),)
                left = [(what, when or first) for what, when in inner.ways if what is not _Leaves.LOOP]
                is_always = inner.is_always and while_ is None and len(left) == len(inner.ways)
                return self._unless_handled(statement, _Exits(tuple(left), is_always))
            case Try(body=body) | Parallel(members=body):
                return self._unless_handled(statement, self._exits(body))
            case Invoke(plan=name):
                return self._unless_handled(statement, self._exits_of_plan(name))
            case _:
                return _Exits()

    def _exits_of_branches(self, statement: If) -> _Exits:
        before: tuple[Circumstance, ...] = ()
        ways: list[tuple[_Leaves, tuple[Circumstance, ...]]] = []
        is_always = statement.otherwise is not None
        for branch in statement.branches:
            inner = self._exits(branch.body)
            ways += ((what, (*before, self._if(branch.condition), *when)) for what, when in inner.ways)
            is_always = is_always and inner.is_always
            if not inner.is_always:
                before = (*before, self._if(branch.condition, holds=False))
        last = self._exits(statement.otherwise or ())
        ways += ((what, (*before, *when)) for what, when in last.ways)
        return _Exits(tuple(ways), is_always and last.is_always)

    def _exits_of_plan(self, name: str) -> _Exits:
        """When a call of a sub-plan ends what is around the call."""
        if name not in self._exits_of_plans:
            self._exits_of_plans[name] = _Exits()  # for a sub-plan that calls itself
            plan = self._tree.plan(name)
            inner = _Exits() if plan is None else self._exits(plan.body)
            left = [one for one in inner.ways if one[0] in (_Leaves.RUN, _Leaves.FAILED)]
            is_always = inner.is_always and len(left) == len(inner.ways)
            self._exits_of_plans[name] = _Exits(tuple(left), is_always)
        return self._exits_of_plans[name]

    def _unless_handled(self, statement: Statement, exits: _Exits) -> _Exits:
        """Those that are no failures, if the statement goes on after each of its failures."""
        recovery = recovery_of(statement)
        if (
            recovery is None
            or not (recovery.handlers or recovery.remedy)
            or isinstance(recovery.remedy, Leave)
        ):
            return exits
        if any(self._exits(handler.body).is_always for handler in recovery.handlers):
            return exits
        left = tuple(one for one in exits.ways if one[0] is not _Leaves.FAILED)
        return _Exits(left)

    # -------------------------------------------------------------- calls

    def _statement(self, statement: Statement, around: tuple[Circumstance, ...]) -> Iterator[Consequence]:
        match statement:
            case Act():
                if may_change(statement, self._tools):
                    yield Consequence(self._call(statement), around)
                yield from self._failed(statement, around, self._call(statement))
            case Invoke(plan=name):
                plan = self._tree.plan(name)
                if plan is not None and name not in self._inside and (name, around) not in self._followed:
                    if len(self._followed) < _MOST_FOLLOWED:
                        self._followed.add((name, around))
                        self._inside.append(name)
                        yield from self.block(plan.body, around)
                        self._inside.pop()
                    else:
                        yield Consequence(f"the sub-plan {name}, of which no more is told,", around)
                yield from self._failed(statement, around, name)
            case If(branches=branches, otherwise=otherwise):
                before = around
                for branch in branches:
                    yield from self.block(branch.body, (*before, self._if(branch.condition)))
                    before = (*before, self._if(branch.condition, holds=False))
                yield from self.block(otherwise or (), before)
            case Foreach(var=var, source=source, body=body):
                each = Circumstance("each", f"{var} in {self._said(source)}")
                yield from self.block(body, (*around, each))
                yield from self._failed(statement, around, "the loop")
            case Repeat(body=body, while_=while_, until=until):
                condition = while_ if while_ is not None else until
                word = "while" if while_ is not None else "until"
                said = "" if condition is None else f"{word} {self._said(condition)}"
                yield from self.block(body, (*around, Circumstance("while", said)))
                yield from self._failed(statement, around, "the loop")
            case Try(body=body):
                yield from self.block(body, around)
                yield from self._failed(statement, around, "that")
            case Parallel(members=members):
                yield from self.block(members, around)
                yield from self._failed(statement, around, "one of them")
            case _:
                yield from self._failed(statement, around, "it")

    def _failed(
        self, statement: Statement, around: tuple[Circumstance, ...], what: str
    ) -> Iterator[Consequence]:
        recovery = recovery_of(statement)
        if recovery is None:
            return
        for handler in recovery.handlers:
            yield from self.block(handler.body, (*around, Circumstance("failure", what)))
        yield from self.block(recovery.final or (), around)

    def _if(self, condition: Expression, *, holds: bool = True) -> Circumstance:
        while isinstance(condition, Unary) and condition.op is UnaryOp.NOT:
            condition, holds = condition.operand, not holds
        return Circumstance("if", self._said(condition), holds)

    def _call(self, act: Act) -> str:
        given = (
            *map(self._said, act.positional),
            *(f"{name}={self._said(value)}" for name, value in act.named),
        )
        return f"{act.tool.lower()}({', '.join(given)})"

    def _said(self, node: Expression) -> str:
        return in_brief(self._spell(node))


def spelled(node: Expression) -> str:
    """The canonical text of an expression."""
    try:
        return format_expression(node)
    except ValueError:  # texts nest too deep for any text
        return "…"


def in_brief(text: str) -> str:
    """A text in one line of at most 160 characters; "…" stands for what is cut."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def may_change(act: Act, tools: Mapping[str, ToolSignature]) -> bool:
    """Whether a call may change something outside: a tool that is not declared as reading or pure."""
    known = tools.get(act.tool)
    return act.kind is CallKind.TOOL and (known is None or known.effect not in _READS)
