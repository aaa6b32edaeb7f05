"""What kind of value an expression gives, as far as the text tells: for what must be known to mean the same.

`any` is a value of which nothing is known; `data` is JSON data, such as the result of a tool; `opaque` is one
of Python's own objects (a match, an instance, an iterator), which only pure code can use. In a program with
classes of its own any value may be an object of them, unless it is surely data.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from callsheet.frontends.expressions.names import FUNCTIONS, VERSION_1
from callsheet.frontends.python import core
from callsheet.frontends.python.analysis.container_words import BINDERS, PUTS
from callsheet.frontends.python.source import dotted, last_name, names_read, own_nodes, parameters_of, walk

ANY, OPAQUE, DATA = "any", "opaque", "data"
NUMBERS: Final = frozenset({"int", "float", "bool", "number"})

FLAT: Final = NUMBERS | {"str", "none", "date", "key"}
"""The kinds of values that nothing can change."""

_OF_JSON: Final = NUMBERS | {"str", "none", DATA}
"""The kinds of values that are surely JSON data."""

_OF_NUMBERS: Final = (ast.Add, ast.Sub, ast.Div, ast.FloorDiv, ast.Pow)
"""Operators that take a number with nothing but a number."""

_BY_FUNCTION: Final[Mapping[str, str]] = {
    "len": "int", "str": "str", "repr": "str", "int": "int", "float": "float", "bool": "bool",
    "abs": "number",
    "round": "number", "sum": ANY, "any": "bool", "all": "bool", "isinstance": "bool",
    "ord": "int", "chr": "str",
    "format": "str", "min": ANY, "max": ANY, "next": ANY, "divmod": "tuple", "pow": "number", "hash": "int",
    "json.loads": DATA, "json.dumps": "str", "re.findall": "list", "re.split": "list", "re.sub": "str",
    "re.escape": "str", "math.ceil": "int", "math.floor": "int", "math.sqrt": "float", "math.isnan": "bool",
    "now": "date", "today": "date",
    "datetime.datetime.now": "date", "datetime.datetime.fromisoformat": "date", "datetime.date.today": "date",
    "datetime.date.fromisoformat": "date", "datetime.timedelta": "date", "datetime.datetime": "date",
    "datetime.date": "date", "datetime.datetime.strptime": "date", "datetime.datetime.today": "date",
    "datetime.datetime.utcnow": "date", "datetime.datetime.combine": "date", "textwrap.dedent": "str",
    "statistics.mean": "number", "statistics.median": "number", "copy.deepcopy": ANY, "copy.copy": ANY,
    "textwrap.shorten": "str", "textwrap.fill": "str", "html.unescape": "str", "html.escape": "str",
}  # fmt: skip
_CONTAINERS: Final = frozenset({"list", "tuple", "dict", "set", "sorted"})
_BY_METHOD: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("strip", "lower", "upper", "title", "join", "replace", "lstrip", "rstrip", "casefold", "capitalize",
         "removeprefix", "removesuffix", "zfill", "ljust", "rjust", "center", "swapcase", "format",
         "strftime",
         "isoformat", "getvalue", "decode", "hexdigest", "expandtabs"), "str"
    ),
    **dict.fromkeys(("split", "rsplit", "splitlines", "findall", "most_common"), "list"),
    **dict.fromkeys(("count", "find", "index", "rfind", "rindex", "weekday", "isoweekday"), "int"),
    **dict.fromkeys(("startswith", "endswith", "isdigit", "isalpha", "isupper", "islower",
        "isspace", "isalnum",
                     "isnumeric", "issubset", "issuperset", "isdisjoint", "isdecimal"), "bool"),
    **dict.fromkeys(("get", "pop", "copy", "setdefault"), ANY),
    "group": DATA, "start": "int", "end": "int",
    **dict.fromkeys(("groups", "span", "partition", "rpartition"), "tuple"),
    "groupdict": "dict", "total_seconds": "float", "timestamp": "float", "date": "date",
}  # fmt: skip
_OF_OPAQUE: Final = frozenset(
    {"group", "groups", "groupdict", "start", "end", "span", "getvalue", "sub", "findall", "most_common",
     "total_seconds", "hexdigest", "split"}
)  # fmt: skip
"""Methods of opaque objects whose results are plain values."""


OF_LTP: Final = "callsheet.ltp"
"""The module whose functions are those of LTP text, with its meaning: `ltp.match(pattern, text)`."""
_OF_LTP: Final = {"str": "str", "match": "bool", "date": "date", "datetime": "date"}
"""The functions of LTP text whose results are of one kind."""


def _makes_objects(one: ast.stmt, resolved: Callable[[ast.AST], str | None]) -> bool:
    """Whether a definition is one of a class whose objects are values, or of a named tuple."""
    if isinstance(one, ast.ClassDef):
        names = {last_name(base) for base in one.bases}
        return not any(name == "TypedDict" or name.endswith(("Error", "Exception")) for name in names)
    value = one.value if isinstance(one, (ast.Assign, ast.AnnAssign)) else None
    return isinstance(value, ast.Call) and resolved(value.func) == "collections.namedtuple"


def join(one: str | None, two: str) -> str:
    """The kind of a value that is one or the other."""
    if one is None or one == two:
        return two
    if OPAQUE in (one, two):
        return OPAQUE
    if one in NUMBERS and two in NUMBERS:
        return "number"
    return DATA if one in _OF_JSON and two in _OF_JSON else ANY


def _may_end(block: core.Block) -> bool:
    """Whether a block may end without a return or a raise."""
    if not block:
        return True
    last = block[-1]
    if isinstance(last, (core.Return, core.Fail)):
        return False
    if isinstance(last, core.Choice):
        return _may_end(last.then) or _may_end(last.otherwise)
    return True


def ltp_function(name: str) -> str | None:
    """The function of LTP text that an imported name is; None for all others.

    >>> ltp_function("callsheet.ltp.v1.path"), ltp_function("callsheet.ltp.search")
    ('v1.path', None)
    """
    module, dot, function = name.partition(f"{OF_LTP}.")
    return function if dot and not module and function in FUNCTIONS | VERSION_1 else None


class Kinds:
    """The kinds of the variables of a function."""

    def __init__(
        self,
        function: core.Function,
        definitions: Mapping[str, ast.stmt],
        resolved: Callable[[ast.AST], str | None],
        result: Callable[[core.Call], str],
        changed: Callable[[core.Call], Sequence[str | None]],
        given: Mapping[str, str] | None = None,
    ) -> None:
        """`result` gives the kind of what a call of an async function returns.

        `changed` gives those of the new values that it gives the variables which it changes; None for one
        that it gives none. `given` are the kinds of what its calls give it, where they are known.
        """
        self.definitions, self.resolved, self.result, self.changed = definitions, resolved, result, changed
        self.calls: dict[str, core.Call] = {}
        """The calls whose results stand before new values of variables, by what these tuples are kept in."""
        self.has_objects = any(_makes_objects(one, resolved) for one in definitions.values())
        start = self._seen(ANY)
        names = (*function.parameters, *function.captured)
        self.known = {name: self._seen((given or {}).get(name, start)) for name in names}
        self.assigned: dict[str, str] = {}
        """The kinds of what the function itself gives its variables."""
        self.functions: dict[str, str] = {}
        self.errors = {
            each.binds
            for one in core.all_of(function.body)
            if isinstance(one, core.Attempt)
            for each in one.handlers
        }
        for _ in range(4):
            before = dict(self.known)
            for one in core.all_of(function.body):
                self._take(one)
            if before == self.known:
                break

    def _seen(self, kind: str) -> str:
        """A kind as this program has it: without objects of its own, any value is data."""
        if self.has_objects:
            return OPAQUE if kind == ANY else kind
        return ANY if kind == DATA else kind

    def is_flat(self, name: str) -> bool:
        """Whether a variable has only values that nothing can change."""
        return self.known.get(name) in FLAT

    def _is(self, name: str, kind: str) -> None:
        self.known[name] = self._seen(join(self.known.get(name), kind))
        self.assigned[name] = self._seen(join(self.assigned.get(name), kind))

    def _take(self, one: core.Core) -> None:
        match one:
            case core.Pure(is_link=True):
                pass
            case core.Pure(stmt=stmt):
                self._statement(stmt)
            case core.Call(into=str() as into):
                if one.changes:
                    self.calls[into] = one
                self._is(into, DATA if one.helper is None else self.result(one))
            case core.Loop(target=target, source=source, into=into):
                self._is(target, self.item(source))
                if into:
                    self._is(into, "list")
            case core.Attempt(handlers=handlers):
                for each in handlers:
                    self._is(each.binds, "dict")
            case _:
                for part in core.parts_of(one):  # a test may name what it finds
                    self._statement(part)

    def _statement(self, root: ast.AST) -> None:  # noqa: PLR0912 - a case for each statement
        for node in own_nodes(root):
            if node.__class__ not in BINDERS:
                continue
            match node:
                case ast.Assign(targets=targets, value=value):
                    for one in targets:
                        self._bind(one, self.of(value))
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._bind(target, self.of(value))
                case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                    at = ast.Name(name, ast.Load())
                    self._bind(target, self.of(ast.BinOp(at, op, value)))
                case ast.For(target=target, iter=source):
                    self._bind(target, self.item(source))
                case ast.NamedExpr(target=target, value=value):
                    self._bind(target, self.of(value))
                case ast.withitem(optional_vars=ast.expr() as target):
                    self._bind(target, OPAQUE)
                case ast.Match(subject=subject, cases=cases):
                    kind = OPAQUE if self.of(subject) == OPAQUE else ANY
                    for each in cases:
                        for part in walk(each.pattern):
                            name = getattr(part, "name", None) or getattr(part, "rest", None)
                            if isinstance(name, str):
                                self._is(name, kind)
                case ast.ExceptHandler(name=str() as name):
                    self._is(name, OPAQUE)
                case ast.Call(func=ast.Attribute(attr=method, value=holder)) if method in PUTS:
                    if any(self.of(one) == OPAQUE for one in node.args):
                        self._holds_objects(holder)
                case _:
                    pass

    def _holds_objects(self, holder: ast.expr) -> None:
        """Note that an object was put into what an expression gives."""
        while isinstance(holder, (ast.Subscript, ast.Attribute, ast.Call)):
            holder = holder.func if isinstance(holder, ast.Call) else holder.value
        if isinstance(holder, ast.Name):
            self._is(holder.id, OPAQUE)

    def _bind(self, target: ast.expr, kind: str) -> None:
        match target:
            case ast.Name(id=name):
                self._is(name, kind)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for one in parts:
                    inner = one.value if isinstance(one, ast.Starred) else one
                    part = DATA if kind == DATA else ANY
                    own = OPAQUE if kind == OPAQUE else ("list" if isinstance(one, ast.Starred) else part)
                    self._bind(inner, own)
            case ast.Subscript(value=holder) | ast.Attribute(value=holder) if kind == OPAQUE:
                self._holds_objects(holder)
            case ast.Subscript(value=holder, slice=key) if self.of(key) == OPAQUE:
                self._holds_objects(holder)
            case _:
                pass

    def returned(self, function: core.Function) -> str:
        """The kind of what a function returns."""
        made: str | None = None
        for one in core.all_of(function.body):
            if isinstance(one, core.Return):
                made = join(made, "none" if one.value is None else self.of(one.value))
        if made is not None and _may_end(function.body):
            made = join(made, "none")
        return made or "none"

    # ------------------------------------------------------------ expressions

    def item(self, source: ast.expr) -> str:
        """The kind of what a loop gets of a source."""
        return self._seen(self._item(source))

    def _item(self, source: ast.expr) -> str:
        if isinstance(source, ast.Call):
            name = self.resolved(source.func) or dotted(source.func)
            if name in {"zip", "enumerate"}:
                kinds = [self.item(one) for one in source.args]
                return OPAQUE if OPAQUE in kinds else "tuple"
            if name in {"sorted", "list", "reversed", "set"} and source.args:
                return self.item(source.args[0])
            if name == "range":
                return "int"
            if name in {"csv.DictReader", "csv.reader"}:
                return ANY
            if isinstance(source.func, ast.Attribute) and source.func.attr in {"items", "keys", "values"}:
                holder = self.of(source.func.value)
                is_plain = holder != OPAQUE or self._counts(source.func.value)
                return "tuple" if is_plain and source.func.attr == "items" else (ANY if is_plain else OPAQUE)
        kind = self.of(source)
        if kind in {"str"}:
            return "str"
        if kind == "dict":
            return "key"
        if kind == DATA:
            return DATA
        if isinstance(source, (ast.List, ast.Tuple, ast.Set)) and kind != OPAQUE:
            return self._joined(source.elts)
        return OPAQUE if kind == OPAQUE and not self._counts(source) else ANY

    def _counts(self, node: ast.expr) -> bool:
        """Whether an opaque value is a container of plain ones, such as a Counter or a csv reader."""
        return isinstance(node, ast.Name) and node.id not in self.definitions and not self.has_objects

    def of(self, node: ast.AST | None) -> str:
        """The kind of an expression's value."""
        return self._seen(self._of(node))

    def _of(self, node: ast.AST | None) -> str:  # noqa: PLR0911, PLR0912 - a case for each expression
        """The kind of an expression's value."""
        match node:
            case ast.Constant(value=value):
                if value is None:
                    return "none"
                name = type(value).__name__
                return name if name in {"str", "int", "float", "bool"} else OPAQUE
            case ast.JoinedStr() | ast.FormattedValue():
                return "str"
            case ast.Name(id=name):
                return self._name(name)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int() as at)) if (
                name in self.calls and 0 < at <= len(self.changed(self.calls[name]))
            ):
                known = self.known.get(self.calls[name].changes[at - 1], ANY)
                new = self.changed(self.calls[name])[at - 1]
                return known if new is None else join(known, new)
            case ast.Compare():
                return "bool"
            case ast.BoolOp(values=values):
                return self._joined(values)
            case ast.UnaryOp(op=op, operand=operand):
                return "bool" if isinstance(op, ast.Not) else self._number(self.of(operand))
            case ast.BinOp():
                return self._binary(node)
            case ast.IfExp(body=first, orelse=second):
                return self._joined([first, second])
            case ast.List(elts=parts):
                return OPAQUE if self._has_opaque(parts) else "list"
            case ast.Tuple(elts=parts):
                return OPAQUE if self._has_opaque(parts) else "tuple"
            case ast.Set(elts=parts):
                return OPAQUE if self._has_opaque(parts) else "set"
            case ast.Dict(keys=keys, values=values):
                parts = [*values, *(one for one in keys if one is not None)]
                return OPAQUE if self._has_opaque(parts) else "dict"
            case ast.ListComp() | ast.SetComp() | ast.DictComp():
                return self._comprehension(node)
            case ast.NamedExpr(value=value) | ast.Starred(value=value):
                return self.of(value)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=field)) if (
                name in self.errors
            ):
                return "str" if field in {"message", "kind"} else DATA
            case ast.Subscript(value=value):
                kind = self.of(value)
                if kind == "str":
                    return "str"
                if isinstance(node.slice, ast.Slice):
                    return kind
                return kind if kind in {OPAQUE, DATA} else ANY
            case ast.Attribute(value=value):
                if self.resolved(node) is not None:
                    return ANY if (self.resolved(node) or "").startswith("math.") else OPAQUE
                kind = self.of(value)
                return kind if kind in {OPAQUE, DATA} else ANY
            case ast.Call():
                return self._call(node)
            case _:
                return OPAQUE

    def _number(self, kind: str) -> str:
        return "int" if kind == "bool" else kind

    def _joined(self, values: Iterable[ast.expr]) -> str:
        made: str | None = None
        for one in values:
            made = join(made, self.item(one.value) if isinstance(one, ast.Starred) else self.of(one))
        return made or ANY

    def _has_opaque(self, parts: Iterable[ast.expr]) -> bool:
        return any(self.of(one) == OPAQUE for one in parts)

    def _name(self, name: str) -> str:
        known = self.known.get(name)
        if known is not None:
            return known
        found = self.definitions.get(name)
        if isinstance(found, (ast.Assign, ast.AnnAssign)) and found.value is not None:
            if name in self.functions:
                return self.functions[name]
            self.functions[name] = ANY
            made = self.functions[name] = self.of(found.value)
            return made
        return OPAQUE if found is not None else ANY

    def _binary(self, node: ast.BinOp) -> str:
        left, right = self.of(node.left), self.of(node.right)
        if OPAQUE in (left, right):
            return OPAQUE
        if left in NUMBERS and right in NUMBERS:
            if isinstance(node.op, ast.Div):
                return "float"
            whole = left in {"int", "bool"} and right in {"int", "bool"}
            if isinstance(node.op, ast.Pow):
                return "number"
            return "int" if whole else ("float" if "float" in (left, right) else "number")
        if isinstance(node.op, ast.Mod) and left == "str":
            return "str"
        if isinstance(node.op, _OF_NUMBERS) and NUMBERS.intersection((left, right)):
            return "number"  # nothing else can be added to a number
        if left == right and left in {"str", "list", "tuple", "dict", "set"}:
            return left
        if isinstance(node.op, ast.Add) and "str" in (left, right):
            return "str"
        if isinstance(node.op, ast.Mult) and NUMBERS.intersection((left, right)):
            repeated = {"str", "list", "tuple"}.intersection((left, right))
            if repeated:
                return repeated.pop()
        return DATA if left in _OF_JSON and right in _OF_JSON else ANY

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp) -> str:
        saved = dict(self.known)
        for one in node.generators:
            for part in walk(one.target):
                if isinstance(part, ast.Name):
                    self.known.pop(part.id, None)
            self._bind(one.target, self.item(one.iter))
        kind = self.of(node.value if isinstance(node, ast.DictComp) else node.elt)
        if isinstance(node, ast.DictComp) and self.of(node.key) == OPAQUE:
            kind = OPAQUE
        self.known = saved
        if kind == OPAQUE:
            return OPAQUE
        return {ast.ListComp: "list", ast.SetComp: "set", ast.DictComp: "dict"}[type(node)]

    def _call(self, node: ast.Call) -> str:
        resolved = self.resolved(node.func)
        name = resolved or dotted(node.func) or ""
        if name in self.known and isinstance(node.func, ast.Name):
            return OPAQUE
        if name in self.definitions:
            return self._function(name)
        if name in _CONTAINERS:
            if any(self.item(one) == OPAQUE for one in node.args):
                return OPAQUE
            return "list" if name == "sorted" else name
        if name in _BY_FUNCTION:
            kind = _BY_FUNCTION[name]
            if kind == ANY and node.args:
                kinds = {self.item(node.args[0]), *map(self.of, node.args[1:])}
                kinds |= {self.of(word.value) for word in node.keywords if word.arg == "default"}
                if OPAQUE in kinds:
                    return OPAQUE
                return DATA if kinds <= _OF_JSON else ANY
            return kind
        if resolved is None and isinstance(node.func, ast.Attribute):
            method = node.func.attr
            holder = self.of(node.func.value)
            if holder == OPAQUE and method not in _OF_OPAQUE:
                return OPAQUE if method not in _BY_METHOD or _BY_METHOD[method] == ANY else _BY_METHOD[method]
            kind = _BY_METHOD.get(method, OPAQUE)
            is_data = kind == ANY and holder == DATA and {self.of(one) for one in node.args} <= _OF_JSON
            return DATA if is_data else kind
        return _OF_LTP.get(name.rpartition(".")[2], ANY) if name.startswith(f"{OF_LTP}.") else OPAQUE

    def _function(self, name: str) -> str:
        """What a pure function of the program returns, its arguments being any values."""
        known = self.functions.get(name)
        if known is not None:
            return known
        found = self.definitions[name]
        if not isinstance(found, ast.FunctionDef):
            return OPAQUE
        self.functions[name] = ANY
        saved = self.known
        self.known = {one.arg: self._seen(ANY) for one in parameters_of(found.args)}
        for _ in range(2):
            for one in found.body:
                self._statement(one)
        made: str | None = None
        for one in found.body:
            for part in own_nodes(one):
                if isinstance(part, ast.Return):
                    made = join(made, "none" if part.value is None else self.of(part.value))
                elif isinstance(part, (ast.Yield, ast.YieldFrom)):
                    made = OPAQUE
        self.known = saved
        result = self.functions[name] = "none" if made is None else made
        return result


