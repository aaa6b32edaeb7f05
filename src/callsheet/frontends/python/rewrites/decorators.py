"""Decorators of the file around async functions, as functions that call the decorated one.

In: the tree of a file, which is changed in place. `@retry(3)` around `fetch` becomes an async function
`fetch` with the body of what the decorator returns, which calls `fetch_plain`. A decorator that keeps
something of its own between calls, or uses its function as a value, stays, and is refused by who reads it.
`f.__name__` becomes a text, for what is decorated in such a way that it is known.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

from callsheet.frontends.pure_code.class_refusals import MAKERS
from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_in, is_fixed
from callsheet.frontends.python.source import (
    Nodes,
    decorator_name,
    dotted,
    given_by_default,
    names_bound,
    names_read,
    outside_of,
    own_nodes,
    parameters_of,
    walk,
)
from callsheet.frontends.python.syntax import PuttingNodes, Renaming

_Owner = ast.Module | ast.ClassDef | ast.AsyncFunctionDef


class _Decorator(NamedTuple):
    """What a decorator does: its parameters, the name of what it decorates, and what stands in its place."""

    node: ast.FunctionDef
    of: ast.arguments | None
    function: str
    inner: ast.AsyncFunctionDef
    state: Sequence[tuple[str, ast.expr]]
    """The variables that it keeps between the calls, and what they hold first."""


def decorated_as_calls(module: ast.Module, nodes: Nodes) -> bool:
    """Write the decorated async functions of a file as plain ones; whether there were any.

    >>> module = ast.parse('''def twice(function):
    ...     async def inner(*args, **kwargs):
    ...         await function(*args, **kwargs)
    ...         return await function(*args, **kwargs)
    ...     return inner
    ... @twice
    ... async def tell(text): return await post(text)''')
    >>> decorated_as_calls(module, Nodes(module))
    True
    >>> print(ast.unparse(module))
    async def tell_plain_at_1(text):
        return await post(text)
    <BLANKLINE>
    async def tell(text):
        await tell_plain_at_1(text)
        return await tell_plain_at_1(text)
    """
    known: dict[str, _Decorator] = {}
    for one in module.body:
        found = _decorator(one) if isinstance(one, ast.FunctionDef) else None
        if found is not None:
            known[found.node.name] = found
    if not known:
        return False
    fresh = Fresh(nodes)
    changed = False
    for owner in nodes.of(ast.Module, ast.ClassDef, ast.AsyncFunctionDef):
        body: list[ast.stmt] = []
        for one in owner.body:
            made = _undecorated(one, owner, known, fresh) if isinstance(one, ast.AsyncFunctionDef) else [one]
            changed = changed or len(made) > 1
            body += made
        owner.body = body
    if changed:
        used = {one.id for part in module.body for one in walk(part) if isinstance(one, ast.Name)}
        module.body = [
            one
            for one in module.body
            if not (isinstance(one, ast.FunctionDef) and one.name in known.keys() - used)
        ]
    return changed


def _decorator(node: ast.FunctionDef) -> _Decorator | None:
    """What a function does as a decorator; None if it is none that is understood."""
    match _without_words(node.body):
        case [*state, ast.AsyncFunctionDef() as inner, ast.Return(value=ast.Name(id=name))] if (
            name == inner.name
        ):
            parameters = parameters_of(node.args)
            kept = [_kept(one) for one in state]
            if len(parameters) != 1 or any(isinstance(one, ast.Nonlocal) for one in own_nodes(*inner.body)):
                return None
            held = [one for one in kept if one is not None]
            return _Decorator(node, None, parameters[0].arg, inner, held) if len(held) == len(kept) else None
        case [ast.FunctionDef() as maker, ast.Return(value=ast.Name(id=name))] if name == maker.name:
            found = _decorator(maker)
            if found is None or found.of is not None:
                return None
            return _Decorator(node, node.args, found.function, found.inner, found.state)
        case _:
            return None


def _kept(one: ast.stmt) -> tuple[str, ast.expr] | None:
    """The variable that a statement of a decorator makes for all calls, and its value, which is new."""
    match one:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ) if all(each.id in MAKERS for each in walk(value) if isinstance(each, ast.Name)):
            return name, value
        case _:
            return None


def _without_words(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    return [one for one in body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]


def _undecorated(
    node: ast.AsyncFunctionDef, owner: _Owner, known: Mapping[str, _Decorator], fresh: Fresh
) -> list[ast.stmt]:
    """A function with its decorators written out, the innermost first; itself if one is not understood."""
    made: list[ast.stmt] = [node]
    marks = list(node.decorator_list)
    while marks:
        mark = marks[-1]
        name = dotted(mark.func if isinstance(mark, ast.Call) else mark) or ""
        found = known.get(name)
        if found is None or isinstance(mark, ast.Call) != (found.of is not None):
            break
        if found.state and isinstance(owner, ast.ClassDef):
            break
        current = cast("ast.AsyncFunctionDef", made[-1])
        held = {variable: fresh(variable) for variable, _ in found.state}
        outer = _around(current, mark, found, owner, fresh, held)
        if outer is None:
            break
        for variable, value in found.state:
            start = ast.Assign([ast.Name(held[variable], ast.Store())], copy.deepcopy(value))
            made.insert(0, ast.fix_missing_locations(ast.copy_location(start, node)))
        marks.pop()
        current.decorator_list = []
        outer.decorator_list = list(marks)
        made.append(outer)
    return made


def _around(
    node: ast.AsyncFunctionDef,
    mark: ast.expr,
    of: _Decorator,
    owner: _Owner,
    fresh: Fresh,
    held: Mapping[str, str],
) -> ast.AsyncFunctionDef | None:
    """The function that stands in the place of a decorated one, which gets another name."""
    inner = copy.deepcopy(of.inner)
    values = _given(mark, of) if isinstance(mark, ast.Call) and of.of is not None else {}
    if values is None:
        return None
    stars = [one.arg for one in (inner.args.vararg, inner.args.kwarg) if one is not None]
    is_open = inner.args.vararg is not None and inner.args.kwarg is not None
    own = names_bound(*inner.body) | set(values)
    first = [one.arg for one in (*inner.args.posonlyargs, *inner.args.args)]
    plain_of = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
    is_open = is_open or (inner.args.vararg is not None and not node.args.kwonlyargs)
    if is_open and len(first) <= len(plain_of) and not inner.args.kwonlyargs:
        arguments = copy.deepcopy(node.args)
    elif not stars:
        arguments, first = inner.args, []
    else:
        return None
    if node.args.vararg or node.args.kwarg:
        return None
    given = {one.arg for one in parameters_of(arguments)}
    names = {name: fresh(name) for name in sorted(own - given) if name not in values} if is_open else {}
    if is_open:
        names |= {name: fresh(name) for name in sorted(own & given) if name not in values}
    names |= {**dict(zip(first, plain_of, strict=False)), **held}
    plain = fresh(f"{node.name}_plain")
    inner.body = [cast("ast.stmt", Renaming(names).visit(one)) for one in inner.body]
    for one in inner.body:
        for each in walk(one):
            if isinstance(each, ast.ExceptHandler) and each.name:
                each.name = names.get(each.name, each.name)
    rebound = names_bound(*inner.body)
    variables = _may_differ(owner)
    if any(
        name in rebound or name in given or not is_fixed(value, variables) for name, value in values.items()
    ):
        return None
    itself = parameters_of(node.args)[:1] if isinstance(owner, ast.ClassDef) else []
    writing = _Writing(of.function, plain, stars, node, itself[0].arg if itself else None, values, len(first))
    body = [cast("ast.stmt", writing.visit(one)) for one in inner.body]
    if writing.fails:
        return None
    made = ast.AsyncFunctionDef(node.name, arguments, body, [], node.returns)
    vars(made)["type_params"] = []
    node.name = plain
    return ast.fix_missing_locations(ast.copy_location(made, node))


def _may_differ(owner: _Owner) -> set[str]:
    """The names that may mean another value where a function is called than where it is decorated."""
    if isinstance(owner, ast.Module):
        return set()
    if isinstance(owner, ast.ClassDef):
        return names_bound(*owner.body)
    times = Counter(one.arg for one in parameters_of(owner.args))
    for one in own_nodes(*owner.body):
        if isinstance(one, (ast.For, ast.AsyncFor)):
            times.update(names_bound(one.target))
        times.update(names_bound(one) if isinstance(one, ast.stmt) and not list(blocks_in(one)) else ())
    return names_bound(*owner.body) - {name for name, count in times.items() if count == 1}


def _given(mark: ast.Call, of: _Decorator) -> dict[str, ast.expr] | None:
    """The values of a decorator's parameters."""
    arguments = cast("ast.arguments", of.of)
    if arguments.vararg or arguments.kwarg or any(isinstance(one, ast.Starred) for one in mark.args):
        return None
    plain = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    values = dict(given_by_default(arguments)) | dict(zip(plain, mark.args, strict=False))
    values |= {word.arg: word.value for word in mark.keywords if word.arg is not None}
    return values if set(values) == {one.arg for one in parameters_of(arguments)} else None


