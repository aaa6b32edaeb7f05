"""Parameters of async functions that are no values: semaphores that callers hand on, and `*args`.

In: the tree of a file, which is changed in place. A semaphore that is made once and handed to functions is
made in each function that it limits; what `*args` collects is handed over as one tuple. Where a call does not
tell what it hands over, the function stays as it is.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Final, cast

from callsheet.frontends.python.rewrites.inlining import Fresh, name_called
from callsheet.frontends.python.source import Nodes, dotted, given_by_default, own_nodes, parameters_of, walk
from callsheet.frontends.python.syntax import SHARED_LOCK, placed

SEMAPHORES: Final = frozenset({"Semaphore", "BoundedSemaphore", "Lock"})


def settle_parameters(module: ast.Module, nodes: Nodes) -> bool:
    """Rewrite the async functions of a file that take semaphores or `*args`; whether there were any.

    >>> module = ast.parse("async def f(*xs): pass\\nasync def main(): await f(1, 2)")
    >>> settle_parameters(module, Nodes(module))
    True
    >>> print(ast.unparse(module.body[1]))
    async def main():
        await f(xs=(1, 2))
    """
    functions = nodes.of(ast.AsyncFunctionDef)
    has_star = any(one.args.vararg is not None or one.args.kwarg is not None for one in functions)
    has_limits = any(map(makes_semaphore, nodes.of(ast.Call)))
    if not has_star and not has_limits:
        return False
    names = [one.name for one in functions]
    single = {one.name: one for one in functions if names.count(one.name) == 1}
    calls = _calls_of(nodes, single)
    changed = False
    for name, function in single.items():
        changed = _without_words(function, calls[name]) or changed
        changed = _without_star(function, calls[name]) or changed
    if has_limits:
        changed = _Semaphores(module, single, calls).settle() or changed
    return changed


def semaphores_of_objects(module: ast.Module, nodes: Nodes) -> bool:
    """Write a semaphore that is a field, and only limits, as one of the file; whether there was any.

    >>> module = ast.parse('''class Client:
    ...     def __init__(self, most=3):
    ...         self.limit = asyncio.Semaphore(most)
    ...     async def read(self, name):
    ...         async with self.limit:
    ...             return await get(name)''')
    >>> semaphores_of_objects(module, Nodes(module))
    True
    >>> print(ast.unparse(module))
    limit_at_1 = asyncio.Semaphore(3)
    <BLANKLINE>
    class Client:
    <BLANKLINE>
        def __init__(self, most=3):
            pass
    <BLANKLINE>
        async def read(self, name):
            async with limit_at_1:
                return await get(name)
    """
    fresh, made = Fresh(nodes), list[tuple[ast.ClassDef, ast.stmt]]()
    for one in module.body:
        inits = [each for each in one.body if _is_init(each)] if isinstance(one, ast.ClassDef) else []
        for init in inits:
            for number, each in enumerate(cast("ast.FunctionDef", init).body):
                match each:
                    case (
                        ast.Assign(targets=[ast.Attribute(value=ast.Name(), attr=field)], value=value)
                        | ast.AnnAssign(
                            target=ast.Attribute(value=ast.Name(), attr=field), value=ast.expr() as value
                        )
                    ) if makes_semaphore(value):
                        semaphore = _settled(value, cast("ast.FunctionDef", init), one, nodes)
                        if semaphore is None or not _only_limits(field, nodes):
                            continue
                        name = fresh(field.lstrip("_"))
                        cast("ast.FunctionDef", init).body[number] = placed(ast.Pass(), each)
                        _name_limit(field, name, nodes)
                        held = ast.Assign([ast.Name(name, ast.Store())], semaphore)
                        made.append((cast("ast.ClassDef", one), placed(held, each)))
                    case _:
                        pass
    for owner, stmt in made:
        module.body.insert(module.body.index(owner), stmt)
    return bool(made)


def idle_locks_left_out(module: ast.Module, nodes: Nodes) -> bool:
    """Leave out locks inside of which nothing is awaited: no other task runs there. Whether there was any.

    >>> module = ast.parse('''async def main():
    ...     lock = asyncio.Lock()
    ...     async with lock:
    ...         n += 1''')
    >>> idle_locks_left_out(module, Nodes(module))
    True
    >>> print(ast.unparse(module))
    async def main():
        pass
        n += 1
    """
    made = {
        id(target): (target.id, one)
        for one in nodes
        if isinstance(one, (ast.Assign, ast.AnnAssign))
        and one.value is not None
        and makes_semaphore(one.value)
        and name_called(one.value).endswith("Lock")
        for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
        if isinstance(target, ast.Name)
    }
    idle = {id(one.items[0].context_expr) for one in nodes.of(ast.AsyncWith) if _awaits_nothing_inside(one)}
    named = {one.arg for one in nodes.of(ast.arg)} | {one.attr for one in nodes.of(ast.Attribute)}
    named |= {name for one in nodes if isinstance(one, (ast.Nonlocal, ast.Global)) for name in one.names}
    others = {one.id for one in nodes.of(ast.Name) if id(one) not in made and id(one) not in idle}
    locks = {name for name, one in made.values() if isinstance(one, ast.AnnAssign) or len(one.targets) == 1}
    locks -= named | others
    if locks:
        _LeftOut(locks, {id(one) for _, one in made.values()}).visit(module)
    return bool(locks)


_WAITS: Final = (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.Yield, ast.comprehension)


def _awaits_nothing_inside(one: ast.AsyncWith) -> bool:
    inside = (each for part in one.body for each in ast.walk(part) if isinstance(each, _WAITS))
    return (
        len(one.items) == 1
        and one.items[0].optional_vars is None
        and all(isinstance(each, ast.comprehension) and not each.is_async for each in inside)
    )


class _LeftOut(ast.NodeTransformer):
    """Puts the statements inside of some locks in their place."""

    def __init__(self, locks: set[str], made: set[int]) -> None:
        self.locks, self.made = locks, made

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        entered = node.items[0].context_expr
        return node.body if isinstance(entered, ast.Name) and entered.id in self.locks else node

    def _without(self, node: ast.Assign | ast.AnnAssign) -> ast.stmt:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        is_lock = id(node) in self.made and isinstance(target, ast.Name) and target.id in self.locks
        return placed(ast.Pass(), node) if is_lock else node

    visit_Assign = visit_AnnAssign = _without


def _is_init(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "__init__"


def _settled(value: ast.expr, init: ast.FunctionDef, owner: ast.stmt, nodes: Nodes) -> ast.expr | None:
    """How a semaphore is made, with the number in it where a parameter has it; None if that varies."""
    call = copy.deepcopy(cast("ast.Call", value))
    for number, one in enumerate(call.args):
        if isinstance(one, ast.Constant):
            continue
        names = [each.arg for each in parameters_of(init.args)]
        if not isinstance(one, ast.Name) or one.id not in names:
            return None
        at = names.index(one.id)
        made = [each for each in nodes.of(ast.Call) if dotted(each.func) == cast("ast.ClassDef", owner).name]
        given = [_argument(each, at - 1, one.id) for each in made]
        default = dict(given_by_default(init.args)).get(one.id)
        limits = [default if each is None else each for each in given] or [default]
        if len(limits) != 1 or not isinstance(limits[0], ast.Constant):
            return None
        call.args[number] = limits[0]
    return None if call.keywords else call


def _argument(call: ast.Call, at: int, name: str) -> ast.expr | None:
    """What a call gives a parameter."""
    named = {word.arg: word.value for word in call.keywords}
    return call.args[at] if at < len(call.args) else named.get(name)


def _only_limits(field: str, nodes: Nodes) -> bool:
    """Whether all uses of a field are `async with self.field`, and it is set once."""
    limits = [one.context_expr for one in nodes.of(ast.withitem)]
    used = [one for one in nodes.of(ast.Attribute) if one.attr == field]
    stored = [one for one in used if isinstance(one.ctx, ast.Store)]
    return len(stored) == 1 and all(
        isinstance(one.value, ast.Name) and any(one is each for each in limits)
        for one in used
        if one not in stored
    )


def _name_limit(field: str, name: str, nodes: Nodes) -> None:
    for one in nodes:
        match one:
            case ast.withitem(context_expr=ast.Attribute(attr=attr) as limit) if attr == field:
                one.context_expr = placed(ast.Name(name, ast.Load()), limit)
            case _:
                pass


def _lets_one_through(made: ast.Call) -> bool:
    values = [*made.args, *(word.value for word in made.keywords)]
    ones = [one for one in values if isinstance(one, ast.Constant) and one.value == 1]
    return (dotted(made.func) or "").endswith("Lock") or len(ones) == len(values)


def makes_semaphore(node: ast.AST | None) -> bool:
    """Whether an expression makes a semaphore or a lock."""
    return isinstance(node, ast.Call) and name_called(node).rpartition(".")[2] in SEMAPHORES


def _calls_of(nodes: Nodes, functions: dict[str, ast.AsyncFunctionDef]) -> dict[str, list[ast.Call] | None]:
    """The calls of each function; None for one that is also used as a value."""
    found: dict[str, list[ast.Call] | None] = {name: [] for name in functions}
    called: set[int] = set()
    for one in nodes:
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in found:
            called.add(id(one.func))
            calls = found[one.func.id]
            if calls is not None:
                calls.append(one)
    for one in nodes:
        if isinstance(one, ast.Name) and one.id in found and id(one) not in called:
            found[one.id] = None
    return found


def _calls_own(function: ast.AsyncFunctionDef) -> bool:
    """Whether a function is given what to call: it is copied for each call."""
    own = {one.arg for one in parameters_of(function.args)}
    return any(isinstance(one, ast.Call) and dotted(one.func) in own for one in own_nodes(function))


def _without_star(function: ast.AsyncFunctionDef, calls: list[ast.Call] | None) -> bool:
    """Let a function take what `*args` collects as one tuple by its name; whether it does now."""
    star, of = function.args.vararg, function.args
    if star is None or of.kwarg is not None or not calls:
        return False
    count = len(of.posonlyargs) + len(of.args)
    if _calls_own(function) or any(
        isinstance(one, ast.Starred) for call in calls for one in call.args[: min(count, len(call.args) - 1)]
    ):
        return False
    for call in calls:
        if count and len(call.args) <= count and _ends_in_star(call):
            _split_star(call, count, star.arg)
            continue
        rest = call.args[count:]
        place = rest[0] if rest else call
        given = ast.copy_location(ast.Tuple(rest, ast.Load()), place)
        del call.args[count:]
        call.keywords.append(ast.copy_location(ast.keyword(star.arg, given), place))
    of.vararg = None
    of.kwonlyargs.append(star)
    of.kw_defaults.append(ast.copy_location(ast.Tuple([], ast.Load()), star))
    return True


def _ends_in_star(call: ast.Call) -> bool:
    return bool(call.args) and isinstance(call.args[-1], ast.Starred)


def _split_star(call: ast.Call, count: int, name: str) -> None:
    """`f(a, *xs)` where some of `xs` are for named parameters: these behind the star, the others by name."""
    *first, last = call.args
    given = ast.Name(f"{name}_given", ast.Store())
    items = ast.Tuple([last], ast.Load())
    left = count - len(first)
    head = ast.Subscript(ast.NamedExpr(given, items), ast.Slice(None, ast.Constant(left)), ast.Load())
    tail = ast.Subscript(ast.Name(given.id, ast.Load()), ast.Slice(ast.Constant(left)), ast.Load())
    call.args[-1] = placed(ast.Starred(head, ast.Load()), last)
    call.keywords.append(ast.fix_missing_locations(ast.copy_location(ast.keyword(name, tail), last)))


def _without_words(function: ast.AsyncFunctionDef, calls: list[ast.Call] | None) -> bool:
    """Let a function take what `**words` collects as one dict by its name; whether it does now."""
    of = function.args
    star = of.kwarg
    if star is None or not calls or any(word.arg is None for call in calls for word in call.keywords):
        return False
    if _calls_own(function):
        return False
    own = {one.arg for one in parameters_of(of)}
    for call in calls:
        rest = [word for word in call.keywords if word.arg not in own - {star.arg}]
        keys: list[ast.expr | None] = [ast.copy_location(ast.Constant(word.arg), word) for word in rest]
        place = rest[0] if rest else call
        given = ast.copy_location(ast.Dict(keys, [word.value for word in rest]), place)
        call.keywords = [word for word in call.keywords if word not in rest]
        call.keywords.append(ast.copy_location(ast.keyword(star.arg, given), place))
    of.kwarg = None
    of.kwonlyargs.append(star)
    of.kw_defaults.append(None)
    return True


class _Semaphores:
    """Finds which parameters are semaphores, and which ones."""

    def __init__(
        self,
        module: ast.Module,
        functions: dict[str, ast.AsyncFunctionDef],
        calls: dict[str, list[ast.Call] | None],
    ) -> None:
        self.module, self.functions, self.calls = module, functions, calls
        self.made: dict[str, ast.Call | None] = {}
        """The semaphores of variables by name; None for a name that is set more than once."""
        for one in walk(module):
            match one:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as value)
                ) if makes_semaphore(value):
                    self.made[name] = None if name in self.made else value
                case _:
                    pass

    def settle(self) -> bool:
        """Make the semaphores where they limit; whether anything is changed."""
        found = self._parameters()
        limits = {place: self._limit(*place, found, frozenset()) for place in found}
        changed = False
        for (name, parameter), limit in limits.items():
            if limit is not None:
                self._make_inside(self.functions[name], parameter, limit)
                self._take_out(name, parameter)
                changed = True
        return self._of_file() or changed

    def _parameters(self) -> set[tuple[str, str]]:
        """The parameters that an `async with` enters, or that are handed on as such."""
        found: set[tuple[str, str]] = set()
        for name, function in self.functions.items():
            entered = {one.id for one in _entered(function)}
            found |= {(name, one.arg) for one in parameters_of(function.args) if one.arg in entered}
        before = -1
        while len(found) != before:
            before = len(found)
            for name, function in self.functions.items():
                own = {one.arg for one in parameters_of(function.args)}
                for callee, parameter in list(found):
                    for call in _calls_in(function, callee):
                        given = self._given(call, callee, parameter)
                        if isinstance(given, ast.Name) and given.id in own:
                            found.add((name, given.id))
        return {place for place in found if self._is_only_entered(*place, found)}

    def _is_only_entered(self, name: str, parameter: str, found: set[tuple[str, str]]) -> bool:
        function = self.functions[name]
        fine = {id(one) for one in _entered(function)}
        for callee, other in found:
            for call in _calls_in(function, callee):
                fine.add(id(self._given(call, callee, other)))
        return all(
            id(one) in fine
            for part in function.body
            for one in walk(part)
            if isinstance(one, ast.Name) and one.id == parameter
        )

    def _given(self, call: ast.Call, callee: str, parameter: str) -> ast.expr | None:
        """What a call hands over for a parameter; None if that is not plain."""
        for word in call.keywords:
            if word.arg == parameter:
                return word.value
        of = self.functions[callee].args
        plain = [one.arg for one in (*of.posonlyargs, *of.args)]
        number = plain.index(parameter) if parameter in plain else len(call.args)
        if number >= len(call.args) or any(isinstance(one, ast.Starred) for one in call.args[: number + 1]):
            return None
        return call.args[number]

    def _limit(
        self, name: str, parameter: str, found: set[tuple[str, str]], seen: frozenset[tuple[str, str]]
    ) -> ast.Call | None:
        """The one semaphore that all calls hand over; None if there are several, or other values."""
        calls = self.calls[name]
        if not calls or (name, parameter) in seen:
            return None
        limits: dict[str, ast.Call] = {}
        for call in calls:
            given = self._given(call, name, parameter)
            limit = given if isinstance(given, ast.Call) and makes_semaphore(given) else None
            if isinstance(given, ast.Name):
                owner = next(
                    (
                        one
                        for one, function in self.functions.items()
                        if (one, given.id) in found and any(each is call for each in own_nodes(function))
                    ),
                    None,
                )
                if owner is None:
                    limit = self.made.get(given.id)
                else:
                    limit = self._limit(owner, given.id, found, seen | {(name, parameter)})
            if limit is None:
                return None
            limits[ast.dump(limit)] = limit
        return next(iter(limits.values())) if len(limits) == 1 else None

    def _make_inside(self, function: ast.AsyncFunctionDef, name: str, limit: ast.Call) -> None:
        made = ast.Assign([ast.Name(name, ast.Store())], copy.deepcopy(limit))
        first = 1 if ast.get_docstring(function, clean=False) is not None else 0
        ast.fix_missing_locations(ast.copy_location(made, function))
        if _lets_one_through(limit):
            vars(made)[SHARED_LOCK] = True
        function.body.insert(first, made)

    def _take_out(self, name: str, parameter: str) -> None:
        of = self.functions[name].args
        for call in self.calls[name] or ():
            given = self._given(call, name, parameter)
            call.args = [one for one in call.args if one is not given]
            call.keywords = [one for one in call.keywords if one.value is not given]
        plain = [*of.posonlyargs, *of.args]
        without = len(plain) - len(of.defaults)
        for number, one in enumerate(plain):
            if one.arg == parameter and number >= without:
                del of.defaults[number - without]
        for number, one in enumerate(of.kwonlyargs):
            if one.arg == parameter:
                del of.kw_defaults[number]
        of.posonlyargs = [one for one in of.posonlyargs if one.arg != parameter]
        of.args = [one for one in of.args if one.arg != parameter]
        of.kwonlyargs = [one for one in of.kwonlyargs if one.arg != parameter]

    def _of_file(self) -> bool:
        """Make the semaphores of the file in the functions that enter them."""
        changed = False
        entered: dict[str, list[ast.AsyncFunctionDef]] = {}
        for function in self.functions.values():
            for name in dict.fromkeys(each.id for each in _entered(function)):
                entered.setdefault(name, []).append(function)
        for one in list(self.module.body):
            match one:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as value)
                ) if makes_semaphore(value) and self.made.get(name) is value:
                    self.module.body.remove(one)
                    for function in entered.get(name, ()):
                        self._make_inside(function, name, value)
                    changed = True
                case _:
                    pass
        return changed


def _entered(function: ast.AsyncFunctionDef) -> Iterator[ast.Name]:
    """The names that an `async with` of a function enters, not those of functions inside it."""
    for one in own_nodes(function):
        if isinstance(one, ast.AsyncWith):
            for item in one.items:
                if isinstance(item.context_expr, ast.Name):
                    yield item.context_expr


def _calls_in(function: ast.AsyncFunctionDef, callee: str) -> Iterator[ast.Call]:
    for one in own_nodes(function):
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == callee:
            yield one
