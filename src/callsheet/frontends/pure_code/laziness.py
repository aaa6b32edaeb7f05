"""What code changes, and whether a loop could tell that a generator is run to its end before it begins.

In: functions and statements. Out: the variables whose objects they change; of a generator and a loop over a
call of it, whether one changes what the other reads, so that Python's order, item by item, means something
else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

CHANGING_METHODS: Final = frozenset(
    {
        *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "setdefault"),
        *("popitem", "add", "discard", "difference_update", "intersection_update", "appendleft", "popleft"),
        *("symmetric_difference_update", "extendleft", "rotate", "subtract", "move_to_end", "writerow"),
        *("writerows", "write", "writeheader", "__setitem__", "set_seq1", "set_seq2", "set_seqs"),
        *("prepare", "get_ready", "done"),  # of a graph that is sorted
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
CHANGERS: Final = CHANGING_FUNCTIONS | {one.partition(".")[2] for one in CHANGING_FUNCTIONS}
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
    effects, before = _Effects(functions), dict[str, _Effect]()
    inner, (outer_reads, outer_changes) = effects.outside(generator), effects.reached(body)
    while effects.known != before:  # functions that call one another
        before = effects.begun()
        inner, (outer_reads, outer_changes) = effects.outside(generator), effects.reached(body)
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
        if own in _Effects({}).outside(one)[1]:
            return True
        for each in ast.walk(one):
            if isinstance(each, ast.Attribute) and each.attr in methods and each.attr not in seen:
                seen.add(each.attr)
                todo += methods[each.attr]
    return False


def changed_outside(function: _Function | ast.Lambda) -> set[str]:
    """The names around a function that it sets, or whose objects it changes."""
    if isinstance(function, ast.Lambda):
        return _Effects({}).reached([function.body])[1] - _parameters(function)
    return _Effects({}).outside(function)[1] - _parameters(function)


def _parameters(function: _Function | ast.Lambda) -> set[str]:
    of = function.args
    every = [*of.posonlyargs, *of.args, *of.kwonlyargs, *filter(None, (of.vararg, of.kwarg))]
    return {one.arg for one in every}


class _Effect(NamedTuple):
    """What the functions of a name do: the names around them that they read and change, and to parameters."""

    reads: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()
    changes_given: bool = False


class _Effects:
    """What statements read and change, also in the functions that they name; each is looked at once."""

    def __init__(self, functions: Mapping[str, Sequence[_Function]]) -> None:
        self.functions = functions
        self.known: dict[str, _Effect] = {}
        self.seen: set[str] = set()

    def begun(self) -> dict[str, _Effect]:
        """Begin anew with what is known, which is given."""
        self.seen = set()
        return dict(self.known)

    def outside(self, function: _Function) -> tuple[set[str], set[str]]:
        """What a function reads and changes that is not its own: its parameters, and names around it."""
        reads, changes = self.reached(function.body)
        inside = list(ast.walk(function))
        kept = {name for one in inside if isinstance(one, (ast.Nonlocal, ast.Global)) for name in one.names}
        own = {one.id for one in inside if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)}
        own -= kept | _parameters(function)
        return reads - own, (changes - own) | kept

    def reached(self, body: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
        """The names that statements read, and those that they set or whose objects they change."""
        reads, changes = set[str](), set[str]()
        for one in (each for part in body for each in ast.walk(part)):
            match one:
                case ast.Name(id=name, ctx=ast.Load()):
                    effect = self._of(name)
                    reads |= effect.reads | {name}
                    changes |= effect.changes
                case ast.Name(id=name):
                    changes.add(name)
                case ast.Call(func=ast.Name(id=name), args=args) if name in self.functions:
                    if self._of(name).changes_given:
                        changes |= {each for held in args for each in _root(held)}
                case _:
                    changes |= changed_objects([one])
        return reads, changes

    def _of(self, name: str) -> _Effect:
        if name not in self.functions:
            return _Effect()
        if name not in self.seen:
            self.seen.add(name)
            found = [(self.outside(one), one) for one in self.functions[name]]
            self.known[name] = _Effect(
                frozenset(each for (reads, _), one in found for each in reads - _parameters(one)),
                frozenset(each for (_, changes), one in found for each in changes - _parameters(one)),
                any(changes & {each.arg for each in one.args.args} for (_, changes), one in found),
            )
        return self.known.get(name, _Effect())


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
            case ast.Call(func=func, args=[held, *_]) if ast.unparse(func) in CHANGERS:
                changes |= _root(held)
            case _:
                pass
    return changes


def _root(node: ast.expr) -> set[str]:
    """The name of the variable that an object is reached from."""
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()
