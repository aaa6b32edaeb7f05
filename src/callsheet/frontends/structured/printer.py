"""Prints a plan of version 2 as canonical text, which reads back as an equal plan.

In: a plan with a tree. Out: its text, or an error that names what the text cannot express.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, assert_never

from callsheet import lazy
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.expressions import format_expression, format_lines
from callsheet.frontends.ltp.words import VERSION_2
from callsheet.frontends.structured.failure import apart, is_kind
from callsheet.frontends.structured.lines import ID, ID_RULE, RESERVED_TOOLS
from callsheet.frontends.values.printer import LINES, about_texts, comment_lines, is_name, refuse
from callsheet.ir import JSON, Plan
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Display, Expression, Kind, Mapping, Text, nodes
from callsheet.ir.tree import (
    ERROR_VARIABLE,
    Act,
    Again,
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
    Tree,
    Try,
    Use,
    Word,
    acts,
    recovery_of,
)
from callsheet.ir.tree_edits import map_blocks, with_tree, with_written_failures
from callsheet.ir.types import type_text

WIDTH: Final = 110
"""The most characters of a line with a call, or with a condition and its one statement."""

_INDENT: Final = "  "
_TWO_LINES: Final = 3
"""The line feeds of a text of two lines in triple quotes."""
_SHORT: Final = 80
"""The most characters of a text of two lines that stays on the line of its statement."""
_ID = lazy.pattern(ID)
_TOOL = lazy.pattern(r"[A-Z0-9_]+")
_RUN: Final = lazy.pattern(r"\"+|'+")


def format_structured(plan: Plan) -> str:
    """The canonical text of a plan of version 2.

    Raises CallsheetError (LTP070) that names what the text cannot express, such as invalid names.

    >>> from callsheet.frontends.structured import read_structured
    >>> print(format_structured(read_structured("# ltp: 2\\nif $x>1 {\\n@A(b = 2)>$x\\n}").partial), end="")
    # ltp: 2
    ?IF ($x > 1) THEN @A (b=2) > $x
    """
    tree = plan.tree
    if tree is None:
        raise refuse("a plan of version 1 as version 2", "callsheet upgrade writes it as version 2")
    tree = with_written_failures(tree)
    lines = [f"# ltp: {VERSION_2}", *about_texts(plan, refuse)]
    for name, record in tree.types:
        lines.append(f"TYPE {_name(name)} = {type_text(record)}")
    for one in tree.inputs:
        lines.extend(comment_lines(one.comments))
        lines.append(f"INPUT {_input(one)}{_remark(one.help)}")
    if tree.result is not None:
        lines.append(f"RESULT {type_text(tree.result)}")
    plans = written_plans(tree)
    for one in plans:
        lines.extend(([""] if one.origin is None else []) + [*_plan_lines(one)])
    if plans and plans[-1].origin is None and tree.body:
        lines.append("")
    lines.extend(_block(tree.body, ""))
    lines.extend(comment_lines(plan.comments))
    return "\n".join(lines) + "\n"


def with_titles_as_comments(plan: Plan) -> Plan:
    """The plan with the titles of its steps, which JSON plans have, as comments before them."""

    def titled(block: Block) -> Block:
        return tuple(map_blocks(_untitled(one), titled) for one in block)

    tree = plan.tree
    if tree is None or not any(one.title for one in acts(tree)):
        return plan
    plans = tuple(replace(one, body=titled(one.body)) for one in tree.plans)
    made = replace(tree, body=titled(tree.body), plans=plans)
    return with_tree(plan, made)


def _untitled(statement: Statement) -> Statement:
    if not isinstance(statement, Act) or statement.title is None:
        return statement
    return replace(statement, title=None, comments=(*statement.comments, statement.title))


def written_plans(tree: Tree) -> tuple[SubPlan, ...]:
    """The sub-plans that a text names: not those that came along with a used plan."""
    return tuple(one for one in tree.plans if one.origin is None or not one.origin.is_inner)


# ---------------------------------------------------------------- declarations


def _plan_lines(plan: SubPlan) -> Iterator[str]:
    yield from comment_lines(plan.comments)
    name = _name(plan.name)
    if plan.origin is not None:
        place = format_expression(Literal(plan.origin.reference))
        yield f"USE {name} FROM {'LIBRARY ' * plan.origin.is_library}{place}"
        return
    result = "" if plan.result is None else f" -> {type_text(plan.result)}"
    if any(one.help is not None or one.comments for one in plan.inputs):
        yield f"PLAN {name} ("
        for one in plan.inputs:
            yield from comment_lines(one.comments, _INDENT)
            yield f"{_INDENT}{_input(one)},{_remark(one.help)}"
        yield f"){result} {{"
    else:
        yield f"PLAN {name} ({', '.join(map(_input, plan.inputs))}){result} {{"
    yield from _block(plan.body, _INDENT)
    yield "}"


def _input(one: Input) -> str:
    secret = "SECRET " if one.is_secret else ""
    default = "" if one.is_required else f" = {_expression(_as_expression(one.default))}"
    return f"{secret}${_name(one.name)}: {type_text(one.type)}{default}"


def _as_expression(value: JSON) -> Expression:
    match value:
        case list():
            return Display(Kind.LIST, tuple(map(_as_expression, value)))
        case dict():
            return Mapping(tuple((Literal(key), _as_expression(each)) for key, each in value.items()))
        case _:
            return Literal(value)


# ---------------------------------------------------------------- statements


def _block(block: Block, indent: str) -> Iterator[str]:
    for statement in block:
        yield from comment_lines(statement.comments, indent)
        try:
            yield from _statement(statement, indent)
        except CallsheetError as error:
            raise CallsheetError(
                [
                    d if d.step else replace(d, step=statement.id, span=d.span or statement.span)
                    for d in error.diagnostics
                ],
                error.source,
            ) from None


def _statement(statement: Statement, indent: str) -> list[str]:
    """The lines of a statement; a comment at the end of a line stands on the first one that may have it."""
    label = _label(statement)
    match statement:
        case Act():
            if statement.title is not None:
                raise refuse(f"the title of {statement.id}", "write it as a comment")
            given = _given(statement, indent)
            head = _fitted(label + _called(statement), given, _into(statement.into), indent)
            return _with_recovery(head, statement, indent)
        case Invoke(plan=plan, named=named):
            given = _arguments((), named, indent)
            head = _fitted(f"{label}CALL {_name(plan)}", given, _into(statement.into), indent, " ()")
            return _with_recovery(head, statement, indent)
        case Compute():
            return _compute(label, statement, indent)
        case Let() | Assign() | Require() | Say():
            return [f"{indent}{label}{_simple(statement, indent)}{_remark(statement.remark)}"]
        case If():
            return _branches(label, statement, indent)
        case Foreach():
            return _loop(label, statement, indent)
        case Repeat():
            return _repeat(label, statement, indent)
        case Try():
            body, pairs, rest, within = apart(statement)
            tail = "" if pairs is None else f" ON_FAIL UNDO{_inverses(pairs)}"
            head = f"{label}TRY" + ("" if within is None else f" WITHIN ({_value(within, indent)})")
            return _closed(head, body, tail, replace(statement, recovery=rest), indent)
        case Parallel(members=members):
            head = "@PARALLEL STOP" if statement.stops else "@PARALLEL"
            return _closed(f"{label}{head}", members, "", statement, indent)
    assert_never(statement)


def _label(statement: Statement) -> str:
    if isinstance(statement, Let | Assign | Require) or not statement.is_named:
        return ""
    if not _ID.fullmatch(statement.id):
        raise refuse(f"the id {statement.id!r}", ID_RULE)
    if isinstance(statement, Say) and statement.word not in {Word.RESPOND, Word.TERMINATE, Word.REPLAN}:
        return ""
    return f"{statement.id}: "


def _simple(statement: Let | Assign | Require | Say, indent: str) -> str:
    match statement:
        case Let(name=name, value=value, type=kind):
            cast = "" if kind is None else f": {type_text(kind)}"
            return f"LET ${_name(name)}{cast} = {_value(value, indent)}"
        case Assign(name=name, value=value):
            return f"SET ${_name(name)} = {_value(value, indent)}"
        case Require(condition=condition, message=message):
            return f"REQUIRE ({_expression(condition)}){_message(message)}"
        case Say(word=word, values=values, kind=kind):
            given = [_value(value, indent) for value in values]
            if kind is not None:
                if not is_kind(kind):
                    raise refuse(
                        f"a failure of the kind {kind!r}", "a kind is made of ASCII letters, digits, _"
                    )
                given.append(f'kind="{kind}"')
            return f"{word} ({', '.join(given)})" if given else word.value
    assert_never(statement)


def _message(message: Expression | None) -> str:
    if message is None:
        return ""
    text = _expression(message)
    is_text = isinstance(message, Text) or (isinstance(message, Literal) and isinstance(message.value, str))
    return f" {text}" if is_text else f" ({text})"


def _fitted(head: str, given: list[str], tail: str, indent: str, none: str = "") -> str:
    """A call on one line, or where that would be too long, with each argument on a line of its own.

    `none` are the parentheses of a call without arguments. A text over several lines is not moved.
    """
    if not given:
        return f"{head}{none}{tail}"
    line = f"{head} ({', '.join(given)}){tail}"
    if len(given) == 1 or len(indent) + len(line) <= WIDTH or "\n" in line:
        return line
    inside = f",\n{indent}{_INDENT}".join(given)
    return f"{head} (\n{indent}{_INDENT}{inside}\n{indent}){tail}"


def _called(act: Act) -> str:
    if not _TOOL.fullmatch(act.tool) or act.tool in RESERVED_TOOLS:
        raise refuse(f"a call of the tool {act.tool!r}", "give the tool another name in the tool table")
    return f"@{act.tool}"


def _given(act: Act, indent: str) -> list[str]:
    if act.tool == "SELECT":  # a parameter stands in the query as it is
        positional, named = with_plain_parameters(act, _expression)
        if any(name not in ("data", "query") for name, _ in named):
            return [*positional, *(f"{argument_name(name)}={one}" for name, one in named)]
    return _arguments(act.positional, act.named, indent)


def with_plain_parameters(
    act: Act, spelled: Callable[[Expression], str]
) -> tuple[list[str], list[tuple[str, str]]]:
    """The arguments of @SELECT as texts, in whose query a parameter such as `$n` stands without escape."""
    positional = [spelled(value) for value in act.positional]
    named = [(name, spelled(value)) for name, value in act.named]
    names = "|".join(name for name, _ in named if name not in ("data", "query"))
    if names:
        read = re.compile(rf"\\\$({names})(?!\w)")
        positional[1:2] = [read.sub(r"$\1", one) for one in positional[1:2]]
        named = [(name, read.sub(r"$\1", one) if name == "query" else one) for name, one in named]
    return positional, named


def _arguments(
    positional: Iterable[Expression], named: Iterable[tuple[str, Expression]], indent: str
) -> list[str]:
    given = [_value(value, indent) for value in positional]
    return given + [f"{argument_name(name)}={_value(value, indent)}" for name, value in named]


def argument_name(name: str) -> str:
    """The name of an argument, quoted unless it is an identifier.

    Raises CallsheetError (LTP070) if no text of version 2 can say it.
    """
    if is_name(name):
        return name
    if any(char in name for char in '"\\$\n') or not name.isprintable():
        raise refuse(f"the argument name {name!r}", "give the tool's argument another name")
    return f'"{name}"'


def _into(into: Into | None) -> str:
    if into is None:
        return ""
    return f" > ${_name(into.name)}" + ("" if into.type is None else f":{type_text(into.type)}")


def _compute(label: str, compute: Compute, indent: str) -> list[str]:
    reads = f" (reads=[{', '.join(f'${_name(name)}' for name in compute.names)}])" if compute.names else ""
    into = f" > {', '.join(f'${_name(name)}' for name in compute.into)}" if compute.into else ""
    if "\r" in compute.source:
        raise refuse(f"a carriage return in the source of {compute.id}", "end its lines with line feeds")
    longest = max((len(run[0]) for run in _RUN.finditer(compute.source)), default=0)
    quotes = '"' * max(3, longest + 1)
    inside = indent + _INDENT
    lines = [f"{inside}{line}" if line else "" for line in compute.source.split("\n")]
    head = f"{label}COMPUTE{reads}{into} {quotes}"
    return [f"{indent}{head}", *lines, *_with_recovery(quotes, compute, indent, inside)]


# ---------------------------------------------------------------- blocks


def _inner(block: Block, indent: str) -> list[str]:
    return list(_block(block, indent + _INDENT))


def _closed(head: str, body: Block, tail: str, statement: Statement, indent: str) -> list[str]:
    """A statement with one block: its head, the block, and what follows its `}`."""
    lines = [f"{indent}{head} {{{_remark(statement.remark)}", *_inner(body, indent)]
    return [*lines, *_with_recovery(f"}}{tail}", replace(statement, remark=None), indent)]


def _branches(label: str, statement: If, indent: str) -> list[str]:
    first, *others = statement.branches
    head = f"{label}?IF ({_expression(first.condition)})"
    if not others and statement.otherwise is None and (short := _short(first.body)) is not None:
        line = f"{indent}{head} THEN {short}{_remark(statement.remark)}"
        if len(line) <= WIDTH:
            return [line]
    lines = [f"{indent}{head} {{{_remark(statement.remark)}", *_inner(first.body, indent)]
    for branch in others:
        lines.append(f"{indent}}} ELSE IF ({_expression(branch.condition)}) {{")
        lines.extend(_inner(branch.body, indent))
    if statement.otherwise is not None:
        lines.append(f"{indent}}} ELSE {{")
        lines.extend(_inner(statement.otherwise, indent))
    return [*lines, f"{indent}}}"]


def _short(body: Block) -> str | None:
    """The one statement of a block as it stands behind THEN; None if it needs the block."""
    if len(body) != 1 or body[0].comments or body[0].remark is not None:
        return None
    (statement,) = body
    recovery = recovery_of(statement)
    if recovery is not None and (recovery.handlers or recovery.final is not None):
        return None
    match statement:
        case Act() | Invoke() | Let() | Assign() | Require() | Say():
            (line,) = _statement(statement, "")
            return None if "\n" in line else line
        case Compute() | If() | Foreach() | Repeat() | Try() | Parallel():
            return None
    assert_never(statement)


def _loop(label: str, loop: Foreach, indent: str) -> list[str]:
    options = f" {loop.order}" if loop.order else ""
    if loop.limit is not None:
        options += f" LIMIT {_expression(loop.limit)}"
    head = f"{label}?FOREACH (${_name(loop.var)} IN {_expression(loop.source)}){options}"
    return _closed(head, loop.body, _into(loop.into), loop, indent)


def _repeat(label: str, loop: Repeat, indent: str) -> list[str]:
    most = '"run"' if loop.most is None else _expression(loop.most)
    options = [f"max={most}"]
    if loop.every is not None:
        options.append(f"every={_expression(loop.every)}")
    head = f"{label}?REPEAT ({', '.join(options)})"
    if loop.while_ is not None:
        head += f" WHILE ({_expression(loop.while_)})"
    tail = "" if loop.until is None else f" UNTIL ({_expression(loop.until)})"
    return _closed(head, loop.body, tail, loop, indent)


# ---------------------------------------------------------------- failure


def _with_recovery(head: str, statement: Statement, indent: str, lead: str | None = None) -> list[str]:
    """A line, what its statement says about its failure, and its comment; `lead` indents the line itself."""
    line = (indent if lead is None else lead) + head
    recovery = recovery_of(statement)
    if recovery is None:
        return [line + _remark(statement.remark)]
    return _recovery(line, recovery, indent, statement.remark)


def _recovery(line: str, recovery: Recovery, indent: str, remark: str | None) -> list[str]:
    if recovery.again is not None:
        line += f" ON_FAIL {_retry(recovery.again)}"
    match recovery.remedy:
        case None:
            pass
        case GoOn():
            line += _after_fail(recovery, "CONTINUE")
        case Skip():
            line += _after_fail(recovery, "SKIP")
        case Use(value=value):
            line += _after_fail(recovery, f"USE ({_expression(value)})")
        case Leave(values=values):
            given = ", ".join(map(_expression, values))
            line += _after_fail(recovery, f"TERMINATE ({given})" if given else "TERMINATE")
        case _:
            assert_never(recovery.remedy)
    lines: list[str] = []
    for handler in recovery.handlers:
        lines += [f"{line} ON_FAIL{_handled(handler)} {{", *_inner(handler.body, indent)]
        line = f"{indent}}}"
    if recovery.final is not None:
        lines += [f"{line} FINALLY {{", *_inner(recovery.final, indent)]
        line = f"{indent}}}"
    return [*lines, line + _remark(remark)]


def _inverses(pairs: tuple[tuple[str, str], ...]) -> str:
    named = ", ".join(f"{tool.lower()}={_expression(Literal(text))}" for tool, text in pairs)
    return f" ({named})" if named else ""


def _after_fail(recovery: Recovery, text: str) -> str:
    return f" {text}" if recovery.again is not None else f" ON_FAIL {text}"


def _handled(handler: Handler) -> str:
    for kind in handler.kinds:
        if not is_kind(kind):
            raise refuse(f"a failure of the kind {kind!r}", "a kind is made of ASCII letters, digits, _")
    words = f" {', '.join(handler.kinds)}" if handler.kinds else ""
    return words + ("" if handler.binds == ERROR_VARIABLE else f" AS ${_name(handler.binds)}")


def _retry(again: Again) -> str:
    options = [str(again.count)]
    if again.delay is not None:
        options.append(f"delay={_number(again.delay)}")
    if again.backoff is not None:
        options.append(f"backoff={_number(again.backoff)}")
    return f"@RETRY({', '.join(options)})"


# ---------------------------------------------------------------- parts


def _number(value: float) -> str:
    """Seconds or a factor as people write them: 5 for 5.0."""
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e9 else repr(value)


def _expression(node: Expression) -> str:
    for one in nodes(node):
        if isinstance(one, Literal) and isinstance(one.value, float) and not math.isfinite(one.value):
            raise refuse(f"the number {one.value}", "give it as a text")
    try:
        return format_expression(node)
    except ValueError as error:
        raise refuse("this expression", str(error)) from None


def _value(node: Expression, indent: str) -> str:
    """An expression; a text of three lines, or of two long ones, stands below its statement."""
    text = _expression(node)
    lines = format_lines(node, indent + _INDENT)
    return text if lines is None or (lines.count("\n") == _TWO_LINES and len(text) <= _SHORT) else lines


def _name(name: str) -> str:
    if not is_name(name):
        raise refuse(f"the name {name!r}", "a name is made of ASCII letters, digits and _")
    return name


def _remark(remark: str | None) -> str:
    return "" if remark is None else f"  # {' '.join(LINES.split(remark))}".rstrip()
