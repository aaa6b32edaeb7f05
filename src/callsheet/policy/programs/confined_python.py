"""Recognises Python programs that open no file and start nothing.

In: a program. Out: the modules that it imports, or None. The program may use listed built-in functions and
what listed modules offer; a module may only be the base of an attribute, and no attribute may lead to another
module, to a type of the interpreter or to its internals.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import ModuleType

_LISTED = frozenset(
    {"abs", "all", "any", "ascii", "bin", "bool", "bytearray", "bytes", "callable", "chr", "classmethod",
     "complex", "dict", "divmod", "enumerate", "exit", "filter", "float", "format", "frozenset", "hash",
     "hex", "input", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "memoryview",
     "min", "next", "object", "oct", "ord", "pow", "print", "property", "quit", "range", "repr", "reversed",
     "round", "set", "slice", "sorted", "staticmethod", "str", "sum", "tuple", "zip"}
)  # fmt: skip
_BUILT_IN = frozenset({*dir(builtins), "copyright", "credits", "exit", "help", "license", "quit"})
_MODULES = frozenset(
    {"__future__", "array", "base64", "binascii", "bisect", "calendar", "cmath", "collections",
     "collections.abc", "colorsys", "csv", "datetime", "decimal", "difflib", "fractions", "functools",
     "graphlib", "hashlib", "heapq", "hmac", "html", "io", "ipaddress", "itertools", "json", "math",
     "numbers", "pprint", "random", "re", "secrets", "statistics", "string", "struct", "sys", "textwrap",
     "time", "typing", "unicodedata", "urllib.parse", "uuid", "zlib", "zoneinfo"}
)  # fmt: skip
"""Not `enum`, `dataclasses` and `copy`: with them a program can reach attributes whose names are texts."""
_PARTS: Mapping[str, frozenset[str]] = {
    "collections": frozenset({"Counter", "OrderedDict", "defaultdict", "deque", "namedtuple"}),
    "hmac": frozenset({"compare_digest", "digest", "new"}),
    "io": frozenset({"StringIO", "BytesIO"}),
    "sys": frozenset(
        {"argv", "byteorder", "exit", "float_info", "getsizeof", "maxsize", "platform", "setrecursionlimit",
         "stderr", "stdin", "stdout", "version", "version_info"}
    ),
    "typing": frozenset(
        {"AbstractSet", "Annotated", "Any", "AnyStr", "Callable", "ClassVar", "Collection", "DefaultDict",
         "Deque", "Dict", "Final", "FrozenSet", "Generator", "Generic", "Hashable", "Iterable", "Iterator",
         "List", "Literal", "Mapping", "MutableMapping", "MutableSequence", "NamedTuple", "Never", "NoReturn",
         "Optional", "Self", "Sequence", "Set", "TYPE_CHECKING", "Text", "Tuple", "Type", "TypeAlias",
         "TypeVar", "TypedDict", "Union", "cast"}
    ),
    "uuid": frozenset(
        {"NAMESPACE_DNS", "NAMESPACE_OID", "NAMESPACE_URL", "NAMESPACE_X500", "UUID", "uuid3", "uuid4",
         "uuid5"}
    ),
}  # fmt: skip
"""Modules of which only these parts may be used: others open files, start programs (`uuid1`), are classes
whose methods make an object of the type of whatever they are given (`UserString`), or classes of other
modules (`uuid.Enum`).
"""
_REPLACED = frozenset({"stderr", "stdin", "stdout"})
"""The attributes of `sys` that a program may assign; no other module may be changed."""
_LEADS_ON = re.compile(
    r"_(?!_name__$)|(?:gi|cr|ag|f|tb|co|func)_"
    r"|(?:attrgetter|methodcaller|Formatter|get_type_hints|get_annotations|ForwardRef|evaluate\w*"
    r"|singledispatch\w*|update_wrapper|wraps|open\w*|eval|exec|modules|reset_tzpath|main|test|mro|obj|raw"
    r"|detach)$"
)
"""Attributes that lead to internals, to attributes or expressions given as text, to types, or to files."""
_FORMATS = frozenset({"format", "format_map"})
_REACHES_IN = re.compile(r"\{[^{}:!]*[.\[]")
"""A field of a format that shows an attribute or an item."""
_OPERATORS = (
    "abs add and bool bytes call complex contains delitem divmod enter eq exit float floordiv format ge"
    " getitem gt hash iadd iand imul index init int invert ior isub iter ixor le len lshift lt matmul"
    " missing mod mul ne neg next or pos pow radd rand repr reversed rfloordiv rlshift rmatmul rmod rmul"
    " ror round rpow rrshift rshift rsub rtruediv rxor setitem str sub truediv xor"
)
_DEFINED = frozenset(f"__{name}__" for name in _OPERATORS.split())
"""Special methods that a program may define; others are handed types, modules or attributes by name."""
_ENCODING = re.compile(r"(?:[^\n\r]*[\n\r]+)?[ \t\f]*#[^\n\r]*coding[:=]")
"""A declaration that makes the interpreter read another text than this one."""
_STANDARD_INPUT = (0, "/dev/stdin")
_MOST_NODES = 20_000


def modules_of(program: str) -> list[str] | None:
    """The top-level modules that a program imports if it opens no file, else None.

    >>> modules_of("import datetime as d; print(d.date.today())"), modules_of("print(open(0).read())")
    (['datetime'], [])
    >>> [modules_of(text) for text in ("import os", "getattr(str, x)", "().__class__", "print(1")]
    [None, None, None, None]
    """
    if _ENCODING.match(program):
        return None
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    nodes = list(ast.walk(tree))
    if len(nodes) > _MOST_NODES:
        return None
    names = _Names(nodes)
    return list(dict.fromkeys(names.imported)) if all(map(names.is_harmless, nodes)) else None


class _Names:
    """What the names of a program stand for, and the nodes whose place makes them harmless."""

    def __init__(self, nodes: list[ast.AST]) -> None:
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        self.imported: list[str] = []
        self._modules: dict[str, set[str]] = {}
        """The modules that a name may be bound to."""
        self._called = {id(node.func) for node in calls}
        self._bases = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        self._inputs = {id(node.func) for node in calls if _is_input(node)}
        self._supers = {id(node.func) for node in calls if _is_super(node)}
        self._in_classes = {id(inner) for node in nodes for inner in _class_imports(node)}
        for node in nodes:
            for name, module in _imports(node):
                self.imported.append(module.partition(".")[0])
                if name:
                    self._modules.setdefault(name, set()).add(module)

    def is_harmless(self, node: ast.AST) -> bool:
        """Whether a node opens no file and gives access to nothing that does."""
        if not all(map(_may_be_bound, _bound_by(node))):
            return False
        match node:
            case ast.Import(names=names):
                return id(node) not in self._in_classes and all(alias.name in _MODULES for alias in names)
            case ast.ImportFrom(module=str() as module, names=names, level=0):
                return id(node) not in self._in_classes and all(
                    f"{module}.{alias.name}" in _MODULES
                    or (module in _MODULES and _is_offered(module, alias.name))
                    for alias in names
                )
            case ast.ImportFrom() | ast.MatchClass():
                return False
            case ast.ClassDef(keywords=keywords):
                return all(keyword.arg not in (None, "metaclass") for keyword in keywords)
            case ast.Name(id="open"):
                return id(node) in self._inputs
            case ast.Name(id="super"):
                return id(node) in self._supers
            case ast.Name(id=name):
                is_base = name not in self._modules or id(node) in self._bases
                return is_base and _is_usable(name)
            case ast.Attribute():
                return self._is_usable_attribute(node)
            case _:
                return True

    def _is_usable_attribute(self, node: ast.Attribute) -> bool:
        if isinstance(node.value, ast.Call) and id(node.value.func) in self._supers:
            return node.attr == "__init__" or _LEADS_ON.match(node.attr) is None
        if _LEADS_ON.match(node.attr):
            return False
        if modules := self._denoted(node.value):
            return all(self._is_part(module, node) for module in modules)
        if node.attr in _FORMATS:
            return _shows_arguments_alone(node.value)
        if node.attr == "copy" and "collections" in self.imported:
            return False  # `Counter.copy` makes an object of the type of what it is given
        return node.attr not in sys.stdlib_module_names or id(node) in self._called  # no module can be called

    def _denoted(self, node: ast.expr) -> Iterable[str]:
        """The modules that an expression may denote."""
        if isinstance(node, ast.Name):
            return self._modules.get(node.id, ())
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            inner = (f"{module}.{node.attr}" for module in self._modules.get(node.value.id, ()))
            return [module for module in inner if module in _MODULES]
        return ()

    def _is_part(self, module: str, node: ast.Attribute) -> bool:
        """Whether an attribute of a module is one of its modules, or offered and not changed."""
        if f"{module}.{node.attr}" in _MODULES:
            return id(node) in self._bases
        is_read = isinstance(node.ctx, ast.Load) or (module == "sys" and node.attr in _REPLACED)
        return is_read and module in _MODULES and _is_offered(module, node.attr)


def _imports(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The modules that a node imports, each with the name that it binds to one; empty if it binds none."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            first = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (first, first)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        yield "", node.module
        for alias in node.names:
            if (inner := f"{node.module}.{alias.name}") in _MODULES:
                yield alias.asname or alias.name, inner


def _class_imports(node: ast.AST) -> Iterator[ast.AST]:
    """The imports in a class, which may make a module an attribute of it."""
    if isinstance(node, ast.ClassDef):
        yield from (inner for inner in ast.walk(node) if isinstance(inner, ast.Import | ast.ImportFrom))


def _bound_by(node: ast.AST) -> Iterator[str]:
    """The names that a node binds or declares by their text, without a `Name` node."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield "" if name in _DEFINED else name
        case ast.ClassDef(name=str() as name) | ast.arg(arg=name):
            yield name
        case ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name):
            yield name
        case ast.MatchStar(name=str() as name) | ast.MatchMapping(rest=str() as name):
            yield name
        case ast.alias(asname=str() as name):
            yield name
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            yield from names
        case _:
            # parameters of types, which interpreters before 3.12 do not know
            name = getattr(node, "name", None)
            if isinstance(name, str) and not isinstance(node, ast.alias):
                yield name


