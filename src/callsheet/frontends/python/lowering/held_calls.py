"""Calls that are made and not awaited yet: in a variable, in a list, in a comprehension; and semaphores."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

from callsheet.frontends.python import core
from callsheet.frontends.python.lowering.calls import FORMS, Calls
from callsheet.frontends.python.source import (
    Refused,
    dotted,
    names_bound,
    names_read,
    own_nodes,
    parameters_of,
    walk,
)
from callsheet.frontends.python.syntax import is_shared


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
    within: ast.expr | None = None
    """How many seconds each call may take."""
    is_used: bool = False


class _Uses(NamedTuple):
    """How a function uses names: the last line that reads each, those awaited, how often each is set."""

    read_last: Mapping[str, int]
    awaited: Set[str]
    stores: Counter[str]


def _calls_item(many: ast.ListComp) -> bool:
    """Whether a list is of what its items give when they are called."""
    own = names_bound(*(part.target for part in many.generators))
    return isinstance(many.elt, ast.Call) and (dotted(many.elt.func) or "").split(".")[0] in own


class HeldCalls(Calls):
    """The part of a translator that holds calls until they are awaited."""

    def take_tasks(self, node: ast.stmt, out: core.Block) -> bool:
        """Take a statement that makes calls without awaiting them, or a semaphore; whether it was one."""
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as call)
            ) if self.is_semaphore(call):
                self.semaphores[name] = self.limit_of(call)
                return True
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.ListComp() as many) if self.is_call_alone(
                many.elt
            ) and not _calls_item(many):
                held, source = self.calls_of(many, out)
                self._hold_as(name, held, node)
                self.result(source, out, name)
                return True
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if self.is_call_alone(
                call
            ):
                self._hold(name, call, out)
                return True
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List(elts=[_, *_] as elements)) if all(
                map(self.is_call_alone, elements)
            ):
                self._hold_list(name, elements, node, out)
                return True
            case _:
                return self._take_append(node, out)

    def is_semaphore(self, call: ast.Call) -> bool:
        """Whether a call makes a semaphore or a lock."""
        return self.program.resolved(call.func) in {
            "asyncio.Semaphore", "asyncio.BoundedSemaphore", "asyncio.Lock",
        }  # fmt: skip

    def limit_of(self, call: ast.Call) -> int | None:
        """How many a semaphore lets through. Raises Refused (PYT020) for what is not known before the run."""
        if (self.program.resolved(call.func) or "").endswith("Lock"):
            return 1
        given = [*call.args, *(word.value for word in call.keywords)]
        if not given:
            return 1
        (first, *_) = given
        if isinstance(first, ast.Constant) and isinstance(first.value, int):
            return first.value
        if isinstance(first, ast.Name) and not self.is_variable(first.id):
            made = self.program.definitions.get(first.id)
            value = made.value if isinstance(made, (ast.Assign, ast.AnnAssign)) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, int):
                return value.value
        raise Refused(
            "PYT020", call, "how many run at a time is not known before the run", "write the number"
        )

    def is_call_alone(self, node: ast.expr) -> bool:
        """Whether an expression is a call of an async function or tool, not awaited."""
        if not isinstance(node, ast.Call):
            return False
        if self.starts_task(node):
            return bool(node.args) and self.is_call_alone(node.args[0])
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
            and self.is_call_alone(one.args[0])
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
        if self.uses.read_last.get(name, -1) < getattr(call, "lineno", 0):
            raise Refused(
                "PYT007",
                call,
                f"{callee} is never awaited: nothing in it would happen",
                f"write await {callee}(…)",
            )
        if name in self.uses.awaited and self.uses.stores[name] == 1:
            self.call_names.add(name)
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

    @cached_property
    def uses(self) -> _Uses:
        """How the function, as it is written, uses its names."""
        read_last: dict[str, int] = {}
        for one in walk(self.function):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
                read_last[one.id] = max(read_last.get(one.id, 0), getattr(one, "lineno", 0))
        inside = [one for part in self.function.body for one in walk(part)]
        stores = [one.id for one in inside if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
        awaited = names_read(*(one for one in inside if isinstance(one, ast.Await)))
        return _Uses(read_last, awaited, Counter(stores))

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
        match node:
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(attr="append", value=ast.Name(id=name)), args=[ast.Call() as inner]
                ) as call
            ) if self.is_call_alone(inner):
                pass
            case _:
                return False
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

    def listed_calls(self, node: ast.expr) -> tuple[list[core.Call], core.Block] | None:
        """The calls in a list that an expression names, and the block where they were made."""
        return self.listed.pop(node.id, None) if isinstance(node, ast.Name) else None

    def held_call(self, held: Held, node: ast.AST, into: str | None) -> core.Call:
        """The call that was held."""
        return core.Call(into, held.callee, self.helper(held.callee), held.fixed, node)

    def calls_of(self, many: ast.ListComp | ast.GeneratorExp, out: core.Block) -> tuple[Held, ast.expr]:
        """A comprehension of calls: the call, and the list of what its arguments are for each item."""
        element, is_started, limit = many.elt, False, None
        while isinstance(element, ast.Call) and element.args:
            if self.program.resolved(element.func) == "asyncio.wait_for":
                limit = limit or element
            elif self.starts_task(element):
                is_started = True
            else:
                break
            element = element.args[0]
        if isinstance(element, ast.Call) and dotted(element.func) in {"asyncio.sleep"}:
            raise Refused("PYT020", element, "timers side by side", "await one sleep of the longest")
        if not isinstance(element, ast.Call):
            raise Refused("PYT020", element, "this is no call that could be awaited", f"write {FORMS}")
        if self.program.resolved(element.func) is not None:
            self.member(element, [], None)
            raise Refused("PYT020", element, "this is no call of a tool", f"write {FORMS}")
        inner = {name for one in many.generators for name in names_bound(one.target)}
        self.bound |= inner
        _check_lambdas(element, inner)
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
        within = None if limit is None else self.time_of(limit, out)
        if within is not None and not is_shared(within, inner):
            raise Refused(
                "PYT020", within, "each call has a time of its own", "write one time for all of them"
            )
        held = Held(callee, [one.name for one in varying], fixed, True, is_started, element, whole)
        held.within = within
        return held, source


def _check_lambdas(call: ast.Call, items: Set[str]) -> None:
    """Refuse a lambda that reads the item of a comprehension: when it is called, that is the last one."""
    for one in (*call.args, *(word.value for word in call.keywords)):
        if not isinstance(one, ast.Lambda):
            continue
        late = sorted((names_read(one.body) - {each.arg for each in parameters_of(one.args)}) & items)
        if late:
            raise Refused(
                "PYT015",
                one,
                f"this lambda reads {late[0]} when it is called, and by then it is that of the last item",
                f"make the lambda in an async function that is given {late[0]}, and gather that",
            )
