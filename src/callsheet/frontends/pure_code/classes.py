"""Classes of pure code as the executor has them: no inheritance, decorators, exceptions of their own.

In: a class of a program. Out: a plain class that behaves like it: members of a base class are copied, a
dataclass gets its methods written out, an exception is an object that a built-in one stands for.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

ENUMS = {"Enum": "", "IntEnum": "int", "StrEnum": "str"}
"""The kinds of enumerations, and of which type their members are too."""
_OF_NUMBERS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and": "&", "or": "|", "xor": "^",
}  # fmt: skip


def value_methods(mixin: str, ordered: Iterable[str]) -> dict[str, str]:
    """What the members of an enumeration do as the values that they are, by the names of the methods."""
    made = {
        "__eq__": "self is other or self.value == _cs_raw(other)",
        "__hash__": "hash(self.value)",
        "__bool__": "bool(self.value)",
        **{name: f"_cs_native_order(self.value, _cs_raw(other), {name!r})" for name in ordered},
    }
    signs = {"add": "+", "mul": "*", "mod": "%"} if mixin == "str" else _OF_NUMBERS
    for name, sign in signs.items():
        made[f"__{name}__"] = f"self.value {sign} _cs_raw(other)"
        if name != "mod" or mixin != "str":
            made[f"__r{name}__"] = f"_cs_raw(other) {sign} self.value"
    if mixin == "str":
        made["__len__"] = "len(self.value)"
        made["__iter__"] = "iter(self.value)"
        made["__contains__"] = "_cs_raw(other) in self.value"
        made["__getitem__"] = "self.value[other]"
    else:
        made |= {"__neg__": "-self.value", "__abs__": "abs(self.value)", "__float__": "float(self.value)"}
        made |= {"__int__": "int(self.value)"}
        if mixin == "int":
            made["__index__"] = "self.value"
    return made


class ClassKind(Enum):
    """What a class is."""

    PLAIN = "plain"
    DATACLASS = "dataclass"
    ERROR = "error"
    NAMED_TUPLE = "named tuple"
    TYPED_DICT = "typed dict"
    ENUM = "enumeration"
    OTHER = "other"

    @property
    def is_class(self) -> bool:
        """Whether it is a class for the executor, rather than a function that makes tuples or dicts."""
        return self not in (ClassKind.NAMED_TUPLE, ClassKind.TYPED_DICT)


class Field(NamedTuple):
    """A field of a dataclass; `factory` makes its default, `given` says whether the constructor takes it."""

    name: str
    default: ast.expr | None = None
    factory: ast.expr | None = None
    given: bool = True
    shown: bool = True
    compared: bool = True
    by_name: bool = False


class LoweredClass(NamedTuple):
    """What a class becomes: statements before it, its body, statements after it, and helpers."""

    before: list[ast.stmt]
    body: list[ast.stmt]
    after: list[ast.stmt]
    helpers: frozenset[str]


ORDERED = ("__lt__", "__le__", "__gt__", "__ge__")
"""The methods that compare two objects with `<` and its like."""
METHOD_DECORATORS = ("property", "staticmethod", "classmethod")


@dataclass
class ProgramClass:
    """A class of the program; `parent` is the class of the program that it extends."""

    name: str
    kind: ClassKind
    node: ast.ClassDef
    parent: ProgramClass | None
    kinds: tuple[str, ...]
    """Of a class of exceptions: itself and its bases, by name."""
    options: Mapping[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    own_fields: tuple[Field, ...] = ()
    stored: frozenset[str] = frozenset()
    """All attributes that the program stores anywhere."""
    mixin: str = ""
    """Of an enumeration whose members are values too: the type of these."""
    is_value: bool = False
    """Whether the text of such a member is that of its value, as for StrEnum and IntEnum."""

    @property
    def lineage(self) -> tuple[str, ...]:
        """The names of the class and of the classes of the program that it extends."""
        return (self.name, *(self.parent.lineage if self.parent else ()))

    @property
    def methods(self) -> dict[str, ast.FunctionDef]:
        """The methods, also inherited ones."""
        own = {one.name: one for one in self.node.body if isinstance(one, ast.FunctionDef)}
        return {**(self.parent.methods if self.parent else {}), **own}

    @property
    def compared_by(self) -> frozenset[str]:
        """The methods that say how its objects compare, and how long or true they are."""
        own = {name for name in self.methods if name in (*ORDERED, "__len__", "__bool__")}
        if is_true(self.options.get("order")) or (own and self.has_total_order) or self.mixin:
            own |= set(ORDERED)
        if self.mixin:
            own |= {"__len__", "__bool__"}
        return frozenset(own)

    @property
    def has_total_order(self) -> bool:
        """Whether `total_ordering` derives the comparisons that it lacks."""
        return any(_name_of(one) == "total_ordering" for one in self.node.decorator_list)

    @property
    def takes_class(self) -> frozenset[str]:
        """The names of methods that get the class itself."""
        return frozenset(name for name, one in self.methods.items() if _decorated(one) == "classmethod")

    @property
    def properties(self) -> frozenset[str]:
        """The names of methods that are read like fields."""
        return frozenset(
            name for name, one in self.methods.items() if _decorated(one) in ("property", "cached_property")
        )

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of a dataclass, those of its base first."""
        found = {one.name: one for one in (self.parent.fields if self.parent else ())}
        found.update({one.name: one for one in self.own_fields})
        return tuple(found.values())

    def super_method(self, func: ast.Attribute) -> str | None:
        """The name under which `super().method` is found in this class, None for another expression."""
        match func.value:
            case ast.Call(func=ast.Name(id="super"), args=[]):
                if func.attr == "__init__" and (self.parent is None or "__init__" not in self.parent.methods):
                    return "_cs_error_init" if self.kind is ClassKind.ERROR else "_cs_no_init"
                return f"_cs_super_{self.parent.name}_{func.attr}" if self.parent else None
            case _:
                return None

    def lowered(self, node: ast.ClassDef, *, with_blank: bool) -> LoweredClass:
        """The class for the executor; `with_blank` lets it be made without its constructor."""
        match self.kind:
            case ClassKind.NAMED_TUPLE:
                return self._named_tuple(node)
            case ClassKind.TYPED_DICT:
                text = f"def {self.name}(*_cs_a, **_cs_k):\n    return dict(*_cs_a, **_cs_k)"
                return LoweredClass(_parsed(text, node), [], [], frozenset())
            case _:
                return self._plain(node, with_blank)

    def _named_tuple(self, node: ast.ClassDef) -> LoweredClass:
        names = [one.name for one in self.own_fields]
        defaults = [ast.unparse(one.default) for one in self.own_fields if one.default is not None]
        text = (
            f"from collections import namedtuple as _cs_namedtuple\n"
            f"{self.name} = _cs_namedtuple({self.name!r}, {names!r}, defaults=[{', '.join(defaults)}])\n"
            f"_cs_classes[{self.name!r}] = {self.name}"
        )
        before = _parsed(text, node)
        for one in node.body:
            if isinstance(one, ast.FunctionDef):
                method = copy.deepcopy(one)
                method.name = tuple_method(self.name, one.name)
                method.decorator_list = []
                before.append(method)
                if not _decorated(one).endswith("method"):
                    is_read = "True" if one.name in self.properties else "False"
                    entry = f"_cs_tuple_methods[({self.name!r}, {one.name!r})] = ({method.name}, {is_read})"
                    before += _parsed(entry, node)
        helpers = {"_cs_classes", *(["_cs_tuple_methods"] if self.methods else [])}
        return LoweredClass(before, [], [], frozenset(helpers))

    def _plain(self, node: ast.ClassDef, with_blank: bool) -> LoweredClass:
        parts = _Parts(self)
        chain: list[ProgramClass] = [self]
        while chain[0].parent is not None:
            chain.insert(0, chain[0].parent)
        for one in chain:
            for statement in one.node.body:
                parts.add(copy.deepcopy(statement), one)
        before, body, helpers = parts.before, parts.body, {"_cs_classes", *parts.helpers}
        if self.kind is ClassKind.DATACLASS:
            made, more = self._dataclass(node, set(self.methods))
            before += made
            body.update(more)
            helpers |= {"_cs_same", "_cs_shape", "_cs_hash", "_cs_blank", "_cs_ordered"}
        if self.has_total_order:
            first = next((name for name in ORDERED if name in self.methods), None)
            for name in () if first is None else ORDERED:
                if name not in body:
                    call = f"_cs_total_order(self, other, {first!r}, {name!r})"
                    text = f"def {name}(self, other):\n    return {call}"
                    body[name] = _parsed(text, node)
            helpers.add("_cs_total_order")
        if self.kind is ClassKind.ERROR:
            body.update(self._error(node, body))
            helpers |= {"_cs_error_text", "_cs_error_repr", "_cs_raise", "_cs_raised", "_cs_blank"}
        if self.kind is ClassKind.ENUM:
            self._enum(node, body)
            helpers |= {"_cs_enum", "_cs_enum_named", "_cs_member"}
            if self.mixin:
                helpers |= {"_cs_raw", "_cs_native_order"}
        if with_blank and self.kind is not ClassKind.ERROR:
            body.update(self._with_blank(node, body))
            helpers.add("_cs_blank")
        body["_cs_no_init"] = _parsed("def _cs_no_init(self):\n    pass", node)
        stored = {
            *self.stored,
            *(one.name for one in self.fields),
            *(["args"] if self.kinds else []),
            *parts.cached,
        }
        if self.kind is ClassKind.ENUM:
            stored = {"name", "value"}
        body["_cs_names"] = _parsed(f"def _cs_names(self):\n    return {tuple(sorted(stored))!r}", node)
        after = _parsed(f"_cs_classes[{self.name!r}] = {self.name}", node)
        if self.kind is ClassKind.ENUM:
            after += self._members(node)
        for name in parts.classmethods:
            after += _parsed(f"{self.name}.{name}.owner = {self.name}", node)
        return LoweredClass(
            before, [one for part in body.values() for one in part], after, frozenset(helpers)
        )

    def _dataclass(
        self, node: ast.ClassDef, own: set[str]
    ) -> tuple[list[ast.stmt], dict[str, list[ast.stmt]]]:
        """Statements for the defaults of a dataclass, and its methods."""
        before: list[ast.stmt] = []
        parameters: list[str] = []
        by_name: list[str] = []
        lines: list[str] = []
        all_by_name = is_true(self.options.get("kw_only"))
        for one in self.fields:
            default = f"_cs_{self.name}_{one.name}"
            value = one.default if one.default is not None else one.factory
            taken = by_name if one.by_name or all_by_name else parameters
            if value is None:
                if one.given:
                    taken.append(one.name)
                    lines.append(f"self.{one.name} = {one.name}")
                continue
            target = ast.Name(default, ast.Store())
            before.append(ast.copy_location(ast.Assign([target], copy.deepcopy(value)), value))
            made_new = default if one.default is not None else f"{default}()"
            if not one.given:
                lines.append(f"self.{one.name} = {made_new}")
            elif one.default is not None:
                taken.append(f"{one.name}={default}")
                lines.append(f"self.{one.name} = {one.name}")
            else:
                taken.append(f"{one.name}=_cs_blank")
                lines.append(f"self.{one.name} = {made_new} if {one.name} is _cs_blank else {one.name}")
        if "__post_init__" in own:
            lines.append("self.__post_init__()")
        heads = ["self", *parameters, *(["*", *by_name] if by_name else [])]
        methods = {
            "__init__": f"def __init__({', '.join(heads)}):\n    " + "\n    ".join(lines or ["pass"]),
            "__repr__": "def __repr__(self):\n    return _cs_shape(self)",
        }
        if not is_true(self.options.get("eq"), False):
            methods["__eq__"] = "def __eq__(self, other):\n    return _cs_same(self, other)"
        if is_true(self.options.get("order")):
            for word in ORDERED:
                text = f"def {word}(self, other):\n    return _cs_ordered(self, other, {word!r})"
                methods[word] = text
        if is_true(self.options.get("frozen")):
            methods["__hash__"] = "def __hash__(self):\n    return _cs_hash(self)"
        made = {name: _parsed(text, node) for name, text in methods.items() if name not in own}
        matched = tuple(one.name for one in self.fields if one.given and not one.by_name and not all_by_name)
        listed = {
            "_cs_fields": [one.name for one in self.fields],
            "_cs_shown_fields": [one.name for one in self.fields if one.shown],
            "_cs_compared": [one.name for one in self.fields if one.compared],
            "_cs_taken": [one.name for one in self.fields if one.given],
            "__match_args__": matched,
        }
        for name, names in listed.items():
            made[name] = _parsed(f"{name} = {tuple(names)!r}", node)
        for one in self.fields:
            if one.default is not None:
                made[one.name] = _parsed(f"{one.name} = _cs_{self.name}_{one.name}", node)
        return before, made

    @property
    def members(self) -> dict[str, ast.expr]:
        """The members of an enumeration, with the expressions of their values."""
        return {
            target.id: statement.value
            for statement in self.node.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }

    def _enum(self, node: ast.ClassDef, body: dict[str, list[ast.stmt]]) -> None:
        for name in self.members:
            del body[name]
        own = body.pop("__init__", None)
        init = "def __init__(self, name, value):\n    self.name = name\n    self.value = value"
        if own is not None and isinstance(own[0], ast.FunctionDef):
            own[0].name = "_cs_setup"
            body["_cs_setup"] = own
            init += "\n    self._cs_setup(*(value if isinstance(value, tuple) else (value,)))"
        body["__init__"] = _parsed(init, node)
        texts = {
            "__repr__": "f'<{type(self).__name__}.{self.name}: {self.value!r}>'",
            "__str__": "str(self.value)" if self.is_value else "f'{type(self).__name__}.{self.name}'",
        }
        for name, text in {**texts, **(value_methods(self.mixin, ORDERED) if self.mixin else {})}.items():
            if name not in body:
                given = "self, other" if name not in texts and "other" in text else "self"
                body[name] = _parsed(f"def {name}({given}):\n    return {text}", node)
        body["_cs_members"] = _parsed("_cs_members = []", node)
        body["_cs_mixin"] = _parsed(f"_cs_mixin = {self.mixin!r}", node)
        body["_cs_is_value"] = _parsed(f"_cs_is_value = {self.is_value}", node)

    def _members(self, node: ast.ClassDef) -> list[ast.stmt]:
        """Statements that make the members of an enumeration, in order; one of an equal value is the same."""
        made: list[ast.stmt] = []
        for name, value in self.members.items():
            text = f"{self.name}.{name} = _cs_member({self.name}, {name!r}, 0)"
            statement = _parsed(text, node)
            call = statement[0]
            assert isinstance(call, ast.Assign)
            assert isinstance(call.value, ast.Call)
            is_auto = isinstance(value, ast.Call) and _name_of(value.func) == "auto"
            call.value.args[2] = (
                ast.copy_location(ast.Name("_cs_blank", ast.Load()), node)
                if is_auto
                else copy.deepcopy(value)
            )
            made += statement
        return made

    def _error(self, node: ast.ClassDef, body: Mapping[str, list[ast.stmt]]) -> dict[str, list[ast.stmt]]:
        made: dict[str, list[ast.stmt]] = {}
        own = body.get("__init__")
        text = "def __init__(self, *_cs_a, **_cs_k):\n"
        if own is not None and isinstance(own[0], ast.FunctionDef):
            own[0].name = "_cs_init"
            made["_cs_init"] = own
            text += (
                "    if _cs_a and _cs_a[0] is _cs_blank:\n        return\n"
                "    self.args = _cs_a\n    self._cs_init(*_cs_a, **_cs_k)"
            )
        else:
            text += "    self.args = _cs_a"
        made["__init__"] = _parsed(text, node)
        made["_cs_error_init"] = _parsed("def _cs_error_init(self, *_cs_a):\n    self.args = _cs_a", node)
        if "__str__" not in body:
            made["__str__"] = _parsed("def __str__(self):\n    return _cs_error_text(self)", node)
        if "__repr__" not in body:
            made["__repr__"] = _parsed("def __repr__(self):\n    return _cs_error_repr(self)", node)
        made["_cs_kinds"] = _parsed(f"_cs_kinds = {self.kinds!r}", node)
        return made

    def _with_blank(
        self, node: ast.ClassDef, body: Mapping[str, list[ast.stmt]]
    ) -> dict[str, list[ast.stmt]]:
        own = body.get("__init__")
        if own is not None and isinstance(own[0], ast.FunctionDef):
            own[0].name = "_cs_init"
        made = {"_cs_init": own if own is not None else _parsed("def _cs_init(self):\n    pass", node)}
        text = (
            "def __init__(self, *_cs_a, **_cs_k):\n    if _cs_a and _cs_a[0] is _cs_blank:\n        return\n"
            "    self._cs_init(*_cs_a, **_cs_k)"
        )
        return {**made, "__init__": _parsed(text, node)}