class _Writing(ast.NodeTransformer):
    """Writes the calls of the decorated function, and the decorator's values, into what it returns."""

    def __init__(
        self,
        function: str,
        plain: str,
        stars: Sequence[str],
        node: ast.AsyncFunctionDef,
        itself: str | None,
        values: Mapping[str, ast.expr],
        named: int,
    ) -> None:
        self.named = named
        self.function, self.plain, self.stars, self.node = function, plain, stars, node
        self.name = node.name
        self.itself, self.values = itself, values
        self.fails = False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call."""
        if not (isinstance(node.func, ast.Name) and node.func.id == self.function):
            return self.generic_visit(node)
        args: list[ast.expr] = []
        words: list[ast.keyword] = []
        for one in node.args:
            if (
                isinstance(one, ast.Starred)
                and isinstance(one.value, ast.Name)
                and one.value.id in self.stars
            ):
                of = self.node.args
                args += [ast.Name(each.arg, ast.Load()) for each in [*of.posonlyargs, *of.args][self.named :]]
                words += [ast.keyword(each.arg, ast.Name(each.arg, ast.Load())) for each in of.kwonlyargs]
            else:
                args.append(cast("ast.expr", self.visit(one)))
        for word in node.keywords:
            if word.arg is None and isinstance(word.value, ast.Name) and word.value.id in self.stars:
                continue
            words.append(ast.keyword(word.arg, cast("ast.expr", self.visit(word.value))))
        func: ast.expr = ast.Name(self.plain, ast.Load())
        if self.itself is not None:
            if not args:
                self.fails = True
                return node
            func = ast.Attribute(args.pop(0), self.plain, ast.Load())
        return ast.fix_missing_locations(ast.copy_location(ast.Call(func, args, words), node))

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """An attribute."""
        if isinstance(node.value, ast.Name) and node.value.id == self.function and node.attr == "__name__":
            return ast.copy_location(ast.Constant(self.name), node)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name."""
        if node.id == self.function or node.id in self.stars:
            self.fails = True
        value = self.values.get(node.id)
        return node if value is None else ast.copy_location(copy.deepcopy(value), node)


