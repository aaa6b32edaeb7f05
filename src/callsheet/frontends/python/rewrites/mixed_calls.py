"""Lists of calls of different functions that a gather awaits, as calls of one async function that makes each.

In: the tree of a file, which is changed in place. `jobs += [f(x) for x in xs]` becomes appends, and where a
list has calls of several functions, each is one of a new function, which is told what to call and with what.
A dict whose values are gathered becomes a list of its keys and one of its calls. A call `f(**x)`
becomes one of a function that makes it.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Container, Iterable, Iterator
from typing import cast

from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_in
from callsheet.frontends.python.rewrites.task_words import task_of
from callsheet.frontends.python.source import Nodes, dotted, is_named, last_name, names_bound, own_nodes
from callsheet.frontends.python.syntax import PuttingNodes, Renaming, placed


def mixed_calls_as_one(nodes: Nodes) -> bool:
    """Let each list of calls that is gathered hold calls of one function; whether any list was changed.

    >>> module = ast.parse('''async def main(xs):
    ...     jobs = [log("start")]
    ...     jobs += [post(x) for x in xs]
    ...     return await asyncio.gather(*jobs)''')
    >>> mixed_calls_as_one(Nodes(module))
    True
    >>> print(ast.unparse(module))
    async def main(xs):
    <BLANKLINE>
        async def jobs_at_1(which, given):
            if which == 0:
                return await log(given[0])
            return await post(given[0])
        jobs = []
        jobs.append(jobs_at_1(0, ('start',)))
        for x_at_1 in xs:
            jobs.append(jobs_at_1(1, (x_at_1,)))
        return await asyncio.gather(*jobs)
    """
    fresh = Fresh(nodes)
    pure = {*dir(builtins)}
    pure |= {one.name for one in nodes.of(ast.FunctionDef, ast.ClassDef)}
    pure |= {one.asname or one.name for one in nodes.of(ast.alias)}
    changed = False
    for function in nodes.of(ast.AsyncFunctionDef):
        changed = _dicts_as_lists(function, fresh) or changed
        for name in _gathered(function):
            changed = _List(function, name, fresh, pure).settle() or changed
    return changed


def _gathered(function: ast.AsyncFunctionDef) -> list[str]:
    """The variables whose calls a function gathers."""
    found = [one.id for one in _spread_in_gathers(own_nodes(*function.body)) if isinstance(one, ast.Name)]
    return list(dict.fromkeys(found))


def _spread_in_gathers(nodes: Iterable[ast.AST]) -> list[ast.expr]:
    """What the gathers among some nodes are given with a star."""
    return [
        one.value
        for call in nodes
        if isinstance(call, ast.Call) and last_name(call.func) == "gather"
        for one in call.args
        if isinstance(one, ast.Starred)
    ]


def _dicts_as_lists(function: ast.AsyncFunctionDef, fresh: Fresh) -> bool:
    """Write `calls = {key: f(x) for …}`, whose values are gathered, as two lists; whether there was any."""
    changed = False
    gathered = {
        (dotted(one.func) or "").partition(".")[0]
        for one in _spread_in_gathers(own_nodes(*function.body))
        if isinstance(one, ast.Call)
    }
    for number, one in reversed(list(enumerate(function.body))):
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() | ast.DictComp() as made) if (
                name in gathered
            ):
                keys = fresh(f"{name}_keys")
                uses = _uses_of_dict(function, name, keys)
                lists = None if uses is None else _lists_of(name, keys, made, fresh)
                if uses is not None and lists is not None:
                    PuttingNodes(uses).visit(function)
                    function.body[number : number + 1] = [placed(each, one) for each in lists]
                    changed = True
            case _:
                pass
    return changed


def _uses_of_dict(function: ast.AsyncFunctionDef, name: str, keys: str) -> dict[int, ast.expr] | None:
    """What stands for each use of a dict of calls; None if it is used in other ways than these."""
    found: dict[int, ast.expr] = {}
    inside, gathers = list(own_nodes(*function.body)), 0
    methods = {id(one.func): one for one in inside if isinstance(one, ast.Call) and not one.args}
    owners = {id(one.value): one for one in inside if isinstance(one, ast.Attribute)}
    stars = {id(one) for one in _spread_in_gathers(inside)}
    for one in inside:
        if not (is_named(one, name) and isinstance(one.ctx, ast.Load)):
            continue
        owner = owners.get(id(one))
        call = methods.get(id(owner))
        if owner is None:
            found[id(one)] = ast.copy_location(ast.Name(keys, ast.Load()), one)
        elif call is not None and owner.attr == "values" and id(call) in stars:
            found[id(call)] = ast.copy_location(ast.Name(name, ast.Load()), one)
            gathers += 1
        elif call is not None and owner.attr == "keys":
            found[id(call)] = ast.copy_location(ast.Name(keys, ast.Load()), one)
        else:
            return None
    stores = sum(is_named(one, name) and not isinstance(one.ctx, ast.Load) for one in inside)
    is_read = any(isinstance(one, ast.Subscript) and is_named(one.value, name) for one in inside)
    return found if gathers == 1 and stores == 1 and not is_read else None


def _lists_of(name: str, keys: str, made: ast.Dict | ast.DictComp, fresh: Fresh) -> list[ast.stmt] | None:
    """The list of a dict's keys and that of its calls."""

    def is_call(value: ast.expr) -> bool:
        return _call_in(value) is not None

    if isinstance(made, ast.Dict):
        constants = [one.value for one in made.keys if isinstance(one, ast.Constant)]
        if len({*constants}) < len(made.keys) or not all(map(is_call, made.values)):
            return None
        known = [one for one in made.keys if one is not None]
        return [
            ast.Assign([ast.Name(keys, ast.Store())], ast.List(known, ast.Load())),
            ast.Assign([ast.Name(name, ast.Store())], ast.List(made.values, ast.Load())),
        ]
    if len(made.generators) != 1 or made.generators[0].is_async or _call_in(made.value) is not made.value:
        return None
    (part,) = made.generators
    items = fresh(f"{name}_items")
    held = copy.deepcopy(part.target)
    for one in ast.walk(held):
        if isinstance(one, (ast.Name, ast.Tuple, ast.List)):
            one.ctx = ast.Load()
    values = ast.Call(ast.Attribute(ast.Name(items, ast.Load()), "values", ast.Load()), [], [])
    values = ast.Call(ast.Name("list", ast.Load()), [values], [])
    again = ast.comprehension(copy.deepcopy(part.target), values, [], 0)
    listed = ast.Call(ast.Name("list", ast.Load()), [ast.Name(items, ast.Load())], [])
    return [
        ast.Assign([ast.Name(items, ast.Store())], ast.DictComp(made.key, held, [part])),
        ast.Assign([ast.Name(keys, ast.Store())], listed),
        ast.Assign([ast.Name(name, ast.Store())], ast.ListComp(made.value, [again])),
    ]


