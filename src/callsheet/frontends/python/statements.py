"""Takes an async function apart: awaits become statements of their own, in the order of CPython.

In: a function of the program. Out: a `Function` of `core` statements. What is evaluated before an await is kept
in a variable if it could fail or change; an await that is reached on a condition stands in a block.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast

from callsheet.frontends.python import core
from callsheet.frontends.python.exceptions import FAILURE_KINDS, TOOL_ERROR, exception_name, kind_of
from callsheet.frontends.python.program import FORBIDDEN, Program, check_pure_function
from callsheet.frontends.python.source import (
    Refused,
    children,
    dotted,
    leaves,
    names_bound,
    names_read,
    own_nodes,
    parameters_of,
    waits,
    walk,
)
from callsheet.frontends.python.tasks import MARK, Tasks

if TYPE_CHECKING:
    from collections.abc import Mapping

_PRINTS: Final = frozenset({"print", "note"})
_LOGS: Final = frozenset({"debug", "info", "warning", "error", "critical", "exception", "log"})
_WALL_CLOCKS: Final = frozenset(
    {"time.sleep", "time.time", "time.perf_counter", "time.process_time", "time.monotonic", "time.time_ns"}
)
_FRAMES: Final = frozenset({"mro", "func_globals", "__wrapped__"})
_TEMPLATES: Final = frozenset({"format", "format_map", "vformat", "safe_substitute"})
_EXPRESSION_LISTS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def name_of(name: str, place: ast.AST, *, stores: bool = False) -> ast.Name:
    """A name as a node at the place of another one."""
    return ast.copy_location(ast.Name(name, ast.Store() if stores else ast.Load()), place)


def assigned(name: str, value: ast.expr, place: ast.AST | None = None) -> core.Pure:
    """`name = value`."""
    at = value if place is None else place
    made = ast.Assign([name_of(name, at, stores=True)], value)
    return core.Pure(ast.fix_missing_locations(ast.copy_location(made, at)))


class Names:
    """The names of one file; makes new ones."""

    def __init__(self, tree: ast.Module) -> None:
        self.taken = {one.id for one in walk(tree) if isinstance(one, ast.Name)}
        self.taken |= {one.arg for one in walk(tree) if isinstance(one, ast.arg)}
        self.numbers: dict[str, int] = {}
        self.made: set[str] = set()

    def fresh(self, stem: str) -> str:
        """A name that nothing has: the stem with a number."""
        while True:
            number = self.numbers[stem] = self.numbers.get(stem, 0) + 1
            name = f"{stem}_{number}"
            if name not in self.taken:
                self.taken.add(name)
                self.made.add(name)
                return name


class Translator(Tasks):
    """Takes one async function apart."""

    def __init__(
        self, program: Program, function: ast.AsyncFunctionDef, names: Names, outer: Translator | None = None
    ) -> None:
        self.program, self.function, self.names, self.outer = program, function, names, outer
        self.parameters = [one.arg for one in parameters_of(function.args)]
        self.local_definitions: dict[str, ast.stmt] = {}
        self.local_helpers: dict[str, ast.AsyncFunctionDef] = {}
        self.semaphores: dict[str, int | None] = {}
        self.caught: list[tuple[str, str, tuple[str, ...]]] = []
        """What the handlers around the place name their errors, their variables, and the kinds they catch."""
        self.flags: list[str | None] = []
        """For each loop around the place, the variable that says that it was left by break."""
        self.most: int | None = None
        self.bound = names_bound(*function.body) | set(self.parameters)
        self.start_tasks()

    # ------------------------------------------------------------ the function

    def translate(self) -> core.Function:
        """The function. Raises Refused."""
        node = self.function
        if node.args.vararg or node.args.kwarg:
            raise Refused(
                "PYT019", node.args.vararg or node.args.kwarg, "an async function takes no *args or **kwargs",
                "name its parameters: a plan's inputs are known before it runs",
            )  # fmt: skip
        for one in node.body:
            self._declare(one)
        captured = tuple(sorted(self._captured()))
        body = self.block(node.body)
        self.check_held()
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
        read = names_read(*self.function.body) - self.bound
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
                    "PYT019", value, f"the default of {one.arg} reads the variable {min(names)} when it is defined",
                    "give the value at the call instead",
                )  # fmt: skip
        return {one.arg: value for one, value in pairs}

    def _declare(self, one: ast.stmt) -> None:
        """Note the functions that a body defines, also inside its blocks."""
        for each in own_nodes(one):
            if isinstance(each, ast.AsyncFunctionDef):
                if each.decorator_list:
                    raise Refused("PYT024", each, "an async function takes no decorator here", "remove it")
                if each.name in self.local_helpers or each.name in self.local_definitions:
                    raise Refused("PYT010", each, f"{each.name} is defined twice", "give one another name")
                self._check_not_tool(each.name, each)
                self.local_helpers[each.name] = each
            elif isinstance(each, ast.FunctionDef):
                if isinstance(one, (ast.FunctionDef, ast.ClassDef)) and each is not one:
                    continue
                check_pure_function(each)
                self._check_not_tool(each.name, each)
                self.local_definitions[each.name] = each
            elif isinstance(each, ast.ClassDef):
                self.local_definitions[each.name] = each
                for base in each.bases:
                    name = (dotted(base) or "").split(".")[-1]
                    if self.program.exceptions.is_exception(name):
                        self.program.exceptions.own[each.name] = name
            elif isinstance(each, (ast.Global, ast.Nonlocal)):
                raise Refused(
                    "PYT017", each, f"{each.names[0]} is a variable of another function",
                    "return the new value, and assign it where the function is called",
                )  # fmt: skip
        self.bound -= set(self.local_helpers)
        is_lambda = isinstance(one, ast.Assign) and isinstance(one.value, ast.Lambda)
        if is_lambda and isinstance(one, ast.Assign) and len(one.targets) == 1:
            target = one.targets[0]
            if isinstance(target, ast.Name):
                self.local_definitions[target.id] = one

    def _check_not_tool(self, name: str, node: ast.AST) -> None:
        known = self.program.tools or {}
        if name in known or (name in self.program.bindings and self.program.tools is None):
            raise Refused(
                "PYT010", node, f"{name} is the name of a tool, and would hide it", "give it another name"
            )

    def definitions(self) -> Mapping[str, ast.stmt]:
        """The pure functions and classes of this function and those around it."""
        outer = {} if self.outer is None else self.outer.definitions()
        return {**outer, **self.local_definitions}

    def helper(self, name: str) -> ast.AsyncFunctionDef | None:
        """The async function of this name that can be called here."""
        if name in self.local_helpers:
            return self.local_helpers[name]
        if self.outer is not None:
            return self.outer.helper(name)
        return self.program.helpers.get(name)

    def add_helper(self, like: ast.AsyncFunctionDef, made: ast.AsyncFunctionDef) -> None:
        """Let a copy of an async function be called where that one can be."""
        if like in self.local_helpers.values():
            self.local_helpers[made.name] = made
        elif self.outer is not None:
            self.outer.add_helper(like, made)
        else:
            self.program.helpers[made.name] = made

    def is_variable(self, name: str) -> bool:
        """Whether a name is a variable of this function or of one around it."""
        if name in self.bound or (name in self.names.made and self.helper(name) is None):
            return True
        return self.outer is not None and self.outer.is_variable(name)

    # ------------------------------------------------------------ blocks and statements

    def block(self, body: Sequence[ast.stmt]) -> core.Block:
        """The statements of a block."""
        out: core.Block = []
        for one in body:
            self.statement(one, out)
            if isinstance(one, (ast.Return, ast.Break, ast.Continue, ast.Raise)):
                break
        return out

    def statement(self, node: ast.stmt, out: core.Block) -> None:  # noqa: PLR0912 - a case for each statement
        """Take one statement apart."""
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
                raise AssertionError
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
        if not waits(node) and not leaves(node) and not _only_raises(node) and not self.makes_calls(node):
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
                self._for(node, out)
            case ast.While():
                self._while(node, out)
            case ast.Break():
                flag = self.flags[-1] if self.flags else None
                if flag is not None:
                    out.append(assigned(flag, _constant(True, node), node))
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
                self._async_for(node, out)
            case _:
                raise Refused(
                    "PYT019", node, f"a statement of this kind ({type(node).__name__}) cannot await",
                    "await before it, and store the result in a variable",
                )  # fmt: skip

    def _expression(self, value: ast.expr, out: core.Block) -> None:
        if isinstance(value, ast.Await):
            self.await_(value, out, None)
            return
        made = self.value(value, out)
        if not isinstance(made, (ast.Name, ast.Constant)):
            self.check(made)
            out.append(core.Pure(_statement(made)))

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
            made = self.value(node.value, out)
            out.append(core.Pure(ast.copy_location(ast.AugAssign(target, node.op, made), node)))
            return
        holder = self.spilled(target.value, out)
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

    def _return(self, node: ast.Return, value: ast.expr | None, out: core.Block) -> None:
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            out.append(core.Return(None, node))
            return
        out.append(core.Return(self.value(value, out), node))

    def _raise(self, node: ast.Raise, out: core.Block) -> None:
        """`raise X(…)`, `raise` and `raise error`; a class with fields of its own is raised by pure code."""
        error = node.exc
        if self.keeps_errors and isinstance(error, ast.Name) and error.id in self.bound:
            out.append(core.Fail(None, None, node, error.id))
            return
        if error is None or (isinstance(error, ast.Name) and self._failure(error.id)):
            again = self._failure(error.id) if isinstance(error, ast.Name) else self._innermost()
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
                "PYT021", node, "what is raised is no exception that is known here",
                "raise a built-in exception, or a class of this file: class Refused(Exception): pass",
            )  # fmt: skip
        own = self.definitions().get(called) or self.program.definitions.get(called)
        plain = own is None or (isinstance(own, ast.ClassDef) and not _has_methods(own))
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
                message = only if called != "KeyError" else ast.copy_location(_call("repr", only), only)
                if not isinstance(message, (ast.JoinedStr, ast.Constant)) or called == "KeyError":
                    message = ast.copy_location(_call("str", message), only)
            out.append(core.Fail(message, kind_of(called), node))
            return
        if called == TOOL_ERROR:
            raise Refused("PYT021", node, "ToolError takes one message", 'write raise ToolError("…")')
        made = ast.copy_location(ast.Raise(error, None), node)
        out.append(core.Pure(made))

    def _failure(self, name: str) -> str | None:
        return next((held for known, held, _ in reversed(self.caught) if known == name), None)

    def _innermost(self) -> str | None:
        return self.caught[-1][1] if self.caught else None

    # ------------------------------------------------------------ loops

    def _for(self, node: ast.For, out: core.Block) -> None:
        as_completed = self.completed(node.iter)
        if as_completed is not None:
            node = self.over_results(node, as_completed, out)
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

    def _while(self, node: ast.While, out: core.Block) -> None:
        self._check_end(node)
        flag = self._flag(node, out)
        if waits(node.test) or self.needs_statements(node.test):
            inner: core.Block = []
            test = self.value(node.test, inner)
            negated = ast.copy_location(ast.UnaryOp(ast.Not(), test), node.test)
            inner.append(core.Choice(negated, [core.Break(node.test)], [], node.test))
            body = inner + self.block(node.body)
            made = core.While(_constant(True, node.test), body, node)
        else:
            test = self.value(node.test, out)
            made = core.While(test, self.block(node.body), node)
        self.flags.pop()
        out.append(made)
        self._else(node, flag, made, out)

    def _flag(self, node: ast.For | ast.While, out: core.Block) -> str | None:
        """The variable that tells whether a loop with an else was left by break."""
        flag = None
        if node.orelse:
            flag = self.names.fresh("left")
            out.append(assigned(flag, _constant(False, node), node))
        self.flags.append(flag)
        return flag

    def _else(self, node: ast.For | ast.While, flag: str | None, of: core.Core, out: core.Block) -> None:
        if flag is not None:
            test = ast.copy_location(ast.UnaryOp(ast.Not(), name_of(flag, node)), node)
            out.append(core.Choice(test, self.block(node.orelse), [], node.orelse[0], of))

    def _check_end(self, node: ast.While) -> None:
        """Raises Refused (PYT012) for a loop that nothing ends."""
        test = node.test
        if not isinstance(test, ast.Constant) or not test.value:
            return
        stack: list[tuple[ast.AST, bool]] = [(one, False) for one in node.body]
        while stack:
            one, inner = stack.pop()
            if isinstance(one, (ast.Return, ast.Raise)) or (isinstance(one, ast.Break) and not inner):
                return
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                continue
            inside = inner or isinstance(one, (ast.For, ast.While, ast.AsyncFor))
            stack.extend((each, inside) for each in children(one))
        raise Refused(
            "PYT012", node, "this loop has no end: nothing in it breaks, returns or raises",
            "say how often at most: for attempt in range(20): …, with a break when it is done",
        )  # fmt: skip

    def _async_for(self, node: ast.AsyncFor, out: core.Block) -> None:
        as_completed = self.completed(node.iter)
        if as_completed is None:
            raise Refused(
                "PYT019", node, "`async for` goes through something that awaits between its items",
                "call a tool for one page after another in a while loop",
            )  # fmt: skip
        made = ast.copy_location(ast.For(node.target, node.iter, node.body, node.orelse), node)
        self._for(made, out)

    # ------------------------------------------------------------ errors

    def _try(self, node: ast.Try, out: core.Block) -> None:
        for one in node.finalbody:
            if leaves(one):
                raise Refused(
                    "PYT018", one, "return, break or continue in finally would hide an error",
                    "set a variable in finally, and return after it",
                )  # fmt: skip
        body = self.block(node.body)
        final = self.block(node.finalbody) if node.finalbody else None
        if not node.orelse:
            handlers = [self._handler(one) for one in node.handlers]
            out.append(core.Attempt(body, handlers, final, node))
            return
        flag = self.names.fresh("done")
        body.append(assigned(flag, _constant(True, node), node))
        rest = self.block(node.orelse)
        made = core.Attempt(body, [self._handler(one) for one in node.handlers], None, node)
        after = core.Choice(name_of(flag, node), rest, [], node.orelse[0], made)
        inner: core.Block = [assigned(flag, _constant(False, node), node), made, after]
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
                        "PYT021", one, "what is caught is no exception that is known here",
                        "name a built-in exception, ToolError, or a class of this file",
                    )  # fmt: skip
                names.append(name)
            kinds = self.program.exceptions.caught(names)
        binds = self.names.fresh("error")
        name = node.name or ""
        self.caught.append((name, binds, kinds))
        body = self.block(node.body)
        self.caught.pop()
        return core.Caught(kinds, binds, body, node)

    def without_failures(self, node: ast.stmt) -> ast.stmt:
        """The statement, with what it says of caught errors as fields of their failures."""
        if not self._needs_replacing(node):
            return node
        return cast("ast.stmt", _Failures(self).visit(copy.deepcopy(node)))

    def replaced(self, node: ast.expr) -> ast.expr:
        """The same for an expression."""
        if not self._needs_replacing(node):
            return node
        return cast("ast.expr", _Failures(self).visit(copy.deepcopy(node)))

    def _needs_replacing(self, node: ast.AST) -> bool:
        if self.results or self.keeps_errors:
            return True
        names = {name for name, _, _ in self.caught if name}
        return bool(names) and any(isinstance(one, ast.Name) and one.id in names for one in walk(node))

    # ------------------------------------------------------------ match and with

    def _match(self, node: ast.Match, out: core.Block) -> None:
        """A match whose cases await: pure code finds the case, then its block follows."""
        subject = self.spilled(node.subject, out)
        if not isinstance(subject, ast.Name):
            held = self.names.fresh("subject")
            out.append(assigned(held, subject, node.subject))
            subject = name_of(held, node.subject)
        if all(_is_value(each.pattern) and not (each.guard and waits(each.guard)) for each in node.cases):
            self._cases(node.cases, subject, node, out)
            return
        chosen = self.names.fresh("case")
        cases: list[ast.match_case] = []
        bodies: list[core.Block] = []
        start: list[core.Core] = [assigned(chosen, _constant(-1, node), node)]
        for number, each in enumerate(node.cases):
            if each.guard is not None and waits(each.guard):
                raise Refused("PYT019", each.guard, "the guard of a case awaits", "await before the match")
            renamed = _Renaming({})
            for name in sorted(names_bound(each.pattern)):
                renamed.names[name] = self.names.fresh(name)
                start.append(assigned(renamed.names[name], _constant(None, node), node))
            pattern = cast("ast.pattern", renamed.visit(copy.deepcopy(each.pattern)))
            guard = None
            if each.guard is not None:
                guard = cast("ast.expr", renamed.visit(copy.deepcopy(each.guard)))
                self.check(guard)
            cases.append(
                ast.match_case(pattern, guard, [assigned(chosen, _constant(number, node), node).stmt])
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
            test = ast.Compare(name_of(chosen, node), [ast.Eq()], [_constant(number, node)])
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
        test = _value_test(first.pattern, subject)
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
            if isinstance(held, ast.Call) and self.program.resolved(held.func) == "asyncio.timeout":
                self.warn_of_timeout(held)
                continue
            raise Refused(
                "PYT019", held, "a plan has no such context around calls",
                "take the body out of the `with`; of contexts that await, a Semaphore and a TaskGroup are understood",
            )  # fmt: skip
        out += self.block(node.body)

    def known_semaphores(self) -> dict[str, int | None]:
        """The semaphores of this function and those around it, with their numbers."""
        outer = {} if self.outer is None else self.outer.known_semaphores()
        return {**outer, **self.semaphores}

    # ------------------------------------------------------------ expressions

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
                return self._ordered(node, out)

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

    def _ordered(self, node: ast.expr, out: core.Block) -> ast.expr:
        """An expression whose parts are all evaluated, in order: those before the last await are kept."""
        made = copy.copy(node)
        slots = list(_slots(made))
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
                if not isinstance(new, (ast.Name, ast.Constant, ast.Slice)):
                    new = self._kept(new, part, out)
            _put(made, holder, place, new)
        self.check_call(made)
        return made

    def _kept(self, value: ast.expr, place: ast.expr, out: core.Block) -> ast.Name:
        held = self.names.fresh("value")
        out.append(assigned(held, value, place))
        return name_of(held, place)

    def comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, out: core.Block
    ) -> ast.expr:
        """A comprehension that awaits: a loop, unless only what it goes through is awaited."""
        first, *others = node.generators
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        inner = [*parts, *first.ifs, *(each for one in others for each in (one.iter, *one.ifs))]
        if any(one.is_async for one in node.generators):
            raise Refused("PYT019", node, "`async for` goes through something that awaits between its items",
                          "call a tool for one page after another in a while loop")  # fmt: skip
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
                "PYT013", node, "a generator that awaits gives nothing to sum, any, all, join or list: they cannot wait",
                "write a list: [await f(x) for x in xs], or a loop that stops with break",
            )  # fmt: skip
        element: ast.expr
        if isinstance(node, ast.DictComp):
            element = ast.copy_location(ast.Tuple([node.key, node.value], ast.Load()), node.key)
        else:
            element = node.elt
        held = self._clauses(node.generators, element, out)
        if isinstance(node, ast.ListComp):
            return name_of(held, node)
        function = "set" if isinstance(node, ast.SetComp) else "dict"
        return ast.copy_location(_call(function, name_of(held, node)), node)

    def _clauses(self, clauses: Sequence[ast.comprehension], element: ast.expr, out: core.Block) -> str:
        """A list of what the element is for each item; the names of the clauses get new ones."""
        clause, *more = clauses
        renamed = _Renaming({})
        for name in sorted(names_bound(clause.target)):
            renamed.names[name] = self.names.fresh(name)
            self.bound.add(renamed.names[name])
        source = self.value(clause.iter, out)

        def rename(part: ast.expr) -> ast.expr:
            return cast("ast.expr", renamed.visit(copy.deepcopy(part)))

        target = rename(clause.target)
        body: core.Block = []
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
        out.append(core.Loop(item, source, body, element, into=held))
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

    # ------------------------------------------------------------ remarks, and what pure code may not say

    def is_remark(self, call: ast.Call) -> bool:
        """Whether a call prints or logs."""
        name = dotted(call.func) or ""
        if name in _PRINTS and not self.is_variable(name) and name not in self.program.definitions:
            return True
        first, _, last = name.rpartition(".")
        if last not in _LOGS or not first:
            return False
        if (self.program.modules.get(first) or "") == "logging":
            return True
        made = self.program.definitions.get(first)
        value = made.value if isinstance(made, (ast.Assign, ast.AnnAssign)) else None
        return isinstance(value, ast.Call) and self.program.resolved(value.func) == "logging.getLogger"

    def _remark(self, call: ast.Call, out: core.Block) -> ast.expr:
        parts: list[ast.expr] = []
        for number, one in enumerate(call.args):
            if number:
                parts.append(_constant(" ", call))
            inner = one.value if isinstance(one, ast.Starred) else one
            made = self.value(inner, out)
            if isinstance(made, ast.JoinedStr):
                parts += made.values
            elif isinstance(made, ast.Constant) and isinstance(made.value, str):
                parts.append(made)
            else:
                parts.append(ast.copy_location(ast.FormattedValue(made, -1, None), one))
        return ast.copy_location(ast.JoinedStr(parts), call)

    def needs_statements(self, node: ast.expr) -> bool:
        """Whether an expression binds names, as `while page := …` does."""
        return any(isinstance(one, ast.NamedExpr) for one in own_nodes(node))

    def check(self, root: ast.AST) -> None:
        """Raises Refused for what pure code may not say."""
        inner = _bound_inside(root)
        for node in walk(root):
            if isinstance(node, ast.Call):
                if not (isinstance(node.func, ast.Name) and node.func.id in inner):
                    self.check_call(node)
            elif isinstance(node, ast.Attribute):
                self._check_attribute(node)
            elif isinstance(node, (ast.Yield, ast.YieldFrom)):
                self._check_yield(root, node)
        called = {id(node.func) for node in walk(root) if isinstance(node, ast.Call)}
        for name, node in _loads(root):
            if name != "getattr" or id(node) not in called:
                self.check_name(name, node, inner)

    def _check_yield(self, root: ast.AST, node: ast.AST) -> None:
        if isinstance(root, (ast.FunctionDef, ast.ClassDef)):
            return
        if any(isinstance(one, ast.FunctionDef) for one in walk(root)):
            return
        raise Refused("PYT019", node, "a plan yields nothing", "append to a list, and return it")

    def _check_attribute(self, node: ast.Attribute) -> None:
        name = node.attr
        if name in _FRAMES or name.startswith(
            ("gi_", "cr_", "tb_", "f_globals", "f_locals", "f_back", "co_")
        ):
            raise Refused(
                "PYT025", node, f"{name} reaches behind the values of the plan", "use a field or a function"
            )
        if name.startswith("__") and name.endswith("__") and name not in {"__name__", "__init__"}:
            raise Refused(
                "PYT025", node, f"{name} reaches behind the values of the plan", "use a field or a function"
            )
        if name == "__name__" and not (
            isinstance(node.value, ast.Call) and dotted(node.value.func) == "type"
        ):
            raise Refused("PYT025", node, "__name__ is understood of type(x) only", "write type(x).__name__")

    def check_call(self, node: ast.AST) -> None:
        """Raises Refused for a call of a tool without await, and of what a plan may not call."""
        if not isinstance(node, ast.Call):
            return
        resolved = self.program.resolved(node.func)
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in _TEMPLATES and resolved is None:
            if not isinstance(func.value, ast.Constant) and not self._is_constant(func.value):
                raise Refused(
                    "PYT025", node, "a template that is not written here can read any attribute of what it is given",
                    'write an f-string, or replace the parts: text.replace("{name}", name)',
                )  # fmt: skip
        if resolved in {"operator.attrgetter", "operator.methodcaller"} and not (
            node.args
            and isinstance(node.args[0], ast.Constant)
            and not str(node.args[0].value).startswith("_")
        ):
            raise Refused("PYT006", node, f"{resolved} takes its name from data", "write lambda x: x.name")
        if isinstance(func, ast.Name) and func.id == "type" and len(node.args) > 1:
            raise Refused("PYT006", node, "type makes a class of data", "write class")
        if resolved in _WALL_CLOCKS:
            rewrite = (
                "await asyncio.sleep(seconds): a timer" if resolved == "time.sleep" else "datetime.now()"
            )
            raise Refused("PYT023", node, f"{resolved} is no part of a plan", f"write {rewrite}")
        if resolved is not None and resolved.startswith("asyncio."):
            part = resolved.removeprefix("asyncio.")
            if part in {"create_task", "ensure_future"}:
                raise Refused(
                    "PYT020", node, "a task is started here, and awaited somewhere else",
                    "await what runs side by side in one place:"
                    " results = dict(zip(keys, await asyncio.gather(*[f(k) for k in keys])))",
                )  # fmt: skip
            if part in {"Semaphore", "Lock", "BoundedSemaphore"}:
                raise Refused(
                    "PYT020", node, f"asyncio.{part} stands where it is not understood",
                    "assign it to a variable before its use: limit = asyncio.Semaphore(5)",
                )  # fmt: skip
            raise Refused(
                "PYT007",
                node,
                f"{resolved} is not awaited here",
                "write await before it, where its result is used",
            )
        if isinstance(node.func, ast.Name):
            self._check_called(node, node.func.id)

    def _is_constant(self, node: ast.expr) -> bool:
        """Whether a name stands for a text of the file."""
        if not isinstance(node, ast.Name) or self.is_variable(node.id):
            return False
        found = self.program.definitions.get(node.id)
        return isinstance(found, ast.Assign) and isinstance(found.value, ast.Constant)

    def _check_called(self, node: ast.Call, name: str) -> None:
        if self.is_variable(name) or name in self.definitions() or name in self.program.definitions:
            return
        if self.helper(name) is not None:
            raise Refused(
                "PYT007", node, f"{name} is an async function, and is not awaited: nothing in it would happen",
                f"write await {name}(…)",
            )  # fmt: skip
        if name == "getattr":
            literal = (
                len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and str(node.args[1].value)
            )
            if not literal or str(literal).startswith("_"):
                raise Refused(
                    "PYT006", node, "getattr takes the name of the field from data",
                    'write the field: x.name, or x["name"] of a record',
                )  # fmt: skip
            return
        if name == "super" or not self.program.is_tool(name):
            return
        if (
            self.program.tools is not None
            and name not in self.program.tools
            and name not in self.program.bindings
        ):
            self.program.check_tool(name, node)
        raise Refused(
            "PYT007",
            node,
            f"the tool {name} is not awaited: it would never be called",
            f"write await {name}(…)",
        )

    def check_name(self, name: str, node: ast.AST, inner: set[str]) -> None:
        """Raises Refused for a name that a plan may not use, or that is a tool."""
        if name in inner or self.is_variable(name):
            return
        if name in FORBIDDEN and name not in self.program.definitions:
            raise Refused("PYT006", node, f"a plan does not use {name}", FORBIDDEN[name])
        if name in self.known_semaphores() or name in self.definitions():
            return
        if self.helper(name) is not None or self.program.is_tool(name):
            known = self.program.tools
            if known is not None and name not in known and self.helper(name) is None:
                raise Refused(
                    "PYT008", node, f"nothing here is called {name}", "define it, or import it at the top"
                )
            raise Refused(
                "PYT011", node, f"{name} calls tools, and is used as a value here",
                f"call it where it is needed: await {name}(…); to choose one of several, write an if",
            )  # fmt: skip


class _Failures(ast.NodeTransformer):
    """What is said of a caught error, as fields of its failure."""

    def __init__(self, of: Translator) -> None:
        self.of = of

    def _field(self, held: str, field: str, node: ast.AST) -> ast.expr:
        made = ast.Subscript(ast.Name(held, ast.Load()), ast.Constant(field), ast.Load())
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def _held(self, node: ast.AST) -> str | None:
        return self.of._failure(node.id) if isinstance(node, ast.Name) else None  # noqa: SLF001

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = dotted(node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "result" and not node.args:
            return self.visit(node.func.value)
        held = self._held(node.args[0]) if len(node.args) >= 1 else None
        if held is not None and name == "str":
            return self._field(held, "message", node)
        if held is not None and name == "repr":
            return self._repr(held, node)
        if held is not None and name == "isinstance" and len(node.args) == 2:
            listed = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            names = [(dotted(one) or "").split(".")[-1] for one in listed]
            if all(self.of.program.exceptions.is_exception(one) for one in names):
                kinds = self.of.program.exceptions.caught(names)
                if not kinds:
                    return ast.copy_location(ast.Constant(True), node)
                among = ast.Tuple([ast.Constant(one) for one in kinds], ast.Load())
                test = ast.Compare(self._field(held, "kind", node), [ast.In()], [among])
                return ast.fix_missing_locations(ast.copy_location(test, node))
        if self.of.keeps_errors and node.args:
            made = self._of_result(node, name)
            if made is not None:
                return made
        if isinstance(node.func, ast.Attribute) and node.func.attr in {"print_exc", "format_exc"}:
            raise Refused("PYT021", node, "a plan has no traceback", "use str(error)")
        return self.generic_visit(node)

    def _of_result(self, node: ast.Call, name: str | None) -> ast.expr | None:
        """What is asked of a value that may be an error among results."""
        value = node.args[0]
        if not isinstance(value, (ast.Name, ast.Subscript)):
            return None
        if name == "isinstance" and len(node.args) == 2:
            listed = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            names = [(dotted(one) or "").split(".")[-1] for one in listed]
            if not all(self.of.program.exceptions.is_exception(one) for one in names):
                if "dict" in names:
                    both: list[ast.expr] = [node, ast.UnaryOp(ast.Not(), self._marked(value))]
                    return ast.fix_missing_locations(ast.copy_location(ast.BoolOp(ast.And(), both), node))
                return None
            test: ast.expr = self._marked(value)
            kinds = self.of.program.exceptions.caught(names)
            if kinds:
                among = ast.Tuple([ast.Constant(one) for one in kinds], ast.Load())
                kind = ast.Subscript(value, ast.Constant("kind"), ast.Load())
                test = ast.BoolOp(ast.And(), [test, ast.Compare(kind, [ast.In()], [among])])
            return ast.fix_missing_locations(ast.copy_location(test, node))
        if name == "str" and len(node.args) == 1:
            return self._message(value, node)
        return None

    def _marked(self, value: ast.expr) -> ast.expr:
        is_dict = ast.Call(ast.Name("isinstance", ast.Load()), [value, ast.Name("dict", ast.Load())], [])
        return ast.BoolOp(ast.And(), [is_dict, ast.Compare(ast.Constant(MARK), [ast.In()], [value])])

    def _message(self, value: ast.expr, otherwise: ast.expr) -> ast.expr:
        field = ast.Subscript(value, ast.Constant("message"), ast.Load())
        made = ast.IfExp(self._marked(value), field, otherwise)
        return ast.fix_missing_locations(ast.copy_location(made, value))

    def _repr(self, held: str, node: ast.AST) -> ast.expr:
        parts: list[ast.expr] = [
            ast.FormattedValue(self._type(held, node), -1, None),
            ast.Constant("("),
            ast.FormattedValue(self._field(held, "message", node), ord("r"), None),
            ast.Constant(")"),
        ]
        return ast.fix_missing_locations(ast.copy_location(ast.JoinedStr(parts), node))

    def _type(self, held: str, node: ast.AST) -> ast.expr:
        kinds = next(kinds for _, name, kinds in self.of.caught if name == held)
        known_names = {one: exception_name(one) for one in kinds or FAILURE_KINDS}
        if len(set(known_names.values())) == 1:
            return ast.copy_location(ast.Constant(next(iter(known_names.values()))), node)
        table = {one: name for one, name in known_names.items() if one != name}
        if not table:
            return self._field(held, "kind", node)
        kind = self._field(held, "kind", node)
        known = ast.Dict([ast.Constant(one) for one in table], [ast.Constant(one) for one in table.values()])
        made = ast.Call(ast.Attribute(known, "get", ast.Load()), [kind, kind], [])
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        held = self._held(node.value)
        if held is not None:
            field: ast.expr = self._field(held, "message", node)
            if node.conversion == ord("r"):
                field = self._repr(held, node)
            return ast.copy_location(ast.FormattedValue(field, -1, node.format_spec), node)
        if self.of.keeps_errors and isinstance(node.value, ast.Name) and node.conversion == -1:
            return ast.copy_location(
                ast.FormattedValue(self._message(node.value, node.value), -1, node.format_spec), node
            )
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        value = node.value
        if isinstance(value, ast.Attribute) and value.attr == "args":
            held = self._held(value.value)
            if held is not None and isinstance(node.slice, ast.Constant) and node.slice.value == 0:
                return self._field(held, "message", node)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if node.attr == "__name__":
            value = node.value
            if isinstance(value, ast.Call) and dotted(value.func) == "type" and len(value.args) == 1:
                held = self._held(value.args[0])
                if held is not None:
                    return self._type(held, node)
            if isinstance(value, ast.Attribute) and value.attr == "__class__":
                held = self._held(value.value)
                if held is not None:
                    return self._type(held, node)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load) and node.id in self.of.results:
            return ast.copy_location(ast.Name(self.of.results[node.id], ast.Load()), node)
        if isinstance(node.ctx, ast.Load) and self._held(node) is not None:
            raise Refused(
                "PYT021", node, f"the error {node.id} itself is used as a value",
                f"use str({node.id}), type({node.id}).__name__ or isinstance({node.id}, …)",
            )  # fmt: skip
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if node.cause is not None:
            node.cause = None
        return self.generic_visit(node)


class _Renaming(ast.NodeTransformer):
    """Gives names other ones."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_MatchAs(self, node: ast.MatchAs) -> ast.AST:
        node.name = self.names.get(node.name, node.name) if node.name else None
        return self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> ast.AST:
        node.name = self.names.get(node.name, node.name) if node.name else None
        return node

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        node.rest = self.names.get(node.rest, node.rest) if node.rest else None
        return self.generic_visit(node)


