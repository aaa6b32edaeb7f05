"""Functions inside of values, which a plan cannot keep over a call, as definitions of the program.

The default of a defaultdict becomes a function of the file; a variable that is set once, to functions that
depend on nothing that changes, is evaluated again by each piece of pure code that names it.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

from callsheet.frontends.pure_code.facts import FACTORY
from callsheet.frontends.python.analysis.container_words import MUTATORS
from callsheet.frontends.python.rewrites.factories import changes_state
from callsheet.frontends.python.rewrites.inlining import Fresh
from callsheet.frontends.python.source import Nodes, Refused, dotted, names_bound, names_read, own_nodes, walk
from callsheet.frontends.python.syntax import parsed, placed

_MAKE_FUNCTIONS: Final = frozenset(
    {"functools.partial", "operator.itemgetter", "operator.attrgetter", "operator.methodcaller"}
)
_PASSES_ON: Final = frozenset({"enumerate", "zip", "list", "tuple", "reversed", "iter", "dict"})
"""Built-in functions whose result holds what they are given."""
_BUILT_IN: Final = frozenset(dir(builtins))


def name_factories(tree: ast.Module, nodes: Nodes) -> None:
    """Give each lambda or function that makes the defaults of a defaultdict a name at the end of the file."""
    if not any(
        isinstance(one, ast.Call) and (dotted(one.func) or "").rpartition(".")[2] == "defaultdict"
        for one in nodes
    ):
        return
    known = set(_BUILT_IN)
    for one in tree.body:
        known |= names_bound(one)
        if isinstance(one, (ast.Import, ast.ImportFrom)):
            known |= {(each.asname or each.name).partition(".")[0] for each in one.names}
        elif isinstance(one, (ast.FunctionDef, ast.ClassDef)):
            known.add(one.name)
    functions = {one.name for one in tree.body if isinstance(one, (ast.FunctionDef, ast.ClassDef))}
    naming = _Naming(known, functions)
    naming.visit(tree)
    tree.body += naming.made


class _Naming(ast.NodeTransformer):
    def __init__(self, known: set[str], functions: set[str]) -> None:
        self.known, self.functions = known, functions
        self.made: list[ast.stmt] = []

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call, after what is inside it."""
        self.generic_visit(node)
        if (dotted(node.func) or "").rpartition(".")[2] != "defaultdict" or not node.args:
            return node
        factory = node.args[0]
        if (
            isinstance(factory, ast.Name)
            and factory.id in self.functions
            and not factory.id.startswith(FACTORY)
        ):
            empty = ast.arguments([], [], None, [], [], None, [])
            factory = ast.copy_location(ast.Lambda(empty, ast.Call(factory, [], [])), factory)
        if not isinstance(factory, ast.Lambda) or names_read(factory.body) - self.known:
            return node
        number = len(self.made) + 1
        while (name := f"{FACTORY}{number}") in self.known:
            number += 1
        self.known.add(name)
        made = ast.FunctionDef(name, factory.args, [ast.Return(factory.body)], [], None)
        vars(made)["type_params"] = []
        self.made.append(ast.fix_missing_locations(ast.copy_location(made, factory)))
        node.args[0] = ast.copy_location(ast.Name(name, ast.Load()), factory)
        return node