def arguments_given(
    functions: Iterable[tuple[core.Function, Mapping[str, ast.stmt]]],
    resolved: Callable[[ast.AST], str | None],
) -> dict[int, dict[str, str]]:
    """The kinds of what the calls of each async function give its variables, by the function's node.

    `functions` are all of a program, each before those that it calls, with the pure functions it knows. One
    that is called by itself, or by one behind it, may be given anything, but for objects of Python's own.
    """
    known = {id(function.node): (function, definitions) for function, definitions in functions}
    order = {number: at for at, number in enumerate(known)}
    given: dict[int, dict[str, str]] = {}
    results: dict[int, str] = {}
    called = {number: [*_helpers_called(function)] for number, (function, _) in known.items()}
    again = {
        id(call.helper)
        for number, calls in called.items()
        for call in calls
        if order[id(call.helper)] <= order[number]
    }

    def result(call: core.Call) -> str:
        made = results.get(id(call.helper))
        if made is None:
            results[id(call.helper)] = ANY
            function = known[id(call.helper)][0]
            made = results[id(call.helper)] = kinds_of(id(call.helper), is_whole=False).returned(function)
        return made

    def kinds_of(number: int, *, is_whole: bool) -> Kinds:
        function, definitions = known[number]
        kinds = given.get(number, {})
        if not is_whole:
            kinds = {name: kind for name, kind in kinds.items() if kind == OPAQUE}
        return Kinds(function, definitions, resolved, result, lambda _: (), kinds)

    for number, calls in called.items():
        if not calls:
            continue
        kinds = kinds_of(number, is_whole=number not in again)
        for call in calls:
            function = known[id(call.helper)][0]
            of = given.setdefault(id(call.helper), {})
            values = {one.name: one.value for one in call.arguments}
            for name in (*function.parameters, *function.captured):
                of[name] = join(
                    of.get(name), _kind_given(values.get(name), function.defaults.get(name), kinds)
                )
    return {
        number: {name: kind for name, kind in of.items() if kind == OPAQUE or number not in again}
        for number, of in given.items()
    }


def _helpers_called(function: core.Function) -> Iterator[core.Call]:
    """The calls of async functions in a function."""
    for one in core.all_of(function.body):
        if isinstance(one, core.Call) and one.helper is not None:
            yield one


def _kind_given(value: ast.expr | None, default: ast.expr | None, kinds: Kinds) -> str:
    """The kind of an argument; a default has the names that are known where the function stands."""
    if value is None or (value is default and names_read(value)):
        return ANY
    return kinds.of(value)
