"""A recursive interpreter of plan trees: what each statement of version 2 means, in as few words as it takes.

It is async for the sake of side by side only. Expressions are those of the machine. COMPUTE is CPython's
exec, on copies of the values, since a plan has values and no references. It is slow, unsafe and for tests
only.
"""

from __future__ import annotations

import asyncio
import builtins
import copy
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import ContextVar
from datetime import UTC, date, datetime, timedelta
from typing import Any, assert_never, cast

from callsheet.ir import tree
from callsheet.ir.expression import Expression, variables_in
from callsheet.ir.inverse import Fate, reversal
from callsheet.ir.plan import Plan
from callsheet.ir.sagas import inverses_of
from callsheet.ir.scopes import scopes_of
from callsheet.machine.expressions import Environment, ExpressionFailed, compile_expression
from callsheet.machine.expressions.encoding import to_json, to_text

Tool = Callable[[tuple[Any, ...], dict[str, Any]], Awaitable[Any]]
_KINDS = {"TypeError": "TYPE", "ValueError": "VALUE", "KeyError": "KEY", "IndexError": "INDEX",
          "AttributeError": "ATTRIBUTE", "ZeroDivisionError": "ZERO",
          "OverflowError": "OVERFLOW"}  # fmt: skip


class Failed(Exception):
    """A failure of a statement."""

    def __init__(self, kind: str, message: str, step: str = "", attempts: int = 1) -> None:
        super().__init__(message)
        self.kind, self.message, self.step, self.attempts = kind, message, step, attempts

    def record(self) -> dict[str, Any]:
        """The failure as a value."""
        return {
            "error": f"{self.step}: {self.message}",
            "message": self.message,
            "kind": self.kind,
            "step": self.step,
            "attempts": self.attempts,
        }


_MADE: ContextVar[list[tuple[str, dict[str, Any], Any]]] = ContextVar("made")
"""The calls so far that changed something, in the order of the text: tool, arguments, result."""


GRAVE = ("DENIED", "NOT_UNDONE")
"""The kinds of failure that no other hides, the gravest first; nothing is tried again after them."""


def _gravest(failures: list[Failed]) -> Failed | None:
    """Which of several failures that end together is that of the whole, if one is grave."""
    return next((one for kind in GRAVE for one in failures if one.kind == kind), None)


class _Ended(Exception):
    """RESPOND, RETURN or TERMINATE."""

    def __init__(self, value: Any, *, of_run: bool) -> None:
        super().__init__()
        self.value, self.of_run = value, of_run


class _Left(Exception):
    """BREAK."""


class _Next(Exception):
    """CONTINUE."""


class Scope:
    """The variables of a body: the main one, that of a sub-plan, or that of an item."""

    def __init__(self, values: Mapping[str, Any], outer: Scope | None = None) -> None:
        self.values, self.outer, self.given = dict(values), outer, None

    def holder(self, name: str) -> Scope | None:
        """The scope that has a variable."""
        at: Scope | None = self
        while at is not None and name not in at.values:
            at = at.outer
        return at

    def get(self, name: str) -> Any:
        """A variable's value."""
        held = self.holder(name)
        if held is None:
            raise Failed("UnboundLocalError", f"{name} has no value")
        return held.values[name]

    def make(self, name: str, value: Any) -> None:
        """LET: a variable of this scope."""
        held = self.holder(name)
        assert held in (None, self), f"LET of {name}, which an outer scope has"
        self.values[name] = value

    def assign(self, name: str, value: Any) -> None:
        """SET: another value for a variable that there is."""
        held = self.holder(name)
        assert held is not None, f"SET of {name}, which there is not"
        held.values[name] = value