def unawaiting_as_pure(module: ast.Module, nodes: Nodes) -> bool:
    """Write async functions that await nothing, and keep functions in values, as pure ones; whether any was.

    >>> module = ast.parse('''async def team(text):
    ...     for fits, name in [(lambda s: "log" in s, "auth")]:
    ...         if fits(text):
    ...             return name
    ... async def main(): return await team("login")''')
    >>> unawaiting_as_pure(module, Nodes(module))
    True
    >>> type(module.body[0]).__name__, ast.unparse(module.body[1].body[0])
    ('FunctionDef', "return team('login')")
    """
    awaited = {id(one.value.func) for one in nodes.of(ast.Await) if isinstance(one.value, ast.Call)}
    changed: set[str] = set()
    for number, one in enumerate(module.body):
        if not isinstance(one, ast.AsyncFunctionDef) or one.decorator_list or one.name == "main":
            continue
        inside = [each for part in one.body for each in walk(part)]
        waits = (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.AsyncFunctionDef, ast.Yield, ast.YieldFrom)
        is_pure = not any(isinstance(each, waits) or getattr(each, "is_async", 0) for each in inside)
        if not is_pure or not any(isinstance(each, ast.Lambda) for each in inside):
            continue
        uses = [each for each in nodes.of(ast.Name) if each.id == one.name]
        if uses and all(id(each) in awaited for each in uses):
            made = ast.FunctionDef(one.name, one.args, one.body, [], one.returns)
            vars(made)["type_params"] = []
            module.body[number] = placed(made, one)
            changed.add(one.name)
    if changed:
        _Unawaited(changed).visit(module)
    return bool(changed)


