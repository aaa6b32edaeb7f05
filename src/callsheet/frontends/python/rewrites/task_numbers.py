"""Tasks that a program asks for more than their results, as the numbers of calls that run side by side.

In: the tree of a file, which is changed in place. Where a function starts tasks and waits with `asyncio.wait`,
`as_completed` or `gather`, and asks which are late, what failed, or what a task is called, each task becomes the
number of its call, and each wait runs the calls that were started before it. All that Python says of tasks is
then said of numbers: they are equal to themselves alone, and may be keys or elements of a set. Where something
else is awaited while tasks run, or it is not known what a task is, the function stays as it is.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from typing import Final, cast

from callsheet.frontends.python.rewrites.first_done import IS_TAKEN
from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_in, placed
from callsheet.frontends.python.source import dotted, names_bound, own_nodes, parameters_of, waits, walk
from callsheet.frontends.python.syntax import is_shared, parsed, parsed_lines

_STARTS: Final = frozenset({"create_task", "ensure_future"})
_AROUND: Final = frozenset({"asyncio.wait_for", "asyncio.shield"})
_ASKED: Final = frozenset({"get_name", "exception", "cancelled", "add_done_callback"})
_QUESTIONS: Final = frozenset({"result", "exception", "done", "cancelled", "get_name"})
_CONSUMERS: Final = frozenset({"sum", "max", "min", "sorted", "list", "tuple", "set", "dict", "any", "all"})
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class _Unknown(Exception):
    """What a function does with its tasks cannot be said with numbers."""


def tasks_as_numbers(module: ast.Module, nodes: Sequence[ast.AST]) -> bool:
    """Write the tasks of functions that ask them more than their results as numbers; whether there were any.

    >>> module = ast.parse('''import asyncio
    ... async def main(xs):
    ...     tasks = [asyncio.create_task(f(x)) for x in xs]
    ...     done, pending = await asyncio.wait(tasks, timeout=5)
    ...     for task in pending:
    ...         task.cancel()
    ...     return [task.result() for task in done]''')
    >>> tasks_as_numbers(module, list(ast.walk(module)))
    True
    >>> print(ast.unparse(module.body[1].body[-1]))
    return [await values_at_1[task] for task in done]
    """
    if not any(isinstance(one, ast.Import) and any(_is_asyncio(name) for name in one.names) for one in nodes):
        return False
    fresh, found = Fresh(nodes), False
    for one in nodes:
        if isinstance(one, ast.AsyncFunctionDef) and _asks(one):
            body = copy.deepcopy(one.body)
            try:
                one.body = _Tasks(one, body, fresh).rewritten()
                found = True
            except _Unknown:
                pass
    return found


def _is_asyncio(name: ast.alias) -> bool:
    return name.name == "asyncio" and name.asname in {None, "asyncio"}


def _started(node: ast.AST) -> ast.Call | None:
    """The call of which an expression makes a task."""
    match node:
        case ast.Call(func=func, args=[call, *_]):
            owner, _, name = (dotted(func) or "").rpartition(".")
            is_loop = owner in {"asyncio", "loop"}
            return call if name in _STARTS and is_loop and isinstance(call, ast.Call) else None
        case _:
            return None


def _asks(function: ast.AsyncFunctionDef) -> bool:
    """Whether a function asks tasks for more than their results, or keeps them where results could not be."""
    inside = list(own_nodes(function))
    if not any(_started(one) is not None for one in inside):
        return False
    names = {one.attr for one in inside if isinstance(one, ast.Attribute)}
    if names & _ASKED:
        return True
    for one in inside:
        match one:
            case ast.Await(value=ast.Call(func=func, args=[many, *_])):
                name, is_task = dotted(func), isinstance(many, ast.Name)
                if name == "asyncio.wait" or (name == "asyncio.wait_for" and is_task):
                    return True
            case ast.Call(func=func, args=[many, *_]) if dotted(func) == "asyncio.as_completed":
                if not isinstance(many, (ast.ListComp, ast.GeneratorExp)):
                    return True
            case ast.DictComp(key=key) if _started(key) is not None:
                return True
            case ast.Call(func=ast.Attribute(attr="add"), args=[key]) if _started(key) is not None:
                return True
            case ast.Subscript(slice=key, ctx=ast.Store()) if _started(key) is not None:
                return True
            case _:
                pass
    return False


class _Tasks:
    """The tasks of one function."""

    def __init__(self, function: ast.AsyncFunctionDef, body: list[ast.stmt], fresh: Fresh) -> None:
        self.function, self.body, self.fresh = function, body, fresh
        inside = list(own_nodes(ast.Module(list(body), [])))
        self.sites = [one for one in inside if _started(one) is not None]
        names = {one.attr for one in inside if isinstance(one, ast.Attribute)}
        self.is_named = "get_name" in names
        self.cancels = "cancel" in names
        self.started, self.values, self.late = fresh("started"), fresh("values"), fresh("late")
        self.order, self.row, self.new = fresh("order"), fresh("row"), fresh("new")
        self.kinds: dict[str, ast.Call] = {}
        """The calls that tasks are made of, by their forms, with what a row holds in their arguments."""
        stored = [one.id for one in inside if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
        in_loops = {name for one in inside if isinstance(one, _LOOPS[:3]) for name in names_bound(one)}
        own = {one.arg for one in parameters_of(function.args)}
        self.fixed = {name for name in {*stored, *own} if stored.count(name) <= (name not in own)} - in_loops
        """The variables that have one value wherever a task may read them."""
        self.is_ordered = self.is_limited = self.is_alone = False
        self.stored = {*stored}
        self.alike: dict[str, list[ast.Call]] = {}
        """The calls of each form."""
        for one in self.sites:
            call = cast("ast.Call", _started(one))
            self.alike.setdefault(self._form(call), []).append(call)
        self.many = len(self.alike) > 1
        self.is_live, self.loops = False, 0
        in_loop = {id(one) for each in inside if isinstance(each, _LOOPS) for one in own_nodes(each)}
        self.is_single = len(self.sites) == 1 and id(self.sites[0]) not in in_loop

    def rewritten(self) -> list[ast.stmt]:
        """The body of the function. Raises _Unknown."""
        self._check_questions()
        self._check(self.body, live=False)
        made = self.block(self.body)
        if any(_started(one) is not None for part in made for one in own_nodes(part)):
            raise _Unknown
        lists = [self.started, self.values]
        lists += [self.late] if self.is_limited else []
        lists += [self.order] if self.is_ordered else []
        begin = parsed_lines([f"{name} = []" for name in lists], self.body[0])
        return [*self._helpers(), *begin, *made]

    def _check_questions(self) -> None:
        """Raise _Unknown for questions in functions inside, and for what numbers do not answer."""
        own = {id(one) for one in own_nodes(ast.Module(self.body, []))}
        for part in self.body:
            for one in walk(part):
                match one:
                    case ast.Call(func=ast.Attribute(attr=attr)) if id(one) not in own:
                        if attr in _QUESTIONS - {"get_name"} or attr == "cancel":
                            raise _Unknown
                    case ast.Attribute(attr="set_name" | "get_coro" | "uncancel" | "set_exception"):
                        raise _Unknown
                    case _:
                        pass

    # ------------------------------------------------------------ in which order what happens

    def _check(self, block: Sequence[ast.stmt], *, live: bool) -> bool:
        """Whether tasks may have been started, and not run, behind a block that is entered so.

        Raises _Unknown where something else is awaited, or left, while tasks run.
        """
        for one in block:
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            inner = list(blocks_in(one))
            if isinstance(one, (ast.With, ast.AsyncWith)) and live:
                raise _Unknown
            head = [each for each in own_nodes(one) if id(each) not in _inside(inner)]
            if isinstance(one, ast.For):
                head = [each for each in head if id(each) in {id(part) for part in own_nodes(one.iter)}]
            live = self._check_head(one, head, live=live)
            if isinstance(one, (ast.For, ast.AsyncFor, ast.While)):
                is_entered = isinstance(one, ast.While) and _waits_for(one.body, one.test)
                for _ in range(2):
                    live = self._check(one.body, live=live) or (live and not is_entered)
                live = self._check(one.orelse, live=live)
            elif isinstance(one, ast.Try):
                first = [each for each in own_nodes(one.body[0]) if self._flushes(each)]
                ends = [self._check(one.body, live=live)]
                ends += [self._check(each, live=live and not first) for each in inner[1:]]
                live = any(ends)
            elif inner:
                ends = [self._check(each, live=live) for each in inner]
                is_skipped = isinstance(one, ast.If) and not one.orelse and not _waits_for(one.body, one.test)
                live = any(ends) or (live and is_skipped)
        return live

    def _check_head(self, one: ast.stmt, head: Sequence[ast.AST], *, live: bool) -> bool:
        starts = any(_started(each) is not None for each in head)
        awaits = [each for each in head if isinstance(each, ast.Await)]
        flushes = any(self._flushes(each) for each in awaits) or (
            isinstance(one, ast.For) and self._completed(one.iter) is not None
        )
        others = [each for each in awaits if not self._flushes(each)]
        if isinstance(one, ast.AsyncFor) and live:
            raise _Unknown
        if live and (others or isinstance(one, (ast.Return, ast.Raise, ast.Break, ast.Continue)) > flushes):
            raise _Unknown
        if starts and (flushes or isinstance(one, (ast.If, ast.While, ast.For, ast.Return))):
            raise _Unknown
        questions = {each.func.attr for each in head if _is_question(each)}
        if (live or starts) and not flushes and questions - {"get_name"}:
            raise _Unknown
        if flushes and isinstance(one, ast.While):
            raise _Unknown
        return starts or (live and not flushes)

    def _flushes(self, node: ast.AST) -> bool:
        """Whether an await waits for tasks."""
        if not isinstance(node, ast.Await):
            return False
        waited = node.value
        if not isinstance(waited, ast.Call):
            return True
        name = dotted(waited.func)
        if name == "asyncio.wait":
            return True
        if name in {"asyncio.gather", "gather"}:
            return bool(waited.args) and all(_is_task(one) for one in waited.args)
        if name == "asyncio.wait_for":  # nothing else runs beside it
            return (
                isinstance(waited.args[0], ast.Name)
                and len(waited.args) + len(waited.keywords) == 2
                and self.is_single
            )
        return isinstance(waited.func, ast.Attribute) and waited.func.attr in {"pop", "popleft"}

    def _completed(self, node: ast.expr) -> ast.expr | None:
        """The tasks that `as_completed` goes through."""
        match node:
            case ast.Call(func=func, args=[many], keywords=[]) if dotted(func) == "asyncio.as_completed":
                return many
            case _:
                return None

    # ------------------------------------------------------------ what stands there instead

    def block(self, block: Sequence[ast.stmt], after: Sequence[ast.stmt] = ()) -> list[ast.stmt]:
        """The statements of a block, behind which others follow."""
        made: list[ast.stmt] = []
        for number, one in enumerate(block):
            before: list[ast.stmt] = []
            again = self._statement(one, [*block[number + 1 :], *after], before)
            made += before
            if again is not None:
                made.append(again)
        return made or [placed(ast.Pass(), block[0])] if block else []

    def _statement(self, one: ast.stmt, rest: Sequence[ast.stmt], before: list[ast.stmt]) -> ast.stmt | None:  # noqa: PLR0911, PLR0912 - cases
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return _Questions(self, before).visit(one) if self.is_named else one
        if _only_cancels(one) or _is_discarding(one):
            return None
        awaited = self._awaits_cancelled(one)
        if awaited is not None:
            late = parsed(f"if_late not in {self.late}", one)
            cast("ast.Compare", late).left = copy.deepcopy(awaited.value)
            taken = placed(ast.Expr(self._taken(awaited.value, awaited)), one)
            return placed(ast.If(late, [taken], []), one)
        if isinstance(one, ast.For):
            many = self._completed(one.iter)
            if many is not None:
                self.is_ordered = True
                self._run(one, before)
                text = f"[_t for _t in {self.order} if _t in _many]"
                one.iter = self._with(text, self._all(many, before), one.iter)
        match one:
            case ast.Expr(value=ast.Await() as waited) if self._flushes(waited):
                if self._run_for(waited, one, rest, before):
                    return None
            case _:
                pass
        made = one
        if isinstance(one, (ast.If, ast.While, ast.For, ast.Try, ast.With, ast.AsyncWith, ast.Match)):
            blocks = list(blocks_in(one))
            held = [list(each) for each in blocks]
            final = list(getattr(one, "finalbody", []))
            for each in blocks:
                each[:] = []
            made = cast("ast.stmt", _Questions(self, before, rest).visit(one))
            is_loop = isinstance(one, (ast.While, ast.For))
            starts = any(
                _started(each) is not None for body in held for each in own_nodes(ast.Module(list(body), []))
            )
            is_live, ends = self.is_live or (is_loop and starts), list[bool]()
            self.loops += is_loop
            for each, body in zip(blocks, held, strict=True):
                self.is_live = is_live
                is_final = each is getattr(one, "finalbody", None)
                each[:] = self.block(body, rest if is_final else [*final, *rest])
                ends.append(self.is_live)
            self.loops -= is_loop
            self.is_live = is_live or any(ends) if is_loop or not all(blocks) else any(ends)
            return made
        return cast("ast.stmt", _Questions(self, before, rest).visit(one))

    def _awaits_cancelled(self, one: ast.stmt) -> ast.Await | None:
        """The await of a cancelled task whose CancelledError is passed over."""
        match one:
            case ast.Try(
                body=[ast.Expr(value=ast.Await(value=ast.Name()) as awaited)],
                handlers=[ast.ExceptHandler(type=ast.expr() as kind, body=[ast.Pass()])],
                orelse=[],
                finalbody=[],
            ) if (dotted(kind) or "").endswith("CancelledError"):
                return awaited if self.is_limited else None
            case _:
                return None

    def _all(self, many: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """The numbers of tasks that a wait is given."""
        if isinstance(many, (ast.List, ast.Set, ast.Tuple)):
            many = ast.copy_location(ast.List(many.elts, ast.Load()), many)
        return cast("ast.expr", _Questions(self, before).visit(many))

    def _with(self, text: str, many: ast.expr, place: ast.AST) -> ast.expr:
        """The expression of a text, in which `_many` stands for the tasks."""
        made, task = parsed(text, place), self.fresh("task")
        for one in walk(made):
            if isinstance(one, ast.Name) and one.id == "_t":
                one.id = task
            for field, value in ast.iter_fields(one):
                if isinstance(value, ast.Name) and value.id == "_many":
                    setattr(one, field, copy.deepcopy(many))
                elif isinstance(value, list):
                    items = cast("list[object]", value)
                    items[:] = [
                        copy.deepcopy(many) if isinstance(each, ast.Name) and each.id == "_many" else each
                        for each in items
                    ]
        return ast.fix_missing_locations(made)

    def _taken(self, task: ast.expr, node: ast.AST) -> ast.expr:
        """What a task gives, or its error again."""
        value = ast.Subscript(ast.Name(self.values, ast.Load()), task, ast.Load())
        made = placed(ast.Await(value), node)
        vars(made)[IS_TAKEN] = True
        return made

    def start(self, call: ast.Call, name: ast.expr | None, inner: set[str]) -> ast.Tuple:
        """The row of a task: which call, its name, and the arguments that are not the same for all."""
        if waits(call) or (self.is_named and name is None):
            raise _Unknown
        values: list[ast.expr] = [name] if name is not None and self.is_named else []
        form = self._form(call)
        template = self._template(call, values, inner, int(self.many), self.alike[form])
        known = self.kinds.setdefault(form, template)
        if ast.dump(known) != ast.dump(template):
            raise _Unknown
        if self.many:
            values.insert(0, ast.Constant([*self.kinds].index(form)))
        return ast.Tuple(values, ast.Load())

    def _form(self, call: ast.Call) -> str:
        words = [word.arg for word in call.keywords]
        inner = self._form(call.args[0]) if _is_around(call) and isinstance(call.args[0], ast.Call) else ""
        return f"{ast.dump(call.func)} {len(call.args)} {words} {inner}"

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
        if not isinstance(call.func, ast.Name) and not _is_around(call):
            raise _Unknown
        if any(isinstance(one, ast.Starred) for one in call.args) or any(
            word.arg is None for word in call.keywords
        ):
            raise _Unknown

        def told(value: ast.expr, path: tuple[int | str, ...]) -> ast.expr:
            if _is_around(call) and isinstance(value, ast.Call) and value is call.args[0]:
                return self._template(value, values, inner, shift, others, path)
            read = {one.id for one in walk(value) if isinstance(one, ast.Name)} - self.fixed
            same = {ast.dump(_part(one, path)) for one in others}
            if len(same) == 1 and is_shared(value, inner) and not read & self.stored:
                return copy.deepcopy(value)
            values.append(value)
            number = ast.Constant(len(values) - 1 + shift)
            return placed(ast.Subscript(ast.Name(self.row, ast.Load()), number, ast.Load()), value)

        args = [told(one, (*at, number)) for number, one in enumerate(call.args)]
        words = [ast.keyword(word.arg, told(word.value, (*at, word.arg or ""))) for word in call.keywords]
        return placed(ast.Call(copy.deepcopy(call.func), args, words), call)

    # ------------------------------------------------------------ waits

    def _run_for(
        self, waited: ast.Await, one: ast.stmt, rest: Sequence[ast.stmt], before: list[ast.stmt]
    ) -> bool:
        """Run what an await waits for whose result is not used; whether nothing else is to do."""
        call = waited.value
        if not isinstance(call, ast.Call):
            return False
        if dotted(call.func) == "asyncio.wait":
            self.waited(call, one, rest, before)
            return True
        self._run(one, before)
        return any(word.arg == "return_exceptions" for word in call.keywords)

    def waited(
        self, call: ast.Call, place: ast.AST, rest: Sequence[ast.stmt], before: list[ast.stmt]
    ) -> ast.expr:
        """What `asyncio.wait(…)` gives: the numbers of those that are done, and of those that are not."""
        given = {word.arg: word.value for word in call.keywords}
        many = call.args[0] if call.args else given.get("fs")
        if many is None or len(call.args) > 1:
            raise _Unknown
        until, limit = given.get("return_when"), given.get("timeout")
        when = "ALL_COMPLETED" if until is None else (dotted(until) or "")
        if isinstance(limit, ast.Constant) and limit.value is None:
            limit = None
        if when.endswith("ALL_COMPLETED"):
            if limit is not None and not self._stops(rest):
                raise _Unknown
            self._run(place, before, limit)
            numbers = self._all(many, before)
            if limit is None and not self.is_limited:
                return self._with("([_t for _t in _many], [])", numbers, place)
            text = (
                f"([_t for _t in _many if _t not in {self.late}], [_t for _t in _many if _t in {self.late}])"
            )
            return self._with(text, numbers, place)
        if when.endswith("FIRST_COMPLETED") and limit is None and self.loops and not self.cancels:
            self.is_ordered = True
            self._run(place, before)
            numbers = self._all(many, before)
            held = self.fresh("waited")
            before.append(
                placed(
                    ast.Assign(
                        [ast.Name(held, ast.Store())], ast.Call(ast.Name("list", ast.Load()), [numbers], [])
                    ),
                    place,
                )
            )
            text = f"([_t for _t in {self.order} if _t in {held}][:1], [_t for _t in {self.order} if _t in {held}][1:])"
            return self._with(text, numbers, place)
        raise _Unknown

    def _stops(self, rest: Sequence[ast.stmt]) -> bool:
        """Whether tasks that are late are cancelled before anything else is awaited, or the function ends."""
        for one in rest:
            if _only_cancels(one) or any(_is_cancelling(each) for each in walk(one)):
                return True
            if waits(one):
                return False
        return self.function.name == "main" and self.body[-1:] == list(rest[-1:])

    def _run(self, place: ast.AST, before: list[ast.stmt], limit: ast.expr | None = None) -> None:
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
                f"{self.new} = await asyncio.gather(*[{self._helper('limited')}({self.row}, {held}) for {self.row} in {since}])",
                f"{self.late} = [*{self.late}, *[n for n, one in enumerate({self.new}, len({self.values})) if one[1]]]",
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
                f"{self.values} = [*{self.values}, *[one[1] for one in sorted({self.new}, key=lambda one: one[0])]]",
            ]
        else:
            lines = [
                f"{self.new} = await asyncio.gather(*[_call for {self.row} in {since}], return_exceptions=True)",
                f"{self.values} = [*{self.values}, *{self.new}]",
            ]
        made = parsed_lines(lines, place)
        own = {name: self.fresh(name) for name in ("ended", "ended_as")}
        for one in (each for part in made for each in walk(part)):
            if isinstance(one, ast.Name) and one.id in own:
                one.id = own[one.id]
            if isinstance(one, ast.ListComp) and isinstance(one.elt, ast.Name) and one.elt.id == "_call":
                one.elt = self._call()
        before += made

    def _call(self) -> ast.expr:
        """The call of the task of a row."""
        if not self.many:
            return copy.deepcopy(next(iter(self.kinds.values())))
        return parsed(f"{self._helper('run')}({self.row})", self.body[0])

    def _helper(self, what: str) -> str:
        made = self.__dict__.setdefault(f"_{what}_name", None)
        if made is None:
            made = self.__dict__[f"_{what}_name"] = self.fresh(what)
        return cast("str", made)

    def _helpers(self) -> list[ast.stmt]:
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
                        f"        return [await asyncio.wait_for({self._helper('caught')}({row}), seconds), False]"
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


class _Questions(ast.NodeTransformer):
    """Writes what a statement says of tasks as what is said of numbers; what goes before it is added."""

    def __init__(self, of: _Tasks, before: list[ast.stmt], rest: Sequence[ast.stmt] = ()) -> None:
        self.of, self.before, self.rest = of, before, rest

    def _started(self, many: ast.expr, generators: list[ast.comprehension], place: ast.AST) -> ast.Tuple:
        call = cast("ast.Call", many)
        inner = {name for one in generators for name in names_bound(one.target)}
        names = {word.arg: word.value for word in call.keywords}
        return placed(self.of.start(cast("ast.Call", _started(call)), names.get("name"), inner), place)

    def _add(self, new: str, place: ast.AST) -> None:
        of = self.of
        of.is_live = True
        self.before += parsed_lines([f"{of.started} = [*{of.started}, *{new}]"], place)

    def _comprehension(self, node: ast.expr, site: ast.expr, other: ast.expr | None) -> ast.expr:
        """The numbers of the tasks that a comprehension starts, with what goes with each."""
        of, generators = self.of, cast("ast.ListComp", node).generators
        row = self._started(site, generators, node)
        new, first = of.fresh("new"), f"len({of.started})"
        if other is not None:
            row.elts.append(other)
        rows = ast.ListComp(row, generators)
        self.before.append(placed(ast.Assign([ast.Name(new, ast.Store())], rows), node))
        number, one = of.fresh("number"), of.fresh("row")
        base = of.fresh("first")
        self.before += parsed_lines([f"{base} = {first}"], node)
        self._add(new, node)
        last = len(row.elts) - 1
        match node:
            case ast.DictComp(key=key):
                pair = f"{number}: {one}[{last}]" if site is key else f"{one}[{last}]: {number}"
                text = f"{{{pair} for {number}, {one} in enumerate({new}, {base})}}"
            case _:
                text = f"list(range({base}, {base} + len({new})))"
        return parsed(text, node)

    def _of_comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> ast.AST:
        if _started(node.elt) is not None:
            return self._comprehension(node, node.elt, None)
        made = cast("ast.ListComp", self.generic_visit(node))
        return made

    visit_ListComp = visit_SetComp = visit_GeneratorExp = _of_comprehension

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        """A dict that is computed, whose keys or values may be tasks."""
        if _started(node.key) is not None:
            return self._comprehension(node, node.key, node.value)
        if _started(node.value) is not None:
            return self._comprehension(node, node.value, node.key)
        return self.generic_visit(node)

    def visit_Await(self, node: ast.Await) -> ast.AST:
        """An await, of tasks or of something else."""
        of = self.of
        if IS_TAKEN in vars(node) or not of._flushes(node):
            return self.generic_visit(node)
        waited = node.value
        if not isinstance(waited, ast.Call):
            of._run(node, self.before)
            return of._taken(cast("ast.expr", self.visit(waited)), node)
        name = dotted(waited.func)
        if name == "asyncio.wait":
            return of.waited(waited, node, self.rest, self.before)
        if name in {"asyncio.gather", "gather"}:
            of._run(node, self.before)
            keeps = any(word.arg == "return_exceptions" for word in waited.keywords)
            tasks = ast.copy_location(ast.List(waited.args, ast.Load()), node)
            many: ast.expr = tasks
            if len(waited.args) == 1 and isinstance(waited.args[0], ast.Starred):
                many = waited.args[0].value
            made = cast(
                "ast.ListComp",
                of._with(f"[{of.values}[_t] for _t in _many]", cast("ast.expr", self.visit(many)), node),
            )
            if not keeps:
                made.elt = of._taken(cast("ast.Subscript", made.elt).slice, node)
            return made
        if name == "asyncio.wait_for":
            limit = waited.args[1] if len(waited.args) > 1 else waited.keywords[0].value
            of.is_alone = True
            of._run(node, self.before, limit)
            return of._taken(cast("ast.expr", self.visit(waited.args[0])), node)
        of._run(node, self.before)
        return of._taken(cast("ast.expr", self.visit(waited)), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call: what starts a task, or asks one."""
        of = self.of
        if _started(node) is not None:
            row = self._started(node, [], node)
            of.is_live = True
            held = of.fresh("task")
            self.before += parsed_lines([f"{held} = len({of.started})"], node)
            new = ast.List([ast.Starred(ast.Name(of.started, ast.Load()), ast.Load()), row], ast.Load())
            self.before.append(placed(ast.Assign([ast.Name(of.started, ast.Store())], new), node))
            return placed(ast.Name(held, ast.Load()), node)
        match node:
            case ast.Call(func=ast.Attribute(value=task, attr=attr), args=[], keywords=[]) if (
                attr in _QUESTIONS
            ):
                return self._answer(cast("ast.expr", self.visit(task)), attr, node)
            case ast.Call(func=ast.Attribute(attr="cancel"), args=[]):
                raise _Unknown
            case ast.Call(args=[ast.GeneratorExp() as many]):
                made = cast("ast.Call", self.generic_visit(node))
                again = made.args[0]
                is_consumed = isinstance(node.func, ast.Attribute) or dotted(node.func) in _CONSUMERS
                if isinstance(again, ast.GeneratorExp) and is_consumed and _takes(again):
                    made.args[0] = ast.copy_location(ast.ListComp(again.elt, again.generators), many)
                return made
            case _:
                return self.generic_visit(node)

    def _answer(self, task: ast.expr, what: str, node: ast.Call) -> ast.expr:
        of = self.of
        if what == "result":
            return of._taken(task, node)
        if what == "get_name":
            text = f"{of.started}[_many][{int(of.many)}]"
        elif what == "exception":
            text = f"{of.values}[_many].exception()"
        else:
            is_late = what == "cancelled"
            if not of.is_limited:
                return placed(ast.Constant(not is_late), node)
            text = f"_many {'in' if is_late else 'not in'} {of.late}"
        return of._with(text, task, node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """A function of its own, which may ask for names."""
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """An async function of its own."""
        return node


def _takes(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Await) for one in walk(node))


