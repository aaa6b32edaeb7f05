"""Which classes a program of pure code defines, and of which kind each is.

In: the scopes of a program. Out: its classes by name, each with its kind, its base and its fields.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Mapping

from callsheet.frontends.pure_code.classes import ClassKind, Field, ProgramClass, is_true
from callsheet.frontends.pure_code.enumerations import ENUMS
from callsheet.frontends.pure_code.names import Scopes

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