class _Unawaited(ast.NodeTransformer):
    """Takes the awaits of calls away."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_Await(self, node: ast.Await) -> ast.AST:
        """An await."""
        self.generic_visit(node)
        called = node.value.func if isinstance(node.value, ast.Call) else None
        return node.value if isinstance(called, ast.Name) and called.id in self.names else node


_LOOKUPS: Final = {"__getitem__": "lambda _key: {}[_key]", "__contains__": "lambda _key: _key in {}"}


def lookups_as_lambdas(nodes: Nodes) -> bool:
    """Write `table.__getitem__` that a function is given as what it means; whether there was any.

    >>> module = ast.parse("best = max(names, key=prices.__getitem__)")
    >>> lookups_as_lambdas(Nodes(module))
    True
    >>> print(ast.unparse(module))
    best = max(names, key=lambda _key: prices[_key])
    """

    def written(one: ast.expr) -> ast.expr:
        match one:
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if attr in _LOOKUPS:
                return parsed(_LOOKUPS[attr].format(name), one)
            case _:
                return one

    changed = False
    for node in nodes:
        if isinstance(node, ast.Call):
            given = [written(one) for one in node.args]
            words = [written(one.value) for one in node.keywords]
            before = [*node.args, *(one.value for one in node.keywords)]
            changed |= any(one is not each for one, each in zip(before, [*given, *words], strict=True))
            node.args = given
            for word, value in zip(node.keywords, words, strict=True):
                word.value = value
    return changed


def partials_as_calls(nodes: Nodes) -> bool:
    """Write the calls of `name = partial(f, …)` as calls of `f`; whether there were any.

    It stays where the name is set again, or is more than called.

    >>> module = ast.parse('''async def main(channel):
    ...     tell = partial(post, channel, level=2)
    ...     return await tell("a")''')
    >>> partials_as_calls(Nodes(module))
    True
    >>> print(ast.unparse(module))
    async def main(channel):
        given_at_1 = channel
        return await post(given_at_1, 'a', level=2)
    """
    fresh, changed = Fresh(nodes), False
    for owner in nodes.of(ast.Module, ast.AsyncFunctionDef):
        for number, one in reversed(list(enumerate(owner.body))):
            match one:
                case ast.Assign(
                    targets=[ast.Name(id=name)], value=ast.Call(args=[ast.Name(), *_]) as made
                ) if dotted(made.func) in {"partial", "functools.partial"}:
                    before = _written_out(owner, name, made, fresh)
                    if before is not None:
                        owner.body[number : number + 1] = before or [placed(ast.Pass(), one)]
                        changed = True
                case _:
                    pass
    return changed


def _written_out(
    owner: ast.Module | ast.AsyncFunctionDef, name: str, made: ast.Call, fresh: Fresh
) -> list[ast.stmt] | None:
    """What stands in the place of a partial whose calls are written out; None if it has to stay."""
    uses = [one for one in walk(owner) if isinstance(one, ast.Name) and one.id == name]
    calls = [one for one in walk(owner) if isinstance(one, ast.Call) and one.func in uses]
    has_stars = any(isinstance(one, ast.Starred) for one in made.args) or any(
        word.arg is None for word in made.keywords
    )
    is_named = any(isinstance(one, ast.arg) and one.arg == name for one in walk(owner))
    awaited = {id(one.value) for one in walk(owner) if isinstance(one, ast.Await)}
    if len(uses) != len(calls) + 1 or has_stars or is_named or not any(id(one) in awaited for one in calls):
        return None
    before: list[ast.stmt] = []

    def held(value: ast.expr) -> ast.expr:
        if isinstance(value, ast.Constant):
            return value
        given = fresh("given")
        before.append(placed(ast.Assign([ast.Name(given, ast.Store())], value), value))
        return ast.copy_location(ast.Name(given, ast.Load()), value)

    function, *first = made.args
    first = [held(one) for one in first]
    words = {word.arg: held(word.value) for word in made.keywords}
    for one in calls:
        later = {word.arg for word in one.keywords}
        one.func = ast.copy_location(copy.deepcopy(function), one.func)
        one.args = [*copy.deepcopy(first), *one.args]
        one.keywords += [
            ast.copy_location(ast.keyword(word, copy.deepcopy(value)), one)
            for word, value in words.items()
            if word not in later
        ]
    return before


def holds_functions(
    one: ast.stmt,
    function: ast.AsyncFunctionDef,
    is_variable: Callable[[str], bool],
    is_pure_function: Callable[[str], bool],
    resolved: Callable[[ast.AST], str | None],
    definition: Callable[[str], ast.stmt | None],
) -> str | None:
    """The variable that a statement sets, for good, to functions or a literal of functions; else None."""
    if not isinstance(one, ast.Assign) or len(one.targets) != 1 or not isinstance(one.targets[0], ast.Name):
        return None
    name, value = one.targets[0].id, one.value
    if isinstance(value, ast.Lambda):
        return name
    made = (
        definition(value.func.id)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
        else None
    )
    if isinstance(made, ast.FunctionDef) and _gives_function(made) and changes_state(made):
        raise Refused(
            "PYT015",
            one,
            f"{name} is a function with a state of its own, and a plan keeps values alone between its calls",
            f"write {made.name} as a class with a method, or only call {name}: do not hand it on",
        )
    if not has_functions(value, is_pure_function, resolved, definition):
        return None
    if any(is_variable(read) for read in _read_now(value)):
        return None
    stores = 0
    for node in walk(function):
        match node:
            case ast.Name(id=known, ctx=ast.Store() | ast.Del()) if known == name:
                stores += 1
            case ast.Subscript(value=ast.Name(id=known), ctx=ast.Store() | ast.Del()) if known == name:
                return None
            case ast.Attribute(value=ast.Name(id=known), attr=attr) if known == name and attr in MUTATORS:
                return None
            case _:
                pass
    return name if stores == 1 else None


def is_built_in(name: str) -> bool:
    """Whether a name is that of a built-in function or type, and no exception."""
    found = getattr(builtins, name, None)
    return name.islower() and callable(found)


def has_functions(  # noqa: PLR0911 - a case each
    node: ast.expr,
    is_pure_function: Callable[[str], bool],
    resolved: Callable[[ast.AST], str | None],
    definition: Callable[[str], ast.stmt | None],
) -> bool:
    """Whether a value is a function, or a literal that holds one."""
    match node:
        case ast.Lambda():
            return True
        case ast.Name(id=name):
            made = definition(name)
            if isinstance(made, (ast.Assign, ast.AnnAssign)) and made.value is not None:
                return has_functions(made.value, is_pure_function, resolved, definition)
            return is_pure_function(name)
        case ast.Call(func=ast.Name(id=name), args=parts) if name in _PASSES_ON:
            return any(has_functions(one, is_pure_function, resolved, definition) for one in parts)
        case ast.Call(func=ast.Attribute(value=inner, attr="items" | "values" | "copy"), args=[]):
            return has_functions(inner, is_pure_function, resolved, definition)
        case ast.Attribute(value=ast.Name(id=name)):
            return is_built_in(name) and is_pure_function(name)
        case ast.Subscript(value=ast.Name(id=name)):
            table = getattr(definition(name), "value", None)
            parts = table.values if isinstance(table, ast.Dict) else getattr(table, "elts", [])
            return bool(parts) and all(isinstance(one, ast.Lambda) for one in parts)
        case ast.Call(func=ast.Name(id=name)) if is_pure_function(name) and _gives_function(definition(name)):
            return True
        case ast.Call(func=func):
            return resolved(func) in _MAKE_FUNCTIONS
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.Dict(values=parts):
            return any(has_functions(one, is_pure_function, resolved, definition) for one in parts)
        case ast.ListComp(elt=element) | ast.DictComp(value=element) | ast.SetComp(elt=element):
            return has_functions(element, is_pure_function, resolved, definition)
        case _:
            return False


def _gives_function(found: ast.stmt | None) -> bool:
    """Whether a function surely returns a function that it defines."""
    if not isinstance(found, ast.FunctionDef):
        return False
    own = {one.name for one in found.body if isinstance(one, ast.FunctionDef)}
    returns = [one.value for one in own_nodes(found) if isinstance(one, ast.Return)]

    def is_function(one: ast.expr | None) -> bool:
        match one:
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
                return any(map(is_function, parts))
            case _:
                return isinstance(one, ast.Lambda) or (isinstance(one, ast.Name) and one.id in own)

    return bool(returns) and all(map(is_function, returns))


def _read_now(node: ast.AST) -> set[str]:
    """The names that an expression reads when it is evaluated, and not when its functions are called."""
    if isinstance(node, ast.Lambda):
        return set()
    if isinstance(node, ast.Name):
        return {node.id}
    found: set[str] = set()
    for one in ast.iter_child_nodes(node):
        found |= _read_now(one)
    return found


_MOST_DEPTH: Final = 20
"""How many constants may be made of one another."""


def with_constants(node: ast.expr, definitions: Mapping[str, ast.stmt]) -> ast.expr:
    """An expression with the values of the file's constants in their places, and sums of numbers done.

    >>> known = {one.targets[0].id: one for one in ast.parse("DAY = 24 * 60; N = 2").body}
    >>> ast.unparse(with_constants(ast.parse("[DAY * N, other]", mode="eval").body, known))
    '[2880, other]'
    """
    return _Constants(definitions).visit(copy.deepcopy(node))


class _Constants(ast.NodeTransformer):
    def __init__(self, definitions: Mapping[str, ast.stmt]) -> None:
        self.definitions, self.depth = definitions, 0

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name."""
        match self.definitions.get(node.id):
            case ast.Assign(targets=[ast.Name()], value=value) | ast.AnnAssign(value=ast.expr() as value) if (
                self.depth < _MOST_DEPTH
            ):
                self.depth += 1
                made = self.visit(copy.deepcopy(value))
                self.depth -= 1
                return made
            case _:
                return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """An operation."""
        left, right = self.visit(node.left), self.visit(node.right)
        operation = _OPERATIONS.get(type(node.op))
        if operation is None or not isinstance(left, ast.Constant) or not isinstance(right, ast.Constant):
            return ast.BinOp(left, node.op, right)
        values = left.value, right.value
        is_text = all(isinstance(one, str) for one in values) and isinstance(node.op, ast.Add)
        if not is_text and not all(isinstance(one, int | float) for one in values):
            return ast.BinOp(left, node.op, right)
        try:
            return ast.copy_location(ast.Constant(operation(*values)), node)
        except ArithmeticError:
            return ast.BinOp(left, node.op, right)


_OPERATIONS: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
}
