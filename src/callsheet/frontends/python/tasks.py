"""What an await waits for: a call, a timer, several at a time; and lists of calls that are awaited later."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from callsheet.frontends.python import core
from callsheet.frontends.python.calls import FORMS, Calls
from callsheet.frontends.python.source import (
    Refused,
    dotted,
    names_bound,
    own_nodes,
    waits,
    walk,
)
from callsheet.frontends.python.syntax import (
    is_shared,
    marked_failure,
    none,
)

_GATHER: Final = "asyncio.gather"


@dataclass(eq=False, slots=True)
class Held:
    """Calls that a variable holds until they are awaited.

    With `items` they are one call with the arguments of each item of the list in the variable. `names` are
    then the arguments that an item has, in order; `fixed` those that all calls share.
    """

    callee: str
    names: list[str | None]
    fixed: list[core.Argument]
    is_list: bool
    is_started: bool
    node: ast.AST
    whole: bool = False
    """Whether an item is the only argument, and no tuple."""
    block: core.Block | None = None
    """The block in which one call was made; it is awaited in the same one."""
    awaits: int = 0
    """How many awaits stand before it."""
    is_used: bool = False


class Tasks(Calls):
    """The part of a translator that awaits."""

    def await_(self, node: ast.Await, out: core.Block, into: str | None) -> ast.expr:
        """Do what is awaited; gives its result, in the variable `into` if that has a name.

        `into` is None where the result is not used, and empty for a new variable.
        """
        waited = node.value
        if isinstance(waited, ast.IfExp):
            return self._either(waited, node, out, into)
        if isinstance(waited, ast.Name) and waited.id in self.held:
            return self._await_held(waited, node, out, into)
        if isinstance(waited, ast.Name) and waited.id in self.results:
            return self.result(
                ast.copy_location(ast.Name(self.results[waited.id], ast.Load()), node), out, into
            )
        if not isinstance(waited, ast.Call):
            raise Refused(
                "PYT020", node, "what is awaited here is not known before the run", f"write {FORMS}"
            )
        if self.is_chosen(waited.func):
            return self.chosen(waited, node, out, into)
        resolved = self.program.resolved(waited.func) or ""
        if resolved == _GATHER or dotted(waited.func) == "gather":
            return self.gather(waited, node, out, into)
        name = self._wanted(into, waited)
        one = self.member(waited, out, name)
        self.awaits += 1
        out.append(one)
        return ast.copy_location(ast.Name(name or "None", ast.Load()), node) if name else none(node)

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
            loop = self._each(args[0].value, node, out, name)
            if keeps_errors:
                loop.body = self._safe(loop.body, name is not None, node)
            out.append(loop)
            return ast.copy_location(ast.Name(name, ast.Load()), node) if name else none(node)
        parts: list[ast.expr] = []
        members: core.Block = []
        for one in args:
            listed = self._listed(one.value) if isinstance(one, ast.Starred) else None
            if listed is not None:
                calls, block = listed
                if block is not out:
                    raise Refused("PYT020", one, "these calls were made in another block", f"write {FORMS}")
                for call_ in calls:
                    call_.into = self.new_name(call_.callee)
                    member = call_
                    if keeps_errors:
                        member = self._safe_call(call_, call_.into, one)
                    members.append(member)
                    parts.append(ast.copy_location(ast.Name(call_.into, ast.Load()), one))
                continue
            if isinstance(one, ast.Starred):
                name = self.new_name("results")
                loop = self._each(one.value, one, out, name)
                if keeps_errors:
                    loop.body = self._safe(loop.body, True, node)
                members.append(loop)
                held: ast.expr = ast.Starred(ast.Name(name, ast.Load()), ast.Load())
            elif isinstance(one, ast.Name) and one.id in self.held and not self.held[one.id].is_list:
                name = self.new_name("result")
                members.append(self._held_call(self.held.pop(one.id), one, name))
                held = ast.Name(name, ast.Load())
            else:
                name = self.new_name(self._stem(one))
                member = self.member(one, out, name)
                if isinstance(member, core.Call):
                    self.spill_arguments(member, out)
                if keeps_errors and isinstance(member, core.Call):
                    member = self._safe_call(member, name, one)
                members.append(member)
                held = ast.Constant(None) if isinstance(member, core.Wait) else ast.Name(name, ast.Load())
            parts.append(ast.copy_location(held, one))
        if len(members) == 1:
            out += members
        elif members:
            out.append(core.Together(members, node))
        made = ast.fix_missing_locations(ast.copy_location(ast.List(parts, ast.Load()), node))
        return self.result(made, out, into) if into is not None else none(node)

    def _safe(self, body: core.Block, gives: bool, node: ast.AST) -> core.Block:
        """The calls of an item, whose error is the item's value."""
        self.keeps_errors = True
        binds = self.new_name("error")
        handler: core.Block = [core.Give(marked_failure(binds, node), node)] if gives else []
        return [core.Attempt(body, [core.Caught((), binds, handler, node)], None, node)]

    def _safe_call(self, member: core.Call, name: str, node: ast.AST) -> core.Core:
        self.keeps_errors = True
        binds = self.new_name("error")
        made = ast.Assign([ast.Name(name, ast.Store())], marked_failure(binds, node))
        stored = core.Pure(ast.fix_missing_locations(ast.copy_location(made, node)))
        return core.Attempt([member], [core.Caught((), binds, [stored], node)], None, node)

    def _listed(self, node: ast.expr) -> tuple[list[core.Call], core.Block] | None:
        return self.listed.pop(node.id, None) if isinstance(node, ast.Name) else None

    def _flat(self, args: Sequence[ast.expr]) -> list[ast.expr]:
        """The arguments of gather, with a literal list after a star as its items."""
        made: list[ast.expr] = []
        for one in args:
            if isinstance(one, ast.Starred) and isinstance(one.value, (ast.List, ast.Tuple)):
                made += self._flat(one.value.elts)
            else:
                made.append(one)
        return made

    def _stem(self, node: ast.expr) -> str:
        return ((dotted(node.func) if isinstance(node, ast.Call) else None) or "result").split(".")[-1]

    def _each(self, many: ast.expr, node: ast.AST, out: core.Block, into: str | None) -> core.Loop:
        """The loop over calls that are made of the items of something, side by side."""
        if isinstance(many, ast.Name) and many.id in self.held:
            held = self.held[many.id]
            held.is_used = True
            if held.is_list:
                source = ast.copy_location(ast.Name(many.id, ast.Load()), many)
                return self._loop(held, source, node, into)
        if isinstance(many, ast.Call) and dotted(many.func) == "map" and len(many.args) >= 2:
            many = self._mapped(many)
        if isinstance(many, ast.Call) and dotted(many.func) in {"list", "tuple"} and len(many.args) == 1:
            many = many.args[0]
        if isinstance(many, (ast.ListComp, ast.GeneratorExp)):
            held, source = self._calls(many, out)
            return self._loop(held, source, node, into)
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
        made = ast.GeneratorExp(ast.Call(function, arguments, []), [ast.comprehension(target, source, [], 0)])
        return ast.fix_missing_locations(ast.copy_location(made, many))

    def _calls(self, many: ast.ListComp | ast.GeneratorExp, out: core.Block) -> tuple[Held, ast.expr]:
        """A comprehension of calls: the call, and the list of what its arguments are for each item."""
        element, is_started = many.elt, False
        while isinstance(element, ast.Call) and self.starts_task(element) and element.args:
            element, is_started = element.args[0], True
        if isinstance(element, ast.Call) and dotted(element.func) in {"asyncio.sleep"}:
            raise Refused("PYT020", element, "timers side by side", "await one sleep of the longest")
        if not isinstance(element, ast.Call):
            raise Refused("PYT020", element, "this is no call that could be awaited", f"write {FORMS}")
        if self.program.resolved(element.func) is not None:
            self.member(element, [], None)
            raise Refused("PYT020", element, "this is no call of a tool", f"write {FORMS}")
        element = self.with_functions(element)
        callee, is_helper = self.callee(element)
        for one in own_nodes(element):
            if isinstance(one, ast.Await):
                raise Refused(
                    "PYT020",
                    one,
                    "an argument of a gathered call awaits",
                    "await it in a loop before, or write an async function that does both",
                )
        inner = {name for one in many.generators for name in names_bound(one.target)}
        self.bound |= inner
        arguments = self.arguments(element, callee, is_helper=is_helper, out=[])
        made = copy.copy(many)
        varying = [one for one in arguments if not is_shared(one.value, inner)]
        fixed = [one for one in arguments if is_shared(one.value, inner)]
        whole = len(varying) == 1
        value: ast.expr
        if whole:
            value = varying[0].value
        else:
            value = ast.copy_location(ast.Tuple([one.value for one in varying], ast.Load()), element)
        listed = ast.ListComp(value, made.generators)
        ast.fix_missing_locations(ast.copy_location(listed, many))
        source: ast.expr = listed
        first = many.generators[0]
        is_plain = len(many.generators) == 1 and not first.ifs and whole
        if (
            is_plain
            and isinstance(value, ast.Name)
            and isinstance(first.target, ast.Name)
            and (value.id == first.target.id)
        ):
            source = first.iter
        source = self.value(source, out)
        held = Held(callee, [one.name for one in varying], fixed, True, is_started, element, whole)
        return held, source

    def _loop(self, held: Held, source: ast.expr, node: ast.AST, into: str | None) -> core.Loop:
        item = self.new_name("item")
        result = None if into is None else self.new_name(held.callee.split(".")[-1])
        at = held.node
        arguments: list[core.Argument] = []
        for number, name in enumerate(held.names):
            value: ast.expr = ast.Name(item, ast.Load())
            if not held.whole:
                value = ast.Subscript(value, ast.Constant(number), ast.Load())
            arguments.append(core.Argument(name, ast.fix_missing_locations(ast.copy_location(value, at))))
        arguments += held.fixed
        body: core.Block = [core.Call(result, held.callee, self.helper(held.callee), arguments, at)]
        if result is not None:
            body.append(core.Give(ast.copy_location(ast.Name(result, ast.Load()), at), at))
        return core.Loop(item, source, body, node, into=into, together=True, most=self._most(held.callee))

    def _most(self, callee: str) -> int | None:
        """How many calls of a function run at a time: what the semaphore in it says."""
        helper = self.helper(callee)
        if helper is None:
            return None
        for one in walk(helper):
            if isinstance(one, ast.AsyncWith):
                for item in one.items:
                    held = item.context_expr
                    if isinstance(held, ast.Name) and held.id in self.known_semaphores():
                        return self.known_semaphores()[held.id]
        return None

    def _held_call(self, held: Held, node: ast.AST, into: str | None) -> core.Call:
        return core.Call(into, held.callee, self.helper(held.callee), held.fixed, node)

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
        out.append(self._held_call(held, node, name))
        return ast.copy_location(ast.Name(name, ast.Load()), node) if name else none(node)

    def _await_started(
        self, name: str, held: Held, others: Sequence[str], node: ast.AST, out: core.Block, into: str | None
    ) -> ast.expr:
        """The first await of tasks that were started together: they run side by side."""
        result = self.new_name(held.callee)
        members: core.Block = [self._held_call(held, node, result)]
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
            members.append(self._held_call(other, node, self.results[one]))
        self.results[name] = result
        self.awaits += 1
        out.append(core.Together(members, node))
        made = ast.copy_location(ast.Name(result, ast.Load()), node)
        return self.result(made, out, into)

    def take_tasks(self, node: ast.stmt, out: core.Block) -> bool:
        """Take a statement that makes calls without awaiting them, or a semaphore; whether it was one."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if self._semaphore(call):
                self.semaphores[name] = self._limit(call)
                return True
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.ListComp() as many) if self._is_calls(
                many.elt
            ):
                held, source = self._calls(many, out)
                self._hold_as(name, held, node)
                self.result(source, out, name)
                return True
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if self._is_calls(call):
                self._hold(name, call, out)
                return True
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List(elts=[_, *_] as elements)) if all(
                map(self._is_calls, elements)
            ):
                self._hold_list(name, elements, node, out)
                return True
            case _:
                return self._take_append(node, out)

    def _semaphore(self, call: ast.Call) -> bool:
        return self.program.resolved(call.func) in {
            "asyncio.Semaphore", "asyncio.BoundedSemaphore", "asyncio.Lock",
        }  # fmt: skip

    def _limit(self, call: ast.Call) -> int | None:
        if (self.program.resolved(call.func) or "").endswith("Lock"):
            return 1
        given = [*call.args, *(word.value for word in call.keywords)]
        if not given:
            return 1
        (first, *_) = given
        if isinstance(first, ast.Constant) and isinstance(first.value, int):
            return first.value
        raise Refused(
            "PYT020", call, "how many run at a time is not known before the run", "write the number"
        )

    def _is_calls(self, node: ast.expr) -> bool:
        """Whether an expression is a call of an async function or tool, not awaited."""
        if not isinstance(node, ast.Call):
            return False
        if self.starts_task(node):
            return bool(node.args) and self._is_calls(node.args[0])
        if not isinstance(node.func, ast.Name):
            return False
        name = node.func.id
        if self.is_variable(name) or name in self.definitions() or name in self.program.definitions:
            return False
        return self.helper(name) is not None or self.program.is_tool(name)

    def makes_calls(self, node: ast.stmt) -> bool:
        """Whether a block appends calls to a list, to await them later."""
        return isinstance(node, (ast.For, ast.While, ast.If)) and any(
            isinstance(one, ast.Call)
            and isinstance(one.func, ast.Attribute)
            and one.func.attr == "append"
            and len(one.args) == 1
            and self._is_calls(one.args[0])
            for one in own_nodes(node)
        )

    def _hold(self, name: str, call: ast.Call, out: core.Block) -> None:
        is_started = False
        while self.starts_task(call):
            call, is_started = cast("ast.Call", call.args[0]), True
        callee, is_helper = self.callee(call)
        arguments = self.arguments(call, callee, is_helper=is_helper, out=out)
        made = core.Call(None, callee, self.helper(callee) if is_helper else None, arguments, call)
        self.spill_arguments(made, out)
        for one in self._later(call):
            if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load):
                break
        else:
            raise Refused(
                "PYT007",
                call,
                f"{callee} is never awaited: nothing in it would happen",
                f"write await {callee}(…)",
            )
        self.held[name] = Held(
            callee, [], made.arguments, False, is_started, call, block=out, awaits=self.awaits
        )

    def check_held(self) -> None:
        """Raises Refused (PYT007) for calls that nothing awaits."""
        for name, (calls, _) in self.listed.items():
            raise Refused(
                "PYT007",
                calls[0].node,
                f"the calls in {name} are never awaited: nothing in them would happen",
                f"write await asyncio.gather(*{name})",
            )
        for name, held in self.held.items():
            if held.is_used:
                continue
            raise Refused(
                "PYT007",
                held.node,
                f"the calls in {name} are never awaited: nothing in them would happen"
                if held.is_list
                else f"{held.callee} is never awaited: nothing in it would happen",
                f"write await asyncio.gather(*{name})"
                if held.is_list
                else f"write {name} = await {held.callee}(…)",
            )

    def _later(self, after: ast.AST) -> list[ast.AST]:
        return [
            one for one in walk(self.function) if getattr(one, "lineno", 0) >= getattr(after, "lineno", 0)
        ]

    def _hold_list(self, name: str, elements: Sequence[ast.expr], node: ast.AST, out: core.Block) -> None:
        """`tasks = [f(a), g(b)]`: calls that a gather awaits later."""
        calls: list[core.Call] = []
        for one in elements:
            made = self.member(one, out, None)
            if isinstance(made, core.Call):
                self.spill_arguments(made, out)
                calls.append(made)
        if len(calls) < len(elements) or name in self.listed or name in self.held:
            raise Refused(
                "PYT020",
                node,
                f"{name} is a list of calls that are not awaited yet",
                "await them at once: results = await asyncio.gather(f(a), g(b))",
            )
        self.listed[name] = calls, out

    def _hold_as(self, name: str, held: Held, node: ast.AST) -> None:
        """Note what calls a list stands for; it is one function, called with arguments in one form."""
        known = self.held.get(name)
        fixed = [(one.name, ast.dump(one.value)) for one in held.fixed]
        if name in self.listed or (
            known is not None
            and (
                known.callee,
                known.names,
                known.whole,
                [(one.name, ast.dump(one.value)) for one in known.fixed],
            )
            != (held.callee, held.names, held.whole, fixed)
        ):
            raise Refused(
                "PYT020",
                node,
                f"{name} holds calls of different functions",
                "write an async function that calls one or the other, and gather calls of it",
            )
        self.held[name] = held

    def _take_append(self, node: ast.stmt, out: core.Block) -> bool:
        """`tasks.append(f(x))`: the list gets the arguments, and gather makes the calls of them."""
        found = [
            one
            for one in own_nodes(node)
            if isinstance(one, ast.Call)
            and isinstance(one.func, ast.Attribute)
            and one.func.attr == "append"
            and isinstance(one.func.value, ast.Name)
            and len(one.args) == 1
            and self._is_calls(one.args[0])
        ]
        if not found or not isinstance(node, ast.Expr) or node.value is not found[0]:
            return False
        call = found[0]
        name = cast("ast.Name", cast("ast.Attribute", call.func).value).id
        inner = cast("ast.Call", call.args[0])
        is_started = False
        while self.starts_task(inner):
            inner, is_started = cast("ast.Call", inner.args[0]), True
        callee, is_helper = self.callee(inner)
        arguments = self.arguments(inner, callee, is_helper=is_helper, out=out)
        names = [one.name for one in arguments]
        self._hold_as(name, Held(callee, names, [], True, is_started, inner), node)
        values = ast.Tuple([one.value for one in arguments], ast.Load())
        made = ast.Call(call.func, [values], [])
        made = ast.fix_missing_locations(ast.copy_location(made, call))
        out.append(core.Pure(ast.copy_location(ast.Expr(made), node)))
        return True

    def completed(self, node: ast.expr) -> ast.expr | None:
        """What `asyncio.as_completed(…)` goes through; None for anything else."""
        if isinstance(node, ast.Call) and self.program.resolved(node.func) == "asyncio.as_completed":
            return node.args[0] if node.args else None
        return None

    def over_results(self, node: ast.For, many: ast.expr, out: core.Block) -> ast.For:
        """`for future in as_completed(calls)` as a loop over the results of the calls, in their order."""
        if not isinstance(node.target, ast.Name):
            raise Refused("PYT020", node.target, "as_completed gives one future a time", "write one name")
        results = self.new_name("results")
        out.append(self._each(many, node, out, results))
        future = node.target.id

        body = [cast("ast.stmt", _Unwrap(future).visit(copy.deepcopy(one))) for one in node.body]
        source = ast.copy_location(ast.Name(results, ast.Load()), node.iter)
        return ast.copy_location(ast.For(node.target, source, body, node.orelse), node)

    def task_group(self, node: ast.With | ast.AsyncWith, out: core.Block) -> bool:
        """`async with asyncio.TaskGroup() as group`: what it starts runs side by side."""
        if len(node.items) != 1 or not isinstance(node, ast.AsyncWith):
            return False
        item = node.items[0]
        call, target = item.context_expr, item.optional_vars
        if not isinstance(call, ast.Call) or self.program.resolved(call.func) != "asyncio.TaskGroup":
            return False
        if not isinstance(target, ast.Name):
            raise Refused(
                "PYT020", node, "the group has no name", "write async with asyncio.TaskGroup() as group"
            )
        members: core.Block = []
        for one in node.body:
            self._group_statement(one, target.id, members, out)
        if len(members) == 1:
            out += members
        elif members:
            out.append(core.Together(members, node))
        return True

    def _group_statement(self, one: ast.stmt, group: str, members: core.Block, out: core.Block) -> None:
        def started(value: ast.expr) -> ast.expr | None:
            if isinstance(value, ast.Call) and dotted(value.func) == f"{group}.create_task" and value.args:
                return value.args[0]
            return None

        name: str | None = None
        value: ast.expr | None = None
        if isinstance(one, ast.Expr):
            value = one.value
        elif isinstance(one, ast.Assign) and len(one.targets) == 1 and isinstance(one.targets[0], ast.Name):
            name, value = one.targets[0].id, one.value
        elif isinstance(one, ast.For) and len(one.body) == 1 and not one.orelse:
            inner = one.body[0]
            if isinstance(inner, ast.Expr):
                what = started(inner.value)
                if what is not None:
                    made = ast.GeneratorExp(what, [ast.comprehension(one.target, one.iter, [], 0)])
                    ast.copy_location(made, one)
                    members.append(self._each(made, one, out, None))
                    return
        if value is not None:
            what = started(value)
            if what is not None:
                result = None if name is None else self.new_name(self._stem(what))
                member = self.member(what, out, result)
                if isinstance(member, core.Call):
                    self.spill_arguments(member, out)
                members.append(member)
                if name is not None and result is not None:
                    self.results[name] = result
                return
            if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
                what = started(value.elt)
                if what is not None:
                    result = None if name is None else self.new_name("results")
                    made = ast.copy_location(ast.ListComp(what, value.generators), value)
                    members.append(self._each(made, one, out, result))
                    if name is not None and result is not None:
                        self.results[name] = result
                    return
        if waits(one):
            raise Refused(
                "PYT020",
                one,
                "this awaits while the tasks of the group run",
                "await it before or after the group",
            )
        self.statement(one, out)


class _Unwrap(ast.NodeTransformer):
    """Takes the await off a name that is a result already."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_Await(self, node: ast.Await) -> ast.AST:
        """The name without its await."""
        if isinstance(node.value, ast.Name) and node.value.id == self.name:
            return ast.copy_location(ast.Name(self.name, ast.Load()), node)
        return self.generic_visit(node)
