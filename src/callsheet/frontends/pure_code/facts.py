"""What is known of a pure program while its expressions are lowered, and what its objects say themselves.

In: the tree of a program, and what is known of its inputs. Out: the facts that lowering asks for, nodes that
call helpers, and comparisons and conditions as the program's classes define them.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from callsheet.frontends.pure_code.classes import ENUMS, ORDERED, ClassKind, Field, ProgramClass, is_true
from callsheet.frontends.pure_code.names import Scopes, is_generator

ERASED_BASES = (
    ("typing", "Generic"), ("typing", "Protocol"), ("abc", "ABC"),
)  # fmt: skip
_BUILTIN_ERRORS: Mapping[str, type[BaseException]] = {
    name: one
    for name, one in vars(builtins).items()
    if isinstance(one, type) and issubclass(one, BaseException)
}


def classes_of(scopes: Scopes) -> dict[str, ProgramClass]:
    """The classes of a program, by name."""
    stored = frozenset(
        node.attr
        for node in scopes.nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    ) | frozenset(
        one.target.id
        for node in scopes.nodes
        if isinstance(node, ast.ClassDef)
        for one in node.body
        if isinstance(one, ast.AnnAssign) and one.value is None and isinstance(one.target, ast.Name)
    )
    found: dict[str, ProgramClass] = {}
    nodes = [node for node in scopes.nodes if isinstance(node, ast.ClassDef)]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
        found[node.name] = _class_of(node, found, scopes, stored)
    return found


def _class_of(
    node: ast.ClassDef, known: Mapping[str, ProgramClass], scopes: Scopes, stored: frozenset[str]
) -> ProgramClass:
    parent = next(
        (known[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in known), None
    )
    kinds: tuple[str, ...] = ()
    kind, mixin, is_value = ClassKind.PLAIN, "", False
    options: dict[str, ast.expr] = {}
    for base in node.bases:
        member = scopes.member_of(base)
        name = base.id if isinstance(base, ast.Name) else ""
        if name in known:
            kinds, kind = (node.name, *known[name].kinds) if known[name].kinds else (), known[name].kind
        elif name in _BUILTIN_ERRORS and not scopes.is_bound(name):
            kinds = (node.name, *(one.__name__ for one in _BUILTIN_ERRORS[name].__mro__[:-1]))
            kind = ClassKind.ERROR
        elif member == ("typing", "NamedTuple"):
            kind = ClassKind.NAMED_TUPLE
        elif member == ("typing", "TypedDict"):
            kind = ClassKind.TYPED_DICT
        elif member is not None and member[0] == "enum" and member[1] in ENUMS:
            kind = ClassKind.ENUM
            mixin, is_value = ENUMS[member[1]] or mixin, member[1] != "Enum"
        elif name in ("str", "int", "float") and not scopes.is_bound(name) and len(node.bases) > 1:
            mixin = name
        elif name != "object" and member not in ERASED_BASES and not _is_generic(base, scopes):
            kind = ClassKind.OTHER
    for decorator in node.decorator_list:
        func = decorator.func if isinstance(decorator, ast.Call) else decorator
        if scopes.member_of(func) == ("dataclasses", "dataclass") and kind is not ClassKind.ERROR:
            kind = ClassKind.DATACLASS
            if isinstance(decorator, ast.Call):
                options = {word.arg: word.value for word in decorator.keywords if word.arg is not None}
    fields = tuple(_fields_of(node, scopes)) if kind in (ClassKind.DATACLASS, ClassKind.NAMED_TUPLE) else ()
    if parent is not None and kind is ClassKind.DATACLASS and not node.decorator_list:
        fields, options = (), dict(parent.options)
    if mixin and kind is not ClassKind.ENUM:
        kind = ClassKind.OTHER
    return ProgramClass(node.name, kind, node, parent, kinds, options, fields, stored, mixin, is_value)


def _fields_of(node: ast.ClassDef, scopes: Scopes) -> Iterable[Field]:
    by_name = False
    for statement in node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                if "ClassVar" in ast.unparse(annotation):
                    continue
                match value:
                    case ast.Call(func=func, keywords=words) if scopes.member_of(func) == (
                        "dataclasses",
                        "field",
                    ):
                        given = {word.arg: word.value for word in words}
                        yield Field(
                            name,
                            given.get("default"),
                            given.get("default_factory"),
                            given=not is_true(given.get("init"), False),
                            shown=not is_true(given.get("repr"), False),
                            compared=not is_true(given.get("compare"), False),
                            by_name=is_true(given.get("kw_only")) or by_name,
                        )
                    case _ if scopes.member_of(annotation) == ("dataclasses", "KW_ONLY"):
                        by_name = True
                    case _:
                        yield Field(name, value, by_name=by_name)
            case _:
                pass


def _is_generic(base: ast.expr, scopes: Scopes) -> bool:
    return isinstance(base, ast.Subscript) and scopes.member_of(base.value) in ERASED_BASES


class Inputs(NamedTuple):
    """What is known of the values that a program is given: names, whether there are sets or kept objects.

    `helpers` are the classes of helpers that some of these objects have.
    """

    names: frozenset[str] = frozenset()
    has_sets: bool = False
    has_kept: bool = False
    helpers: frozenset[str] = frozenset()


FACTORY: Final = "default_factory_"
"""What the names of functions begin with that make the defaults of a defaultdict which is kept."""
RELINKED: Final = "relinked"
"""Gives variables the objects that they shared before their values went through a plan."""
LINKS_AMONG: Final = "links_among"
"""Says which places in variables are one object."""
LAZY: Final = ("map", "filter", "zip", "enumerate", "reversed")
"""Builtins that give iterators, which the executor would run through at once."""
EAGER: Final = ("list", "tuple", "set", "frozenset", "dict", "sorted", "sum", "min", "max", "Counter")
"""Functions that take all that an iterator has before they do anything else."""
_RENAMED: Final = {
    **{name: f"_cs_{name}" for name in LAZY},
    "round": "_cs_round",
    "sum": "_cs_sum",
    "callable": "_cs_callable",
    "ascii": "_cs_ascii",
    "now": "_cs_now",
    "today": "_cs_today",
    RELINKED: "_cs_relinked",
    LINKS_AMONG: "_cs_links_among",
}
_OF_ORDERED: Final = {"sorted": "_cs_sorted", "min": "_cs_min", "max": "_cs_max"}
_OF_TRUTH: Final = {"len": "_cs_len", "bool": "_cs_true", "any": "_cs_any", "all": "_cs_all"}
ERRORS: Final = (
    "Exception", "ValueError", "TypeError", "KeyError", "IndexError", "RuntimeError", "LookupError",
    "ArithmeticError", "ZeroDivisionError", "AttributeError", "AssertionError", "NotImplementedError",
    "OverflowError", "BaseException", "TimeoutError", "OSError", "PermissionError", "StopIteration",
    "RecursionError", "MemoryError", "NameError", "FileNotFoundError", "UnicodeDecodeError",
)  # fmt: skip
GIVE_KEYS: Final = ("_cs_item", "_cs_given_pop", "_cs_given_remove", "_cs_del", "_cs_error")
"""Helpers that raise errors with other values than texts."""
_CATCH_KEYS: Final = ("KeyError", "LookupError", "Exception", "BaseException", "OSError", "IsADirectoryError")
CONVERSIONS: Final = {"int": "_cs_int", "float": "_cs_float"}
"""Functions that are types too, and that read texts."""
COMPARED: Final[Mapping[type[ast.cmpop], str]] = {
    ast.Lt: "_cs_lt", ast.LtE: "_cs_le", ast.Gt: "_cs_gt", ast.GtE: "_cs_ge",
}  # fmt: skip
_ALWAYS_BOOL: Final = (ast.Compare, ast.Constant, ast.JoinedStr)


class LoweringFacts(ast.NodeTransformer):
    """The facts about one program."""

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
        self.has_errors = (
            not self.used_modules.isdisjoint(("statistics", "graphlib"))
            or any(one.kind is ClassKind.ERROR for one in self.classes.values())
            or any(map(_catches_key, self.scopes.nodes))
            or any(error_of(node) and not has_text(node) for node in self.scopes.nodes)
        )
        """Whether errors may be objects: of the program's own classes, or with more than a text."""
        self.has_objects = inputs.has_kept or not self.used_modules.isdisjoint(
            ("collections", "typing", "random")
        )
        self.generators = {
            node.name
            for node in self.scopes.nodes
            if isinstance(node, ast.FunctionDef) and is_generator(node)
        }
        self.has_attempts = any(isinstance(node, ast.Try) for node in self.scopes.nodes)
        """Whether a failure can be seen from where it left things, as by a handler."""
        defined = {name for one in self.classes.values() for name in one.compared_by}
        self.has_networks = inputs.has_kept or "ipaddress" in self.used_modules
        """Whether `in` may ask for an address in a network, which the executor does not ask itself."""
        has_ordered = not self.used_modules.isdisjoint(("pathlib", "ipaddress", "fractions", "uuid"))
        self.has_order = has_ordered or bool(inputs.helpers) or not defined.isdisjoint(ORDERED)
        """Whether objects compare with `<`, which the executor does for its own types alone."""
        self.has_truth = not defined.isdisjoint(("__len__", "__bool__")) or _has_fractions(self)
        """Whether objects say themselves how long they are, and whether they are true."""
        self.has_value_enums = any(one.mixin for one in self.classes.values())
        """Whether members of enumerations are texts or numbers too."""
        self.own_methods = {name for one in self.classes.values() for name in one.methods}
        self.tuple_methods = {
            name for one in self.classes.values() if one.kind is ClassKind.NAMED_TUPLE for name in one.methods
        }
        self.renamed = {
            **_RENAMED,
            **(_OF_ORDERED if self.has_order else {}),
            **(_OF_TRUTH if self.has_truth else {}),
        }
        own = {node.name for node in self.scopes.nodes if isinstance(node, ast.FunctionDef)}
        names_types = any(map(_names_type, self.scopes.nodes))
        self.conversions = {
            id(one) for node in self.scopes.nodes for one in _called_later(node, own, names_types=names_types)
        }
        """Names of `int` and `float` that stand for what is called, and not for a type."""
        self.selves: list[str] = []
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

    # ------------------------------------------------------------ objects that compare, and their truth

    def ordered(self, node: ast.Compare) -> ast.expr:
        """A comparison of what may be objects: what stands between two signs is evaluated once."""
        tests: list[ast.expr] = []
        left = node.left
        for at, (how, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            given = right
            if at < len(node.ops) - 1 and not isinstance(right, (ast.Name, ast.Constant)):
                name = self.fresh("side")
                given = placed(ast.NamedExpr(ast.Name(name, ast.Store()), right), right)
                right = ast.copy_location(ast.Name(name, ast.Load()), right)  # noqa: PLW2901
            helper = COMPARED.get(type(how))
            tests.append(
                ast.copy_location(ast.Compare(left, [how], [given]), node)
                if helper is None
                else self.call(helper, node, left, given)
            )
            left = right
        return tests[0] if len(tests) == 1 else ast.copy_location(ast.BoolOp(ast.And(), tests), node)

    def truth(self, node: ast.expr) -> ast.expr:
        """A lowered expression where only its truth counts."""
        if not self.has_truth or isinstance(node, _ALWAYS_BOOL):
            return node
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return node
        return self.call("_cs_true", node, node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """A choice."""
        node.test = self.truth(self.visit(node.test))
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """A sign, or `not`."""
        node.operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            node.operand = self.truth(node.operand)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """`and` and `or`, which give one of their sides."""
        node.values = [self.visit(one) for one in node.values]
        if not self.has_truth:
            return node
        *firsts, made = node.values
        for one in reversed(firsts):
            name = self.fresh("side")
            held = placed(ast.NamedExpr(ast.Name(name, ast.Store()), one), one)
            side = ast.copy_location(ast.Name(name, ast.Load()), one)
            test = self.call("_cs_true", one, held)
            first, second = (side, made) if isinstance(node.op, ast.Or) else (made, side)
            made = ast.copy_location(ast.IfExp(test, first, second), node)
        return made


def error_of(node: ast.AST) -> str | None:
    """The built-in exception that a call makes."""
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in ERRORS:
            return name
        case _:
            return None


def has_text(node: ast.AST) -> bool:
    """Whether an exception is made of one text, or of nothing."""
    return isinstance(node, ast.Call) and (not node.args or (len(node.args) == 1 and is_text(node.args[0])))


def is_text(node: ast.expr) -> bool:
    """Whether an expression is surely a text."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _catches_key(node: ast.AST) -> bool:
    """Whether a handler takes errors of keys, and what stands for them."""
    if not isinstance(node, ast.ExceptHandler):
        return False
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(one is None or not isinstance(one, ast.Name) or one.id in _CATCH_KEYS for one in kinds)


def _names_type(node: ast.AST) -> bool:
    """Whether a program asks of which type something is."""
    match node:
        case ast.Name(id="isinstance" | "issubclass" | "type") | ast.Attribute(attr="__name__"):
            return True
        case ast.Compare(left=left, comparators=others):
            return any(isinstance(one, ast.Name) and one.id in CONVERSIONS for one in (left, *others))
        case _:
            return False


def _called_later(node: ast.AST, own: Collection[str], *, names_types: bool) -> Iterator[ast.expr]:
    """What in a node gives functions for others to call; `own` are the functions of the program."""
    match node:
        case ast.Call(func=ast.Name(id="map" | "filter"), args=[function, *_]):
            yield function
        case ast.keyword(arg="key", value=function):
            yield function
        case _ if names_types:
            pass
        case ast.Assign(value=function):
            yield function
        case ast.Call(func=ast.Name(id=name), args=args, keywords=words) if name in own:
            yield from (*args, *(one.value for one in words))
        case ast.IfExp(body=first, orelse=second):
            yield from (first, second)
        case ast.For(iter=ast.Tuple(elts=functions) | ast.List(elts=functions)) | ast.Dict(values=functions):
            yield from functions
        case ast.comprehension(iter=ast.Tuple(elts=functions) | ast.List(elts=functions)):
            yield from functions
        case _:
            pass


def _has_fractions(facts: LoweringFacts) -> bool:
    return "fractions" in facts.used_modules or "_cs_fractions_Fraction" in facts.inputs.helpers


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


Node = TypeVar("Node", bound=ast.AST)


def placed(made: Node, place: ast.AST) -> Node:
    """A new tree whose nodes all have the place of another."""
    for node in ast.walk(made):
        if "lineno" in node._attributes:
            ast.copy_location(node, place)
    return made
