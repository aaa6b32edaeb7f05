"""Which variables may hold the same object, and what is changed: Python has references, a plan has values.

Variables, and what is inside them, are nodes that are merged wherever an assignment may make them one object
(as Steensgaard's analysis does). A change is then seen by all variables that reach the changed node.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, cast

from callsheet.frontends.python import core
from callsheet.frontends.python.kinds import FLAT, Kinds
from callsheet.frontends.python.objects import Node, chain, find, holds, inside, merge, named_part, put
from callsheet.frontends.python.source import Refused, dotted, names_bound, own_nodes, parameters_of, walk

MUTATORS: Final = frozenset(
    {
        *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "setdefault"),
        *("popitem", "add", "discard", "difference_update", "intersection_update", "appendleft", "popleft"),
        *("symmetric_difference_update", "extendleft", "rotate", "subtract", "move_to_end", "writerow"),
        *("writerows", "write", "writeheader", "__setitem__"),
    }
)
"""The methods that change what they are called on."""
_FUNCTION_MUTATORS: Final = frozenset(
    {
        "heapq.heappush",
        "heapq.heappop",
        "heapq.heapify",
        "heapq.heappushpop",
        "heapq.heapreplace",
        "bisect.insort",
        "bisect.insort_left",
        "next",
    }
)
_HEAP_STORES: Final = frozenset({"heapq.heappush", "heapq.heappushpop", "heapq.heapreplace", "bisect.insort"})
"""The functions that put their second argument into their first."""
_STORES: Final = frozenset(
    {"append", "insert", "add", "setdefault", "appendleft", "update", "extend", "heappush"}
)
_FRESH_TEXTS: Final = frozenset(
    {
        *("len", "str", "int", "float", "bool", "sum", "abs", "round", "repr", "any", "all", "isinstance"),
        *(
            "ord",
            "chr",
            "range",
            "format",
            "hash",
            "type",
            "print",
            "divmod",
            "pow",
            "issubclass",
            "callable",
        ),
    }
)
_FRESH_METHODS: Final = frozenset(
    {
        *(
            "strip",
            "lower",
            "upper",
            "title",
            "split",
            "rsplit",
            "splitlines",
            "join",
            "replace",
            "startswith",
        ),
        *(
            "endswith",
            "format",
            "lstrip",
            "rstrip",
            "count",
            "index",
            "find",
            "isdigit",
            "strftime",
            "isoformat",
        ),
        *(
            "date",
            "total_seconds",
            "group",
            "groups",
            "groupdict",
            "getvalue",
            "encode",
            "decode",
            "casefold",
        ),
        *("capitalize", "removeprefix", "removesuffix", "partition", "rpartition", "zfill", "ljust", "rjust"),
        *("center", "isalpha", "weekday", "timestamp", "sub", "findall", "isupper", "islower", "swapcase"),
    }
)
_SHALLOW: Final = frozenset(
    {"list", "tuple", "set", "frozenset", "sorted", "reversed", "dict", "filter", "deque", "defaultdict",
     "Counter",
     "OrderedDict", "iter", "copy"}
)  # fmt: skip
"""What makes a new container of the same items."""


_NO_NAME: Final = ""


class Summary(NamedTuple):
    """What a pure function does to values.

    Whether it may change its arguments, and whether its result is surely no part of them; the variables of
    the function around it that it changes (`around`), and those of which its result may be a part (`gives`).
    """

    changes: bool
    is_new: bool
    around: frozenset[str]
    gives: frozenset[str]


class Sharing:
    """The nodes of a function's variables."""

    def __init__(
        self,
        variables: Iterable[str],
        definitions: Mapping[str, ast.stmt],
        resolved: Callable[[ast.AST], str | None],
        kinds: Kinds | None = None,
    ) -> None:
        self.nodes = {name: Node() for name in variables}
        self.definitions, self.resolved, self.kinds = definitions, resolved, kinds
        self.frames: list[dict[str, Node]] = []
        self.changes: dict[int, tuple[ast.AST, list[Node]]] = {}
        self.is_first = True
        """Whether statements are seen for the first time."""
        self.doubled: list[Node] = []
        """Objects that one container may hold more than once."""
        self.summaries: dict[str, Summary] = {}

    def node(self, name: str) -> Node:
        """The object of a variable."""
        for frame in reversed(self.frames):
            if name in frame:
                return frame[name]
        known = self.nodes.get(name)
        if known is None:
            known = self.nodes[name] = Node()
        return known

    def reaches(self, name: str, changed: Iterable[Node]) -> bool:
        """Whether a variable sees a change of one of these objects."""
        return holds(self.node(name), frozenset(map(find, changed)))

    def is_doubled(self, node: Node) -> bool:
        """Whether one container may hold an object more than once."""
        return any(find(one) is find(node) for one in self.doubled)

    def is_top(self, name: str, node: Node) -> bool:
        """Whether an object is that of a variable itself."""
        return find(self.node(name)) is find(node)

    def double_inside(self, node: Node) -> None:
        """Note that an object may hold any object inside it more than once."""
        inner = inside(node)
        inner = merge(inside(inner), inner)
        self.doubled.append(inner)

    def _double(self, node: ast.expr, own: set[str], value: Node) -> None:
        """What a comprehension or a repetition puts into a container again and again."""
        made = chain(value)
        for one in own_nodes(node):
            if not isinstance(one, ast.Name) or not isinstance(one.ctx, ast.Load):
                continue
            is_flat = self.kinds is not None and self.kinds.known.get(one.id) in FLAT
            if one.id in self.nodes and one.id not in own and not is_flat:
                self.doubled += [each for each in chain(self.node(one.id)) if each in made]

    # ------------------------------------------------------------ what expressions give

    def value(self, node: ast.AST | None) -> Node:  # noqa: PLR0911, PLR0912 - a case for each expression
        """The object that an expression gives; one of its own where that is new."""
        if (
            self.kinds is not None
            and not self.frames
            and isinstance(node, ast.expr)
            and self.kinds.of(node) in FLAT
        ):
            return Node()
        match node:
            case ast.Name(id=name):
                return self.node(name)
            case ast.Subscript(value=value):
                held = self.value(value)
                index = node.slice.value if isinstance(node.slice, ast.Constant) else None
                fields = find(held).fields
                if fields is not None and isinstance(index, int) and 0 <= index < len(fields):
                    return find(fields[index])
                if isinstance(index, str):
                    return named_part(held, index)
                return merge(Node(), held) if isinstance(node.slice, ast.Slice) else inside(held)
            case ast.Attribute(value=value, attr=attr):
                return named_part(self.value(value), attr)
            case ast.IfExp(body=first, orelse=second):
                return merge(self.value(first), self.value(second))
            case ast.BoolOp(values=values):
                made = Node()
                for one in values:
                    merge(made, self.value(one))
                return find(made)
            case ast.NamedExpr(target=target, value=value):
                return merge(self.node(target.id), self.value(value))
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                made = Node()
                for one in parts:
                    if isinstance(one, ast.Starred):
                        put(made, inside(self.value(one.value)))
                    else:
                        put(made, self.value(one))
                return made
            case ast.Dict(keys=keys, values=values):
                made = Node()
                if keys and all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in keys):
                    for key, one in zip(keys, values, strict=True):
                        name = str(cast("ast.Constant", key).value)
                        made.named[name] = self.value(one)
                    return made
                for key, one in zip(keys, values, strict=True):
                    put(made, inside(self.value(one)) if key is None else self.value(one))
                return made
            case ast.BinOp(left=left, right=right):
                made = Node()
                for one in (left, right):
                    if not isinstance(one, (ast.Constant, ast.JoinedStr)):
                        merge(inside(made), inside(self.value(one)))
                if isinstance(node.op, ast.Mult):
                    self.doubled += chain(inside(made))
                return made
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node)
            case ast.Call():
                return self._call(node)
            case ast.Starred(value=value) | ast.Await(value=value):
                return self.value(value)
            case _:
                return Node()

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Node:
        frame: dict[str, Node] = {}
        self.frames.append(frame)
        for one in node.generators:
            held = self.value(one.iter)
            for part in walk(one.target):
                if isinstance(part, ast.Name):
                    frame[part.id] = Node()
            self.bind(one.target, self.item_of(one.iter, held))
        made = Node()
        element = node.value if isinstance(node, ast.DictComp) else node.elt
        if self.kinds is None or self.kinds.of(element) not in FLAT:
            value = self.value(element)
            self._double(element, set(frame), value)
            put(made, value)
        self.frames.pop()
        return made

    def item_of(self, source: ast.expr, held: Node) -> Node:
        """What a loop gets of a source: for `zip` and its like a tuple of the items."""
        name = dotted(source.func) if isinstance(source, ast.Call) else None
        if isinstance(source, ast.Call):
            given, func = source.args, source.func
            if name == "zip" and not any(isinstance(one, ast.Starred) for one in given):
                return Node([self.item_of(one, self.value(one)) for one in given])
            if name == "enumerate" and given:
                return Node([Node(), self.item_of(given[0], self.value(given[0]))])
            if isinstance(func, ast.Attribute) and func.attr == "items":
                return Node([Node(), inside(self.value(func.value))])
            if name in {"list", "sorted", "reversed"} and len(given) == 1:
                return self.item_of(given[0], self.value(given[0]))
        known = self.kinds.known if self.kinds is not None else {}
        if isinstance(source, ast.Name) and known.get(source.id) == "dict":
            return Node()
        return inside(held)

    def _call(self, node: ast.Call) -> Node:  # noqa: PLR0911, PLR0912 - a case for each function
        given = [*node.args, *(word.value for word in node.keywords)]
        if isinstance(node.func, ast.Attribute):
            method = node.func.attr
            holder = self.value(node.func.value)
            if self.resolved(node.func) is None:
                if method in _FRESH_METHODS:
                    return Node()
                if method in {"get", "pop", "setdefault", "popleft", "popitem"}:
                    key = getattr(given[0], "value", None) if given else None
                    made = (
                        named_part(holder, key)
                        if method in {"get", "setdefault", "pop"} and isinstance(key, str)
                        else inside(holder)
                    )
                    for one in given[1:]:
                        merge(made, self.value(one))
                    return find(made)
                if method in {"items", "keys", "values", "copy", "most_common", "elements"}:
                    made = Node()
                    merge(inside(made), inside(holder))
                    return made
        name = self.resolved(node.func) or dotted(node.func) or ""
        last = name.split(".")[-1]
        if name in self.definitions:  # which may have the name of a built-in function
            return self._unknown(node, given)
        if last == "sum" and len(given) > 1:
            made = Node()
            merge(made, self.value(given[1]))
            merge(inside(made), inside(inside(self.value(given[0]))))
            return find(made)
        if last in _FRESH_TEXTS or name.startswith(
            ("re.", "math.", "json.", "datetime.", "statistics.", "hashlib.")
        ):
            return Node()
        if last == "deepcopy":
            return Node()
        if last == "fromkeys" and len(given) == 2:
            made = Node()
            merge(inside(made), self.value(given[1]))
            if not isinstance(given[1], ast.Constant):
                self.doubled += chain(inside(made))
            return made
        if last in _SHALLOW:
            made = Node()
            for one in node.args:
                if not isinstance(one, ast.Lambda):
                    merge(inside(made), inside(self.value(one)))
            for word in node.keywords:
                if word.arg is None:
                    merge(inside(made), inside(self.value(word.value)))
                elif word.arg != "key":
                    put(made, self.value(word.value))
            return made
        if last in {"max", "min", "next"}:
            made = Node()
            for number, one in enumerate(node.args):
                held = self.value(one)
                is_source = len(node.args) == 1 or (last == "next" and not number)
                merge(made, inside(held) if is_source else held)
            for word in node.keywords:
                if word.arg == "default":
                    merge(made, self.value(word.value))
            return find(made)
        if name.startswith("heapq.") and node.args:
            held = inside(self.value(node.args[0 if last.startswith("heap") else -1]))
            if last.startswith("heap"):
                return held
            made = Node()
            put(made, held)
            return made
        if last in {"zip", "enumerate", "map"} or name.startswith("itertools."):
            made = Node()
            for one in given:
                merge(inside(made), inside(self.value(one)))
            return made
        return self._unknown(node, given)

    def _unknown(self, node: ast.Call, given: list[ast.expr]) -> Node:
        """A function of the program, or an unknown one: its result may be any part of its arguments."""
        name = dotted(node.func)
        outer: list[Node] = []
        if name is not None and self._makes_object(name):
            made = Node()
            for one in given:
                put(made, self.value(one))
            return made
        if name is not None:
            found = _function_of(name, self.definitions.get(name))
            if found is not None:
                summary = self._summary(found)
                outer = [each for one in sorted(summary.gives) for each in chain(self.node(one))]
                given = [*given, *_defaults(found)]
                if summary.is_new and not outer:
                    return Node()
        made = Node()
        inner = inside(made)
        merge(inner, inner)
        for each in outer:
            merge(inner, each)
        for one in given:
            for each in chain(self.value(one)):
                merge(inner, each)
        if isinstance(node.func, ast.Attribute) and self.resolved(node.func) is None:
            for each in chain(self.value(node.func.value)):
                merge(inner, each)
        top = inside(made)
        merge(inside(top), top)
        return merge(made, top) if given or outer else made

    def _makes_object(self, name: str) -> bool:
        """Whether a call makes a new object that holds its arguments: a class, or a method that calls one."""
        owner, _, method = name.partition(".")
        found = self.definitions.get(owner)
        if not isinstance(found, ast.ClassDef):
            return False
        if not method:
            return True
        for one in found.body:
            if isinstance(one, ast.FunctionDef) and one.name == method:
                returns = [
                    each.value for each in own_nodes(ast.Module(one.body, [])) if isinstance(each, ast.Return)
                ]
                return bool(returns) and all(
                    isinstance(each, ast.Call) and dotted(each.func) in {"cls", owner} for each in returns
                )
        return False

    # ------------------------------------------------------------ assignments and changes

    def bind(self, target: ast.expr, value: Node) -> None:
        """`target = value`."""
        match target:
            case ast.Name(id=name):
                merge(self.node(name), value)
            case ast.Tuple(elts=parts) if (
                (fields := find(value).fields) is not None
                and len(fields) == len(parts)
                and not any(isinstance(one, ast.Starred) for one in parts)
            ):
                for one, each in zip(parts, fields, strict=True):
                    self.bind(one, each)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for one in parts:
                    inner = one.value if isinstance(one, ast.Starred) else one
                    if isinstance(one, ast.Starred):
                        made = Node()
                        merge(inside(made), inside(value))
                        self.bind(inner, made)
                    else:
                        self.bind(inner, inside(value))
            case ast.Attribute(value=holder, attr=attr):
                self._store(self.value(holder), value, attr)
            case ast.Subscript(value=holder, slice=key):
                name = getattr(key, "value", None)
                self._store(self.value(holder), value, name if isinstance(name, str) else None)
            case _:
                pass

    def _store(self, holder: Node, value: Node, name: str | None = None) -> None:
        """Put an object into another one; a part of that one is in it twice then."""
        top = find(holder)
        if self.is_first and any(node in chain(holder) for node in chain(value)):
            self.doubled += chain(value)
        if name is not None and top.fields is None and top.content is None and not top.held:
            merge(named_part(top, name), value)
        else:
            put(holder, value)

    def take(self, root: ast.AST) -> None:  # noqa: PLR0912
        """Merge what the statements and expressions of a tree make one object."""
        for node in own_nodes(root):
            match node:
                case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Tuple(elts=values)) if len(
                    parts
                ) == len(values):
                    for one, each in zip(parts, values, strict=True):
                        self.bind(one, self.value(each))
                case ast.Assign(targets=targets, value=value):
                    made = self.value(value)
                    for one in _looked_through(value):
                        merge(made, self.value(one))
                    for one in targets:
                        self.bind(one, made)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self.bind(target, self.value(value))
                case ast.AugAssign(target=target, value=value):
                    held = self.value(target)
                    if not isinstance(value, (ast.Constant, ast.JoinedStr)):
                        put(held, inside(self.value(value)))
                case ast.For(target=target, iter=source):
                    self.bind(target, self.item_of(source, self.value(source)))
                case ast.Call(func=ast.Attribute(attr=method, value=holder)) if (
                    method in _STORES and self.resolved(node.func) is None
                ):
                    held = self.value(holder)
                    key = getattr(node.args[0], "value", None) if node.args else None
                    if method == "setdefault" and isinstance(key, str) and len(node.args) == 2:
                        self._store(held, self.value(node.args[1]), key)
                        continue
                    for one in node.args[1:] if method in {"setdefault", "insert"} else node.args:
                        given = self.value(one)
                        self._store(held, inside(given) if method in {"update", "extend"} else given)
                case ast.Call(args=[holder, given, *_]) if self.resolved(node.func) in _HEAP_STORES:
                    self._store(self.value(holder), self.value(given))
                case ast.NamedExpr():
                    self.value(node)
                case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                    self.bind(target, self.value(value))
                case ast.Match(subject=subject, cases=cases):
                    held = self.value(subject)
                    for each in cases:
                        for part in walk(each.pattern):
                            name = getattr(part, "name", None) or getattr(part, "rest", None)
                            if isinstance(name, str):
                                for one in chain(held):
                                    merge(self.node(name), one)
                case _:
                    pass

    def changed(self, root: ast.AST) -> list[Node]:
        """The objects that a tree changes."""
        known = self.changes.get(id(root))
        if known is None:
            known = self.changes[id(root)] = root, self._changed(root)
        return [find(one) for one in known[1]]

    def _changed(self, root: ast.AST) -> list[Node]:  # noqa: PLR0912 - a case for each change
        found: list[Node] = []
        for node in own_nodes(root):
            match node:
                case ast.Subscript(value=holder, ctx=ast.Store() | ast.Del()):
                    found.append(find(self.value(holder)))
                case ast.Attribute(value=holder, ctx=ast.Store() | ast.Del()):
                    found.append(find(self.value(holder)))
                case ast.AugAssign(target=ast.Name(id=name), op=ast.Add() | ast.BitOr()):
                    if _may_be_container(node.value):
                        found.append(find(self.node(name)))
                case ast.AugAssign(target=target, op=op, value=value):
                    if self._changes_in_place(target, op, value):  # the list in x[k] is changed itself
                        found.append(find(self.value(target)))
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="list" | "dict" | "set"), attr=method),
                    args=[one, *_],
                ) if method in MUTATORS:
                    found.append(find(self.value(one)))
                case ast.Call(func=ast.Attribute(attr=method, value=holder)):
                    if self.resolved(node.func) is None and self._changes_holder(method):
                        is_flat = method in MUTATORS or self._changes_itself(method)
                        found += [find(self.value(holder))] if is_flat else chain(self.value(holder))
                    elif self.resolved(node.func) in _FUNCTION_MUTATORS and node.args:
                        found.append(find(self.value(node.args[0])))
                case ast.Call(func=ast.Name(id=name)):
                    found += self._changed_by(name, node)
                case ast.Name(id=name, ctx=ast.Load()):
                    found += self._changed_around(name)
                case ast.Lambda(body=body):
                    found += self._changed(body)
                case _:
                    pass
            if isinstance(node, ast.Call):
                found += self._changed_by_arguments(node)
        return found

    def _changes_in_place(self, target: ast.expr, op: ast.operator, value: ast.expr) -> bool:
        """Whether `target op= value` may change the container itself."""
        kinds = self.kinds
        is_flat = kinds is not None and FLAT.intersection((kinds.of(value), kinds.of(target)))
        in_place = isinstance(op, ast.Add | ast.BitOr | ast.Sub | ast.BitAnd | ast.BitXor)
        return in_place and not is_flat and _may_be_container(value)

    def _changed_around(self, name: str) -> list[Node]:
        """What a function changes of the variables around it, wherever it is called that names it."""
        found = _function_of(name, self.definitions.get(name))
        if found is None:
            return []
        return [each for one in sorted(self._summary(found).around) for each in chain(self.node(one))]

    def _changed_by_arguments(self, node: ast.Call) -> list[Node]:
        """What the functions that a call is given change, as in `map(f, xs)`: its other arguments."""
        values = [*node.args, *(word.value for word in node.keywords)]
        for one in values:
            name = one.id if isinstance(one, ast.Name) else ""
            found = _function_of(_NO_NAME, one) or _function_of(name, self.definitions.get(name))
            if found is not None and self._summary(found).changes:
                others = [each for each in values if each is not one]
                return [each for other in others for each in chain(self.value(other))]
        return []

    def _changes_holder(self, method: str) -> bool:
        if method in MUTATORS:
            return True
        for one in self.definitions.values():
            if isinstance(one, ast.ClassDef):
                for each in one.body:
                    if isinstance(each, ast.FunctionDef) and each.name == method:
                        return self._summary(each).changes
        return False

    def _changes_itself(self, method: str) -> bool:
        """Whether a method of the program's classes changes fields of its object, and nothing inside them."""
        for one in self.definitions.values():
            for each in one.body if isinstance(one, ast.ClassDef) else []:
                if isinstance(each, ast.FunctionDef) and each.name == method:
                    itself = each.args.args[0].arg if each.args.args else ""
                    for node in own_nodes(ast.Module(each.body, [])):
                        match node:
                            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store()) if name == itself:
                                pass
                            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                                return False
                            case ast.Call(func=ast.Attribute(attr=called)) if called in MUTATORS:
                                return False
                            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name == itself:
                                return False
                            case ast.AugAssign(value=value) if _may_be_container(value):
                                return False
                            case _:
                                pass
        return True

    def _changed_by(self, name: str, node: ast.Call) -> list[Node]:
        if self.resolved(node.func) in _FUNCTION_MUTATORS or name == "next":
            return [find(self.value(node.args[0]))] if node.args else []
        found = _function_of(name, self.definitions.get(name))
        if found is not None and self._summary(found).changes:
            made: list[Node] = []
            for one in (*node.args, *(word.value for word in node.keywords), *_defaults(found)):
                made += chain(self.value(one))
            return made
        return []

    def _summary(self, function: ast.FunctionDef) -> Summary:
        """What a pure function does to what it is given, and to the variables around it."""
        known = self.summaries.get(function.name)
        if known is not None and function.name != _NO_NAME:
            return known
        self.summaries[function.name] = Summary(True, False, frozenset(), frozenset())
        inner = Sharing((), self.definitions, self.resolved)
        inner.summaries = self.summaries
        parameters = [one.arg for one in parameters_of(function.args)]
        for name in parameters:
            inner.node(name)
        for _ in range(2):
            for one in function.body:
                inner.take(one)
        touched = [node for one in function.body for node in inner.changed(one)]
        outer = [name for name in inner.nodes if name in parameters]
        changes = any(inner.reaches(name, touched) for name in outer)
        for name, default in _given_by_default(function):
            if inner.reaches(name, touched) and not isinstance(default, ast.Constant):
                raise Refused(
                    "PYT015",
                    default,
                    f"the default of {name} is one object for all calls of {function.name}, which changes it",
                    f"write {name}=None, and make the object in the function",
                )
        returns = [
            one.value for part in function.body for one in own_nodes(part) if isinstance(one, ast.Return)
        ]
        given = [each for one in returns if one is not None for each in chain(inner.value(one))]
        is_new = not any(each in given for name in outer for each in chain(inner.node(name)))
        own = names_bound(*function.body)
        free = [name for name in inner.nodes if name not in parameters and name not in own]
        around = frozenset(name for name in free if inner.reaches(name, touched))
        gives = frozenset(name for name in free if any(each in given for each in chain(inner.node(name))))
        made = self.summaries[function.name] = Summary(changes, is_new, around, gives)
        return made


