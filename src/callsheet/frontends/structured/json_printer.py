"""Prints a plan of version 2 as a JSON plan, which reads back as an equal plan.

In: a plan with a tree. Out: its JSON text, or an error that names what JSON cannot express.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import assert_never

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.dag.printer import json_rows
from callsheet.frontends.expressions import format_expression
from callsheet.frontends.structured.failure import apart
from callsheet.frontends.structured.json_form import value_of
from callsheet.frontends.structured.printer import written_plans
from callsheet.frontends.values.printer import is_name
from callsheet.ir import JSON, Plan
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression, nodes
from callsheet.ir.tree import (
    ERROR_VARIABLE,
    Act,
    Assign,
    Block,
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
    Try,
    Use,
    Word,
    recovery_of,
)
from callsheet.ir.tree_edits import with_written_failures
from callsheet.ir.types import type_text

Data = dict[str, JSON]


def format_structured_json(plan: Plan) -> str:
    """The canonical JSON text of a plan of version 2. Raises CallsheetError (DAG070)."""
    return json_rows(structured_data(plan)) + "\n"


def structured_data(plan: Plan) -> Data:
    """The plan as the data of its JSON text. Raises CallsheetError (DAG070)."""
    tree = plan.tree
    if tree is None:
        raise _refuse("a plan of version 1 as version 2")
    tree = with_written_failures(tree)
    out: Data = {"ltp": 2}
    for name, text in (("id", plan.id), ("title", plan.title), ("goal", plan.goal)):
        if text is not None:
            out[name] = text
    if tree.types:
        out["types"] = {
            name: {field: type_text(kind) for field, kind in record.fields} for name, record in tree.types
        }
    if tree.inputs:
        out["inputs"] = [_input(one) for one in tree.inputs]
    if tree.result is not None:
        out["result"] = type_text(tree.result)
    plans = written_plans(tree)
    if plans:
        out["plans"] = [_plan(one) for one in plans]
    out["steps"] = _block(tree.body)
    if plan.comments:
        out["comment"] = "\n".join(plan.comments)
    return out


def _refuse(what: str, help_: str | None = None) -> CallsheetError:
    return CallsheetError.single("DAG070", f"a JSON plan cannot express {what}", help=help_)


def _input(one: Input) -> Data:
    out: Data = {"name": _name(one.name), "type": type_text(one.type)}
    if not one.is_required:
        out["default"] = one.default
    if one.is_secret:
        out["secret"] = True
    if one.help is not None:
        out["help"] = one.help
    return out | _comment(one.comments, None)


def _plan(plan: SubPlan) -> Data:
    out: Data = {"plan": _name(plan.name)}
    if plan.origin is not None:
        out["library" if plan.origin.is_library else "from"] = plan.origin.reference
    else:
        if plan.inputs:
            out["inputs"] = [_input(one) for one in plan.inputs]
        if plan.result is not None:
            out["result"] = type_text(plan.result)
        out["do"] = _block(plan.body)
    return out | _comment(plan.comments, None)


# ---------------------------------------------------------------- statements


def _block(block: Block) -> JSON:
    return [_statement(one) | _comment(one.comments, one.remark) for one in block]


def _comment(comments: Iterable[str], remark: str | None) -> Data:
    said = [*comments, *(() if remark is None else (remark,))]
    return {"comment": "\n".join(said)} if said else {}


def _statement(statement: Statement) -> Data:
    own: Data = {}
    if not isinstance(statement, Let | Assign | Require) and statement.is_named:
        own["id"] = statement.id
    undo, recovery = None, recovery_of(statement)
    if isinstance(statement, Try):
        _, undo, recovery, _ = apart(statement)
    return own | _fields(statement) | _failure(recovery, undo)


def _fields(statement: Statement) -> Data:  # noqa: PLR0911, PLR0912 - a case for each statement
    match statement:
        case Act(tool=tool, positional=positional, named=named, into=into, title=title):
            out: Data = {"tool": tool.lower()}
            if title is not None:
                out["title"] = title
            if positional:
                out["positional"] = [_value(value) for value in positional]
            if named:
                out["args"] = {name: _value(value) for name, value in named}
            return out | _into(into)
        case Invoke(plan=plan, named=named, into=into):
            called: Data = {"call": _name(plan)}
            called["args"] = {name: _value(value) for name, value in named}
            return called | _into(into)
        case Compute(source=source, names=names, into=sets):
            return {"compute": source, "reads": [*map(_name, names)], "sets": [*map(_name, sets)]}
        case Let(name=name, value=value, type=kind):
            cast: Data = {} if kind is None else {"type": type_text(kind)}
            return {"let": _name(name), **cast, "value": _value(value)}
        case Assign(name=name, value=value):
            return {"set": _name(name), "value": _value(value)}
        case Require(condition=condition, message=message):
            said: Data = {} if message is None else {"message": _value(message)}
            return {"require": _text(condition)} | said
        case Say():
            return _said(statement)
        case If(branches=branches, otherwise=otherwise):
            first, *others = branches
            made: Data = {"if": _text(first.condition), "then": _block(first.body)}
            if others:
                made["elif"] = [{"if": _text(one.condition), "then": _block(one.body)} for one in others]
            if otherwise is not None:
                made["else"] = _block(otherwise)
            return made
        case Foreach():
            return _loop(statement)
        case Repeat():
            return _repeat(statement)
        case Try():
            parts = apart(statement)
            limit: Data = {} if parts.within is None else {"within": _value(parts.within)}
            return {"try": _block(parts.body)} | limit
        case Parallel(members=members):
            return {"parallel": _block(members)} | ({"order": "stop"} if statement.stops else {})
    assert_never(statement)


_MANY = frozenset({Word.RESPOND, Word.TERMINATE, Word.REPLAN, Word.RETURN})
"""The words with any number of values: a list of them, or one that is no list."""


def _said(statement: Say) -> Data:
    word, values = statement.word, [_value(value) for value in statement.values]
    key = word.value.removeprefix("@").replace("-", "").lower()
    if word in {Word.BREAK, Word.CONTINUE}:
        return {key: True}
    out: Data = {key: _some(values) if word in _MANY else values[0]}
    return out if statement.kind is None else out | {"kind": statement.kind}


def _some(values: list[JSON]) -> JSON:
    return values[0] if len(values) == 1 and not isinstance(values[0], list) else values


def _loop(loop: Foreach) -> Data:
    out: Data = {"foreach": _name(loop.var), "in": _value(loop.source)}
    if loop.in_order or loop.together:
        ends = f", {loop.ends.lower()}" if loop.ends else ""
        together = f"together{ends}" + ", as done" * loop.as_done
        out["order"] = "in order" if loop.in_order else together
    if loop.most is not None:
        out["max"] = loop.most
    if loop.limit is not None:
        out["limit"] = _value(loop.limit)
    body = loop.body
    last = body[-1] if body else None
    if isinstance(last, Say) and last.word is Word.YIELD and not last.comments and last.remark is None:
        out |= {"do": _block(body[:-1]), "yield": _value(last.values[0])}
    else:
        out["do"] = _block(body)
    return out | _into(loop.into)


def _repeat(loop: Repeat) -> Data:
    out: Data = {"repeat": "run" if loop.most is None else _value(loop.most)}
    if loop.every is not None:
        out["every"] = _value(loop.every)
    if loop.while_ is not None:
        out["while"] = _text(loop.while_)
    out["do"] = _block(loop.body)
    if loop.until is not None:
        out["until"] = _text(loop.until)
    return out


def _into(into: Into | None) -> Data:
    if into is None:
        return {}
    cast: Data = {} if into.type is None else {"type": type_text(into.type)}
    return {"result": _name(into.name)} | cast


def _failure(recovery: Recovery | None, undo: tuple[tuple[str, str], ...] | None = None) -> Data:
    if recovery is None:
        return {}
    out: Data = {} if undo is None else {"undo": {tool.lower(): text for tool, text in undo}}
    if recovery.again is not None:
        again = recovery.again
        out["retry"] = again.count
        if again.delay is not None:
            out["delay"] = again.delay
        if again.backoff is not None:
            out["backoff"] = again.backoff
    match recovery.remedy:
        case None:
            pass
        case GoOn():
            out["continue"] = True
        case Skip():
            out["skip"] = True
        case Use(value=value):
            out["use"] = _value(value)
        case Leave(values=values):
            out["terminate"] = _some([_value(value) for value in values])
        case _:
            assert_never(recovery.remedy)
    if recovery.handlers:
        out["handlers"] = [_handler(one) for one in recovery.handlers]
    made: Data = {"on_fail": out} if out else {}
    return made if recovery.final is None else made | {"finally": _block(recovery.final)}


def _handler(handler: Handler) -> Data:
    out: Data = {"kinds": [*handler.kinds]} if handler.kinds else {}
    if handler.binds != ERROR_VARIABLE:
        out["as"] = _name(handler.binds)
    return out | {"do": _block(handler.body)}


# ---------------------------------------------------------------- parts


def _name(name: str) -> str:
    if not is_name(name):
        raise _refuse(f"the name {name!r}", "a name is made of ASCII letters, digits and _")
    return name


def _value(node: Expression) -> JSON:
    _check_numbers(node)
    try:
        return value_of(node)
    except ValueError as error:
        raise _refuse("this expression", str(error)) from None


def _text(node: Expression) -> JSON:
    _check_numbers(node)
    try:
        return format_expression(node)
    except ValueError as error:
        raise _refuse("this expression", str(error)) from None


def _check_numbers(node: Expression) -> None:
    for one in nodes(node):
        if isinstance(one, Literal) and isinstance(one.value, float) and not math.isfinite(one.value):
            raise _refuse(f"the number {one.value}", "give it as a text")