def tuple_method(owner: str, name: str) -> str:
    """The function that a method of a class of named tuples is for the executor."""
    return f"_cs_{owner}_{name}"


class _Parts:
    """The members of one class for the executor, from the classes that it extends and from itself."""

    def __init__(self, owner: ProgramClass) -> None:
        self.owner = owner
        self.before: list[ast.stmt] = []
        self.body: dict[str, list[ast.stmt]] = {}
        self.helpers: set[str] = set()
        self.classmethods: list[str] = []
        self.cached: set[str] = set()

    def add(self, statement: ast.stmt, origin: ProgramClass) -> None:
        """Take over a member that the class `origin` has."""
        name = _member_name(statement)
        match statement:
            case ast.FunctionDef():
                self._method(statement, name, origin)
            case ast.AnnAssign(value=ast.expr() as value):
                if not any(field.name == name for field in self.owner.fields):
                    target = ast.Name(name, ast.Store())
                    self.body[name] = [ast.copy_location(ast.Assign([target], value), statement)]
            case ast.Assign():
                self.body[name] = [statement]
            case _:
                pass

    def _method(self, method: ast.FunctionDef, name: str, origin: ProgramClass) -> None:
        if name in self.body and origin.parent is not None:
            inherited = f"_cs_super_{origin.parent.name}_{name}"
            self.body[inherited] = copy.deepcopy(self.body[name])
            for statement in self.body[inherited]:
                if isinstance(statement, ast.FunctionDef):
                    statement.name = inherited
        kind = _decorated(method)
        method.decorator_list = [
            one for one in method.decorator_list if _name_of(one) not in _ERASED_DECORATORS
        ]
        arguments = method.args.posonlyargs + method.args.args
        if arguments:
            _SuperCalls(origin, arguments[0].arg).visit(method)
            if kind == "classmethod" and self.owner.kind is ClassKind.ENUM:
                for one in ast.walk(method):
                    if isinstance(one, ast.Name) and one.id == arguments[0].arg:
                        one.id = self.owner.name
        match kind:
            case "property":
                method.name = f"_cs_get_{name}"
                self.body[name] = [method]
            case "cached_property":
                method.name = f"_cs_make_{name}"
                held = f"_cs_cached_{name}"
                text = (
                    f"def _cs_get_{name}(self):\n    if not hasattr(self, {held!r}):\n"
                    f"        self.{held} = self._cs_make_{name}()\n    return self.{held}"
                )
                self.body[name] = [method, *_parsed(text, method)]
                self.cached.add(held)
            case "staticmethod" | "classmethod":
                wrapper = "_cs_Static" if kind == "staticmethod" else "_cs_ClassMethod"
                self.helpers.add(wrapper)
                method.name = f"_cs_{self.owner.name}_{name}"
                self.before.append(method)
                self.body[name] = _parsed(f"{name} = {wrapper}({method.name})", method)
                if kind == "classmethod":
                    self.classmethods.append(name)
            case _:
                self.body[name] = [method]


