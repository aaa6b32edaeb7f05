"""What an await waits for: a call, a timer, several at a time; and lists of calls that are awaited later."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from callsheet.diagnostics import did_you_mean
from callsheet.frontends.python import core
from callsheet.frontends.python.callbacks import specialised, takes_functions
from callsheet.frontends.python.program import IN_SCOPE
from callsheet.frontends.python.source import (
    Refused,
    dotted,
    names_bound,
    own_nodes,
    parameters_of,
    waits,
    walk,
)

if TYPE_CHECKING:
    from callsheet.frontends.python.program import Program

_GATHER: Final = "asyncio.gather"
_STARTS: Final = frozenset({"asyncio.create_task", "asyncio.ensure_future", "asyncio.shield"})
_FORMS: Final = "await asyncio.gather(*[f(x) for x in xs]), or asyncio.gather(f(a), g(b)), with calls of tools or async functions"


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


class Tasks:
    """The part of a translator that awaits."""

    program: Program
    names: Any
    bound: set[str]
    most: int | None
    semaphores: dict[str, int | None]

    def start_tasks(self) -> None:
        """Begin without held calls."""
        self.held: dict[str, Held] = {}
        self.listed: dict[str, tuple[list[core.Call], core.Block]] = {}
        """Lists of different calls, and the blocks in which they were made."""
        self.awaits = 0
        self.results: dict[str, str] = {}
        """Tasks of a finished TaskGroup, and the variable of the result of each."""
        self.keeps_errors = False
        """Whether errors stand among the results of a gather."""
        self.choices: dict[str, None] = {}
        """Tools and async functions that the program chooses among by data."""

    # ------------------------------------------------------------ await

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
            return self._result(
                ast.copy_location(ast.Name(self.results[waited.id], ast.Load()), node), out, into
            )
        if not isinstance(waited, ast.Call):
            raise Refused(
                "PYT020", node, "what is awaited here is not known before the run", f"write {_FORMS}"
            )
        if self._is_chosen(waited.func):
            return self._chosen(waited, node, out, into)
        resolved = self.program.resolved(waited.func) or ""
        if resolved == _GATHER or dotted(waited.func) == "gather":
            return self._gather(waited, node, out, into)
        name = self._wanted(into, waited)
        one = self._member(waited, out, name)
        self.awaits += 1
        out.append(one)
        return ast.copy_location(ast.Name(name or "None", ast.Load()), node) if name else _none(node)

    def _wanted(self, into: str | None, call: ast.Call) -> str | None:
        if into is None:
            return None
        if into:
            self.bound.add(into)
            return into
        stem = (dotted(call.func) or "result").split(".")[-1]
        return self._new(stem)

    def _new(self, stem: str) -> str:
        name = cast("str", self.names.fresh(stem))
        self.bound.add(name)
        return name

    def _result(self, value: ast.expr, out: core.Block, into: str | None) -> ast.expr:
        if not into:
            return value
        made = ast.Assign([ast.Name(into, ast.Store())], value)
        out.append(core.Pure(ast.fix_missing_locations(ast.copy_location(made, value))))
        return ast.copy_location(ast.Name(into, ast.Load()), value)

    def _either(self, waited: ast.IfExp, node: ast.Await, out: core.Block, into: str | None) -> ast.expr:
        """`await (f() if c else g())`: the call that the condition chooses."""
        name = into or self._new("result")
        test = self.value(waited.test, out)
        branches: list[core.Block] = []
        for part in (waited.body, waited.orelse):
            inner: core.Block = []
            self.await_(ast.copy_location(ast.Await(part), part), inner, name)
            branches.append(inner)
        out.append(core.Choice(test, branches[0], branches[1], node))
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    # ------------------------------------------------------------ a call that data chooses

    def _is_chosen(self, func: ast.expr) -> bool:
        if not self.choices and not self.program.choices:
            return False
        if isinstance(func, ast.Name):
            return self.is_variable(func.id) and self.helper(func.id) is None
        if isinstance(func, ast.Call):
            return isinstance(func.func, ast.Attribute) and func.func.attr == "get"
        return isinstance(func, ast.Subscript)

    def _chosen(self, call: ast.Call, node: ast.Await, out: core.Block, into: str | None) -> ast.expr:
        """`await actions[name](…)`: the call of each function that may be meant, and a condition for each."""
        shape = cast("ast.Call", copy.copy(call))
        chosen = self.spilled(call.func, out)
        shape.args = [self._kept_plain(one, out) for one in call.args]
        shape.keywords = [
            ast.copy_location(ast.keyword(one.arg, self._kept_plain(one.value, out)), one)
            for one in call.keywords
        ]
        name = None if into is None else (into or self._new("result"))
        message = ast.copy_location(ast.Constant("what is called here is no function"), call)
        rest: core.Block = [core.Fail(message, "TYPE", call)]
        for one in reversed([*self.program.choices, *self.choices]):
            inner: core.Block = []
            made = copy.copy(shape)
            made.func = ast.copy_location(ast.Name(one, ast.Load()), call.func)
            inner.append(self._member(made, inner, name))
            test = ast.Compare(chosen, [ast.Eq()], [ast.Constant(one)])
            ast.fix_missing_locations(ast.copy_location(test, call))
            rest = [core.Choice(test, inner, rest, call)]
        out += rest
        if name is None:
            return _none(node)
        self.bound.add(name)
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def _kept_plain(self, value: ast.expr, out: core.Block) -> ast.expr:
        if isinstance(value, ast.Starred):
            raise Refused(
                "PYT009",
                value,
                "which arguments are given is not known before the run",
                "write each argument",
            )
        return self.spilled(value, out)

    def with_choices(self, node: ast.stmt) -> ast.stmt:
        """An assignment of a literal table or list of functions, with their names in their places."""
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            return node
        found = functions_in(node.value, self._is_function)
        if not found:
            return node
        self.choices |= dict.fromkeys(found)
        made = copy.copy(node)
        made.value = named_functions(node.value)
        return made

    def _is_function(self, name: str) -> bool:
        if self.is_variable(name) or name in self.definitions() or name in self.program.definitions:
            return False
        known = self.program.tools
        if self.helper(name) is not None:
            return True
        return self.program.is_tool(name) and (
            known is None or name in known or name in self.program.bindings
        )

    # ------------------------------------------------------------ one call

    def _member(self, call: ast.expr, out: core.Block, into: str | None) -> core.Core:
        """What awaiting this does, its arguments evaluated; nothing is appended for the call itself."""
        if not isinstance(call, ast.Call):
            raise Refused("PYT020", call, "this is no call that could be awaited", f"write {_FORMS}")
        resolved = self.program.resolved(call.func) or ""
        if resolved == "asyncio.sleep":
            if not call.args or len(call.args) > 1:
                raise Refused("PYT020", call, "sleep takes the seconds", "write await asyncio.sleep(5)")
            return core.Wait(self.value(call.args[0], out), call)
        if resolved in _STARTS and call.args:
            return self._member(call.args[0], out, into)
        if resolved == "asyncio.wait_for" and call.args:
            self.warn_of_timeout(call)
            return self._member(call.args[0], out, into)
        if resolved == _GATHER:
            inner: core.Block = []
            made = self._gather(call, call, inner, into)
            if into is not None and not (isinstance(made, ast.Name) and made.id == into):
                raise Refused(
                    "PYT020", call, "a gather inside a gather", "write an async function for the inner one"
                )
            if len(inner) == 1:
                return inner[0]
            raise Refused(
                "PYT020", call, "a gather inside a gather", "write an async function for the inner one"
            )
        call = self.with_functions(call)
        callee, is_helper = self._callee(call)
        arguments = self._arguments(call, callee, is_helper=is_helper, out=out)
        return core.Call(into, callee, self.helper(callee) if is_helper else None, arguments, call)

    def warn_of_timeout(self, node: ast.AST) -> None:
        """Note that a time-out of the program is one of its tool's settings in a plan."""
        self.program.warnings.append(
            Refused(
                "PYT101",
                node,
                "how long a call may take is set for its tool; this time-out has no effect",
                "set the tool's time-out in callsheet.toml; `except TimeoutError` catches it",
            )  # fmt: skip
        )

    def with_functions(self, call: ast.Call) -> ast.Call:
        """A call that gives a function what to call, as a call of a copy of that function."""
        if not isinstance(call.func, ast.Name):
            return call
        found = self.helper(call.func.id)
        if found is None or not takes_functions(call, self._is_function):
            return call
        made, again = specialised(call, found, self._is_function, self.names.fresh)
        self.add_helper(found, made)
        return again

    def _callee(self, call: ast.Call) -> tuple[str, bool]:
        """The name of the function that a call awaits, and whether it is one of the program's."""
        func = call.func
        if isinstance(func, ast.Call) and isinstance(func.func, ast.Attribute):
            raise Refused(
                "PYT011", func, "which tool is called is looked up when the plan runs",
                "write an if for each of the tools, so that all of them can be checked",
            )  # fmt: skip
        if isinstance(func, ast.Subscript):
            raise Refused(
                "PYT011", func, "which tool is called is looked up when the plan runs",
                "write an if for each of the tools, so that all of them can be checked",
            )  # fmt: skip
        if isinstance(func, ast.Attribute):
            path = dotted(func)
            first = (path or "").split(".")[0]
            resolved = self.program.resolved(func)
            if resolved is not None:
                raise Refused("PYT020", call, f"{resolved} is not understood here", f"write {_FORMS}")
            if path is None or self.is_variable(first):
                raise Refused(
                    "PYT011", func, "a method of a value is awaited; tools are called by their names",
                    "await the tool itself: await tool_name(…)",
                )  # fmt: skip
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
        if self.is_variable(name) and name in (self.program.tools or self.program.bindings):
            raise Refused(
                "PYT010", func, f"the variable {name} hides the tool {name}", "give the variable another name"
            )
        if self.is_variable(name):
            raise Refused(
                "PYT011", func, f"{name} is a variable: which tool it calls is not known before the run",
                "call the tools by their names, with an if for each",
            )  # fmt: skip
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

    def _arguments(
        self, call: ast.Call, callee: str, *, is_helper: bool, out: core.Block
    ) -> list[core.Argument]:
        """The arguments of a call in their order, bound to the parameters where these are known."""
        parameters = self._parameters(call, callee, is_helper=is_helper)
        shape = copy.copy(call)
        if any(waits(one) for one in (*call.args, *(word.value for word in call.keywords))):
            shape = cast("ast.Call", self.ordered_call(call, out))
        else:
            for one in (*call.args, *(word.value for word in call.keywords)):
                self.check(one.value if isinstance(one, ast.Starred) else one)
            shape.args = [self.replaced(one) for one in call.args]
            shape.keywords = [
                ast.copy_location(ast.keyword(one.arg, self.replaced(one.value)), one)
                for one in call.keywords
            ]
        made: list[core.Argument] = []
        for number, one in enumerate(shape.args):
            if isinstance(one, ast.Starred):
                raise Refused(
                    "PYT009", one, "which arguments are given is not known before the run",
                    "write each argument: f(a=x[0], b=x[1])",
                )  # fmt: skip
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

    def ordered_call(self, call: ast.Call, out: core.Block) -> ast.expr:
        """A call whose arguments await, with these taken out in order."""
        made = copy.copy(call)
        made.func = ast.copy_location(ast.Name("dict", ast.Load()), call.func)
        result = cast("ast.Call", self._ordered(made, out))
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
            "PYT009", value, f"which arguments {callee} gets is not known before the run",
            "write each argument by its name",
        )  # fmt: skip

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
            given = [*of.posonlyargs, *of.args]
            required = {one.arg for one in given[: len(given) - len(of.defaults)]}
            required |= {
                one.arg for one, value in zip(of.kwonlyargs, of.kw_defaults, strict=True) if not value
            }
        else:
            signature = (self.program.tools or {}).get(callee)
            known = parameters
            required = signature.required if signature is not None else frozenset(parameters[:1])
            is_open = signature is not None and signature.is_open
        for one in made:
            if one.name is not None and one.name not in known and not is_open:
                meant = did_you_mean(one.name, known)
                raise Refused(
                    "PYT009", one.value, f"{callee} has no parameter {one.name}",
                    meant or f"it takes {', '.join(known) or 'no arguments'}",
                )  # fmt: skip
        lacking = sorted(required - seen)
        if lacking:
            raise Refused(
                "PYT009", call, f"{callee} lacks {', '.join(lacking)}", f"write {callee}({lacking[0]}=…)"
            )

    # ------------------------------------------------------------ gather

    def _gather(self, call: ast.Call, node: ast.AST, out: core.Block, into: str | None) -> ast.expr:
        keeps_errors = False
        for word in call.keywords:
            if word.arg == "return_exceptions" and isinstance(word.value, ast.Constant):
                keeps_errors = bool(word.value.value)
                continue
            raise Refused("PYT020", word.value, f"gather takes no {word.arg} here", f"write {_FORMS}")
        args = self._flat(call.args)
        self.awaits += 1
        if (
            len(args) == 1
            and isinstance(args[0], ast.Starred)
            and getattr(args[0].value, "id", None) not in self.listed
        ):
            name = into if into else (None if into is None else self._new("results"))
            loop = self._each(args[0].value, node, out, name)
            if keeps_errors:
                loop.body = self._safe(loop.body, name is not None, node)
            out.append(loop)
            return ast.copy_location(ast.Name(name, ast.Load()), node) if name else _none(node)
        parts: list[ast.expr] = []
        members: core.Block = []
        for one in args:
            listed = self._listed(one.value) if isinstance(one, ast.Starred) else None
            if listed is not None:
                calls, block = listed
                if block is not out:
                    raise Refused("PYT020", one, "these calls were made in another block", f"write {_FORMS}")
                for call_ in calls:
                    call_.into = self._new(call_.callee)
                    member = call_
                    if keeps_errors:
                        member = self._safe_call(call_, call_.into, one)
                    members.append(member)
                    parts.append(ast.copy_location(ast.Name(call_.into, ast.Load()), one))
                continue
            if isinstance(one, ast.Starred):
                name = self._new("results")
                loop = self._each(one.value, one, out, name)
                if keeps_errors:
                    loop.body = self._safe(loop.body, True, node)
                members.append(loop)
                held: ast.expr = ast.Starred(ast.Name(name, ast.Load()), ast.Load())
            elif isinstance(one, ast.Name) and one.id in self.held and not self.held[one.id].is_list:
                name = self._new("result")
                members.append(self._held_call(self.held.pop(one.id), one, name))
                held = ast.Name(name, ast.Load())
            else:
                name = self._new(self._stem(one))
                member = self._member(one, out, name)
                if isinstance(member, core.Call):
                    self._spill(member, out)
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
        return self._result(made, out, into) if into is not None else _none(node)

    def _safe(self, body: core.Block, gives: bool, node: ast.AST) -> core.Block:
        """The calls of an item, whose error is the item's value."""
        self.keeps_errors = True
        binds = self._new("error")
        handler: core.Block = [core.Give(_marked(binds, node), node)] if gives else []
        return [core.Attempt(body, [core.Caught((), binds, handler, node)], None, node)]

    def _safe_call(self, member: core.Call, name: str, node: ast.AST) -> core.Core:
        self.keeps_errors = True
        binds = self._new("error")
        made = ast.Assign([ast.Name(name, ast.Store())], _marked(binds, node))
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

    def _spill(self, member: core.Call, out: core.Block) -> None:
        """Evaluate the arguments of a call now, where they could fail: before any of the calls beside it."""
        for one in member.arguments:
            if not _is_plain(one.value):
                held = self._new("value")
                made = ast.Assign([ast.Name(held, ast.Store())], one.value)
                out.append(core.Pure(ast.fix_missing_locations(ast.copy_location(made, one.value))))
                one.value = ast.copy_location(ast.Name(held, ast.Load()), one.value)

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
            "PYT020", many, "which calls are gathered is not known before the run", f"write {_FORMS}"
        )

    def _mapped(self, many: ast.Call) -> ast.expr:
        """`map(f, xs)` as a comprehension."""
        item = self._new("item")
        function, first, *more = many.args
        target: ast.expr = ast.Name(item, ast.Store())
        source: ast.expr = first
        arguments: list[ast.expr] = [ast.Name(item, ast.Load())]
        if more:
            names = [self._new("item") for _ in many.args[1:]]
            target = ast.Tuple([ast.Name(one, ast.Store()) for one in names], ast.Store())
            source = ast.Call(ast.Name("zip", ast.Load()), [first, *more], [])
            arguments = [ast.Name(one, ast.Load()) for one in names]
        made = ast.GeneratorExp(ast.Call(function, arguments, []), [ast.comprehension(target, source, [], 0)])
        return ast.fix_missing_locations(ast.copy_location(made, many))

    def _calls(self, many: ast.ListComp | ast.GeneratorExp, out: core.Block) -> tuple[Held, ast.expr]:
        """A comprehension of calls: the call, and the list of what its arguments are for each item."""
        element, is_started = many.elt, False
        while isinstance(element, ast.Call) and self._starts(element) and element.args:
            element, is_started = element.args[0], True
        if isinstance(element, ast.Call) and dotted(element.func) in {"asyncio.sleep"}:
            raise Refused("PYT020", element, "timers side by side", "await one sleep of the longest")
        if not isinstance(element, ast.Call):
            raise Refused("PYT020", element, "this is no call that could be awaited", f"write {_FORMS}")
        if self.program.resolved(element.func) is not None:
            self._member(element, [], None)
            raise Refused("PYT020", element, "this is no call of a tool", f"write {_FORMS}")
        element = self.with_functions(element)
        callee, is_helper = self._callee(element)
        for one in own_nodes(element):
            if isinstance(one, ast.Await):
                raise Refused(
                    "PYT020", one, "an argument of a gathered call awaits",
                    "await it in a loop before, or write an async function that does both",
                )  # fmt: skip
        inner = {name for one in many.generators for name in names_bound(one.target)}
        self.bound |= inner
        arguments = self._arguments(element, callee, is_helper=is_helper, out=[])
        made = copy.copy(many)
        varying = [one for one in arguments if not _is_shared(one.value, inner)]
        fixed = [one for one in arguments if _is_shared(one.value, inner)]
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

    def _starts(self, call: ast.Call) -> bool:
        resolved = self.program.resolved(call.func) or ""
        return resolved in _STARTS or (
            isinstance(call.func, ast.Attribute) and call.func.attr == "create_task"
        )

    def _loop(self, held: Held, source: ast.expr, node: ast.AST, into: str | None) -> core.Loop:
        item = self._new("item")
        result = None if into is None else self._new(held.callee.split(".")[-1])
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
                "PYT020", node, f"{waited.id} was started before, beside what stands between",
                "await calls that run side by side in one place: a, b = await asyncio.gather(f(x), g(y))",
            )  # fmt: skip
        if held.is_started and started:
            return self._await_started(waited.id, held, started, node, out, into)
        self.awaits += 1
        name = None if into is None else (into or self._new(held.callee))
        out.append(self._held_call(held, node, name))
        return ast.copy_location(ast.Name(name, ast.Load()), node) if name else _none(node)

    def _await_started(
        self, name: str, held: Held, others: Sequence[str], node: ast.AST, out: core.Block, into: str | None
    ) -> ast.expr:
        """The first await of tasks that were started together: they run side by side."""
        result = self._new(held.callee)
        members: core.Block = [self._held_call(held, node, result)]
        for one in others:
            other = self.held.pop(one)
            if other.block is not out or other.awaits != self.awaits:
                raise Refused(
                    "PYT020", node, f"{one} was started before, beside what stands between",
                    "await calls that run side by side in one place: a, b = await asyncio.gather(f(x), g(y))",
                )  # fmt: skip
            self.results[one] = self._new(other.callee)
            members.append(self._held_call(other, node, self.results[one]))
        self.results[name] = result
        self.awaits += 1
        out.append(core.Together(members, node))
        made = ast.copy_location(ast.Name(result, ast.Load()), node)
        return self._result(made, out, into)

    # ------------------------------------------------------------ statements about tasks

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
                self._result(source, out, name)
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
        if self._starts(node):
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
        while self._starts(call):
            call, is_started = cast("ast.Call", call.args[0]), True
        callee, is_helper = self._callee(call)
        arguments = self._arguments(call, callee, is_helper=is_helper, out=out)
        made = core.Call(None, callee, self.helper(callee) if is_helper else None, arguments, call)
        self._spill(made, out)
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
                "PYT007", calls[0].node, f"the calls in {name} are never awaited: nothing in them would happen",
                f"write await asyncio.gather(*{name})",
            )  # fmt: skip
        for name, held in self.held.items():
            if held.is_used:
                continue
            raise Refused(
                "PYT007", held.node, f"the calls in {name} are never awaited: nothing in them would happen",
                f"write await asyncio.gather(*{name})",
            )  # fmt: skip

    def _later(self, after: ast.AST) -> list[ast.AST]:
        return [
            one for one in walk(self.function) if getattr(one, "lineno", 0) >= getattr(after, "lineno", 0)
        ]

    def _hold_list(self, name: str, elements: Sequence[ast.expr], node: ast.AST, out: core.Block) -> None:
        """`tasks = [f(a), g(b)]`: calls that a gather awaits later."""
        calls: list[core.Call] = []
        for one in elements:
            made = self._member(one, out, None)
            if isinstance(made, core.Call):
                self._spill(made, out)
                calls.append(made)
        if len(calls) < len(elements) or name in self.listed or name in self.held:
            raise Refused(
                "PYT020", node, f"{name} is a list of calls that are not awaited yet",
                "await them at once: results = await asyncio.gather(f(a), g(b))",
            )  # fmt: skip
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
                "PYT020", node, f"{name} holds calls of different functions",
                "write an async function that calls one or the other, and gather calls of it",
            )  # fmt: skip
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
        while self._starts(inner):
            inner, is_started = cast("ast.Call", inner.args[0]), True
        callee, is_helper = self._callee(inner)
        arguments = self._arguments(inner, callee, is_helper=is_helper, out=out)
        names = [one.name for one in arguments]
        self._hold_as(name, Held(callee, names, [], True, is_started, inner), node)
        values = ast.Tuple([one.value for one in arguments], ast.Load())
        made = ast.Call(call.func, [values], [])
        made = ast.fix_missing_locations(ast.copy_location(made, call))
        out.append(core.Pure(ast.copy_location(ast.Expr(made), node)))
        return True

    # ------------------------------------------------------------ as_completed, TaskGroup

    def completed(self, node: ast.expr) -> ast.expr | None:
        """What `asyncio.as_completed(…)` goes through; None for anything else."""
        if isinstance(node, ast.Call) and self.program.resolved(node.func) == "asyncio.as_completed":
            return node.args[0] if node.args else None
        return None

    def over_results(self, node: ast.For, many: ast.expr, out: core.Block) -> ast.For:
        """`for future in as_completed(calls)` as a loop over the results of the calls, in their order."""
        if not isinstance(node.target, ast.Name):
            raise Refused("PYT020", node.target, "as_completed gives one future a time", "write one name")
        results = self._new("results")
        out.append(self._each(many, node, out, results))
        future = node.target.id

        class Unwrap(ast.NodeTransformer):
            def visit_Await(self, inner: ast.Await) -> ast.AST:
                if isinstance(inner.value, ast.Name) and inner.value.id == future:
                    return ast.copy_location(ast.Name(future, ast.Load()), inner)
                return self.generic_visit(inner)

        body = [cast("ast.stmt", Unwrap().visit(copy.deepcopy(one))) for one in node.body]
        source = ast.copy_location(ast.Name(results, ast.Load()), node.iter)
        return ast.copy_location(ast.For(node.target, source, body, node.orelse), node)

    def task_group(self, node: ast.With | ast.AsyncWith, out: core.Block) -> bool:
        """`async with asyncio.TaskGroup() as group`: what it starts runs side by side, and is done after it."""
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
        elif (
            isinstance(one, ast.For)
            and isinstance(one.iter, ast.expr)
            and len(one.body) == 1
            and not one.orelse
        ):
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
                result = None if name is None else self._new(self._stem(what))
                member = self._member(what, out, result)
                if isinstance(member, core.Call):
                    self._spill(member, out)
                members.append(member)
                if name is not None and result is not None:
                    self.results[name] = result
                return
            if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
                what = started(value.elt)
                if what is not None:
                    result = None if name is None else self._new("results")
                    made = ast.copy_location(ast.ListComp(what, value.generators), value)
                    members.append(self._each(made, one, out, result))
                    if name is not None and result is not None:
                        self.results[name] = result
                    return
        if waits(one):
            raise Refused(
                "PYT020", one, "this awaits while the tasks of the group run",
                "await it before or after the group",
            )  # fmt: skip
        self.statement(one, out)

    # ------------------------------------------------------------ what the translator adds

    if TYPE_CHECKING:
        function: ast.AsyncFunctionDef

        def value(self, node: ast.expr, out: core.Block) -> ast.expr: ...
        def replaced(self, node: ast.expr) -> ast.expr: ...
        def check(self, root: ast.AST) -> None: ...
        def statement(self, node: ast.stmt, out: core.Block) -> None: ...
        def helper(self, name: str) -> ast.AsyncFunctionDef | None: ...
        def is_variable(self, name: str) -> bool: ...
        def definitions(self) -> dict[str, ast.stmt]: ...
        def known_semaphores(self) -> dict[str, int | None]: ...
        def add_helper(self, like: ast.AsyncFunctionDef, made: ast.AsyncFunctionDef) -> None: ...
        def spilled(self, node: ast.expr, out: core.Block) -> ast.expr: ...
        def _ordered(self, node: ast.expr, out: core.Block) -> ast.expr: ...


