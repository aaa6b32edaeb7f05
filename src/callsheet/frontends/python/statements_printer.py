"""Prints the statements of one function of a plan as Python: calls, words, loops and failures."""

from __future__ import annotations

import ast
import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from callsheet.diagnostics import Span
from callsheet.frontends.python.calls_printer import CHECKS, CallsPrinter
from callsheet.frontends.python.code_printer import comments_of, unparsed
from callsheet.frontends.python.tree_questions import (
    binds,
    cannot_fail,
    is_cast,
    own_statements,
    single_call,
    with_element,
    yields,
    yields_once,
)
from callsheet.frontends.python.values_printer import (
    NotPython,
    free_name,
    is_name,
    is_text,
)
from callsheet.ir import expression as ir
from callsheet.ir import tree
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression
from callsheet.ir.failing import Failing
from callsheet.ir.inputs import duration_of

if TYPE_CHECKING:
    from callsheet.frontends.python.printer import ProgramPrinter

_INDENT: Final = "    "
ITEMS: Final = (
    "a failed item ends Python's loop at once, and items run one after another; in LTP all items run"
)
ARGUMENTS: Final = "Python computes the arguments of all calls before the first starts; in LTP each by itself"
WAITS: Final = "how long to wait between attempts is set by the run in LTP, and is written out in Python"
ROUNDS: Final = (
    "running out of rounds fails as an assertion in Python; in LTP as a failure of the kind ROUNDS"
)
GOES_ON: Final = "a run that goes on after a failure is done in Python; in LTP it is done with failures"
ENDS: Final = "the message of TERMINATE is an answer in Python"
LEAVES: Final = "ON_FAIL TERMINATE is a failure of the kind Exception in Python"


class StatementsPrinter(CallsPrinter):
    """Prints the statements of one function."""

    def __init__(self, of: ProgramPrinter, *, is_main: bool, given: str | None = None) -> None:
        super().__init__(of)
        self.is_main = is_main
        self.given = given
        """The variable that YIELD sets; None where no item is around, or where YIELD returns or appends."""
        self.yields: list[str] = []
        """What stands for YIELD: `return`, or a list to append to."""
        self.before_next: list[tuple[str, ...]] = []
        """What stands before `continue` in the loops around."""
        self.cast: list[tree.Statement] = []
        """The casts of version 1 that stand in the `else` of what they cast."""
        self.guards = 0
        """How many `try` stand around."""

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
                yield from self._guarded(one, indent)
            case tree.Parallel(members=members, stops=stops):
                yield from self._parallel(members, stops, indent)
            case _:
                assert_never(one)

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
        inner, inside = StatementsPrinter(self.of, is_main=False), _INDENT
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
            body = StatementsPrinter(self.of, is_main=False).lines((member,), _INDENT)
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
