"""Groups of tasks, and loops over what is completed: calls that are started by one statement each."""

from __future__ import annotations

import ast

from callsheet.frontends.python import core
from callsheet.frontends.python.error_values import OF_TASKS, as_group, group_record
from callsheet.frontends.python.lowering.tasks import Tasks
from callsheet.frontends.python.source import Refused, dotted, own_nodes, waits, walk
from callsheet.frontends.python.syntax import assigned, name_of, parsed, placed


class Groups(Tasks):
    """The part of a translator that takes groups of tasks apart."""

    def completed(self, node: ast.expr) -> ast.expr | None:
        """What `asyncio.as_completed(…)` goes through; None for anything else."""
        if isinstance(node, ast.Call) and self.program.resolved(node.func) == "asyncio.as_completed":
            if any(word.arg == "timeout" for word in node.keywords):
                raise self.late_timeout(node, "the loop begins when all calls have ended")
            return node.args[0] if node.args else None
        return None

    def over_results(self, node: ast.For, many: ast.expr, out: core.Block) -> ast.For:
        """`for future in as_completed(calls)` as a loop over the results of the calls, as they are done.

        Each comes with whether it is an error, which is raised where the future is awaited.
        """
        if not isinstance(node.target, ast.Name):
            raise Refused("PYT020", node.target, "as_completed gives one future a time", "write one name")
        results = self.new_name("results")
        if self.eager and not isinstance(many, (ast.ListComp, ast.GeneratorExp)):
            made = ast.copy_location(ast.Call(ast.Name("list", ast.Load()), [many], []), node.iter)
            source = ast.fix_missing_locations(made)
            return ast.copy_location(ast.For(node.target, source, node.body, node.orelse), node)
        loop = self.each(many, node, out, results)
        loop.body, loop.as_done = self.safe_items(loop.body, True, node), True
        handlers = [each for one in loop.body if isinstance(one, core.Attempt) for each in one.handlers]
        of_errors = {id(one) for each in handlers for one in each.body}
        for one in core.all_of(loop.body):
            if isinstance(one, core.Give):
                pair = ast.Tuple([ast.Constant(id(one) in of_errors), one.value], ast.Load())
                one.value = placed(pair, one.node)
        out.append(loop)
        future, held = node.target.id, self.new_name("done")
        self.results[future] = future
        self.may_have_failed[future] = parsed(f"{held}[0]", node)
        taken = placed(ast.Assign([node.target], parsed(f"{held}[1]", node)), node)
        target = name_of(held, node.target, stores=True)
        body: list[ast.stmt] = [taken, *node.body]
        return ast.copy_location(ast.For(target, name_of(results, node.iter), body, node.orelse), node)

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
            known = set(self.results)
            for one in node.body:
                self._group_statement(one, target.id, members, inner)
            for name in self.results.keys() - known:
                self._check_read(name, node)
            if inner:
                out.append(core.Attempt(inner, [handler], None, node))
            for one in members:
                if isinstance(one, core.Loop):
                    one.stops = True
            if len(members) == 1 and isinstance(members[0], core.Loop):
                out += members
            elif members:
                out.append(core.Together(members, node, stops=True))
            return True
        for one in (each for part in node.body for each in walk(part)):
            if isinstance(one, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)) and any(
                dotted(each) == f"{target.id}.create_task" for each in walk(one)
            ):
                raise Refused(
                    "PYT020",
                    one,
                    "tasks that a comprehension starts are used where their group may have failed",
                    "use them in the try block or in its else, or await asyncio.gather(*[…]) and its results",
                )
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

    def _check_read(self, name: str, node: ast.AST) -> None:
        """Raise Refused where the result of a task is read though its group may have failed."""
        for one in own_nodes(*self.function.body):
            if isinstance(one, ast.Try) and any(each is node for part in one.body for each in walk(part)):
                inside = {id(each) for part in (*one.body, *one.orelse) for each in walk(part)}
                reads = (each for each in walk(self.function) if isinstance(each, ast.Name))
                if any(each.id == name and id(each) not in inside for each in reads):
                    raise Refused(
                        "PYT020",
                        node,
                        f"{name} is read where its group may have failed",
                        "read it in the try block, or in its else",
                    )

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
                self.spill_member(member, out)
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