def _keeps_name(node: ast.AST) -> bool:
    """Whether a node is a function with the name of the one that it wraps."""
    return isinstance(node, (ast.AsyncFunctionDef, ast.FunctionDef)) and any(
        decorator_name(mark) == "wraps" for mark in node.decorator_list
    )


def names_of_functions(module: ast.Module, nodes: Nodes) -> bool:
    """Write `f.__name__` of a function or class of the file as its name; whether there was any.

    One that is decorated has its own name if the decorator is of the file, and uses `functools.wraps`.

    >>> module = ast.parse('''async def load(): pass
    ... print(load.__name__)''')
    >>> names_of_functions(module, Nodes(module)), ast.unparse(module.body[1])
    (True, "print('load')")
    """
    kinds = (ast.AsyncFunctionDef, ast.FunctionDef, ast.ClassDef)
    times = Counter(one.name for one in nodes if isinstance(one, kinds))
    bound = {one.id for one in nodes.of(ast.Name) if not isinstance(one.ctx, ast.Load)}
    bound |= {one.arg for one in nodes.of(ast.arg)}
    own = {one.name: one for one in module.body if isinstance(one, kinds) and times[one.name] == 1}
    keeping = {name for name, one in own.items() if any(map(_keeps_name, walk(one)))}
    told = {
        name
        for name, one in own.items()
        if name not in bound and all(decorator_name(mark) in keeping for mark in one.decorator_list)
    }
    names = {
        id(one): ast.copy_location(ast.Constant(one.value.id), one)
        for one in nodes.of(ast.Attribute)
        if one.attr == "__name__" and isinstance(one.value, ast.Name) and one.value.id in told
    }
    PuttingNodes(names).visit(module)
    return bool(names)


def registries_as_tables(module: ast.Module, nodes: Nodes) -> bool:
    """Write a table that decorators of the file fill as a literal one; whether there was any.

    >>> module = ast.parse('''HANDLERS = {}
    ... def handles(kind):
    ...     def register(function):
    ...         HANDLERS[kind] = function
    ...         return function
    ...     return register
    ... @handles("mail")
    ... async def on_mail(text): return await post(text)''')
    >>> registries_as_tables(module, Nodes(module))
    True
    >>> print(ast.unparse(module))
    async def on_mail(text):
        return await post(text)
    HANDLERS = {'mail': on_mail}
    """
    found = [_registering(one) for one in module.body if isinstance(one, ast.FunctionDef)]
    made = [_as_table(module, nodes, one) for one in found if one is not None]
    return any(made)


class _Registering(NamedTuple):
    """A decorator that puts what it decorates into a table: its parameter, the key, and the table."""

    node: ast.FunctionDef
    parameter: str | None
    key: ast.expr | None
    function: str
    table: str


