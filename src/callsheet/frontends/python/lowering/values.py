"""Takes expressions apart: awaits in them become statements, in the order in which CPython evaluates."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from functools import cached_property
from typing import cast

from callsheet.frontends.python import core
from callsheet.frontends.python.lowering.scope import Scope
from callsheet.frontends.python.lowering.started import Started, only_starts
from callsheet.frontends.python.source import (
    Refused,
    among,
    dotted,
    names_bound,
    own_nodes,
    waits,
    waits_between_items,
    walk,
)
from callsheet.frontends.python.syntax import Renaming, assigned, call_of, name_of, put_part, slots_of


class Values(Started):
    """The part of a translator that takes expressions apart."""

    def value(self, node: ast.expr, out: core.Block) -> ast.expr:
        """The expression without its awaits, which go into `out` before it."""
        if not waits(node):
            node = self.replaced(node)
            self.check(node)
            return node
        match node:
            case ast.Await():
                return self.await_(node, out, "")
            case ast.BoolOp(op=op, values=values):
                return self._logic(node, op, values, out)
            case ast.IfExp():
                test = self.value(node.test, out)
                held = self.names.fresh("value")
                branches: list[core.Block] = []
                for part in (node.body, node.orelse):
                    inner: core.Block = []
                    self._store(held, part, inner)
                    branches.append(inner)
                out.append(core.Choice(test, branches[0], branches[1], node))
                return name_of(held, node)
            case ast.NamedExpr(target=target, value=value):
                self._store(target.id, value, out)
                return name_of(target.id, node)
            case ast.Compare(ops=ops, comparators=right) if len(ops) > 1 and any(map(waits, right[1:])):
                return self._chain(node, out)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return self.comprehension(node, out)
            case ast.Lambda():
                raise Refused("PYT013", node, "a lambda cannot await", "write an async function")
            case ast.Yield() | ast.YieldFrom():
                raise Refused("PYT019", node, "a plan yields nothing", "append to a list, and return it")
            case _:
                return self.ordered(node, out)

    @cached_property
    def set_by_others(self) -> frozenset[str]:
        """The variables that functions inside a function set, and so may set while it waits."""
        at: Scope = self
        while at.outer is not None:
            at = at.outer
        inner = [one for one in walk(at.function) if isinstance(one, ast.Nonlocal)]
        return frozenset(name for one in inner for name in one.names)

    def _store(self, name: str, value: ast.expr, out: core.Block) -> None:
        if isinstance(value, ast.Await):
            self.await_(value, out, name)
            return
        out.append(assigned(name, self.value(value, out), value))

    def spilled(self, node: ast.expr, out: core.Block) -> ast.expr:
        """The value of an expression as a name or a constant."""
        made = self.value(node, out)
        if isinstance(made, (ast.Name, ast.Constant)):
            return made
        held = self.names.fresh("value")
        out.append(assigned(held, made, node))
        return name_of(held, node)

    def target(self, node: ast.expr, out: core.Block) -> ast.expr:
        """A target without its awaits, which come behind the value that it is given."""
        made = copy.copy(node)
        match made:
            case ast.Subscript():
                made.value = self.holder(made.value, made.slice, out)
                made.slice = self.key(made.slice, out)
            case ast.Attribute():
                made.value = self.spilled(made.value, out)
            case ast.Tuple() | ast.List():
                raise Refused(
                    "PYT019",
                    node,
                    "several targets, of which one is awaited, are set in one statement",
                    "take the values apart into variables, and then set each",
                )
            case _:
                pass
        return made

    def key(self, node: ast.expr, out: core.Block) -> ast.expr:
        """What stands in the brackets of a target, as names and constants; a slice stays one."""
        if not isinstance(node, ast.Slice):
            return self.spilled(node, out)
        parts = [one and self.spilled(one, out) for one in (node.lower, node.upper, node.step)]
        return ast.copy_location(ast.Slice(*parts), node)

    def holder(self, holder: ast.expr, value: ast.expr, out: core.Block) -> ast.expr:
        """The container that `x[k] += await f()` changes: by its path, where nothing can change that."""
        steps = holder
        while isinstance(steps, (ast.Subscript, ast.Attribute)):
            if isinstance(steps, ast.Subscript) and not isinstance(steps.slice, (ast.Name, ast.Constant)):
                return self.spilled(holder, out)
            steps = steps.value
        called = {dotted(one.func) or "" for one in among(own_nodes(value), ast.Call)}
        is_settled = isinstance(steps, ast.Name) and not names_bound(value)
        if not is_settled or any(self.helper(name) is not None for name in called):
            return self.spilled(holder, out)
        return self.value(holder, out)

    def _logic(self, node: ast.BoolOp, op: ast.boolop, values: list[ast.expr], out: core.Block) -> ast.expr:
        first = next(number for number, one in enumerate(values) if waits(one))
        held = self.names.fresh("value")
        if first > 1:
            before = ast.copy_location(ast.BoolOp(op, values[:first]), node)
        else:
            before = values[0]
            first = max(first, 1)
        self._store(held, before, out)
        rest = values[first:]
        if rest:
            inner: core.Block = []
            after = rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(op, rest), node)
            self._store(held, after, inner)
            test: ast.expr = name_of(held, node)
            if isinstance(op, ast.Or):
                test = ast.copy_location(ast.UnaryOp(ast.Not(), test), node)
            out.append(core.Choice(test, inner, [], node))
        return name_of(held, node)

    def _chain(self, node: ast.Compare, out: core.Block) -> ast.expr:
        held = self.names.fresh("value")
        left = self.spilled(node.left, out)

        def compare(left: ast.expr, number: int, out: core.Block) -> None:
            right = self.spilled(node.comparators[number], out)
            test = ast.copy_location(ast.Compare(left, [node.ops[number]], [right]), node)
            out.append(assigned(held, test, node))
            if number + 1 < len(node.ops):
                inner: core.Block = []
                compare(right, number + 1, inner)
                out.append(core.Choice(name_of(held, node), inner, [], node))

        compare(left, 0, out)
        return name_of(held, node)

    def ordered(self, node: ast.expr, out: core.Block) -> ast.expr:
        """An expression whose parts are all evaluated, in order: those before the last await are kept."""
        made = copy.copy(node)
        slots = list(slots_of(made))
        last = max(number for number, (part, _, _) in enumerate(slots) if waits(part))
        for number, (part, holder, place) in enumerate(slots):
            if number > last:
                new = self.value(part, out)
            elif isinstance(part, (ast.FormattedValue, ast.Starred)):
                new = copy.copy(part)
                new.value = self.value(part.value, out)
                if number < last and not waits(part):
                    inner: ast.expr = new if isinstance(part, ast.FormattedValue) else new.value
                    if isinstance(part, ast.FormattedValue):
                        inner = ast.copy_location(ast.JoinedStr([new]), part)
                        new = ast.copy_location(
                            ast.FormattedValue(self._kept(inner, part, out), -1, None), part
                        )
                    else:
                        listed = ast.copy_location(ast.List([new], ast.Load()), part)
                        new = ast.copy_location(ast.Starred(self._kept(listed, part, out), ast.Load()), part)
            elif number == last or (waits(part) and not isinstance(part, ast.Slice)):
                new = self.value(part, out)
                if number < last and not isinstance(new, (ast.Name, ast.Constant)):
                    new = self._kept(new, part, out)
            else:
                new = self.value(part, out)
                later = [each for each, _, _ in slots[number + 1 : last + 1]]
                is_set = isinstance(new, ast.Name) and new.id in self.set_by_others | names_bound(*later)
                stays = isinstance(new, (ast.Name, ast.Constant, ast.Slice, ast.Lambda))
                if is_set or not (stays or self.program.resolved(new)):
                    new = self._kept(new, part, out)
            put_part(made, holder, place, new)
        self.check_whole(made)
        return made

    def _kept(self, value: ast.expr, place: ast.expr, out: core.Block) -> ast.Name:
        if self._is_lazy(value):
            value = ast.copy_location(call_of("list", value), value)
        held = self.names.fresh("value")
        out.append(assigned(held, value, place))
        return name_of(held, place)

    def _is_lazy(self, value: ast.expr) -> bool:
        """Whether a value is an iterator or a view of a dict, of which a plan keeps the items."""
        match value:
            case ast.Call(func=ast.Attribute(attr="keys" | "values" | "items"), args=[], keywords=[]):
                return True
            case ast.Call(func=ast.Name(id="zip" | "map" | "filter" | "reversed" | "enumerate" as name)):
                return not self.is_variable(name)
            case _:
                return isinstance(value, ast.GeneratorExp)

    def comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, out: core.Block
    ) -> ast.expr:
        """A comprehension that awaits: a loop, unless only what it goes through is awaited."""
        first, *others = node.generators
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        inner = [*parts, *first.ifs, *(each for one in others for each in (one.iter, *one.ifs))]
        if any(one.is_async for one in node.generators):
            raise waits_between_items(node)
        if not any(map(waits, inner)):
            source = self.value(first.iter, out)
            made = copy.copy(node)
            clause = copy.copy(first)
            clause.iter = source
            made.generators = [clause, *others]
            made = cast("ast.ListComp", self.replaced(made))
            self.check(made)
            return made
        if isinstance(node, ast.GeneratorExp):
            raise Refused(
                "PYT013",
                node,
                "a generator that awaits gives nothing to sum, any, all, join or list: they cannot wait",
                "write a list: [await f(x) for x in xs], or a loop that stops with break",
            )
        element: ast.expr
        if isinstance(node, ast.DictComp):
            element = ast.copy_location(ast.Tuple([node.key, node.value], ast.Load()), node.key)
        else:
            element = node.elt
        held = self._clauses(node.generators, element, out)
        if isinstance(node, ast.ListComp):
            return name_of(held, node)
        function = "set" if isinstance(node, ast.SetComp) else "dict"
        return ast.copy_location(call_of(function, name_of(held, node)), node)

    def _clauses(self, clauses: Sequence[ast.comprehension], element: ast.expr, out: core.Block) -> str:
        """A list of what the element is for each item; the names of the clauses get new ones."""
        clause, *more = clauses
        renamed = Renaming({})
        for name in sorted(names_bound(clause.target)):
            renamed.names[name] = self.names.fresh(name)
            self.bound.add(renamed.names[name])
        source = self.value(clause.iter, out)
        together = only_starts(element) and not any(waits(one) for one in (*clause.ifs, *more))

        def rename(part: ast.expr) -> ast.expr:
            return cast("ast.expr", renamed.visit(copy.deepcopy(part)))

        target = rename(clause.target)
        body: core.Block = []
        alone = len(self.alone)
        if isinstance(target, ast.Name):
            item = target.id
        else:
            item = self.names.fresh("item")
            body.append(core.Pure(ast.copy_location(ast.Assign([target], name_of(item, target)), target)))
        is_flat = bool(clause.ifs) or bool(more)
        inner: core.Block = []
        if more:
            changed: list[ast.comprehension] = []
            for one in more:
                each = copy.copy(one)
                each.iter, each.ifs = rename(one.iter), [rename(test) for test in one.ifs]
                changed.append(each)
            value: ast.expr = name_of(self._clauses(changed, rename(element), inner), element)
        else:
            value = self.value(rename(element), inner)
        if is_flat and not more:
            value = ast.copy_location(ast.List([value], ast.Load()), element)
        inner.append(core.Give(value, element))
        for test in reversed(clause.ifs):
            empty = ast.copy_location(ast.List([], ast.Load()), test)
            before: core.Block = []
            condition = self.value(rename(test), before)
            inner = [*before, core.Choice(condition, inner, [core.Give(empty, test)], test)]
        body += inner
        held = self.names.fresh("items")
        if together:
            del self.alone[alone:]
        out.append(core.Loop(item, source, body, element, into=held, together=together))
        if not is_flat:
            return held
        flat = self.names.fresh("items")
        part, one = self.names.fresh("part"), self.names.fresh("one")
        made = ast.ListComp(
            name_of(one, element),
            [
                ast.comprehension(name_of(part, element, stores=True), name_of(held, element), [], 0),
                ast.comprehension(name_of(one, element, stores=True), name_of(part, element), [], 0),
            ],
        )
        out.append(assigned(flat, ast.copy_location(made, element), element))
        return flat
