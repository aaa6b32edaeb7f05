"""The variables of a function: which are set where they are read, which are still needed, and in which scope.

In: a `core.Function`. Out: for each statement the variables that are needed after it, for each variable the
loops whose items have one of their own, and the reads of variables that some path leaves unset.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple, TypeAlias, TypeVar, assert_never

from callsheet.frontends.python import core
from callsheet.frontends.python.source import children, names_bound, names_read, walk
from callsheet.frontends.python.syntax import COMPREHENSIONS, Given, named_surely, names_given, surely_runs

Set: TypeAlias = "frozenset[str]"
_EMPTY: Set = frozenset()
_State = TypeVar("_State", set[str], frozenset[str])


def _read_before_set(node: ast.AST, known: set[str]) -> set[str]:
    """The names that an expression reads, but for those that are known or that it has named before."""
    match node:
        case ast.NamedExpr(target=target, value=value):
            found = _read_before_set(value, known)
            known.add(target.id)
            return found
        case ast.IfExp(test=test, body=first, orelse=second):
            parts: list[ast.AST] = [test, first, second]
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return names_read(node) - known
        case ast.Name():
            return names_read(node) - known
        case _:
            parts = list(ast.iter_child_nodes(node))
    return {name for one in parts for name in _read_before_set(one, known)}


class PureFlow:
    """What pure statements read from before them (`exposed`), and what they set on every path."""

    def __init__(self) -> None:
        self.exposed: set[str] = set()
        self.breaks: list[list[set[str]]] = []

    def run(self, body: Sequence[ast.stmt], known: Iterable[str] = ()) -> set[str] | None:
        """What is set after statements, if `known` was before; None if nothing comes after them."""
        state: set[str] | None = set(known)
        for one in body:
            if state is None:
                return None
            state = self.statement(one, state)
        return state

    def read(self, node: ast.AST | None, state: set[str]) -> None:
        """An expression is evaluated."""
        if node is None:
            return
        if not _named(walk(node)):
            self.exposed |= names_read(node) - state
            return
        comprehensions = (one for one in walk(node) if isinstance(one, COMPREHENSIONS))
        inner = _named(each for one in comprehensions for each in walk(one))
        self.exposed |= _read_before_set(node, set(state)) - inner
        state |= named_surely(node)

    def _target(self, node: ast.expr, state: set[str]) -> None:
        for one in walk(node):
            if isinstance(one, (ast.Subscript, ast.Attribute)):
                self.read(one, state)
        state |= names_bound(node)

    def statement(self, node: ast.stmt, state: set[str]) -> set[str] | None:  # noqa: PLR0912
        """What is set after one statement."""
        match node:
            case ast.Assign(targets=targets, value=value):
                self.read(value, state)
                for one in targets:
                    self._target(one, state)
            case ast.AnnAssign(target=target, value=value):
                self.read(value, state)
                if value is not None:
                    self._target(target, state)
            case ast.AugAssign(target=target, value=value):
                if isinstance(target, ast.Name):
                    self.exposed |= {target.id} - state
                else:
                    self.read(target, state)
                self.read(value, state)
            case ast.Delete(targets=targets):
                for one in targets:
                    if isinstance(one, ast.Name):
                        self.exposed |= {one.id} - state
                        state.discard(one.id)
                    else:
                        self.read(one, state)
            case ast.If():
                self.read(node.test, state)
                true, false = names_given(node.test)
                return _meet([self.run(node.body, state | true), self.run(node.orelse, state | false)])
            case ast.For() | ast.While():
                return self._loop(node, state)
            case ast.Try():
                return self._try(node, state)
            case ast.With():
                for one in node.items:
                    self.read(one.context_expr, state)
                    if one.optional_vars is not None:
                        self._target(one.optional_vars, state)
                return self.run(node.body, state)
            case ast.Match():
                return self._match(node, state)
            case ast.Expr(value=value):
                self.read(value, state)
            case ast.Raise() | ast.Return():
                for one in children(node):
                    self.read(one, state)
                return None
            case ast.Break() | ast.Continue():
                if isinstance(node, ast.Break) and self.breaks:
                    self.breaks[-1].append(set(state))
                return None
            case ast.FunctionDef() | ast.ClassDef():
                self.read(node, state)
                state.add(node.name)
            case _:
                for one in children(node):
                    self.read(one, state)
                state |= names_bound(node)
        return state

    def _loop(self, node: ast.For | ast.While, state: set[str]) -> set[str] | None:
        endless = (
            isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
        )
        inner = set(state)
        if isinstance(node, ast.For):
            self.read(node.iter, state)
            inner = set(state)
            self._target(node.target, inner)
        else:
            self.read(node.test, state)
            true, false = names_given(node.test)
            inner = state | true
            state |= false
        self.breaks.append([])
        self.run(node.body, inner)
        ends: list[set[str] | None] = [*self.breaks.pop()]
        if not endless:
            ends.append(self.run(node.orelse, state))
        return _meet(ends)

    def _try(self, node: ast.Try, state: set[str]) -> set[str] | None:
        before = set(state)
        done = self.run(node.body, state)
        if done is not None:
            done = self.run(node.orelse, done)
        ends = [done]
        for one in node.handlers:
            inner = set(before)
            if one.type is not None:
                self.read(one.type, inner)
            if one.name:
                inner.add(one.name)
            after = self.run(one.body, inner)
            if after is not None and one.name:
                after.discard(one.name)
            ends.append(after)
        made = _meet(ends)
        if not node.finalbody:
            return made
        final = self.run(node.finalbody, before if made is None else before & made)
        return None if made is None or final is None else made | final

    def _match(self, node: ast.Match, state: set[str]) -> set[str] | None:
        self.read(node.subject, state)
        ends: list[set[str] | None] = []
        is_whole = False
        for one in node.cases:
            inner = set(state) | names_bound(one.pattern)
            for part in walk(one.pattern):
                if isinstance(part, ast.expr):
                    self.read(part, inner)
            if one.guard is not None:
                self.read(one.guard, inner)
            elif isinstance(one.pattern, ast.MatchAs) and one.pattern.pattern is None:
                is_whole = True
            ends.append(self.run(one.body, inner))
        if not is_whole:
            ends.append(state)
        return _meet(ends)


def _named(nodes: Iterable[ast.AST]) -> Set:
    return frozenset(one.target.id for one in nodes if isinstance(one, ast.NamedExpr))


def _meet(states: Iterable[_State | None]) -> _State | None:
    """What is set on all of the paths that go on; None if none does."""
    going = [one for one in states if one is not None]
    return reduce(lambda one, two: one & two, going) if going else None


class Effect(NamedTuple):
    """What a core statement itself reads from before it, and sets on every path."""

    reads: Set
    sets: Set


class Variables:
    """The facts about a function's variables."""

    def __init__(self, function: core.Function, names: Iterable[str], extra: dict[str, Set]) -> None:
        """`names` are the variables; `extra` what a local definition reads that a name stands for."""
        self.function = function
        self.names = frozenset(names) | frozenset(function.parameters) | frozenset(function.captured)
        self.extra = extra
        self.effects: dict[int, Effect] = {}
        self.after: dict[int, Set] = {}
        self.before: dict[int, Set] = {}
        self.inner: dict[int, Set] = {}
        self.caught: dict[int, Set] = {}
        """What handlers around a statement need, if it fails."""
        self.entry: dict[int, Set] = {}
        self.exc: Set = _EMPTY
        self.ret: Set = _EMPTY
        self.brk: Set = _EMPTY
        self.cont: Set = _EMPTY
        self.endless: list[list[Set]] = []
        self.loops: list[core.Loop | core.While] = []
        self.continues: dict[int, list[Set]] = {}
        self.tests: dict[str, Given] = {}
        """What `:=` gives values where a variable is true or false, that was set just before."""
        self.unset: dict[str, list[core.Core]] = {}
        """Variables that some path leaves unset where they are read, and by which statements."""
        needed = self._live(function.body, _EMPTY) - {*function.parameters, *function.captured}
        self.at_start = needed & _named(walk(function.node)) if needed else needed
        """Variables that `:=` sets on some ways alone, and those among them that read them."""
        self.unbound: set[str] = set()
        """Names of errors, which have no value after their handlers."""
        self.ends: dict[int, tuple[Set | None, Set | None]] = {}
        """How loops and attempts end: what is set when they end by themselves, and otherwise."""
        self._assigned(function.body, frozenset((*function.parameters, *function.captured)))
        self.scopes: dict[str, list[core.Loop | None]] = {}
        self.predeclared: dict[int, list[str]] = {}
        """Variables of a loop's items, by its id, or of the function (0), that an inner loop sets."""
        self._place()

    # ------------------------------------------------------------ effects

    def reads_of(self, *nodes: ast.AST) -> Set:
        """The variables that expressions read, also through the local functions that they name."""
        found = names_read(*nodes)
        return self._with_extra(found)

    def _with_extra(self, found: set[str]) -> Set:
        made = set(found)
        for name in found:
            made |= self.extra.get(name, _EMPTY)
        return frozenset(made & self.names)

    def effect(self, one: core.Core) -> Effect:
        """What a statement itself reads and sets."""
        known = self.effects.get(id(one))
        if known is not None:
            return known
        sets: set[str] = set()
        if isinstance(one, core.Pure):
            flow = PureFlow()
            done = flow.run([one.stmt])
            reads = self._with_extra(flow.exposed)
            sets = (done or set()) & self.names
        else:
            flow = PureFlow()
            for part in core.parts_of(one):
                flow.read(part, given := set[str]())
                sets |= given
            reads = self._with_extra(flow.exposed)
            if isinstance(one, (core.Call, core.Loop)) and one.into:
                sets.add(one.into)
            if isinstance(one, core.Fail) and one.again:
                reads |= {one.again}
        made = self.effects[id(one)] = Effect(reads, frozenset(sets))
        return made

    def bound_by(self, one: core.Core) -> Set:
        """All variables that a statement itself may set."""
        return core.bound_by(one) & self.names

    # ------------------------------------------------------------ what is still needed

    def _live(self, block: core.Block, out: Set) -> Set:
        for one in reversed(block):
            self.after[id(one)] = self.after.get(id(one), _EMPTY) | out
            self.caught[id(one)] = self.caught.get(id(one), _EMPTY) | self.exc
            inner = self._inner(one, out) | self.exc
            self.inner[id(one)] = self.inner.get(id(one), _EMPTY) | inner
            out = inner | self.effect(one).reads
            self.before[id(one)] = self.before.get(id(one), _EMPTY) | out
        return out

    def _inner(self, one: core.Core, out: Set) -> Set:  # noqa: PLR0911
        """What is needed once a statement has evaluated its own expressions."""
        effect = self.effect(one)
        match one:
            case core.Pure(stmt=ast.Raise()):
                return _EMPTY
            case core.Pure() | core.Call() | core.Wait() | core.Give() | core.Remark():
                return out - effect.sets
            case core.Choice(then=then, otherwise=otherwise):
                return (self._live(then, out) | self._live(otherwise, out)) - effect.sets
            case core.Loop(target=target, body=body, into=into):
                out = out - {into or ""}
                return self._around(body, out, target)
            case core.While(body=body):
                return self._around(body, out | effect.reads, "")
            case core.Attempt():
                return self._attempt(one, out)
            case core.Together(members=members):
                return self._live(members, out)
            case core.Return():
                return self.ret
            case core.Break():
                return self.brk
            case core.Continue():
                return self.cont
            case core.Fail():
                return self.exc
        assert_never(one)

    def _around(self, body: core.Block, out: Set, target: str) -> Set:
        before = self.brk, self.cont
        head = out
        while True:
            self.brk, self.cont = out, head
            entry = self._live(body, head)
            made = head | (entry - {target})
            if made == head:
                break
            head = made
        self.brk, self.cont = before
        self.entry[id(body)] = entry
        return head

    def _attempt(self, one: core.Attempt, out: Set) -> Set:
        before = self.exc, self.ret, self.brk, self.cont
        if one.final is not None:
            final = self._live(one.final, out | self.exc | self.ret | self.brk | self.cont)
            out = final
            self.exc, self.ret, self.brk, self.cont = final, final, final, final
        around = self.exc
        caught: Set = around
        for each in one.handlers:
            caught |= self._live(each.body, out)
        self.exc = caught
        made = self._live(one.body, out)
        self.exc, self.ret, self.brk, self.cont = before
        return made | caught

    # ------------------------------------------------------------ what is set

    def _assigned(self, block: core.Block, state: Set | None) -> Set | None:
        for one in block:
            if state is None:
                return None
            self._check(one, state)
            for name in core.bound_by(one) if isinstance(one, core.Pure) else ():
                self.tests.pop(name, None)
            match one:
                case core.Pure(stmt=ast.Assign(targets=[ast.Name(id=name)], value=value)):
                    self.tests[name] = names_given(value)
                case _:
                    pass
            state = self._then(one, state | self.effect(one).sets)
            if not isinstance(one, core.Pure):
                self.tests.clear()
        return state

    def _check(self, one: core.Core, state: Set) -> None:
        for name in self.effect(one).reads - state:
            self.unset.setdefault(name, []).append(one)

    def _then(self, one: core.Core, state: Set) -> Set | None:
        if not isinstance(one, (core.Loop, core.While)):
            return self._after(one, state)
        self.loops.append(one)
        self.tests.clear()  # which a turn may set anew
        made = self._after(one, state)
        self.loops.pop()
        return made

    def _after(self, one: core.Core, state: Set) -> Set | None:
        match one:
            case core.Pure(stmt=ast.Raise()):
                return None
            case core.Pure() | core.Call() | core.Wait() | core.Give() | core.Remark():
                return state
            case core.Choice(test=test, then=then, otherwise=otherwise, of=of):
                true, false = names_given(test, self.tests)
                start: tuple[Set | None, Set | None] = (state | true, state | false)
                if of is not None:
                    start = self.ends.get(id(of), start)
                first, second = self._assigned(then, start[0]), self._assigned(otherwise, start[1])
                return _meet((first, second))
            case core.Loop(target=target, body=body, source=source):
                self.endless.append([])
                done = self._assigned(body, state | {target})
                left = _meet(self.endless.pop())
                whole = _meet((done, *self.continues.pop(id(one), ()))) if surely_runs(source) else state
                self.ends[id(one)] = whole, left
                return _meet((whole, left))
            case core.While(test=test, body=body):
                true, false = names_given(test)
                self.endless.append([])
                self._assigned(body, state | true)
                state |= false
                left = _meet(self.endless.pop())
                endless = isinstance(test, ast.Constant) and bool(test.value)
                whole = None if endless else state
                self.ends[id(one)] = whole, left
                return _meet((whole, left))
            case core.Attempt():
                return self._tried(one, state)
            case core.Together(members=members):
                return self._assigned(members, state)
            case core.Break():
                if self.endless:
                    self.endless[-1].append(state)
                return None
            case core.Continue():
                if self.loops:
                    self.continues.setdefault(id(self.loops[-1]), []).append(state)
                return None
            case core.Return() | core.Fail():
                return None
        assert_never(one)

    def _tried(self, one: core.Attempt, state: Set) -> Set | None:
        done = self._assigned(one.body, state)
        caught: Set | None = None
        for each in one.handlers:
            end = self._assigned(each.body, state | {each.binds})
            caught = _meet((caught, None if end is None else end - each.unsets))
        self.unbound |= {name for each in one.handlers for name in each.unsets}
        self.ends[id(one)] = done, caught
        made = _meet((done, caught))
        if one.final is None:
            return made
        final = self._assigned(one.final, state)
        return None if made is None or final is None else made | final

    # ------------------------------------------------------------ scopes

    def _place(self) -> None:
        where: dict[str, list[tuple[core.Loop, ...]]] = {}
        inner_writes: list[tuple[str, tuple[core.Loop, ...], core.Loop]] = []
        ended: list[tuple[str, tuple[core.Loop, ...]]] = []

        def note(names: Iterable[str], path: tuple[core.Loop, ...]) -> None:
            for name in names:
                where.setdefault(name, []).append(path)

        def walk(block: core.Block, path: tuple[core.Loop, ...]) -> None:
            for one in block:
                effect = self.effect(one)
                note(effect.reads | effect.sets | self.bound_by(one), path)
                if isinstance(one, core.Choice) and one.of is not None:
                    inside = {name for each in core.all_of([one.of]) for name in self.bound_by(each)}
                    ended.extend((name, path) for name in sorted(inside))
                inner_writes.extend(
                    (name, path, each) for name in sorted(self.bound_by(one)) for each in path
                )
                if isinstance(one, core.Loop):
                    note((one.target,), (*path, one))
                    inner_writes.extend((one.target, (*path, one), each) for each in (*path, one))
                    walk(one.body, (*path, one))
                    continue
                for inner in core.blocks_of(one):
                    walk(inner, path)

        walk(self.function.body, ())
        outer = {*self.function.parameters, *self.function.captured}
        for name, paths in where.items():
            if name in outer:
                self.scopes[name] = [None]
                continue
            self.scopes[name] = self._scopes(name, list(dict.fromkeys(paths)))
        for name, path, loop in inner_writes:
            if name in outer:
                continue
            scope = self.scope(name, path)
            if scope is loop or (scope is not None and path.index(loop) <= path.index(scope)):
                continue
            self._predeclare(name, scope)
        for name, path in ended:
            scope = self.scope(name, path)
            if name not in outer and any(scope is one for one in self.scopes[name]):
                self._predeclare(name, scope)

    def _predeclare(self, name: str, scope: core.Loop | None) -> None:
        """Let a variable have a value from the start of its scope, as not all paths to its reads set it."""
        place = 0 if scope is None else id(scope)
        if name not in self.predeclared.setdefault(place, []):
            self.predeclared[place].append(name)

    def _is_local(self, name: str, loop: core.Loop) -> bool:
        """Whether no item of a loop needs the value that another one or what is around it gave a variable."""
        entry = self.entry.get(id(loop.body), _EMPTY) - {loop.target}
        return name not in entry and name not in self.after[id(loop)]

    def _scopes(self, name: str, paths: Sequence[tuple[core.Loop, ...]]) -> list[core.Loop | None]:
        found: list[tuple[core.Loop, ...]] = []
        for path in paths:
            depth = len(path)
            while depth and not self._is_local(name, path[depth - 1]):
                depth -= 1
            found.append(path[:depth])
        found = list(dict.fromkeys(found))
        if any(one != two and two[: len(one)] == one for one in found for two in found):
            shared = found[0]
            for path in found[1:]:
                size = 0
                while size < min(len(shared), len(path)) and shared[size] is path[size]:
                    size += 1
                shared = shared[:size]
            while shared and not self._is_local(name, shared[-1]):
                shared = shared[:-1]
            found = [shared]
        return [path[-1] if path else None for path in found]

    def scope(self, name: str, path: tuple[core.Loop, ...]) -> core.Loop | None:
        """The loop whose items have a variable of this name of their own; None for one of the function."""
        known = self.scopes.get(name, [None])
        for one in reversed(path):
            if any(one is each for each in known):
                return one
        return None