def _call_in(node: ast.expr) -> ast.Call | None:
    """The call that an element of a list is, without the task around it; None for anything else."""
    given = task_of(node)
    if given is not None:
        return _call_in(given)
    if not isinstance(node, ast.Call):
        return None
    has_stars = any(isinstance(one, ast.Starred) for one in node.args)
    is_plain = isinstance(node.func, ast.Name) and not has_stars
    return node if is_plain and all(word.arg is not None for word in node.keywords) else None


class _List:
    """One list of calls: where it gets its elements, and what they call."""

    def __init__(self, function: ast.AsyncFunctionDef, name: str, fresh: Fresh, pure: Container[str]) -> None:
        self.function, self.name, self.fresh, self.pure = function, name, fresh, pure
        self.calls: list[ast.Call] = []
        self.adds_many = False

    def settle(self) -> bool:
        """Let it get calls of one function, one at a time; whether that was not so already."""
        places = [each for one in self._blocks(self.function.body) for each in one]
        kinds = [self._elements(one) for one in places]
        uses = sum(is_named(one, self.name) for one in own_nodes(*self.function.body))
        known = sum(kind is not None for kind in kinds)
        for elements in kinds:
            for one in elements or ():
                call = _call_in(one)
                if call is None:
                    return False
                self.calls.append(call)
        forms = {self._form(one) for one in self.calls}
        if uses != known + 1 or not (self.adds_many or len(forms) > 1) or not self.calls:
            return False
        for block in self._blocks(self.function.body):
            block[:] = [each for one in block for each in self._appends(one)]
        if len(forms) > 1:
            self._dispatch()
        return True

    def _blocks(self, body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
        yield body
        for one in list(body):
            if not isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                for inner in blocks_in(one):
                    yield from self._blocks(inner)

    def _form(self, call: ast.Call) -> tuple[object, ...]:
        values = [*call.args, *(word.value for word in call.keywords)]
        inner = tuple(self._form(cast("ast.Call", one)) if self._is_later(one) else () for one in values)
        return cast("ast.Name", call.func).id, inner, *(word.arg for word in call.keywords)

    def _is_it(self, node: ast.AST) -> bool:
        return is_named(node, self.name)

    def _elements(self, one: ast.stmt) -> list[ast.expr] | None:
        """The elements that a statement puts into the list; None for one that does not."""
        match one:
            case ast.Assign(targets=[target], value=ast.List(elts=elements)) if self._is_it(target):
                return elements
            case ast.AnnAssign(target=target, value=ast.List(elts=elements)) if self._is_it(target):
                return elements
            case ast.Assign(targets=[target], value=ast.ListComp(elt=element)) if self._is_it(target):
                return [element]
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=target, attr="append"), args=[element], keywords=[])
            ) if self._is_it(target):
                return [element]
            case (
                ast.AugAssign(target=target, op=ast.Add(), value=many)
                | ast.Expr(value=ast.Call(func=ast.Attribute(value=target, attr="extend"), args=[many]))
            ) if self._is_it(target):
                self.adds_many = True
                if isinstance(many, (ast.ListComp, ast.GeneratorExp)):
                    return [many.elt]
                return list(many.elts) if isinstance(many, (ast.List, ast.Tuple)) else None
            case _:
                return None

    def _appends(self, one: ast.stmt) -> list[ast.stmt]:
        elements = self._elements(one)
        if elements is None or (isinstance(one, ast.Expr) and _is_append(one)):
            return [one]
        start = isinstance(one, (ast.Assign, ast.AnnAssign))
        made: list[ast.stmt] = []
        if start:
            made.append(placed(ast.Assign([ast.Name(self.name, ast.Store())], ast.List([], ast.Load())), one))
        value = cast("ast.Expr", one).value
        if isinstance(value, ast.Call):
            value = value.args[0]
        if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
            return [*made, self._loop(value, one)]
        return [*made, *(self._append(each, one) for each in elements)]

    def _append(self, element: ast.expr, place: ast.AST) -> ast.stmt:
        method = ast.Attribute(ast.Name(self.name, ast.Load()), "append", ast.Load())
        return placed(ast.Expr(ast.Call(method, [element], [])), place)

    def _loop(self, many: ast.ListComp | ast.GeneratorExp, place: ast.AST) -> ast.stmt:
        names = {
            name: self.fresh(name) for part in many.generators for name in sorted(names_bound(part.target))
        }
        made = self._append(many.elt, place)
        for part in reversed(many.generators):
            for test in reversed(part.ifs):
                made = placed(ast.If(test, [made], []), place)
            made = placed(ast.For(part.target, part.iter, [made], []), place)
        renaming = Renaming(names)
        if isinstance(made, ast.For):  # the first iterable is evaluated outside
            first, made.iter = made.iter, ast.Constant(None)
            made = cast("ast.For", renaming.visit(made))
            made.iter = first
        return made

    def _dispatch(self) -> None:
        """Make the function that makes each of the calls, and let the list hold calls of it."""
        name = self.fresh(self.name)
        which = "which"
        known: dict[tuple[object, ...], int] = {}
        branches: list[ast.stmt] = []
        for call in self.calls:
            form = self._form(call)
            number = known.setdefault(form, len(known))
            values: list[ast.expr] = []
            made = self._told(call, values)
            if number == len(branches):
                branches.append(placed(ast.Return(ast.Await(made)), call))
            call.func = ast.copy_location(ast.Name(name, ast.Load()), call.func)
            call.args = [placed(ast.Constant(number), call), placed(ast.Tuple(values, ast.Load()), call)]
            call.keywords = []
        body: list[ast.stmt] = []
        for number, branch in enumerate(branches[:-1]):
            test = ast.Compare(ast.Name(which, ast.Load()), [ast.Eq()], [ast.Constant(number)])
            body.append(placed(ast.If(test, [branch], []), branch))
        body.append(branches[-1])
        arguments = ast.arguments([], [ast.arg(which), ast.arg("given")], None, [], [], None, [])
        made = ast.AsyncFunctionDef(name, arguments, body, [], None)
        vars(made)["type_params"] = []
        self.function.body.insert(0, placed(made, self.calls[0]))

    def _told(self, call: ast.Call, values: list[ast.expr]) -> ast.Call:
        """A call with what it is told in the place of its arguments, which are added to the values."""

        def told(value: ast.expr) -> ast.expr:
            if self._is_later(value):
                return self._told(cast("ast.Call", value), values)
            values.append(value)
            given = ast.Name("given", ast.Load())
            return placed(ast.Subscript(given, ast.Constant(len(values) - 1), ast.Load()), value)

        args = [told(one) for one in call.args]
        words = [ast.keyword(word.arg, told(word.value)) for word in call.keywords]
        return ast.copy_location(ast.Call(copy.deepcopy(call.func), args, words), call)

    def _is_later(self, value: ast.expr) -> bool:
        """Whether an argument is a call that its function awaits."""
        return (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Name)
            and value.func.id not in self.pure
            and _call_in(value) is value
        )