def _function_of(name: str, node: ast.AST | None) -> ast.FunctionDef | None:
    """The function that a definition, or a lambda in its place, stands for; None for anything else."""
    match node:
        case ast.FunctionDef():
            return node
        case ast.Assign(value=ast.Lambda() as value) | ast.AnnAssign(value=ast.Lambda() as value):
            return _function_of(name, value)
        case ast.Lambda(args=args, body=body):
            made = ast.FunctionDef(name, args, [ast.copy_location(ast.Return(body), body)], [], None)
            return ast.copy_location(made, node)
        case _:
            return None


def _given_by_default(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """The parameters that a call need not give, with their values."""
    of = function.args
    names = [one.arg for one in (*of.posonlyargs, *of.args)]
    yield from zip(names[len(names) - len(of.defaults) :], of.defaults, strict=True)
    for one, default in zip(of.kwonlyargs, of.kw_defaults, strict=True):
        if default is not None:
            yield one.arg, default


def _defaults(function: ast.FunctionDef) -> list[ast.expr]:
    """The values of parameters that a call need not give, unless they are constants."""
    return [one for _, one in _given_by_default(function) if not isinstance(one, ast.Constant)]


def _looked_through(node: ast.expr) -> list[ast.expr]:
    """The containers that an iterator or a view looks at, whose later changes it shows."""
    match node:
        case ast.Call(
            func=ast.Name(id="zip" | "enumerate" | "map" | "filter" | "iter" | "reversed"), args=args
        ):
            return [one for one in args if isinstance(one, ast.Name)]
        case ast.Call(func=ast.Attribute(attr="items" | "keys" | "values", value=value), args=[]):
            return [value]
        case _:
            return []


def sources_seen(source: ast.expr) -> list[ast.Name]:
    """The variables whose list a loop looks at in each round, so that it would see them grow."""
    match source:
        case ast.Name():
            return [source]
        case ast.Call(func=ast.Name(id="enumerate" | "zip" | "reversed" | "iter"), args=args):
            return [one for one in args if isinstance(one, ast.Name)]
        case _:
            return []


def sets_item(part: ast.AST) -> bool:
    """Whether a statement gives an item of a container another value, and calls nothing."""
    match part:
        case ast.Assign(targets=[ast.Subscript()]) | ast.AugAssign(target=ast.Subscript()):
            return not any(isinstance(one, (ast.Call, ast.NamedExpr)) for one in walk(part))
        case _:
            return False


def _may_be_container(node: ast.expr) -> bool:
    """Whether `x += node` may change a list or set in place: not for numbers and texts."""
    if isinstance(node, (ast.Constant, ast.JoinedStr, ast.Compare, ast.UnaryOp)):
        return False
    if isinstance(node, ast.BinOp):
        return _may_be_container(node.left) and _may_be_container(node.right)
    if isinstance(node, ast.Call):
        return (dotted(node.func) or "").split(".")[-1] not in _FRESH_TEXTS
    return True


def sharing_of(
    function: core.Function,
    made: Sharing,
    is_fresh: Callable[[core.Call], bool],
    is_tree: Callable[[core.Call], bool],
) -> None:
    """Merge what the statements of a function make one object.

    `is_fresh` says whether the result of a call is new, `is_tree` whether no object is in it twice.
    """
    for number in range(2):
        made.is_first = not number
        for one in core.all_of(function.body):
            _take(one, made, is_fresh)
            if isinstance(one, core.Call) and one.into and one.helper is not None and not is_tree(one):
                held = find(made.node(one.into))
                made.double_inside(held.fields[0] if one.changes and held.fields else held)


def _take(one: core.Core, made: Sharing, is_fresh: Callable[[core.Call], bool]) -> None:
    if isinstance(one, core.Pure) and one.is_link:
        return
    for part in core.parts_of(one):
        made.take(part)
    match one:
        case core.Call(into=str() as into, changes=[_, *_] as names):
            merge(made.node(into), Node([Node(), *(made.node(name) for name in names)]))
        case core.Call(into=str() as into, helper=ast.AsyncFunctionDef(), arguments=arguments):
            if not is_fresh(one):
                for each in arguments:
                    for node in chain(made.value(each.value)):
                        merge(made.node(into), node)
        case core.Loop(target=target, source=source, body=body, into=into):
            merge(made.node(target), made.item_of(source, made.value(source)))
            if into is not None:
                for each in core.all_of(body):
                    if isinstance(each, core.Give):
                        merge(inside(made.node(into)), made.value(each.value))
        case _:
            pass