def _none(place: ast.AST) -> ast.Constant:
    return ast.copy_location(ast.Constant(None), place)


def functions_in(node: ast.expr, is_function: Callable[[str], bool]) -> list[str]:
    """The functions of a literal dict, list or tuple of functions; none for anything else."""
    parts: list[ast.expr] = []
    if isinstance(node, ast.Dict) and None not in node.keys:
        parts = node.values
    elif isinstance(node, (ast.List, ast.Tuple)):
        parts = node.elts
    names = [one.id for one in parts if isinstance(one, ast.Name)]
    return names if names and len(names) == len(parts) and all(map(is_function, names)) else []


def named_functions(node: ast.expr) -> ast.expr:
    """A literal of functions, with their names as texts."""
    made = copy.copy(node)
    if isinstance(made, ast.Dict):
        made.values = [ast.copy_location(ast.Constant(cast("ast.Name", one).id), one) for one in made.values]
    elif isinstance(made, (ast.List, ast.Tuple)):
        made.elts = [ast.copy_location(ast.Constant(cast("ast.Name", one).id), one) for one in made.elts]
    return made


MARK: Final = "__failure__"
"""The field of an error that stands among results."""


def _marked(name: str, place: ast.AST) -> ast.expr:
    """The failure of a handler, as a value that is known to be one."""
    mark = ast.Dict([ast.Constant(MARK)], [ast.Constant(True)])
    made = ast.BinOp(ast.Name(name, ast.Load()), ast.BitOr(), mark)
    return ast.fix_missing_locations(ast.copy_location(made, place))


def _is_plain(node: ast.expr) -> bool:
    """Whether evaluating an expression cannot fail, and gives the same later."""
    if isinstance(node, (ast.Constant, ast.Name)):
        return True
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(map(_is_plain, node.elts))
    if isinstance(node, ast.Dict):
        return all(key is not None and _is_plain(key) for key in node.keys) and all(
            map(_is_plain, node.values)
        )
    return False


def _is_shared(node: ast.expr, inner: set[str]) -> bool:
    """Whether an argument is the same for all items, and cannot fail."""
    return _is_plain(node) and not any(isinstance(one, ast.Name) and one.id in inner for one in walk(node))