def _is_append(one: ast.Expr) -> bool:
    return isinstance(one.value, ast.Call) and (dotted(one.value.func) or "").endswith(".append")


def spread_calls_as_functions(module: ast.Module, nodes: Nodes) -> bool:
    """Let `f(*x)` and `f(**x)` in a list of calls be calls of a function that awaits it; whether any is.

    Where a call is awaited by itself, its arguments are told apart by their names before it is made.

    >>> module = ast.parse("async def main(xs):\\n    await asyncio.gather(*(send(to=1, **x) for x in xs))")
    >>> spread_calls_as_functions(module, Nodes(module))
    True
    >>> print(ast.unparse(module))
    async def send_spread_at_1(to, given_at_1):
        return await send(to=to, **given_at_1)
    <BLANKLINE>
    async def main(xs):
        await asyncio.gather(*(send_spread_at_1(1, x) for x in xs))
    """
    fresh = Fresh(nodes)
    made: list[ast.stmt] = []
    for one in nodes.of(ast.AsyncFunctionDef):
        own = names_bound(*one.body)  # no name of the file
        for call, is_kept in _gathered_elements(one):
            spread = [word for word in call.keywords if word.arg is None]
            spread = [word for word in spread if not isinstance(word.value, ast.Dict)]
            is_named = isinstance(call.func, ast.Name) and call.func.id not in own
            stars = [each for each in call.args if isinstance(each, ast.Starred)]
            if is_named and len(spread) + len(stars) == 1 and stars in ([], call.args[-1:]):
                if is_kept and spread:  # what is spread may be changed before the call runs
                    spread[0].value = placed(ast.Dict([None], [spread[0].value]), call)
                made.append(_spread_function(call, fresh))
    module.body[:0] = made
    return bool(made)


