"""Groups of tasks, and loops over what is completed: calls that are started by one statement each."""

from __future__ import annotations

import ast
import copy
from typing import cast

from callsheet.frontends.python import core
from callsheet.frontends.python.error_values import OF_TASKS, as_group, group_record
from callsheet.frontends.python.source import Refused, dotted, waits
from callsheet.frontends.python.syntax import assigned, parsed
from callsheet.frontends.python.tasks import Tasks


class Groups(Tasks):
    """The part of a translator that takes groups of tasks apart."""

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
        if self.eager and not isinstance(many, (ast.ListComp, ast.GeneratorExp)):
            made = ast.copy_location(ast.Call(ast.Name("list", ast.Load()), [many], []), node.iter)
            source = ast.fix_missing_locations(made)
            return ast.copy_location(ast.For(node.target, source, node.body, node.orelse), node)
        out.append(self.each(many, node, out, results))
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
        inner: core.Block = []
        handler = as_group(node, self.new_name, self.program.own_errors())
        if not self.eager:
            members: core.Block = []
            for one in node.body:
                self._group_statement(one, target.id, members, inner)
            if inner:
                out.append(core.Attempt(inner, [handler], None, node))
            for one in members:
                if isinstance(one, core.Loop):
                    one.stops = True
            if members:
                out.append(core.Together(members, node, stops=True))
            return True
        errors = self.new_name("errors")
        out.append(assigned(errors, parsed("[]", node), node))
        self.groups[target.id] = errors
        out.append(core.Attempt(self.block(node.body), [handler], None, node))
        record = self.new_name("failure")
        failed: core.Block = [
            assigned(record, parsed(group_record(OF_TASKS, errors), node), node),
            core.Fail(None, None, node, record),
        ]
        out.append(core.Choice(parsed(f"len({errors}) > 0", node), failed, [], node))
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
                    members.append(self.each(made, one, out, self.new_name("results")))
                    return
        if value is not None:
            what = started(value)
            if what is not None:
                result = None if name is None else self.new_name(self.stem(what))
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
                    result = self.new_name("results")
                    made = ast.copy_location(ast.ListComp(what, value.generators), value)
                    members.append(self.each(made, one, out, result))
                    if name is not None:
                        self.results[name] = result
                    return
        if waits(one) and members:
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
