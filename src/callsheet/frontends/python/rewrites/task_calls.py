"""The calls of tasks as rows of a list, and the statements that let them run side by side.

In: the body of a function that starts tasks. A task is the number of its row: which call it is, its name, and
the arguments that are not the same for all. What has run is in two lists, of values and of the numbers that
were late.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Final, cast

from callsheet.frontends.python.rewrites.first_done import IS_TAKEN
from callsheet.frontends.python.rewrites.inlining import Fresh
from callsheet.frontends.python.rewrites.task_words import UnknownTasks, is_around, part_of, started
from callsheet.frontends.python.source import is_named, names_bound, own_nodes, parameters_of, waits, walk
from callsheet.frontends.python.syntax import is_shared, parsed, parsed_lines, placed

_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class TaskCalls:
    """The tasks of one function: their calls, and where they run."""

    def __init__(self, function: ast.AsyncFunctionDef, body: list[ast.stmt], fresh: Fresh) -> None:
        self.function, self.body, self.fresh = function, body, fresh
        inside = list(own_nodes(ast.Module(list(body), [])))
        self.sites = [one for one in inside if started(one) is not None]
        names = {one.attr for one in inside if isinstance(one, ast.Attribute)}
        self.is_named = "get_name" in names
        self.cancels = "cancel" in names
        self.started, self.values, self.late = fresh("started"), fresh("values"), fresh("late")
        self.order, self.row, self.new = fresh("order"), fresh("row"), fresh("new")
        self.helper_names: dict[str, str] = {}
        """The functions that run the task of a row, by what they do."""
        self.kinds: dict[str, ast.Call] = {}
        """The calls that tasks are made of, by their forms, with what a row holds in their arguments."""
        stored = [one.id for one in inside if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
        in_loops = {name for one in inside if isinstance(one, _LOOPS[:3]) for name in names_bound(one)}
        own = {one.arg for one in parameters_of(function.args)}
        self.fixed = {name for name in {*stored, *own} if stored.count(name) <= (name not in own)} - in_loops
        """The variables that have one value wherever a task may read them."""
        self.is_ordered = self.is_limited = self.is_alone = False
        self.stored, self.own = {*stored}, {*stored, *own}
        self.alike: dict[str, list[ast.Call]] = {}
        """The calls of each form."""
        for one in self.sites:
            call = cast("ast.Call", started(one))
            self.alike.setdefault(self._form(call), []).append(call)
        self.many = len(self.alike) > 1
        self.is_live, self.loops = False, 0
        in_loop = {id(one) for each in inside if isinstance(each, _LOOPS) for one in own_nodes(each)}
        self.is_single = len(self.sites) == 1 and id(self.sites[0]) not in in_loop

    def with_tasks(self, text: str, many: ast.expr, place: ast.AST) -> ast.expr:
        """The expression of a text, in which `_many` stands for the tasks."""
        made, task = parsed(text, place), self.fresh("task")
        for one in walk(made):
            if is_named(one, "_t"):
                one.id = task
            for field, value in ast.iter_fields(one):
                if is_named(value, "_many"):
                    setattr(one, field, copy.deepcopy(many))
                elif isinstance(value, list):
                    items = cast("list[object]", value)
                    items[:] = [copy.deepcopy(many) if is_named(each, "_many") else each for each in items]
        return ast.fix_missing_locations(made)

    def taken(self, task: ast.expr, node: ast.AST) -> ast.expr:
        """What a task gives, or its error again."""
        value = ast.Subscript(ast.Name(self.values, ast.Load()), task, ast.Load())
        made = placed(ast.Await(value), node)
        vars(made)[IS_TAKEN] = True
        return made

    def start(self, call: ast.Call, name: ast.expr | None, inner: set[str]) -> ast.Tuple:
        """The row of a task: which call, its name, and the arguments that are not the same for all."""
        if waits(call) or (self.is_named and name is None):
            raise UnknownTasks
        values: list[ast.expr] = [name] if name is not None and self.is_named else []
        form = self._form(call)
        template = self._template(call, values, inner, int(self.many), self.alike[form])
        known = self.kinds.setdefault(form, template)
        if ast.dump(known) != ast.dump(template):
            raise UnknownTasks
        if self.many:
            values.insert(0, ast.Constant([*self.kinds].index(form)))
        return ast.Tuple(values, ast.Load())

    def _form(self, call: ast.Call) -> str:
        words = [word.arg for word in call.keywords]
        inner = self._form(call.args[0]) if is_around(call) and isinstance(call.args[0], ast.Call) else ""
        given = [*call.args, *(word.value for word in call.keywords)]
        functions = [ast.dump(one) for one in given if self._may_be_function(one)]
        return f"{ast.dump(call.func)} {len(call.args)} {words} {inner} {functions}"

    def _may_be_function(self, node: ast.expr) -> bool:
        """Whether an argument is, or may be, a function, which no row can hold: it stands in the call."""
        return isinstance(node, ast.Lambda) or (isinstance(node, ast.Name) and node.id not in self.own)

    def _template(
        self,
        call: ast.Call,
        values: list[ast.expr],
        inner: set[str],
        shift: int,
        others: Sequence[ast.Call],
        at: tuple[int | str, ...] = (),
    ) -> ast.Call:
        """A call with the parts of a row as its arguments, which are added to `values`."""
        if not isinstance(call.func, ast.Name) and not is_around(call):
            raise UnknownTasks
        if any(isinstance(one, ast.Starred) for one in call.args) or any(
            word.arg is None for word in call.keywords
        ):
            raise UnknownTasks

        def told(value: ast.expr, path: tuple[int | str, ...]) -> ast.expr:
            if is_around(call) and isinstance(value, ast.Call) and value is call.args[0]:
                return self._template(value, values, inner, shift, others, path)
            read = {one.id for one in walk(value) if isinstance(one, ast.Name)} - self.fixed
            if isinstance(value, ast.Lambda):
                if read & self.stored - {one.arg for one in parameters_of(value.args)} or any(
                    (*value.args.defaults, *value.args.kw_defaults)
                ):
                    raise UnknownTasks
                return copy.deepcopy(value)
            same = {ast.dump(part_of(one, path)) for one in others}
            if len(same) == 1 and is_shared(value, inner) and not read & self.stored:
                return copy.deepcopy(value)
            values.append(value)
            number = ast.Constant(len(values) - 1 + shift)
            return placed(ast.Subscript(ast.Name(self.row, ast.Load()), number, ast.Load()), value)

        args = [told(one, (*at, number)) for number, one in enumerate(call.args)]
        words = [ast.keyword(word.arg, told(word.value, (*at, word.arg or ""))) for word in call.keywords]
        return placed(ast.Call(copy.deepcopy(call.func), args, words), call)

    def run(self, place: ast.AST, before: list[ast.stmt], limit: ast.expr | None = None) -> None:
        """Let the calls that were started run, side by side."""
        if not self.is_live:
            return
        self.is_live = False
        since = f"{self.started}[len({self.values}):]"
        if limit is not None:
            self.is_limited = True
            held = self.fresh("seconds")
            before.append(placed(ast.Assign([ast.Name(held, ast.Store())], limit), place))
            lines = [
                f"{self.new} = await asyncio.gather(*[{self._helper('limited')}({self.row}, {held})"
                f" for {self.row} in {since}])",
                f"{self.late} = [*{self.late}, *[n for n, one in enumerate({self.new}, len({self.values}))"
                " if one[1]]]",
                f"{self.values} = [*{self.values}, *[one[0] for one in {self.new}]]",
            ]
        elif self.is_ordered:
            number = self.fresh("number")
            lines = [
                f"{self.new} = []",
                f"for ended in asyncio.as_completed([{self._helper('numbered')}({number}, {self.row})"
                f" for {number}, {self.row} in list(enumerate({self.started}))[len({self.values}):]]):",
                "    ended_as = await ended",
                f"    {self.new}.append(ended_as)",
                f"{self.order} = [*{self.order}, *[one[0] for one in {self.new}]]",
                f"{self.values} = [*{self.values}, *[one[1] for one in sorted({self.new},"
                " key=lambda one: one[0])]]",
            ]
        else:
            lines = [
                f"{self.new} = await asyncio.gather(*[_call for {self.row} in {since}],"
                " return_exceptions=True)",
                f"{self.values} = [*{self.values}, *{self.new}]",
            ]
        made = parsed_lines(lines, place)
        own = {name: self.fresh(name) for name in ("ended", "ended_as")}
        for one in (each for part in made for each in walk(part)):
            if isinstance(one, ast.Name) and one.id in own:
                one.id = own[one.id]
            if isinstance(one, ast.ListComp) and is_named(one.elt, "_call"):
                one.elt = self._call()
        before += made

    def _call(self) -> ast.expr:
        """The call of the task of a row."""
        if not self.many:
            return copy.deepcopy(next(iter(self.kinds.values())))
        return parsed(f"{self._helper('run')}({self.row})", self.body[0])

    def _helper(self, what: str) -> str:
        if what not in self.helper_names:
            self.helper_names[what] = self.fresh(what)
        return self.helper_names[what]

    def helpers(self) -> list[ast.stmt]:
        """The functions that run the task of a row."""
        row, at, lines = self.row, self.body[0], list[str]()
        if self.many:
            lines += [f"async def {self._helper('run')}({row}):"]
            for number in range(len(self.kinds)):
                lines += [f"    if {row}[0] == {number}:", f"        return await _call_{number}()"]
        if self.is_limited or self.is_ordered:
            lines += [
                f"async def {self._helper('caught')}({row}):",
                "    try:",
                "        return await _call()",
                "    except Exception as error:",
                "        return error",
            ]
        if self.is_limited:
            lines += [
                f"async def {self._helper('limited')}({row}, seconds):",
                "    try:",
                *(
                    [
                        f"        return [await asyncio.wait_for({self._helper('caught')}({row}),"
                        " seconds), False]"
                    ]
                    if self.is_alone
                    else [
                        "        async with asyncio.timeout(seconds):",
                        f"            return [await {self._helper('caught')}({row}), False]",
                    ]
                ),
                "    except TimeoutError as error:",
                "        return [error, True]",
            ]
        if self.is_ordered:
            lines += [
                f"async def {self._helper('numbered')}(number, {row}):",
                f"    return [number, await {self._helper('caught')}({row})]",
            ]
        made = parsed_lines(lines, at) if lines else []
        kinds = [*self.kinds.values()]
        for one in (each for part in made for each in walk(part)):
            match one:
                case ast.Await(value=ast.Call(func=ast.Name(id="_call"))):
                    one.value = self._call()
                case ast.Await(value=ast.Call(func=ast.Name(id=name))) if name.startswith("_call_"):
                    one.value = copy.deepcopy(kinds[int(name.rpartition("_")[2])])
                case _:
                    pass
        return made
