"""Prints a plan of version 2 as Python, which reads back as a plan with the same calls and results.

In: a plan with a tree. Out: the text, and remarks on what Python means differently for some values. What
Python cannot say is an error with its place (PYT070); nothing is left out in silence. The text has been read
back once, so that it is a plan.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Final, NoReturn, assert_never, cast

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Span
from callsheet.frontends.expressions.names import METHOD_NAMES
from callsheet.frontends.python.exceptions import DENIED, TOOL_ERROR, Exceptions, exception_name
from callsheet.frontends.python.program import BINDINGS, Binding
from callsheet.frontends.python.reader import read_python
from callsheet.frontends.python.source import names_bound, names_read
from callsheet.frontends.python.values_printer import (
    NotPython,
    ValuesPrinter,
    free_name,
    literal,
)
from callsheet.ir import expression as ir
from callsheet.ir import tree, types
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression, variables_in
from callsheet.ir.plan import Plan

_INDENT: Final = "    "
_OPERATIONS: Final = {binding.tool: (name, binding) for name, binding in BINDINGS.items()}
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NUMBERED: Final = re.compile(r"^(error|item)_\d+$")
"""Names that the reader of Python makes."""
ITEMS: Final = (
    "a failed item ends Python's loop at once, and items run one after another; in LTP all items run"
)
ARGUMENTS: Final = "Python computes the arguments of all calls before the first starts; in LTP each by itself"
CHECKS: Final = "Python does not check this type"
WAITS: Final = "how long to wait between attempts is set by the run in LTP, and is written out in Python"
ROUNDS: Final = (
    "running out of rounds fails as an assertion in Python; in LTP as a failure of the kind ROUNDS"
)


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
    printer = _Printer(plan, plan.tree)
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


class _Printer:
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
        self.main = _main_name(of)
        self.helpers = {self.main, *(one.name for one in of.plans)}
        tools = {one.tool.lower() for one in tree.acts(of)}
        names: dict[str, str] = {}
        for name in sorted(every := _all_variables(of)):
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
        head = ", ".join(self._input(one) for one in self.tree.inputs)
        result = "" if self.tree.result is None else f" -> {self._type(self.tree.result)}"
        lines.append(f"async def {self.main}({head}){result}:")
        goal = self.plan.goal or self.plan.title
        if goal:
            lines.append(f'{_INDENT}"""{_doc(goal)}"""')
        return lines + self._body(self.tree.body, is_main=True)

    def _sub_plan(self, one: tree.SubPlan) -> list[str]:
        lines = _comments(one.comments, "")
        for given in one.inputs:
            if given.type is not types.Basic.JSON:
                self.remark(CHECKS, given.span)
        if one.result is not None:
            self.remark(CHECKS, one.span)
        head = ", ".join(self._input(given) for given in one.inputs)
        return [*lines, f"async def {one.name}({head}):", *self._body(one.body, is_main=False)]

    def _about_input(self, one: tree.Input) -> Iterator[str]:
        if one.is_secret:
            raise NotPython(f"that the input ${one.name} is secret", "give its value with --secret", one.span)
        if self.names[one.name] != one.name:
            raise NotPython(f"an input called {one.name}", "give the input another name", one.span)
        yield from _comments(one.comments, "")
        if one.help:
            yield f"# {one.name}: {one.help}"

    def _input(self, one: tree.Input) -> str:
        kind = "" if one.type is types.Basic.JSON else f": {self._type(one.type)}"
        if one.is_required:
            return f"{self.names[one.name]}{kind}"
        return f"{self.names[one.name]}{kind}{' = ' if kind else '='}{ast.unparse(literal(one.default))}"

    def _type(self, of: types.Type) -> str:
        match of:
            case types.Basic.JSON:
                self.values.imports.setdefault("typing", set()).add("Any")
                return "Any"
            case types.Basic.STR | types.Basic.INT | types.Basic.FLOAT | types.Basic.BOOL:
                return of.value
            case types.ListOf(item=item):
                return "list" if item is types.Basic.JSON else f"list[{self._type(item)}]"
            case types.DictOf(value=value):
                return "dict" if value is types.Basic.JSON else f"dict[str, {self._type(value)}]"
            case types.Maybe(of=inner):
                return f"{self._type(inner)} | None"
            case types.OneOf(values=values):
                self.values.imports.setdefault("typing", set()).add("Literal")
                return f"Literal[{', '.join(map(repr, values))}]"
            case _:
                raise NotPython(f"the type {types.type_text(of)}", "write dict, or keep the plan as LTP text")

    # ------------------------------------------------------------ blocks

    def _body(self, block: tree.Block, *, is_main: bool) -> list[str]:
        """The lines of a function."""
        return _Body(self, is_main=is_main).lines(block, _INDENT)

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
        """The exceptions that stand for kinds of failure."""
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
            if not _IDENTIFIER.fullmatch(name) or keyword.iskeyword(name):
                raise NotPython(f"a failure of the kind {kind}", "give it a name of letters")
            self.own_errors.setdefault(name)
        return name


class _Body:
    """Prints the statements of one function."""

    def __init__(self, of: _Printer, *, is_main: bool, given: str | None = None) -> None:
        self.of, self.values, self.names = of, of.values, of.names
        self.is_main = is_main
        self.given = given
        """The variable that YIELD sets; None where no item is around, or where YIELD returns or appends."""
        self.yields: list[str] = []
        """What stands for YIELD: `return`, or a list to append to."""
        self.before_next: list[str | None] = []
        """What stands before `continue` in the loops around."""

    def lines(self, block: tree.Block, indent: str) -> list[str]:
        """The lines of a block, `pass` if it is empty."""
        made: list[str] = []
        for number, one in enumerate(block):
            made += _comments(one.comments, indent)
            try:
                inner = list(self._statement(one, block[number + 1 :], indent))
            except NotPython as error:
                error.span = error.span or one.span
                raise
            if one.remark and len(inner) == 1:
                inner = [f"{inner[0]}  # {one.remark}"]
            elif one.remark:
                inner = [f"{indent}# {one.remark}", *inner]
            made += inner
        if not any(line.strip() and not line.lstrip().startswith("#") for line in made):
            made.append(f"{indent}pass")
        return made

    def _statement(self, one: tree.Statement, after: tree.Block, indent: str) -> Iterator[str]:  # noqa: PLR0912
        recovery = tree.recovery_of(one)
        if recovery is not None and not isinstance(one, tree.Try):
            yield from self._recovered(one, recovery, indent)
            return
        match one:
            case tree.Act() | tree.Invoke():
                yield f"{indent}{self._stored(one.into, ast.unparse(ast.Await(self.call(one))))}"
            case tree.Compute():
                yield from self._compute(one, after, indent)
            case tree.Let(name=name, value=value, type=kind):
                if kind is not None:
                    self.of.remark(CHECKS, one.span)
                yield f"{indent}{self.names[name]} = {self.text(value)}"
            case tree.Assign(name=name, value=value):
                yield f"{indent}{self.names[name]} = {self.text(value)}"
            case tree.Require(condition=condition, message=message):
                said = "" if message is None else f", {self.text(message)}"
                yield f"{indent}assert {self.text(condition)}{said}"
            case tree.Say():
                yield from self._say(one, indent)
            case tree.If(branches=branches, otherwise=otherwise):
                for number, branch in enumerate(branches):
                    yield f"{indent}{'elif' if number else 'if'} {self.text(branch.condition)}:"
                    yield from self.lines(branch.body, indent + _INDENT)
                if otherwise is not None:
                    yield f"{indent}else:"
                    yield from self.lines(otherwise, indent + _INDENT)
            case tree.Foreach():
                yield from self._together(one, indent) if one.together else self._for(one, indent)
            case tree.Repeat():
                yield from self._repeat(one, indent)
            case tree.Try():
                yield from self._try(one.recovery, self.lines(one.body, indent + _INDENT), indent, one.span)
            case tree.Parallel(members=members):
                yield from self._parallel(members, indent)
            case _:
                assert_never(one)

    def text(self, value: Expression) -> str:
        """An expression as text."""
        return _unparsed(self.values.value(value))

    def _stored(self, into: tree.Into | None, text: str) -> str:
        if into is None:
            return text
        if into.type is not None:
            self.of.remark(CHECKS, into.span)
        return f"{self.names[into.name]} = {text}"

    # ------------------------------------------------------------ calls

    def call(self, one: tree.Act | tree.Invoke) -> ast.Call:
        """A call, without await."""
        if isinstance(one, tree.Invoke):
            named = [ast.keyword(self.names[name], self.values.value(value)) for name, value in one.named]
            return ast.Call(ast.Name(one.plan, ast.Load()), [], named)
        known = _OPERATIONS.get(one.tool)
        if known is not None:
            made = self._operation(one, *known)
            if made is not None:
                self.of.uses.add(known[0])
                return made
        name = one.tool.lower()
        name = f"{name}_" if keyword.iskeyword(name) else name
        plain = [
            ast.keyword(key, self.values.value(value))
            for key, value in one.named
            if _IDENTIFIER.fullmatch(key) and not keyword.iskeyword(key)
        ]
        if len(plain) < len(one.named):
            odd = next(
                key for key, _ in one.named if not _IDENTIFIER.fullmatch(key) or keyword.iskeyword(key)
            )
            raise NotPython(f"an argument called {odd}", "keep this plan as LTP text", one.span)
        positional = [self.values.value(value) for value in one.positional]
        return ast.Call(ast.Name(name, ast.Load()), positional, plain)

    def _operation(self, one: tree.Act, name: str, binding: Binding) -> ast.Call | None:
        """A call of an operation of callsheet by its name in Python; None if it takes these otherwise."""
        by_place = [python for python, ltp in binding.parameters if not ltp]
        by_name = {ltp: python for python, ltp in binding.parameters if ltp}
        if len(one.positional) > len(by_place) or any(key not in by_name for key, _ in one.named):
            return None
        first = [python for python, _ in binding.parameters][: len(one.positional)]
        if by_place[: len(one.positional)] == first:
            positional = [self.values.value(value) for value in one.positional]
            words = list[ast.keyword]()
        else:
            positional = []
            words = [
                ast.keyword(key, self.values.value(value))
                for key, value in zip(by_place, one.positional, strict=False)
            ]
        words += [ast.keyword(by_name[key], self.values.value(value)) for key, value in one.named]
        return ast.Call(ast.Name(name, ast.Load()), positional, words)

    # ------------------------------------------------------------ words

    def _say(self, one: tree.Say, indent: str) -> Iterator[str]:
        values = one.values
        match one.word:
            case tree.Word.RESPOND:
                if not self.is_main:
                    raise NotPython("@RESPOND inside a function that runs beside others", "return a value")
                yield (
                    f"{indent}return {self._joined(values)}".removesuffix(" None")
                    if values
                    else f"{indent}return"
                )
            case tree.Word.RETURN:
                yield f"{indent}return {self._joined(values)}" if values else f"{indent}return"
            case tree.Word.YIELD:
                yield from self._yield(values[0], indent)
            case tree.Word.NOTE:
                self.of.uses.add("note")
                yield f"{indent}note({self.text(values[0])})"
            case tree.Word.FAIL:
                yield f"{indent}{self._fail(one)}"
            case tree.Word.BREAK:
                yield f"{indent}break"
            case tree.Word.CONTINUE:
                if self.before_next and self.before_next[-1]:
                    yield f"{indent}{self.before_next[-1]}"
                yield f"{indent}continue"
            case tree.Word.WAIT:
                self.of.needs_asyncio = True
                yield f"{indent}await asyncio.sleep({self._seconds(values[0])})"
            case tree.Word.TERMINATE | tree.Word.REPLAN:
                raise NotPython(f"{one.word}", "return an answer, or raise an error", one.span)
            case _:
                assert_never(one.word)

    def _joined(self, values: tuple[Expression, ...]) -> str:
        if len(values) == 1:
            return self.text(values[0])
        parts: list[str | ir.Hole] = []
        for value in values:
            parts += [" ", ir.Hole(value)] if parts else [ir.Hole(value)]
        return self.text(ir.Text(tuple(parts)))

    def _seconds(self, value: Expression) -> str:
        match value:
            case Literal():
                return self.text(value)
            case ir.Call(function="duration"):
                return f"{self.text(value)}.total_seconds()"
            case _:
                return self.text(value)

    def _fail(self, one: tree.Say) -> str:
        value = one.values[0] if one.values else None
        if one.kind is None and isinstance(value, ir.Variable) and value.name in self.values.failures:
            return "raise"
        if one.kind is None or one.kind == tree.Failing.FAIL.value:
            self.of.remark(
                "raise Exception fails with the kind Exception; in LTP with the kind FAIL", one.span
            )
            return f"raise Exception({self._joined(one.values)})"
        return f"raise {self.of.error(one.kind)}({self._joined(one.values)})"

    def _yield(self, value: Expression, indent: str) -> Iterator[str]:
        if self.given is not None:
            yield f"{indent}{self.given} = {self.text(value)}"
        elif self.yields and self.yields[-1] == "return":
            yield f"{indent}return {self.text(value)}"
        elif self.yields and self.yields[-1]:
            yield f"{indent}{self.yields[-1]}.append({self.text(value)})"

    # ------------------------------------------------------------ failures

    def _recovered(self, one: tree.Statement, recovery: tree.Recovery, indent: str) -> Iterator[str]:
        bare = replace(one, recovery=None)  # pyright: ignore[reportCallIssue, reportArgumentType]
        again, recovery = recovery.again, replace(recovery, again=None)
        is_alone = recovery == tree.Recovery()
        inner = indent if is_alone else indent + _INDENT
        if again is None:
            body = list(self._statement(bare, (), inner))
        else:
            attempted = list(self._statement(bare, (), inner + _INDENT + _INDENT))
            body = list(self._attempts(again, attempted, inner, one.span))
        if is_alone:
            yield from body
            return
        names = tree.variables_set(one)
        match recovery.remedy:
            case None:
                yield from self._try(recovery, body, indent, one.span)
                return
            case tree.Use(value=value):
                handled = [f"{indent}{_INDENT}{self.names[name]} = {self.text(value)}" for name in names]
            case tree.GoOn() if not names:
                handled = []
            case tree.Leave() | tree.GoOn() | tree.Skip():
                word = {"GoOn": "CONTINUE", "Skip": "SKIP", "Leave": "TERMINATE"}[
                    type(recovery.remedy).__name__
                ]
                raise NotPython(f"ON_FAIL {word}", "an ON_FAIL block, or ON_FAIL USE (value)", one.span)
            case _:
                assert_never(recovery.remedy)
        if isinstance(one, tree.Foreach):
            raise NotPython(
                "ON_FAIL of a loop's items", "handle the failure inside the loop's body", one.span
            )
        yield f"{indent}try:"
        yield from body
        yield f"{indent}except Exception:"
        yield from handled or [f"{indent}{_INDENT}pass"]
        if recovery.final is not None:
            yield f"{indent}finally:"
            yield from self.lines(recovery.final, indent + _INDENT)

    def _attempts(
        self, again: tree.Again, attempted: list[str], indent: str, span: Span | None
    ) -> Iterator[str]:
        """`@RETRY`, as a loop that is left after the first attempt that succeeds."""
        self.of.needs_asyncio = True
        attempt = self.of.helper_name("attempt")
        if again.delay is None or again.backoff is None:
            self.of.remark(WAITS, span)
        delay = 1 if again.delay is None else again.delay
        growth = f" * {again.backoff} ** {attempt}" if again.backoff not in (None, 1) else ""
        inner = indent + _INDENT
        yield f"{indent}for {attempt} in range({again.count + 1}):"
        yield f"{inner}try:"
        yield from attempted
        yield f"{inner}{_INDENT}break"
        yield f"{inner}except Exception:"
        yield f"{inner}{_INDENT}if {attempt} == {again.count}:"
        yield f"{inner}{_INDENT}{_INDENT}raise"
        yield f"{inner}{_INDENT}await asyncio.sleep({delay}{growth})"

    def _try(self, recovery: tree.Recovery, body: list[str], indent: str, span: Span | None) -> Iterator[str]:
        if recovery.remedy is not None:
            raise NotPython("a remedy of a TRY", "an ON_FAIL block", span)
        if recovery.again is not None:
            raise NotPython("@RETRY of a block", "a loop with try in it: for attempt in range(3): …", span)
        yield f"{indent}try:"
        yield from body
        for handler in recovery.handlers:
            self.values.failures.add(handler.binds)
            inner = self.lines(handler.body, indent + _INDENT)
            self.values.failures.discard(handler.binds)
            names = ["Exception"] if not handler.kinds else self.of.errors(handler.kinds, handler.span)
            caught = names[0] if len(names) == 1 else f"({', '.join(names)})"
            name = self.names[handler.binds]
            is_used = any(re.search(rf"\b{name}\b", line) for line in inner)
            yield f"{indent}except {caught}{f' as {name}' if is_used else ''}:"
            yield from inner
        if recovery.final is not None:
            yield f"{indent}finally:"
            yield from self.lines(recovery.final, indent + _INDENT)

    # ------------------------------------------------------------ loops

    def _for(self, one: tree.Foreach, indent: str) -> Iterator[str]:
        inside = [*_own_statements(one.body)]
        words = {each.word for each in inside if isinstance(each, tree.Say)}
        if not one.in_order and not words & {tree.Word.BREAK, tree.Word.RESPOND, tree.Word.RETURN}:
            self.of.remark(ITEMS, one.span)
        source = self.values.source(one.source)
        if one.limit is not None:
            listed = ast.Call(ast.Name("list", ast.Load()), [source], [])
            source = ast.Subscript(listed, ast.Slice(None, self.values.value(one.limit)), ast.Load())
        saved = self.given, list(self.yields)
        self.given = None
        if one.into is None:
            self.yields.append("")
            self.before_next.append(None)
            body = self.lines(one.body, indent + _INDENT)
        else:
            if tree.Word.BREAK in words:
                raise NotPython("the list of a loop that BREAK leaves", "LET a list, and SET it", one.span)
            if one.into.type is not None:
                self.of.remark(CHECKS, one.into.span)
            into = self.names[one.into.name]
            yield f"{indent}{into} = []"
            body = self._collecting(one.body, into, indent)
        yield f"{indent}for {self.names[one.var]} in {_unparsed(source)}:"
        yield from body
        self.given, self.yields = saved
        self.before_next.pop()

    def _collecting(self, block: tree.Block, into: str, indent: str) -> list[str]:
        """The body of a loop whose items give values, which are appended to a list."""
        if _yields_once(block):
            self.yields.append(into)
            self.before_next.append(None)
            return self.lines(block, indent + _INDENT)
        given = free_name(f"{into}_item", self.names.values())
        self.given = given
        self.before_next.append(f"{into}.append({given})")
        first = [f"{indent}{_INDENT}{given} = None"]
        last = [f"{indent}{_INDENT}{into}.append({given})"]
        return first + self.lines(block, indent + _INDENT) + last

    def _together(self, one: tree.Foreach, indent: str) -> Iterator[str]:
        source = one.source
        if one.limit is not None:
            source = ir.Slice(ir.Call("list", (source,)), None, one.limit)
        self.of.uses.add("gather")
        call = _single_call(one.body)
        if call is not None and one.most is None:
            yield f"{indent}{self._stored(one.into, self._gathered(one, call, source))}"
            return
        parameters, given = self._captured(one.body, {one.var})
        inner, inside = _Body(self.of, is_main=False), _INDENT
        if one.most is not None:  # an inner function, which sees the semaphore
            inside = indent + _INDENT + _INDENT
        if _yields_once(one.body) or not _yields(one.body):
            inner.yields.append("return")
            body = inner.lines(one.body, inside)
        else:
            inner.given = free_name("result", self.names.values())
            body = [f"{inside}{inner.given} = None", *inner.lines(one.body, inside)]
            body.append(f"{inside}return {inner.given}")
        var = self.names[one.var]
        if one.most is not None:
            self.of.needs_asyncio = True
            name = self.of.helper_name(f"each_{var}")
            limit = self.of.helper_name("limit")
            yield f"{indent}{limit} = asyncio.Semaphore({one.most})"
            yield f"{indent}async def {name}({var}):"
            yield f"{indent}{_INDENT}async with {limit}:"
            yield from body
            given = []
        else:
            name = self.of.helper(f"each_{var}", [var, *parameters], body)
        arguments = ", ".join([var, *given])
        text = f"await gather(*[{name}({arguments}) for {var} in {_unparsed(self.values.source(source))}])"
        yield f"{indent}{self._stored(one.into, text)}"

    def _gathered(self, one: tree.Foreach, call: tree.Act | tree.Invoke, source: Expression) -> str:
        """`await gather(*[f(x) for x in xs])`, with the item's value in its place if it is computed there."""
        values = [value for _, value in call.named]
        if isinstance(call, tree.Act):
            values += call.positional
        if not all(_is_plain(value, one.var) for value in values):
            self.of.remark(ARGUMENTS, one.span)
        written = _with_element(call, one.var, source)
        if written is not None and isinstance(source, ir.Comprehension):
            folded = self.values.comprehension_of(source, lambda: self.call(written))
            return f"await gather(*{_unparsed(folded)})"
        made = ast.ListComp(
            self.call(call),
            [
                ast.comprehension(
                    ast.Name(self.names[one.var], ast.Store()), self.values.source(source), [], 0
                )
            ],
        )
        return f"await gather(*{_unparsed(made)})"

    def _captured(self, block: tree.Block, own: set[str]) -> tuple[list[str], list[str]]:
        """The variables that a block reads from outside, as parameters and as arguments."""
        read: dict[str, None] = {}
        made = set(own)
        for each in tree.statements(block):
            made |= {*tree.variables_set(each), *_binds(each)}
        for each in tree.statements(block):
            read |= dict.fromkeys(name for name in tree.variables_read(each) if name not in made)
        names = [self.names[name] for name in read]
        return names, names

    def _repeat(self, one: tree.Repeat, indent: str) -> Iterator[str]:
        inner = indent + _INDENT
        condition = "True" if one.while_ is None else self.text(one.while_)
        has_next = any(
            isinstance(each, tree.Say) and each.word is tree.Word.CONTINUE
            for each in _own_statements(one.body)
        )
        if has_next and (one.until is not None or one.every is not None):
            raise NotPython("CONTINUE in a REPEAT with UNTIL", "write the rest of the round in ?IF", one.span)
        rounds = free_name("rounds", self.names.values())
        if one.most is not None:
            self.of.remark(ROUNDS, one.span)
            yield f"{indent}{rounds} = 0"
        yield f"{indent}while {condition}:"
        if one.most is not None:
            yield f"{inner}assert {rounds} < {self.text(one.most)}, 'the loop ran out of rounds'"
            yield f"{inner}{rounds} += 1"
        self.before_next.append(None)
        yield from self.lines(one.body, inner)
        self.before_next.pop()
        if one.until is not None:
            yield f"{inner}if {self.text(one.until)}:"
            yield f"{inner}{_INDENT}break"
        if one.every is not None:
            self.of.needs_asyncio = True
            yield f"{inner}await asyncio.sleep({self._seconds(one.every)})"

    def _parallel(self, members: tree.Block, indent: str) -> Iterator[str]:
        self.of.uses.add("gather")
        targets: list[str] = []
        calls: list[str] = []
        for member in members:
            if isinstance(member, (tree.Act, tree.Invoke)) and member.recovery is None:
                values = [value for _, value in member.named]
                values += member.positional if isinstance(member, tree.Act) else ()
                if not all(_is_plain(value, None) for value in values):
                    self.of.remark(ARGUMENTS, member.span)
                into = member.into
                if into is not None and into.type is not None:
                    self.of.remark(CHECKS, into.span)
                targets.append("_" if into is None else self.names[into.name])
                calls.append(_unparsed(self.call(member)))
                continue
            made = [
                *dict.fromkeys(
                    name for each in _own_statements((member,)) for name in tree.variables_set(each)
                )
            ]
            parameters, given = self._captured((member,), set())
            body = _Body(self.of, is_main=False).lines((member,), _INDENT)
            result = ", ".join(self.names[name] for name in made)
            if made:
                body.append(f"{_INDENT}return {result}")
            name = self.of.helper("part", parameters, body)
            targets.append(f"({result})" if len(made) > 1 else result or "_")
            calls.append(f"{name}({', '.join(given)})")
        waited = f"await gather({', '.join(calls)})"
        if all(target == "_" for target in targets):
            yield f"{indent}{waited}"
        elif len(targets) == 1:
            yield f"{indent}{targets[0]}, = {waited}"
        else:
            yield f"{indent}{', '.join(targets)} = {waited}"

    # ------------------------------------------------------------ pure code

    def _compute(self, one: tree.Compute, after: tree.Block, indent: str) -> Iterator[str]:
        try:
            module = ast.parse(one.source)
        except SyntaxError as error:
            raise NotPython(f"this COMPUTE: {error.msg}", "repair its source", one.span) from None
        taken = {*self.names} - {*one.into, *one.names}
        temporaries = names_bound(*module.body) - {*one.into}
        renamed = {name: self.names[name] for name in (*one.names, *one.into)}
        for name in temporaries & taken:
            renamed[name] = free_name(f"{name}_", {*self.names.values(), *temporaries})
        copied = self._copied(one, module, after)
        for name in copied:
            self.of.needs_copy = True
            new = free_name(f"{self.names[name]}_copy", self.names.values())
            yield f"{indent}{new} = copy.deepcopy({self.names[name]})"
            renamed[name] = new
        body = [_Renamed(renamed, self.values.failures).visit(each) for each in module.body]
        for each in body:
            ast.fix_missing_locations(each)
            if self._is_hoisted(each):
                continue
            yield from (f"{indent}{line}" for line in ast.unparse(each).split("\n"))

    def _copied(self, one: tree.Compute, module: ast.Module, after: tree.Block) -> list[str]:
        """The variables that the code may change in place, while the plan keeps their old values."""
        if not any(map(_changes, ast.walk(module))):
            return []
        assigned = {
            each.name
            for each in after
            if isinstance(each, tree.Assign) and {*variables_in(each.value)} <= {*one.into}
        }
        free = names_read(*module.body)
        kept = (name for name in one.names if name in free and name not in one.into)
        return [name for name in kept if name not in assigned and name not in self.values.failures]

    def _is_hoisted(self, one: ast.AST) -> bool:
        """Whether a definition of pure code is written at the top level of the file."""
        known = self.of.definitions
        match one:
            case ast.Import(names=names):
                text = ast.unparse(one)
                return self._define(tuple((each.asname or each.name) for each in names), text)
            case ast.ImportFrom(names=names):
                return self._define(tuple((each.asname or each.name) for each in names), ast.unparse(one))
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                if names_read(one) & {*self.names.values()} - {*known}:
                    return False
                return self._define((name,), ast.unparse(one))
            case _:
                return False

    def _define(self, names: tuple[str, ...], text: str) -> bool:
        known = self.of.definitions
        if any(known.get(name, text) != text for name in names) or {*names} & {*self.names.values()}:
            return False
        for name in names:
            known[name] = text
        return True


