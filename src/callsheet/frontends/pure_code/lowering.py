"""Lowers pure Python to what its executor understands with the meaning of CPython 3.12.

In: the tree of a program without refusals. Out: a tree that says the same on the executor, and the helpers
that it calls. Helpers are Python of the executor; their names start with `_cs_`, which programs may not use.
What is made here has the place of what it stands for, so that an error is led back to the source.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Mapping
from string import Formatter
from typing import Final, NamedTuple, TypeVar, cast

from callsheet.frontends.pure_code.classes import ClassKind, classes_of
from callsheet.frontends.pure_code.helpers import has_helper, helpers_text
from callsheet.frontends.pure_code.names import Scopes, is_generator
from callsheet.frontends.pure_code.table import understood


class Lowered(NamedTuple):
    """A lowered program: the tree, its helpers, and the bases of each class of exceptions that it makes."""

    tree: ast.Module
    helpers: str
    classes: Mapping[str, tuple[str, ...]]
    has_objects: bool


class Inputs(NamedTuple):
    """What is known of the values that a program is given: names, whether there are sets or kept objects."""

    names: frozenset[str] = frozenset()
    has_sets: bool = False
    has_kept: bool = False


def lowered(tree: ast.Module, inputs: Inputs | None = None) -> Lowered:
    """The program as the executor has to be given it; the tree of the source stays as it is."""
    known = inputs or Inputs()
    tree = copy.deepcopy(tree)
    lowering = _Lowering(tree, known)
    body: list[ast.stmt] = []
    first_use = _first_use(tree, known.names) if known.has_kept else -1
    for at, statement in enumerate(tree.body):
        if at == first_use:
            body += [lowering.taking(name, statement) for name in sorted(known.names)]
        body += lowering.statements(statement)
    tree.body = body
    ast.fix_missing_locations(tree)
    kinds = {one.name: one.kinds for one in lowering.classes.values() if one.kind is ClassKind.ERROR}
    if "statistics" in lowering.used_modules:
        kinds["StatisticsError"] = ("StatisticsError", "ValueError", "Exception", "BaseException")
    helpers = {*lowering.helpers, *(["_cs_give_objects"] if lowering.has_objects else [])}
    if known.has_kept:
        helpers |= {"_cs_take", "_cs_re_compile"}
    if lowering.has_errors:
        helpers.add("_cs_raised")
    return Lowered(tree, helpers_text(helpers), kinds, lowering.has_objects)


FACTORY: Final = "default_factory_"
"""What the names of functions begin with that make the defaults of a defaultdict which is kept."""
LAZY: Final = ("map", "filter", "zip", "enumerate", "reversed")
"""Builtins that give iterators, which the executor would run through at once."""
EAGER: Final = ("list", "tuple", "set", "frozenset", "dict", "sorted", "sum", "min", "max", "Counter")
"""Functions that take all that an iterator has before they do anything else."""
_EAGER_METHODS: Final = ("join", "extend", "update", "fromkeys", "union", "writerows")
_RENAMED: Final = {
    **{name: f"_cs_{name}" for name in LAZY},
    "round": "_cs_round",
    "sum": "_cs_sum",
    "callable": "_cs_callable",
    "ascii": "_cs_ascii",
    "now": "_cs_now",
}
_ORDERED: Final = (
    ast.List, ast.Tuple, ast.ListComp, ast.Dict, ast.DictComp, ast.Constant, ast.JoinedStr, ast.GeneratorExp,
    ast.BinOp,
)  # fmt: skip
_NEVER_SETS: Final = (*LAZY, "range", "sorted", "list", "tuple", "iter", "dict")
_NATIVE_TYPES: Final = ("str", "list", "dict", "set", "frozenset", "tuple", "int", "float", "bytes")
_ERRORS: Final = (
    "Exception", "ValueError", "TypeError", "KeyError", "IndexError", "RuntimeError", "LookupError",
    "ArithmeticError", "ZeroDivisionError", "AttributeError", "AssertionError", "NotImplementedError",
    "OverflowError", "BaseException", "TimeoutError", "OSError", "PermissionError", "StopIteration",
    "RecursionError", "MemoryError", "NameError", "FileNotFoundError", "UnicodeDecodeError",
)  # fmt: skip


class _Lowering(ast.NodeTransformer):
    """Lowers the statements of one program, from the outside in."""

    def __init__(self, tree: ast.Module, inputs: Inputs) -> None:
        self.scopes = Scopes(tree, inputs.names)
        self.inputs = inputs
        self.helpers: set[str] = set()
        self.classes = classes_of(self.scopes)
        self.used_modules = {
            *self.scopes.imports.modules.values(),
            *(module for module, _ in self.scopes.imports.members.values()),
        }
        self.has_sets = inputs.has_sets or any(_makes_sets(node) for node in self.scopes.nodes)
        self.has_errors = "statistics" in self.used_modules or any(
            one.kind is ClassKind.ERROR for one in self.classes.values()
        )
        self.has_objects = inputs.has_kept or not self.used_modules.isdisjoint(("collections", "typing"))
        self.generators = {
            node.name
            for node in self.scopes.nodes
            if isinstance(node, ast.FunctionDef) and is_generator(node)
        }
        self._selves: list[str] = []
        self._number = 0

    # ------------------------------------------------------------ making nodes

    def helper(self, name: str, at: ast.AST) -> ast.expr:
        """The name of a helper, as an expression."""
        self.helpers.add(name)
        return ast.copy_location(ast.Name(name, ast.Load()), at)

    def call(self, name: str, at: ast.AST, *arguments: ast.expr) -> ast.expr:
        """A call of a helper."""
        return ast.copy_location(ast.Call(self.helper(name, at), list(arguments), []), at)

    def fresh(self, word: str) -> str:
        """A name that nothing else has."""
        self._number += 1
        return f"_cs_{word}{self._number}"

    def statements(self, statement: ast.stmt) -> list[ast.stmt]:
        """What a statement becomes."""
        result = cast("ast.stmt | list[ast.stmt] | None", self.visit(statement))
        return result if isinstance(result, list) else [] if result is None else [result]

    def taking(self, name: str, at: ast.stmt) -> ast.stmt:
        """Make the objects of an input, whose classes stand before this."""
        made = self.call("_cs_take", at, ast.Name(name, ast.Load()))
        return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], made), at)

    # ------------------------------------------------------------ scopes

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | list[ast.stmt]:
        makes_iterator = is_generator(node)
        node.decorator_list = [self.visit(one) for one in node.decorator_list]
        self._strip_annotations(node.args)
        node.args.defaults = [self.visit(one) for one in node.args.defaults]
        node.args.kw_defaults = [None if one is None else self.visit(one) for one in node.args.kw_defaults]
        node.returns = None
        node.type_params = []  # pyright: ignore[reportAttributeAccessIssue] - of Python 3.12
        self.scopes.enter(node)
        node.body = self._block(node.body)
        if makes_iterator:
            node.body = _collecting(node)
        self.scopes.leave()
        if node.name.startswith(FACTORY):
            target = ast.parse(f"_cs_factories[{node.name!r}] = {node.name}").body[0]
            self.helpers.add("_cs_factories")
            return [node, _at(target, node)]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        node.args.defaults = [self.visit(one) for one in node.args.defaults]
        node.args.kw_defaults = [None if one is None else self.visit(one) for one in node.args.kw_defaults]
        self.scopes.enter(node)
        node.body = self.visit(node.body)
        self.scopes.leave()
        return node

    def _block(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        return [made for one in statements for made in self.statements(one)]

    def _strip_annotations(self, arguments: ast.arguments) -> None:
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for one in (*every, arguments.vararg, arguments.kwarg):
            if one is not None:
                one.annotation = None

    # ------------------------------------------------------------ statements

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return self.visit(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """`xs += ys` takes any iterable in Python, only a list in the executor."""
        target = copy.deepcopy(node.target)
        node.value = self.visit(node.value)
        if isinstance(node.op, ast.Add) and not _is_added(node.value) and _is_simple(target):
            for part in ast.walk(target):
                if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)):
                    part.ctx = ast.Load()
            node.value = self.call("_cs_added", node, self.visit(target), node.value)
        node.target = self.visit(node.target)
        return node

    def visit_Import(self, node: ast.Import) -> ast.stmt:
        kept = [alias for alias in node.names if alias.name in _NATIVE_MODULES]
        if not kept:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Import(kept), node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.stmt]:
        module = node.module or ""
        result: list[ast.stmt] = []
        native: list[ast.alias] = []
        for alias in node.names:
            helper = _member_helper(module, alias.name)
            if helper is not None and helper != alias.name:
                target = ast.Name(alias.asname or alias.name, ast.Store())
                result.append(ast.copy_location(ast.Assign([target], self.helper(helper, node)), node))
            elif module in _NATIVE_MODULES and not _is_erased(module, alias.name):
                native.append(alias)
        if native:
            result.append(ast.copy_location(ast.ImportFrom(module, native, 0), node))
        return result or [ast.copy_location(ast.Pass(), node)]

    def visit_Delete(self, node: ast.Delete) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for target in node.targets:
            match target:
                case ast.Subscript(slice=ast.Slice(step=None)):
                    target.ctx = ast.Store()
                    empty = ast.copy_location(ast.List([], ast.Load()), node)
                    made.append(ast.Assign([self.visit(target)], empty))
                case ast.Subscript():
                    call = self.call("_cs_del", node, self.visit(target.value), self.visit(target.slice))
                    made.append(ast.Expr(call))
                case _:
                    made.append(ast.Pass())
        return [ast.copy_location(one, node) for one in made]

    def visit_For(self, node: ast.For) -> ast.AST:
        node.iter = self._sequence(node.iter)
        node.target = self.visit(node.target)
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if node.exc is None:
            return node
        node.exc = self.visit(node.exc)
        if self.has_errors:
            node.exc, node.cause = (
                self.call(
                    "_cs_raise",
                    node,
                    cast("ast.expr", node.exc),
                    ast.Constant(node.lineno),
                    ast.Constant(node.col_offset + 1),
                ),
                None,
            )
        elif node.cause is not None:
            node.cause = self.visit(node.cause)
        return node

    def visit_Try(self, node: ast.Try) -> ast.AST:
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        node.finalbody = self._block(node.finalbody)
        if not self.has_errors or not node.handlers:
            for handler in node.handlers:
                if handler.type is not None:
                    handler.type = self.visit(handler.type)
                handler.body = self._block(handler.body)
            return node
        node.handlers = [self._sorting_handler(node.handlers)]
        return node

    def _sorting_handler(self, handlers: list[ast.ExceptHandler]) -> ast.ExceptHandler:
        """One handler in place of several, which looks for the class of the program's exception."""
        first = handlers[0]
        raised, caught = self.fresh("raised"), self.fresh("caught")
        branch: list[ast.stmt] = [ast.copy_location(ast.Raise(), first)]
        for handler in reversed(handlers):
            body: list[ast.stmt] = []
            if handler.name is not None:
                name = ast.Name(handler.name, ast.Store())
                body.append(ast.copy_location(ast.Assign([name], ast.Name(caught, ast.Load())), handler))
            body += self._block(handler.body)
            if handler.type is None:
                branch = body
                continue
            test = self.call("_cs_is", handler.type, ast.Name(caught, ast.Load()), self.visit(handler.type))
            branch = [ast.copy_location(ast.If(test, body, branch), handler)]
        find = self.call("_cs_caught", first, ast.Name(raised, ast.Load()))
        assign = ast.copy_location(ast.Assign([ast.Name(caught, ast.Store())], find), first)
        kind = _at(ast.Tuple(self._caught_kinds(handlers), ast.Load()), first)
        return ast.copy_location(ast.ExceptHandler(kind, raised, [assign, *branch]), first)

    def _caught_kinds(self, handlers: list[ast.ExceptHandler]) -> list[ast.expr]:
        """What one handler in place of several has to catch, so that all else passes by with its place."""
        found: list[ast.expr] = [
            ast.Name("IsADirectoryError", ast.Load())
        ]  # which stands for the program's own
        for handler in handlers:
            kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            for kind in kinds:
                if kind is None:
                    found.append(ast.Name("BaseException", ast.Load()))
                elif self._is_native_error(kind):
                    found.append(copy.deepcopy(kind))
        return found

    def _is_native_error(self, kind: ast.expr) -> bool:
        if isinstance(kind, ast.Name) and not self.scopes.is_bound(kind.id):
            return True
        return self.scopes.member_of(kind) in _NATIVE_ERRORS

    def visit_ClassDef(self, node: ast.ClassDef) -> list[ast.stmt]:
        shape = self.classes[node.name]
        self.scopes.enter(node)
        made = shape.lowered(node, with_blank=self.inputs.has_kept)
        self.helpers.update(made.helpers)
        for statement in made.body:
            if isinstance(statement, ast.FunctionDef):
                first = statement.args.posonlyargs + statement.args.args
                self._selves.append(first[0].arg if first else "")
                self.visit(statement)
                self._selves.pop()
            elif isinstance(statement, ast.Assign):
                statement.value = self.visit(statement.value)
        self.scopes.leave()
        definition = ast.copy_location(ast.ClassDef(node.name, [], [], made.body, []), node)
        definition.type_params = []  # pyright: ignore[reportAttributeAccessIssue] - of Python 3.12
        before = [self.visit(statement) for statement in made.before]
        return [*before, *([definition] if shape.kind.is_class else []), *made.after]

    # ------------------------------------------------------------ expressions

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load):
            helper = _RENAMED.get(node.id)
            if helper is not None and not self.scopes.is_bound(node.id):
                return self.helper(helper, node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if not isinstance(node.ctx, ast.Load):
            node.value = self.visit(node.value)
            return node
        member = self.scopes.member_of(node)
        if member is not None:
            helper = _member_helper(*member)
            return node if helper is None else self.helper(helper, node)
        if node.attr == "__class__":
            name = ast.copy_location(ast.Name("type", ast.Load()), node)
            return ast.copy_location(ast.Call(name, [self.visit(node.value)], []), node)
        if node.attr.startswith("__"):
            node.value = self.visit(node.value)
            return node
        if any(node.attr in one.properties for one in self.classes.values()):
            return self._property(node)
        if self._is_self(node.value) or self._is_class(node.value):
            return node
        owners = understood().methods.get(node.attr)
        of_type = self._type_helper(node)
        if of_type is not None:
            return self.helper(of_type, node)
        if self._is_type(node.value) and owners is not None:
            return self._unbound(node)
        value = self.visit(node.value)
        name = ast.copy_location(ast.Constant(node.attr), node)
        if owners is None:
            return self.call("_cs_attr", node, value, name)
        kinds = ast.Tuple([ast.Constant(owner) for owner in _kinds_of(owners)], ast.Load())
        return self.call("_cs_bound", node, value, name, kinds, self._method(node))

    def _property(self, node: ast.Attribute) -> ast.expr:
        name = ast.copy_location(ast.Constant(node.attr), node)
        get = ast.parse(f"lambda _cs_o: _cs_o._cs_get_{node.attr}()", mode="eval").body
        return self.call("_cs_property", node, self.visit(node.value), name, _at(get, node))

    def _method(self, node: ast.Attribute) -> ast.expr:
        """A function that calls a method of its first argument."""
        text = f"lambda _cs_o, *_cs_a, **_cs_k: _cs_o.{node.attr}(*_cs_a, **_cs_k)"
        return self.visit(_at(ast.parse(text, mode="eval").body, node))

    def _unbound(self, node: ast.Attribute) -> ast.expr:
        """A method of a type as a function: of the type itself (`date.fromisoformat`) or of its values."""
        if node.attr in _OF_TYPES:
            owner = ast.unparse(node.value)
            text = f"lambda *_cs_a, **_cs_k: {owner}.{node.attr}(*_cs_a, **_cs_k)"
            return _at(ast.parse(text, mode="eval").body, node)
        return self._method(node)

    def _is_self(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and bool(self._selves) and node.id == self._selves[-1]

    def _is_class(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self.classes

    def _is_type(self, node: ast.expr) -> bool:
        if any(self.scopes.is_builtin(node, name) for name in _NATIVE_TYPES):
            return True
        return self.scopes.member_of(node) in _TYPES

    def _type_helper(self, node: ast.Attribute) -> str | None:
        """The helper for a member of a type, as `date.fromisoformat`."""
        if not self._is_type(node.value):
            return None
        member = self.scopes.member_of(node.value)
        kind = member[1] if member is not None else ast.unparse(node.value)
        helper = f"_cs_type_{kind}_{node.attr}"
        return helper if has_helper(helper) else None

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Attribute):
            return self._method_call(node, node.func)
        if self._is_enum(node.func) and len(node.args) == 1:
            return self.call("_cs_enum", node, node.func, self.visit(node.args[0]))
        if isinstance(node.func, ast.Name) and not self.scopes.is_bound(node.func.id):
            special = self._builtin_call(node, node.func.id)
            if special is not None:
                return special
        if self._is_lazy(node):
            node.args = self._sources(node)
        else:
            node.args = self._arguments(node.args, self._takes_all(node.func))
        for word in node.keywords:
            word.value = self.visit(word.value)
        node.func = self.visit(node.func)
        return node

    def _call_of(self, node: ast.Call) -> ast.expr:
        """A call whose function is a helper already."""
        node.args = [self.visit(one) for one in node.args]
        for word in node.keywords:
            word.value = self.visit(word.value)
        return node

    def _takes_all(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id in EAGER and (not self.scopes.is_bound(node.id) or node.id == "Counter")
        return isinstance(node, ast.Attribute) and node.attr in _EAGER_METHODS

    def _arguments(self, arguments: list[ast.expr], takes_all: bool) -> list[ast.expr]:
        made: list[ast.expr] = []
        for argument in arguments:
            if takes_all and isinstance(argument, ast.GeneratorExp):
                listed = ast.ListComp(argument.elt, argument.generators)
                made.append(self.visit(ast.copy_location(listed, argument)))
            elif takes_all and self._is_lazy(argument):
                made.append(self._at_once(argument))
            else:
                made.append(self._members_of(argument) if takes_all else self.visit(argument))
        return made

    def _is_lazy(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and any(self.scopes.is_builtin(node.func, name) for name in LAZY)

    def _at_once(self, node: ast.expr) -> ast.expr:
        """A call of a lazy builtin whose iterator is taken whole: that of the executor does."""
        assert isinstance(node, ast.Call)
        node.args = self._sources(node)
        for word in node.keywords:
            word.value = self.visit(word.value)
        return node

    def _sources(self, node: ast.Call) -> list[ast.expr]:
        """The arguments of a lazy builtin: a function for `map` and `filter`, and what is iterated."""
        takes_function = any(self.scopes.is_builtin(node.func, name) for name in ("map", "filter"))
        return [
            self.visit(one)
            if isinstance(one, ast.Starred) or (takes_function and at == 0)
            else self._sequence(one)
            for at, one in enumerate(node.args)
        ]

    def visit_Starred(self, node: ast.Starred) -> ast.expr:
        node.value = self._sequence(node.value) if isinstance(node.ctx, ast.Load) else self.visit(node.value)
        return node

    def _builtin_call(self, node: ast.Call, name: str) -> ast.expr | None:  # noqa: PLR0911 - a case each
        match name, node.args:
            case "len", [items]:
                node.args = [self._members_of(items)]
                return node
            case "format", [value, spec] if not _is_empty(spec):
                node.args = [self.call("_cs_formatted", node, self.visit(value)), self.visit(spec)]
                return node
            case "object", []:
                return self.call("_cs_Sentinel", node)
            case "getattr", [target, ast.Constant(value=str(attribute)), *rest]:
                load = ast.copy_location(ast.Attribute(target, attribute, ast.Load()), node)
                if not rest:
                    return self.visit(load)
                name_node = ast.copy_location(ast.Constant(attribute), node)
                return self.call("_cs_getattr", node, self.visit(target), name_node, self.visit(rest[0]))
            case "hasattr", [target, ast.Constant(value=str(attribute))]:
                owners = _kinds_of(understood().methods.get(attribute, ()))
                kinds = ast.Tuple([ast.Constant(owner) for owner in owners], ast.Load())
                return self.call(
                    "_cs_hasattr", node, self.visit(target), ast.Constant(attribute), _at(kinds, node)
                )
            case "isinstance", [value, ast.Name(id=kind)] if kind in self.classes:
                names = sorted(one.name for one in self.classes.values() if kind in one.lineage)
                kinds = ast.Tuple([ast.Name(one, ast.Load()) for one in names], ast.Load())
                node.args = [self.visit(value), _at(kinds, node)]
                return node
            case "sorted", [items] if self._comparing(node) is not None:
                return self._sorted_by_comparing(node, items)
            case (("str" | "repr"), [value]) if self.has_sets:
                return self.call(f"_cs_{name}", node, self.visit(value))
            case (("list" | "tuple" | "iter" | "sorted" | "min" | "max" | "sum"), [items]) if self.has_sets:
                return self._over_sets(node, name, items)
            case "print", _ if self.has_sets:
                node.args = [
                    one if isinstance(one, ast.Starred) else self.call("_cs_shown", one, one)
                    for one in map(self.visit, node.args)
                ]
                return node
            case _ if name in _ERRORS and len(node.args) == 1 and not _is_text(node.args[0]):
                text = ast.copy_location(ast.Name("str", ast.Load()), node)
                made = ast.Call(text, [self.visit(node.args[0])], [])
                node.args = [ast.copy_location(made, node.args[0])]
                return node
            case _:
                return None

    def _over_sets(self, node: ast.Call, name: str, items: ast.expr) -> ast.expr | None:
        """A function that shows in which order its argument comes, in a program where there are sets."""
        if isinstance(items, (ast.GeneratorExp, ast.Starred)) or self._is_lazy(items):
            return None
        node.args = [self._sequence(items)]
        for word in node.keywords:
            word.value = self.visit(word.value)
        if name == "sum":
            node.func = self.helper("_cs_sum", node)
        return node

    def _is_enum(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Name) or node.id not in self.classes:
            return False
        return self.classes[node.id].kind is ClassKind.ENUM

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        node.slice = self.visit(node.slice)
        if self._is_enum(node.value):
            return self.call("_cs_enum_named", node, node.value, node.slice)
        node.value = self.visit(node.value)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        node.left = self.visit(node.left)
        node.comparators = [
            self._members_of(right) if isinstance(how, (ast.In, ast.NotIn)) else self.visit(right)
            for how, right in zip(node.ops, node.comparators, strict=True)
        ]
        return node

    def _members_of(self, node: ast.expr) -> ast.expr:
        """An expression whose items are asked for; of an enumeration, its members."""
        if self._is_enum(node):
            return ast.copy_location(ast.Attribute(node, "_cs_members", ast.Load()), node)
        return self.visit(node)

    def _sequence(self, source: ast.expr) -> ast.expr:
        """An expression that is iterated: a set in sorted order."""
        if self._is_enum(source):
            return self._members_of(source)
        made = self.visit(source)
        if not self.has_sets or isinstance(source, _ORDERED):
            return made
        if (
            isinstance(source, ast.Call)
            and isinstance(source.func, ast.Name)
            and source.func.id in _NEVER_SETS
        ):
            return made
        if (
            isinstance(source, ast.Call)
            and isinstance(source.func, ast.Attribute)
            and source.func.attr in _LISTS
        ):
            return made
        return self.call("_cs_order", source, made)

    def _comparing(self, node: ast.Call) -> ast.expr | None:
        """The comparing function of a `key=cmp_to_key(f)`."""
        for word in node.keywords:
            if (
                word.arg == "key"
                and isinstance(word.value, ast.Call)
                and self.scopes.member_of(word.value.func) == ("functools", "cmp_to_key")
                and len(word.value.args) == 1
            ):
                return word.value.args[0]
        return None

    def _sorted_by_comparing(self, node: ast.Call, items: ast.expr) -> ast.expr:
        compare = self._comparing(node)
        assert compare is not None
        reverse = [self.visit(word.value) for word in node.keywords if word.arg == "reverse"]
        return self.call("_cs_cmp_sorted", node, self.visit(items), self.visit(compare), *reverse)

    def _method_call(self, node: ast.Call, func: ast.Attribute) -> ast.expr:
        member = self.scopes.member_of(func)
        of_type = self._type_helper(func)
        if of_type is not None:
            node.func = self.helper(of_type, func)
            return self._call_of(node)
        if member is None and self._is_type(func.value) and func.attr not in _OF_TYPES and node.args:
            first, *rest = node.args  # `str.lower(x)` is `x.lower()`
            if not isinstance(first, ast.Starred):
                func.value, node.args = first, rest
        if isinstance(func.value, ast.Constant) and func.attr == "format":
            self._check_formatted(node, func.value)
        takes_all = func.attr in _EAGER_METHODS and member is None
        if member is not None and member[0] == "statistics":
            takes_all = True
        node.args = self._arguments(node.args, takes_all)
        if self.has_sets and member is None and func.attr in ("join", "extend"):
            node.args = [self.call("_cs_order", one, one) for one in node.args]
        for word in node.keywords:
            word.value = self.visit(word.value)
        if member is not None:
            node.func = self.visit(func)
            return node
        func.value = self.visit(func.value)
        helper = f"_cs_method_{func.attr}" if has_helper(f"_cs_method_{func.attr}") else None
        if helper is None and self.has_sets and func.attr == "pop" and not node.args:
            helper = "_cs_pop"
        if helper is not None and not any(func.attr in one.methods for one in self.classes.values()):
            made = ast.Call(self.helper(helper, node), [func.value, *node.args], node.keywords)
            return ast.copy_location(made, node)
        return node

    def _check_formatted(self, node: ast.Call, template: ast.Constant) -> None:
        """Wrap the arguments that a literal template formats with a specification."""
        try:
            fields = list(Formatter().parse(str(template.value)))
        except ValueError:
            return
        specified = {
            str(at) if name == "" else name
            for at, (name, spec, conversion) in enumerate(f[1:] for f in fields if f[1] is not None)
            if spec and not conversion
        }
        for at, argument in enumerate(node.args):
            if str(at) in specified and not isinstance(argument, ast.Starred):
                node.args[at] = self.call("_cs_formatted", argument, argument)
        for word in node.keywords:
            if word.arg in specified:
                word.value = self.call("_cs_formatted", word.value, word.value)

    # ------------------------------------------------------------ comprehensions and generators

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp) -> ast.expr:
        first = node.generators[0]
        first.iter = self._comprehended(first.iter)
        self.scopes.enter(node)
        for at, one in enumerate(node.generators):
            if at:
                one.iter = self._comprehended(one.iter)
            one.target = self.visit(one.target)
            one.ifs = [self.visit(test) for test in one.ifs]
        if isinstance(node, ast.DictComp):
            node.key, node.value = self.visit(node.key), self.visit(node.value)
        else:
            node.elt = self.visit(node.elt)
        self.scopes.leave()
        return node

    def _comprehended(self, source: ast.expr) -> ast.expr:
        if self._is_lazy(source) and not any(
            self.scopes.is_builtin(cast("ast.Call", source).func, name) for name in ("map", "filter")
        ):
            return self._at_once(source)
        return self._sequence(source)

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        return self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.expr:
        return self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.expr:
        return self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        """A generator that may be left before its end: an iterator that computes an item when it is asked."""
        source = self._sequence(node.generators[0].iter)
        self.scopes.enter(node)
        made = self._stepwise(node, 0, source)
        self.scopes.leave()
        return made

    def _stepwise(self, node: ast.GeneratorExp, level: int, source: ast.expr) -> ast.expr:
        one = node.generators[level]
        item = self.fresh("item")
        if level + 1 < len(node.generators):
            inner = self._stepwise(node, level + 1, self._sequence(node.generators[level + 1].iter))
        else:
            inner = self.visit(node.elt)
        items = ast.List([ast.Name(item, ast.Load())], ast.Load())
        loop = ast.comprehension(self.visit(one.target), items, [self.visit(test) for test in one.ifs], 0)
        made = ast.ListComp(inner, [loop])
        parameters = ast.arguments([], [ast.arg(item)], None, [], [], None, [])
        step = _at(ast.Lambda(parameters, made), node)
        lazy = self.call("_cs_Gen", node, source, step)
        return lazy if level + 1 == len(node.generators) else self.call("_cs_Nested", node, lazy)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        node.value = self.visit(node.value)
        if node.format_spec is not None:
            node.format_spec = self.visit(node.format_spec)
            if node.conversion == -1:
                node.value = self.call("_cs_formatted", node, node.value)
        elif self.has_sets:
            if node.conversion == ord("r"):
                node.conversion = -1
                node.value = self.call("_cs_repr", node, node.value)
            else:
                node.value = self.call("_cs_shown", node, node.value)
        return node


_NATIVE_ERRORS: Final = (("json", "JSONDecodeError"), ("re", "error"), ("decimal", "InvalidOperation"))
_HEIRS: Final = {"dict": ("Counter", "defaultdict"), "set": ("frozenset",), "date": ("datetime",)}
_LISTS: Final = ("split", "splitlines", "items", "values", "findall", "readlines", "most_common", "rsplit")
_OF_TYPES: Final = (
    "fromisoformat", "fromtimestamp", "fromordinal", "strptime", "combine", "today", "now", "fromkeys",
    "maketrans", "fromhex", "from_bytes", "utcnow", "fromisocalendar",
)  # fmt: skip
_TYPES: Final = (
    ("datetime", "date"), ("datetime", "datetime"), ("datetime", "time"), ("datetime", "timedelta"),
    ("datetime", "timezone"), ("decimal", "Decimal"), ("collections", "Counter"), ("collections", "deque"),
    ("collections", "defaultdict"),
)  # fmt: skip
_NATIVE_MODULES: Final = (
    "asyncio", "base64", "bisect", "collections", "copy", "csv", "datetime", "decimal", "functools",
    "hashlib", "itertools", "json", "math", "re", "typing", "unicodedata",
)  # fmt: skip
NAMED_ONLY: Final = ("typing", "collections.abc", "__future__", "abc", "types")
"""Modules whose members stand in annotations and bases, and mean nothing elsewhere."""
_HELPER_NAMES: Final = {
    ("collections", "OrderedDict"): "dict",
}


_ADDED: Final = (ast.List, ast.ListComp)


def _is_added(node: ast.expr) -> bool:
    """Whether a value is added to a list alike everywhere: it is a list, or it is a number."""
    return isinstance(node, _ADDED) or (isinstance(node, ast.Constant) and not isinstance(node.value, str))


def _is_simple(node: ast.expr) -> bool:
    """Whether reading an expression twice is the same as reading it once."""
    simple = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.expr_context)
    return all(isinstance(part, simple) for part in ast.walk(node))


def _first_use(tree: ast.Module, names: frozenset[str]) -> int:
    """The first statement, other than a definition, that names one of some names; else the last one."""
    for at, statement in enumerate(tree.body):
        if not isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)) and any(
            isinstance(node, ast.Name) and node.id in names for node in ast.walk(statement)
        ):
            return at
    return len(tree.body) - 1