def _registering(node: ast.FunctionDef) -> _Registering | None:
    match _without_words(node.body):
        case [ast.FunctionDef() as inner, ast.Return(value=ast.Name(id=name))] if name == inner.name:
            found, given = _registering(inner), parameters_of(node.args)
            is_plain = len(given) == 1 and not (node.args.vararg or node.args.kwarg or node.args.defaults)
            if found is None or found.parameter is not None or not is_plain:
                return None
            return found._replace(node=node, parameter=given[0].arg)
        case [
            ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id=table), slice=key)], value=ast.Name(id=stored)
            ),
            ast.Return(value=ast.Name(id=returned)),
        ]:
            made = _Registering(node, None, key, stored, table)
        case [
            ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=table), attr="append"), args=[ast.Name(id=stored)]
                )
            ),
            ast.Return(value=ast.Name(id=returned)),
        ]:
            made = _Registering(node, None, None, stored, table)
        case _:
            return None
    names = [one.arg for one in parameters_of(node.args)]
    return made if names == [stored] == [returned] else None


def _as_table(module: ast.Module, nodes: Nodes, of: _Registering) -> bool:
    """Fill the table where it is written, if the decorator is all that changes it."""
    name = of.node.name
    marked = [
        (one, mark)
        for one in module.body
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))
        for mark in one.decorator_list[:1]
        if dotted(mark.func if isinstance(mark, ast.Call) else mark) == name
    ]
    uses = [one for one in nodes.of(ast.Name) if one.id == name]
    keys = [_key_of(of, one, mark) for one, mark in marked]
    start = [one for one in module.body if _makes_empty(one, of)]
    if not marked or len(uses) != len(marked) or len(start) != 1 or None in keys:
        return False
    own = {id(one) for one in walk(of.node)}
    changes = [
        one
        for one in nodes.of(ast.Subscript, ast.Attribute)
        if isinstance(one.value, ast.Name)
        and one.value.id == of.table
        and id(one) not in own
        and (not isinstance(one.ctx, ast.Load) or getattr(one, "attr", "") in _FILLS)
    ]
    last = module.body.index(marked[-1][0])
    between = [each for one in module.body[: last + 1] if one is not of.node for each in _at_once(one)]
    if changes or any(of.table in names_read(one) for one in between):
        return False
    table: dict[object, tuple[ast.expr, str]] = {}
    for number, ((one, _), key) in enumerate(zip(marked, keys, strict=True)):
        held = cast("ast.Constant", key)
        table[number if of.key is None else held.value] = held, one.name
        del one.decorator_list[0]
    functions: list[ast.expr] = [ast.Name(function, ast.Load()) for _, function in table.values()]
    made: ast.expr = ast.List(functions, ast.Load())
    if of.key is not None:
        made = ast.Dict([key for key, _ in table.values()], functions)
    literal = ast.copy_location(ast.Assign([ast.Name(of.table, ast.Store())], made), start[0])
    module.body.insert(last + 1, ast.fix_missing_locations(literal))
    module.body = [one for one in module.body if one is not start[0] and one is not of.node]
    return True


def _at_once(one: ast.stmt) -> list[ast.AST]:
    """What is evaluated where a statement of a file stands: of a function its defaults and decorators."""
    match one:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [*outside_of(one)]
        case ast.ClassDef():
            return [*one.decorator_list, *(each for inner in one.body for each in _at_once(inner))]
        case _:
            return [one]


def _key_of(of: _Registering, function: ast.stmt, mark: ast.expr) -> ast.Constant | None:
    """Under which key a decorator puts a function; None where the text does not say."""
    given = [*mark.args, *(word.value for word in mark.keywords)] if isinstance(mark, ast.Call) else []
    if len(given) != (of.parameter is not None) or isinstance(mark, ast.Call) != (of.parameter is not None):
        return None
    match of.key:
        case None:
            return ast.Constant(None)
        case ast.Constant() as key:
            return key
        case ast.Name(id=name) if name == of.parameter:
            (value,) = given
            return value if isinstance(value, ast.Constant) else None
        case ast.Attribute(value=ast.Name(id=name), attr="__name__") if name == of.function:
            return ast.Constant(cast("ast.FunctionDef", function).name)
        case _:
            return None


def _makes_empty(one: ast.stmt, of: _Registering) -> bool:
    match one:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ) if name == of.table:
            return ast.unparse(value) in ({"[]", "list()"} if of.key is None else {"{}", "dict()"})
        case _:
            return False


_FILLS: Final = frozenset({"append", "update", "pop", "setdefault", "clear", "extend", "insert", "remove"})
