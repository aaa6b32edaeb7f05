"""Prints a plan of version 2 as Python, which reads back as a plan with the same calls and results.

In: a plan with a tree. Out: the text, and remarks on what Python means differently for some values. What
Python cannot say is an error with its place (PYT070); nothing is left out in silence. The text has been read
back once, so that it is a plan.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from typing import Final, NoReturn, cast

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Span
from callsheet.frontends.python.exceptions import DENIED, TOOL_ERROR, Exceptions, exception_name
from callsheet.frontends.python.printing.calls_printer import CHECKS
from callsheet.frontends.python.printing.code_printer import comments_of, links_of
from callsheet.frontends.python.printing.statements_printer import StatementsPrinter
from callsheet.frontends.python.printing.tree_questions import all_variables, is_cast, lenient_variables
from callsheet.frontends.python.printing.values_printer import (
    NotPython,
    ValuesPrinter,
    free_name,
    is_name,
    literal,
    timedelta_of,
)
from callsheet.frontends.python.reader import read_python
from callsheet.ir import tree, types
from callsheet.ir.failing import Failing
from callsheet.ir.inputs import duration_of
from callsheet.ir.plan import Plan

_INDENT: Final = "    "
_NUMBERED: Final = re.compile(r"^(error|item)_\d+$")
"""Names that the reader of Python makes."""


def print_python(plan: Plan) -> tuple[str, tuple[Diagnostic, ...]]:
    """A plan as Python, and remarks. Raises CallsheetError (PYT070) for what Python cannot say.

    >>> plan = read_python('async def main(n: int):\\n    return await score(n=n)').require()
    >>> print(print_python(plan)[0], end="")
    async def main(n: int):
        score_1 = await score(n=n)
        return score_1
    """
    if plan.tree is None:
        refuse("a plan of version 1 as Python", "callsheet upgrade writes it as version 2", None)
    printer = ProgramPrinter(plan, plan.tree)
    try:
        text = printer.program()
    except NotPython as error:
        refuse(error.what, error.instead, error.span)
    again = read_python(text)
    if again.plan is None:
        first = next(one for one in again.diagnostics if one.is_error)
        refuse(f"this plan, since a Python plan may not say this: {first.message}", first.help or "", None)
    is_same = again.plan.tree is not None and _form(again.plan.tree) == _form(plan.tree)
    return text, () if is_same else tuple(printer.remarks.values())


def refuse(what: str, instead: str, span: Span | None) -> NoReturn:
    """Raises CallsheetError (PYT070): Python cannot say this."""
    wrong = Diagnostic("PYT070", Severity.ERROR, f"Python cannot say {what}", span, instead)
    raise CallsheetError([wrong])


class ProgramPrinter:
    """Prints one plan."""

    def __init__(self, plan: Plan, of: tree.Tree) -> None:
        self.plan, self.tree = plan, of
        self.remarks: dict[str, Diagnostic] = {}
        self.functions: list[list[str]] = []
        self.definitions: dict[str, str] = {}
        self.own_errors: dict[str, None] = {}
        self.uses: set[str] = set()
        """Names of callsheet that the program imports."""
        self.needs_asyncio = self.needs_copy = False
        self.durations = {one.name for one in of.inputs if one.type is types.Basic.DURATION}
        blocks = (of.body, *(one.body for one in of.plans))
        self.links = frozenset(name for one in blocks for name in links_of(one))
        """Variables that say which others share objects."""
        self.texts_of_errors = lenient_variables(blocks)
        """Variables of which a failure is read as its text alone."""
        self.casts = {is_cast(each) for one in blocks for each in tree.statements(one)}
        self.main = _main_name(of)
        self.helpers = {self.main, *(one.name for one in of.plans)}
        tools = {one.tool.lower() for one in tree.acts(of)}
        names: dict[str, str] = {}
        for name in sorted(every := all_variables(of)):
            plain = _NUMBERED.sub(r"\1", name)
            wanted = plain if plain not in every else name
            names[name] = free_name(wanted, {*names.values(), *tools, *self.helpers})
        self.values = ValuesPrinter(names, self.remark)
        self.names = names

    # ------------------------------------------------------------ the file

    def program(self) -> str:
        """The text of the program."""
        plans = [self._sub_plan(one) for one in self.tree.plans]
        main = self._main_function()
        lines = list(self._imports())
        for name in [one for one in self.own_errors if one not in self.definitions]:
            lines += ["", "", f"class {name}(Exception):", f"{_INDENT}pass"]
        for text in self.definitions.values():
            lines += ["", "", *text.split("\n")]
        for function in [*plans, *self.functions, main]:
            lines += ["", "", *function]
        lines += [f"# {one}".rstrip() for one in self.plan.comments]
        return "\n".join(lines).lstrip("\n") + "\n"

    def remark(self, text: str, span: Span | None) -> None:
        """Say once that Python means something else."""
        self.remarks.setdefault(text, Diagnostic("PYT071", Severity.WARNING, text, span))

    def _imports(self) -> Iterator[str]:
        if self.needs_asyncio:
            yield "import asyncio"
        if self.needs_copy:
            yield "import copy"
        modules = {name: set(names) for name, names in self.values.imports.items()}
        modules.setdefault("callsheet", set()).update(self.uses)
        for module in sorted(modules, key=lambda name: (name == "callsheet", name)):
            if modules[module]:
                yield f"from {module} import {', '.join(sorted(modules[module]))}"

    def _main_function(self) -> list[str]:
        lines = [one for given in self.tree.inputs for one in self._about_input(given)]
        head = ", ".join(self._input(one) for one in _in_order(self.tree.inputs))
        result = "" if self.tree.result is None else f" -> {self._type(self.tree.result)}"
        lines.append(f"async def {self.main}({head}){result}:")
        goal = self.plan.goal or self.plan.title
        if goal:
            lines.append(f'{_INDENT}"""{_doc(goal)}"""')
        return lines + self._body(self.tree.body, is_main=True)

    def _sub_plan(self, one: tree.SubPlan) -> list[str]:
        lines = comments_of(one.comments, "")
        for given in one.inputs:
            if given.type is not types.Basic.JSON:
                self.remark(CHECKS, given.span)
        if one.result is not None:
            self.remark(CHECKS, one.span)
        head = ", ".join(self._input(given) for given in _in_order(one.inputs))
        return [*lines, f"async def {one.name}({head}):", *self._body(one.body, is_main=False)]

    def _about_input(self, one: tree.Input) -> Iterator[str]:
        if self.names[one.name] != one.name:
            raise NotPython(f"an input called {one.name}", "give the input another name", one.span)
        yield from comments_of(one.comments, "")
        if one.help:
            yield f"# {one.name}: {one.help}"

    def _input(self, one: tree.Input) -> str:
        kind = "" if one.type is types.Basic.JSON else f": {self._type(one.type)}"
        if one.is_secret:
            self.uses.add("Secret")
            kind = f": Secret[{kind[2:]}]" if kind else ": Secret"
        if one.is_required:
            return f"{self.names[one.name]}{kind}"
        return f"{self.names[one.name]}{kind}{' = ' if kind else '='}{self._default(one)}"

    def _default(self, one: tree.Input) -> str:
        """The default of an input; what it says as a text about time is a value of its type in Python."""
        kind = one.type.of if isinstance(one.type, types.Maybe) else one.type
        try:
            match one.default, kind:
                case str(text), types.Basic.DATE:
                    made = date.fromisoformat(text)
                    return f"date({made.year}, {made.month}, {made.day})"
                case str(text), types.Basic.DATETIME:
                    return f"datetime.fromisoformat({datetime.fromisoformat(text).isoformat()!r})"
                case str(text), types.Basic.DURATION:
                    return ast.unparse(timedelta_of(duration_of(text)))
                case _:
                    return ast.unparse(literal(one.default))
        except ValueError as error:
            raise NotPython(f"the default of ${one.name}: {error}", "repair the default", one.span) from None

    def _type(self, of: types.Type) -> str:
        match of:
            case types.Basic.JSON:
                self.values.imports.setdefault("typing", set()).add("Any")
                return "Any"
            case types.Basic.STR | types.Basic.INT | types.Basic.FLOAT | types.Basic.BOOL:
                return of.value
            case types.Basic.DATE | types.Basic.DATETIME | types.Basic.DURATION:
                name = "timedelta" if of is types.Basic.DURATION else of.value
                self.values.imports.setdefault("datetime", set()).add(name)
                return name
            case types.ListOf(item=item):
                return "list" if item is types.Basic.JSON else f"list[{self._type(item)}]"
            case types.DictOf(value=value):
                return "dict" if value is types.Basic.JSON else f"dict[str, {self._type(value)}]"
            case types.Maybe(of=inner):
                return f"{self._type(inner)} | None"
            case types.Named(name=name):
                found = self.tree.named_types.get(name)
                if found is None:
                    raise NotPython(f"the type {name}", "declare it: TYPE … = {…}")
                return self._record(name, found)
            case types.Record():
                return self._record(self.helper_name("Record"), of)
            case types.OneOf(values=values):
                self.values.imports.setdefault("typing", set()).add("Literal")
                return f"Literal[{', '.join(map(repr, values))}]"

    def _record(self, name: str, of: types.Record) -> str:
        """The name of the class that a record is."""
        if name in self.definitions:
            return name
        may_lack = any(isinstance(kind, types.Maybe) for _, kind in of.fields)
        self.values.imports.setdefault("typing", set()).update(("TypedDict", "NotRequired")[: 1 + may_lack])
        lines = [f"class {name}(TypedDict):"]
        for field, kind in of.fields:
            if not is_name(field):
                raise NotPython(f"a record with the field {field}", "write dict")
            written = self._type(kind)
            lines.append(
                f"{_INDENT}{field}: {f'NotRequired[{written}]' if isinstance(kind, types.Maybe) else written}"
            )
        self.definitions[name] = "\n".join(lines if of.fields else [*lines, f"{_INDENT}pass"])
        return name

    # ------------------------------------------------------------ blocks

    def _body(self, block: tree.Block, *, is_main: bool) -> list[str]:
        """The lines of a function, which has variables of its own."""
        self.values.kept.clear()
        return StatementsPrinter(self, is_main=is_main).lines(block, _INDENT)

    def helper(self, stem: str, parameters: Sequence[str], body: list[str]) -> str:
        """A new async function at the top level; its name."""
        name = self.helper_name(stem)
        self.functions.append([f"async def {name}({', '.join(parameters)}):", *body])
        return name

    def helper_name(self, stem: str) -> str:
        """A name that nothing in the program has."""
        name, number = stem, 1
        while name in self.helpers or name in self.names.values():
            number += 1
            name = f"{stem}_{number}"
        self.helpers.add(name)
        return name

    def errors(self, kinds: Iterable[str], span: Span | None) -> list[str]:
        """The exceptions that stand for kinds of failure; a loop that runs out of rounds asserts."""
        kinds = [Failing.REQUIRE.value if one == Failing.ROUNDS.value else one for one in kinds]
        wanted = {*kinds}
        own = Exceptions(dict.fromkeys(self.own_errors, "Exception"))
        names: list[str] = []
        for kind in kinds:
            name = exception_name(kind)
            if name not in names and not any(kind in own.caught([one]) for one in names):
                names.append(self.error(kind))
        own = Exceptions(dict.fromkeys(self.own_errors, "Exception"))
        caught = {*own.caught(names)}
        if not wanted <= caught | {*names}:
            raise NotPython(f"a handler of {', '.join(sorted(wanted - caught))}", "handle any failure", span)
        if extra := caught - wanted - {*names}:
            shown = ", ".join(sorted(extra)[:3])
            self.remark(f"except {', '.join(names)} also catches failures of the kind {shown}", span)
        return names

    def error(self, kind: str) -> str:
        """The exception of a kind of failure, declared if it is the plan's own."""
        name = exception_name(kind)
        if name in (TOOL_ERROR, DENIED):
            self.uses.add(name)
        elif not Exceptions({}).is_exception(name):
            if not is_name(name):
                raise NotPython(f"a failure of the kind {kind}", "give it a name of letters")
            self.own_errors.setdefault(name)
        return name


