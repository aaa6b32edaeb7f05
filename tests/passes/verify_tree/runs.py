"""Runs trees in worlds that differ in their secrets, to see what an observer outside can tell.

A small interpreter of its own: expressions have their real meaning, calls of four tools are answered by the
world, and the calls of one of them are seen outside.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from callsheet.ir.expression import Expression, variables_in
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
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
    Tree,
    Try,
    Use,
    Word,
)
from callsheet.ir.tree_flow import assigned_outside, names_made, runs_one_by_one
from callsheet.machine.expressions import Environment, ExpressionFailed, compile_expression

SEEN, SECRET, OPEN, FLAKY = "SEND", "SECRET", "OPEN", "FLAKY"
"""Tools: one is seen outside, one gives secrets, one what everybody may know, one fails for some secrets."""


class Failed(Exception):
    """A statement has failed; `is_call` if it was a call."""

    def __init__(self, kind: str, *, is_call: bool = False) -> None:
        super().__init__(kind)
        self.kind, self.is_call = kind, is_call


class Leaving(Exception):
    """An early end."""

    def __init__(self, word: Word, value: Any = None) -> None:
        super().__init__(word)
        self.word, self.value = word, value


def _name(into: Into | None) -> str | None:
    return None if into is None else into.name


class TooLong(Exception):
    """The run takes too many statements to be worth it."""


@dataclass
class Seen:
    """What an observer has seen: calls with their arguments. `failed`: that of a call ended the run."""

    calls: list[Any] = field(default_factory=list[Any])
    failed: bool = False


@dataclass
class Runner:
    """One run in one world."""

    tree: Tree
    world: int
    seen: Seen = field(default_factory=Seen)
    left: int = 3_000
    _compiled: dict[int, Callable[..., Any]] = field(default_factory=dict[int, Callable[..., Any]])

    def run(self, inputs: dict[str, Any]) -> Seen:
        """Run the plan."""
        scope = dict(inputs)
        try:
            self._block(self.tree.body, scope, {})
        except Leaving:
            pass
        except Failed as failed:
            self.seen.failed = failed.is_call
        return self.seen

    def _value(self, node: Expression, scope: dict[str, Any]) -> Any:
        names = variables_in(node)
        compiled = self._compiled.get(id(node))
        if compiled is None:
            compiled = self._compiled[id(node)] = compile_expression(node, names.index)
        try:
            return compiled([scope[name] for name in names], Environment(datetime(2026, 1, 1, tzinfo=UTC)))
        except ExpressionFailed as failed:
            raise Failed(str(failed.kind.name)) from None

    def _block(self, block: Block, scope: dict[str, Any], item: dict[str, Any]) -> None:
        for statement in block:
            self.left -= 1
            if self.left < 0:
                raise TooLong
            self._statement(statement, scope, item)

    def _statement(self, one: Statement, scope: dict[str, Any], item: dict[str, Any]) -> None:
        match one:
            case Act():
                self._handled(one, scope, item, lambda: self._act(one, scope), _name(one.into))
            case Let(name=name, value=value) | Assign(name=name, value=value):
                scope[name] = self._value(value, scope)
            case Require(condition=condition):
                if not self._value(condition, scope):
                    raise Failed("REQUIRE")
            case Say():
                self._say(one, scope, item)
            case If(branches=branches, otherwise=otherwise):
                for branch in branches:
                    if self._value(branch.condition, scope):
                        return self._block(branch.body, scope, item)
                self._block(otherwise or (), scope, item)
            case Try(body=body):
                self._handled(one, scope, item, lambda: self._block(body, scope, item), None)
            case Parallel(members=members):
                self._handled(one, scope, item, lambda: self._block(members, scope, item), None)
            case Foreach():
                name = _name(one.into)
                self._handled(one, scope, item, lambda: self._foreach(one, scope), name)
            case Repeat():
                self._handled(one, scope, item, lambda: self._repeat(one, scope, item), None)
            case Invoke():
                self._handled(one, scope, item, lambda: self._invoke(one, scope), _name(one.into))
            case Compute():
                raise NotImplementedError

    def _act(self, act: Act, scope: dict[str, Any]) -> Any:
        given = {name: self._value(value, scope) for name, value in act.named}
        return self._answer(act, list(given.values()))

    def _answer(self, act: Act, arguments: list[Any]) -> Any:
        if act.tool == SEEN:
            self.seen.calls.append((act.id, repr(arguments)))
            return "sent"
        world = 0 if act.tool == OPEN else self.world
        dice = zlib.crc32(f"{world}:{act.id}:{arguments}".encode())
        if act.tool == FLAKY and dice % 3 == 0:
            raise Failed("TOOL", is_call=True)
        values: list[Any] = [
            dice % 3,
            "abc"[dice % 3],
            ["x"] * (dice % 3),
            None if dice % 2 else "y",
            {"k": dice % 2},
        ]
        return values[zlib.crc32(act.id.encode()) % len(values)]

    def _handled(
        self,
        one: Act | Try | Parallel | Foreach | Repeat | Invoke,
        scope: dict[str, Any],
        item: dict[str, Any],
        work: Callable[[], Any],
        name: str | None,
    ) -> None:
        recovery = one.recovery or Recovery()
        try:
            for attempt in range(1 + (0 if recovery.again is None else recovery.again.count), 0, -1):
                try:
                    value = work()
                except Failed:
                    if attempt == 1:
                        raise
                    continue
                if name is not None:
                    scope[name] = value
                return
        except Failed as failed:
            self._failed(one, recovery, scope, item, failed)
        finally:
            if recovery.final is not None and self.left >= 0:
                self._block(recovery.final, scope, item)

    def _failed(
        self,
        one: Statement,
        recovery: Recovery,
        scope: dict[str, Any],
        item: dict[str, Any],
        failed: Failed,
    ) -> None:
        name = _name(one.into) if isinstance(one, Act | Foreach | Invoke) else None
        match recovery.remedy:
            case GoOn():
                if name is not None:
                    scope[name] = None
            case Use(value=value):
                if name is not None:
                    scope[name] = self._value(value, scope)
            case Leave():
                raise Leaving(Word.TERMINATE)
            case Skip() | None:
                for handler in recovery.handlers:
                    if not handler.kinds or failed.kind in handler.kinds:
                        scope[handler.binds] = {"message": failed.kind}
                        return self._block(handler.body, scope, item)
                raise failed

    def _say(self, one: Say, scope: dict[str, Any], item: dict[str, Any]) -> None:
        values = [self._value(value, scope) for value in one.values]
        match one.word:
            case Word.YIELD:
                item["value"] = values[0]
            case Word.FAIL:
                raise Failed("FAIL")
            case Word.NOTE | Word.WAIT:
                pass
            case _:
                raise Leaving(one.word, values[0] if values else None)

    def _foreach(self, loop: Foreach, scope: dict[str, Any]) -> list[Any]:
        given = self._value(loop.source, scope)
        if not isinstance(given, list | tuple | dict):
            raise Failed("TYPE")
        source = list(cast("list[Any]", given))
        if loop.limit is not None:
            limit = self._value(loop.limit, scope)
            if type(limit) is not int or limit < 0:
                raise Failed("TYPE")
            del source[limit:]
        made, outer = names_made(loop.body) | {loop.var}, assigned_outside(loop)
        skips = loop.recovery is not None and isinstance(loop.recovery.remedy, Skip)
        results: list[Any] = []
        first: Failed | None = None
        for one in source:
            inner, item = {**scope, loop.var: one}, dict[str, Any]()
            try:
                self._block(loop.body, inner, item)
            except Leaving as leaving:
                if leaving.word is Word.CONTINUE or leaving.word is Word.BREAK:
                    results.append(item.get("value"))
                scope.update({name: inner[name] for name in outer - made})
                if leaving.word is Word.CONTINUE:
                    continue
                if leaving.word is Word.BREAK:
                    break
                raise
            except Failed as failed:
                if skips:
                    continue
                first = first or failed
                if runs_one_by_one(loop):
                    break
                continue
            results.append(item.get("value"))
            scope.update({name: inner[name] for name in outer - made})
        if first is not None:
            raise first
        return results

    def _repeat(self, loop: Repeat, scope: dict[str, Any], item: dict[str, Any]) -> None:
        most = 10 if loop.most is None else self._value(loop.most, scope)
        for _ in range(most if isinstance(most, int) else 0):
            if loop.while_ is not None and not self._value(loop.while_, scope):
                return
            try:
                self._block(loop.body, scope, item)
            except Leaving as leaving:
                if leaving.word is Word.BREAK:
                    return
                if leaving.word is not Word.CONTINUE:
                    raise
            if loop.until is not None and self._value(loop.until, scope):
                return
        if loop.while_ is None or self._value(loop.while_, scope):
            raise Failed("ROUNDS")

    def _invoke(self, call: Invoke, scope: dict[str, Any]) -> Any:
        plan = self.tree.plan(call.plan)
        assert plan is not None
        given = {name: self._value(value, scope) for name, value in call.named}
        try:
            self._block(plan.body, given, {})
        except Leaving as leaving:
            if leaving.word is not Word.RETURN:
                raise
            return leaving.value
        return None