def _constant(value: object, place: ast.AST) -> ast.Constant:
    return ast.copy_location(ast.Constant(cast("str", value)), place)


def _call(function: str, *arguments: ast.expr) -> ast.Call:
    made = ast.Call(ast.Name(function, ast.Load()), list(arguments), [])
    return ast.fix_missing_locations(ast.copy_location(made, arguments[0]))


def _statement(value: ast.expr) -> ast.stmt:
    return ast.copy_location(ast.Expr(value), value)


def _has_methods(one: ast.ClassDef) -> bool:
    return any(not isinstance(each, (ast.Pass, ast.Expr)) for each in one.body)


def _only_raises(node: ast.stmt) -> bool:
    """Whether a statement is `if …: raise …`, which a plan can say itself."""
    return isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ast.Raise)


def _is_value(pattern: ast.pattern) -> bool:
    match pattern:
        case ast.MatchValue(value=ast.Constant()) | ast.MatchSingleton():
            return True
        case ast.MatchAs(pattern=None, name=None):
            return True
        case ast.MatchOr(patterns=patterns):
            return all(map(_is_value, patterns))
        case _:
            return False


def _value_test(pattern: ast.pattern, subject: ast.expr) -> ast.expr | None:
    """The test of a pattern of plain values; None for one that takes all."""
    match pattern:
        case ast.MatchValue(value=value):
            return ast.Compare(subject, [ast.Eq()], [value])
        case ast.MatchSingleton(value=value):
            return ast.Compare(subject, [ast.Is()], [ast.Constant(value)])
        case ast.MatchOr(patterns=patterns):
            tests = [_value_test(one, subject) for one in patterns]
            known = [one for one in tests if one is not None]
            return None if len(known) < len(tests) else ast.BoolOp(ast.Or(), known)
        case _:
            return None


