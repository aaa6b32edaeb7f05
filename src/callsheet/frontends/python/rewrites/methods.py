"""Methods that await, as async functions of the file, which are given their objects.

In: the tree of a file, which is changed in place. `await desk.load(queue)` becomes
`await Desk_load(desk, queue)`; where several classes have a method of that name and nothing tells which
is meant, an async function asks the object. What is no plain method (a decorator, a class inside a function)
stays, and is refused later.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from callsheet.frontends.python.rewrites.inherited import classes_above, depths
from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_of, rewrite_blocks
from callsheet.frontends.python.rewrites.task_words import RUNNERS
from callsheet.frontends.python.source import (
    Nodes,
    among,
    decorator_name,
    dotted,
    names_bound,
    own_nodes,
    parameters_of,
    walk,
)
from callsheet.frontends.python.syntax import load, name_of, placed, store

_PLAIN: Final = frozenset({"staticmethod", "classmethod"})
_OFTEN: Final = frozenset(
    {
        *("get", "pop", "update", "add", "remove", "append", "clear", "copy", "insert", "index", "count"),
        *("items", "keys", "values", "sort", "find", "replace", "join", "split", "format", "put", "extend"),
        *("search", "match", "close", "read", "write", "set", "wait", "group", "result", "setdefault"),
    }
)
"""Names that methods of other values have, too: such a call is a class's own where it is awaited."""
_Function = ast.AsyncFunctionDef | ast.FunctionDef


class _Method(NamedTuple):
    """A method that awaits: its class, its name, and how it gets its object."""

    owner: str
    name: str
    kind: str
    node: ast.AsyncFunctionDef


def methods_as_functions(module: ast.Module, nodes: Nodes) -> bool:
    """Write the methods that await as functions of the file; whether there were any.

    >>> module = ast.parse('''class Desk:
    ...     async def load(self, queue): self.all = await search(queue)
    ... async def main():
    ...     desk = Desk()
    ...     await desk.load("a")''')
    >>> methods_as_functions(module, Nodes(module))
    True
    >>> print(ast.unparse(module.body[1:]))
    async def Desk_load(self, queue):
        self.all = await search(queue)
    <BLANKLINE>
    async def main():
        desk = Desk()
        await Desk_load(desk, 'a')
    """
    found = [method for one in module.body if isinstance(one, ast.ClassDef) for method in _methods_of(one)]
    if not found:
        return False
    _name_returned_objects(nodes, found)
    _Moving(module, nodes, found).move()
    return True


def _name_returned_objects(nodes: Nodes, methods: Sequence[_Method]) -> None:
    """Give an object a variable that is made where a method is called which returns it: one has two names."""
    fluent = {
        one.name
        for one in methods
        if any(
            isinstance(each, ast.Return) and isinstance(each.value, ast.Name) and each.value.id == "self"
            for each in own_nodes(*one.node.body)
        )
    }
    owners, fresh = {one.owner for one in methods}, Fresh(nodes)

    def named(one: ast.stmt) -> list[ast.stmt] | None:
        match one:
            case ast.Assign(
                value=ast.Await(
                    value=ast.Call(
                        func=ast.Attribute(
                            value=ast.Call(func=ast.Name(id=owner)) as made, attr=name
                        ) as method
                    )
                )
            ) if name in fluent and owner in owners:
                held = fresh(owner.lower())
                method.value = placed(load(held), made)
                return [placed(ast.Assign([store(held)], made), one), one]
            case _:
                return None

    rewrite_blocks(blocks_of(nodes) if fluent else (), named)


def declare_fields(nodes: Nodes) -> bool:
    """Name in each class the fields that code outside of it sets: pure code keeps those that a class names.

    Whether any class was changed.

    >>> module = ast.parse("class Desk: pass\\ndesk = Desk()\\ndesk.open = True")
    >>> declare_fields(Nodes(module))
    True
    >>> print(ast.unparse(module.body[0]))
    class Desk:
        pass
        open: object
    """
    classes = [one for one in nodes.of(ast.ClassDef) if keeps_fields(one)]
    stored = {one.attr: one for one in nodes.of(ast.Attribute) if not _loads(one)}
    changed = False
    for one in classes:
        own = {each.attr for each in walk(one) if isinstance(each, ast.Attribute) and not _loads(each)}
        own |= names_bound(*one.body)
        is_data = bool(one.decorator_list)
        for name in sorted(set(stored) - own):
            kind: ast.expr = ast.Constant("ClassVar") if is_data else load("object")
            made = ast.AnnAssign(store(name), kind, None, 1)
            one.body.append(ast.fix_missing_locations(ast.copy_location(made, one.body[-1])))
            changed = True
    return changed