def _form(node: object) -> object:
    """What a tree says, without the ids of statements and the places in a text."""
    if is_dataclass(node):
        left_out = {"id", "is_named"}
        if isinstance(node, tree.Recovery) and node.undo is not None:
            left_out.add("handlers")  # made of the inverses, with names made of the id
        parts = [field.name for field in fields(node) if field.compare and field.name not in left_out]
        return type(node).__name__, *(_form(getattr(node, name)) for name in parts)
    if isinstance(node, tuple):
        return tuple(map(_form, cast("tuple[object, ...]", node)))
    return (type(node).__name__, node) if isinstance(node, (bool, int, float)) else node


def _main_name(of: tree.Tree) -> str:
    """The name of the main function, which the ids of its steps begin with."""
    taken = {one.tool.lower() for one in tree.acts(of)} | all_variables(of)
    firsts = {one.id.split(".")[0] for one in of.body if "." in one.id}
    for name in sorted(firsts):
        if is_name(name) and of.plan(name) is None and name not in taken:
            return name
    return "main"


def _in_order(inputs: Iterable[tree.Input]) -> list[tree.Input]:
    """Inputs as Python has them, those with a default last; plans are given them by name."""
    return sorted(inputs, key=lambda one: not one.is_required)


def _doc(text: str) -> str:
    escaped = text.replace("\\", "\\\\")
    inside = escaped.rstrip('"')
    return inside.replace('"""', '\\"\\"\\"') + '\\"' * (len(escaped) - len(inside))
