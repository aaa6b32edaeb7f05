"""What an await waits for: a call, a timer, several at a time."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Sequence
from typing import Final, cast

from callsheet.frontends.python import core
from callsheet.frontends.python.error_values import is_marked
from callsheet.frontends.python.lowering.calls import FORMS
from callsheet.frontends.python.lowering.held_calls import Held, HeldCalls
from callsheet.frontends.python.rewrites.first_done import IS_FIRST, IS_TAKEN
from callsheet.frontends.python.source import Refused, dotted, walk
from callsheet.frontends.python.syntax import assigned, call_of, is_plain_lambda, marked_failure, none, parsed

_GATHER: Final = "asyncio.gather"


class Tasks(HeldCalls):
    """The part of a translator that awaits."""

    def await_(self, node: ast.Await, out: core.Block, into: str | None) -> ast.expr:  # noqa: PLR0911 - cases
        """Do what is awaited; gives its result, in the variable `into` if that has a name.

        `into` is None where the result is not used, and empty for a new variable.
        """
        waited = node.value
        if IS_TAKEN in vars(node):
            return self.take(waited, node, out, into)
        if IS_FIRST in vars(waited):
            return self.first(cast("ast.Call", waited), node, out, into)
        if self.eager:
            made = self.start(cast("ast.Call", waited), node, out) if vars(node).get("is_task") else None
            if made is not None:
                return self.result(made, out, into)
            made = self.of_tasks(node, out, into)
            if made is not None:
                return made
        if isinstance(waited, ast.IfExp):
            return self._either(waited, node, out, into)
        if isinstance(waited, ast.Name) and waited.id in self.held:
            return self._await_held(waited, node, out, into)
        if isinstance(waited, ast.Name) and waited.id in self.results:
            held = ast.copy_location(ast.Name(self.results[waited.id], ast.Load()), node)
            if waited.id in self.may_have_failed:
                self.raised_again(held, node, out, self.may_have_failed[waited.id])
            return self.result(held, out, into)
        if not isinstance(waited, ast.Call):
            raise Refused(
                "PYT020", node, "what is awaited here is not known before the run", f"write {FORMS}"
            )
        if self.is_chosen(waited.func):
            return self.chosen(waited, node, out, into)
        resolved = self.program.resolved(waited.func) or ""
        if resolved == _GATHER or dotted(waited.func) == "gather":
            return self.gather(waited, node, out, into)
        if resolved == "asyncio.wait_for" and waited.args:
            inner: core.Block = []
            self.check_shield(waited.args[0])
            within = self.time_of(waited, out)
            made = self.await_(ast.copy_location(ast.Await(waited.args[0]), node), inner, into)
            out.append(self.awaited_for(waited, inner, within))
            return made
        name = self._wanted(into, waited)
        if self.spread_call(waited, out, name):
            self.awaits += 1
            return ast.copy_location(ast.Name(name or "None", ast.Load()), node) if name else none(node)
        one = self.member(waited, out, name)
        self.awaits += 1
        out.append(one)
        return ast.copy_location(ast.Name(name or "None", ast.Load()), node) if name else none(node)

    @abstractmethod
    def start(self, call: ast.Call, node: ast.AST, out: core.Block) -> ast.expr:
        """Run a task where it is started."""

    @abstractmethod
    def take(self, task: ast.expr, node: ast.AST, out: core.Block, into: str | None) -> ast.expr:
        """The result of a task that has run, or its error again."""

    def first(self, call: ast.Call, node: ast.AST, out: core.Block, into: str | None) -> ast.expr:
        """The first of several calls that is done: a list of its number and its result or error."""
        name = into or self.new_name("first")
        loop = self.each(call.args[0], node, out, name, numbered=True)
        loop.body, loop.first = self.safe_items(loop.body, True, node), True
        for one in core.all_of(loop.body):
            if isinstance(one, core.Give):
                number: ast.expr = ast.Name(loop.target, ast.Load())
                if not isinstance(call.args[0], ast.List):
                    number = ast.Subscript(number, ast.Constant(0), ast.Load())
                pair = ast.Tuple([number, one.value], ast.Load())
                one.value = ast.fix_missing_locations(ast.copy_location(pair, one.node))
        self.awaits += 1
        out.append(loop)
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    @abstractmethod
    def of_tasks(self, node: ast.Await, out: core.Block, into: str | None) -> ast.expr | None:
        """What an await of tasks gives; None if it awaits a call."""

    def _wanted(self, into: str | None, call: ast.Call) -> str | None:
        if into is None:
            return None
        if into:
            self.bound.add(into)
            return into
        stem = (dotted(call.func) or "result").split(".")[-1]
        return self.new_name(stem)

    def _either(self, waited: ast.IfExp, node: ast.Await, out: core.Block, into: str | None) -> ast.expr:
        """`await (f() if c else g())`: the call that the condition chooses."""
        name = into or self.new_name("result")
        test = self.value(waited.test, out)
        branches: list[core.Block] = []
        for part in (waited.body, waited.orelse):
            inner: core.Block = []
            self.await_(ast.copy_location(ast.Await(part), part), inner, name)
            branches.append(inner)
        out.append(core.Choice(test, branches[0], branches[1], node))
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def gather(self, call: ast.Call, node: ast.AST, out: core.Block, into: str | None) -> ast.expr:  # noqa: PLR0912, PLR0915
        """What gather awaits: calls side by side."""
        keeps_errors = False
        for word in call.keywords:
            if word.arg == "return_exceptions" and isinstance(word.value, ast.Constant):
                keeps_errors = bool(word.value.value)
                continue
            raise Refused("PYT020", word.value, f"gather takes no {word.arg} here", f"write {FORMS}")
        args = self._flat(call.args)
        self.awaits += 1
        if (
            len(args) == 1
            and isinstance(args[0], ast.Starred)
            and getattr(args[0].value, "id", None) not in self.listed
        ):
            name = into if into else (None if into is None else self.new_name("results"))
            loop = self.each(args[0].value, node, out, name)
            if keeps_errors:
                loop.body = self.safe_items(loop.body, name is not None, node)
            out.append(loop)
            return ast.copy_location(ast.Name(name, ast.Load()), node) if name else none(node)
        parts: list[ast.expr] = []
        members: core.Block = []
        for one in args:
            listed = self.listed_calls(one.value) if isinstance(one, ast.Starred) else None
            if listed is not None:
                calls, block = listed
                if block is not out:
                    raise Refused("PYT020", one, "these calls were made in another block", f"write {FORMS}")
                for call_ in calls:
                    call_.into = self.new_name(call_.callee)
                    member = call_
                    if keeps_errors:
                        member = self.safe(call_, call_.into, one)
                    members.append(member)
                    parts.append(ast.copy_location(ast.Name(call_.into, ast.Load()), one))
                continue
            if isinstance(one, ast.Starred):
                name = self.new_name("results")
                loop = self.each(one.value, one, out, name)
                if keeps_errors:
                    loop.body = self.safe_items(loop.body, True, node)
                members.append(loop)
                held: ast.expr = ast.Starred(ast.Name(name, ast.Load()), ast.Load())
            elif isinstance(one, ast.Name) and one.id in self.held and not self.held[one.id].is_list:
                name = self.new_name("result")
                members.append(self.held_call(self.held.pop(one.id), one, name))
                held = ast.Name(name, ast.Load())
            else:
                name = self.new_name(self.stem(one))
                member = self.member(one, out, name)
                self.spill_member(member, out)
                if keeps_errors and isinstance(member, (core.Call, core.Attempt)):
                    member = self.safe(member, name, one)
                members.append(member)
                held = ast.Name(name, ast.Load())
            parts.append(ast.copy_location(held, one))
        if len(members) == 1:
            out += members
        elif members:
            out.append(core.Together(members, node))
        made = ast.fix_missing_locations(ast.copy_location(ast.List(parts, ast.Load()), node))
        return self.result(made, out, into) if into is not None else none(node)

    def safe_items(self, body: core.Block, gives: bool, node: ast.AST) -> core.Block:
        """The calls of an item, whose error is the item's value."""
        binds = self.new_name("error")
        handler: core.Block = (
            [core.Give(marked_failure(binds, node, self.program.own_errors()), node)] if gives else []
        )
        return [core.Attempt(body, [core.Caught((), binds, handler, node)], None, node)]

    def safe(self, member: core.Core, name: str, node: ast.AST) -> core.Core:
        """A call whose error is its value."""
        binds = self.new_name("error")
        stored = assigned(name, marked_failure(binds, node, self.program.own_errors()), node)
        return core.Attempt([member], [core.Caught((), binds, [stored], node)], None, node)

    def spill_member(self, member: core.Core, out: core.Block) -> None:
        """Evaluate the arguments of a call, or of one with a time limit, before all begin."""
        while isinstance(member, core.Attempt) and len(member.body) == 1:
            member = member.body[0]
        if isinstance(member, core.Call):
            self.spill_arguments(member, out)

    def _flat(self, args: Sequence[ast.expr]) -> list[ast.expr]:
        """The arguments of gather, with a literal list after a star as its items."""
        made: list[ast.expr] = []
        for one in args:
            if isinstance(one, ast.Starred) and isinstance(one.value, (ast.List, ast.Tuple)):
                made += self._flat(one.value.elts)
            else:
                made.append(one)
        return made

    def stem(self, node: ast.expr) -> str:
        """What the variable of a result is called."""
        return ((dotted(node.func) if isinstance(node, ast.Call) else None) or "result").split(".")[-1]

    def each(
        self, many: ast.expr, node: ast.AST, out: core.Block, into: str | None, *, numbered: bool = False
    ) -> core.Loop:
        """The loop over calls that are made of the items of something, side by side.

        With `numbered` the loop goes through pairs of their numbers and those items.
        """
        if isinstance(many, (ast.List, ast.Tuple, ast.Set)) and many.elts:
            return self._one_of(many.elts, node, out, into)
        if isinstance(many, ast.Name) and many.id in self.held:
            held = self.held[many.id]
            held.is_used = True
            if held.is_list:
                source = ast.copy_location(ast.Name(many.id, ast.Load()), many)
                return self._loop(held, source, node, into)
        if isinstance(many, ast.Call) and dotted(many.func) in {"list", "tuple"} and len(many.args) == 1:
            many = many.args[0]
        if isinstance(many, ast.Call) and dotted(many.func) == "map" and len(many.args) >= 2:
            many = self._mapped(many)
        if isinstance(many, (ast.ListComp, ast.GeneratorExp)):
            held, source = self.calls_of(many, out)
            if numbered:
                source = ast.copy_location(call_of("enumerate", source), source)
            return self._loop(held, source, node, into, numbered=numbered)
        raise Refused(
            "PYT020", many, "which calls are gathered is not known before the run", f"write {FORMS}"
        )

    def _mapped(self, many: ast.Call) -> ast.expr:
        """`map(f, xs)` as a comprehension."""
        item = self.new_name("item")
        function, first, *more = many.args
        target: ast.expr = ast.Name(item, ast.Store())
        source: ast.expr = first
        arguments: list[ast.expr] = [ast.Name(item, ast.Load())]
        if more:
            names = [self.new_name("item") for _ in many.args[1:]]
            target = ast.Tuple([ast.Name(one, ast.Store()) for one in names], ast.Store())
            source = ast.Call(ast.Name("zip", ast.Load()), [first, *more], [])
            arguments = [ast.Name(one, ast.Load()) for one in names]
        element: ast.expr = ast.Call(function, arguments, [])
        if isinstance(function, ast.Lambda) and is_plain_lambda(function, len(many.args) - 1):
            names = [ast.Name(one.arg, ast.Store()) for one in function.args.args]
            target = names[0] if len(names) == 1 else ast.Tuple([*names], ast.Store())
            element = function.body
        made = ast.GeneratorExp(element, [ast.comprehension(target, source, [], 0)])
        return ast.fix_missing_locations(ast.copy_location(made, many))

    def _one_of(
        self, calls: Sequence[ast.expr], node: ast.AST, out: core.Block, into: str | None
    ) -> core.Loop:
        """The loop over calls that are written out: each item makes one of them."""
        item, result = self.new_name("item"), None if into is None else self.new_name("result")
        members: list[core.Block] = []
        for one in calls:
            inner: core.Block = []
            member = self.member(one, inner, result)
            if not isinstance(member, core.Wait):  # that has its result in the block
                self.spill_member(member, inner)
                out += inner
                inner = []
            members.append([*inner, member])
        body: core.Block = members.pop()
        for number in reversed(range(len(members))):
            body = [core.Choice(parsed(f"{item} == {number}", node), members[number], body, node)]
        if result is not None:
            body.append(core.Give(ast.copy_location(ast.Name(result, ast.Load()), node), node))
        numbers = parsed(str([*range(len(calls))]), node)
        return core.Loop(item, numbers, body, node, into=into, together=True)

    def _loop(
        self, held: Held, source: ast.expr, node: ast.AST, into: str | None, *, numbered: bool = False
    ) -> core.Loop:
        item = self.new_name("item")
        result = None if into is None else self.new_name(held.callee.split(".")[-1])
        at = held.node
        arguments: list[core.Argument] = []
        for number, name in enumerate(held.names):
            value: ast.expr = ast.Name(item, ast.Load())
            if numbered:
                value = ast.Subscript(value, ast.Constant(1), ast.Load())
            if not held.whole:
                value = ast.Subscript(value, ast.Constant(number), ast.Load())
            arguments.append(core.Argument(name, ast.fix_missing_locations(ast.copy_location(value, at))))
        arguments += held.fixed
        call = core.Call(result, held.callee, self.helper(held.callee), arguments, at)
        body: core.Block = [self.awaited_for(at, [call], held.within)]
        if result is not None:
            body.append(core.Give(ast.copy_location(ast.Name(result, ast.Load()), at), at))
        return core.Loop(item, source, body, node, into=into, together=True, most=self._most(held.callee))

    def _most(self, callee: str, seen: frozenset[str] = frozenset()) -> int | None:
        """How many calls of a function run at a time: what semaphores in it, and in what it calls, say."""
        helper = self.helper(callee)
        if helper is None or callee in seen:
            return None
        known = self.known_semaphores()
        limits: list[int] = []
        for one in walk(helper):
            match one:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if self.is_semaphore(
                    call
                ):
                    known[name] = self.limit_of(call)
                case ast.AsyncWith(items=items):
                    entered = (dotted(item.context_expr) or "" for item in items)
                    limits += [limit for name in entered if (limit := known.get(name)) is not None]
                case ast.Await(value=ast.Call(func=ast.Name(id=name))):
                    inner = self._most(name, seen | {callee})
                    limits += [] if inner is None else [inner]
                case _:
                    pass
        return min(limits, default=None)

    def _await_held(self, waited: ast.Name, node: ast.Await, out: core.Block, into: str | None) -> ast.expr:
        held = self.held.pop(waited.id)
        started = [name for name, one in self.held.items() if one.is_started and not one.is_list]
        if held.is_list or held.block is not out or (held.is_started and held.awaits != self.awaits):
            raise Refused(
                "PYT020",
                node,
                f"{waited.id} was started before, beside what stands between",
                "await calls that run side by side in one place: a, b = await asyncio.gather(f(x), g(y))",
            )
        if held.is_started and started:
            return self._await_started(waited.id, held, started, node, out, into)
        self.awaits += 1
        name = None if into is None else (into or self.new_name(held.callee))
        out.append(self.held_call(held, node, name))
        return ast.copy_location(ast.Name(name, ast.Load()), node) if name else none(node)

    def _await_started(
        self, name: str, held: Held, others: Sequence[str], node: ast.AST, out: core.Block, into: str | None
    ) -> ast.expr:
        """The first await of tasks that were started together: they run side by side."""
        result = self.new_name(held.callee)
        members: core.Block = [self.safe(self.held_call(held, node, result), result, node)]
        for one in others:
            other = self.held.pop(one)
            if other.block is not out or other.awaits != self.awaits:
                raise Refused(
                    "PYT020",
                    node,
                    f"{one} was started before, beside what stands between",
                    "await calls that run side by side in one place: a, b = await asyncio.gather(f(x), g(y))",
                )
            self.results[one] = self.new_name(other.callee)
            members.append(self.safe(self.held_call(other, node, self.results[one]), self.results[one], node))
        self.results[name] = result
        self.may_have_failed |= dict.fromkeys((name, *others))
        self.awaits += 1
        out.append(core.Together(members, node))
        made = ast.copy_location(ast.Name(result, ast.Load()), node)
        self.raised_again(made, node, out)
        return self.result(made, out, into)

    def raised_again(
        self, held: ast.Name, node: ast.AST, out: core.Block, test: ast.expr | None = None
    ) -> None:
        """Raise the error that a task ended in, if its value is one, as `test` says, or its mark."""
        test = ast.fix_missing_locations(ast.copy_location(test or is_marked(held), node))
        failed: core.Block = [core.Fail(None, None, node, held.id)]
        out.append(core.Choice(test, failed, [], node))
