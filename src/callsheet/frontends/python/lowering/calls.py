"""Calls that are awaited: which tool or function, and its arguments in order."""

from __future__ import annotations

import ast
import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, cast

from callsheet.diagnostics import did_you_mean
from callsheet.frontends.python import core
from callsheet.frontends.python.error_values import keeps
from callsheet.frontends.python.lowering.callbacks import Known, specialised, takes_functions
from callsheet.frontends.python.lowering.spread_calls import SpreadCalls
from callsheet.frontends.python.program import IN_SCOPE
from callsheet.frontends.python.source import (
    Refused,
    dotted,
    given_by_default,
    names_bound,
    own_nodes,
    parameters_of,
    said,
    waits,
)
from callsheet.frontends.python.syntax import assigned, functions_in, is_plain, named_functions, none, parsed
from callsheet.ir.own_budgets import COST, TOKENS

_GATHER: Final = "asyncio.gather"
STARTS: Final = frozenset({"asyncio.create_task", "asyncio.ensure_future", "asyncio.shield"})
FORMS: Final = (
    "await asyncio.gather(*[f(x) for x in xs]), or asyncio.gather(f(a), g(b)), with calls of "
    "tools or async functions"
)


class Calls(SpreadCalls, ABC):
    """The part of a translator that takes calls apart."""

    @abstractmethod
    def value(self, node: ast.expr, out: core.Block) -> ast.expr:
        """The expression without its awaits, which go into `out` before it."""

    @abstractmethod
    def ordered(self, node: ast.expr, out: core.Block) -> ast.expr:
        """An expression whose parts are all evaluated, in order: those before the last await are kept."""

    @abstractmethod
    def statement(self, node: ast.stmt, out: core.Block) -> None:
        """Take one statement apart."""

    @abstractmethod
    def block(self, body: Sequence[ast.stmt]) -> core.Block:
        """The statements of a block."""

    @abstractmethod
    def gather(self, call: ast.Call, node: ast.AST, out: core.Block, into: str | None) -> ast.expr:
        """Calls side by side."""

    def is_chosen(self, func: ast.expr) -> bool:
        """Whether what is called is looked up in a table, or is a variable."""
        if not self.choices and not self.program.choices:
            return bool(self._functions_in(func)) and not isinstance(func, ast.Name)
        if isinstance(func, ast.Name):
            return self.is_variable(func.id) and self.helper(func.id) is None
        if isinstance(func, ast.Call):
            return isinstance(func.func, ast.Attribute) and func.func.attr == "get"
        return isinstance(func, (ast.Subscript, ast.IfExp))

    def chosen(self, call: ast.Call, node: ast.Await, out: core.Block, into: str | None) -> ast.expr:
        """`await actions[name](…)`: the call of each function that may be meant, and a condition for each."""
        shape = copy.copy(call)
        func = call.func
        named = self._functions_in(func)
        if named:
            self.choices |= dict.fromkeys(named)
            func = named_functions(func)
        chosen = self.spilled(func, out)
        shape.args = [self.kept_plain(one, out) for one in call.args]
        shape.keywords = [
            ast.copy_location(ast.keyword(one.arg, self.kept_plain(one.value, out)), one)
            for one in call.keywords
        ]
        name = None if into is None else (into or self.new_name("result"))
        message = ast.copy_location(ast.Constant("what is called here is no function"), call)
        rest: core.Block = [core.Fail(message, "TYPE", call)]
        for one in reversed([*self.program.choices, *self.choices]):
            inner: core.Block = []
            made = copy.copy(shape)
            made.func = ast.copy_location(ast.Name(one, ast.Load()), call.func)
            if not self.spread_call(made, inner, name):
                inner.append(self.member(made, inner, name))
            test = ast.Compare(chosen, [ast.Eq()], [ast.Constant(one)])
            ast.fix_missing_locations(ast.copy_location(test, call))
            rest = [core.Choice(test, inner, rest, call)]
        out += rest
        if name is None:
            return none(node)
        self.bound.add(name)
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def _functions_in(self, value: ast.expr) -> list[str]:
        """The functions of a table, or of a choice; a tool is in tables alone."""
        found = functions_in(value, self.is_function)
        is_plain = isinstance(value, (ast.Name, ast.IfExp))
        return [] if is_plain and any(self.helper(one) is None for one in found) else found

    def with_choices(self, node: ast.stmt) -> ast.stmt:
        """Assignments of a literal table of functions, or of one of several, with names in their places.

        In a statement that awaits, those that it is taken apart into come here one by one.
        """
        if isinstance(node, (ast.If, ast.For, ast.While, ast.Try, ast.Match)) and not waits(node):
            if not any(self._chooses(one) for one in own_nodes(node)):
                return node
            made = copy.deepcopy(node)
            for one in own_nodes(made):
                if isinstance(one, (ast.Assign, ast.AnnAssign)) and self._chooses(one):
                    one.value = cast("ast.Assign", self.with_choices(one)).value
            return made
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            return node
        found = self._functions_in(node.value)
        if not found:
            return node
        self.choices |= dict.fromkeys(found)
        self.holders |= names_bound(node)
        made = copy.copy(node)
        made.value = named_functions(node.value)
        return made

    def _chooses(self, one: ast.AST) -> bool:
        match one:
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                return bool(self._functions_in(value))
            case _:
                return False

    def member(self, call: ast.expr, out: core.Block, into: str | None) -> core.Core:
        """What awaiting this does, its arguments evaluated; nothing is appended for the call itself."""
        if not isinstance(call, ast.Call):
            raise Refused("PYT020", call, "this is no call that could be awaited", f"write {FORMS}")
        resolved = self.program.resolved(call.func) or ""
        if resolved == "asyncio.sleep":
            return self._timer(call, out, into)
        if resolved in STARTS and call.args:
            return self.member(call.args[0], out, into)
        if resolved == "asyncio.wait_for" and call.args:
            self.check_shield(call.args[0])
            return self.awaited_for(call, [self.member(call.args[0], out, into)], self.time_of(call, out))
        if resolved == _GATHER:
            inner: core.Block = []
            made = self.gather(call, call, inner, into)
            is_kept = into is None or (isinstance(made, ast.Name) and made.id == into)
            if is_kept and len(inner) == 1:
                return inner[0]
            raise Refused(
                "PYT020", call, "a gather inside a gather", "write an async function for the inner one"
            )
        call = self.with_functions(call)
        callee, is_helper = self.callee(call)
        arguments = self.arguments(call, callee, is_helper=is_helper, out=out)
        return core.Call(into, callee, self.helper(callee) if is_helper else None, arguments, call)

    def _timer(self, call: ast.Call, out: core.Block, into: str | None) -> core.Wait:
        """`asyncio.sleep(seconds, result)`; the result is there when the timer starts."""
        given = {one.arg: one.value for one in call.keywords}
        given |= dict(zip(("delay", "result"), call.args, strict=False))
        delay, result = given.pop("delay", None), given.pop("result", None)
        if delay is None or given or len(call.args) > 2:
            told = "sleep takes the seconds, and a result"
            raise Refused("PYT020", call, told, "write await asyncio.sleep(5)")
        seconds = self.value(delay, out)
        if into:
            made = self.value(result, out) if result is not None else none(call)
            out.append(assigned(into, made, call))
        if any(isinstance(one, (ast.Sub, ast.USub)) for one in ast.walk(seconds)):  # less than 0 is no wait
            seconds = parsed(f"max({ast.unparse(seconds)}, 0)", call)
        return core.Wait(seconds, call)

    def time_of(self, call: ast.Call, out: core.Block) -> ast.expr | None:
        """The seconds that `wait_for(…)` gives what it waits for, None for any time."""
        given = {one.arg: one.value for one in call.keywords}
        seconds = call.args[1] if len(call.args) > 1 else given.get("timeout")
        if seconds is None or (isinstance(seconds, ast.Constant) and seconds.value is None):
            return None
        return self.value(seconds, out)

    @staticmethod
    def limited(block: core.Block, seconds: ast.expr | None, node: ast.AST) -> core.Core:
        """A block of one statement, or one that may take so many seconds."""
        if seconds is None and len(block) == 1:
            return block[0]
        return core.Attempt(block, [], None, node, within=seconds)

    def check_shield(self, node: ast.expr) -> None:
        """Raises Refused (PYT020) for an async function that would go on behind its time limit."""
        match node:
            case ast.Call(func=func, args=[ast.Call(func=ast.Name(id=name))]) if (
                self.program.resolved(func) == "asyncio.shield" and self.helper(name) is not None
            ):
                raise Refused(
                    "PYT020",
                    node,
                    f"{name} would go on beside what follows its time limit",
                    "leave out shield: a call of a tool that is under way is awaited anyway, and then"
                    f" {name} stops",
                )
            case _:
                pass

    def awaited_for(self, call: ast.AST, block: core.Block, seconds: ast.expr | None) -> core.Core:
        """What `wait_for(…, seconds)` waits for: nothing is begun where there is no time left."""
        message = ast.copy_location(ast.Constant("there is no time left"), call)
        if seconds is None or _is_positive(self.fixed_number(seconds)):
            return self.limited(block, seconds, call)
        test = parsed(f"{ast.unparse(seconds)} <= 0", call)
        if isinstance(seconds, ast.Name):  # whose value may be None
            test = parsed(f"{seconds.id} is not None and {seconds.id} <= 0", call)
        late: core.Block = [core.Fail(message, "TIMEOUT", call)]
        return self.limited([core.Choice(test, late, [], call), *block], seconds, call)

    def fixed_number(self, value: ast.expr) -> object:
        """The number that an expression is before the run, if that is known."""
        if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
            number = self.fixed_number(value.operand)
            return -number if isinstance(number, (int, float)) else None
        if isinstance(value, ast.Name) and not self.is_variable(value.id):
            made = self.program.definitions.get(value.id)
            value = made.value if isinstance(made, (ast.Assign, ast.AnnAssign)) and made.value else value
        return value.value if isinstance(value, ast.Constant) else None

    @staticmethod
    def late_timeout(
        node: ast.AST, which: str = "tasks have run to their end where they are started"
    ) -> Refused:
        """Why a time-out that comes after what it is to stop cannot be kept."""
        return Refused(
            "PYT101",
            node,
            f"the time-out comes too late: {which}",
            "put the time around the calls: await asyncio.wait_for(f(x), 5); or start the tasks right before"
            " asyncio.wait(tasks, timeout=5), and cancel those that are pending right behind it",
        )

    def with_functions(self, call: ast.Call) -> ast.Call:
        """A call that gives a function what to call, as a call of a copy of that function."""
        if not isinstance(call.func, ast.Name):
            return call
        found = self.helper(call.func.id)
        known = Known(self.is_function, self.is_pure_function, self.is_variable)
        if found is None or not takes_functions(call, found, known):
            return call
        made, again = specialised(call, found, known, self.names.fresh)
        self.add_copy(found, call, made)
        return again

    def _is_named_like(self, name: str) -> bool:
        """Whether a variable has the name of the function whose result it is set to."""
        return any(
            isinstance(one, ast.Assign)
            and isinstance(one.value, ast.Await)
            and isinstance(one.value.value, ast.Call)
            and dotted(one.value.value.func) == name
            and name in names_bound(*one.targets)
            for one in own_nodes(*self.function.body)
        )

    def callee(self, call: ast.Call) -> tuple[str, bool]:
        """The name of the function that a call awaits, and whether it is one of the program's."""
        func = call.func
        is_looked_up = isinstance(func, ast.Call) and isinstance(func.func, ast.Attribute)
        if is_looked_up or isinstance(func, ast.Subscript):
            raise Refused(
                "PYT011",
                func,
                "which tool is called is looked up when the plan runs",
                "write an if for each of the tools, so that all of them can be checked",
            )
        if isinstance(func, ast.Attribute):
            path = dotted(func)
            first = (path or "").split(".")[0]
            resolved = self.program.resolved(func)
            if resolved is not None:
                raise Refused("PYT020", call, f"{resolved} is not understood here", f"write {FORMS}")
            if path is None or self.is_variable(first):
                raise Refused(
                    "PYT011",
                    func,
                    "a method of a value is awaited; tools are called by their names",
                    "await the tool itself: await tool_name(…)",
                )
            known = self.program.tools
            name = path.replace(".", "__")
            if known is not None and name not in known:
                name = func.attr if func.attr in known else name
            self.program.check_tool(name, call)
            return name, False
        if not isinstance(func, ast.Name):
            raise Refused("PYT011", func, "what is called here is computed", "call a tool by its name")
        name = func.id
        if self.helper(name) is not None:
            return name, True
        if self.is_variable(name) and (
            name in (self.program.tools or self.program.bindings) or self._is_named_like(name)
        ):
            raise Refused(
                "PYT010",
                func,
                f"the variable {name} hides the tool {name}: Python would not find the tool here",
                f"give the variable another name, here and below: {name}_result = await {name}(…)",
            )
        if self.is_variable(name):
            raise Refused(
                "PYT011",
                func,
                f"{name} is a variable: which tool it calls is not known before the run",
                "call the tools by their names, with an if for each",
            )
        if name in self.definitions() or name in self.program.definitions:
            raise Refused(
                "PYT013",
                call,
                f"{name} is no async function, and is awaited",
                f"write {name}(…) without await",
            )
        if not self.program.is_tool(name) and not (self.program.tools is None and name in IN_SCOPE):
            raise Refused(
                "PYT013", call, f"{name} is no tool, and is awaited", f"write {name}(…) without await"
            )
        if not name.isascii():
            raise Refused("PYT022", func, "names are written in ASCII letters", "give it another name")
        self.program.check_tool(name, call)
        return name, False

    def arguments(
        self, call: ast.Call, callee: str, *, is_helper: bool, out: core.Block
    ) -> list[core.Argument]:
        """The arguments of a call in their order, bound to the parameters where these are known."""
        call = _spelled_out(call)
        parameters = self._parameters(call, callee, is_helper=is_helper)
        shape = copy.copy(call)
        if any(waits(one) for one in (*call.args, *(word.value for word in call.keywords))):
            shape = cast("ast.Call", self.ordered_call(call, out))
        else:
            for one in (*call.args, *(word.value for word in call.keywords)):
                self.check(one.value if isinstance(one, ast.Starred) else one)
                if not is_helper:
                    self._check_no_error(one)
            shape.args = [self.replaced(one) for one in call.args]
            shape.keywords = [
                ast.copy_location(ast.keyword(one.arg, self.replaced(one.value)), one)
                for one in call.keywords
            ]
        made: list[core.Argument] = []
        for number, one in enumerate(shape.args):
            if isinstance(one, ast.Starred):
                raise Refused(
                    "PYT009",
                    one,
                    "which arguments are given is not known before the run",
                    "write each argument: f(a=x[0], b=x[1])",
                )
            if parameters is not None and number >= len(parameters):
                raise Refused(
                    "PYT009", one, f"{callee} takes {len(parameters)} arguments", "remove what is too many"
                )
            name = None if parameters is None else parameters[number]
            made.append(core.Argument(name, one))
        for word in shape.keywords:
            if word.arg is None:
                made += self._spread(word.value, callee)
                continue
            made.append(core.Argument(word.arg, word.value))
        self._check_arguments(call, callee, made, parameters, is_helper=is_helper)
        return made

    def _check_no_error(self, argument: ast.expr) -> None:
        """Raises Refused (PYT021) for a caught error that a tool would be given."""
        for name in {name for name, _, _ in self.caught if name}:
            if keeps(argument, name):
                raise Refused(
                    "PYT021",
                    argument,
                    f"a tool is given the error {name} itself, and it takes JSON",
                    f"write str({name})",
                )

    def ordered_call(self, call: ast.Call, out: core.Block) -> ast.expr:
        """A call whose arguments await, with these taken out in order."""
        made = copy.copy(call)
        made.func = ast.copy_location(ast.Name("dict", ast.Load()), call.func)
        result = cast("ast.Call", self.ordered(made, out))
        result.func = call.func
        return result

    def _spread(self, value: ast.expr, callee: str) -> list[core.Argument]:
        if isinstance(value, ast.Dict) and all(
            isinstance(one, ast.Constant) and isinstance(one.value, str) for one in value.keys
        ):
            return [
                core.Argument(str(cast("ast.Constant", key).value), held)
                for key, held in zip(value.keys, value.values, strict=True)
            ]
        raise Refused(
            "PYT009",
            value,
            f"which arguments {callee} gets is not known before the run",
            "write each argument by its name",
        )

    def _parameters(self, call: ast.Call, callee: str, *, is_helper: bool) -> list[str] | None:
        if is_helper:
            found = self.helper(callee)
            if found is None:
                return None
            of = found.args
            return [one.arg for one in (*of.posonlyargs, *of.args)]
        known = (self.program.tools or {}).get(callee)
        if known is not None:
            return list(known.parameters)
        binding = self.program.bindings.get(callee)
        if binding is not None:
            return [name for name, _ in binding.parameters]
        return None

    def _check_arguments(
        self,
        call: ast.Call,
        callee: str,
        made: Sequence[core.Argument],
        parameters: list[str] | None,
        *,
        is_helper: bool,
    ) -> None:
        """Raises Refused (PYT009) for arguments that the function does not take, or lacks."""
        seen: set[str] = set()
        for one in made:
            if one.name is not None and one.name in seen:
                raise Refused("PYT009", one.value, f"{one.name} is given twice", "remove one of them")
            seen.add(one.name or "")
        if parameters is None:
            return
        required: set[str] | frozenset[str]
        is_open = False
        if is_helper:
            found = self.helper(callee)
            if found is None:
                return
            of = found.args
            known = [one.arg for one in parameters_of(of)]
            required = {one.arg for one in (*of.posonlyargs, *of.args, *of.kwonlyargs)}
            required -= dict(given_by_default(of)).keys()
        else:
            signature = (self.program.tools or {}).get(callee)
            known = parameters
            required = signature.required if signature is not None else frozenset(parameters[:1])
            is_open = signature is not None and signature.is_open
        for one in made:
            if one.name is not None and one.name not in known and not is_open:
                meant = did_you_mean(one.name, known)
                takes = f"it takes {', '.join(known) or 'no arguments'}"
                if is_helper and one.name in (TOKENS, COST):
                    takes += f"; a Python plan gives a budget to each agent: agent_solve(…, {one.name}=…)"
                raise Refused(
                    "PYT009",
                    one.value,
                    f"{callee} has no parameter {one.name}",
                    said(meant) or takes,
                )
        lacking = sorted(required - seen)
        if lacking:
            raise Refused(
                "PYT009", call, f"{callee} lacks {', '.join(lacking)}", f"write {callee}({lacking[0]}=…)"
            )

    def starts_task(self, call: ast.Call) -> bool:
        """Whether a call starts a task."""
        resolved = self.program.resolved(call.func) or ""
        return resolved in STARTS or (
            isinstance(call.func, ast.Attribute) and call.func.attr == "create_task"
        )

    def spill_arguments(self, member: core.Call, out: core.Block) -> None:
        """Evaluate the arguments of a call now, where they could fail: before any of the calls beside it."""
        for one in member.arguments:
            if not is_plain(one.value):
                held = self.new_name("value")
                out.append(assigned(held, one.value))
                one.value = ast.copy_location(ast.Name(held, ast.Load()), one.value)


def _is_positive(number: object) -> bool:
    return isinstance(number, (int, float)) and number > 0


def _spelled_out(call: ast.Call) -> ast.Call:
    """A call with the items of literals behind a star as its arguments."""
    if not any(isinstance(one, ast.Starred) for one in call.args):
        return call
    made = copy.copy(call)
    made.args = []
    for one in call.args:
        match one:
            case ast.Starred(value=ast.List(elts=items) | ast.Tuple(elts=items)):
                made.args += items
            case _:
                made.args.append(one)
    return made
