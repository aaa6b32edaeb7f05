"""Describes a step, an action, a condition or a value in one short line of plain text.

All views use it, so that their wording is the same. Output is truncated, and the time does not depend on the
size of values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, assert_never

from callsheet.frontends.values.printer import format_line, format_path, is_plain_text, spelled_parts
from callsheet.ir import (
    Action,
    And,
    Call,
    Compare,
    Condition,
    Goto,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    OnFail,
    Or,
    Plan,
    Ref,
    Replan,
    Respond,
    Step,
    Template,
    Terminate,
    Value,
)
from callsheet.ir.expr import Scalar
from callsheet.views.columns import CUT, cut, fitted, printable

if TYPE_CHECKING:
    from callsheet.ir.expression import Expression
    from callsheet.ir.tree import Statement

VALUE_WIDTH = 48
"""The maximum width of one value, in columns."""

_MOST_LINE = 100
_MOST_ITEMS = 12
_MOST_DEPTH = 6
_LONGEST_SHORT = 200
"""Longer strings are cut in every description."""
_MOST_SHORT = 10**15
"""Integers below it in absolute value are short enough for `_short`."""


def describe_value(value: Value, most: int = VALUE_WIDTH) -> str:
    """Returns a value in LTP-like notation, in at most `most` columns.

    >>> describe_value(Ref("page", ("items", 0)))
    '$page.items.0'
    """
    text = _short(value)
    if text is not None and len(text) <= most and text.isascii() and text.isprintable():
        return text
    return _fitted(value, most)


def _fitted(value: Value, most: int) -> str:
    """Returns any value, made printable and cut."""
    return fitted(_value(value, most, 0), most)


def _short(value: Value) -> str | None:
    """Returns a simple value uncut and not made printable, or None for other values.

    It is a fast path: if the text is printable ASCII and short enough, it equals that of `_fitted`.
    """
    if isinstance(value, Literal):
        scalar = value.value
        if type(scalar) is str:
            return f'"{scalar}"' if len(scalar) <= _LONGEST_SHORT and is_plain_text(scalar) else None
        if type(scalar) is float:
            return repr(scalar) if isfinite(scalar) else None
        return str(scalar) if type(scalar) is int and -_MOST_SHORT < scalar < _MOST_SHORT else None
    if isinstance(value, Ref):
        return None if value.path else f"${value.name}"
    if isinstance(value, Template) and len(value.parts) <= _MOST_ITEMS:
        if any(len(part) > _LONGEST_SHORT for part in value.parts if isinstance(part, str)):
            return None
        return f'"{"".join(spelled_parts(value.parts))}"'
    return None


def _value(value: Value, most: int, depth: int) -> str:
    if depth > _MOST_DEPTH:
        return CUT
    if isinstance(value, Ref):
        return _ref(value)
    if isinstance(value, Literal):
        return _scalar(value.value, most)
    if isinstance(value, Template):
        parts = [_head(part, most) for part in value.parts[:_MOST_ITEMS]]
        text = "".join(spelled_parts(parts))
        return f'"{cut(f"{text}{CUT}" if len(value.parts) > _MOST_ITEMS else text, most - 2)}"'
    if isinstance(value, ListExpr):
        items = [_value(item, most, depth + 1) for item in value.items[:_MOST_ITEMS]]
        return f"[{_join(items, len(value.items))}]"
    pairs = [
        f"{_scalar(key, most)}: {_value(item, most, depth + 1)}" for key, item in value.items[:_MOST_ITEMS]
    ]
    return f"{{{_join(pairs, len(value.items))}}}"


def _join(shown: Iterable[str], count: int) -> str:
    return ", ".join([*shown, CUT] if count > _MOST_ITEMS else shown)


def _scalar(scalar: Scalar, most: int) -> str:
    if isinstance(scalar, str):
        opening, quote, rest = format_line(scalar[: most * 2]).partition('"')
        return f'{opening}"{cut(rest[:-1], most - 2 - len(opening))}{quote}'
    if isinstance(scalar, int) and not isinstance(scalar, bool) and scalar.bit_length() > 256:
        return "a large number"
    if isinstance(scalar, float) and isfinite(scalar):
        return float.__repr__(scalar)
    return json.dumps(scalar)


def _head(part: str | Ref, most: int) -> str | Ref:
    """A part of a text, cut so that it is not shorter than what is shown of it."""
    return part[: most * 2] if isinstance(part, str) else replace(part, path=part.path[:_MOST_ITEMS])


def _ref(ref: Ref) -> str:
    return LTP.variable(ref.name, ref.path[:_MOST_ITEMS])


def describe_condition(condition: Condition) -> str:
    """Returns a condition in LTP notation, without the parentheses around it.

    >>> from callsheet.ir import CompareOp
    >>> describe_condition(Compare(CompareOp.GT, Ref("rate"), Literal(5)))
    '$rate > 5'
    """
    return _condition(condition, 0)


def _condition(condition: Condition, depth: int) -> str:
    if depth > _MOST_DEPTH:
        return CUT
    match condition:
        case Compare(op=op, left=left, right=right):
            return f"{describe_value(left)} {op} {describe_value(right)}"
        case IsEmpty(value=value):
            return f"IS_EMPTY({describe_value(value)})"
        case NotEmpty(value=value):
            return f"NOT_EMPTY({describe_value(value)})"
        case Not(condition=inner):
            return f"NOT ({_condition(inner, depth + 1)})"
        case And(conditions=inner):
            return _join_conditions(" AND ", inner, depth)
        case Or(conditions=inner):
            return _join_conditions(" OR ", inner, depth)
    assert_never(condition)


def _join_conditions(word: str, conditions: tuple[Condition, ...], depth: int) -> str:
    shown = [_condition(c, depth + 1) for c in conditions[:_MOST_ITEMS]]
    grouped = [
        f"({text})" if isinstance(c, And | Or) else text for c, text in zip(conditions, shown, strict=False)
    ]
    return word.join([*grouped, CUT] if len(conditions) > _MOST_ITEMS else grouped)


def describe_action(action: Action) -> str:
    """Returns an action with its arguments.

    >>> describe_action(Call("READ_FILE", named=(("path", Literal("a.txt")),)))
    '@READ_FILE (path="a.txt")'
    """
    if isinstance(action, Call):
        text = short_call(action)
        if text is not None and text.isascii() and text.isprintable():
            return text
        return _call(action)
    match action:
        case Respond(values=values):
            return _with_values("@RESPOND", values)
        case Terminate(values=values):
            return _with_values("TERMINATE", values)
        case Replan(values=values):
            return _with_values("RE-PLAN", values)
        case Goto(target=target):
            return f"GOTO {printable(target)}"
    assert_never(action)


def short_call(call: Call) -> str | None:
    """Returns a call with few short arguments uncut, or None if anything has to be cut.

    If the result is printable ASCII, it equals that of `describe_action`.

    >>> short_call(Call("READ_FILE", named=(("path", Literal("a.txt")),)))
    '@READ_FILE (path="a.txt")'
    """
    positional, named = call.positional, call.named
    if len(positional) > _MOST_ITEMS or len(named) > _MOST_ITEMS:
        return None
    shown = ""
    for value in positional:
        text = _short(value)
        if text is None or len(text) > VALUE_WIDTH:
            return None
        shown = f"{shown}, {text}" if shown else text
    for name, value in named:
        text = _short(value)
        if text is None or len(text) > VALUE_WIDTH:
            return None
        shown = f"{shown}, {name}={text}" if shown else f"{name}={text}"
    return f"@{call.tool} ({shown})" if shown else f"@{call.tool}"


def _call(call: Call) -> str:
    """Returns any call, its arguments made printable and cut."""
    shown = [_fitted(value, VALUE_WIDTH) for value in call.positional[:_MOST_ITEMS]]
    for name, value in call.named[:_MOST_ITEMS]:
        shown.append(f"{printable(name)}={_fitted(value, VALUE_WIDTH)}")
    if len(call.positional) > _MOST_ITEMS or len(call.named) > _MOST_ITEMS:
        shown.append(CUT)
    return f"@{printable(call.tool)} ({', '.join(shown)})" if shown else f"@{printable(call.tool)}"


def _with_values(word: str, values: tuple[Value, ...]) -> str:
    if not values:
        return word
    return f"{word} ({_join((describe_value(value) for value in values[:_MOST_ITEMS]), len(values))})"


def describe_guard(step: Step) -> str:
    """Returns the guards before the step's action (FOREACH, IF); empty if it has none."""
    parts: list[str] = []
    if step.foreach is not None:
        parts.append(f"FOREACH ${printable(step.foreach.var)} IN {describe_value(step.foreach.source)}")
    if step.condition is not None:
        parts.append(f"IF {describe_condition(step.condition)}")
    return " ".join(parts)


