"""Lowers pure Python to what its executor understands with the meaning of CPython 3.12.

In: the tree of a program without refusals. Out: a tree that says the same on the executor, and the helpers
that it calls. Helpers are Python of the executor; their names start with `_cs_`, which programs may not use.
What is made here has the place of what it stands for, so that an error is led back to the source.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, cast

from callsheet.frontends.pure_code.expressions import ExpressionLowering
from callsheet.frontends.pure_code.facts import FACTORY, GIVE_KEYS, Inputs, placed
from callsheet.frontends.pure_code.helpers import helpers_text
from callsheet.frontends.pure_code.names import is_generator

_PARTS: Final[Mapping[str, str]] = {
    "msg": "{0}.rpartition(': line ')[0]",
    "lineno": "int({0}.rpartition(': line ')[2].partition(' ')[0])",
    "colno": "int({0}.rpartition(' column ')[2].partition(' ')[0])",
    "pos": "int({0}.rpartition(' (char ')[2].removesuffix(')'))",
}
JSON_FIELDS: Final = frozenset(_PARTS)
"""The names of the fields."""


def json_field(words: ast.expr, field: str, place: ast.AST) -> ast.expr:
    """A field of the error with these words."""
    made = ast.parse(_PARTS[field].format(ast.unparse(words)), mode="eval").body
    for one in ast.walk(made):
        ast.copy_location(one, place)
    return made


class JsonFields(ast.NodeTransformer):
    """Reads the fields of the error that a handler's name stands for from its words."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """An attribute."""
        if isinstance(node.value, ast.Name) and node.value.id == self.name and node.attr in JSON_FIELDS:
            words = ast.Call(ast.Name("str", ast.Load()), [node.value], [])
            return json_field(words, node.attr, node)
        return self.generic_visit(node)


class ComprehensionLowering(ExpressionLowering):
    """Lowers the expressions of one program, also those that go through others."""

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp) -> ast.expr:
        first = node.generators[0]
        first.iter = self._comprehended(first.iter)
        self.scopes.enter(node)
        for at, one in enumerate(node.generators):
            if at:
                one.iter = self._comprehended(one.iter)
            one.target = self.visit(one.target)
            one.ifs = [self.truth(self.visit(test)) for test in one.ifs]
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
        """A list from a comprehension."""
        return self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.expr:
        """A set from a comprehension."""
        return self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.expr:
        """A dict from a comprehension."""
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
        tests = [self.truth(self.visit(test)) for test in one.ifs]
        loop = ast.comprehension(self.visit(one.target), items, tests, 0)
        made = ast.ListComp(inner, [loop])
        parameters = ast.arguments([], [ast.arg(item)], None, [], [], None, [])
        step = placed(ast.Lambda(parameters, made), node)
        lazy = self.call("_cs_Gen", node, source, step)
        return lazy if level + 1 == len(node.generators) else self.call("_cs_Nested", node, lazy)


class Lowered(NamedTuple):
    """A lowered program: the tree, and its helpers."""

    tree: ast.Module
    helpers: str
    has_objects: bool


def lowered(tree: ast.Module, inputs: Inputs | None = None) -> Lowered:
    """The program as the executor has to be given it; the tree of the source stays as it is."""
    known = inputs or Inputs()
    tree = copy.deepcopy(tree)
    lowering = _Lowering(tree, known)
    body: list[ast.stmt] = []
    first_use = _first_use(tree, known.names) if known.has_kept else -1
    for at, statement in enumerate(tree.body):
        if at == first_use:
            body += [lowering.making(name, statement) for name in sorted(known.helpers)]
            body += [lowering.taking(name, statement) for name in sorted(known.names)]
        body += lowering.statements(statement)
    tree.body = body
    ast.fix_missing_locations(tree)
    helpers = {*lowering.helpers, *(["_cs_give_objects"] if lowering.has_objects else [])}
    if known.has_kept:
        helpers |= {"_cs_take", "_cs_re_compile"}
    if lowering.has_errors or not helpers.isdisjoint(GIVE_KEYS):
        helpers.add("_cs_raised")
    return Lowered(tree, helpers_text(helpers), lowering.has_objects)