def _gathered_elements(function: ast.AsyncFunctionDef) -> Iterator[tuple[ast.Call, bool]]:
    """The calls that comprehensions make and a gather awaits, and whether a variable keeps them."""
    gathered = {*_gathered(function)}
    for node in own_nodes(*function.body):
        match node:
            case ast.Call(args=[ast.Starred(value=ast.ListComp(elt=made) | ast.GeneratorExp(elt=made))]):
                is_task = last_name(node.func) == "gather"
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.ListComp(elt=made)):
                is_task = name in gathered
            case _:
                continue
        while (given := task_of(made)) is not None:
            made, is_task = given, True
        if is_task and isinstance(made, ast.Call):
            yield made, isinstance(node, ast.Assign)


def _spread_function(call: ast.Call, fresh: Fresh) -> ast.stmt:
    """The function that makes a call, which becomes one of that function."""
    name, given = cast("ast.Name", call.func).id, fresh("given")
    plain = [fresh(f"{name}_argument") for _ in call.args]
    names = [*plain, *(word.arg or given for word in call.keywords)]
    stars = ["*" if isinstance(one, ast.Starred) else "" for one in call.args]
    inner = [star + one for star, one in zip(stars, plain, strict=True)]
    inner = [*inner, *(f"{word.arg}={word.arg}" if word.arg else f"**{given}" for word in call.keywords)]
    helper = fresh(f"{name}_spread")
    text = f"async def {helper}({', '.join(names)}):\n    return await {name}({', '.join(inner)})"
    call.func = ast.copy_location(ast.Name(helper, ast.Load()), call.func)
    args = [
        placed(ast.List([one], ast.Load()), one) if star else one
        for star, one in zip(stars, call.args, strict=True)
    ]
    call.args = [*args, *(word.value for word in call.keywords)]
    call.keywords = []
    return placed(ast.parse(text).body[0], call)
