"""Expressions of the plan language as Python's, for the printer of plans.

In: an expression, and what its variables are called in Python. Out: a syntax tree of Python. What Python says
with another meaning for some values is a remark; what it cannot say raises `NotPython`.
"""

from __future__ import annotations

import ast
import builtins
import keyword
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final, assert_never

from callsheet.diagnostics import Span
from callsheet.frontends.expressions.names import FUNCTIONS, METHOD_NAMES
from callsheet.frontends.python.exceptions import FAILURE_KINDS, exception_name
from callsheet.frontends.python.program import BINDINGS, IN_SCOPE
from callsheet.frontends.python.syntax import MARK
from callsheet.ir import expression as ir
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression, variables_in
from callsheet.ir.inputs import duration_of

_SAME: Final = FUNCTIONS - {
    *("str", "date", "datetime", "duration", "now", "today", "match", "find_all", "json"),
    *("FAILED", "IS_EMPTY", "pystr", "pyrepr"),
}
"""Functions that are Python's own."""
_LISTED: Final = frozenset({"zip", "enumerate", "range", "reversed"})
_VIEWS: Final = frozenset({"keys", "values", "items"})
_TAKEN: Final = (
    frozenset(dir(builtins))
    | FUNCTIONS
    | set(BINDINGS)
    | IN_SCOPE
    | {"plan", "gather", "asyncio", "ltp", "Secret"}
)
"""Names that no variable of a printed plan may have: they would hide what the plan calls."""

EQUALITY: Final = "values of different types are not equal in Python; in LTP comparing them fails"
KINDS: Final = "the kind of a failure is the name of an exception in Python: ToolError, and TOOL in LTP"
GOT: Final = "get() fails where the value is no record; ?? takes the other side of null"
EMPTY: Final = "0, False and empty texts on the way of a path count as null in Python; in LTP the path fails"
TEXTS: Final = (
    "Python writes None, True and numbers in its own way in a text; LTP writes JSON, and null fails"
)

_FAILURE_FIELDS: Final = frozenset({"error", "message", "kind", "step", "attempts", "fields"})


class NotPython(Exception):
    """What Python cannot say, and what to do instead."""

    def __init__(self, what: str, instead: str, span: Span | None = None) -> None:
        super().__init__(what)
        self.what, self.instead, self.span = what, instead, span