class _Lowering(ComprehensionLowering):
    """Lowers the statements of one program, from the outside in."""

    def statements(self, statement: ast.stmt) -> list[ast.stmt]:
        """What a statement becomes."""
        result = cast("ast.stmt | list[ast.stmt] | None", self.visit(statement))
        return result if isinstance(result, list) else [] if result is None else [result]

    def making(self, name: str, at: ast.stmt) -> ast.stmt:
        """Say how objects of a class of helpers are made of their parts."""
        self.helpers |= {"_cs_makers", name}
        return placed(ast.parse(f"_cs_makers[{name!r}] = {name}").body[0], at)

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
            node.body = _collecting(node, self.helper("_cs_Failing", node) if self.has_attempts else None)
        self.scopes.leave()
        if node.name.startswith(FACTORY):
            target = ast.parse(f"_cs_factories[{node.name!r}] = {node.name}").body[0]
            self.helpers.add("_cs_factories")
            return [node, placed(target, node)]
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
        """`xs += ys` takes any iterable in Python, only a list in the executor; `s |= t` changes s."""
        target = copy.deepcopy(node.target)
        node.value = self.visit(node.value)
        in_place = _SET_CHANGES.get(type(node.op))
        if in_place and self.has_sets and not isinstance(node.value, ast.Constant) and _is_simple(target):
            for part in ast.walk(target):
                if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)):
                    part.ctx = ast.Load()
            made = self.call(in_place, node, self.visit(target), node.value)
            return ast.copy_location(ast.Assign([self.visit(node.target)], made), node)
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
            helper = self._member_helper(module, alias.name)
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
                    key = self.visit(target.slice)
                    if isinstance(key, ast.Slice):
                        sides = [one or ast.Constant(None) for one in (key.lower, key.upper, key.step)]
                        key = placed(ast.Call(ast.Name("slice", ast.Load()), sides, []), node)
                    call = self.call("_cs_del", node, self.visit(target.value), key)
                    made.append(ast.Expr(call))
                case _:
                    made.append(ast.Pass())
        return [ast.copy_location(one, node) for one in made]

    def visit_For(self, node: ast.For) -> ast.AST:
        node.iter = self._sequence(node.iter)
        node.target = self.visit(node.target)
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        node.test = self.truth(self.visit(node.test))
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        node.test = self.truth(self.visit(node.test))
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        node.test = self.truth(self.visit(node.test))
        node.msg = None if node.msg is None else self.visit(node.msg)
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
        for handler in node.handlers:
            if handler.name and handler.type and self.scopes.member_of(handler.type) == _JSON_ERROR:
                handler.body = [cast("ast.stmt", JsonFields(handler.name).visit(one)) for one in handler.body]
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
            body: list[ast.stmt] = self._block(handler.body)
            if handler.name is not None:
                name = ast.Name(handler.name, ast.Store())
                bound = ast.copy_location(ast.Assign([name], ast.Name(caught, ast.Load())), handler)
                body.insert(0, bound)
                if self._is_read_outside(
                    handler.name
                ):  # `del` is not known to the executor, but handlers are
                    again = placed(ast.Raise(ast.Name(raised, ast.Load())), handler)
                    every = ast.Name("BaseException", ast.Load())
                    inner = ast.copy_location(ast.ExceptHandler(every, handler.name, body), handler)
                    attempt: list[ast.stmt] = [again]
                    body = [ast.copy_location(ast.Try(attempt, [inner], [], []), handler)]
            if handler.type is None:
                branch = body
                continue
            test = self.call("_cs_is", handler.type, ast.Name(caught, ast.Load()), self.visit(handler.type))
            branch = [ast.copy_location(ast.If(test, body, branch), handler)]
        find = self.call("_cs_caught", first, ast.Name(raised, ast.Load()))
        assign = ast.copy_location(ast.Assign([ast.Name(caught, ast.Store())], find), first)
        kind = placed(ast.Tuple(self._caught_kinds(handlers), ast.Load()), first)
        return ast.copy_location(ast.ExceptHandler(kind, raised, [assign, *branch]), first)

    def _is_read_outside(self, name: str) -> bool:
        """Whether the name of an error is read where no handler binds it."""
        inside = {
            id(each)
            for one in self.scopes.nodes
            if isinstance(one, ast.ExceptHandler) and one.name == name
            for each in ast.walk(one)
        }
        return any(
            isinstance(one, ast.Name)
            and one.id == name
            and isinstance(one.ctx, ast.Load)
            and id(one) not in inside
            for one in self.scopes.nodes
        )

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
                self.selves.append(first[0].arg if first else "")
                self.visit(statement)
                self.selves.pop()
            elif isinstance(statement, ast.Assign):
                statement.value = self.visit(statement.value)
        self.scopes.leave()
        definition = ast.copy_location(ast.ClassDef(node.name, [], [], made.body, []), node)
        definition.type_params = []  # pyright: ignore[reportAttributeAccessIssue] - of Python 3.12
        before = [self.visit(statement) for statement in made.before]
        return [*before, *([definition] if shape.kind.is_class else []), *made.after]


