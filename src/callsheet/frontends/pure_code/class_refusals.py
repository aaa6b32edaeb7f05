"""What is refused of a program's pure code, and which of its classes are: bases, decorators, members.

In: a class of the program. Out: `Refusal`s, each with its place, the reason and a rewrite.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from callsheet.frontends.pure_code.classes import (
    ORDERED,
    ClassKind,
    ProgramClass,
    is_true,
)
from callsheet.frontends.pure_code.facts import ERASED_BASES, classes_of
from callsheet.frontends.pure_code.helpers import PREFIX
from callsheet.frontends.pure_code.laziness import changes_itself
from callsheet.frontends.pure_code.names import Scopes, is_generator


class RefusalKind(StrEnum):
    """What is refused."""

    SYNTAX = "syntax"
    STATEMENT = "statement"
    NAME = "name"
    MODULE = "module"
    MEMBER = "member"
    GENERATOR = "generator"
    CLASS = "class"


class Refusal(NamedTuple):
    """A part of a program that is refused; line and column count from 1."""

    kind: RefusalKind
    line: int
    column: int
    reason: str
    rewrite: str


class Judged(NamedTuple):
    """A refusal, and the node that it is about."""

    refusal: Refusal
    node: ast.AST


_ENUMS: Final = ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")
_OPTIONS: Final = ("frozen", "slots", "eq", "repr", "init", "order", "kw_only")
_DUNDERS: Final = frozenset(
    [
        "__init__",
        "__repr__",
        "__str__",
        "__eq__",
        "__hash__",
        "__add__",
        "__radd__",
        "__sub__",
        "__mul__",
        "__truediv__",
        "__floordiv__",
        "__mod__",
        "__getitem__",
        "__setitem__",
        "__contains__",
        "__iter__",
        "__len__",
        "__bool__",
        "__neg__",
        "__abs__",
        "__int__",
        "__float__",
        *ORDERED,
        "__next__",
        "__call__",
        "__enter__",
        "__exit__",
        "__post_init__",
    ]
)


class ClassJudge(ast.NodeVisitor):
    """Walks a program and notes what is refused of its classes."""

    def __init__(self, tree: ast.Module, given: Iterable[str]) -> None:
        self.found: list[Judged] = []
        self.scopes = Scopes(tree, given)
        self.classes: Mapping[str, ProgramClass] = classes_of(self.scopes)
        self.own_methods = {name for one in self.classes.values() for name in one.methods}
        self.own_methods |= {name for one in self.classes.values() for name in one.stored}
        self.own_methods |= {field.name for one in self.classes.values() for field in one.fields}
        self.functions_named: dict[str, list[ast.FunctionDef]] = {}
        for node in self.scopes.nodes:
            if isinstance(node, ast.FunctionDef):
                self.functions_named.setdefault(node.name, []).append(node)
        self.generators = {
            name for name, found in self.functions_named.items() if any(map(is_generator, found))
        }
        self.consumed = set[int]()
        self._class: list[ProgramClass] = []
        self._function = ""
        self._class_name = ""
        """What a class method calls its class."""

    def refuse(self, kind: RefusalKind, node: ast.AST, reason: str, rewrite: str) -> None:
        """Note a refusal at a node."""
        at = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
        if isinstance(node, ast.Attribute):  # the place of its name
            at = node.end_lineno or 1, (node.end_col_offset or 0) - len(node.attr) + 1
        self.found.append(Judged(Refusal(kind, *at, reason, rewrite), node))

    def statement(self, node: ast.AST, reason: str, rewrite: str) -> None:
        """Note a statement that is refused."""
        self.refuse(RefusalKind.STATEMENT, node, reason, rewrite)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """A class."""
        self.check_own_name(node, node.name)
        shape = self.classes[node.name]
        if shape.node is not node:
            self.refuse(
                RefusalKind.CLASS, node, f"there are two classes {node.name}", "give one another name"
            )
            return
        self._bases(node, shape)
        for decorator in node.decorator_list:
            self._class_decorator(decorator, shape)
        self._class.append(shape)
        self.scopes.enter(node)
        for at, statement in enumerate(node.body):
            self._class_part(statement, shape, is_first=at == 0)
        self.scopes.leave()
        self._class.pop()

    def _bases(self, node: ast.ClassDef, shape: ProgramClass) -> None:
        own = [base for base in node.bases if not self._is_erased(base)]
        rewrite = "put what is common into functions, or into a field that holds the other object"
        if any(word.arg != "total" or shape.kind is not ClassKind.TYPED_DICT for word in node.keywords):
            self.refuse(RefusalKind.CLASS, node, "a metaclass is not understood", "leave it out")
        elif shape.kind is ClassKind.OTHER or len(own) > (2 if shape.mixin and not shape.is_value else 1):
            names = ", ".join(map(ast.unparse, own))
            if any(ast.unparse(base).split(".")[-1] in _ENUMS for base in own):
                rewrite = f"write class {node.name}(Enum), and {node.name}.….value where its value is meant"
            self.refuse(
                RefusalKind.CLASS,
                node,
                f"{node.name} inherits from {names}, which is not understood",
                rewrite,
            )

    def _is_erased(self, base: ast.expr) -> bool:
        inner = base.value if isinstance(base, ast.Subscript) else base
        return self.scopes.member_of(inner) in ERASED_BASES or self.scopes.is_builtin(inner, "object")

    def _class_decorator(self, node: ast.expr, shape: ProgramClass) -> None:
        func = node.func if isinstance(node, ast.Call) else node
        if shape.kind is ClassKind.ENUM and self.scopes.member_of(func) == ("enum", "unique"):
            return
        compares = "__eq__" in shape.methods or shape.kind is ClassKind.DATACLASS
        if self.scopes.member_of(func) == ("functools", "total_ordering") and compares:
            return
        if self.scopes.member_of(func) != ("dataclasses", "dataclass"):
            self.refuse(RefusalKind.CLASS, node, "a decorator of a class is not understood", "leave it out")
            return
        for name in shape.options:
            if name not in _OPTIONS:
                self.refuse(RefusalKind.CLASS, node, f"the option {name} is not understood", "leave it out")
        if is_true(shape.options.get("frozen")):
            stored = {
                one.attr
                for one in self.scopes.nodes
                if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)
            }
            for one in shape.fields:
                if one.name in stored:
                    reason = f"the field {one.name} of the frozen class {shape.name} is assigned"
                    self.refuse(RefusalKind.CLASS, node, reason, "leave frozen=True out, or use replace()")

    def _class_part(self, statement: ast.stmt, shape: ProgramClass, *, is_first: bool) -> None:
        match statement:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                return
            case ast.FunctionDef(name=name):
                if shape.kind is ClassKind.ENUM and name in ("__eq__", "__hash__", "__call__"):
                    reason = f"the method {name} of an enumeration is not understood"
                    self.refuse(RefusalKind.CLASS, statement, reason, "use a function, or a dataclass")
                if name.startswith("__") and name not in _DUNDERS:
                    rewrite = "give the method a plain name, and sort with key="
                    self.refuse(RefusalKind.CLASS, statement, f"the method {name} is not understood", rewrite)
                if name in _READING and changes_itself(statement, self.functions_named):
                    self.refuse(
                        RefusalKind.CLASS, statement, f"{name} changes the object that it looks at",
                        "change it in a method with a plain name, and call that",
                    )  # fmt: skip
                if any(
                    isinstance(one, ast.Attribute) and one.attr == "setter"
                    for one in statement.decorator_list
                ):
                    self.refuse(
                        RefusalKind.CLASS, statement, "a setter is not understood", "write a method set_…"
                    )
                self._class.append(shape)
                self.visit(statement)
                self._class.pop()
            case ast.AnnAssign(target=ast.Name()) | ast.Assign(targets=[ast.Name()]):
                if statement.value is not None:
                    self.visit(statement.value)
                    self._check_shared(statement, statement.value, shape)
            case _:
                self.refuse(
                    RefusalKind.CLASS, statement, "such a statement in a class is not understood",
                    "leave fields and methods in the class, and put the rest after it",
                )  # fmt: skip
        del is_first

    def _check_shared(self, node: ast.Assign | ast.AnnAssign, value: ast.expr, shape: ProgramClass) -> None:
        """Note a container of a class that is changed: all its objects share it, also between calls."""
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        is_made = isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] in MAKERS
        if not isinstance(target, ast.Name) or not (is_made or isinstance(value, _CONTAINERS)):
            return
        if target.id in shape.stored and not any(_adds_to(one, target.id) for one in self.scopes.nodes):
            return  # each object gets one of its own
        if any(_changes(one, target.id) for one in self.scopes.nodes):
            self.refuse(
                RefusalKind.CLASS,
                node,
                f"{target.id} is one object for all of {shape.name}, and is changed",
                f"make one for each object: self.{target.id} = … in __init__",
            )

    def check_own_name(self, node: ast.AST, name: str) -> None:
        """Note a name that only helpers may have."""
        if name.startswith(PREFIX):
            self.refuse(
                RefusalKind.NAME, node, f"names that start with {PREFIX} are taken", "choose another name"
            )


_READING: Final = _DUNDERS - {
    *("__init__", "__post_init__", "__setitem__", "__delitem__", "__call__", "__enter__", "__exit__"),
    *("__next__", "__iter__", "__setattr__"),
}
"""The methods that Python calls where a program only looks at an object."""
_CONTAINERS: Final = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
MAKERS: Final = frozenset({"list", "dict", "set", "defaultdict", "deque", "Counter", "OrderedDict"})
"""The functions that make a container that can be changed."""
_CHANGES: Final = frozenset(
    {
        *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "setdefault"),
        *("popitem", "add", "discard", "appendleft", "popleft"),
    }
)


def _changes(node: ast.AST, name: str) -> bool:
    """Whether a node changes the container that is an attribute of this name."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=attr), attr=method)):
            return attr == name and method in _CHANGES
        case ast.Subscript(value=ast.Attribute(attr=attr), ctx=ast.Store() | ast.Del()):
            return attr == name
        case _:
            return _adds_to(node, name)


def _adds_to(node: ast.AST, name: str) -> bool:
    match node:
        case ast.AugAssign(target=ast.Attribute(attr=attr)):
            return attr == name
        case _:
            return False