def describe_failure(on_fail: OnFail) -> str:
    """Returns the failure handling, without the word ON_FAIL: `retry 3, GOTO S9`."""
    parts: list[str] = []
    if on_fail.retry is not None:
        parts.append(f"retry {on_fail.retry.count}")
    if on_fail.then is not None:
        parts.append(describe_action(on_fail.then))
    return ", ".join(parts)


def describe_output(step: Step) -> str:
    """Returns the output of a step, `> $var:cast`; empty if it has none."""
    if step.output is None:
        return ""
    cast = f":{step.output.cast}" if step.output.cast is not None else ""
    return f"> ${printable(step.output.var)}{cast}"


def describe_step(step: Step) -> str:
    """Returns a step on one line: id, guards, action, output, failure handling.

    >>> from callsheet.ir import Output
    >>> describe_step(Step("S1", Call("GET", (Ref("u"),)), output=Output("page")))
    'S1: @GET ($u) > $page'
    """
    guard = describe_guard(step)
    text = f"{printable(step.id)}: {guard + ' THEN ' if guard else ''}{describe_action(step.action)}"
    if step.output is not None:
        text += f" {describe_output(step)}"
    if step.on_fail is not None:
        text += f" ON_FAIL {describe_failure(step.on_fail)}"
    return text