_JSON_ERROR: Final = ("json", "JSONDecodeError")
_NATIVE_ERRORS: Final = (_JSON_ERROR, ("re", "error"), ("decimal", "InvalidOperation"))
_NATIVE_MODULES: Final = (
    "asyncio", "base64", "bisect", "collections", "copy", "csv", "datetime", "decimal", "functools",
    "hashlib", "itertools", "json", "math", "random", "re", "typing", "unicodedata",
)  # fmt: skip


_ADDED: Final = (ast.List, ast.ListComp)


_SET_CHANGES: Final[Mapping[type[ast.operator], str]] = {
    ast.BitOr: "_cs_set_or",
    ast.BitAnd: "_cs_set_and",
    ast.Sub: "_cs_set_sub",
    ast.BitXor: "_cs_set_xor",
}


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


def _is_erased(module: str, name: str) -> bool:
    """Whether an import is only needed by what lowering takes away: annotations, decorators, bases."""
    return (module, name) in (
        ("functools", "cmp_to_key"), ("functools", "total_ordering"), ("dataclasses", "dataclass"),
        ("dataclasses", "field"), ("dataclasses", "KW_ONLY"), ("functools", "cached_property"),
    )  # fmt: skip


def _collecting(node: ast.FunctionDef, failing: ast.expr | None) -> list[ast.stmt]:
    """The body of a generator as one that collects what it yields; refusals see to it that none can tell.

    Where its failure may be caught, `failing` gives what was collected until then, and then fails.
    """
    first, last = node.body[0], node.body[-1]
    made = [
        ast.copy_location(ast.Assign([ast.Name("_cs_all", ast.Store())], ast.List([], ast.Load())), first)
    ]
    ending = ast.parse("iter(_cs_all)", mode="eval").body
    collect = _Collect()
    body = [collect.visit(statement) for statement in node.body]
    body.append(ast.copy_location(ast.Return(ending), last))
    if failing is None:
        return [*made, *body]
    given: list[ast.expr] = [ast.Name("_cs_all", ast.Load()), ast.Name("_cs_error", ast.Load())]
    kept = placed(ast.Return(ast.Call(failing, given, [])), last)
    kind = ast.Name("Exception", ast.Load())
    handler = placed(ast.ExceptHandler(kind, "_cs_error", [kept]), last)
    return [*made, ast.copy_location(ast.Try(body, [handler], [], []), first)]


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
