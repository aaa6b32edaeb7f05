"""Whether a loop could tell that a generator is run to its end before the loop begins.

In: a generator of the program, and a loop over a call of it. Out: whether one of them changes what the other
reads, so that Python's order, item by item, means something else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

CHANGING_METHODS: Final = frozenset(
    {
        *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "setdefault"),
        *("popitem", "add", "discard", "difference_update", "intersection_update", "appendleft", "popleft"),
        *("symmetric_difference_update", "extendleft", "rotate", "subtract", "move_to_end", "writerow"),
        *("writerows", "write", "writeheader", "__setitem__"),
    }
)
"""The methods of containers that change what they are called on."""
CHANGING_FUNCTIONS: Final = frozenset(
    {
        *("heapq.heappush", "heapq.heappop", "heapq.heapify", "heapq.heappushpop", "heapq.heapreplace"),
        *("bisect.insort", "bisect.insort_left", "next"),
    }
)
"""The functions that change their first argument."""
_CHANGERS: Final = CHANGING_FUNCTIONS | {one.partition(".")[2] for one in CHANGING_FUNCTIONS}
_LAZY: Final = frozenset(
    {"enumerate", "zip", "map", "filter", "iter", "islice", "takewhile", "dropwhile", "chain"}
)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def could_tell(
    generator: _Function,
    call: ast.Call,
    body: Sequence[ast.AST],
    functions: Mapping[str, Sequence[_Function]],
) -> bool:
    """Whether a loop with this body over a call of a generator could tell that all items are there already.

    One that is left early could tell by what the generator has changed.

    >>> def tells(text):
    ...     made, loop = ast.parse(text).body
    ...     return could_tell(made, loop.iter, loop.body, {})
    >>> tells('''def some(rows):
    ...     for row in rows:
    ...         if row not in seen: yield row
    ... for row in some(given): seen.add(row)''')
    True
    >>> tells('''def some(rows):
    ...     for row in rows: yield row
    ... for row in some(given): seen.add(row)''')
    False
    """
    inner = _outside(generator, functions, set())
    outer_reads, outer_changes = _reached(body, functions, set())
    given = {one.id for one in ast.walk(call) if isinstance(one, ast.Name)} - {generator.name}
    parameters = _parameters(generator)
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and generator.args.args:
        held = call.func.value.id
        if not _fields_of(held, body) & _fields_of(generator.args.args[0].arg, generator.body):
            given -= {held}
    reads = (inner[0] - parameters) | given
    changes = inner[1] - parameters
    if inner[1] & parameters:
        changes |= given
    is_left = any(isinstance(one, (ast.Break, ast.Return)) for part in body for one in ast.walk(part))
    return bool(changes & outer_reads or reads & outer_changes or (is_left and inner[1]))


def _fields_of(name: str, nodes: Iterable[ast.AST]) -> set[str]:
    """The fields and methods of a variable that nodes name."""
    return {
        one.attr
        for part in nodes
        for one in ast.walk(part)
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == name
    }


def calls_gone_through(source: ast.expr) -> Iterator[tuple[str, ast.Call]]:
    """The calls whose items a loop over a source takes one by one, each with the function's or method's name.

    >>> source = ast.parse("enumerate(zip(a(), x.b(), list(c())))", mode="eval").body
    >>> [name for name, _ in calls_gone_through(source)]
    ['a', 'b', 'list']
    """
    match source:
        case ast.Call(func=ast.Name(id=name), args=args) if name in _LAZY:
            for one in args:
                yield from calls_gone_through(one)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            yield name, source
        case _:
            pass


def ran_ahead(name: str) -> tuple[str, str]:
    """What is said of a loop that could tell, and what to write instead."""
    return (
        f"the generator {name} is run to its end before this loop, which could tell",
        f"write the loop of {name} here, or let neither of both change what the other reads",
    )


def changes_itself(method: _Function, methods: Mapping[str, Sequence[_Function]]) -> bool:
    """Whether a method may change the object that it belongs to.

    >>> (shape,) = ast.parse('''class Ids:
    ...     def take(self): self.n += 1
    ...     def __str__(self): return f"{self.take()}"
    ...     def __len__(self): return self.n''').body
    >>> methods = {one.name: [one] for one in shape.body}
    >>> [changes_itself(one, methods) for one in shape.body]
    [True, True, False]
    """
    todo, seen = [method], set[str]()
    while todo:
        one = todo.pop()
        own = one.args.args[0].arg if one.args.args else ""
        if own in _outside(one, {}, set())[1]:
            return True
        for each in ast.walk(one):
            if isinstance(each, ast.Attribute) and each.attr in methods and each.attr not in seen:
                seen.add(each.attr)
                todo += methods[each.attr]
    return False


def changed_outside(function: _Function | ast.Lambda) -> set[str]:
    """The names around a function that it sets, or whose objects it changes."""
    if isinstance(function, ast.Lambda):
        return _reached([function.body], {}, set())[1] - _parameters(function)
    return _outside(function, {}, set())[1] - _parameters(function)


def _parameters(function: _Function | ast.Lambda) -> set[str]:
    of = function.args
    every = [*of.posonlyargs, *of.args, *of.kwonlyargs, *filter(None, (of.vararg, of.kwarg))]
    return {one.arg for one in every}


def _outside(
    function: _Function, functions: Mapping[str, Sequence[_Function]], seen: set[str]
) -> tuple[set[str], set[str]]:
    """What a function reads and changes that is not its own: its parameters, and names around it."""
    reads, changes = _reached(function.body, functions, seen)
    kept = {
        name
        for one in ast.walk(function)
        if isinstance(one, (ast.Nonlocal, ast.Global))
        for name in one.names
    }
    own = {
        one.id
        for one in ast.walk(function)
        if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)
    }
    own -= kept | _parameters(function)
    return reads - own, (changes - own) | kept


def _reached(
    body: Iterable[ast.AST], functions: Mapping[str, Sequence[_Function]], seen: set[str]
) -> tuple[set[str], set[str]]:
    """The names that statements read, and those that they set or whose objects they change."""
    reads, changes = set[str](), set[str]()
    for one in (each for part in body for each in ast.walk(part)):
        match one:
            case ast.Name(id=name, ctx=ast.Load()):
                reads.add(name)
                for function in functions.get(name, ()) if name not in seen else ():
                    seen.add(name)
                    more = _outside(function, functions, seen)
                    reads |= more[0] - _parameters(function)
                    changes |= more[1] - _parameters(function)
            case ast.Name(id=name):
                changes.add(name)
            case ast.Call(func=ast.Name(id=name), args=args) if name in functions:
                changed = {
                    parameter.arg
                    for function in functions[name]
                    for parameter in function.args.args
                    if parameter.arg in _outside(function, functions, {*seen, name})[1]
                }
                changes |= {each for held in args for each in _root(held)} if changed else set()
            case _:
                changes |= changed_objects([one])
    return reads, changes


def changed_objects(nodes: Iterable[ast.AST]) -> set[str]:
    """The variables from which nodes reach an object that they change."""
    changes = set[str]()
    for one in nodes:
        match one:
            case (
                ast.Subscript(value=held, ctx=ast.Store() | ast.Del())
                | ast.Attribute(value=held, ctx=ast.Store() | ast.Del())
            ):
                changes |= _root(held)
            case ast.Call(func=ast.Attribute(value=held, attr=method)) if method in CHANGING_METHODS:
                changes |= _root(held)
            case ast.Call(func=func, args=[held, *_]) if ast.unparse(func) in _CHANGERS:
                changes |= _root(held)
            case _:
                pass
    return changes


def _root(node: ast.expr) -> set[str]:
    """The name of the variable that an object is reached from."""
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()
