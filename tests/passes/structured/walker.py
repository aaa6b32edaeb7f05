"""Random plans of version 2, and a walk through one by chance that watches what is read.

The walk knows nothing of `check`: it keeps which variables have a value or a failure at each moment, takes
branches, failures and numbers of items by chance, and raises Caught where a variable is read that has no
value, or a failure is used as data.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from callsheet.ir.expr import Literal
from callsheet.ir.expression import Binary, BinaryOp, Call, Expression, Field, Unary, UnaryOp, Variable, nodes
from callsheet.ir.scopes import Scopes, scopes_of
from callsheet.ir.statement_ids import with_ids
from callsheet.ir.tree import (
    Act,
    Again,
    Assign,
    Block,
    Branch,
    Compute,
    Foreach,
    GoOn,
    Handler,
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
    recovery_of,
)

# ---------------------------------------------------------------- random plans

ANYTHING = Call("json", (Literal("[1]"),))
"""A value of which `check` knows nothing."""


@dataclass
class Maker:
    """Makes statements; `known` are names that are probably set where the next one stands."""

    random: Random
    left: int = 25
    known: list[str] = field(default_factory=list[str])
    made: int = 0

    def tree(self) -> Tree:
        return with_ids(Tree(self.block(0, None)))

    def block(self, depth: int, loop: str | None) -> Block:
        before = list(self.known)
        block: list[Statement] = []
        for _ in range(self.random.randint(1, 4)):
            if self.left > 0:
                block.append(self.statement(depth, loop))
        if depth:
            kept = [name for name in self.known if name not in before and self.random.random() < 0.5]
            self.known = [*before, *kept]
        return tuple(block)

    def fresh(self) -> str:
        if self.known and self.random.random() < 0.25:
            return self.random.choice(self.known)
        self.made += 1
        return f"v{self.made}"

    def name(self) -> str:
        if not self.known or self.random.random() < 0.03:
            return self.random.choice(["v1", "v2", "error", "nothing"])
        return self.random.choice(self.known)

    def value(self) -> Expression:
        chance = self.random.random()
        if chance < 0.4 or not self.known:
            return ANYTHING
        if chance < 0.8:
            return Variable(self.name())
        return Binary(BinaryOp.ADD, Variable(self.name()), Literal(1))

    def condition(self) -> Expression:
        chance = self.random.random()
        if chance < 0.35 and self.known:
            test: Expression = Call("FAILED", (Variable(self.name()),))
            return Unary(UnaryOp.NOT, test) if self.random.random() < 0.5 else test
        return self.value()

    def into(self) -> Into | None:
        if self.random.random() < 0.3:
            return None
        name = self.fresh()
        self.known.append(name)
        return Into(name)

    def recovery(self, depth: int, loop: str | None, into: Into | None, *, is_loop: bool) -> Recovery | None:
        chance = self.random.random()
        if chance < 0.5:
            return None
        if chance < 0.65:
            return Recovery(remedy=GoOn())
        if chance < 0.7:
            return Recovery(remedy=Use(self.value())) if into is not None else None
        if chance < 0.75:
            return Recovery(Again(2), remedy=Leave((Literal("no"),)))
        if chance < 0.8 and is_loop:
            return Recovery(remedy=Skip())
        return self.handled(depth, loop)

    def handled(self, depth: int, loop: str | None) -> Recovery:
        self.known.append("error")
        body = self.block(depth + 1, loop)
        self.known = [name for name in self.known if name != "error"]
        final = self.block(depth + 1, loop) if self.random.random() < 0.3 else None
        return Recovery(handlers=(Handler((), body),), final=final)

    def statement(self, depth: int, loop: str | None) -> Statement:  # noqa: PLR0911
        self.left -= 1
        kind = self.random.randint(0, 13 if depth < 3 else 6)
        match kind:
            case 0 | 1:
                values = tuple(self.value() for _ in range(self.random.randint(0, 2)))
                into = self.into()
                return Act("", "T", values, (), into, self.recovery(depth, loop, into, is_loop=False))
            case 2 | 3:
                value, name = self.value(), self.fresh()
                self.known.append(name)
                return Let("", name, value)
            case 4:
                return Assign("", self.name(), self.value()) if self.known else Say("", Word.NOTE)
            case 5:
                words = [Word.NOTE, Word.NOTE, Word.FAIL, Word.RESPOND, Word.TERMINATE]
                if loop is not None:
                    words += [Word.BREAK, Word.CONTINUE] + ([Word.YIELD] * 2 if loop == "each" else [])
                word = self.random.choice(words)
                return Say("", word, () if word in (Word.BREAK, Word.CONTINUE) else (self.value(),))
            case 6:
                return Require("", self.condition())
            case 7 | 8:
                branches = tuple(
                    Branch(self.condition(), self.block(depth + 1, loop))
                    for _ in range(self.random.randint(1, 2))
                )
                return If("", branches, self.block(depth + 1, loop) if self.random.random() < 0.6 else None)
            case 9 | 10:
                before = list(self.known)
                source, var = self.value(), self.fresh()
                self.known.append(var)
                body = self.block(depth + 1, "each")
                self.known = before
                into = self.into()
                recovery = self.recovery(depth, loop, into, is_loop=True)
                return Foreach(
                    "", var, source, body, in_order=self.random.random() < 0.3, into=into, recovery=recovery
                )
            case 11:
                body = self.block(depth + 1, "repeat")
                recovery = self.recovery(depth, loop, None, is_loop=False)
                if self.random.random() < 0.5:
                    return Repeat("", Literal(3), body, until=self.condition(), recovery=recovery)
                return Repeat("", Literal(3), body, while_=self.condition(), recovery=recovery)
            case 12:
                return Try("", self.block(depth + 1, loop), self.handled(depth, loop))
            case _:
                before = list(self.known)
                members: list[Statement] = []
                new: list[str] = []
                for _ in range(2):
                    self.known = list(before)
                    members.append(self.statement(max(depth, 2), None))
                    new += [name for name in self.known if name not in before]
                self.known = [*before, *new]
                return Parallel("", tuple(members))


# ---------------------------------------------------------------- walks


class Caught(Exception):
    """What `check` should have told."""


class _Fails(Exception):
    pass


class _Ends(Exception):
    pass


class _Breaks(Exception):
    pass


class _Continues(Exception):
    pass


VALUE, FAILURE = "value", "failure"


@dataclass
class Walker:
    """One walk; `variables` has a dict for each scope around the place, the innermost last."""

    random: Random
    scopes: Scopes
    variables: list[dict[str, str]] = field(default_factory=lambda: [{}])

    def run(self, tree: Tree) -> None:
        """Walk from the beginning to an end. Raises Caught."""
        with suppress(_Fails, _Ends):
            self.block(tree.body)

    def block(self, block: Block) -> None:
        for one in block:
            self.one(one)

    # ------------------------------------------------------------ variables

    def find(self, name: str) -> dict[str, str] | None:
        return next((held for held in reversed(self.variables) if name in held), None)

    def owner(self, one: Statement, name: str) -> dict[str, str]:
        """Where a variable lives that SET assigns and that is not set on the way of this walk."""
        around = list(self.scopes.places[one.id].around())
        scope = next((scope for scope in around if name in scope.names), None)
        if scope is None:
            raise Caught(f"there is no ${name}")
        return self.variables[len(around) - 1 - around.index(scope)]

    def read(self, name: str) -> str:
        held = self.find(name)
        if held is None:
            raise Caught(f"${name} is not set")
        return held[name]

    def use(self, node: Expression) -> str:
        """What an expression gives: a failure passes only as it is."""
        if isinstance(node, Variable):
            return self.read(node.name)
        self.data(node)
        return VALUE

    def data(self, node: Expression) -> None:
        for one in nodes(node):
            if isinstance(one, Call | Field):
                return
            if isinstance(one, Variable) and self.read(one.name) == FAILURE:
                raise Caught(f"${one.name} is a failure")

    def test(self, node: Expression) -> bool:
        match node:
            case Unary(operand=operand):
                return not self.test(operand)
            case Call(arguments=(Variable(name=name),)):
                return self.read(name) == FAILURE
            case _:
                self.data(node)
                return self.random.random() < 0.5

    def may_fail(self, chance: float = 0.4) -> None:
        if self.random.random() < chance:
            raise _Fails

    # ------------------------------------------------------------ statements

    def one(self, one: Statement) -> None:
        match one:
            case Act(positional=positional, into=into):

                def call() -> None:
                    for value in positional:
                        self.data(value)
                    self.may_fail()

                self.guarded(one, call, into)
            case Let(name=name, value=value):
                self.variables[-1][name] = self.use(value)
            case Assign(name=name, value=value):
                made = self.use(value)
                held = self.find(name)
                (self.owner(one, name) if held is None else held)[name] = made
            case Require(condition=condition):
                if not self.test(condition):
                    raise _Fails
            case Say(word=word, values=values):
                self.say(word, values)
            case If():
                self.branches(one)
            case Foreach():
                self.data(one.source)
                self.guarded(one, lambda: self.items(one), one.into)
            case Repeat():
                self.guarded(one, lambda: self.rounds(one), None)
            case Try(body=body):
                self.guarded(one, lambda: self.block(body), None)
            case Parallel(members=members):
                order = list(members)
                self.random.shuffle(order)
                self.guarded(one, lambda: self.block(tuple(order)), None)
            case Compute() | Invoke():
                raise AssertionError

    def say(self, word: Word, values: tuple[Expression, ...]) -> None:
        for value in values:
            self.data(value)
        match word:
            case Word.FAIL:
                raise _Fails
            case Word.RESPOND | Word.TERMINATE:
                raise _Ends
            case Word.BREAK:
                raise _Breaks
            case Word.CONTINUE:
                raise _Continues
            case _:
                pass

    def branches(self, one: If) -> None:
        for branch in one.branches:
            if self.test(branch.condition):
                self.block(branch.body)
                return
        if one.otherwise is not None:
            self.block(one.otherwise)

    def items(self, one: Foreach) -> None:
        scope = self.scopes.items[one.id]
        stops = one.in_order or scope.leaves or bool(scope.sets)
        failed = False
        skips = one.recovery is not None and isinstance(one.recovery.remedy, Skip)
        for _ in range(self.random.randint(0, 3)):
            self.variables.append({one.var: VALUE})
            depth = len(self.variables)
            try:
                self.block(one.body)
            except _Breaks:
                del self.variables[depth - 1 :]
                break
            except _Continues:
                pass
            except _Fails:
                failed = not skips
                if stops and not skips:
                    del self.variables[depth - 1 :]
                    break
            del self.variables[depth - 1 :]
        if failed:
            raise _Fails

    def rounds(self, one: Repeat) -> None:
        for _ in range(3):
            if one.while_ is not None and not self.test(one.while_):
                return
            try:
                self.block(one.body)
            except _Breaks:
                return
            except _Continues:
                pass
            if one.until is not None and self.test(one.until):
                return
        raise _Fails

    def guarded(self, one: Statement, run: Any, into: Into | None) -> None:
        recovery = recovery_of(one) or Recovery()
        depth = len(self.variables)
        try:
            try:
                run()
                if into is not None:
                    self.variables[-1][into.name] = VALUE
            except _Fails:
                del self.variables[depth:]
                self.failed(recovery, into)
        except (Caught, AssertionError):
            raise
        except Exception:
            if recovery.final is not None:
                del self.variables[depth:]
                self.block(recovery.final)
            raise
        if recovery.final is not None:
            self.block(recovery.final)

    def failed(self, recovery: Recovery, into: Into | None) -> None:
        match recovery.remedy:
            case GoOn():
                if into is not None:
                    self.variables[-1][into.name] = FAILURE
                return
            case Use(value=value):
                self.data(value)
                if into is not None:
                    self.variables[-1][into.name] = VALUE
                return
            case Leave():
                raise _Ends
            case Skip() | None:
                pass
        if not recovery.handlers:
            raise _Fails
        handler = recovery.handlers[0]
        before = self.variables[-1].get(handler.binds)
        self.variables[-1][handler.binds] = FAILURE
        depth = len(self.variables)
        try:
            self.block(handler.body)
        finally:
            del self.variables[depth:]
            if before is None:
                self.variables[-1].pop(handler.binds, None)
            else:
                self.variables[-1][handler.binds] = before


def random_tree(seed: int) -> Tree:
    """The random plan of a seed."""
    return Maker(Random(seed)).tree()


def walk(tree: Tree, seed: int) -> None:
    """One walk through a plan. Raises Caught."""
    Walker(Random(seed), scopes_of(tree)).run(tree)