def _loads(node: ast.Attribute | ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def keeps_fields(one: ast.ClassDef) -> bool:
    """Whether the objects of a class have the fields that are set: no records, errors or enumerations."""
    if any((dotted(base) or "object") != "object" for base in one.bases):
        return False
    return all(decorator_name(mark) == "dataclass" for mark in one.decorator_list)


def fields_set(one: ast.ClassDef) -> list[str] | None:
    """The fields that the objects of a class may have; None if nothing may set them."""
    if any("frozen" in ast.unparse(mark) for mark in one.decorator_list):
        return None
    stored = {each.attr for each in walk(one) if isinstance(each, ast.Attribute) and not _loads(each)}
    methods = {each.name for each in one.body if isinstance(each, ast.FunctionDef)}  # a property has a setter
    return sorted((stored | names_bound(*among(one.body, ast.AnnAssign))) - methods)


def _methods_of(one: ast.ClassDef) -> Iterator[_Method]:
    for each in one.body:
        if isinstance(each, ast.AsyncFunctionDef):
            marks = [dotted(mark) or "" for mark in each.decorator_list]
            if not marks or (len(marks) == 1 and marks[0] in _PLAIN):
                yield _Method(one.name, each.name, marks[0] if marks else "", each)


class _Moving:
    """Moves the methods of one file, and writes their calls anew."""

    def __init__(self, module: ast.Module, nodes: Nodes, methods: Sequence[_Method]) -> None:
        self.module = module
        self.taken = {one.id for one in nodes.of(ast.Name)} | names_bound(*module.body)
        self.classes = {one.name: one for one in module.body if isinstance(one, ast.ClassDef)}
        self.methods: dict[str, list[_Method]] = {}
        for one in methods:
            self.methods.setdefault(one.name, []).append(one)
        self.functions = {(one.owner, one.name): self._name(one) for one in methods}
        self.depth = depths(self.classes)
        exact = self.classes.keys() - classes_above(self.classes)
        self.named = {name: self.classes[name] for name in exact}
        """The classes whose objects an annotation tells: no others are made from them."""
        self.fields = {name: _fields(one, self.classes, self.named) for name, one in self.classes.items()}
        self.constants = _variables(module.body, self.classes, self.named)
        self.variables = {one.id for one in nodes.of(ast.Name) if not _loads(one)}
        self.variables |= {one.arg for one in nodes.of(ast.arg)}
        self.askers: dict[str, ast.AsyncFunctionDef] = {}

    def _name(self, method: _Method) -> str:
        return self.fresh(f"{method.owner}_{method.name.strip('_')}")

    def fresh(self, name: str) -> str:
        """A name that nothing has."""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def move(self) -> None:
        """Do it."""
        moved = {id(one.node) for many in self.methods.values() for one in many}
        body: list[ast.stmt] = []
        for one in self.module.body:
            body.append(one)
            if isinstance(one, ast.ClassDef):
                own = [each for each in one.body if id(each) in moved]
                asked = any(
                    each.name == "__anext__" for each in own if isinstance(each, ast.AsyncFunctionDef)
                )
                one.body = [
                    each for each in one.body if id(each) not in moved and not (asked and _gives_itself(each))
                ]
                if not one.body:
                    one.body = [ast.copy_location(ast.Pass(), one)]
                body += own
        self.module.body = body
        owners = {id(one.node): one for many in self.methods.values() for one in many}
        for one in list(body):
            method = owners.get(id(one))
            _Calls(self, {}, method).visit(one)
            if method is not None:
                self._settle(method)
        for asker in self.askers.values():
            self.module.body.append(asker)

    def _settle(self, method: _Method) -> None:
        """Give a moved method its new name, and one of the class that class for its first parameter."""
        node = method.node
        node.name, node.decorator_list = self.functions[method.owner, method.name], []
        if method.kind == "classmethod":
            first = _first(node)
            if first is not None:
                for list_of in (node.args.posonlyargs, node.args.args):
                    if list_of and list_of[0] is first:
                        del list_of[0]
                for one in walk(node):
                    if isinstance(one, ast.Name) and one.id == first.arg:
                        one.id = method.owner

    def asker(self, name: str, place: ast.AST) -> str | None:
        """The async function that asks an object which of several methods it has; None where they differ."""
        known = self.askers.get(name)
        if known is not None:
            return known.name
        many = self.methods[name]
        shapes = {_shape(one.node.args) for one in many}
        if len(shapes) > 1 or any(one.kind for one in many):
            return None
        first = many[0].node
        itself, *others = [*first.args.posonlyargs, *first.args.args]
        if first.args.vararg or first.args.kwarg:
            return None
        made = ast.AsyncFunctionDef(
            self.fresh(f"any_{name.strip('_')}"), copy.deepcopy(first.args), [], [], None
        )
        vars(made)["type_params"] = []
        words = [ast.keyword(one.arg, load(one.arg)) for one in first.args.kwonlyargs]
        for one in sorted(many, key=lambda method: -self.depth[method.owner]):
            test = _call("isinstance", [load(itself.arg), load(one.owner)])
            call = _call(self.functions[one.owner, name], [load(each.arg) for each in (itself, *others)])
            call.keywords = copy.deepcopy(words)
            made.body.append(ast.If(test, [ast.Return(ast.Await(call))], []))
        failure = ast.parse(f"raise AttributeError('the object has no method {name}')").body[0]
        made.body.append(failure)
        for one in ast.walk(made):
            ast.copy_location(one, place)
        self.askers[name] = made
        return made.name

    def class_of(self, node: ast.expr, known: Mapping[str, str | None]) -> str | None:
        """The class of an object, as far as the text tells."""
        match node:
            case ast.Name(id=name):
                return known[name] if name in known else self.constants.get(name)
            case ast.Call(func=ast.Name(id=name)) if name in self.classes:
                return name
            case ast.Attribute(value=value, attr=attr):
                owner = self.class_of(value, known)
                return None if owner is None else self.fields[owner].get(attr)
            case _:
                return None


def _gives_itself(node: ast.stmt) -> bool:
    """Whether a statement of a class is `def __aiter__(self): return self`."""
    match node:
        case ast.FunctionDef(name="__aiter__", body=[*_, ast.Return(value=ast.Name())]):
            return len(node.body) <= 2
        case _:
            return False


def _first(node: _Function) -> ast.arg | None:
    return next(iter([*node.args.posonlyargs, *node.args.args]), None)


def _shape(of: ast.arguments) -> tuple[object, ...]:
    defaults = [ast.dump(one) for one in (*of.defaults, *(one for one in of.kw_defaults if one))]
    return tuple(one.arg for one in parameters_of(of)), len(of.args), tuple(defaults)


def _call(function: str, arguments: list[ast.expr]) -> ast.Call:
    return ast.Call(load(function), arguments, [])


def _class_in(annotation: ast.expr | None, classes: Mapping[str, object]) -> str | None:
    """The class that an annotation names."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value if annotation.value in classes else None
    if isinstance(annotation, ast.Name):
        return annotation.id if annotation.id in classes else None
    if isinstance(annotation, ast.BinOp):
        return _class_in(annotation.left, classes) or _class_in(annotation.right, classes)
    return None


def _fields(
    one: ast.ClassDef, classes: Mapping[str, object], named: Mapping[str, object]
) -> dict[str, str | None]:
    """The classes of the objects in a class's fields, as far as its text tells."""
    found: dict[str, str | None] = {}
    for each in one.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            found[each.target.id] = _class_in(each.annotation, named)
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        itself = _first(each)
        given = {arg.arg: _class_in(arg.annotation, named) for arg in parameters_of(each.args)}
        for part in walk(each):
            match part:
                case (
                    ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name), attr=attr)], value=value)
                    | ast.AnnAssign(target=ast.Attribute(value=ast.Name(id=name), attr=attr), value=value)
                ) if itself is not None and name == itself.arg and value is not None:
                    kind = _made(value, classes)
                    if kind is None and isinstance(value, ast.Name):
                        kind = given.get(value.id)
                    found[attr] = kind if found.get(attr, kind) == kind else None
                case _:
                    pass
    return found


