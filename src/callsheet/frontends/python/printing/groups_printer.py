"""Prints what runs side by side as Python: calls that are gathered, groups of tasks, the first of several."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from callsheet.frontends.python.printing.calls_printer import CHECKS, CallsPrinter
from callsheet.frontends.python.printing.code_printer import unparsed
from callsheet.frontends.python.printing.tree_questions import (
    binds,
    cannot_fail,
    own_statements,
    single_call,
    with_element,
    yields,
    yields_once,
)
from callsheet.frontends.python.printing.values_printer import NotPython, free_name
from callsheet.ir import expression as ir
from callsheet.ir import tree
from callsheet.ir.expression import Expression

if TYPE_CHECKING:
    from callsheet.frontends.python.printing.printer import ProgramPrinter

_INDENT: Final = "    "
ARGUMENTS: Final = "Python computes the arguments of all calls before the first starts; in LTP each by itself"


class GroupsPrinter(CallsPrinter):
    """Prints the groups of one function."""

    def __init__(self, of: ProgramPrinter) -> None:
        super().__init__(of)
        self.given: str | None = None
        """The variable that YIELD sets; None where no item is around, or where YIELD returns or appends."""
        self.yields: list[str] = []
        """What stands for YIELD: `return`, or a list to append to."""

    @abstractmethod
    def lines(self, block: tree.Block, indent: str) -> list[str]:
        """The lines of a block, `pass` if it is empty."""

    @abstractmethod
    def inner(self) -> GroupsPrinter:
        """What prints the statements of a function that runs beside others."""

    def _together(self, one: tree.Foreach, indent: str) -> Iterator[str]:
        calls = yield from self._calls_of(one, indent)
        if one.ends is tree.Ends.FIRST:
            yield from self._first(one, calls, indent)
            return
        if one.ends is tree.Ends.FAILED:
            self._check_order(one)
            element, rest = calls
            yield from self._task_group([(element, f" {rest}", one.into)], indent)
            return
        if one.as_done and one.into is not None:
            self.of.needs_asyncio = True
            done = self.of.helper_name("done")
            yield f"{indent}{self._stored(one.into, '[]')}"
            yield f"{indent}for {done} in asyncio.as_completed([{calls[0]} {calls[1]}]):"
            yield f"{indent}{_INDENT}{self.names[one.into.name]}.append(await {done})"
            return
        self.of.uses.add("gather")
        yield f"{indent}{self._stored(one.into, f'await gather(*[{calls[0]} {calls[1]}])')}"

    def _first(self, one: tree.Foreach, calls: tuple[str, str], indent: str) -> Iterator[str]:
        """TOGETHER FIRST: a wait for the first of the tasks, behind which the others are cancelled."""
        self.of.needs_asyncio = True
        done, pending = self.of.helper_name("done"), self.of.helper_name("pending")
        task = self.of.helper_name("task")
        yield f"{indent}{done}, {pending} = await asyncio.wait("
        yield f"{indent}{_INDENT}[asyncio.create_task({calls[0]}) {calls[1]}],"
        yield f"{indent}{_INDENT}return_when=asyncio.FIRST_COMPLETED,"
        yield f"{indent})"
        yield f"{indent}for {task} in {pending}:"
        yield f"{indent}{_INDENT}{task}.cancel()"
        result = f"[{task}.result() for {task} in {done}]"
        yield f"{indent}{self._stored(one.into, result)}"

    @staticmethod
    def _check_order(one: tree.Foreach) -> None:
        if one.as_done and one.into is not None:
            raise NotPython("TOGETHER STOP AS DONE", "use one of STOP and AS DONE", one.span)

    def _task_group(
        self, tasks: Iterable[tuple[str, str, tree.Into | str | None]], indent: str
    ) -> Iterator[str]:
        """A TaskGroup of calls, each with the `for` behind it, if any, and where its result goes."""
        self.of.needs_asyncio = True
        group = self.of.helper_name("group")
        after: list[str] = []
        yield f"{indent}async with asyncio.TaskGroup() as {group}:"
        for call, clauses, into in tasks:
            started = f"{group}.create_task({call})"
            started = f"[{started}{clauses}]" if clauses else started
            if into is None:
                yield f"{indent}{_INDENT}{started}"
                continue
            task = self.of.helper_name("task")
            yield f"{indent}{_INDENT}{task} = {started}"
            result = f"[one.result() for one in {task}]" if clauses else f"{task}.result()"
            after.append(f"{into} = {result}" if isinstance(into, str) else self._stored(into, result))
        yield from (f"{indent}{line}" for line in after)

    def _calls_of(self, one: tree.Foreach, indent: str) -> Generator[str, None, tuple[str, str]]:
        """The call of a loop's items and the `for` behind it, as texts; gives the lines before them."""
        source = one.source
        if one.limit is not None:
            source = ir.Slice(ir.Call("list", (source,)), None, one.limit)
        call = single_call(one.body)
        if call is not None and one.most is None:
            return self._gathered(one, call, source)
        parameters, given = self._captured(one.body, {one.var})
        inner, inside = self.inner(), _INDENT
        if one.most is not None:  # an inner function, which sees the semaphore
            inside = indent + _INDENT + _INDENT
        if yields_once(one.body) or not yields(one.body):
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
        return f"{name}({arguments})", f"for {var} in {unparsed(self.values.source(source))}"

    def _gathered(
        self, one: tree.Foreach, call: tree.Act | tree.Invoke, source: Expression
    ) -> tuple[str, str]:
        """`f(x)` and `for x in xs`, with the item's value in its place if it is computed there."""
        values = [value for _, value in call.named]
        if isinstance(call, tree.Act):
            values += call.positional
        if not all(cannot_fail(value, one.var) for value in values):
            self.of.remark(ARGUMENTS, one.span)
        written = with_element(call, one.var, source)
        if written is not None and isinstance(source, ir.Comprehension):
            folded = self.values.comprehension_of(source, lambda: self.call(written))
            assert isinstance(folded, ast.ListComp)
            whole, element = unparsed(folded), unparsed(folded.elt)
            return element, whole[1:-1].removeprefix(element).strip()
        return unparsed(
            self.call(call)
        ), f"for {self.names[one.var]} in {unparsed(self.values.source(source))}"

    def _captured(self, block: tree.Block, own: set[str]) -> tuple[list[str], list[str]]:
        """The variables that a block reads from outside, as parameters and as arguments."""
        read: dict[str, None] = {}
        made = set(own)
        for each in tree.statements(block):
            made |= {*tree.variables_set(each), *binds(each)}
        for each in tree.statements(block):
            read |= dict.fromkeys(name for name in tree.variables_read(each) if name not in made)
        names = [self.names[name] for name in read]
        return names, names

    def _parallel(self, members: tree.Block, stops: bool, indent: str) -> Iterator[str]:
        targets: list[str] = []
        calls: list[str] = []
        tasks: list[tuple[str, str, tree.Into | str | None]] = []
        for member in members:
            if (
                stops
                and isinstance(member, tree.Foreach)
                and member.ends is tree.Ends.FAILED
                and member.recovery is None
            ):
                self._check_order(member)
                element, rest = yield from self._calls_of(member, indent)
                tasks.append((element, f" {rest}", member.into))
                continue
            if isinstance(member, (tree.Act, tree.Invoke)) and member.recovery is None:
                values = [value for _, value in member.named]
                values += member.positional if isinstance(member, tree.Act) else ()
                if not all(cannot_fail(value, None) for value in values):
                    self.of.remark(ARGUMENTS, member.span)
                into = member.into
                if into is not None and into.type is not None:
                    self.of.remark(CHECKS, into.span)
                targets.append("_" if into is None else self.names[into.name])
                calls.append(unparsed(self.call(member)))
                tasks.append((calls[-1], "", None if into is None else targets[-1]))
                continue
            made = [
                *dict.fromkeys(
                    name for each in own_statements((member,)) for name in tree.variables_set(each)
                )
            ]
            parameters, given = self._captured((member,), set())
            body = self.inner().lines((member,), _INDENT)
            result = ", ".join(self.names[name] for name in made)
            if made:
                body.append(f"{_INDENT}return {result}")
            name = self.of.helper("part", parameters, body)
            targets.append(f"({result})" if len(made) > 1 else result or "_")
            calls.append(f"{name}({', '.join(given)})")
            tasks.append((calls[-1], "", targets[-1] if made else None))
        if stops:
            yield from self._task_group(tasks, indent)
            return
        self.of.uses.add("gather")
        waited = f"await gather({', '.join(calls)})"
        if all(target == "_" for target in targets):
            yield f"{indent}{waited}"
        elif len(targets) == 1:
            yield f"{indent}{targets[0]}, = {waited}"
        else:
            yield f"{indent}{', '.join(targets)} = {waited}"