class ValuesPrinter:
    """Makes Python's expressions; `remark` is told what means something else, `imports` gets modules."""

    def __init__(self, names: Mapping[str, str], remark: Callable[[str, Span | None], None]) -> None:
        self.names, self.remark = names, remark
        self.imports: dict[str, set[str]] = {}
        self.failures: set[str] = set()
        """The variables that hold failures, which are exceptions in Python."""
        self.tested: set[str] = set()
        """The variables that may hold an error which is kept as a value."""
        self.kept: set[str] = set()
        """The variables that hold a failure or a value, as ON_FAIL CONTINUE leaves them."""
        self.bound: dict[str, str] = {}

    def value(self, node: Expression) -> ast.expr:  # noqa: PLR0911, PLR0912 - a case for each kind of node
        """The expression in Python. Raises NotPython."""
        match node:
            case Literal(value=value):
                return literal(value)
            case ir.Variable(name=name):
                if name in self.failures:
                    raise NotPython(
                        f"the failure ${name} as a value", "use its message, ${…message}", node.span
                    )
                return name_of(self.names[name])
            case ir.Bound(name=name):
                return name_of(self.bound.get(name, name))
            case ir.Field() | ir.Index():
                return self._path(node)
            case ir.Slice(target=target, start=start, stop=stop, step=step):
                parts = [None if one is None else self.value(one) for one in (start, stop, step)]
                return ast.Subscript(self.value(target), ast.Slice(*parts), ast.Load())
            case ir.Unary(op=op, operand=operand):
                made: ast.unaryop = _UNARY[op]()
                return ast.UnaryOp(made, self.value(operand))
            case ir.Binary(op=op, left=left, right=right):
                return ast.BinOp(self.value(left), _BINARY[op](), self.value(right))
            case ir.Compared():
                return self._compared(node)
            case ir.Logic(op=op, operands=operands):
                kept = kept_in_test(node)
                if kept is not None:
                    if isinstance(kept, ir.Variable):
                        self.tested.add(kept.name)
                    return call_of("isinstance", self.value(kept), name_of("Exception"))
                logic = ast.And() if op is ir.LogicOp.AND else ast.Or()
                return ast.BoolOp(logic, [self.value(one) for one in operands])
            case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
                words = _words_of_kept(condition, then, otherwise)
                if words is not None:
                    return call_of("str", self.value(words))
                return ast.IfExp(self.value(condition), self.value(then), self.value(otherwise))
            case ir.Coalesce(left=left, right=right):
                return self._coalesced(left, right)
            case ir.Text(parts=parts):
                return ast.JoinedStr([self._part(part) for part in parts])
            case ir.Display(kind=kind, items=items):
                return self._display(kind, [self.value(one) for one in items])
            case ir.Mapping(items=pairs):
                kept = self._kept_error(pairs)
                if kept is not None:
                    return kept
                keys: list[ast.expr | None] = [self.value(key) for key, _ in pairs]
                return ast.Dict(keys, [self.value(value) for _, value in pairs])
            case ir.Comprehension():
                return self._comprehension(node)
            case ir.Lambda(parameters=parameters, body=body):
                arguments = [ast.arg(one) for one in parameters]
                made_body = self._within(parameters, body, lambda: self.value(body))
                return ast.Lambda(ast.arguments([], arguments, None, [], [], None, []), made_body)
            case ir.Call():
                return self._call(node)
            case ir.Method(target=target, name=name, arguments=arguments, named=named):
                known = self._kind_of(node)
                if known is not None:
                    return known
                function = ast.Attribute(self.value(target), name, ast.Load())
                made_call = ast.Call(function, [self.value(one) for one in arguments], self._named(named))
                return call_of("list", made_call) if name in _VIEWS else made_call
        assert_never(node)

    def source(self, node: Expression) -> ast.expr:
        """What a loop goes through: the list that is made of it for the loop needs no name."""
        match node:
            case ir.Call(function="list", arguments=(inner,), named=()):
                return self.source(inner)
            case ir.Call(function=function) if function in _LISTED:
                return self._plain_call(node)
            case ir.Method(target=target, name=name, arguments=()) if name in _VIEWS:
                return ast.Call(ast.Attribute(self.value(target), name, ast.Load()), [], [])
            case _:
                return self.value(node)

    # ------------------------------------------------------------ paths

    def _path(self, node: ir.Field | ir.Index) -> ast.expr:
        failure = self._of_failure(node)
        if failure is not None:
            return failure
        if _is_optional(node):
            return self._tolerant(node, everywhere=False)
        if isinstance(node, ir.Index):
            return ast.Subscript(self.value(node.target), self.value(node.index), ast.Load())
        return self._field(self.value(node.target), node.name)

    def _field(self, target: ast.expr, name: str) -> ast.expr:
        if name in METHOD_NAMES or name in _OF_RECORDS or keyword.iskeyword(name) or name.startswith("_"):
            return ast.Subscript(target, ast.Constant(name), ast.Load())
        return ast.Attribute(target, name, ast.Load())

    def _failure_field(self, node: Expression) -> tuple[str, str] | None:
        """The failure and the field that `$error.kind` or `$error["kind"]` names."""
        if isinstance(node, ir.Field) and isinstance(node.target, ir.Variable):
            name, field = node.target.name, node.name
        elif (
            isinstance(node, ir.Index)
            and isinstance(node.target, ir.Variable)
            and isinstance(node.index, Literal)
        ):
            name, field = node.target.name, str(node.index.value)
        else:
            return None
        if name in self.kept and field not in _FAILURE_FIELDS:  # of a failure it could not be read
            return None
        return (name, field) if name in self.failures or name in self.kept else None

    def _of_failure(self, node: ir.Field | ir.Index) -> ast.expr | None:
        known = self._failure_field(node)
        if known is None:
            return None
        name, field = known
        if field in {"message", "error"}:
            return call_of("str", name_of(self.names[name]))
        if field == "kind":
            self.remark(KINDS, node.span)
            return ast.Attribute(call_of("type", name_of(self.names[name])), "__name__", ast.Load())
        raise NotPython(
            f"the field {field} of a failure", "use its message; `except` tells kinds apart", node.span
        )

    def _kind_of(self, node: ir.Method) -> ast.expr | None:
        """`type(error).__name__`, which a plan says as a table of kinds."""
        if node.name != "get" or not isinstance(node.target, ir.Mapping) or len(node.arguments) != 2:
            return None
        known = self._failure_field(node.arguments[0])
        if known is None or known[1] != "kind" or node.arguments[0] != node.arguments[1]:
            return None
        table = dict(node.target.items)
        written = all(
            isinstance(key, Literal)
            and isinstance(value, Literal)
            and str(key.value) in FAILURE_KINDS
            and exception_name(str(key.value)) == value.value
            for key, value in table.items()
        )
        if not written:
            return None
        kind = call_of("type", name_of(self.names[known[0]]))
        return ast.Attribute(kind, "__name__", ast.Load())

    def _kept_error(self, pairs: tuple[tuple[Expression, Expression], ...]) -> ast.expr | None:
        """The name of a caught error that is kept as a value, which a plan says as a record of it."""
        fields: dict[object, Expression] = {
            key.value: value for key, value in pairs if isinstance(key, Literal)
        }
        known = [self._failure_field(fields[key]) for key in OF_KEPT if key in fields]
        if MARK not in fields or len(known) != len(OF_KEPT) or None in known:
            return None
        names = {name for name, _ in filter(None, known)}
        return name_of(self.names[names.pop()]) if len(names) == 1 else None

    def _coalesced(self, left: Expression, right: Expression) -> ast.expr:
        """`left ?? right`: of paths through records, `get`."""
        tested = self._tolerant(left, everywhere=True)
        return ast.IfExp(_is_given(tested), tested, self.value(right))

    def _tolerant(self, node: Expression, *, everywhere: bool) -> ast.expr:
        """The value where there is one, else None: where a `?` stands in a path, or `everywhere` in it."""
        if not isinstance(node, (ir.Field, ir.Index)) or self._failure_field(node) is not None:
            if isinstance(node, ir.Slice):
                raise NotPython("?? behind a slice", "LET a variable of the slice", node.span)
            return self.value(node)
        target, is_own = node.target, everywhere or node.is_optional
        goes_on = isinstance(target, (ir.Field, ir.Index)) and (everywhere or _is_optional(target))
        found = self._tolerant(target, everywhere=everywhere) if goes_on else self.value(target)
        if not is_own:  # what stands behind a `?` is there wherever that is
            return ast.IfExp(_is_given(found), self.value(_strict(node)), ast.Constant(None))
        key = Literal(node.name) if isinstance(node, ir.Field) else node.index
        number = key.value if isinstance(key, Literal) else None
        if type(number) is not int:
            self.remark(EMPTY if goes_on else GOT, node.span)
            found = ast.BoolOp(ast.Or(), [found, ast.Dict([], [])]) if goes_on else found
            return ast.Call(ast.Attribute(found, "get", ast.Load()), [self.value(key)], [])
        if goes_on:
            self.remark(EMPTY, node.span)
            found = ast.BoolOp(ast.Or(), [found, ast.List([], ast.Load())])
        op = ast.Gt() if number >= 0 else ast.GtE()
        is_there = ast.Compare(call_of("len", found), [op], [ast.Constant(abs(number))])
        return ast.IfExp(is_there, ast.Subscript(found, literal(number), ast.Load()), ast.Constant(None))

    # ------------------------------------------------------------ the rest

    def _compared(self, node: ir.Compared) -> ast.expr:
        left, ops, rights = self.value(node.first), list[ast.cmpop](), list[ast.expr]()
        for op, right in node.rest:
            only = len(node.rest) == 1 and isinstance(right, ir.Display) and len(right.items) == 1
            if only and isinstance(right, ir.Display) and right.kind is ir.Kind.LIST and op in _MEMBER:
                ops.append(_MEMBER[op]())
                rights.append(self.value(right.items[0]))
                continue
            if (
                op in {ir.Comparison.EQ, ir.Comparison.NE}
                and not _is_none(right)
                and not _alike(node.first, right)
            ):
                self.remark(EQUALITY, node.span)
            ops.append(_COMPARED[op]())
            rights.append(self.value(right))
        return ast.Compare(left, ops, rights)

    def _part(self, part: str | ir.Hole) -> ast.expr:
        if isinstance(part, str):
            return ast.Constant(part)
        format_ = None if part.format is None else ast.JoinedStr([ast.Constant(part.format)])
        match part.expression:
            case ir.Call(function="pystr", arguments=(inner,)):
                return ast.FormattedValue(self._said(inner), -1, format_)
            case ir.Call(function="pyrepr", arguments=(inner,)):
                return ast.FormattedValue(self.value(inner), ord("r"), format_)
            case other:
                if part.format is None and not is_text(other) and not self._is_message(other):
                    self.remark(TEXTS, None)
                return ast.FormattedValue(self._said(other), -1, format_)

    def _said(self, node: Expression) -> ast.expr:
        known = self._failure_field(node)
        if known is not None and known[1] == "message":
            return name_of(self.names[known[0]])
        return self.value(node)

    def _is_message(self, node: Expression) -> bool:
        return self._failure_field(node) is not None

    def _display(self, kind: ir.Kind, items: list[ast.expr]) -> ast.expr:
        match kind:
            case ir.Kind.TUPLE:
                return ast.Tuple(items, ast.Load())
            case ir.Kind.SET:
                return ast.Set(items) if items else call_of("set")
            case _:
                return ast.List(items, ast.Load())

    def _within(self, names: Iterable[str], root: Expression, make: Callable[[], ast.expr]) -> ast.expr:
        """What is inside a comprehension; its names give way to variables that are read there."""
        saved = dict(self.bound)
        for name in names:
            self.bound[name] = self._free(name, root)
        made = make()
        self.bound = saved
        return made

    def _free(self, name: str, root: Expression) -> str:
        read = {self.names.get(one, one) for one in variables_in(root)}
        while name in read or name in _TAKEN:
            name += "_"
        return name

    def _comprehension(self, node: ir.Comprehension) -> ast.expr:
        return self.comprehension_of(node, lambda: self.value(node.element))

    def comprehension_of(self, node: ir.Comprehension, make: Callable[[], ast.expr]) -> ast.expr:
        """A comprehension whose element is made by `make`, which sees its names."""
        saved = dict(self.bound)
        for clause in node.clauses:
            for name in _names_in(clause.target):
                self.bound[name] = self._free(name, node)
        clauses: list[ast.comprehension] = []
        for clause in node.clauses:
            tests = [self.value(one) for one in clause.conditions]
            clauses.append(
                ast.comprehension(self._target(clause.target), self.source(clause.source), tests, 0)
            )
        element = make()
        made: ast.expr
        match node.kind:
            case ir.Kind.DICT:
                assert node.key is not None
                made = ast.DictComp(self.value(node.key), element, clauses)
            case ir.Kind.SET:
                made = ast.SetComp(element, clauses)
            case ir.Kind.GENERATOR:
                made = ast.GeneratorExp(element, clauses)
            case ir.Kind.LIST | ir.Kind.TUPLE:
                made = ast.ListComp(element, clauses)
        self.bound = saved
        return made

    def _target(self, target: ir.Target) -> ast.expr:
        if isinstance(target, str):
            return ast.Name(self.bound.get(target, target), ast.Store())
        return ast.Tuple([self._target(one) for one in target.parts], ast.Store())

    def _named(self, named: tuple[tuple[str, Expression], ...]) -> list[ast.keyword]:
        return [ast.keyword(name, self.value(value)) for name, value in named]

    def _plain_call(self, node: ir.Call) -> ast.expr:
        takes_list = node.function in _LISTED
        arguments = [self.source(one) if takes_list else self.value(one) for one in node.arguments]
        return ast.Call(name_of(node.function), arguments, self._named(node.named))

    def _call(self, node: ir.Call) -> ast.expr:
        name = node.function
        if name in _SAME:
            made = self._plain_call(node)
            return call_of("list", made) if name in _LISTED else made
        match name:
            case "pystr":
                return call_of("str", *map(self._said, node.arguments))
            case "pyrepr":
                return call_of("repr", *map(self.value, node.arguments))
            case "str" if len(node.arguments) == 1 and is_text(node.arguments[0]):
                return call_of("str", *map(self.value, node.arguments))
            case "now" | "today":
                self.imports.setdefault("callsheet", set()).add(name)
                return call_of(name)
            case "date" | "datetime" if len(node.arguments) == 1 and is_text(node.arguments[0]):
                self.imports.setdefault("datetime", set()).add(name)
                function = ast.Attribute(name_of(name), "fromisoformat", ast.Load())
                return ast.Call(function, [self.value(node.arguments[0])], [])
            case "duration":
                return self._duration(node)
            case "FAILED" if len(node.arguments) == 1:
                return call_of("isinstance", self.value(node.arguments[0]), name_of("Exception"))
            case "IS_EMPTY" if len(node.arguments) == 1:
                return ast.UnaryOp(ast.Not(), self.value(node.arguments[0]))
            case _:
                return self._of_ltp(node)

    def _of_ltp(self, node: ir.Call) -> ast.expr:
        """A function that only LTP text has."""
        self.imports.setdefault("callsheet", set()).add("ltp")
        function = ast.Attribute(name_of("ltp"), node.function, ast.Load())
        return ast.Call(function, [self._given(one) for one in node.arguments], self._named(node.named))

    def _given(self, node: Expression) -> ast.expr:
        if isinstance(node, ir.Variable) and node.name in self.kept:
            what = f"${node.name}, which may be a failure, as a value"
            raise NotPython(what, "ON_FAIL USE (value), or an ON_FAIL block", node.span)
        return self.source(node)

    def _duration(self, node: ir.Call) -> ast.expr:
        self.imports.setdefault("datetime", set()).add("timedelta")
        if not node.arguments:
            return ast.Call(name_of("timedelta"), [], self._named(node.named))
        match node.arguments[0]:
            case Literal(value=str() as text):
                try:
                    return timedelta_of(duration_of(text))
                except ValueError as error:
                    raise NotPython(f"this duration: {error}", "write 2d, 1h30m or 90s", node.span) from None
            case _:
                return self._of_ltp(node)