def _made(value: ast.expr, classes: Mapping[str, object]) -> str | None:
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in classes:
        return value.func.id
    return None


def _variables(
    body: Sequence[ast.AST], classes: Mapping[str, object], named: Mapping[str, object]
) -> dict[str, str | None]:
    """The classes of the variables that a body sets, None for those that may be of several."""
    found: dict[str, str | None] = {}
    for one in own_nodes(*body):
        kind: str | None = None
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                kind = _made(value, classes)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                kind = _class_in(annotation, named)
            case ast.withitem(context_expr=value, optional_vars=ast.Name(id=name)):
                kind = _made(value, classes)
            case _:
                continue
        found[name] = kind if found.get(name, kind) == kind else None
    stores: dict[str, int] = {}
    for one in own_nodes(*body):
        if isinstance(one, ast.Name) and not _loads(one):
            stores[one.id] = stores.get(one.id, 0) + 1
    for name in set(stores) - set(found):
        found[name] = None
    return found


class _Calls(ast.NodeTransformer):
    """Writes the calls of methods that await as calls of functions."""

    def __init__(self, of: _Moving, known: Mapping[str, str | None], method: _Method | None) -> None:
        self.of, self.known, self.method = of, known, method
        self.awaited: set[int] = set()

    def _function(self, node: ast.AsyncFunctionDef | ast.FunctionDef) -> ast.AST:
        known = dict(self.known)
        for one in parameters_of(node.args):
            known[one.arg] = _class_in(one.annotation, self.of.named)
        known |= _variables(node.body, self.of.classes, self.of.named)
        method = self.method
        first = _first(node)
        if method is not None and method.node is node and method.kind != "staticmethod" and first is not None:
            known[first.arg] = method.owner
        inner = _Calls(self.of, known, None)
        node.body = [cast("ast.stmt", inner.visit(one)) for one in node.body]
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _function

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """A class, whose other methods stay."""
        return node

    def _note(self, node: ast.AST | None) -> None:
        """Note the calls that a place awaits or starts."""
        match node:
            case ast.Call(func=func) as call:
                self.awaited.add(id(call))
                if (dotted(func) or "").rpartition(".")[2] in RUNNERS:
                    for one in call.args:
                        self._note(one)
            case ast.Starred(value=value):
                self._note(value)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                for one in parts:
                    self._note(one)
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.SetComp(elt=element):
                self._note(element)
            case ast.IfExp(body=body, orelse=orelse):
                self._note(body)
                self._note(orelse)
            case _:
                pass

    def visit_Await(self, node: ast.Await) -> ast.AST:
        """An await."""
        self._note(node.value)
        return self.generic_visit(node)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        """A loop over what awaits."""
        self._note(node.iter)
        return self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """A part of a comprehension."""
        if node.is_async:
            self._note(node.iter)
        return self.generic_visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """A lambda, whose call somebody may await."""
        if isinstance(node.body, ast.Call) and self._target(node.body, is_awaited=False) is not None:
            self._note(node.body)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call."""
        if (dotted(node.func) or "").rpartition(".")[2] in RUNNERS:
            self._note(node)
        self._map(node)
        target = self._target(node, is_awaited=id(node) in self.awaited)
        if target is None:
            return self.generic_visit(node)
        name, takes_object = target
        receiver = cast("ast.Attribute", node.func).value
        args = [receiver, *node.args] if takes_object else list(node.args)
        made = ast.Call(name_of(name, node.func), args, node.keywords)
        return self.generic_visit(ast.copy_location(made, node))

    def _map(self, node: ast.Call) -> None:
        """`map(desk.load, xs)` as a generator expression."""
        if dotted(node.func) != "map" or len(node.args) != 2 or not isinstance(node.args[0], ast.Attribute):
            return
        call = ast.Call(node.args[0], [load("item")], [])
        if self._target(call, is_awaited=False) is None:
            return
        item = self.of.fresh("item")
        call.args = [load(item)]
        part = ast.comprehension(store(item), node.args[1], [], 0)
        made = ast.fix_missing_locations(ast.copy_location(ast.GeneratorExp(call, [part]), node))
        node.func, node.args = name_of("list", node), [made]
        self._note(made)

    def _target(self, node: ast.Call, *, is_awaited: bool) -> tuple[str, bool] | None:
        """The function that a call is one of, and whether it takes the object; None for any other call."""
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in self.of.methods:
            return None
        receiver, name = node.func.value, node.func.attr
        many = self.of.methods[name]
        if isinstance(receiver, ast.Name) and receiver.id in self.of.classes:
            kind = next((one.kind for one in many if one.owner == receiver.id), None)
            return None if kind is None else (self.of.functions[receiver.id, name], False)
        owner = self.of.class_of(receiver, self.known)
        if owner is not None:
            found = next((one for one in many if one.owner == owner), None)
            return None if found is None else (self.of.functions[owner, name], found.kind == "")
        root = receiver
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        if isinstance(root, ast.Name) and root.id not in self.of.variables:
            return None
        if not is_awaited and name in _OFTEN:
            return None
        if len(many) == 1:
            return self.of.functions[many[0].owner, name], many[0].kind == ""
        asker = self.of.asker(name, node)
        return None if asker is None else (asker, True)