class Wording:
    """How lines about a run word what is in its plan: in LTP."""

    def statement(self, one: Statement) -> str:
        """A statement of a plan with blocks, without the blocks inside it."""
        from callsheet.views.statements import describe_statement  # noqa: PLC0415 - only for version 2

        return describe_statement(one)

    def expression(self, text: str) -> str:
        """An expression, given as LTP writes it."""
        return text

    def variable(self, name: str, path: tuple[str | int, ...] = ()) -> str:
        """A variable, or a part of its value.

        >>> print(LTP.variable("page", ("items", 0)), LTP.variable("page", ("a.b",)))
        $page.items.0 $page["a.b"]
        """
        return "$" + name + format_path(path, '"')

    def result(self, name: str, path: tuple[str | int, ...] = ()) -> str:
        """What is no variable and has a value: the answer, or the result of an item or a sub-plan."""
        return LTP.variable(name, path).removeprefix("$")

    def node(self, node: Expression) -> str:
        """An expression."""
        from callsheet.frontends.expressions import format_expression  # noqa: PLC0415 - only for version 2

        return format_expression(node)

    def code(self, source: str) -> str:
        """The code between two calls."""
        return source

    def prose(self, text: str) -> str:
        """A sentence about the plan that names its variables and tools as LTP does."""
        return text

    def missing(self, name: str) -> str:
        """A variable that there is not."""
        return self.variable(name)

    def tool(self, name: str) -> str:
        """A tool, given by its name without `@`."""
        return f"@{name}"

    def branch(self, number: int, condition: Expression) -> str:
        """The beginning of a branch of an ?IF."""
        from callsheet.views.statements import describe_expression  # noqa: PLC0415 - only for version 2

        return f"{'ELSE IF' if number else '?IF'} ({describe_expression(condition)})"

    def condition(self, word: str, condition: str) -> str:
        """A test as LTP writes it, after `?IF`, `WHILE` or `UNTIL`."""
        return f"{word} ({condition})"

    def part(self, name: str) -> str:
        """A part of a statement, given as LTP calls it: `ELSE`, `ON_FAIL TOOL`, `FINALLY`."""
        return name

    def failure(self, kinds: Sequence[str]) -> str:
        """Failures of these kinds, of any if none is named."""
        return ", ".join(kinds) or "fails"

    def function(self, name: str, inputs: Sequence[str] | None = None) -> str:
        """A sub-plan, and its inputs where they are given."""
        given = "" if inputs is None else f" ({', '.join(map(self.variable, inputs))})"
        return f"PLAN {name}{given}"

    def given(self, name: str) -> str:
        """An input of the plan."""
        return f"INPUT {self.variable(name)}"

    def word(self, one: Statement) -> str:
        """What a statement is, in a word: the tool that it calls, or what it does."""
        return self.statement(one).partition(" ")[0]

    def target(self, name: str) -> str:
        """What a statement stores in a variable."""
        return f"> {self.variable(name)}"

    def recovery(self, one: Statement) -> str:
        """What a statement says about its failure in a word; "" if it says nothing."""
        from callsheet.ir.tree import recovery_of  # noqa: PLC0415 - only for version 2
        from callsheet.views.statements import describe_recovery  # noqa: PLC0415 - as above

        return describe_recovery(recovery_of(one))


