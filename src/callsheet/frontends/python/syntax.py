"""Pieces of Python's syntax trees: what they are made of, and how they are made."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar, cast

from callsheet.frontends.python import core
from callsheet.frontends.python.source import names_bound, parameters_of, walk
from callsheet.ir.failing import IS_FAILURE

MARK: Final = IS_FAILURE
"""The field of an error that stands among results."""
SHARED_LOCK: Final = "is_shared_lock"
"""The mark of a statement that makes, in a function, the one lock that all its calls share."""


COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BIND_INSIDE: Final = frozenset({*COMPREHENSIONS, ast.FunctionDef, ast.Lambda, ast.ClassDef, ast.match_case})


_Made = TypeVar("_Made", bound=ast.AST)


def placed(made: _Made, place: ast.AST) -> _Made:
    """A node that was made, and all in it that has no place, at the place of another."""
    return ast.fix_missing_locations(ast.copy_location(made, place))


def load(name: str) -> ast.Name:
    """A name that is read."""
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    """A name that is bound."""
    return ast.Name(name, ast.Store())


def assignment(name: str, value: ast.expr, place: ast.AST) -> ast.Assign:
    """`name = value`, at the place of a node."""
    return placed(ast.Assign([store(name)], value), place)


def name_of(name: str, place: ast.AST, *, stores: bool = False) -> ast.Name:
    """A name as a node at the place of another one."""
    return ast.copy_location(ast.Name(name, ast.Store() if stores else ast.Load()), place)


def assigned(name: str, value: ast.expr, place: ast.AST | None = None) -> core.Pure:
    """`name = value`."""
    return core.Pure(assignment(name, value, value if place is None else place))


def constant(value: object, place: ast.AST) -> ast.Constant:
    """A constant at the place of a node."""
    return ast.copy_location(ast.Constant(cast("str", value)), place)


def call_of(function: str, *arguments: ast.expr) -> ast.Call:
    """A call of a function."""
    made = ast.Call(ast.Name(function, ast.Load()), list(arguments), [])
    return ast.fix_missing_locations(ast.copy_location(made, arguments[0]))


def statement_of(value: ast.expr) -> ast.stmt:
    """An expression as a statement."""
    return ast.copy_location(ast.Expr(value), value)


def none(place: ast.AST) -> ast.Constant:
    """None at the place of a node."""
    return ast.copy_location(ast.Constant(None), place)


def marked_failure(name: str, place: ast.AST, own: Iterable[str] = ()) -> ast.expr:
    """The failure of a handler, as a value that is known to be one.

    `own` are the exceptions of the program, where these carry more than their words.
    """
    parts = [f"{key!r}: {name}[{key!r}]" for key in ("kind", "message", "step")]
    kinds = tuple(own)
    if kinds:
        parts.append(f"'fields': {name}['fields'] if {name}['kind'] in {kinds!r} else None")
    return parsed("{" + ", ".join([*parts, f"{MARK!r}: True"]) + "}", place)


def has_methods(one: ast.ClassDef) -> bool:
    """Whether a class has more than a name."""
    return any(not isinstance(each, (ast.Pass, ast.Expr)) for each in one.body)


def only_raises(node: ast.stmt) -> bool:
    """Whether a statement is `if …: raise …`, which a plan can say itself."""
    return isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ast.Raise)


def sets_plainly(node: ast.stmt) -> bool:
    """Whether a statement gives variables plain new values, which cannot fail.

    >>> [sets_plainly(one) for one in ast.parse("total, rows = 0, []; n = int(x)").body]
    [True, False]
    """
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            if len(names) != len(values):
                return False
        case ast.Assign(targets=names, value=value):
            values = [value]
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            names, values = [target], [value]
        case _:
            return False
    return all(isinstance(one, ast.Name) for one in names) and all(map(_is_plain, values))


def _is_plain(value: ast.expr) -> bool:
    match value:
        case ast.Constant() | ast.Dict(keys=[]):
            return True
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return all(map(_is_plain, parts))
        case ast.Call(func=ast.Name(id="set" | "dict" | "list"), args=[], keywords=[]):
            return True
        case _:
            return False


def is_value(pattern: ast.pattern) -> bool:
    """Whether a pattern is one of plain values."""
    match pattern:
        case ast.MatchValue(value=ast.Constant()) | ast.MatchSingleton():
            return True
        case ast.MatchAs(pattern=None, name=None):
            return True
        case ast.MatchOr(patterns=patterns):
            return all(map(is_value, patterns))
        case _:
            return False


def value_test(pattern: ast.pattern, subject: ast.expr) -> ast.expr | None:
    """The test of a pattern of plain values; None for one that takes all."""
    match pattern:
        case ast.MatchValue(value=value):
            return ast.Compare(subject, [ast.Eq()], [value])
        case ast.MatchSingleton(value=value):
            return ast.Compare(subject, [ast.Is()], [ast.Constant(value)])
        case ast.MatchOr(patterns=patterns):
            tests = [value_test(one, subject) for one in patterns]
            known = [one for one in tests if one is not None]
            return None if len(known) < len(tests) else ast.BoolOp(ast.Or(), known)
        case _:
            return None


def slots_of(node: ast.AST) -> Iterator[tuple[ast.expr, str, int]]:
    """The parts of an expression in the order of their evaluation, each with where it stands."""
    if isinstance(node, ast.Dict):
        for number, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            if key is not None:
                yield key, "keys", number
            yield value, "values", number
        node.keys, node.values = list(node.keys), list(node.values)
        return
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            node.func = copy.copy(node.func)
            yield node.func.value, "func.value", -1
        elif not isinstance(node.func, ast.Name):
            yield node.func, "func", -1
        node.args = list(node.args)
        for number, one in enumerate(node.args):
            yield one, "args", number
        node.keywords = [copy.copy(one) for one in node.keywords]
        for number, one in enumerate(node.keywords):
            yield one.value, "keywords", number
        return
    for field, held in ast.iter_fields(node):
        if isinstance(held, ast.expr):
            yield held, field, -1
        elif isinstance(held, list):
            values = cast("list[ast.AST]", held)
            setattr(node, field, list(values))
            for number, one in enumerate(values):
                if isinstance(one, ast.expr):
                    yield one, field, number


def put_part(node: ast.expr, field: str, number: int, value: ast.expr) -> None:
    """Put another part into an expression."""
    if field == "func.value":
        cast("ast.Attribute", cast("ast.Call", node).func).value = value
    elif field == "keywords":
        cast("ast.Call", node).keywords[number].value = value
    elif number < 0:
        setattr(node, field, value)
    else:
        getattr(node, field)[number] = value


def bound_inside(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that the functions, lambdas and comprehensions among nodes bind for themselves."""
    found: set[str] = set()
    for node in nodes:
        if node.__class__ not in _BIND_INSIDE:
            continue
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            found |= {one.arg for one in parameters_of(node.args)}
            if isinstance(node, ast.FunctionDef):
                found |= names_bound(*node.body)
        elif isinstance(node, COMPREHENSIONS):
            for one in node.generators:
                found |= names_bound(one.target)
        elif isinstance(node, ast.ClassDef):
            found |= names_bound(*node.body)
        elif isinstance(node, ast.match_case):
            found |= names_bound(node.pattern)
    return found


