"""What a plan changes and when: each call that may change something, its conditions, and doubts about them.

In: the tree of a plan, the tools. Out: consequences, sentences, findings. No word of a goal is looked at:
what is told follows from the plan alone, so that a person can compare it with the goal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from callsheet.diagnostics import Severity
from callsheet.frontends.expressions.printer import format_expression
from callsheet.ir import CallKind, Effect
from callsheet.ir.expression import Expression, Unary, UnaryOp
from callsheet.ir.tree import (
    Act,
    Block,
    Foreach,
    If,
    Invoke,
    Parallel,
    Repeat,
    Say,
    Statement,
    Tree,
    Try,
    Word,
    all_statements,
    inner_blocks,
    recovery_of,
    variables_read,
)
from callsheet.passes.finding import ToolSignature
from callsheet.passes.structured.report import Report

Spell: TypeAlias = "Callable[[Expression], str]"
"""Writes an expression as the reader of the plan knows it."""
_READS = (Effect.PURE, Effect.READ)
_ENDS = frozenset(
    (Word.RESPOND, Word.TERMINATE, Word.RETURN, Word.FAIL, Word.BREAK, Word.CONTINUE, Word.REPLAN)
)
_LONGEST = 160


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

    act: Act
    call: str
    circumstances: tuple[Circumstance, ...] = ()

    def __str__(self) -> str:
        if not self.circumstances:
            return f"calls {self.call} in any case"
        return f"calls {self.call} {', '.join(map(str, self.circumstances))}"


def consequences(tree: Tree, tools: Mapping[str, ToolSignature], spell: Spell) -> list[Consequence]:
    """Every call of a plan that may change something, in the order of the text.

    A sub-plan is looked at where it is called. A tool without a declared effect may change something.
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


class _Walk:
    """Follows the blocks of a plan with what each depends on."""

    def __init__(self, tree: Tree, tools: Mapping[str, ToolSignature], spell: Spell) -> None:
        self._tree = tree
        self._tools = tools
        self._spell = spell
        self._inside: list[str] = []

    def block(self, block: Block, around: tuple[Circumstance, ...]) -> Iterator[Consequence]:
        for statement in block:
            yield from self._statement(statement, around)
            if isinstance(statement, If):
                around = (*around, *self._left(statement))

    def _left(self, statement: If) -> Iterator[Circumstance]:
        """What holds behind branches that end what is around them."""
        for branch in statement.branches:
            if not _ends(branch.body):
                return
            yield self._if(branch.condition, holds=False)

    def _statement(self, statement: Statement, around: tuple[Circumstance, ...]) -> Iterator[Consequence]:
        match statement:
            case Act():
                if may_change(statement, self._tools):
                    yield Consequence(statement, self._call(statement), around)
                yield from self._failed(statement, around, self._call(statement))
            case Invoke(plan=name):
                plan = self._tree.plan(name)
                if plan is not None and name not in self._inside:
                    self._inside.append(name)
                    yield from self.block(plan.body, around)
                    self._inside.pop()
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
        text = " ".join(self._spell(node).split())
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def spelled(node: Expression) -> str:
    """The canonical text of an expression."""
    try:
        return format_expression(node)
    except ValueError:  # texts nest too deep for any text
        return "…"


def may_change(act: Act, tools: Mapping[str, ToolSignature]) -> bool:
    """Whether a call may change something outside: a tool that is not declared as reading or pure."""
    known = tools.get(act.tool)
    return act.kind is CallKind.TOOL and (known is None or known.effect not in _READS)


def _ends(block: Block) -> bool:
    """Whether what stands behind a block is not reached after it."""
    return bool(block) and isinstance(last := block[-1], Say) and last.word in _ENDS


# ------------------------------------------------------------------ findings


def doubtful(tree: Tree, tools: Mapping[str, ToolSignature] | None, report: Report) -> None:
    """Notes CHK130 and CHK131: a call that a condition does not decide, and a lookup that nobody reads."""
    if tools is None:
        return
    _undecided(tree, tools, report)
    _unread(tree, tools, report)


def _undecided(tree: Tree, tools: Mapping[str, ToolSignature], report: Report) -> None:
    inner = (block for one in all_statements(tree) for block in inner_blocks(one))
    blocks = [tree.body, *(plan.body for plan in tree.plans), *inner]
    for block in blocks:
        for number, statement in enumerate(block):
            if not isinstance(statement, If):
                continue
            ways = [branch.body for branch in statement.branches]
            last = statement.otherwise
            if last is None and all(_ends(way) for way in ways):
                last = block[number + 1 :]
            if last is None:
                continue
            made = [_calls_of(way, tools) for way in (*ways, last)]
            for call, act in made[0].items():
                if all(call in other for other in made[1:]):
                    condition = " ".join(spelled(statement.branches[0].condition).split())[:_LONGEST]
                    report.add(
                        "CHK130",
                        f"@{act.tool} is called with the same arguments whether or not {condition}",
                        act,
                        severity=Severity.WARNING,
                        help="make the call in one branch only, or in front of the condition",
                    )


def _calls_of(block: Block, tools: Mapping[str, ToolSignature]) -> dict[tuple[object, ...], Act]:
    """The calls directly in a block that may change something, by what they do."""
    calls = (one for one in block if isinstance(one, Act) and may_change(one, tools))
    return {(one.tool, one.positional, one.named): one for one in calls}


def _unread(tree: Tree, tools: Mapping[str, ToolSignature], report: Report) -> None:
    every = list(all_statements(tree))
    read = {name for one in every for name in variables_read(one)}
    for one in every:
        if not isinstance(one, Act) or one.kind is not CallKind.TOOL:
            continue
        known = tools.get(one.tool)
        if known is None or known.effect not in _READS or one.recovery is not None:
            continue
        if one.into is None or one.into.name not in read:
            report.add(
                "CHK131",
                f"nothing reads what @{one.tool} finds",
                one,
                severity=Severity.WARNING,
                help="use its result, or leave the call out",
            )