def _slots(node: ast.AST) -> Iterator[tuple[ast.expr, str, int]]:
    """The parts of an expression in the order of their evaluation, each with where it stands."""
    if isinstance(node, ast.Dict):
        for number, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            if key is not None:
                yield key, "keys", number
            yield value, "values", number
        node.keys, node.values = list(node.keys), list(node.values)
        return
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            node.func = copy.copy(node.func)
            yield node.func.value, "func.value", -1
        elif not isinstance(node.func, ast.Name):
            yield node.func, "func", -1
        node.args = list(node.args)
        for number, one in enumerate(node.args):
            yield one, "args", number
        node.keywords = [copy.copy(one) for one in node.keywords]
        for number, one in enumerate(node.keywords):
            yield one.value, "keywords", number
        return
    for field, held in ast.iter_fields(node):
        if isinstance(held, ast.expr):
            yield held, field, -1
        elif isinstance(held, list):
            values = cast("list[ast.AST]", held)
            setattr(node, field, list(values))
            for number, one in enumerate(values):
                if isinstance(one, ast.expr):
                    yield one, field, number


def _put(node: ast.expr, field: str, number: int, value: ast.expr) -> None:
    if field == "func.value":
        cast("ast.Attribute", cast("ast.Call", node).func).value = value
    elif field == "keywords":
        cast("ast.Call", node).keywords[number].value = value
    elif number < 0:
        setattr(node, field, value)
    else:
        getattr(node, field)[number] = value


def _bound_inside(root: ast.AST) -> set[str]:
    """The names that functions, lambdas and comprehensions inside bind for themselves."""
    found: set[str] = set()
    for node in walk(root):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            found |= {one.arg for one in parameters_of(node.args)}
            if isinstance(node, ast.FunctionDef):
                found |= names_bound(*node.body)
        elif isinstance(node, _EXPRESSION_LISTS):
            for one in node.generators:
                found |= names_bound(one.target)
        elif isinstance(node, ast.ClassDef):
            found |= names_bound(*node.body)
        elif isinstance(node, ast.match_case):
            found |= names_bound(node.pattern)
    return found


def _loads(root: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    annotations: set[int] = set()
    for node in walk(root):
        for field in ("annotation", "returns"):
            held = getattr(node, field, None)
            if isinstance(held, ast.AST):
                annotations |= {id(one) for one in walk(held)}
    for node in walk(root):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in annotations:
            yield node.id, node