class Record(dict[str, Any]):
    """A record whose fields COMPUTE can read as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def _in(value: Any) -> Any:
    if type(value) is dict:
        return Record({key: _in(one) for key, one in cast("dict[str, Any]", value).items()})
    if type(value) in (list, tuple):
        return type(value)(map(_in, value))
    return copy.deepcopy(value)


def _out(value: Any) -> Any:
    if isinstance(value, Record) or type(value) is dict:
        return {key: _out(one) for key, one in cast("dict[str, Any]", value).items()}
    if type(value) in (list, tuple):
        return type(value)(map(_out, value))
    if isinstance(value, datetime) and type(value) is not datetime:  # a clock of the tests
        return datetime.combine(datetime.date(value), value.timetz())
    if isinstance(value, date) and type(value) not in (date, datetime):
        return date(value.year, value.month, value.day)
    if isinstance(value, (type, type(_out))) or hasattr(value, "__next__"):
        raise Failed("TYPE", f"a {type(value).__name__} cannot be kept between calls")
    return copy.deepcopy(value)


def _text(value: Any) -> str:
    """A value that is said."""
    try:
        return to_text(Environment(datetime.min), value)
    except ExpressionFailed as failure:
        raise Failed(failure.kind.name, failure.message) from None


_DEEP = 12


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple, deque))


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _can_change(value: Any) -> bool:
    return isinstance(value, (list, dict, set, deque)) or hasattr(value, "__dict__")


def _parts(value: Any) -> list[tuple[Any, Any]]:
    if _is_mapping(value):
        return list(cast("dict[Any, Any]", value).items())
    if _is_sequence(value):
        return list(enumerate(cast("list[Any]", value)))
    return list(vars(cast("object", value)).items()) if hasattr(value, "__dict__") else []


def _links_among(*given: Any) -> list[list[tuple[Any, ...]]]:
    """All places of each object that can change and has more than one, outer ones first."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    level: list[tuple[tuple[Any, ...], Any]] = [
        ((given[at],), given[at + 1]) for at in range(0, len(given), 2)
    ]
    while level:
        if len(level[0][0]) > _DEEP:
            raise RecursionError  # a list that is in itself
        for place, value in level:
            if _can_change(value):
                found.setdefault(id(value), []).append(place)
        level = [((*place, step), one) for place, value in level for step, one in _parts(value)]
    return [places for places in found.values() if len(places) > 1]


def _relinked(links: list[list[tuple[Any, ...]]], *given: Any) -> list[Any]:
    """The values, with one object in all places that were one."""
    roots = {given[at]: given[at + 1] for at in range(0, len(given), 2)}

    def at(place: Any) -> Any:
        value: Any = roots
        for step in place:
            value = value[step] if _is_mapping(value) or _is_sequence(value) else getattr(value, step)
        return value

    def put(place: Any, value: Any) -> None:
        holder, step = at(place[:-1]), place[-1]
        if type(holder) is tuple:
            put(place[:-1], (*holder[:step], value, *holder[step + 1 :]))
        elif _is_mapping(holder) or _is_sequence(holder):
            holder[step] = value
        else:
            setattr(holder, step, value)

    for places in sorted(links, key=lambda places: min(map(len, places))):
        here = [place for place in places if place[0] in roots]
        for place in here[1:]:
            put(place, at(here[0]))
    return list(roots.values())


