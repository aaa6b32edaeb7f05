"""What classes hold for everybody, and where a file changes it by another name: `k = C; k.n = 4`.

In: the nodes of a file. Out: nothing, or the refusal of the first such place: pieces of a plan are given
their classes as the file defines them. What is set by the name of its class, pure code refuses itself.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from callsheet.frontends.pure_code.class_refusals import MAKERS
from callsheet.frontends.pure_code.classes import ENUMS
from callsheet.frontends.pure_code.laziness import CHANGERS, CHANGING_METHODS
from callsheet.frontends.python.analysis.container_words import LAZY, SHALLOW
from callsheet.frontends.python.rewrites.inlining import name_called
from callsheet.frontends.python.source import (
    Nodes,
    Refused,
    among,
    decorator_name,
    dotted,
    names_bound,
    own_nodes,
    walk,
)

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_CONTAINERS: Final = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_BINDERS: Final = (
    *(ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.For, ast.AsyncFor, ast.comprehension, ast.Call),
)
_OF_ITEMS: Final = LAZY | SHALLOW
_VIEWS: Final = frozenset({"items", "values"})
_TAKES: Final = frozenset({"get", "pop", "popleft", "popitem", "setdefault"})


class _Held(NamedTuple):
    """A class, or an object that one holds, and how it is called in a message."""

    text: str
    is_class: bool = False
    is_item: bool = False


def check_class_state(module: ast.Module, nodes: Nodes) -> None:
    """Raises Refused (PYT026) where a class, or an object that one holds, is changed by another name.

    >>> check = lambda text: check_class_state(made := ast.parse(text), Nodes(made))
    >>> check('''class C: n = 1
    ... def main():
    ...     k = C
    ...     k().n = 2''')
    >>> check('''class C: n = 1
    ... def main():
    ...     k = C
    ...     k.n = 2''')
    Traceback (most recent call last):
    callsheet.frontends.python.source.Refused: C is one class for everybody, and is changed as k
    """
    classes = {one.name: one for one in nodes.of(ast.ClassDef)}
    if classes:
        state = _State(module, nodes, classes)
        state.flow()
        state.check()


class _State:
    """What the variables of a file may hold of its classes; those of a function with those inside it."""

    def __init__(self, module: ast.Module, nodes: Nodes, classes: Mapping[str, ast.ClassDef]) -> None:
        self.classes = classes
        self.fields = {name for one in classes.values() for name in names_bound(*one.body)}
        stored = {one.attr for one in nodes.of(ast.Attribute) if isinstance(one.ctx, ast.Store)}
        added = {one.target.attr for one in nodes.of(ast.AugAssign) if isinstance(one.target, ast.Attribute)}
        shared = [each for one in classes.values() for each in _objects(one, classes)]
        self.objects = {name: text for name, text, _ in shared if name not in stored - added}
        self.places = {text: place for _, text, place in shared}
        self.scopes = {id(one): number for number, part in enumerate(_scopes(module)) for one in walk(part)}
        self.nodes, self.binders = nodes, nodes.of(*_BINDERS)
        self.held: defaultdict[tuple[int, str], set[_Held]] = defaultdict(set)
        """What a variable may be, by the number of its scope; 0 for those of the file and fields, `.name`."""
        self.items: defaultdict[tuple[int, str], set[_Held]] = defaultdict(set)
        self.given = {one: defaultdict[tuple[str, int | str], set[_Held]](set) for one in ("held", "items")}
        """What calls give to functions of a name, and the items of that, by place or by word."""
        self.known = dict[int, set[_Held]]()
        self.results = list[tuple[str, ast.expr]]()
        """What functions return, by their names."""
        self.functions: defaultdict[str, list[tuple[_Function, bool]]] = defaultdict(list)
        """By name, and whether it is a method that is given its object."""
        methods = {id(one): name for name, each in classes.items() for one in each.body}
        self.made = {
            id(one): name
            for name, each in classes.items()
            for one in among(each.body, ast.FunctionDef)
            if one.name == "__init__"
        }
        """The classes that the functions make which calls of these run."""
        for one in nodes.of(ast.FunctionDef, ast.AsyncFunctionDef):
            marks = {decorator_name(mark) for mark in one.decorator_list}
            returns = among(own_nodes(*one.body), ast.Return)
            self.results += [(one.name, each.value) for each in returns if each.value is not None]
            self.functions[one.name].append((one, id(one) in methods and "staticmethod" not in marks))
            if "classmethod" in marks and one.args.args and id(one) in methods:
                name = one.args.args[0].arg
                self.held[self._scope(one), name].add(
                    _Held(f"{methods[id(one)]} is one class for everybody", is_class=True)
                )

    def flow(self) -> None:
        """Follow what is held from variable to variable, until nothing is new."""
        size = -1
        while size != (size := sum(map(len, (*self.held.values(), *self.items.values())))):
            self.known.clear()
            for name, value in self.results:
                self._set((0, f"{name}()"), value)
            for one in self.binders:
                match one:
                    case ast.Assign(targets=targets, value=value):
                        for target in targets:
                            self._bind(target, value)
                    case (
                        ast.AnnAssign(target=target, value=ast.expr() as value)
                        | ast.NamedExpr(target=target, value=value)
                    ):
                        self._bind(target, value)
                    case (
                        ast.For(target=target, iter=source)
                        | ast.AsyncFor(target=target, iter=source)
                        | ast.comprehension(target=target, iter=source)
                    ):
                        self._bind_items(target, self._items(source))
                    case ast.Call():
                        self._give(one)
                    case _:
                        pass
            self._take()

    def _scope(self, node: ast.AST) -> int:
        return self.scopes.get(id(node), 0)

    def _set(self, key: tuple[int, str], value: ast.expr) -> None:
        self.held[key] |= self._of(value)
        self.items[key] |= self._items(value)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._set((self._scope(target), target.id), value)
        elif isinstance(target, ast.Attribute):
            self._set((0, f".{target.attr}"), value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = getattr(value, "elts", ())
            if len(parts) == len(target.elts) and not any(isinstance(one, ast.Starred) for one in parts):
                for name, part in zip(target.elts, parts, strict=True):
                    self._bind(name, part)
            else:
                self._bind_items(target, self._items(value))

    def _bind_items(self, target: ast.expr, found: set[_Held]) -> None:
        for one in walk(target):
            if isinstance(one, ast.Name):
                self.held[self._scope(one), one.id] |= found

    def _give(self, call: ast.Call) -> None:
        """What a call gives the parameters of the functions of a name; those of `__init__` by their class."""
        name = name_called(call).rpartition(".")[2]
        words = ((one.arg, one.value) for one in call.keywords if one.arg is not None)
        for place, value in (*enumerate(call.args), *words):
            self.given["held"][name, place] |= self._of(value)
            self.given["items"][name, place] |= self._items(value)

    def _take(self) -> None:
        """Let the parameters of each function hold what is given to its name."""
        for name, functions in self.functions.items():
            for function, is_bound in functions:
                called = {name, self.made.get(id(function), name)}
                names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)][is_bound:]
                words = [*names, *(one.arg for one in function.args.kwonlyargs)]
                for place, parameter in (*enumerate(names), *zip(words, words, strict=True)):
                    for by in called:
                        self._hold((self._scope(function), parameter), (by, place))

    def _hold(self, key: tuple[int, str], given: tuple[str, int | str]) -> None:
        self.held[key] |= self.given["held"].get(given, set())
        self.items[key] |= self.given["items"].get(given, set())

    def _of(self, node: ast.expr) -> set[_Held]:
        """What an expression may be; found once in each go, as parts of it are asked for more than once."""
        found = self.known.get(id(node))
        if found is None:
            found = self.known[id(node)] = self._new(node)
        return found

    def _new(self, node: ast.expr) -> set[_Held]:
        match node:
            case ast.Name(id=name):
                own = (
                    {_Held(f"{name} is one class for everybody", is_class=True)}
                    if name in self.classes
                    else set[_Held]()
                )
                return own | self.held.get((self._scope(node), name), set()) | self.held.get((0, name), set())
            case ast.Attribute(attr="__class__") | ast.Call(func=ast.Name(id="type"), args=[_]):
                return {_Held("a class is one for everybody", is_class=True)}
            case ast.Attribute(attr=attr):
                own = {_Held(self.objects[attr])} if attr in self.objects else set[_Held]()
                return own | self.held.get((0, f".{attr}"), set())
            case ast.IfExp(body=one, orelse=other):
                return self._of(one) | self._of(other)
            case ast.BoolOp(values=values):
                return {each for one in values for each in self._of(one)}
            case ast.NamedExpr(value=value) | ast.Await(value=value):
                return self._of(value)
            case ast.Subscript(value=value, slice=place):  # `x[:]` is a new container of the same items
                return set() if isinstance(place, ast.Slice) else self._items(value)
            case ast.Starred(value=value):
                return self._items(value)
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _TAKES:
                return self._items(value)
            case _:
                return self.held.get(_result(node), set()) if isinstance(node, ast.Call) else set()

    def _items(self, node: ast.expr) -> set[_Held]:
        """What an item of an expression may be, or an item of such an item."""
        parts: list[ast.expr] = []
        match node:
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts) | ast.Dict(values=parts):
                pass
            case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part) | ast.DictComp(value=part):
                parts = [part]
            case ast.Call(func=ast.Attribute(value=value, attr=attr), args=[]) if attr in _VIEWS:
                return self._items(value)
            case ast.Call(func=ast.Name(id=name), args=args) if name in _OF_ITEMS:
                return {each for one in args for each in self._items(one)}
            case ast.Name(id=name):
                keys = (self._scope(node), name), (0, name)
                found = {each for key in keys for each in self.items.get(key, ())}
                return found | self._items_of_held(node)
            case ast.Attribute(attr=attr):
                return self.items.get((0, f".{attr}"), set()) | self._items_of_held(node)
            case ast.Call():
                return self.items.get(_result(node), set()) | self._items_of_held(node)
            case ast.Await(value=value) | ast.Subscript(value=value, slice=ast.Slice()):
                return self._items(value)
            case _:
                return self._items_of_held(node)
        return {each for one in parts for each in (*self._of(one), *self._items(one))}

    def _items_of_held(self, node: ast.expr) -> set[_Held]:
        return {one._replace(is_item=True) for one in self._of(node) if not one.is_class}

    def check(self) -> None:
        """Raises Refused for the first change of what is held."""
        for one in self.nodes:
            match one:
                case ast.Attribute(value=root, attr=attr, ctx=ast.Store() | ast.Del()):
                    found = {each for each in self._of(root) if not each.is_class or attr in self.fields}
                    is_named = isinstance(root, ast.Name) and root.id in self.classes
                    found = set[_Held]() if is_named else found
                case ast.Subscript(value=root, ctx=ast.Store() | ast.Del()):
                    found = self._objects(root)
                case ast.Call(func=ast.Attribute(value=root, attr=attr)) if attr in CHANGING_METHODS:
                    found = self._objects(root)
                case ast.Call(func=func, args=[root, *_]) if dotted(func) in CHANGERS:
                    found = self._objects(root)
                case ast.AugAssign(target=ast.Name() as root, value=value) if not isinstance(
                    value, ast.Constant
                ):
                    found = {each for each in self._objects(root) if not each.is_item}
                case _:
                    continue
            if found:
                text = min(found).text
                raise Refused(
                    "PYT026",
                    self.places.get(text, one),
                    f"{text}, and is changed as {ast.unparse(root)}",
                    "make one for each object, in __init__, or one in main that functions are given",
                )

    def _objects(self, root: ast.expr) -> set[_Held]:
        return {one for one in self._of(root) if not one.is_class}


def _result(call: ast.Call) -> tuple[int, str]:
    """What stands for the result of a function in place of a variable."""
    return 0, f"{name_called(call).rpartition('.')[2]}()"


def _scopes(module: ast.Module) -> Iterator[ast.AST]:
    """The file without its functions, as nothing; and the functions and methods, with what is inside them."""
    yield ast.Pass()
    for one in module.body:
        for each in one.body if isinstance(one, ast.ClassDef) else [one]:
            if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield each


def _objects(shape: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> Iterator[tuple[str, str, ast.stmt]]:
    """The fields of a class that hold an object for all, what is said of them, and where they are set."""
    is_enum = any((dotted(one) or "").rpartition(".")[2] in ENUMS for one in shape.bases)
    for one in shape.body:
        match one:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if _can_change(value, classes):
                field = "value" if is_enum else name
                text = f"{name}.value" if is_enum else name
                yield field, f"{text} is one object for all of {shape.name}", one
            case _:
                pass


def _can_change(value: ast.expr, classes: Mapping[str, ast.ClassDef]) -> bool:
    match value:
        case ast.Tuple(elts=parts):
            return any(_can_change(one, classes) for one in parts)
        case ast.Call():
            return name_called(value).rpartition(".")[2] in MAKERS or name_called(value) in classes
        case _:
            return isinstance(value, _CONTAINERS)
