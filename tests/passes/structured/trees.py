"""Plan trees of version 2 for tests, with expressions as text."""

from collections.abc import Iterable, Mapping
from typing import Any

from callsheet.diagnostics import Diagnostic
from callsheet.frontends.expressions import read_expression
from callsheet.ir.expression import Expression
from callsheet.ir.statement_ids import with_ids
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Branch,
    Compute,
    Foreach,
    GoOn,
    Handler,
    If,
    Input,
    Into,
    Invoke,
    Leave,
    Let,
    Parallel,
    Recovery,
    Repeat,
    Require,
    Say,
    Skip,
    Statement,
    SubPlan,
    Tree,
    Try,
    Use,
    Word,
)
from callsheet.ir.types import Record, Type
from callsheet.passes import ToolSignature
from callsheet.passes.structured import check_tree

GO_ON, SKIP = Recovery(remedy=GoOn()), Recovery(remedy=Skip())


def e(text: str) -> Expression:
    """An expression."""
    return read_expression(text).expression


def let(name: str, value: str, type_: Type | None = None) -> Let:
    return Let("", name, e(value), type_)


def put(name: str, value: str) -> Assign:
    return Assign("", name, e(value))


def call(
    tool: str,
    *positional: str,
    into: str | None = None,
    of: Type | None = None,
    fails: Recovery | None = None,
    **named: str,
) -> Act:
    target = None if into is None else Into(into, of)
    values = tuple((name, e(value)) for name, value in named.items())
    return Act("", tool, tuple(map(e, positional)), values, target, fails)


def use(value: str) -> Recovery:
    return Recovery(remedy=Use(e(value)))


def leave(value: str) -> Recovery:
    return Recovery(remedy=Leave((e(value),)))


def handle(*body: Statement, kinds: tuple[str, ...] = (), final: Block | None = None) -> Recovery:
    return Recovery(handlers=(Handler(kinds, body),), final=final)


def when(condition: str, *body: Statement, other: Iterable[Statement] | None = None) -> If:
    return If("", (Branch(e(condition), body),), None if other is None else tuple(other))


def each(
    var: str,
    source: str,
    *body: Statement,
    into: str | None = None,
    fails: Recovery | None = None,
    together: bool = False,
    in_order: bool = False,
) -> Foreach:
    target = None if into is None else Into(into)
    return Foreach("", var, e(source), body, None, in_order, together, None, target, fails)


def until(condition: str, *body: Statement, fails: Recovery | None = None) -> Repeat:
    return Repeat("", e("3"), body, until=e(condition), recovery=fails)


def during(condition: str, *body: Statement) -> Repeat:
    return Repeat("", e("3"), body, while_=e(condition))


def attempt(*body: Statement, fails: Recovery) -> Try:
    return Try("", body, fails)


def group(*members: Statement) -> Parallel:
    return Parallel("", members)


def say(word: Word, *values: str) -> Say:
    return Say("", word, tuple(map(e, values)))


def respond(*values: str) -> Say:
    return say(Word.RESPOND, *values)


def give(value: str) -> Say:
    return say(Word.YIELD, value)


def require(condition: str) -> Require:
    return Require("", e(condition))


def sub(name: str, *, into: str | None = None, **named: str) -> Invoke:
    values = tuple((key, e(value)) for key, value in named.items())
    return Invoke("", name, values, None if into is None else Into(into))


def compute(*into: str, names: tuple[str, ...] = ()) -> Compute:
    return Compute("", "", names, into)


def plan(name: str, *body: Statement, result: Type | None = None, **inputs: Type) -> SubPlan:
    return SubPlan(name, tuple(Input(key, kind) for key, kind in inputs.items()), body, result)


def tree(
    *body: Statement,
    inputs: Mapping[str, Type] | None = None,
    plans: tuple[SubPlan, ...] = (),
    types: Mapping[str, Record] | None = None,
    result: Type | None = None,
) -> Tree:
    given = tuple(Input(name, kind) for name, kind in (inputs or {}).items())
    return with_ids(Tree(body, given, tuple((types or {}).items()), plans, result))


def found(whole: Tree, tools: Mapping[str, ToolSignature] | None = None) -> list[Diagnostic]:
    return list(check_tree(whole, tools=tools))


def codes(whole: Tree, tools: Mapping[str, ToolSignature] | None = None) -> list[str]:
    return [one.code for one in found(whole, tools)]


def tool(result: Mapping[str, Any] | None = None, /, **parameters: Any) -> ToolSignature:
    """A tool whose arguments have these schemas, all of them required."""
    schema = {"properties": parameters, "required": list(parameters), "additionalProperties": False}
    return ToolSignature.from_schema(schema, result=result)