class _SuperCalls(ast.NodeTransformer):
    """Turns `super().method` into a method of the object itself, under the name that it has there."""

    def __init__(self, origin: ProgramClass, itself: str) -> None:
        self.origin, self.itself = origin, itself

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        name = self.origin.super_method(node)
        if name is None:
            return self.generic_visit(node)
        itself = ast.copy_location(ast.Name(self.itself, ast.Load()), node)
        return ast.copy_location(ast.Attribute(itself, name, node.ctx), node)


_ERASED_DECORATORS = (*METHOD_DECORATORS, "cached_property", "abstractmethod", "override", "final")


def is_true(node: ast.expr | None, value: bool = True) -> bool:
    """Whether an option is the constant True, or the other one."""
    return isinstance(node, ast.Constant) and node.value is value


def _member_name(statement: ast.stmt) -> str:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case _:
            return ""


def _name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _name_of(node.func)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _decorated(node: ast.FunctionDef) -> str:
    """The decorator of a method that decides how it is called, or an empty text."""
    return next(
        (
            name
            for name in map(_name_of, node.decorator_list)
            if name in (*METHOD_DECORATORS, "cached_property")
        ),
        "",
    )


def _parsed(text: str, place: ast.AST) -> list[ast.stmt]:
    """Statements from a text, all at one place."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if "lineno" in node._attributes:
            ast.copy_location(node, place)
    return tree.body