class _Renamed(ast.NodeTransformer):
    """Pure code with other names, and with messages of caught errors as Python has them."""

    def __init__(self, names: dict[str, str], failures: set[str]) -> None:
        self.names, self.failures = names, failures

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name."""
        return ast.copy_location(ast.Name(self.names.get(node.id, node.id), node.ctx), node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """A parameter."""
        node.arg = self.names.get(node.arg, node.arg)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """An index: the message of an error is its text."""
        value, index = node.value, node.slice
        if isinstance(value, ast.Name) and value.id in self.failures and isinstance(index, ast.Constant):
            if index.value == "message":
                name = ast.Name(self.names.get(value.id, value.id), ast.Load())
                return ast.Call(ast.Name("str", ast.Load()), [name], [])
            raise NotPython(f"the field {index.value} of a failure", "use its message")
        return self.generic_visit(node)


# ---------------------------------------------------------------- questions about trees


def _form(node: object) -> object:
    """What a tree says, without the ids of statements and the places in a text."""
    if is_dataclass(node):
        parts = [
            field.name for field in fields(node) if field.compare and field.name not in {"id", "is_named"}
        ]
        return type(node).__name__, *(_form(getattr(node, name)) for name in parts)
    if isinstance(node, tuple):
        return tuple(map(_form, cast("tuple[object, ...]", node)))
    return (type(node).__name__, node) if isinstance(node, (bool, int, float)) else node


def _changes(node: ast.AST) -> bool:
    """Whether code may change a value in place here."""
    match node:
        case ast.Call(func=ast.Attribute(attr=attr)):
            return attr not in METHOD_NAMES
        case ast.Subscript(ctx=context) | ast.Attribute(ctx=context):
            return not isinstance(context, ast.Load)
        case ast.AugAssign():
            return True
        case _:
            return False


def _single_call(block: tree.Block) -> tree.Act | tree.Invoke | None:
    """The call of a body that is one call and at most a YIELD of its result."""
    match block:
        case (tree.Act(recovery=None, into=None) | tree.Invoke(recovery=None, into=None) as call,):
            return call
        case (
            tree.Act(recovery=None, into=tree.Into(name=name, type=None))
            | tree.Invoke(recovery=None, into=tree.Into(name=name, type=None)) as call,
            tree.Say(word=tree.Word.YIELD, values=(ir.Variable(name=given),)),
        ) if name == given:
            return call
        case _:
            return None


def _is_plain(value: Expression, var: str | None) -> bool:
    """Whether computing an argument cannot fail."""
    match value:
        case Literal() | ir.Variable() | ir.Bound():
            return True
        case ir.Index(target=ir.Variable(name=name), index=Literal(value=int())):
            return name == var
        case ir.Display(items=items):
            return all(_is_plain(one, var) for one in items)
        case _:
            return False


def _with_element(
    call: tree.Act | tree.Invoke, var: str, source: Expression
) -> tree.Act | tree.Invoke | None:
    """The call with what each item is computed as in place of the item; None unless it is read just once."""
    if not isinstance(source, ir.Comprehension) or source.kind is not ir.Kind.LIST:
        return None
    element = source.element
    parts = element.items if isinstance(element, ir.Display) and element.kind is ir.Kind.TUPLE else None
    used: list[object] = []

    def put(node: Expression) -> Expression:
        match node:
            case ir.Index(target=ir.Variable(name=name), index=Literal(value=int(number))) if (
                name == var and parts is not None and 0 <= number < len(parts)
            ):
                used.append(number)
                return parts[number]
            case ir.Variable(name=name) if name == var:
                used.append(None)
                return element
            case ir.Comprehension() | ir.Lambda():
                used.extend((None, None) if var in variables_in(node) else ())
                return node
            case _:
                return ir.mapped(node, put)

    named = tuple((name, put(value)) for name, value in call.named)
    made: tree.Act | tree.Invoke = replace(call, named=named)
    if isinstance(made, tree.Act):
        made = replace(made, positional=tuple(map(put, made.positional)))
    wanted = [None] if parts is None else [*range(len(parts))]
    return made if sorted(used, key=repr) == sorted(wanted, key=repr) else None


def _own_statements(block: tree.Block) -> Iterator[tree.Statement]:
    """The statements of a body, without those of loops inside it."""
    for one in block:
        yield one
        if not isinstance(one, (tree.Foreach, tree.Repeat)):
            for inner in tree.inner_blocks(one):
                yield from _own_statements(inner)


def _yields(block: tree.Block) -> bool:
    return any(isinstance(one, tree.Say) and one.word is tree.Word.YIELD for one in _deep_yields(block))


def _deep_yields(block: tree.Block) -> Iterator[tree.Statement]:
    for one in block:
        yield one
        if not isinstance(one, tree.Foreach):
            for inner in tree.inner_blocks(one):
                yield from _deep_yields(inner)


def _yields_once(block: tree.Block) -> bool:
    """Whether each way through a body ends with its only YIELD."""
    if not block:
        return False
    *before, last = block
    if _yields(tuple(before)) or any(
        isinstance(one, tree.Say) and one.word in {tree.Word.CONTINUE, tree.Word.BREAK}
        for one in _own_statements(block)
    ):
        return False
    match last:
        case tree.Say(word=tree.Word.YIELD):
            return True
        case tree.If(branches=branches, otherwise=otherwise) if otherwise is not None:
            return all(_yields_once(one) for one in (*(each.body for each in branches), otherwise))
        case _:
            return False


def _binds(one: tree.Statement) -> Iterator[str]:
    if isinstance(one, tree.Foreach):
        yield one.var
    recovery = tree.recovery_of(one)
    if recovery is not None:
        yield from (handler.binds for handler in recovery.handlers)


def _all_variables(of: tree.Tree) -> set[str]:
    found = {one.name for one in of.inputs}
    for plan in of.plans:
        found |= {one.name for one in plan.inputs}
    for one in tree.all_statements(of):
        found |= {*tree.variables_set(one), *tree.variables_read(one), *_binds(one)}
        if isinstance(one, tree.Invoke):
            found |= {name for name, _ in one.named}
    return found


def _main_name(of: tree.Tree) -> str:
    """The name of the main function, which the ids of its steps begin with."""
    taken = {one.tool.lower() for one in tree.acts(of)} | _all_variables(of)
    firsts = {one.id.split(".")[0] for one in of.body if "." in one.id}
    for name in sorted(firsts):
        is_name = _IDENTIFIER.fullmatch(name) is not None and not keyword.iskeyword(name)
        if is_name and of.plan(name) is None and name not in taken:
            return name
    return "main"


def _unparsed(node: ast.expr) -> str:
    try:
        return ast.unparse(ast.fix_missing_locations(node))
    except ValueError as error:  # a backslash in the braces of an f-string, before Python 3.12
        raise NotPython(f"this text: {error}", "LET a variable of what stands in its braces") from None


def _comments(lines: Iterable[str], indent: str) -> list[str]:
    return [f"{indent}# {line}".rstrip() for line in lines]


def _doc(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').rstrip('"') if text else text