def timedelta_of(value: timedelta) -> ast.Call:
    """`timedelta(days=2)` for a duration.

    >>> ast.unparse(timedelta_of(timedelta(minutes=90)))
    'timedelta(hours=1, minutes=30)'
    """
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    amounts = {"days": value.days, "hours": hours, "minutes": minutes, "seconds": seconds}
    exact = seconds + value.microseconds / 1_000_000 if value.microseconds else seconds
    words = [ast.keyword(unit, literal(exact if unit == "seconds" else one)) for unit, one in amounts.items()]
    kept = [word for word in words if not (isinstance(word.value, ast.Constant) and word.value.value == 0)]
    return ast.Call(name_of("timedelta"), [], kept or words[-1:])


def literal(value: object) -> ast.expr:
    """A JSON value as Python writes it."""
    return ast.parse(repr(value), mode="eval").body


def is_text(node: Expression) -> bool:
    """Whether a value is surely a text or a whole number, which Python and LTP write in one way."""
    match node:
        case Literal(value=value):
            return isinstance(value, (str, int)) and not isinstance(value, bool)
        case ir.Text():
            return True
        case ir.Call(function=function):
            return function in {"len", "pystr", "pyrepr", "str"}
        case ir.Method(name=name):
            return name in {"join", "upper", "lower", "strip", "title", "replace", "isoformat", "strftime"}
        case _:
            return False