def _member_helper(module: str, name: str) -> str | None:
    """The helper that stands for a member of a module."""
    named = _HELPER_NAMES.get((module, name))
    if named is not None:
        return named
    helper = f"_cs_{module}_{name}"
    if has_helper(helper):
        return helper
    if module == "enum":
        return "_cs_type"
    return "_cs_type" if module in NAMED_ONLY and module != "__future__" else None


def _is_erased(module: str, name: str) -> bool:
    """Whether an import is only needed by what lowering takes away: annotations, decorators, bases."""
    return (module, name) in (
        ("functools", "cmp_to_key"), ("dataclasses", "dataclass"), ("dataclasses", "field"),
    )  # fmt: skip


def _makes_sets(node: ast.AST) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(id="set" | "frozenset"):
            return True
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr() | ast.BitXor() | ast.Sub(), left=left, right=right):
            return any(_is_view(side) for side in (left, right))
        case _:
            return False


def _is_view(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="keys" | "items")):
            return True
        case _:
            return False


def _kinds_of(owners: Iterable[str]) -> list[str]:
    """The types that have a method, also those that inherit it."""
    found = set(owners)
    for owner, heirs in _HEIRS.items():
        found.update(heirs if owner in found else ())
    return sorted(found)


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == ""


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, (ast.JoinedStr, ast.Starred)) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