def _may_be_bound(name: str) -> bool:
    """Whether a name may be bound: `__builtins__` and the like change what other names mean."""
    return not name.startswith("__") and name != "super"


def _is_usable(name: str) -> bool:
    """Whether a name is no built-in function, a listed one or an exception.

    The report of a SyntaxError may show lines of the file that it names.
    """
    if name in _LISTED or name == "__name__":
        return True
    if name not in _BUILT_IN:
        return not name.startswith("__")
    value = getattr(builtins, name, None)
    return isinstance(value, type) and issubclass(value, BaseException) and not issubclass(value, SyntaxError)


def _is_offered(module: str, name: str) -> bool:
    """Whether a listed module offers this name for others to use; no module that it has imported itself."""
    if _LEADS_ON.match(name):
        return False
    parts = _PARTS.get(module)
    return name in (_offered_by(module) if parts is None else parts)


@cache
def _offered_by(module: str) -> frozenset[str]:
    """The public names of a listed module of the standard library."""
    loaded = importlib.import_module(module)
    public: list[str] | None = getattr(loaded, "__all__", None)
    if public is None:
        own = (module, f"_{module}")
        values = vars(loaded).items()
        public = [name for name, value in values if getattr(value, "__module__", module) in own]
    return frozenset(name for name in public if not isinstance(getattr(loaded, name, None), ModuleType))


def _shows_arguments_alone(node: ast.expr) -> bool:
    """Whether a format is a literal that shows its arguments, not attributes or items of them."""
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _REACHES_IN.search(node.value) is None
    )


def _is_super(node: ast.Call) -> bool:
    """Whether a call is `super()`."""
    return getattr(node.func, "id", "") == "super" and not node.args and not node.keywords


def _is_input(node: ast.Call) -> bool:
    """Whether a call is `open(0)` or the like."""
    if getattr(node.func, "id", "") != "open" or node.keywords or len(node.args) != 1:
        return False
    given = node.args[0]
    return isinstance(given, ast.Constant) and given.value in _STANDARD_INPUT