def loads_of(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """The names that the nodes of a tree read, without those of annotations."""
    annotations: set[int] = set()
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            held = node.returns
        else:
            held = node.annotation if isinstance(node, (ast.arg, ast.AnnAssign)) else None
        if held is not None:
            annotations |= {id(one) for one in walk(held)}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in annotations:
            yield node.id, node


class PuttingNodes(ast.NodeTransformer):
    """Puts nodes in the place of others, which are given by their ids."""

    def __init__(self, places: Mapping[int, ast.AST]) -> None:
        self.places = places

    def visit(self, node: ast.AST) -> ast.AST:
        """A node."""
        return self.places.get(id(node)) or cast("ast.AST", super().visit(node))


class PuttingNames(ast.NodeTransformer):
    """Puts copies of expressions in the place of names."""

    def __init__(self, parts: Mapping[str, ast.expr]) -> None:
        self.parts = parts

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name."""
        part = self.parts.get(node.id)
        if part is None:
            return node
        return ast.fix_missing_locations(ast.copy_location(copy.deepcopy(part), node))


class Renaming(ast.NodeTransformer):
    """Gives names other ones."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name."""
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_MatchAs(self, node: ast.MatchAs) -> ast.AST:
        """A pattern that binds a name."""
        node.name = self.names.get(node.name, node.name) if node.name else None
        return self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> ast.AST:
        """A pattern that binds the rest of a sequence."""
        node.name = self.names.get(node.name, node.name) if node.name else None
        return node

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        """A pattern that may bind the rest of a record."""
        node.rest = self.names.get(node.rest, node.rest) if node.rest else None
        return self.generic_visit(node)


def functions_in(node: ast.expr, is_function: Callable[[str], bool]) -> list[str]:
    """The functions of a literal dict, list or tuple of functions, or of a choice of one; else none."""
    parts = _choices(node)
    names = [one.id for one in parts if isinstance(one, ast.Name)]
    others = [one for one in parts if not isinstance(one, ast.Name)]
    are_none = all(isinstance(one, ast.Constant) and one.value is None for one in others)
    return names if names and are_none and all(map(is_function, names)) else []


def _choices(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return values
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return parts
        case ast.IfExp(body=one, orelse=other):
            return [each for part in (one, other) for each in (_choices(part) or [part])]
        case ast.Subscript(value=ast.Dict() as table):
            return _choices(table)
        case ast.Call(func=ast.Attribute(attr="get", value=ast.Dict() as table), args=[_, *others]):
            return [*_choices(table), *others]
        case ast.Call(func=ast.Attribute(attr="get"), args=[_, ast.Name() as other], keywords=[]):
            return [other]
        case ast.Name():
            return [node]
        case _:
            return []


def keys_of(value: ast.expr, function: ast.AsyncFunctionDef) -> set[str] | None:
    """The keys that a dict of a function may have, where it is only made and filled with literal ones.

    >>> function = ast.parse('''async def f(x):
    ...     given = {"a": 1}
    ...     if x:
    ...         given["b"] = x
    ...     await post(**given)''').body[0]
    >>> sorted(keys_of(ast.Name("given"), function))
    ['a', 'b']
    """
    if not isinstance(value, ast.Name) or value.id in {one.arg for one in parameters_of(function.args)}:
        return None
    keys: list[ast.expr | None] = []
    known: list[ast.expr] = []
    for one in walk(function):
        match one:
            case (
                ast.Assign(targets=[held], value=ast.Dict(keys=found))
                | ast.AnnAssign(target=held, value=ast.Dict(keys=found))
            ) if _is_name(held, value.id):
                keys += found
            case ast.Subscript(value=held, slice=key) if _is_name(held, value.id):
                keys.append(key)
            case (
                ast.keyword(arg=None, value=held)
                | ast.If(test=held)
                | ast.UnaryOp(op=ast.Not(), operand=held)
                | ast.Call(
                    func=ast.Name(id="len" | "sorted" | "list" | "str") | ast.Attribute(attr="join"),
                    args=[held],
                )
            ):
                pass
            case _:
                continue
        known.append(held)
    texts = [one.value for one in keys if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    names = [one for one in walk(function) if _is_name(one, value.id)]
    is_closed = len(texts) == len(keys) and all(any(one is each for each in known) for one in names)
    return set(texts) if is_closed else None


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def chosen_from(func: ast.expr) -> str:
    """The variable that is called, or out of which what is called is taken; empty for anything else.

    >>> [chosen_from(ast.parse(one, mode="eval").body) for one in ("f", "t[k]", "t.get(k, f)", "f(1)")]
    ['f', 't', 't', '']
    """
    match func:
        case ast.Subscript(value=ast.Name(id=name)) | ast.Name(id=name):
            return name
        case ast.Call(func=ast.Attribute(attr="get", value=ast.Name(id=name))):
            return name
        case _:
            return ""


def named_functions(node: ast.expr) -> ast.expr:
    """A literal of functions, or a choice of one, with their names as texts."""
    made = copy.copy(node)
    match made:
        case ast.Dict():
            made.values = [named_functions(one) for one in made.values]
        case ast.List() | ast.Tuple():
            made.elts = [named_functions(one) for one in made.elts]
        case ast.IfExp():
            made.body, made.orelse = named_functions(made.body), named_functions(made.orelse)
        case ast.Subscript(value=table):
            made.value = named_functions(table)
        case ast.Call(func=ast.Attribute(value=holder) as func, args=[key, *others]):
            if isinstance(holder, ast.Dict):
                made.func = ast.copy_location(
                    ast.Attribute(named_functions(holder), func.attr, func.ctx), func
                )
            made.args = [key, *map(named_functions, others)]
        case ast.Name(id=name):
            return ast.copy_location(ast.Constant(name), node)
        case _:
            pass
    return made


def is_plain(node: ast.expr) -> bool:
    """Whether evaluating an expression cannot fail, and gives the same later."""
    if isinstance(node, (ast.Constant, ast.Name)):
        return True
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(map(is_plain, node.elts))
    if isinstance(node, ast.Dict):
        return all(key is not None and is_plain(key) for key in node.keys) and all(map(is_plain, node.values))
    return False


def is_shared(node: ast.expr, inner: set[str]) -> bool:
    """Whether an argument is the same for all items, and cannot fail."""
    return is_plain(node) and not any(isinstance(one, ast.Name) and one.id in inner for one in walk(node))


def parsed_lines(lines: Iterable[str], place: ast.AST) -> list[ast.stmt]:
    """The statements of lines of text, all at the place of a node."""
    made = ast.parse("\n".join(lines)).body
    for each in (inner for one in made for inner in ast.walk(one)):
        ast.copy_location(each, place)
    return made


def parsed(text: str, place: ast.AST) -> ast.expr:
    """The expression of a text, at the place of a node."""
    made = ast.parse(text, mode="eval").body
    for one in walk(made):
        ast.copy_location(one, place)
    return made


def is_plain_lambda(node: ast.Lambda, count: int) -> bool:
    """Whether a lambda takes just so many arguments by their places."""
    of = node.args
    return len(of.args) == count and not (
        of.posonlyargs or of.kwonlyargs or of.defaults or of.vararg or of.kwarg
    )


Given: TypeAlias = "tuple[frozenset[str], frozenset[str]]"
_NONE_GIVEN: Final[Given] = frozenset(), frozenset()


def names_given(node: ast.AST, tests: Mapping[str, Given] = MappingProxyType({})) -> Given:
    """The names that `:=` in an expression surely gives a value: where it is true, and where it is false.

    `tests` are the same of variables that hold what an expression gave.

    >>> names_given(ast.parse("a and (b := c)", mode="eval").body)
    (frozenset({'b'}), frozenset())
    """
    if not tests and not any(isinstance(one, ast.NamedExpr) for one in walk(node)):
        return _NONE_GIVEN
    match node:
        case ast.Name(id=name, ctx=ast.Load()) if name in tests:
            return tests[name]
        case ast.NamedExpr(target=target, value=value):
            true, false = names_given(value, tests)
            return true | {target.id}, false | {target.id}
        case ast.BoolOp(op=op, values=values):
            going: frozenset[str] = frozenset()
            ends: list[frozenset[str]] = []
            for one in values:
                true, false = names_given(one, tests)[:: 1 if isinstance(op, ast.And) else -1]
                ends.append(going | false)
                going |= true
            early = ends[0]
            for one in ends[1:]:
                early &= one
            return (going, early) if isinstance(op, ast.And) else (early, going)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            true, false = names_given(operand, tests)
            return false, true
        case ast.IfExp(test=test, body=first, orelse=second):
            sides = [
                [when | each for each in names_given(side, tests)]
                for when, side in zip(names_given(test, tests), (first, second), strict=True)
            ]
            return sides[0][0] & sides[1][0], sides[0][1] & sides[1][1]
        case ast.Lambda():
            parts: list[ast.AST] = []
        case ast.Compare(left=left, comparators=[first, *_]):
            parts = [left, first]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            (first, *others) = node.generators
            parts = [first.iter]
            if not (others or first.ifs or isinstance(node, ast.GeneratorExp)) and surely_runs(first.iter):
                parts += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        case _:
            parts = list(ast.iter_child_nodes(node))
    surely: frozenset[str] = frozenset()
    for one in parts:
        surely |= named_surely(one)
    return surely, surely


def named_surely(node: ast.AST) -> frozenset[str]:
    """The names that `:=` in an expression gives a value whenever it is evaluated."""
    true, false = names_given(node)
    return true & false


def surely_runs(source: ast.expr) -> bool:
    """Whether what a loop goes through surely has an item."""
    match source:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return any(not isinstance(one, ast.Starred) for one in parts)
        case ast.Constant(value=str() as text):
            return bool(text)
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int() as stop)]):
            return stop > 0
        case ast.Call(
            func=ast.Name(id="range"),
            args=[ast.Constant(value=int() as start), ast.Constant(value=int() as stop)],
        ):
            return stop > start
        case ast.Call(func=ast.Name(id="enumerate" | "reversed" | "list" | "sorted"), args=[only, *_]):
            return surely_runs(only)
        case _:
            return False


def kept_in(node: ast.AST) -> list[ast.expr]:
    """The calls that a container or a task keeps, in tuples or not."""
    kept: list[ast.expr] = []
    match node:
        case ast.List(elts=kept) | ast.Tuple(elts=kept) | ast.Dict(values=kept):
            pass
        case ast.ListComp(elt=one) | ast.GeneratorExp(elt=one) | ast.DictComp(value=one):
            kept = [one]
        case ast.Call(func=ast.Attribute(attr="append" | "create_task" | "ensure_future"), args=kept):
            pass
        case ast.Assign(targets=[ast.Subscript()], value=one):
            kept = [one]
        case _:
            pass
    return kept
