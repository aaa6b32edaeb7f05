"""What gives its items one by one, as a loop over it takes them: as loops of the function itself.

In: the source of a loop that awaits, as `enumerate(f(x) for x in xs)`. Out: a loop over what is there
already, or a generator that does the same. What makes an item may fail, or change something, after the calls
of the loop for the items before it.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Container, Sequence
from typing import Final, NamedTuple, cast

from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_in, blocks_of, name_called
from callsheet.frontends.python.source import Refused, names_bound, own_nodes, waits, walk
from callsheet.frontends.python.syntax import PuttingNames, PuttingNodes, load, parsed_lines, placed, store

_FullName = Callable[[ast.expr], str]
_THROUGH: Final = frozenset(
    {
        *("enumerate", "zip", "map", "filter", "iter", "itertools.islice", "itertools.takewhile"),
        *("itertools.chain", "itertools.chain.from_iterable"),
    }
)
"""Functions that take an item of what they are given when one is asked of them."""


class Laziness(NamedTuple):
    """What of a file is needed to know whether a source computes its items when they are taken."""

    full_name: _FullName
    generators: Container[str]
    """The names of its generators."""

    def computes(self, source: ast.expr) -> bool:
        """Whether taking an item of a source computes something that may fail."""
        match source:
            case ast.GeneratorExp(elt=item, generators=[part]):
                plain = isinstance(item, ast.Name) and not part.ifs
                return not plain or self.computes(part.iter)
            case ast.GeneratorExp():
                return True
            case ast.Call(args=given):
                name = self.full_name(source)
                if name in {"map", "filter"} or name_called(source) in self.generators:
                    return True
                return name in _THROUGH and any(map(self.computes, given))
            case _:
                return False


def item_by_item(one: ast.For, fresh: Fresh) -> ast.For | None:
    """A loop over `(f(x) for x in xs if c)`, `map(f, xs)` or `filter(f, xs)` as one over xs, else None."""
    item: ast.expr
    match one.iter:
        case ast.GeneratorExp(elt=item, generators=[part]) if not part.is_async:
            if isinstance(item, ast.Name) and not part.ifs:
                return None
            names = {name: fresh(name) for name in sorted(names_bound(part.target))}
            inside = [each for root in (item, part.target, *part.ifs) for each in walk(root)]
            for each in inside:
                if isinstance(each, ast.Name) and each.id in names:
                    each.id = names[each.id]
                elif isinstance(each, ast.arg) and each.arg in names:
                    each.arg = names[each.arg]
            target, source, tests = part.target, part.iter, part.ifs
        case ast.Call(func=ast.Name(id="map" | "filter" as kind), args=[made, source]) if isinstance(
            made, (ast.Name, ast.Attribute, ast.Lambda)
        ):
            name = fresh("item")
            target, item = store(name), load(name)
            called = _called(made, item)
            item, tests = (called, []) if kind == "map" else (item, [called])
        case _:
            return None
    body: list[ast.stmt] = [ast.Assign([one.target], item), *one.body]
    for test in reversed(tests):
        body = [ast.If(test, body, [])]
    return placed(ast.For(target, source, body, one.orelse), one)


def _called(made: ast.expr, item: ast.expr) -> ast.expr:
    """The call of a function with an item; of a lambda with one parameter, what it computes."""
    match made:
        case ast.Lambda(args=ast.arguments(args=[one], defaults=[], vararg=None, kwonlyargs=[], kwarg=None)):
            return cast("ast.expr", PuttingNames({one.arg: item}).visit(copy.deepcopy(made.body)))
        case ast.Attribute(value=ast.Name(id="str"), attr=method):
            return ast.Call(ast.Attribute(item, method, ast.Load()), [], [])
        case _:
            return ast.Call(made, [item], [])


def as_generator(
    one: ast.For, lazy: Laziness, fresh: Fresh
) -> tuple[list[ast.stmt], ast.FunctionDef, ast.Call] | None:
    """What is set before a loop, a generator of its items, and the call of it; None for a plain source.

    Raises Refused (PYT026) for several such sources of which items are taken in turn.
    """
    if not lazy.computes(one.iter):
        return None
    lines, name = _Lines(fresh, one), lazy.full_name(one.iter)
    match one.iter:
        case ast.GeneratorExp(elt=item, generators=parts) if not any(part.is_async for part in parts):
            made: ast.stmt = _yielded(item)
            for part in reversed(parts):
                for test in reversed(part.ifs):
                    made = ast.If(test, [made], [])
                made = ast.For(part.target, part.iter, [made], [])
            body: list[ast.stmt] = [made]
        case ast.Call(args=[source, *given], keywords=words) if name == "enumerate":
            start = [*given, *(word.value for word in words)]
            count, item = lines.kept("count", start[0] if start else ast.Constant(0)), lines.item()
            body = [_over(item, source, [*lines.parsed(f"yield ({count}, {item})", f"{count} += 1")])]
        case ast.Call(args=[ast.Call(args=[] | [ast.Constant()], keywords=[]) as counter, source]) if (
            name == "zip" and lazy.full_name(counter) == "itertools.count"
        ):
            numbered = ast.Call(load("enumerate"), [source, *counter.args], [])
            return as_generator(placed(ast.For(one.target, numbered, one.body, one.orelse), one), lazy, fresh)
        case ast.Call(args=sources, keywords=words):
            if name in {"map", "filter"} or words or any(isinstance(each, ast.Starred) for each in sources):
                return _mapped(one, lazy, fresh) if name == "map" and not words else None
            found = _taken(name, sources, lazy, lines)
            if found is None:
                return None
            body = found
        case _:
            return None
    if lines.names:
        body = [ast.Nonlocal(lines.names), *body]
    function = ast.FunctionDef(fresh("items"), _no_arguments(), body, [], None)
    call = ast.Call(load(function.name), [], [])
    placed(function, one)
    placed(call, one.iter)
    return [placed(each, one) for each in lines.before], function, call


def _mapped(
    one: ast.For, lazy: Laziness, fresh: Fresh
) -> tuple[list[ast.stmt], ast.FunctionDef, ast.Call] | None:
    """`map(f, xs, ys)` as what goes through `zip(xs, ys)`."""
    match one.iter:
        case ast.Call(args=[made, *sources]) if len(sources) > 1:
            names = [fresh("item") for _ in sources]
            target = ast.Tuple([store(name) for name in names], ast.Store())
            pairs = ast.Call(load("zip"), sources, [])
            value = ast.Call(made, [load(name) for name in names], [])
            source = ast.GeneratorExp(value, [ast.comprehension(target, pairs, [], 0)])
            loop = ast.For(one.target, source, one.body, one.orelse)
            placed(loop, one)
            return as_generator(loop, lazy, fresh)
        case _:
            return None


class _Lines:
    """The statements of a generator that is made, and those before the loop over it."""

    def __init__(self, fresh: Fresh, place: ast.AST) -> None:
        self.fresh, self.place = fresh, place
        self.before: list[ast.stmt] = []
        self.names: list[str] = []

    def kept(self, stem: str, value: ast.expr) -> str:
        """The variable of a value that is computed before the loop."""
        name = self.fresh(stem)
        self.names.append(name)
        self.before.append(ast.Assign([store(name)], value))
        return name

    def item(self) -> str:
        """A variable for an item."""
        return self.fresh("item")

    def parsed(self, *lines: str) -> list[ast.stmt]:
        """Statements, all at the place of the loop."""
        return parsed_lines(lines, self.place)


def _taken(name: str, sources: Sequence[ast.expr], lazy: Laziness, lines: _Lines) -> list[ast.stmt] | None:
    """The body of a generator that takes items of sources as a function of Python does; None for others."""
    match name, list(sources):
        case "iter", [source]:
            item = lines.item()
            return [_over(item, source, lines.parsed(f"yield {item}"))]
        case "itertools.islice", [source, stop]:
            left, item = lines.kept("left", stop), lines.item()
            turn = lines.parsed(f"yield {item}", f"{left} -= 1", f"if {left} <= 0:\n    return")
            return [*lines.parsed(f"if {left} <= 0:\n    return"), _over(item, source, turn)]
        case "itertools.takewhile", [test, source]:
            item = lines.item()
            ended = ast.If(ast.UnaryOp(ast.Not(), _called(test, load(item))), [ast.Return(None)], [])
            return [_over(item, source, [ended, *lines.parsed(f"yield {item}")])]
        case "itertools.chain", parts:
            names = [lines.item() for _ in parts]
            return [
                _over(item, part, lines.parsed(f"yield {item}"))
                for item, part in zip(names, parts, strict=True)
            ]
        case "itertools.chain.from_iterable", [source]:
            part, item = lines.item(), lines.item()
            inner = _over(item, load(part), lines.parsed(f"yield {item}"))
            return [_over(part, source, [inner])]
        case "zip", parts:
            return _zipped(parts, lazy, lines)
        case _:
            return None


def _zipped(parts: Sequence[ast.expr], lazy: Laziness, lines: _Lines) -> list[ast.stmt]:
    """The body of a generator of tuples: the items of one source that computes them, and of lists."""
    computed = [each for each in parts if lazy.computes(each)]
    if len(computed) > 1:
        raise Refused(
            "PYT026",
            computed[1],
            "two sources of this loop compute their items in turn, which may fail after some calls",
            f"compute the items of one before the loop: list({ast.unparse(computed[1])[:60]})",
        )
    (source,) = computed
    at = next(number for number, each in enumerate(parts) if each is source)
    item, place = lines.item(), lines.kept("place", ast.Constant(0))
    names = [
        None if each is source else lines.kept("source", ast.Call(load("list"), [each], [])) for each in parts
    ]

    def ended(held: Sequence[str | None]) -> list[ast.stmt]:
        tests = [f"{place} >= len({name})" for name in held if name is not None]
        return lines.parsed(f"if {' or '.join(tests)}:\n    return") if tests else []

    values = ", ".join(item if name is None else f"{name}[{place}]" for name in names)
    turn = [*ended(names[at:]), *lines.parsed(f"yield ({values},)", f"{place} += 1"), *ended(names[:at])]
    return [*ended(names[:at]), _over(item, source, turn)]


def _over(item: str, source: ast.expr, body: list[ast.stmt]) -> ast.stmt:
    return ast.For(store(item), source, body, [])


def _yielded(value: ast.expr) -> ast.stmt:
    return ast.Expr(ast.Yield(value))


def _no_arguments() -> ast.arguments:
    return ast.arguments([], [], None, [], [], None, [])


def put_where_used(node: ast.AsyncFunctionDef, lazy: Laziness, fresh: Fresh) -> bool:
    """Put what computes its items into the loop that takes them, where a variable has it for that loop alone.

    What Python evaluates when it is made stays where it is made, under a name.
    """
    inner = list(own_nodes(node))
    uses: dict[str, list[ast.Name]] = {}
    for each in walk(node):
        if isinstance(each, ast.Name):
            uses.setdefault(each.id, []).append(each)
    stores = Counter(
        one.id for one in inner if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)
    )
    places: dict[int, ast.AST] = {}
    blocks = [node.body, *blocks_of(inner)]
    for block in blocks:
        for number, one in enumerate(block):
            match one:
                case ast.Assign(targets=[ast.Name(id=name) as target], value=value):
                    pass
                case _:
                    continue
            if len(uses.get(name, ())) != 2 or waits(value) or not lazy.computes(value):
                continue
            (used,) = (each for each in uses[name] if each is not target)
            if not _is_taken_once(block[number + 1 :], used, lazy):
                continue
            made: list[ast.stmt] = []
            places[id(used)] = placed(_settled(value, lazy, stores, fresh, made), used)
            block[number : number + 1] = [placed(each, one) for each in made] or [placed(ast.Pass(), one)]
    if places:
        PuttingNodes(places).visit(node)
    return bool(places)


def _is_taken_once(after: Sequence[ast.stmt], used: ast.Name, lazy: Laziness) -> bool:
    """Whether a use is the source of a loop that awaits, which runs at most once for each value."""
    for one in after:
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if isinstance(one, ast.For) and any(each is used for each in walk(one.iter)):
            return any(map(waits, one.body)) and any(each is used for each in _reached(one.iter, lazy))
        if isinstance(one, (ast.For, ast.AsyncFor, ast.While)):
            continue
        if any(_is_taken_once(block, used, lazy) for block in blocks_in(one)):
            return True
    return False


def _reached(source: ast.expr, lazy: Laziness) -> list[ast.expr]:
    """What items are taken of when they are taken of a source, without what it computes first."""
    match source:
        case ast.Call(args=given) if lazy.full_name(source) in _THROUGH:
            return [each for one in given for each in _reached(one, lazy)]
        case ast.GeneratorExp(generators=[part, *_]):
            return _reached(part.iter, lazy)
        case _:
            return [source]


def _settled(
    value: ast.expr, lazy: Laziness, stores: Counter[str], fresh: Fresh, made: list[ast.stmt]
) -> ast.expr:
    """A source as it is put elsewhere: what is evaluated when it is made has names there."""
    value = copy.copy(value)
    match value:
        case ast.GeneratorExp(generators=[part, *others]):
            part = copy.copy(part)
            part.iter = _settled(part.iter, lazy, stores, fresh, made)
            value.generators = [part, *others]
            return value
        case ast.Call(args=given) if lazy.computes(value):
            value.args = [_settled(one, lazy, stores, fresh, made) for one in given]
            return value
        case ast.Constant() | ast.Lambda() | ast.Attribute():
            return value
        case ast.Name(id=name) if stores[name] <= 1:
            return value
        case _:
            name = fresh("source")
            made.append(ast.Assign([store(name)], value))
            return load(name)