def is_name(text: str) -> bool:
    """Whether a text can be a name in Python, of ASCII alone."""
    return text.isascii() and text.isidentifier() and not keyword.iskeyword(text)


def free_name(name: str, taken: Iterable[str]) -> str:
    """A name of a variable as Python may have it beside those that are taken."""
    used = {*taken}
    while name in used or name in _TAKEN or keyword.iskeyword(name) or name.startswith("_cs_"):
        name = name.removeprefix("_cs_") + "_"
    return name


def _names_in(target: ir.Target) -> list[str]:
    return [target] if isinstance(target, str) else [name for one in target.parts for name in _names_in(one)]


def _is_optional(node: Expression) -> bool:
    """Whether a `?` stands in a path."""
    while isinstance(node, (ir.Field, ir.Index)):
        if node.is_optional:
            return True
        node = node.target
    return False


def _strict(node: Expression) -> Expression:
    """A path without any `?`."""
    if not isinstance(node, (ir.Field, ir.Index)):
        return node
    return replace(node, target=_strict(node.target), is_optional=False)


def _is_given(node: ast.expr) -> ast.Compare:
    return ast.Compare(node, [ast.IsNot()], [ast.Constant(None)])


def _is_none(node: Expression) -> bool:
    return isinstance(node, Literal) and node.value is None


