"""Prints the statements of one function of a plan as Python: calls, words, loops and failures."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from callsheet.diagnostics import Span
from callsheet.frontends.python.printing.calls_printer import CHECKS
from callsheet.frontends.python.printing.code_printer import comments_of, unparsed
from callsheet.frontends.python.printing.groups_printer import GroupsPrinter
from callsheet.frontends.python.printing.tree_questions import is_cast, leaves, own_statements, yields_once
from callsheet.frontends.python.printing.values_printer import (
    NotPython,
    free_name,
    is_name,
    is_text,
    succeeded,
)
from callsheet.ir import expression as ir
from callsheet.ir import tree
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression
from callsheet.ir.failing import Failing
from callsheet.ir.inputs import duration_of

if TYPE_CHECKING:
    from callsheet.frontends.python.printing.printer import ProgramPrinter

_INDENT: Final = "    "
ITEMS: Final = (
    "a failed item ends Python's loop at once, and items run one after another; in LTP all items run"
)
WAITS: Final = "how long to wait between attempts is set by the run in LTP, and is written out in Python"
ROUNDS: Final = (
    "running out of rounds fails as an assertion in Python; in LTP as a failure of the kind ROUNDS"
)
GOES_ON: Final = "a run that goes on after a failure is done in Python; in LTP it is done with failures"
ENDS: Final = "the message of TERMINATE is an answer in Python"
LEAVES: Final = "ON_FAIL TERMINATE is a failure of the kind Exception in Python"


class StatementsPrinter(GroupsPrinter):
    """Prints the statements of one function."""

    def __init__(self, of: ProgramPrinter, *, is_main: bool, given: str | None = None) -> None:
        super().__init__(of)
        self.is_main = is_main
        self.given = given
        self.before_next: list[tuple[str, ...]] = []
        """What stands before `continue` in the loops around."""
        self.cast: list[tree.Statement] = []
        """The casts of version 1 that stand in the `else` of what they cast."""
        self.guards = 0
        """How many `try` stand around."""

    def inner(self) -> StatementsPrinter:
        """What prints the statements of a function that runs beside others."""
        return StatementsPrinter(self.of, is_main=False)

    def lines(self, block: tree.Block, indent: str) -> list[str]:
        """The lines of a block, `pass` if it is empty."""
        made: list[str] = []
        for number, one in enumerate(block):
            made += comments_of(one.comments, indent)
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
        is_block = isinstance(one, tree.Try)
        if recovery is not None and (not is_block or recovery.remedy is not None):
            yield from self._recovered(one, recovery, after, indent)
            return
        if one in self.cast:
            return
        if not isinstance(one, (tree.Let, tree.Assign)):  # whose values may read what they set
            self.values.kept -= {*tree.variables_set(one)}
        match one:
            case tree.Act(tool="FORMAT", positional=(value,), named=()) if is_text(value):
                yield f"{indent}{self._stored(one.into, self.text(value))}"
            case tree.Act() | tree.Invoke():
                yield f"{indent}{self._stored(one.into, unparsed(ast.Await(self.call(one))))}"
            case tree.Compute():
                yield from self._compute(one, after, indent)
            case tree.Let(name=name) | tree.Assign(name=name) if name in self.of.links:
                return
            case tree.Let(name=name, value=value, type=kind):
                if kind is not None:
                    self.of.remark(CHECKS, one.span)
                yield f"{indent}{self.names[name]} = {self.text(value)}"
                self.values.kept.discard(name)
            case tree.Assign(name=name, value=value):
                yield f"{indent}{self.names[name]} = {self.text(value)}"
                self.values.kept.discard(name)
            case tree.Require(condition=condition, message=message):
                said = "" if message is None else f", {self.text(message)}"
                yield f"{indent}assert {self.text(condition)}{said}"
            case tree.Say():
                yield from self._say(one, indent)
            case tree.If():
                yield from self._if(one, indent)
            case tree.Foreach():
                yield from self._together(one, indent) if one.together else self._for(one, indent)
            case tree.Repeat():
                yield from self._repeat(one, indent)
            case tree.Try():
                yield from self._guarded(one, indent)
            case tree.Parallel(members=members, stops=stops):
                yield from self._parallel(members, stops, indent)
            case _:
                assert_never(one)

    def _if(self, one: tree.If, indent: str) -> Iterator[str]:
        """A choice; what a condition tests is no failure in a branch where it is none."""
        kept, after = set(self.values.kept), set[str]()
        for number, branch in enumerate(one.branches):
            yield f"{indent}{'elif' if number else 'if'} {self.text(branch.condition)}:"
            self.values.kept = kept - succeeded(branch.condition, holds=True)
            yield from self.lines(branch.body, indent + _INDENT)
            after |= set() if leaves(branch.body) else self.values.kept
            kept -= succeeded(branch.condition, holds=False)
        self.values.kept = kept
        if one.otherwise is not None:
            yield f"{indent}else:"
            yield from self.lines(one.otherwise, indent + _INDENT)
        self.values.kept = after if leaves(one.otherwise or ()) else after | self.values.kept

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
                yield from (f"{indent}{line}" for line in (self.before_next[-1] if self.before_next else ()))
                yield f"{indent}continue"
            case tree.Word.WAIT:
                self.of.needs_asyncio = True
                yield f"{indent}await asyncio.sleep({self._seconds(values[0])})"
            case tree.Word.TERMINATE:
                if not self.is_main:
                    raise NotPython("TERMINATE inside a function that runs beside others", "return a value")
                self.of.remark(ENDS, one.span)
                yield f"{indent}return {self._joined(values)}" if values else f"{indent}return"
            case tree.Word.REPLAN:
                self.of.uses.add("replan")
                yield f"{indent}return await replan({self._joined(values) if values else ''})"
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
            case Literal(value=str() as text):
                try:
                    seconds = duration_of(text).total_seconds()
                except ValueError as error:
                    raise NotPython(f"this wait: {error}", "write 2d, 1h30m or 90s", value.span) from None
                return f"{seconds:g}"
            case ir.Call(function="duration"):
                return f"{self.text(value)}.total_seconds()"
            case ir.Variable(name=name) if name in self.of.durations:
                return f"{self.text(value)}.total_seconds()"
            case _:
                return self.text(value)

    def _fail(self, one: tree.Say) -> str:
        value = one.values[0] if one.values else None
        if one.kind is None and isinstance(value, ir.Variable) and value.name in self.values.failures:
            return "raise"
        if one.kind is None and isinstance(value, ir.Variable) and value.name in self.values.tested:
            return f"raise {self.text(value)}"
        if one.kind is None or one.kind == Failing.FAIL.value:
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

    def _recovered(
        self, one: tree.Statement, recovery: tree.Recovery, after: tree.Block, indent: str
    ) -> Iterator[str]:
        none = tree.Recovery() if isinstance(one, tree.Try) else None
        bare = replace(one, recovery=none)  # pyright: ignore[reportCallIssue, reportArgumentType]
        again, recovery = recovery.again, replace(recovery, again=None)
        skips = isinstance(bare, tree.Foreach) and isinstance(recovery.remedy, tree.Skip) and again is None
        recovery = replace(recovery, remedy=None) if skips else recovery
        is_alone = recovery == tree.Recovery()
        inner = indent if is_alone else indent + _INDENT
        self.guards += 1
        if skips and isinstance(bare, tree.Foreach):
            if bare.ends is tree.Ends.FIRST:
                raise NotPython("TOGETHER FIRST with ON_FAIL SKIP", "handle failures in the body", one.span)
            body = list(self._for(bare, inner, skips=True))
        elif again is None:
            body = list(self._statement(bare, (), inner)) or [f"{inner}pass"]
        else:
            attempted = list(self._statement(bare, (), inner + _INDENT + _INDENT))
            body = list(self._attempts(again, attempted, inner, one.span))
        self.guards -= 1
        if is_alone:
            yield from body
            return
        if recovery.remedy is None:
            yield from self._try(recovery, body, indent, one.span)
            return
        caught, handled = self._remedy(one, recovery.remedy, after, indent)
        yield f"{indent}try:"
        yield from body
        yield f"{indent}except {caught}:"
        yield from handled or [f"{indent}{_INDENT}pass"]
        if isinstance(recovery.remedy, tree.GoOn) and after and is_cast(after[0]) in tree.variables_set(one):
            yield f"{indent}else:"
            yield from self._statement(after[0], (), indent + _INDENT)
            self.cast.append(after[0])
        if recovery.final is not None:
            yield f"{indent}finally:"
            yield from self.lines(recovery.final, indent + _INDENT)

    def _remedy(
        self, one: tree.Statement, remedy: tree.Remedy, after: tree.Block, indent: str
    ) -> tuple[str, list[str]]:
        """What is caught where a remedy stands, and the lines that handle it."""
        caught, handled, names = "Exception", list[str](), tree.variables_set(one)
        match remedy:
            case tree.Use(value=value):
                handled = [f"{indent}{_INDENT}{self.names[name]} = {self.text(value)}" for name in names]
            case tree.GoOn():
                self.of.remark(GOES_ON, one.span)
                texts = self.of.texts_of_errors - self.of.casts | {is_cast(one) for one in after[:1]}
                self.values.kept |= {*names} - texts
                error = free_name("error", self.names.values())
                for name in names:
                    kept = f"str({error})" if name in texts else error
                    handled.append(f"{indent}{_INDENT}{self.names[name]} = {kept}")
                caught = f"Exception as {error}" if names else caught
            case tree.Leave(values=values) if self.is_main and not self.guards:
                self.of.remark(LEAVES, one.span)
                handled = [f"{indent}{_INDENT}raise{f' Exception({self._joined(values)})' if values else ''}"]
            case tree.Leave(values=values) if self.is_main:
                self.of.remark(ENDS, one.span)
                handled = [f"{indent}{_INDENT}return{f' {self._joined(values)}' if values else ''}"]
            case tree.Leave() | tree.Skip():
                word = "SKIP" if isinstance(remedy, tree.Skip) else "TERMINATE"
                raise NotPython(f"ON_FAIL {word} here", "an ON_FAIL block, or ON_FAIL USE (value)", one.span)
            case _:
                assert_never(remedy)
        return caught, handled

    def _guarded(self, one: tree.Try, indent: str) -> Iterator[str]:
        again, recovery = one.recovery.again, replace(one.recovery, again=None)
        inner = indent if recovery == tree.Recovery() else indent + _INDENT
        self.guards += 1
        if again is None:
            body = self._limited(one, inner)
        else:
            self._check_stays(one.body, one.span)
            attempted = self._limited(one, inner + _INDENT + _INDENT)
            body = list(self._attempts(again, attempted, inner, one.span))
        self.guards -= 1
        yield from body if inner == indent else self._try(recovery, body, indent, one.span)

    def _limited(self, one: tree.Try, indent: str) -> list[str]:
        """The block of a TRY, inside its time limit if it has one."""
        if one.within is None:
            return self.lines(one.body, indent)
        self.of.needs_asyncio = True
        is_endless = isinstance(one.within, ir.Literal) and one.within.value is None
        limit = "None" if is_endless else self._seconds(one.within)
        return [f"{indent}async with asyncio.timeout({limit}):", *self.lines(one.body, indent + _INDENT)]

    def _check_stays(self, block: tree.Block, span: Span | None) -> None:
        """Raise NotPython for a block with BREAK or CONTINUE: the loop of attempts would take them."""
        if any(
            isinstance(each, tree.Say) and each.word in (tree.Word.BREAK, tree.Word.CONTINUE)
            for each in own_statements(block)
        ):
            raise NotPython("@RETRY of a block that BREAK or CONTINUE leaves", "retry the call itself", span)

    def _attempts(
        self, again: tree.Again, attempted: list[str], indent: str, span: Span | None
    ) -> Iterator[str]:
        """`@RETRY`, as a loop that is left after the first attempt that succeeds, and in no other way."""
        self.of.needs_asyncio = True
        attempt = self.of.helper_name("attempt")
        if again.delay is None or again.backoff is None:
            self.of.remark(WAITS, span)
        delay = 1 if again.delay is None else again.delay
        growth = f" * {again.backoff} ** ({attempt} - 1)" if again.backoff not in (None, 1) else ""
        inner = indent + _INDENT
        yield f"{indent}{attempt} = 0"
        yield f"{indent}while True:"
        yield f"{inner}try:"
        yield from attempted
        yield f"{inner}{_INDENT}break"
        yield f"{inner}except Exception:"
        yield f"{inner}{_INDENT}{attempt} += 1"
        yield f"{inner}{_INDENT}if {attempt} > {again.count}:"
        yield f"{inner}{_INDENT}{_INDENT}raise"
        yield f"{inner}{_INDENT}await asyncio.sleep({delay}{growth})"

    def _try(self, recovery: tree.Recovery, body: list[str], indent: str, span: Span | None) -> Iterator[str]:
        if recovery.undo is not None:
            self.of.uses.add("undo")
            odd = next((tool for tool, _ in recovery.undo if not is_name(tool)), None)
            if odd is not None:
                raise NotPython(f"the inverse of {odd}", "ON_FAIL UNDO with the declared inverses", span)
            inverses = ", ".join(f"{tool.lower()}={text!r}" for tool, text in recovery.undo)
            yield f"{indent}async with undo({inverses}):"
            yield from body
            return
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

    def _for(self, one: tree.Foreach, indent: str, *, skips: bool = False) -> Iterator[str]:
        """A loop; with `skips` a failed item is left out."""
        inside = [*own_statements(one.body)]
        words = {each.word for each in inside if isinstance(each, tree.Say)}
        if skips:
            self._check_skipping(one, inside)
        elif not one.in_order and not words & {tree.Word.BREAK, tree.Word.RESPOND, tree.Word.RETURN}:
            self.of.remark(ITEMS, one.span)
        source = self.values.source(one.source)
        if one.limit is not None:
            listed = ast.Call(ast.Name("list", ast.Load()), [source], [])
            source = ast.Subscript(listed, ast.Slice(None, self.values.value(one.limit)), ast.Load())
        saved = self.given, list(self.yields)
        self.given = None
        self.guards += skips
        around = indent + _INDENT * skips
        if one.into is None:
            self.yields.append("")
            self.before_next.append(())
            body = self.lines(one.body, around + _INDENT)
        else:
            if tree.Word.BREAK in words:
                raise NotPython("the list of a loop that BREAK leaves", "LET a list, and SET it", one.span)
            if one.into.type is not None:
                self.of.remark(CHECKS, one.into.span)
            into = self.names[one.into.name]
            yield f"{indent}{into} = []"
            body = self._collecting(one.body, into, around)
        yield f"{indent}for {self.names[one.var]} in {unparsed(source)}:"
        if skips:
            body = [f"{around}try:", *body, f"{around}except Exception:", f"{around}{_INDENT}pass"]
        yield from body
        self.guards -= skips
        self.given, self.yields = saved
        self.before_next.pop()

    def _check_skipping(self, one: tree.Foreach, inside: list[tree.Statement]) -> None:
        """Raise NotPython for a loop whose failed items leave something behind in Python."""
        if one.together:
            raise NotPython("ON_FAIL SKIP of a loop TOGETHER", "handle the failure in its body", one.span)
        own = {
            name for each in inside if not isinstance(each, tree.Assign) for name in tree.variables_set(each)
        }
        if any(isinstance(each, tree.Assign) and each.name not in own for each in inside):
            raise NotPython("ON_FAIL SKIP, which undoes SET,", "SET behind what may fail, in TRY", one.span)
        self.of.remark(GOES_ON, one.span)

    def _collecting(self, block: tree.Block, into: str, indent: str) -> list[str]:
        """The body of a loop whose items give values, which are appended to a list."""
        if yields_once(block):
            self.yields.append(into)
            self.before_next.append(())
            return self.lines(block, indent + _INDENT)
        given = free_name(f"{into}_item", self.names.values())
        self.given = given
        self.before_next.append((f"{into}.append({given})",))
        first = [f"{indent}{_INDENT}{given} = None"]
        last = [f"{indent}{_INDENT}{into}.append({given})"]
        return first + self.lines(block, indent + _INDENT) + last

    def _repeat(self, one: tree.Repeat, indent: str) -> Iterator[str]:
        inner = indent + _INDENT
        condition = "True" if one.while_ is None else self.text(one.while_)
        last: list[str] = []
        if one.until is not None:
            last += [f"if {self.text(one.until)}:", f"{_INDENT}break"]
        if one.every is not None:
            self.of.needs_asyncio = True
            last.append(f"await asyncio.sleep({self._seconds(one.every)})")
        rounds = free_name("rounds", self.names.values())
        if one.most is not None:
            self.of.remark(ROUNDS, one.span)
            yield f"{indent}{rounds} = 0"
        yield f"{indent}while {condition}:"
        if one.most is not None:
            yield f"{inner}assert {rounds} < {self.text(one.most)}, 'the loop ran out of rounds'"
            yield f"{inner}{rounds} += 1"
        self.before_next.append(tuple(last))
        yield from self.lines(one.body, inner)
        self.before_next.pop()
        yield from (f"{inner}{line}" for line in last)
