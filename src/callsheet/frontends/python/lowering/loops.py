"""Takes loops apart: their sources, targets and ends, and the `else` of those that break does not leave."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import cast

from callsheet.frontends.python import core
from callsheet.frontends.python.lowering.values import Values
from callsheet.frontends.python.source import (
    Refused,
    breaks,
    children,
    names_bound,
    names_read,
    waits,
    waits_between_items,
)
from callsheet.frontends.python.syntax import assigned, bound_inside, constant, name_of


class Loops(Values):
    """The part of a translator that takes loops apart."""

    def check_nodes(self, root: ast.AST, nodes: Sequence[ast.AST]) -> None:
        """Raises Refused for what pure code may not say, and for a loop in it that nothing ends."""
        kept = [one for one in nodes if isinstance(one, ast.Lambda) and self.is_call_alone(one.body)]
        inner = bound_inside(nodes) if kept else set[str]()
        for one in kept:
            called = ast.unparse(cast("ast.Call", one.body).func)
            if called not in inner:
                raise Refused(
                    "PYT011",
                    one,
                    f"a function that calls {called} is kept here: what is called later is not known",
                    f"keep what {called} is given, and write await {called}(…) where it is called",
                )
        super().check_nodes(root, nodes)
        for one in nodes:
            if isinstance(one, ast.While):
                self._check_end(one)

    def for_(self, node: ast.For, out: core.Block) -> None:
        """`for target in source: …`."""
        as_completed = self.completed(node.iter)
        if as_completed is not None:
            node = self.over_results(node, as_completed, out)
        counted = self._counted(node)
        if counted is not None:
            self.statement(cast("ast.stmt", vars(counted)["start"]), out)
            self.while_(counted, out)
            return
        source = self.value(node.iter, out)
        self.check(node.target)
        flag = self._flag(node, out)
        head: core.Block = []
        if isinstance(node.target, ast.Name):
            target = node.target.id
        else:
            target = self.names.fresh("item")
            made = ast.Assign([node.target], name_of(target, node.target))
            head.append(core.Pure(ast.copy_location(made, node.target)))
        body = head + self.block(node.body)
        self.flags.pop()
        made = core.Loop(target, source, body, node)
        out.append(made)
        self._else(node, flag, made, out)

    def _counted(self, node: ast.For) -> ast.While | None:
        """A loop over `itertools.count(…)` as one that counts, else None. Raises Refused (PYT012)."""
        resolved = self.program.resolved(node.iter.func) if isinstance(node.iter, ast.Call) else None
        if resolved in {"itertools.cycle", "itertools.repeat"} and not (
            resolved == "itertools.repeat" and isinstance(node.iter, ast.Call) and len(node.iter.args) > 1
        ):
            raise Refused(
                "PYT012",
                node,
                "this loop goes through something that has no end",
                "say how often at most: for attempt in range(20): …, with a break when it is done",
            )
        if resolved != "itertools.count" or not isinstance(node.iter, ast.Call):
            return None
        given = dict(zip(("start", "step"), node.iter.args, strict=False))
        given |= {str(one.arg): one.value for one in node.iter.keywords}
        start, step = given.get("start", constant(0, node)), given.get("step", constant(1, node))
        count = self.new_name("count")
        before = ast.BinOp(start, ast.Sub(), step)
        stored = ast.Assign([name_of(count, node, stores=True)], before)
        more = ast.AugAssign(name_of(count, node, stores=True), ast.Add(), step)
        taken = ast.Assign([node.target], name_of(count, node))
        made = ast.While(ast.Constant(True), [more, taken, *node.body], node.orelse)
        for one in (stored, made):
            ast.fix_missing_locations(ast.copy_location(one, node))
        vars(made)["start"] = stored
        return made

    def while_(self, node: ast.While, out: core.Block) -> None:
        """`while test: …`."""
        self._check_end(node)
        flag = self._flag(node, out)
        if waits(node.test) or self.needs_statements(node.test):
            inner: core.Block = []
            test = self.value(node.test, inner)
            negated = ast.copy_location(ast.UnaryOp(ast.Not(), test), node.test)
            inner.append(core.Choice(negated, [core.Break(node.test)], [], node.test))
            body = inner + self.block(node.body)
            made = core.While(constant(True, node.test), body, node)
        else:
            test = self.value(node.test, out)
            made = core.While(test, self.block(node.body), node)
        self.flags.pop()
        out.append(made)
        self._else(node, flag, made, out)

    def _flag(self, node: ast.For | ast.While, out: core.Block) -> str | None:
        """The variable that tells whether a loop with an else was left by break."""
        flag = None
        if node.orelse and breaks(node.body):
            flag = self.names.fresh("left")
            out.append(assigned(flag, constant(False, node), node))
        self.flags.append(flag)
        return flag

    def _else(self, node: ast.For | ast.While, flag: str | None, of: core.Core, out: core.Block) -> None:
        if flag is None:
            out.extend(self.block(node.orelse))
        else:
            test = ast.copy_location(ast.UnaryOp(ast.Not(), name_of(flag, node)), node)
            out.append(core.Choice(test, self.block(node.orelse), [], node.orelse[0], of))

    def _check_end(self, node: ast.While) -> None:
        """Raises Refused (PYT012) for a loop that nothing ends."""
        test = node.test
        if not _stays(test, node.body) or (isinstance(test, ast.Constant) and not test.value):
            return
        if self.has_limit and any(map(waits, node.body)):  # time ends it
            return
        stack: list[tuple[ast.AST, bool]] = [(one, False) for one in node.body]
        while stack:
            one, inner = stack.pop()
            if isinstance(one, (ast.Return, ast.Raise, ast.Assert, ast.Yield, ast.YieldFrom)) or (
                isinstance(one, ast.Break) and not inner
            ):
                return
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                continue
            inside = inner or isinstance(one, (ast.For, ast.While, ast.AsyncFor))
            stack.extend((each, inside) for each in children(one))
        raise Refused(
            "PYT012",
            node,
            "this loop has no end: nothing in it breaks, returns or raises",
            "say how often at most: for attempt in range(20): …, with a break when it is done",
        )

    def async_for(self, node: ast.AsyncFor, out: core.Block) -> None:
        """`async for … in as_completed(…)`."""
        as_completed = self.completed(node.iter)
        if as_completed is None:
            raise waits_between_items(node)
        made = ast.copy_location(ast.For(node.target, node.iter, node.body, node.orelse), node)
        self.for_(made, out)


def _stays(test: ast.expr, body: Sequence[ast.stmt]) -> bool:
    """Whether the test of a loop has the same value each time: nothing in its body can change it."""
    names: set[str] = set()
    for one in ast.walk(test):
        if isinstance(one, ast.Name):
            names.add(one.id)
        elif not isinstance(
            one,
            (
                *(ast.Constant, ast.UnaryOp, ast.unaryop, ast.BoolOp, ast.boolop, ast.Compare, ast.cmpop),
                ast.expr_context,
            ),
        ):
            return False
    if not names:
        return True
    for part in body:
        if names_bound(part) & names or isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        for one in ast.walk(part):
            if isinstance(one, (ast.Attribute, ast.Subscript)) and names_read(one) & names:
                return False
            if isinstance(one, ast.Call) and any(names_read(each) & names for each in one.args):
                return False
    return True
