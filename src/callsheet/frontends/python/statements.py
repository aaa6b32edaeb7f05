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
from callsheet.frontends.python.definitions import holds_functions, is_built_in
from callsheet.frontends.python.error_values import CAUSE, GROUP, fields_of, group_record
from callsheet.frontends.python.exceptions import TOOL_ERROR, kind_of
from callsheet.frontends.python.loops import Loops
from callsheet.frontends.python.program import check_pure_function
from callsheet.frontends.python.source import (
    Refused,
    dotted,
    leaves,
    names_bound,
    names_read,
    own_nodes,
    parameters_of,
    waits,
)
from callsheet.frontends.python.syntax import (
    Renaming,
    assigned,
    call_of,
    constant,
    has_methods,
    is_value,
    name_of,
    none,
    only_raises,
    parsed,
    sets_plainly,
    statement_of,
    value_test,
)
from callsheet.frontends.python.timeouts import limited


def _is_group(error: ast.expr | None) -> bool:
    return isinstance(error, ast.Call) and dotted(error.func) == GROUP and len(error.args) == 2


class Translator(Loops):
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
            one.id
            for one in own_nodes(node)
            if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)
        } | set(self.parameters)
        for one in node.body:
            self._declare(one)
        captured = tuple(sorted(self._captured()))
        body = self.block(node.body)
        self.check_held()
        loops = [one for one in own_nodes(node) if isinstance(one, (ast.For, ast.AsyncFor, ast.While))]
        in_loop = {id(each) for one in loops for each in own_nodes(one)} if self.alone else set[int]()
        if len(self.alone) > 1 or any(id(each) in in_loop for each in self.alone):
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

    def _captured(self) -> set[str]:
        """The variables of the functions around this one that it reads."""
        if self.outer is None:
            return set()
        read = (names_read(*self.function.body) | self.nonlocals) - self.bound
        for one in self.local_helpers.values():
            read |= names_read(one) - self.bound
        around = self.outer
        known: set[str] = set()
        while around is not None:
            known |= around.bound - set(around.local_definitions) - set(around.local_helpers)
            known -= set(around.semaphores)
            around = around.outer
        for name in list(read):
            local = self.definitions().get(name)
            if local is not None:
                read |= names_read(local)
        return read & known

    def _defaults(self, of: ast.arguments) -> dict[str, ast.expr]:
        given = [*of.posonlyargs, *of.args]
        pairs = list(zip(given[len(given) - len(of.defaults) :], of.defaults, strict=True))
        pairs += [(one, value) for one, value in zip(of.kwonlyargs, of.kw_defaults, strict=True) if value]
        for one, value in pairs:
            self.check(value)
            names = {name for name in names_read(value) if name in (self.outer.bound if self.outer else ())}
            if names:
                raise Refused(
                    "PYT019",
                    value,
                    f"the default of {one.arg} reads the variable {min(names)} when it is defined",
                    "give the value at the call instead",
                )
        return {one.arg: value for one, value in pairs}

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
                    name = (dotted(base) or "").split(".")[-1]
                    if self.program.exceptions.is_exception(name):
                        self.program.exceptions.own[each.name] = name
            elif isinstance(each, ast.Nonlocal) and self.outer is not None:
                self.nonlocals |= set(each.names)
            elif isinstance(each, (ast.Global, ast.Nonlocal)):
                raise Refused(
                    "PYT017",
                    each,
                    f"{each.names[0]} is a variable of another function",
                    "return the new value, and assign it where the function is called",
                )
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
        if self.take_tasks(node, out) or self.sets_up_logging(node):
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
                self._raise(node, out)
                return
            case _:
                pass
        if (
            not waits(node)
            and not leaves(node)
            and not only_raises(node)
            and not self.makes_calls(node)
            and not isinstance(node, (ast.With, ast.AsyncWith))
            and not self._raises_kept(node)
        ):
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
        made = self.value(value, out)
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
        holder = self._holder(target.value, node.value, out)
        place: ast.expr
        if isinstance(target, ast.Subscript):
            place = ast.Subscript(holder, self.spilled(target.slice, out), ast.Load())
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

    def _holder(self, holder: ast.expr, value: ast.expr, out: core.Block) -> ast.expr:
        """The container that `x[k] += await f()` changes: by its path, where nothing can change that."""
        steps = holder
        while isinstance(steps, (ast.Subscript, ast.Attribute)):
            if isinstance(steps, ast.Subscript) and not isinstance(steps.slice, (ast.Name, ast.Constant)):
                return self.spilled(holder, out)
            steps = steps.value
        called = {dotted(one.func) or "" for one in own_nodes(value) if isinstance(one, ast.Call)}
        is_settled = isinstance(steps, ast.Name) and not names_bound(value)
        if not is_settled or any(self.helper(name) is not None for name in called):
            return self.spilled(holder, out)
        return self.value(holder, out)

    def _return(self, node: ast.Return, value: ast.expr | None, out: core.Block) -> None:
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            out.append(core.Return(None, node))
            return
        out.append(core.Return(self.value(value, out), node))

    def _raise(self, node: ast.Raise, out: core.Block) -> None:
        """`raise X(…)`, `raise` and `raise error`; a class with fields of its own is raised by pure code."""
        error = node.exc
        if self.program.keeps_errors and self._is_kept_error(error):
            kept = self.spilled(cast("ast.expr", error), out)
            if isinstance(kept, ast.Name):
                out.append(core.Fail(None, None, node, kept.id))
                return
        if error is None or (isinstance(error, ast.Name) and self.failure_variable(error.id)):
            again = self.failure_variable(error.id) if isinstance(error, ast.Name) else self._innermost()
            if again is None:
                raise Refused(
                    "PYT021", node, "there is no error here to raise again", "name one: raise ValueError(…)"
                )
            out.append(core.Fail(None, None, node, again))
            return
        if waits(error):
            error = self.value(error, out)
        error = self.replaced(error)
        self.check(error)
        name, arguments = error, cast("list[ast.expr]", [])
        if isinstance(error, ast.Call):
            name, arguments = error.func, error.args
        called = (dotted(name) or "").split(".")[-1]
        if not self.program.exceptions.is_exception(called):
            raise Refused(
                "PYT021",
                node,
                "what is raised is no exception that is known here",
                "raise a built-in exception, or a class of this file: class Refused(Exception): pass",
            )
        own = self.definitions().get(called) or self.program.definitions.get(called)
        if node.cause is not None and CAUSE in self.program.error_fields:
            self._raise_from(node, error, called, out)
            return
        plain = own is None or (isinstance(own, ast.ClassDef) and not has_methods(own))
        named = isinstance(error, ast.Call) and bool(error.keywords)
        if (
            plain
            and not named
            and len(arguments) <= 1
            and not any(isinstance(a, ast.Starred) for a in arguments)
        ):
            message: ast.expr | None = None
            if arguments:
                (only,) = arguments
                message = only if called != "KeyError" else ast.copy_location(call_of("repr", only), only)
                if not isinstance(message, (ast.JoinedStr, ast.Constant)) or called == "KeyError":
                    message = ast.copy_location(call_of("str", message), only)
            out.append(core.Fail(message, kind_of(called), node))
            return
        if called == GROUP and len(arguments) == 2 and not named:
            self._check_kept(arguments[1])
            message, errors = (self.spilled(one, out) for one in arguments)
            record = self.new_name("failure")
            value = parsed(group_record(ast.unparse(message), ast.unparse(errors)), node)
            out.append(assigned(record, value, node))
            out.append(core.Fail(None, None, node, record))
            return
        if called == TOOL_ERROR:
            raise Refused("PYT021", node, "ToolError takes one message", 'write raise ToolError("…")')
        if own is not None and self.program.error_fields:
            self._raise_with_fields(node, error, called, out)
            return
        made = ast.copy_location(ast.Raise(error, None), node)
        out.append(core.Pure(made))

    def _raises_kept(self, node: ast.stmt) -> bool:
        """Whether a statement raises an error that is kept in a variable, or a group of such errors."""
        return self.program.keeps_errors and any(
            isinstance(one, ast.Raise) and (self._is_kept_error(one.exc) or _is_group(one.exc))
            for one in own_nodes(node)
        )

    def _is_kept_error(self, error: ast.expr | None) -> bool:
        """Whether what is raised is a value: a variable that is no handler's name, or a part of one."""
        if isinstance(error, ast.Name):
            return error.id in self.bound and not self.failure_variable(error.id)
        return isinstance(error, ast.Subscript)

    def _raise_with_fields(self, node: ast.Raise, error: ast.expr, kind: str, out: core.Block) -> None:
        """Raise an exception that carries more than its words: its record is made by pure code."""
        made = error if isinstance(error, ast.Call) else ast.copy_location(ast.Call(error, [], []), error)
        held, record = self.new_name("raised"), self.new_name("failure")
        out.append(assigned(held, made, node))
        text = (
            f'{{"kind": {kind!r}, "message": str({held}), "step": "", "fields": '
            f"{fields_of(held, self.program.error_fields)}}}"
        )
        value = ast.parse(text, mode="eval").body
        for one in ast.walk(value):
            ast.copy_location(one, node)
        out.append(assigned(record, value, node))
        out.append(core.Fail(None, None, node, record))

    def _check_kept(self, errors: ast.expr) -> None:
        """Raises Refused (PYT021) for a group of errors that nothing has raised."""
        for one in ast.walk(errors):
            if isinstance(one, ast.Call) and self.program.exceptions.is_exception(
                (dotted(one.func) or "").rpartition(".")[2]
            ):
                raise Refused(
                    "PYT021",
                    one,
                    "an error that was never raised is put into a group",
                    "raise and catch it first, and keep it: except ValueError as error: errors.append(error)",
                )

    def _raise_from(self, node: ast.Raise, error: ast.expr, called: str, out: core.Block) -> None:
        """Raise an exception that the program asks for its cause."""
        cause: ast.expr = self.replaced(node.cause or none(node))
        self.check(cause)
        own = self.definitions().get(called) or self.program.definitions.get(called)
        fields = [one for one in self.program.error_fields if one != CAUSE]
        record, given = self.new_name("failure"), self.new_name("cause")
        out.append(assigned(given, cause, node))
        message, carried = "''", ""
        if isinstance(error, ast.Call) and (own is not None or len(error.args) != 1 or error.keywords):
            held = self.new_name("raised")
            out.append(assigned(held, error, node))
            message = f"str({held})"
            carried = fields_of(held, fields)[1:-1] if own is not None else ""
        elif isinstance(error, ast.Call):
            message = f"{'repr' if called == 'KeyError' else 'str'}({ast.unparse(error.args[0])})"
        parts = [*([carried] if carried else []), f"{CAUSE!r}: {given}"]
        text = (
            f'{{"kind": {kind_of(called)!r}, "message": {message}, "step": "", '
            f'"fields": {{{", ".join(parts)}}}}}'
        )
        out.append(assigned(record, parsed(text, node), node))
        out.append(core.Fail(None, None, node, record))

    def _innermost(self) -> str | None:
        return self.caught[-1][1] if self.caught else None

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
        flag = self.names.fresh("done")
        body.append(assigned(flag, constant(True, node), node))
        rest = self.block(node.orelse)
        made = core.Attempt(body, [self._handler(one) for one in node.handlers], None, node)
        after = core.Choice(name_of(flag, node), rest, [], node.orelse[0], made)
        inner: core.Block = [assigned(flag, constant(False, node), node), made, after]
        if final is not None:
            inner = [core.Attempt(inner, [], final, node)]
        out.extend(inner)

    def _handler(self, node: ast.ExceptHandler) -> core.Caught:
        kinds: tuple[str, ...] = ()
        if node.type is not None:
            listed = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            names: list[str] = []
            for one in listed:
                name = (dotted(one) or "").split(".")[-1]
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
        out.append(core.Pure(ast.fix_missing_locations(ast.copy_location(made, node))))
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
            resolved = self.program.resolved(held.func) if isinstance(held, ast.Call) else None
            is_timeout = isinstance(held, ast.Call) and "is_timeout" in vars(held)
            if isinstance(held, ast.Call) and (is_timeout or resolved == "asyncio.timeout") and held.args:
                seconds = self.new_name("seconds")
                out.append(assigned(seconds, self.value(held.args[0], out), held))
                inner = copy.copy(node)
                inner.items = node.items[node.items.index(one) + 1 :]
                block: core.Block = []
                if inner.items:
                    self._with(inner, block)
                else:
                    block = self.block(node.body)
                out += limited(block, seconds, self.new_name, held)
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

    def _remark(self, call: ast.Call, out: core.Block) -> ast.expr:
        parts: list[ast.expr] = []
        args = call.args
        name = dotted(call.func) or ""
        if "." in name:  # a logger, whose first argument is a template for the others
            if name.endswith(".log"):
                args = args[1:]
            if len(args) > 1 and isinstance(args[0], ast.Constant) and isinstance(args[0].value, str):
                given: list[ast.expr] = [
                    call_of("str", one)
                    if isinstance(one, ast.Name) and self.failure_variable(one.id)
                    else one
                    for one in args[1:]
                ]
                filled = ast.BinOp(args[0], ast.Mod(), ast.Tuple(given, ast.Load()))
                return self.value(ast.fix_missing_locations(ast.copy_location(filled, call)), out)
        for number, one in enumerate(args):
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
