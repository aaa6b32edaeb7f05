"""Python's expressions as those of the plan language, where these mean the same for all values.

In: an expression of Python, and the kinds of the variables. Out: an `Expression`, or `NotSimple` for one that
has to be computed by pure code.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from callsheet.diagnostics import Span
from callsheet.frontends.expressions.cursor import MAX_HEIGHT
from callsheet.frontends.expressions.names import FUNCTIONS, METHOD_NAMES
from callsheet.frontends.python.analysis.kinds import ANY, DATA, NUMBERS, OPAQUE, Kinds, ltp_function
from callsheet.frontends.python.source import dotted, walk
from callsheet.ir import expression as ir
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression

_DEEPEST: Final = 24
_LAZY: Final = frozenset({"zip", "enumerate", "range", "reversed"})
"""Functions whose results Python makes item by item: a list only where all is taken at once."""
_VIEWS: Final = frozenset({"keys", "values", "items"})
_TAKES_ALL: Final = frozenset(
    {"list", "tuple", "set", "dict", "sorted", "sum", "min", "max", "any", "all", "zip", "enumerate"}
)
_LISTED: Final = _LAZY | {"sorted", "list"}
"""Functions of the plan language that give lists."""
_SAME: Final = FUNCTIONS - {
    *("str", "date", "datetime", "duration", "now", "today", "match", "find_all", "json"),
}

_BINARY: Final[Mapping[type[ast.operator], ir.BinaryOp]] = {
    ast.Add: ir.BinaryOp.ADD,
    ast.Sub: ir.BinaryOp.SUBTRACT,
    ast.Mult: ir.BinaryOp.MULTIPLY,
    ast.Div: ir.BinaryOp.DIVIDE,
    ast.FloorDiv: ir.BinaryOp.FLOOR,
    ast.Mod: ir.BinaryOp.REMAINDER,
    ast.Pow: ir.BinaryOp.POWER,
    ast.BitOr: ir.BinaryOp.UNION,
    ast.BitAnd: ir.BinaryOp.INTERSECTION,
    ast.BitXor: ir.BinaryOp.DIFFERENCE,
}
_UNARY: Final[Mapping[type[ast.unaryop], ir.UnaryOp]] = {
    ast.USub: ir.UnaryOp.MINUS,
    ast.UAdd: ir.UnaryOp.PLUS,
    ast.Not: ir.UnaryOp.NOT,
}
_COMPARED: Final[Mapping[type[ast.cmpop], ir.Comparison]] = {
    ast.Eq: ir.Comparison.EQ,
    ast.NotEq: ir.Comparison.NE,
    ast.Lt: ir.Comparison.LT,
    ast.LtE: ir.Comparison.LE,
    ast.Gt: ir.Comparison.GT,
    ast.GtE: ir.Comparison.GE,
    ast.In: ir.Comparison.IN,
    ast.NotIn: ir.Comparison.NOT_IN,
    ast.Is: ir.Comparison.IS,
    ast.IsNot: ir.Comparison.IS_NOT,
}


class NotSimple(Exception):
    """The expression has to be computed by pure code."""


class Lowering:
    """Makes expressions of the plan language of Python's."""

    def __init__(
        self,
        kinds: Kinds,
        names: Mapping[str, str] | frozenset[str],
        definitions: Mapping[str, ast.stmt],
        span: Callable[[ast.AST], Span | None],
        resolved: Callable[[ast.AST], str | None],
        *,
        tells_attributes: bool = False,
    ) -> None:
        """`names` are the variables; `tells_attributes` whether `r.f` and `r["f"]` must fail differently."""
        self.tells_attributes = tells_attributes
        self.kinds, self.names, self.definitions = kinds, names, definitions
        self.span, self.resolved = span, resolved
        self.bound: list[str] = []
        self.depth = 0

    def expression(self, node: ast.expr) -> Expression:
        """The expression of a value. Raises NotSimple."""
        if self.kinds.of(node) == OPAQUE:
            raise NotSimple
        self.bound, self.depth = [], 0
        return self.lower(node)

    def source(self, node: ast.expr) -> Expression:
        """The list that a loop goes through. Raises NotSimple."""
        self.bound, self.depth = [], 0
        if self._is_opaque(node):
            raise NotSimple
        made = self.lower(node, taken=True)
        match made:
            case ir.Display(kind=kind) | ir.Comprehension(kind=kind):
                listed = kind in {ir.Kind.LIST, ir.Kind.TUPLE}
            case ir.Call(function=name):
                listed = name in _LISTED
            case ir.Method(name=name):
                listed = name in _VIEWS
            case _:
                listed = False
        is_list = isinstance(node, (ast.List, ast.Tuple, ast.ListComp))
        if listed or is_list or self.kinds.of(node) in {"list", "tuple"}:
            return made
        return ir.Call("list", (made,), (), made.span)

    def _is_opaque(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call) and dotted(node.func) in _LAZY:
            return any(self._is_opaque(one) for one in node.args)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
            return self.kinds.of(node.func.value) == OPAQUE
        if isinstance(node, ast.GeneratorExp):
            return False
        return self.kinds.of(node) == OPAQUE

    def _has_objects(self, node: ast.expr) -> bool:
        """Whether what is gone through may hold objects of the program."""
        if not self.kinds.has_objects or isinstance(node, ast.GeneratorExp):
            return False
        saved = dict(self.kinds.known)
        for name in self.bound:
            self.kinds.known[name] = DATA
        made = self.kinds.item(node)
        self.kinds.known = saved
        return made == OPAQUE

    def lower(self, node: ast.expr, *, taken: bool = False) -> Expression:
        """An expression inside another; `taken` says that all its items are taken at once."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise NotSimple
        made = self._lower(node, taken=taken)
        self.depth -= 1
        return made

    def _lower(self, node: ast.expr, *, taken: bool) -> Expression:  # noqa: PLR0911, PLR0912
        span = self.span(node)
        match node:
            case ast.Constant(value=value):
                return self._constant(value, span)
            case ast.Name(id=name):
                return self._name(name, span)
            case ast.JoinedStr(values=parts):
                return self._text(parts, span)
            case ast.Attribute(value=value, attr=attr):
                return self._field(node, value, attr, span)
            case ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=upper, step=step)):
                parts = [None if one is None else self.lower(one) for one in (lower, upper, step)]
                return ir.Slice(self._held(value), parts[0], parts[1], parts[2], span)
            case ast.Subscript(value=value, slice=index):
                return ir.Index(self._held(value), self.lower(index), False, span)
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(op, operand, span)
            case ast.BinOp():
                return self._binary(node, span)
            case ast.BoolOp(op=op, values=values):
                logic = ir.LogicOp.AND if isinstance(op, ast.And) else ir.LogicOp.OR
                operands: list[Expression] = []
                for one in values:
                    made = self.lower(one)
                    same = isinstance(made, ir.Logic) and made.op is logic
                    operands += made.operands if same and isinstance(made, ir.Logic) else [made]
                return ir.Logic(logic, tuple(operands), span)
            case ast.Compare():
                return self._compared(node, span)
            case ast.IfExp(test=test, body=body, orelse=otherwise):
                return ir.Conditional(self.lower(test), self.lower(body), self.lower(otherwise), span)
            case ast.List(elts=parts):
                return ir.Display(ir.Kind.LIST, self._each(parts), span)
            case ast.Tuple(elts=parts):
                return ir.Display(ir.Kind.TUPLE, self._each(parts), span)
            case ast.Set(elts=parts):
                return ir.Display(ir.Kind.SET, self._each(parts), span)
            case ast.Dict(keys=keys, values=values):
                pairs: list[tuple[Expression, Expression]] = []
                for key, value in zip(keys, values, strict=True):
                    if key is None:
                        raise NotSimple
                    pairs.append((self.lower(key), self.lower(value)))
                return ir.Mapping(tuple(pairs), span)
            case ast.ListComp() | ast.SetComp() | ast.DictComp():
                return self._comprehension(node, span)
            case ast.GeneratorExp() if taken:
                return self._comprehension(node, span)
            case ast.Call():
                return self._call(node, span, taken=taken)
            case _:
                raise NotSimple

    def _each(self, parts: Sequence[ast.expr]) -> tuple[Expression, ...]:
        return tuple(self.lower(one) for one in parts)

    def _constant(self, value: object, span: Span | None) -> Expression:
        if value is None or isinstance(value, (str, bool)):
            return Literal(value, span)
        if isinstance(value, int) and value.bit_length() < 10_000:
            return Literal(value, span)
        if isinstance(value, float) and math.isfinite(value):
            return Literal(value, span)
        raise NotSimple

    def _name(self, name: str, span: Span | None) -> Expression:
        if name in self.bound:
            return ir.Bound(name, span)
        if name in self.names:
            if self.kinds.known.get(name) == OPAQUE:
                raise NotSimple
            return ir.Variable(name, span)
        found = self.definitions.get(name)
        if isinstance(found, (ast.Assign, ast.AnnAssign)) and found.value is not None:
            targets = found.targets if isinstance(found, ast.Assign) else [found.target]
            if len(targets) == 1 and isinstance(targets[0], ast.Name) and _is_literal(found.value):
                return self.lower(found.value)
        raise NotSimple

    def _held(self, node: ast.expr) -> Expression:
        """The value that a path goes on from."""
        if self._kind(node) == OPAQUE:
            raise NotSimple
        return self.lower(node)

    def _kind(self, node: ast.expr) -> str:
        """The kind of an expression; what depends on a name of a comprehension is any value."""
        if self.bound and any(isinstance(one, ast.Name) and one.id in self.bound for one in walk(node)):
            saved = dict(self.kinds.known)
            for name in self.bound:
                self.kinds.known[name] = DATA if self.kinds.has_objects else ANY
            made = self.kinds.of(node)
            self.kinds.known = saved
            return made
        return self.kinds.of(node)

    def _field(self, node: ast.Attribute, value: ast.expr, attr: str, span: Span | None) -> Expression:
        if self.resolved(node) is not None or attr in METHOD_NAMES or not attr.isascii():
            raise NotSimple
        if (
            self._kind(value) not in {ANY, DATA, "key", "dict", "date"}
            or attr in dir(dict)
            or attr.startswith("__")
        ):
            raise NotSimple
        if self.tells_attributes and self._kind(value) != "date":
            raise NotSimple
        return ir.Field(self.lower(value), attr, False, span)

    def _unary(self, op: ast.unaryop, operand: ast.expr, span: Span | None) -> Expression:
        if isinstance(op, ast.USub) and isinstance(operand, ast.Constant):
            value = operand.value
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return self._constant(-value, span)
        known = _UNARY.get(type(op))
        if known is None:
            raise NotSimple
        return ir.Unary(known, self.lower(operand), span)

    def _binary(self, node: ast.BinOp, span: Span | None) -> Expression:
        op = _BINARY.get(type(node.op))
        if op is None or (op is ir.BinaryOp.REMAINDER and self._kind(node.left) not in NUMBERS):
            raise NotSimple
        return ir.Binary(op, self.lower(node.left), self.lower(node.right), span)

    def _compared(self, node: ast.Compare, span: Span | None) -> Expression:
        """Comparisons; equality of values whose types may differ is membership, which never fails."""
        if len(node.ops) > 1 and any(isinstance(one, (ast.Eq, ast.NotEq)) for one in node.ops):
            raise NotSimple
        if len(node.ops) > MAX_HEIGHT:
            raise NotSimple
        left = self.lower(node.left)
        before = node.left
        rest: list[tuple[ir.Comparison, Expression]] = []
        for op, right in zip(node.ops, node.comparators, strict=True):
            known = _COMPARED[type(op)]
            made = self.lower(right)
            if known in {ir.Comparison.EQ, ir.Comparison.NE} and not self._are_alike(before, right):
                if ast.dump(before) == ast.dump(right):
                    raise NotSimple
                known = ir.Comparison.IN if known is ir.Comparison.EQ else ir.Comparison.NOT_IN
                made = ir.Display(ir.Kind.LIST, (made,), made.span)
            if known in {ir.Comparison.IS, ir.Comparison.IS_NOT} and not (
                isinstance(right, ast.Constant) and right.value is None
            ):
                raise NotSimple
            rest.append((known, made))
            before = right
        return ir.Compared(left, tuple(rest), span)

    def _are_alike(self, left: ast.expr, right: ast.expr) -> bool:
        """Whether two values are surely of one type, or one of them is None."""
        one, two = self._kind(left), self._kind(right)
        if "none" in (one, two):
            return True
        families = {"int": "number", "float": "number"}
        one, two = families.get(one, one), families.get(two, two)
        return one == two and one not in {ANY, DATA, OPAQUE, "date", "set", "key"}

    def _text(self, parts: Sequence[ast.expr], span: Span | None) -> Expression:
        made: list[str | ir.Hole] = []
        for one in parts:
            part = self._part(one)
            if isinstance(part, str) and made and isinstance(made[-1], str):
                made[-1] += part
            elif part != "":
                made.append(part)
        if not any(isinstance(one, ir.Hole) for one in made):
            return Literal("".join(str(one) for one in made), span)
        return ir.Text(tuple(made), span)

    def _part(self, one: ast.expr) -> str | ir.Hole:
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            return one.value
        if not isinstance(one, ast.FormattedValue):
            raise NotSimple
        value = self.lower(one.value)
        is_plain = one.conversion == -1 and one.format_spec is None
        if is_plain and isinstance(value, Literal) and isinstance(value.value, str):
            return value.value
        if one.conversion == ord("r"):
            value = ir.Call("pyrepr", (value,), (), value.span)
        elif one.conversion not in {-1, ord("s")}:
            raise NotSimple
        format_ = None
        if one.format_spec is not None:
            spec = one.format_spec
            if not isinstance(spec, ast.JoinedStr) or not all(
                isinstance(p, ast.Constant) for p in spec.values
            ):
                raise NotSimple
            format_ = "".join(str(p.value) for p in spec.values if isinstance(p, ast.Constant)) or None
            if format_ is not None and any(c in format_ for c in "{}\"'\n\\"):
                raise NotSimple
        if (format_ is None and one.conversion != ord("r")) or one.conversion == ord("s"):
            value = self._as_text(one.value, value)
        return ir.Hole(value, format_)

    def _as_text(self, node: ast.expr, value: Expression) -> Expression:
        if self._kind(node) in {"str", "int"}:
            return value
        return ir.Call("pystr", (value,), (), value.span)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, span: Span | None
    ) -> Expression:
        clauses: list[ir.Clause] = []
        depth = len(self.bound)
        for one in node.generators:
            if one.is_async or self._is_opaque(one.iter) or self._has_objects(one.iter):
                raise NotSimple
            source = self.lower(one.iter, taken=True)
            target = self._target(one.target)
            clauses.append(ir.Clause(target, source, tuple(self.lower(test) for test in one.ifs)))
        key = self.lower(node.key) if isinstance(node, ast.DictComp) else None
        element = self.lower(node.value if isinstance(node, ast.DictComp) else node.elt)
        del self.bound[depth:]
        kind = {
            ast.ListComp: ir.Kind.LIST,
            ast.SetComp: ir.Kind.SET,
            ast.DictComp: ir.Kind.DICT,
            ast.GeneratorExp: ir.Kind.GENERATOR,
        }[type(node)]
        return ir.Comprehension(kind, element, tuple(clauses), key, span)

    def _target(self, node: ast.expr) -> ir.Target:
        if isinstance(node, ast.Name) and node.id.isascii() and node.id not in FUNCTIONS:
            self.bound.append(node.id)
            return node.id
        if isinstance(node, ast.Tuple):
            return ir.Names(tuple(self._target(one) for one in node.elts))
        raise NotSimple

    def _call(self, node: ast.Call, span: Span | None, *, taken: bool) -> Expression:
        if any(isinstance(one, ast.Starred) for one in node.args) or any(
            w.arg is None for w in node.keywords
        ):
            raise NotSimple
        resolved = self.resolved(node.func)
        if resolved is not None:
            return self._of_module(node, resolved, span)
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func, span, taken=taken)
        if not isinstance(node.func, ast.Name):
            raise NotSimple
        name = node.func.id
        if name in self.names or name in self.definitions or name in self.bound:
            raise NotSimple
        if name == "str" and len(node.args) == 1 and not node.keywords:
            return ir.Call("pystr", (self.lower(node.args[0]),), (), span)
        if name in {"now", "today"} and not node.args and not node.keywords:
            return ir.Call(name, (), (), span)
        if name == "repr" and len(node.args) == 1:
            return ir.Call("pyrepr", (self.lower(node.args[0]),), (), span)
        if name not in _SAME or (name in _LAZY and not taken):
            raise NotSimple
        if name in {"int", "float"} and node.args and self._kind(node.args[0]) == "date":
            raise NotSimple
        takes_all = name in _TAKES_ALL or name == "reversed"
        if takes_all and node.args and self._has_objects(node.args[0]):
            raise NotSimple
        arguments = tuple(self.lower(one, taken=(takes_all and number == 0) or name == "zip")
                          for number, one in enumerate(node.args))  # fmt: skip
        named = tuple((word.arg or "", self._named(name, word)) for word in node.keywords)
        return ir.Call(name, arguments, named, span)

    def _named(self, function: str, word: ast.keyword) -> Expression:
        if word.arg != "key":
            return self.lower(word.value)
        value = word.value
        if function not in {"sorted", "min", "max"}:
            raise NotSimple
        if isinstance(value, ast.Name) and value.id in {"len", "int", "float", "abs"}:
            return ir.Lambda(("it",), ir.Call(value.id, (ir.Bound("it"),)), self.span(value))
        if isinstance(value, ast.Attribute) and dotted(value) in {"str.lower", "str.casefold", "str.upper"}:
            return ir.Lambda(("it",), ir.Method(ir.Bound("it"), value.attr, ()), self.span(value))
        if not isinstance(value, ast.Lambda):
            raise NotSimple
        of = value.args
        if of.vararg or of.kwarg or of.kwonlyargs or of.defaults or of.posonlyargs or len(of.args) != 1:
            raise NotSimple
        parameter = of.args[0].arg
        if not parameter.isascii():
            raise NotSimple
        self.bound.append(parameter)
        body = self.lower(value.body)
        self.bound.pop()
        return ir.Lambda((parameter,), body, self.span(value))

    def _of_module(self, node: ast.Call, name: str, span: Span | None) -> Expression:
        if (function := ltp_function(name)) is not None:
            arguments = tuple(self.lower(one, taken=True) for one in node.args)
            named = tuple((word.arg or "", self.lower(word.value)) for word in node.keywords)
            return ir.Call(function, arguments, named, span)
        if name == "datetime.timedelta" and node.keywords and not node.args:
            known = {"days", "hours", "minutes", "seconds", "weeks"}
            if all(word.arg in known for word in node.keywords):
                return ir.Call(
                    "duration", (), tuple((w.arg or "", self.lower(w.value)) for w in node.keywords), span
                )
        is_text = len(node.args) == 1 and not node.keywords and self._kind(node.args[0]) == "str"
        if is_text and name in {"datetime.date.fromisoformat", "datetime.datetime.fromisoformat"}:
            return ir.Call(name.split(".")[1], (self.lower(node.args[0]),), (), span)
        raise NotSimple

    def _method(self, node: ast.Call, func: ast.Attribute, span: Span | None, *, taken: bool) -> Expression:
        name = func.attr
        if name not in METHOD_NAMES or (name in _VIEWS and not taken):
            raise NotSimple
        target = self._held(func.value)
        arguments = tuple(self.lower(one, taken=name == "join") for one in node.args)
        named = tuple((word.arg or "", self.lower(word.value)) for word in node.keywords)
        return ir.Method(target, name, arguments, named, span)


def _is_literal(node: ast.expr) -> bool:
    """Whether an expression is made of constants alone."""
    return all(
        isinstance(
            one,
            (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.expr_context, ast.UnaryOp, ast.USub),
        )
        for one in walk(node)
    )