Node = TypeVar("Node", bound=ast.AST)


def _at(made: Node, place: ast.AST) -> Node:
    """A new tree whose nodes all have the place of another."""
    for node in ast.walk(made):
        if "lineno" in node._attributes:
            ast.copy_location(node, place)
    return made


def _collecting(node: ast.FunctionDef) -> list[ast.stmt]:
    """The body of a generator as one that collects what it yields; refusals see to it that none can tell."""
    first, last = node.body[0], node.body[-1]
    made = [
        ast.copy_location(ast.Assign([ast.Name("_cs_all", ast.Store())], ast.List([], ast.Load())), first)
    ]
    ending = ast.parse("iter(_cs_all)", mode="eval").body
    collect = _Collect()
    body = [collect.visit(statement) for statement in node.body]
    return [*made, *body, ast.copy_location(ast.Return(ending), last)]


class _Collect(ast.NodeTransformer):
    """Turns yields into appends, and returns into the collected items."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        match node.value:
            case ast.Yield(value=value):
                name, item = "append", value or ast.Constant(None)
            case ast.YieldFrom(value=item):
                name = "extend"
            case _:
                return node
        method = ast.Attribute(ast.Name("_cs_all", ast.Load()), name, ast.Load())
        return ast.copy_location(ast.Expr(ast.copy_location(ast.Call(method, [item], []), node.value)), node)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        return ast.copy_location(ast.Return(ast.parse("iter(_cs_all)", mode="eval").body), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node