class Interpreter:
    """Runs one plan; `tools` are awaited with the arguments by place and by name."""

    def __init__(
        self,
        plan: Plan,
        tools: Mapping[str, Tool],
        *,
        now: Callable[[], datetime] = lambda: datetime(2026, 3, 2, 9, tzinfo=UTC),
        modules: Mapping[str, Any] | None = None,
        reads: Collection[str] = (),
    ) -> None:
        assert plan.tree is not None
        self.tree, self.tools, self.now, self.modules = plan.tree, tools, now, modules or {}
        self.scopes, self.reads = scopes_of(plan.tree), reads
        self.compiled: dict[int, tuple[tuple[str, ...], Any]] = {}
        self.classes: dict[str, Any] = {}
        self.remarks: list[str] = []
        self.rounds = 10_000

    async def run(self, inputs: Mapping[str, Any]) -> Any:
        """The plan's answer. Raises Failed."""
        values = {one.name: inputs.get(one.name, one.default) for one in self.tree.inputs}
        _MADE.set([])
        try:
            await self.block(self.tree.body, Scope(values))
        except _Ended as end:
            return end.value
        return None

    def value(self, node: Expression, scope: Scope) -> Any:
        """The value of an expression."""
        known = self.compiled.get(id(node))
        if known is None:
            names = variables_in(node)
            known = self.compiled[id(node)] = names, compile_expression(node, names.index)
        names, function = known
        slots = [scope.get(name) for name in names]
        try:
            return function(slots, Environment(self.now()))
        except ExpressionFailed as failure:
            raise Failed(failure.kind.name, failure.message) from None

    async def block(self, block: tree.Block, scope: Scope) -> None:
        """Statements one after another."""
        for one in block:
            await self.statement(one, scope)

    async def statement(self, one: tree.Statement, scope: Scope) -> None:
        """A statement with what it says of its failure."""
        recovery = tree.recovery_of(one)
        if recovery is None:
            await self.once(one, scope)
            return
        if recovery.undo is not None:
            await self.undoing(one, recovery.undo, scope)
            return
        grave: Failed | None = None
        try:
            await self.recovered(one, recovery, scope)
        except Failed as failure:
            grave = failure if failure.kind in GRAVE else None
            raise
        finally:
            if recovery.final is not None:
                try:
                    await self.block(recovery.final, scope)
                except (Failed, _Ended, _Left, _Next) as other:
                    both = [one for one in (grave, other) if isinstance(one, Failed)]
                    raise (_gravest(both) if grave is not None else None) or other from None

    async def undoing(self, one: tree.Statement, undo: tuple[tuple[str, str], ...], scope: Scope) -> None:
        """A block that takes back, newest first, what it has changed if it fails."""
        made = _MADE.get()
        before = len(made)
        try:
            await self.once(one, scope)
        except Failed as failure:
            mine, inverses = made[before:], inverses_of(undo)
            del made[before:]
            for tool, args, result in reversed(mine):
                inverse = inverses.get(tool)
                again = reversal(tool, inverse, Fate.DONE, args, result)
                if inverse is not None and not isinstance(again, str):
                    try:
                        await self.tools[inverse.tool]((), again)
                    except Failed as stopped:
                        kind = "DENIED" if "DENIED" in (failure.kind, stopped.kind) else "NOT_UNDONE"
                        raise Failed(kind, stopped.message, one.id) from None
            raise

    async def recovered(self, one: tree.Statement, recovery: tree.Recovery, scope: Scope) -> None:
        """A statement with its further attempts, its remedy and its handlers."""
        attempts = 1 + (recovery.again.count if recovery.again else 0)
        for number in range(1, attempts + 1):
            try:
                await self.once(one, scope)
            except Failed as failure:
                failure.step, failure.attempts = failure.step or one.id, number
                if number < attempts and failure.kind not in GRAVE:
                    continue
                await self.remedied(one, recovery, failure, scope)
            return

    async def remedied(
        self, one: tree.Statement, recovery: tree.Recovery, failure: Failed, scope: Scope
    ) -> None:
        """What is done about a failure; it is raised again if nothing is."""
        general = failure.kind != "DENIED"
        for handler in recovery.handlers:
            if failure.kind in handler.kinds or (general and not handler.kinds):
                scope.values[handler.binds] = failure.record()
                try:
                    await self.block(handler.body, scope)
                finally:
                    scope.values.pop(handler.binds, None)
                return
        names = tree.variables_set(one)
        match recovery.remedy:
            case tree.GoOn() if general:
                for name in names:
                    scope.make(name, failure.record())
            case tree.Use(value=value) if general:
                for name in names:
                    scope.make(name, self.value(value, scope))
            case tree.Leave(values=values) if general:
                raise _Ended(self.value(values[0], scope) if values else None, of_run=True) from None
            case _:
                raise failure

    async def once(self, one: tree.Statement, scope: Scope) -> None:  # noqa: PLR0912 - a case for each
        """One attempt at a statement."""
        match one:
            case tree.Act():
                await self.act(one, scope)
            case tree.Invoke():
                await self.invoke(one, scope)
            case tree.Compute():
                self.compute(one, scope)
            case tree.Let(name=name, value=value):
                scope.make(name, self.value(value, scope))
            case tree.Assign(name=name, value=value):
                scope.assign(name, self.value(value, scope))
            case tree.Require(condition=condition, message=message):
                if not self.value(condition, scope):
                    raise Failed("REQUIRE", self.value(message, scope) if message else "", one.id)
            case tree.Say():
                await self.say(one, scope)
            case tree.If(branches=branches, otherwise=otherwise):
                for branch in branches:
                    if self.value(branch.condition, scope):
                        await self.block(branch.body, scope)
                        return
                await self.block(otherwise or (), scope)
            case tree.Foreach():
                await self.foreach(one, scope)
            case tree.Repeat():
                await self.repeat(one, scope)
            case tree.Try(body=body):
                await self.block(body, scope)
            case tree.Parallel(members=members):
                await self.together([self.statement(each, scope) for each in members])
            case _:
                assert_never(one)

    async def together(self, work: list[Any], most: int | None = None) -> None:
        """All of the work, side by side; then the first that failed, in order."""
        limit = asyncio.Semaphore(most or len(work) or 1)

        made: list[list[Any]] = [[] for _ in work]

        async def limited(one: Any, own: list[Any]) -> None:
            _MADE.set(own)
            async with limit:
                await one

        results = await asyncio.gather(*map(limited, work, made), return_exceptions=True)
        _MADE.get().extend(call for own in made for call in own)
        raised = [one for one in results if isinstance(one, BaseException)]
        if raised:
            raise _gravest([one for one in raised if isinstance(one, Failed)]) or raised[0]

    async def act(self, one: tree.Act, scope: Scope) -> None:
        """A call of a tool."""
        try:
            given = tuple(to_json(self.value(each, scope)) for each in one.positional)
            named = {name: to_json(self.value(each, scope)) for name, each in one.named}
        except ExpressionFailed as failure:
            raise Failed(failure.kind.name, failure.message) from None
        result = await self.tools[one.tool](given, named)
        if one.tool not in self.reads:
            _MADE.get().append((one.tool, named, result))
        if one.into is not None:
            scope.make(one.into.name, result)

    async def invoke(self, one: tree.Invoke, scope: Scope) -> None:
        """A sub-plan, as if it were written here."""
        plan = self.tree.plan(one.plan)
        assert plan is not None
        given = {name: self.value(value, scope) for name, value in one.named}
        values = {each.name: given.get(each.name, each.default) for each in plan.inputs}
        assert set(given) <= set(values)
        result = None
        try:
            await self.block(plan.body, Scope(values))
        except _Ended as end:
            if end.of_run:
                raise
            result = end.value
        if one.into is not None:
            scope.make(one.into.name, result)

    def compute(self, one: tree.Compute, scope: Scope) -> None:
        """Pure Python, on copies."""
        space: dict[str, Any] = {"__name__": "__main__", "__builtins__": dict(vars(builtins))}

        def build(body: Any, name: str, *bases: Any, **more: Any) -> Any:
            made = builtins.__build_class__(body, name, *bases, **more)
            return self.classes.setdefault(name, made)

        def load(name: str, *given: Any, **named: Any) -> Any:
            return self.modules.get(name) or builtins.__import__(name, *given, **named)

        space["__builtins__"].update(__build_class__=build, __import__=load)
        space["__builtins__"].update(relinked=_relinked, links_among=_links_among)
        space.update({name: _in(scope.get(name)) for name in one.names})
        try:
            exec(compile(one.source, one.id, "exec"), space)
        except Exception as error:
            name = type(error).__name__
            raise Failed(_KINDS.get(name, name), str(error), one.id) from error
        for name in one.into:
            if name in space:
                scope.make(name, _out(space[name]))

    async def say(self, one: tree.Say, scope: Scope) -> None:
        """A statement of one word."""
        values = [self.value(each, scope) for each in one.values]
        match one.word:
            case tree.Word.RESPOND | tree.Word.RETURN | tree.Word.TERMINATE:
                if len(values) > 1 or one.word is tree.Word.TERMINATE:
                    said = " ".join(map(_text, values))
                    values = [said] if len(values) > 1 else values
                raise _Ended(values[0] if values else None, of_run=one.word is not tree.Word.RETURN)
            case tree.Word.YIELD:
                at = scope
                while not hasattr(at, "item"):
                    assert at.outer is not None
                    at = at.outer
                at.given = values[0]
            case tree.Word.NOTE:
                self.remarks.append(_text(values[0]))
            case tree.Word.FAIL:
                if one.kind is None and isinstance(values[0], dict) and "kind" in values[0]:
                    again = cast("dict[str, str]", values[0])
                    raise Failed(again["kind"], again["message"], again["step"])
                raise Failed(one.kind or "FAIL", " ".join(map(_text, values)), one.id)
            case tree.Word.BREAK:
                raise _Left
            case tree.Word.CONTINUE:
                raise _Next
            case tree.Word.WAIT:
                seconds = values[0].total_seconds() if isinstance(values[0], timedelta) else values[0]
                await asyncio.sleep(seconds)
            case tree.Word.REPLAN:
                raise NotImplementedError
            case _:
                assert_never(one.word)

    async def foreach(self, one: tree.Foreach, scope: Scope) -> None:
        """A loop over items; each has a scope of its own."""
        items = list(self.value(one.source, scope))
        if one.limit is not None:
            items = items[: self.value(one.limit, scope)]
        results: list[Any] = [None] * len(items)
        ran = 0
        failures: dict[int, Failed] = {}
        around = self.scopes.items[one.id]
        in_order = one.in_order or around.leaves or bool(around.sets)
        skips = one.recovery is not None and isinstance(one.recovery.remedy, tree.Skip)

        async def run(number: int) -> None:
            inner = Scope({one.var: items[number]}, scope)
            inner.item = number  # type: ignore[attr-defined]
            try:
                await self.block(one.body, inner)
            except _Next:
                pass
            finally:
                results[number] = inner.given

        async def tried(number: int) -> None:
            try:
                await run(number)
            except Failed as failure:
                failures[number] = failure

        if one.together:
            await self.together([tried(number) for number in range(len(items))], one.most)
            ran = len(items)
        else:
            try:
                for number in range(len(items)):
                    try:
                        await run(number)
                    except Failed as failure:
                        failures[number] = failure
                        if in_order and not skips:
                            raise
                    ran += 1
            except _Left:
                ran += 1  # what the item has given counts, null if nothing
        is_denied = any(one.kind == "DENIED" for one in failures.values())
        if failures and (is_denied or not skips):
            raise _gravest([failures[n] for n in sorted(failures)]) or failures[min(failures)]
        if one.into is not None:
            kept = [value for number, value in enumerate(results[:ran]) if number not in failures]
            scope.make(one.into.name, kept)

    async def repeat(self, one: tree.Repeat, scope: Scope) -> None:
        """A loop of rounds."""
        most = self.rounds if one.most is None else self.value(one.most, scope)
        for _ in range(most):
            if one.while_ is not None and not self.value(one.while_, scope):
                return
            try:
                await self.block(one.body, scope)
            except _Left:
                return
            except _Next:
                pass
            if one.until is not None and self.value(one.until, scope):
                return
        raise Failed("ROUNDS", f"not done after {most} rounds", one.id)
