"""Takes an async function apart: awaits become statements of their own, in the order of CPython.

In: a function of the program. Out: a `Function` of `core` statements. What is evaluated before an await is
kept in a variable if it could fail or change; an await that is reached on a condition stands in a block.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import cast

from callsheet.frontends.python import core
from callsheet.frontends.python.lowering.raising import Raising
from callsheet.frontends.python.program import check_pure_function
from callsheet.frontends.python.rewrites.definitions import holds_functions, is_built_in
from callsheet.frontends.python.source import (
    Refused,
    among,
    given_by_default,
    last_name,
    leaves,
    names_bound,
    names_read,
    outer_name_changed,
    own_nodes,
    parameters_of,
    waits,
)
from callsheet.frontends.python.syntax import (
    Renaming,
    assigned,
    call_of,
    constant,
    is_value,
    name_of,
    only_raises,
    parsed,
    sets_plainly,
    statement_of,
    value_test,
)
from callsheet.ir.inverse import NotAnInverse, inverse_pair

_TIMEOUTS = frozenset({"asyncio.timeout", "asyncio.timeout_at"})


class Translator(Raising):
    """Takes one async function apart."""

    def translate(self) -> core.Function:
        """The function. Raises Refused."""
        node = self.function
        if node.args.vararg or node.args.kwarg:
            raise Refused(
                "PYT019",
                node.args.vararg or node.args.kwarg,
                "an async function takes no *args or **kwargs",
                "name its parameters: a plan's inputs are known before it runs",
            )
        self.stored = {
            one.id for one in among(own_nodes(node), ast.Name) if not isinstance(one.ctx, ast.Load)
        } | set(self.parameters)
        for one in node.body:
            self._declare(one)
        captured = tuple(sorted(self._captured()))
        body = self.block(node.body)
        self.check_held()
        if len(self.alone) > 1 or any(map(self._is_in_loop, self.alone)):
            self.program.warnings.append(
                Refused(
                    "PYT102",
                    self.alone[0],
                    "the tasks of this function run one after another, where they are started",
                    "start and await them in one place: await asyncio.gather(*[f(x) for x in xs])",
                )
            )
        defaults = self._defaults(node.args)
        annotations = {
            one.arg: one.annotation for one in parameters_of(node.args) if one.annotation is not None
        }
        return core.Function(
            node.name, self.parameters, defaults, body, node, captured, annotations, self.most
        )

    def _is_in_loop(self, node: ast.AST) -> bool:
        loops = (one for one in among(own_nodes(self.function), ast.For, ast.AsyncFor, ast.While))
        return any(each is node for one in loops for each in own_nodes(one))

    def _captured(self) -> set[str]:
        """The variables of the functions around this one that it reads."""
        if self.outer is None:
            return set()
        read = (names_read(*self.function.body) | self.nonlocals) - self.bound
        for one in self.local_helpers.values():
            read |= names_read(one) - self.bound
        around, known = self.outer, set[str]()
        inner: dict[str, ast.stmt] = {}
        while around is not None:
            known |= around.bound - set(around.local_definitions) - set(around.local_helpers)
            known -= set(around.semaphores)
            inner = {**around.local_definitions, **around.local_helpers, **inner}
            around = around.outer
        todo = [name for name in read if name in inner]
        while todo:
            callee = todo.pop()
            for name in names_read(inner.pop(callee)) if callee in inner else ():
                if name in self.bound & known:
                    raise Refused(
                        "PYT010",
                        self.function,
                        f"{name} is a variable of {self.function.name}, and another one in {callee}",
                        f"give {name} another name in {self.function.name}",
                    )
                read.add(name)
                todo.append(name)
        return read & known

    def _defaults(self, of: ast.arguments) -> dict[str, ast.expr]:
        defaults = dict(given_by_default(of))
        for name, value in defaults.items():
            self.check(value)
            names = names_read(value) & (self.outer.bound if self.outer else set[str]())
            if names:
                raise Refused(
                    "PYT019",
                    value,
                    f"the default of {name} reads the variable {min(names)} when it is defined",
                    "give the value at the call instead",
                )
        return defaults

    def _declare(self, one: ast.stmt) -> None:
        """Note the functions that a body defines, also inside its blocks."""
        for each in own_nodes(ast.Module([one], [])):
            if isinstance(each, ast.AsyncFunctionDef):
                if each.decorator_list:
                    raise Refused("PYT024", each, "an async function takes no decorator here", "remove it")
                if each.name in self.local_helpers or each.name in self.local_definitions:
                    raise Refused("PYT010", each, f"{each.name} is defined twice", "give one another name")
                self.check_not_tool(each.name, each)
                self.local_helpers[each.name] = each
            elif isinstance(each, ast.FunctionDef):
                if isinstance(one, (ast.FunctionDef, ast.ClassDef)) and each is not one:
                    continue
                check_pure_function(each)
                self.check_not_tool(each.name, each)
                self.local_definitions[each.name] = each
            elif isinstance(each, ast.ClassDef):
                self.local_definitions[each.name] = each
                for base in each.bases:
                    name = last_name(base)
                    if self.program.exceptions.is_exception(name):
                        self.program.exceptions.own[each.name] = name
            elif isinstance(each, ast.Nonlocal) and self.outer is not None:
                self.nonlocals |= set(each.names)
            elif isinstance(each, (ast.Global, ast.Nonlocal)):
                raise outer_name_changed(each)
        self.bound -= set(self.local_helpers) | self.nonlocals
        defined = {
            name
            for name, made in self.local_definitions.items()
            if isinstance(made, (ast.FunctionDef, ast.ClassDef))
        }
        self.bound -= defined - self.stored
        held = holds_functions(
            one,
            self.function,
            self.is_variable,
            self._is_pure_function,
            self.program.resolved,
            {**self.program.definitions, **self.definitions()}.get,
        )
        if held is not None and not waits(one):
            self.local_definitions[held] = one

    def _is_pure_function(self, name: str) -> bool:
        """Whether a name stands for a function or type that touches nothing."""
        if self.is_variable(name):
            return False
        found = self.definitions().get(name) or self.program.definitions.get(name)
        if found is not None:
            return isinstance(found, (ast.FunctionDef, ast.ClassDef))
        return is_built_in(name) and not self.program.is_tool(name) and self.helper(name) is None

    def block(self, body: Sequence[ast.stmt]) -> core.Block:
        """The statements of a block."""
        out: core.Block = []
        for one in body:
            self.statement(one, out)
            if isinstance(one, (ast.Return, ast.Break, ast.Continue, ast.Raise)):
                break
        return out

    def statement(self, node: ast.stmt, out: core.Block) -> None:  # noqa: PLR0912, PLR0915 - cases
        """Take one statement apart."""
        if self.eager:
            node = self.with_started(node)
        node = self.with_choices(node)
        if self.take_tasks(node, out):
            return
        match node:
            case ast.AsyncFunctionDef() | ast.Pass():
                return
            case ast.FunctionDef() | ast.ClassDef():
                self.check(node)
                return
            case ast.Global() | ast.Nonlocal():
                return
            case ast.Import() | ast.ImportFrom():
                raise Refused("PYT005", node, "an import stands inside the function", "move it to the top")
            case ast.Assign(targets=[ast.Name(id=name)]) if self.local_definitions.get(name) is node:
                self.check(node)
                return
            case ast.Expr(value=ast.Constant()):
                return
            case ast.Expr(value=ast.Call() as call) if self.is_remark(call):
                out.append(core.Remark(self._remark(call, out), node))
                return
            case ast.Raise():
                self.raise_(node, out)
                return
            case _:
                pass
        if (
            not waits(node)
            and not leaves(node)
            and not only_raises(node)
            and not self.makes_calls(node)
            and not isinstance(node, (ast.With, ast.AsyncWith))
            and not self.raises_kept(node)
        ):
            if isinstance(node, (ast.For, ast.While, ast.If)):
                _check_defines_nothing(node)
            node = self.without_failures(node)
            self.check(node)
            out.append(core.Pure(node))
            return
        match node:
            case ast.Expr(value=value) if not waits(value):
                self.check(node)
                out.append(core.Pure(node))
            case ast.Expr(value=value):
                self._expression(value, out)
            case ast.Assign(targets=targets, value=value):
                self._assign(node, targets, value, out)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(node, [target], value, out)
            case ast.AugAssign():
                self._augmented(node, out)
            case ast.Return(value=value):
                self._return(node, value, out)
            case ast.If():
                test = self.value(node.test, out)
                out.append(core.Choice(test, self.block(node.body), self.block(node.orelse), node))
            case ast.For():
                self.for_(node, out)
            case ast.While():
                self.while_(node, out)
            case ast.Break():
                flag = self.flags[-1] if self.flags else None
                if flag is not None:
                    out.append(assigned(flag, constant(True, node), node))
                out.append(core.Break(node))
            case ast.Continue():
                out.append(core.Continue(node))
            case ast.Try():
                self._try(node, out)
            case ast.Match():
                self._match(node, out)
            case ast.Assert(test=test, msg=ast.expr() as message) if waits(message):
                error = call_of("AssertionError", message)
                fails = ast.copy_location(ast.Raise(ast.copy_location(error, message)), node)
                choice = ast.If(ast.copy_location(ast.UnaryOp(ast.Not(), test), test), [fails], [])
                self.statement(ast.copy_location(choice, node), out)
            case ast.Assert(test=test, msg=message):
                made = ast.Assert(self.value(test, out), message)
                self.check(made)
                out.append(core.Pure(ast.copy_location(made, node)))
            case ast.AsyncWith() | ast.With():
                self._with(node, out)
            case ast.AsyncFor():
                self.async_for(node, out)
            case ast.TryStar():
                raise Refused(
                    "PYT019",
                    node,
                    "`except*` takes a group of errors apart, which a plan cannot say",
                    "write except ExceptionGroup as group, and go through group.exceptions; or await"
                    " asyncio.gather(…, return_exceptions=True), and test each result with isinstance",
                )
            case _:
                raise Refused(
                    "PYT019",
                    node,
                    f"a statement of this kind ({type(node).__name__}) cannot await",
                    "await before it, and store the result in a variable",
                )

    def _expression(self, value: ast.expr, out: core.Block) -> None:
        if isinstance(value, ast.Await):
            self.await_(value, out, None)
            return
        made = self.value(value, out)
        if not isinstance(made, (ast.Name, ast.Constant)):
            self.check(made)
            out.append(core.Pure(statement_of(made)))

    def _assign(self, node: ast.stmt, targets: Sequence[ast.expr], value: ast.expr, out: core.Block) -> None:
        if len(targets) == 1 and isinstance(targets[0], ast.Name) and isinstance(value, ast.Await):
            self.await_(value, out, targets[0].id)
            return
        made = self.spilled(value, out) if any(map(waits, targets)) else self.value(value, out)
        targets = [self.target(one, out) if waits(one) else one for one in targets]
        for one in targets:
            self.check(one)
        if len(targets) == 1 and isinstance(targets[0], ast.Name):
            target = targets[0].id
            if isinstance(made, ast.Name) and made.id == target:
                return
        out.append(core.Pure(ast.copy_location(ast.Assign(list(targets), made), node)))

    def _augmented(self, node: ast.AugAssign, out: core.Block) -> None:
        target = node.target
        if isinstance(target, ast.Name):
            held = target
            if waits(node.value) and target.id in self.set_by_others:
                held = name_of(self.names.fresh("before"), target)
                out.append(assigned(held.id, name_of(target.id, target), node))
            made = self.value(node.value, out)
            held = ast.copy_location(ast.Name(held.id, ast.Store()), target)
            out.append(core.Pure(ast.copy_location(ast.AugAssign(held, node.op, made), node)))
            if held.id != target.id:
                out.append(assigned(target.id, name_of(held.id, target), node))
            return
        holder = self.holder(target.value, node.value, out)
        place: ast.expr
        if isinstance(target, ast.Subscript):
            place = ast.Subscript(holder, self.key(target.slice, out), ast.Load())
        else:
            place = ast.Attribute(holder, target.attr, ast.Load())
        ast.copy_location(place, target)
        before = self.names.fresh("before")
        out.append(assigned(before, place, target))
        made = ast.copy_location(
            ast.BinOp(name_of(before, target), node.op, self.value(node.value, out)), node
        )
        stored = copy.copy(place)
        stored.ctx = ast.Store()
        self.check(stored)
        out.append(core.Pure(ast.copy_location(ast.Assign([stored], made), node)))

    def _return(self, node: ast.Return, value: ast.expr | None, out: core.Block) -> None:
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            out.append(core.Return(None, node))
            return
        match value:
            case ast.Await(value=ast.Call() as call) if self.is_own(call.func, "replan"):
                if call.keywords or len(call.args) > 1:
                    how = 'return await replan("why")'
                    raise Refused("PYT009", call, "replan takes the reason for another plan", how)
                reason = self.value(call.args[0], out) if call.args else None
                out.append(core.Return(reason, node, replans=True))
            case _:
                out.append(core.Return(self.value(value, out), node))

    def _try(self, node: ast.Try, out: core.Block) -> None:
        for one in node.finalbody:
            if leaves(one):
                raise Refused(
                    "PYT018",
                    one,
                    "return, break or continue in finally would hide an error",
                    "set a variable in finally, and return after it",
                )
        first = next((at for at, one in enumerate(node.body) if not sets_plainly(one)), len(node.body) - 1)
        out += self.block(node.body[:first])
        body = self.block(node.body[first:])
        final = self.block(node.finalbody) if node.finalbody else None
        if not node.orelse:
            handlers = [self._handler(one) for one in node.handlers]
            out.append(core.Attempt(body, handlers, final, node))
            return
        rest = self.block(node.orelse)
        made = core.Attempt(body, [self._handler(one) for one in node.handlers], None, node)
        inner: core.Block = [made, *rest]
        if any(core.goes_on(one.body) for one in made.handlers):
            flag = self.names.fresh("done")
            body.append(assigned(flag, constant(True, node), node))
            after = core.Choice(name_of(flag, node), rest, [], node.orelse[0], made)
            inner = [assigned(flag, constant(False, node), node), made, after]
        if final is not None:
            inner = [core.Attempt(inner, [], final, node)]
        out.extend(inner)

    def _handler(self, node: ast.ExceptHandler) -> core.Caught:
        kinds: tuple[str, ...] = ()
        if node.type is not None:
            listed = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            names: list[str] = []
            for one in listed:
                name = last_name(one)
                if not self.program.exceptions.is_exception(name):
                    raise Refused(
                        "PYT021",
                        one,
                        "what is caught is no exception that is known here",
                        "name a built-in exception, ToolError, or a class of this file",
                    )
                names.append(name)
            kinds = self.program.exceptions.caught(names)
        binds = self.names.fresh("error")
        name = node.name or ""
        self.caught.append((name, binds, kinds))
        body = self.block(node.body)
        self.caught.pop()
        return core.Caught(kinds, binds, body, node, frozenset({name}) - {""})

    def _match(self, node: ast.Match, out: core.Block) -> None:
        """A match whose cases await: pure code finds the case, then its block follows."""
        subject = self.spilled(node.subject, out)
        if not isinstance(subject, ast.Name):
            held = self.names.fresh("subject")
            out.append(assigned(held, subject, node.subject))
            subject = name_of(held, node.subject)
        if all(is_value(each.pattern) and not (each.guard and waits(each.guard)) for each in node.cases):
            self._cases(node.cases, subject, node, out)
            return
        chosen = self.names.fresh("case")
        cases: list[ast.match_case] = []
        bodies: list[core.Block] = []
        start: list[core.Core] = [assigned(chosen, constant(-1, node), node)]
        for number, each in enumerate(node.cases):
            self.check(each.pattern)
            if each.guard is not None and waits(each.guard):
                raise Refused("PYT019", each.guard, "the guard of a case awaits", "await before the match")
            renamed = Renaming({})
            for name in sorted(names_bound(each.pattern)):
                renamed.names[name] = self.names.fresh(name)
                start.append(assigned(renamed.names[name], constant(None, node), node))
            pattern = cast("ast.pattern", renamed.visit(copy.deepcopy(each.pattern)))
            guard = None
            if each.guard is not None:
                guard = cast("ast.expr", renamed.visit(copy.deepcopy(each.guard)))
                self.check(guard)
            cases.append(
                ast.match_case(pattern, guard, [assigned(chosen, constant(number, node), node).stmt])
            )
            taken: core.Block = [
                assigned(name, name_of(held, each.pattern), each.pattern)
                for name, held in renamed.names.items()
            ]
            bodies.append(taken + self.block(each.body))
        out += start
        made = ast.Match(subject, cases)
        made = ast.fix_missing_locations(ast.copy_location(made, node))
        out.append(core.Pure(self.without_failures(made)))
        rest: core.Block = []
        for number in reversed(range(len(bodies))):
            test = ast.Compare(name_of(chosen, node), [ast.Eq()], [constant(number, node)])
            place = node.cases[number].body[0]
            rest = [core.Choice(ast.copy_location(test, place), bodies[number], rest, place)]
        out += rest

    def _cases(
        self, cases: Sequence[ast.match_case], subject: ast.expr, node: ast.AST, out: core.Block
    ) -> None:
        """Cases of plain values as a chain of conditions."""
        if not cases:
            return
        first, *more = cases
        test = value_test(first.pattern, subject)
        if first.guard is not None:
            guard = self.value(first.guard, out)
            test = guard if test is None else ast.BoolOp(ast.And(), [test, guard])
        if test is None:
            out += self.block(first.body)
            return
        ast.fix_missing_locations(ast.copy_location(test, first.pattern))
        rest: core.Block = []
        self._cases(more, subject, node, rest)
        out.append(core.Choice(test, self.block(first.body), rest, first.body[0]))

    def _with(self, node: ast.With | ast.AsyncWith, out: core.Block) -> None:
        if self.task_group(node, out):
            return
        for one in node.items:
            held = one.context_expr
            if isinstance(held, ast.Name) and held.id in self.known_semaphores():
                limit = self.known_semaphores()[held.id]
                if self.outer is not None:
                    self.most = limit
                continue
            if isinstance(held, ast.Call) and self.is_own(held.func, "undo"):
                out.append(core.Attempt(self._inside(node, one), [], None, held, self._inverses(held)))
                return
            resolved = self.program.resolved(held.func) if isinstance(held, ast.Call) else None
            if isinstance(held, ast.Call) and resolved in _TIMEOUTS and held.args:
                seconds = held.args[0]
                if resolved == "asyncio.timeout_at":
                    left = ast.BinOp(seconds, ast.Sub(), parsed("now().timestamp()", held))
                    seconds = ast.fix_missing_locations(ast.copy_location(left, seconds))
                is_endless = isinstance(seconds, ast.Constant) and seconds.value is None
                within = None if is_endless else self.value(seconds, out)
                around, self.has_limit = self.has_limit, self.has_limit or within is not None
                body = self._inside(node, one)
                self.has_limit = around
                out.append(core.Attempt(body, [], None, held, within=within))
                return
            self.check(held)
            raise Refused(
                "PYT019",
                held,
                "a plan has no such context around calls",
                "take the body out of the `with`; of contexts that await, a Semaphore and a TaskGroup are "
                "understood",
            )
        out += self.block(node.body)

    def _inside(self, node: ast.With | ast.AsyncWith, context: ast.withitem) -> core.Block:
        """What stands inside one of the contexts of a `with`: those behind it, and the body."""
        inner = copy.copy(node)
        inner.items = node.items[node.items.index(context) + 1 :]
        if not inner.items:
            return self.block(node.body)
        block: core.Block = []
        self._with(inner, block)
        return block

    def _inverses(self, call: ast.Call) -> tuple[tuple[str, str], ...]:
        """The tools that `undo(…)` names, each with its inverse."""
        how = 'write async with undo(create_event="delete_event(event_id=result.id)")'
        if call.args:
            raise Refused("PYT009", call, "undo takes each tool by its name", how)
        pairs: list[tuple[str, str]] = []
        for one in call.keywords:
            text = one.value.value if isinstance(one.value, ast.Constant) else None
            try:
                pairs.append(inverse_pair(one.arg or "", text))
            except NotAnInverse as error:
                raise Refused("PYT009", one.value, str(error), how) from None
        return tuple(pairs)

    def _remark(self, call: ast.Call, out: core.Block) -> ast.expr:
        parts: list[ast.expr] = []
        for word in call.keywords:
            if word.arg in {"file", None}:
                raise Refused(
                    "PYT026",
                    word.value,
                    "what is printed is a note of the run, and goes nowhere else",
                    "keep the lines in a list, or give print a variable: buffer = io.StringIO()",
                )
        for number, one in enumerate(call.args):
            if number:
                parts.append(constant(" ", call))
            inner = one.value if isinstance(one, ast.Starred) else one
            if isinstance(inner, ast.Name) and (self.failure_variable(inner.id) or self.program.keeps_errors):
                hole = ast.copy_location(ast.FormattedValue(inner, -1, None), inner)
                inner = ast.copy_location(ast.JoinedStr([hole]), inner)
            made = self.value(inner, out)
            if isinstance(made, ast.JoinedStr):
                parts += made.values
            elif isinstance(made, ast.Constant) and isinstance(made.value, str):
                parts.append(made)
            else:
                parts.append(ast.copy_location(ast.FormattedValue(made, -1, None), one))
        return ast.copy_location(ast.JoinedStr(parts), call)


def _check_defines_nothing(node: ast.stmt) -> None:
    """Raises Refused (PYT019) for an async function that a loop or a branch makes, and does not call."""
    for one in own_nodes(node):
        if isinstance(one, ast.AsyncFunctionDef):
            raise Refused(
                "PYT019",
                one,
                f"{one.name} calls tools, and is made here to be called later",
                f"define {one.name} once, outside, give it what it reads, and keep that in a list",
            )