def _alike(left: Expression, right: Expression) -> bool:
    """Whether two values are surely of one type."""
    kinds = [_family(one) for one in (left, right)]
    return kinds[0] is not None and kinds[0] == kinds[1]


def _family(node: Expression) -> str | None:
    match node:
        case Literal(value=bool()):
            return "bool"
        case Literal(value=int() | float()) | ir.Call(function="len" | "int" | "float"):
            return "number"
        case Literal(value=str()) | ir.Text() | ir.Call(function="pystr" | "pyrepr" | "str"):
            return "str"
        case _:
            return None


def name_of(name: str) -> ast.Name:
    """A variable that is read, or a function."""
    return ast.Name(name, ast.Load())


def call_of(function: str, *arguments: ast.expr) -> ast.Call:
    """A call of a function by its name."""
    return ast.Call(name_of(function), list(arguments), [])


_OF_RECORDS: Final = frozenset(dir(dict))
_UNARY: Final = {ir.UnaryOp.MINUS: ast.USub, ir.UnaryOp.PLUS: ast.UAdd, ir.UnaryOp.NOT: ast.Not}
_BINARY: Final[Mapping[ir.BinaryOp, type[ast.operator]]] = {
    ir.BinaryOp.ADD: ast.Add,
    ir.BinaryOp.SUBTRACT: ast.Sub,
    ir.BinaryOp.MULTIPLY: ast.Mult,
    ir.BinaryOp.DIVIDE: ast.Div,
    ir.BinaryOp.FLOOR: ast.FloorDiv,
    ir.BinaryOp.REMAINDER: ast.Mod,
    ir.BinaryOp.POWER: ast.Pow,
    ir.BinaryOp.UNION: ast.BitOr,
    ir.BinaryOp.INTERSECTION: ast.BitAnd,
    ir.BinaryOp.DIFFERENCE: ast.BitXor,
}
_COMPARED: Final[Mapping[ir.Comparison, type[ast.cmpop]]] = {
    ir.Comparison.EQ: ast.Eq,
    ir.Comparison.NE: ast.NotEq,
    ir.Comparison.LT: ast.Lt,
    ir.Comparison.LE: ast.LtE,
    ir.Comparison.GT: ast.Gt,
    ir.Comparison.GE: ast.GtE,
    ir.Comparison.IN: ast.In,
    ir.Comparison.NOT_IN: ast.NotIn,
    ir.Comparison.IS: ast.Is,
    ir.Comparison.IS_NOT: ast.IsNot,
}
_MEMBER: Final[Mapping[ir.Comparison, type[ast.cmpop]]] = {
    ir.Comparison.IN: ast.Eq,
    ir.Comparison.NOT_IN: ast.NotEq,
}


