"""Statements and expressions of plans with blocks in words, on one line."""

from __future__ import annotations

from typing import assert_never

from callsheet.frontends.expressions import format_expression
from callsheet.frontends.structured.printer import with_plain_parameters
from callsheet.ir.expression import Expression
from callsheet.ir.tree import (
    Act,
    Assign,
    Compute,
    Foreach,
    GoOn,
    If,
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
    Try,
    Use,
    recovery_of,
)
from callsheet.views.columns import fitted

_MOST_EXPRESSION = 48
_MOST_STATEMENT = 100


def describe_expression(node: Expression, most: int = _MOST_EXPRESSION) -> str:
    """An expression as the plan writes it, on one line of at most `most` columns."""
    return fitted(format_expression(node).replace("\n", " "), most)


def describe_statement(statement: Statement) -> str:
    """What a statement does, on one line, without its id and the blocks inside it.

    >>> from callsheet.frontends.expressions import read_expression
    >>> describe_statement(Let("", "n", read_expression("len($rows) + 1").expression))
    'LET $n = len($rows) + 1'
    >>> from callsheet.frontends.structured import read_structured
    >>> text = '# ltp: 2\\n@SELECT ([1, 2], query="[?@ > $n]", n=1) > $x'
    >>> describe_statement(read_structured(text).require().tree.body[0])
    '@SELECT ([1, 2], query="[?@ > $n]", n=1) > $x'
    """
    return fitted(_described(statement) + _after(recovery_of(statement)), _MOST_STATEMENT)


def _described(statement: Statement) -> str:  # noqa: PLR0911 - a case for each statement
    match statement:
        case Act(tool="SELECT", into=into):
            positional, named = with_plain_parameters(statement, describe_expression)
            return f"@SELECT ({', '.join([*positional, *map('='.join, named)])}){_into(into)}"
        case Act(tool=tool, positional=positional, named=named, into=into):
            given = [describe_expression(value) for value in positional]
            given += [f"{name}={describe_expression(value)}" for name, value in named]
            return f"@{tool} ({', '.join(given)}){_into(into)}"
        case Invoke(plan=plan, named=named, into=into):
            given = [f"{name}={describe_expression(value)}" for name, value in named]
            return f"CALL {plan} ({', '.join(given)}){_into(into)}"
        case Compute(names=names, into=names_out):
            reads = ", ".join(f"${name}" for name in names)
            made = ", ".join(f"${name}" for name in names_out)
            return f"COMPUTE ({reads}) > {made}" if made else f"COMPUTE ({reads})"
        case Let(name=name, value=value):
            return f"LET ${name} = {describe_expression(value)}"
        case Assign(name=name, value=value):
            return f"SET ${name} = {describe_expression(value)}"
        case Require(condition=condition):
            return f"REQUIRE ({describe_expression(condition)})"
        case Say(word=word, values=values):
            given = ", ".join(describe_expression(value) for value in values)
            return f"{word.value} ({given})" if values else word.value
        case If(branches=branches):
            return f"?IF ({describe_expression(branches[0].condition)})"
        case Foreach():
            how = f" {statement.order}" if statement.order else ""
            source = describe_expression(statement.source)
            return f"?FOREACH (${statement.var} IN {source}){how}{_into(statement.into)}"
        case Repeat(most=most, until=until, while_=while_):
            bound = 'max="run"' if most is None else f"max={describe_expression(most)}"
            if until is not None:
                return f"?REPEAT ({bound}) UNTIL ({describe_expression(until)})"
            test = "" if while_ is None else f" WHILE ({describe_expression(while_)})"
            return f"?REPEAT ({bound}){test}"
        case Try():
            within = statement.within
            return "TRY" if within is None else f"TRY WITHIN ({describe_expression(within)})"
        case Parallel():
            return "@PARALLEL STOP" if statement.stops else "@PARALLEL"
    assert_never(statement)


def _into(into: Into | None) -> str:
    return "" if into is None else f" > ${into.name}"


def _after(recovery: Recovery | None) -> str:
    text = describe_recovery(recovery)
    return f" ON_FAIL {text}" if text else ""


def describe_recovery(recovery: Recovery | None) -> str:
    """What a statement says about its failure in words, without ON_FAIL and blocks; "" for nothing."""
    if recovery is None:
        return ""
    text = "" if recovery.undo is None else " UNDO"
    text += "" if recovery.again is None else f" @RETRY({recovery.again.count})"
    match recovery.remedy:
        case None:
            pass
        case GoOn():
            text += " CONTINUE"
        case Skip():
            text += " SKIP"
        case Use(value=value):
            text += f" USE ({describe_expression(value)})"
        case Leave(values=values):
            text += f" TERMINATE ({', '.join(map(describe_expression, values))})"
        case _:
            assert_never(recovery.remedy)
    return text.strip()
