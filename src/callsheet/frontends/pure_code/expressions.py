"""Lowers expressions of pure Python: names, calls, attributes, comparisons and texts.

In: an expression of a program. Out: one that means the same on the executor, at the place of the first. What
the program has in its scopes, classes and imports decides about each name.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Mapping
from string import Formatter
from typing import Final, cast

from callsheet.frontends.pure_code.classes import ClassKind, tuple_method
from callsheet.frontends.pure_code.facts import (
    COMPARED,
    CONVERSIONS,
    EAGER,
    ERRORS,
    LAZY,
    LoweringFacts,
    error_of,
    has_text,
    is_text,
    placed,
)
from callsheet.frontends.pure_code.helpers import has_helper
from callsheet.frontends.pure_code.table import understood

_EAGER_METHODS: Final = ("join", "extend", "update", "fromkeys", "union", "writerows")
_ORDERED: Final = (
    ast.List, ast.Tuple, ast.ListComp, ast.Dict, ast.DictComp, ast.Constant, ast.JoinedStr, ast.GeneratorExp,
    ast.BinOp,
)  # fmt: skip
_NEVER_SETS: Final = (*LAZY, "range", "sorted", "list", "tuple", "iter", "dict")
_NATIVE_TYPES: Final = ("str", "list", "dict", "set", "frozenset", "tuple", "int", "float", "bytes")


class ExpressionLowering(LoweringFacts):
    """Lowers the expressions of one program, from the outside in."""

    # ------------------------------------------------------------ expressions

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name."""
        if isinstance(node.ctx, ast.Load):
            known = CONVERSIONS if id(node) in self.conversions else self.renamed
            helper = known.get(node.id, self.renamed.get(node.id))
            if helper is not None and not self.scopes.is_bound(node.id):
                return self.helper(helper, node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:  # noqa: PLR0911 - a case each
        """A field or a method."""
        if not isinstance(node.ctx, ast.Load):
            node.value = self.visit(node.value)
            return node
        member = self.scopes.member_of(node)
        if member is not None:
            helper = self._member_helper(*member)
            return node if helper is None else self.helper(helper, node)
        if node.attr == "__class__":
            name = ast.copy_location(ast.Name("type", ast.Load()), node)
            return ast.copy_location(ast.Call(name, [self.visit(node.value)], []), node)
        if node.attr == "__name__" and self.has_errors:
            match node.value:
                case ast.Call(func=ast.Name(id="type"), args=[value]):
                    return self.call("_cs_type_name", node, self.visit(value))
                case _:
                    pass
        if node.attr.startswith("__"):
            node.value = self.visit(node.value)
            return node
        if node.attr in self.tuple_methods:
            return self._of_tuple(node)
        if any(node.attr in one.properties for one in self.classes.values()):
            return self._property(node)
        if self._is_self(node.value) or self._is_class(node.value):
            return node
        read_by = _READ_BY.get(node.attr)
        if read_by is not None and not self._is_stored(node.attr):
            name = ast.copy_location(ast.Constant(node.attr), node)
            return self.call(read_by, node, self.visit(node.value), name)
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

    def _member_helper(self, module: str, name: str) -> str | None:
        if self.has_value_enums and (module, name) == ("json", "dumps"):
            return "_cs_json_of_values"
        return member_helper(module, name)

    def _of_tuple(self, node: ast.Attribute) -> ast.expr:
        """A field or method with the name of one that a class of named tuples defines."""
        name = ast.copy_location(ast.Constant(node.attr), node)
        if isinstance(node.value, ast.Name) and node.value.id in self.classes:
            owner = self.classes[node.value.id]
            if owner.kind is ClassKind.NAMED_TUPLE and node.attr in owner.methods:
                made = ast.copy_location(ast.Name(tuple_method(owner.name, node.attr), ast.Load()), node)
                return (
                    self.call("_cs_given_first", node, made, node.value)
                    if (node.attr in owner.takes_class)
                    else made
                )
        text = f"lambda _cs_o: _cs_o.{node.attr}"
        if any(
            node.attr in one.properties and one.kind is not ClassKind.NAMED_TUPLE
            for one in self.classes.values()
        ):
            text = f"lambda _cs_o: _cs_o._cs_get_{node.attr}()"
        get = placed(ast.parse(text, mode="eval").body, node)
        return self.call("_cs_of_tuple", node, self.visit(node.value), name, get)

    def _property(self, node: ast.Attribute) -> ast.expr:
        name = ast.copy_location(ast.Constant(node.attr), node)
        get = ast.parse(f"lambda _cs_o: _cs_o._cs_get_{node.attr}()", mode="eval").body
        return self.call("_cs_property", node, self.visit(node.value), name, placed(get, node))

    def _method(self, node: ast.Attribute) -> ast.expr:
        """A function that calls a method of its first argument."""
        text = f"lambda _cs_o, *_cs_a, **_cs_k: _cs_o.{node.attr}(*_cs_a, **_cs_k)"
        return self.visit(placed(ast.parse(text, mode="eval").body, node))

    def _unbound(self, node: ast.Attribute) -> ast.expr:
        """A method of a type as a function: of the type itself (`date.fromisoformat`) or of its values."""
        if node.attr in _OF_TYPES:
            owner = ast.unparse(node.value)
            text = f"lambda *_cs_a, **_cs_k: {owner}.{node.attr}(*_cs_a, **_cs_k)"
            return placed(ast.parse(text, mode="eval").body, node)
        return self._method(node)

    def _is_stored(self, name: str) -> bool:
        """Whether a class of the program has a field of a name."""
        return any(
            name in one.stored or any(field.name == name for field in one.fields)
            for one in self.classes.values()
        )

    def _is_self(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and bool(self.selves) and node.id == self.selves[-1]

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
        """A call."""
        if self.scopes.member_of(node.func) == ("operator", "methodcaller"):
            return self._methodcaller(node)
        if isinstance(node.func, ast.Attribute):
            if node.func.attr == "today" and self.scopes.member_of(node.func.value) == _MOMENT:
                node.func.attr = "now"
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

    def _methodcaller(self, node: ast.Call) -> ast.expr:
        """`methodcaller("name", …)` as a function that calls the method."""
        method, *args = node.args
        name = str(cast("ast.Constant", method).value)
        itself = self.fresh("itself")
        parameters = ast.arguments([], [ast.arg(itself)], None, [], [], None, [])
        called = ast.Call(ast.Attribute(ast.Name(itself, ast.Load()), name, ast.Load()), [], [])
        made = placed(ast.Lambda(parameters, called), node)
        called.args, called.keywords = args, node.keywords
        return self.visit(made)

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
        """Items that are spread out."""
        node.value = self._sequence(node.value) if isinstance(node.ctx, ast.Load) else self.visit(node.value)
        return node

    def _builtin_call(self, node: ast.Call, name: str) -> ast.expr | None:  # noqa: PLR0911, PLR0912 - a case each
        match name, node.args:
            case "len", [items]:
                node.args = [self._members_of(items)]
                node.func = self.visit(node.func)
                return node
            case "format", [value, spec] if not _is_empty(spec):
                node.args = [self.call("_cs_formatted", node, self.visit(value)), self.visit(spec)]
                return node
            case (("int" | "float"), [value, *_]) if not _is_number(value):
                node.func = self.helper(CONVERSIONS[name], node.func)
                return self._call_of(node)
            case "bytes", _:
                node.func = self.helper("_cs_bytes", node.func)
                return self._call_of(node)
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
                    "_cs_hasattr", node, self.visit(target), ast.Constant(attribute), placed(kinds, node)
                )
            case "isinstance", [value, ast.Name(id=kind)] if kind in self.classes:
                names = sorted(one.name for one in self.classes.values() if kind in one.lineage)
                kinds = ast.Tuple([ast.Name(one, ast.Load()) for one in names], ast.Load())
                node.args = [self.visit(value), placed(kinds, node)]
                return node
            case "isinstance", [value, kinds] if self.has_value_enums:
                node.args = [self.call("_cs_raw", value, self.visit(value)), self.visit(kinds)]
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
            case "isinstance", [value, kinds] if self.has_errors and _names_error(kinds):
                return self.call("_cs_is", node, self.visit(value), self.visit(kinds))
            case _ if error_of(node) and not has_text(node):
                return self._error_with(node, name)
            case _:
                return None

    def _error_with(self, node: ast.Call, name: str) -> ast.expr:
        """An exception that is made of other values than one text, which the executor does not have."""
        kinds: list[ast.expr] = [ast.Constant(one.__name__) for one in getattr(builtins, name).__mro__[:-1]]
        given = [self.visit(one) for one in node.args]
        return self.call("_cs_error", node, node.func, placed(ast.Tuple(kinds, ast.Load()), node), *given)

    def _over_sets(self, node: ast.Call, name: str, items: ast.expr) -> ast.expr | None:
        """A function that shows in which order its argument comes, in a program where there are sets."""
        if isinstance(items, (ast.GeneratorExp, ast.Starred)) or self._is_lazy(items):
            return None
        has_own_order = self.has_order and name == "sorted" and not any(w.arg == "key" for w in node.keywords)
        node.args = [self.visit(items) if has_own_order else self._sequence(items)]
        for word in node.keywords:
            word.value = self.visit(word.value)
        node.func = self.visit(node.func)
        return node

    def _is_enum(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Name) or node.id not in self.classes:
            return False
        return self.classes[node.id].kind is ClassKind.ENUM

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """An index."""
        node.slice = self.visit(node.slice)
        if self._is_enum(node.value):
            return self.call("_cs_enum_named", node, node.value, node.slice)
        is_item = isinstance(node.ctx, ast.Load) and not self._is_type(node.value)
        node.value = self.visit(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not is_item or not self._shows_key(node.slice) or any(isinstance(one, ast.Slice) for one in parts):
            return node
        return self.call("_cs_item", node, node.value, node.slice)

    def _shows_key(self, key: ast.expr) -> bool:
        """Whether an error may say that this is missing, and it is no text; a number is mostly a place."""
        return not is_text(key) and (self.has_errors or not isinstance(key, (ast.Constant, ast.UnaryOp)))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """A comparison."""
        node.left = self.visit(node.left)
        node.comparators = [
            self._members_of(right) if isinstance(how, (ast.In, ast.NotIn)) else self.visit(right)
            for how, right in zip(node.ops, node.comparators, strict=True)
        ]
        if self.has_networks and len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            made = self.call("_cs_within", node, node.left, *node.comparators)
            is_in = isinstance(node.ops[0], ast.In)
            return made if is_in else ast.copy_location(ast.UnaryOp(ast.Not(), made), node)
        return (
            self.ordered(node)
            if self.has_order and not COMPARED.keys().isdisjoint(map(type, node.ops))
            else node
        )

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
        if member is None and func.attr in self.tuple_methods:
            node.func = self._of_tuple(func)
            return self._call_of(node)
        of_type = self._type_helper(func)
        if of_type is not None:
            node.func = self.helper(of_type, func)
            return self._call_of(node)
        if member is None and self._is_type(func.value) and func.attr not in _OF_TYPES and node.args:
            first, *rest = node.args  # `str.lower(x)` is `x.lower()`
            if isinstance(first, ast.Starred):
                node.func = self._method(func)
                return self._call_of(node)
            func.value, node.args = first, rest
        if isinstance(func.value, ast.Constant) and func.attr == "format":
            self._check_formatted(node, func.value)
        if member is None and self.has_value_enums and func.attr not in self.own_methods:
            self._raw_text(node, func)
        takes_all = func.attr in _EAGER_METHODS and member is None
        one_by_one = self._one_by_one(node, func) if takes_all and self.has_attempts else None
        if one_by_one is not None:
            return one_by_one
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
        helper = self._method_helper(node, func.attr)
        if helper is not None and not any(func.attr in one.methods for one in self.classes.values()):
            made = ast.Call(self.helper(helper, node), [func.value, *node.args], node.keywords)
            return ast.copy_location(made, node)
        return node

    def _method_helper(self, node: ast.Call, name: str) -> str | None:
        """The helper that stands for a method of the executor's own types."""
        if has_helper(f"_cs_method_{name}"):
            return f"_cs_method_{name}"
        if self.has_sets and name == "pop" and not node.args:
            return "_cs_pop"
        if name in _GIVEN and node.args and self._shows_key(node.args[0]):
            return f"_cs_given_{name}"
        return "_cs_sort" if self.has_order and name == "sort" else None

    def _raw_text(self, node: ast.Call, func: ast.Attribute) -> None:
        """Let a method of texts see the values of members of enumerations, which are texts too."""
        if not {"str", "int", "float"} & set(understood().methods.get(func.attr, ())):
            return
        func.value = self.call("_cs_raw", func.value, func.value)
        if func.attr == "join":
            node.args = [self.call("_cs_raw_items", one, one) for one in node.args]
        elif func.attr != "format":
            node.args = [
                one if isinstance(one, ast.Starred) else self.call("_cs_raw", one, one) for one in node.args
            ]

    def _one_by_one(self, node: ast.Call, func: ast.Attribute) -> ast.expr | None:
        """`extend` and `update` of what may fail in its middle: what came before that is taken in."""
        if func.attr not in ("extend", "update") or len(node.args) != 1 or node.keywords:
            return None
        given = node.args[0]
        if isinstance(given, (ast.Starred, *_ALL_THERE)) or any(
            func.attr in one.methods for one in self.classes.values()
        ):
            return None
        items = self.visit(given)
        if self.has_sets and func.attr == "extend":
            items = self.call("_cs_order", given, items)
        return self.call(f"_cs_{func.attr}", node, self.visit(func.value), items)

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

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        """A hole of a text."""
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

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        """A function without a name."""
        node.args.defaults = [self.visit(one) for one in node.args.defaults]
        node.args.kw_defaults = [None if one is None else self.visit(one) for one in node.args.kw_defaults]
        self.scopes.enter(node)
        node.body = self.visit(node.body)
        self.scopes.leave()
        return node


_READ_BY: Final[Mapping[str, str]] = {
    **dict.fromkeys(("hostname", "port", "username", "password"), "_cs_of_url"),
    **dict.fromkeys(("parent", "parents"), "_cs_of_path"),
    **dict.fromkeys(("lastindex", "lastgroup"), "_cs_last_of"),
}
"""Fields of URLs, paths and matches that are computed when they are read, and the helpers that do so."""
_GIVEN: Final = ("pop", "remove", "index")
"""Methods whose errors say what they were given."""
_ALL_THERE: Final = (ast.List, ast.ListComp, ast.Tuple, ast.Dict, ast.DictComp, ast.SetComp, ast.Constant)
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
_MOMENT: Final = ("datetime", "datetime")
NAMED_ONLY: Final = ("typing", "collections.abc", "__future__", "abc", "types")
"""Modules whose members stand in annotations and bases, and mean nothing elsewhere."""
_HELPER_NAMES: Final = {
    ("collections", "OrderedDict"): "dict",
}


def member_helper(module: str, name: str) -> str | None:
    """The helper that stands for a member of a module."""
    named = _HELPER_NAMES.get((module, name))
    if named is not None:
        return named
    helper = f"_cs_{module.replace('.', '_')}_{name}"
    if has_helper(helper):
        return helper
    if module == "enum":
        return "_cs_type"
    return "_cs_type" if module in NAMED_ONLY and module != "__future__" else None


def _kinds_of(owners: Iterable[str]) -> list[str]:
    """The types that have a method, also those that inherit it."""
    found = set(owners)
    for owner, heirs in _HEIRS.items():
        found.update(heirs if owner in found else ())
    return sorted(found)


def _is_number(node: ast.expr) -> bool:
    """Whether an expression is surely no text."""
    match node:
        case ast.Constant(value=int() | float()) | ast.Compare():
            return True
        case ast.Call(func=ast.Name(id="len" | "round" | "sum")) | ast.BinOp(op=ast.Div() | ast.FloorDiv()):
            return True
        case _:
            return False


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == ""


def _names_error(node: ast.expr) -> bool:
    kinds = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(isinstance(one, ast.Name) and one.id in ERRORS for one in kinds)