OF_KEPT: Final = ("kind", "message", "step")
"""What a plan keeps of an error."""


def succeeded(condition: Expression, *, holds: bool) -> frozenset[str]:
    """The variables that are no failures if a condition holds, or does not."""
    match condition:
        case ir.Call(function=function, arguments=(ir.Variable(name=name),)):
            return frozenset({name} if function.upper() == "FAILED" and not holds else ())
        case ir.Unary(op=ir.UnaryOp.NOT, operand=operand):
            return succeeded(operand, holds=not holds)
        case ir.Logic(op=op, operands=operands) if holds == (op is ir.LogicOp.AND):
            return frozenset[str]().union(*(succeeded(each, holds=holds) for each in operands))
        case _:
            return frozenset()


def kept_in_test(node: Expression) -> Expression | None:
    """The value that `isinstance(x, dict) and "__failure__" in x` asks whether it is a kept error."""
    match node:
        case ir.Logic(
            op=ir.LogicOp.AND,
            operands=(
                ir.Call(function="isinstance", arguments=(value, _)),
                ir.Compared(left=Literal(value=mark), rest=((ir.Comparison.IN, other),)),
            ),
        ) if mark == MARK and value == other:
            return value
        case _:
            return None


def _words_of_kept(test: Expression, then: Expression, otherwise: Expression) -> Expression | None:
    """The value whose text `x["message"] if x is an error else pystr(x)` gives; None for anything else."""
    kept = kept_in_test(test)
    match then, otherwise:
        case (
            ir.Index(target=first, index=Literal(value="message")) | ir.Field(target=first, name="message"),
            ir.Call(function="pystr" | "str", arguments=(second,)),
        ) if kept is not None and first == kept == second:
            return kept
        case _:
            return None