class _PythonWording(Wording):
    """The wording of a plan that was written in Python: what Python cannot say is LTP."""

    def __init__(self, plan: Plan) -> None:
        from callsheet.frontends.python.printing.lines_printer import (  # noqa: PLC0415 - only for Python plans
            LinesPrinter,
        )

        self._lines = LinesPrinter(plan)

    def statement(self, one: Statement) -> str:
        said = self._lines.line(one)
        return super().statement(one) if said is None else fitted(said.replace("\n", " "), _MOST_LINE)

    def expression(self, text: str) -> str:
        said = self._lines.expression(text)
        return text if said is None else printable(said.replace("\n", " "))

    def variable(self, name: str, path: tuple[str | int, ...] = ()) -> str:
        place, slash, own = name.rpartition("/")  # of an item or a sub-plan under way
        said = self._lines.variable(own, path)
        return super().variable(name, path) if said is None else f"{place}{slash}{said}"

    def result(self, name: str, path: tuple[str | int, ...] = ()) -> str:
        return self._lines.result(name) + "".join(f"[{part!r}]" for part in path)

    def node(self, node: Expression) -> str:
        said = self._lines.test(node)
        return super().node(node) if said is None else said

    def code(self, source: str) -> str:
        return self._lines.code(source)

    def prose(self, text: str) -> str:
        return self._lines.sentence(text)

    def missing(self, name: str) -> str:
        return name

    def tool(self, name: str) -> str:
        return self._lines.tool(name)

    def branch(self, number: int, condition: Expression) -> str:
        said = self._lines.test(condition)
        if said is None:
            return super().branch(number, condition)
        return fitted(f"{'elif' if number else 'if'} {said}:".replace("\n", " "), _MOST_LINE)

    def condition(self, word: str, condition: str) -> str:
        return f"{word.lower().lstrip('?')} {self.expression(condition)}:"

    def part(self, name: str) -> str:
        return self._lines.part(name)

    def failure(self, kinds: Sequence[str]) -> str:
        return self._lines.part(f"ON_FAIL {', '.join(kinds)}".rstrip()).removesuffix(":")

    def function(self, name: str, inputs: Sequence[str] | None = None) -> str:
        return f"async def {name}" + ("" if inputs is None else f"({', '.join(map(self.variable, inputs))}):")

    def given(self, name: str) -> str:
        return f"parameter {self.variable(name)}"

    def word(self, one: Statement) -> str:
        return self._lines.word(one)

    def target(self, name: str) -> str:
        return self.variable(name)


LTP = Wording()


def wording_of(plan: Plan | None) -> Wording:
    """How lines about a run of a plan word what is in it: as the plan is written."""
    return _PythonWording(plan) if plan is not None and plan.in_python and plan.tree is not None else LTP


class ActionTexts:
    """What each step of a plan does, in one line, by its name in notes: its id, or in a tree its path.

    Once a new plan is in force, its steps may have the same ids and do something else: `forget`.
    """

    def __init__(self, plan: Plan | None, most: int = 80) -> None:
        self.words = wording_of(plan)
        self._texts: dict[str, str] = {}
        self._is_tree = plan is not None and plan.tree is not None
        if plan is None:
            return
        if plan.tree is None:
            self._texts = {step.id: cut(describe_action(step.action), most) for step in plan.steps}
            return
        from callsheet.ir.tree import all_statements  # noqa: PLC0415 - only for version 2

        statement = self.words.statement
        self._texts = {one.id: cut(statement(one), most) for one in all_statements(plan.tree)}

    def of(self, step: str) -> str:
        """What a step does; "" if that is not known."""
        return self._texts.get(step.rpartition("/")[2] if self._is_tree else step, "")

    def forget(self) -> None:
        """Another plan is in force."""
        self._texts, self.words = {}, LTP