def _part(call: ast.Call, path: Sequence[int | str]) -> ast.expr:
    """An argument of a call, or of a call in it, by its places and names."""
    part: ast.expr = call
    for one in path:
        inner = cast("ast.Call", part)
        named = {word.arg: word.value for word in inner.keywords}
        part = inner.args[one] if isinstance(one, int) else named[one]
    return part


def _is_around(call: ast.Call) -> bool:
    return dotted(call.func) in _AROUND and bool(call.args)


def _is_task(node: ast.expr) -> bool:
    """Whether an argument of gather is a task, or several, and no call."""
    if isinstance(node, ast.Starred):
        many = node.value
        if isinstance(many, ast.Call):
            return isinstance(many.func, ast.Attribute) and many.func.attr in {"values", "keys", "copy"}
        return isinstance(many, (ast.Name, ast.Subscript, ast.Attribute))
    return isinstance(node, (ast.Name, ast.Subscript))


def _is_question(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=attr), args=[], keywords=[]):
            return attr in _QUESTIONS
        case _:
            return False


def _is_cancelling(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="cancel"), args=[]):
            return True
        case _:
            return False


def _only_cancels(one: ast.stmt) -> bool:
    """Whether a statement only cancels tasks, which by then are done or stopped."""
    match one:
        case ast.Expr(value=value) if _is_cancelling(value):
            return True
        case ast.Expr(value=ast.ListComp(elt=value)) if _is_cancelling(value):
            return True
        case ast.For(iter=source, body=body, orelse=[]) if not waits(source):
            return all(map(_only_cancels, body))
        case ast.If(test=test, body=body, orelse=[]) if not waits(test):
            return all(map(_only_cancels, body))
        case _:
            return False


def _is_discarding(one: ast.stmt) -> bool:
    """Whether a statement lets a task leave a set when it is done, which holds it only to keep it alive."""
    match one:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(attr="add_done_callback"), args=[ast.Attribute(attr="discard" | "remove")]
            )
        ):
            return True
        case _:
            return False


def _waits_for(body: Sequence[ast.stmt], many: ast.expr) -> bool:
    """Whether a block waits for tasks of which a test asks whether there are any."""
    return isinstance(many, ast.Name) and any(
        isinstance(each, ast.Call)
        and dotted(each.func) == "asyncio.wait"
        and ast.dump(each.args[0]) == ast.dump(many)
        for one in body
        for each in own_nodes(one)
        if isinstance(each, ast.Call) and each.args
    )


def _inside(blocks: Sequence[Sequence[ast.stmt]]) -> set[int]:
    return {id(each) for block in blocks for one in block for each in _nodes(one)}


def _nodes(one: ast.stmt) -> Iterator[ast.AST]:
    return walk(one)
