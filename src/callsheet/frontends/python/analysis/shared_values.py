"""Which objects the values of expressions may be: those of variables, parts of these, or new ones.

In: expressions. Out: nodes of `objects`, which are merged as the expressions demand. Variables, and what is
inside them, are nodes that are merged wherever they may be one object (as Steensgaard's analysis does).
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias, cast

from callsheet.frontends.python.analysis.constructors import fields_given
from callsheet.frontends.python.analysis.container_words import (
    FRESH_METHODS,
    FRESH_TEXTS,
    ITEM_DRAWS,
    NUMBER_DRAWS,
    SHALLOW,
    defaults_of,
    function_of,
    is_plain,
)
from callsheet.frontends.python.analysis.kinds import FLAT, Kinds
from callsheet.frontends.python.analysis.objects import (
    NOTHING_SHARED,
    Node,
    Shape,
    chain,
    find,
    form_of,
    holding,
    inside,
    merge,
    named_part,
    put,
)
from callsheet.frontends.python.source import (
    SCOPES,
    among,
    dotted,
    names_bound,
    names_read,
    outside_of,
    own_nodes,
    parameters_of,
    push_children,
    walk,
)
from callsheet.frontends.python.syntax import COMPREHENSIONS

Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


class Summary(NamedTuple):
    """What a pure function does to values.

    Whether it may change its arguments, and whether its result is surely no part of them; the variables of
    the function around it that it changes (`around`), and those of which its result may be a part (`gives`);
    what its parameters and these variables share when it ends, None as long as that is not known.
    """

    changes: bool
    is_new: bool
    around: frozenset[str]
    gives: frozenset[str]
    shape: Shape | None


class Functions:
    """The functions, classes and constants that code may name, and what is known of what the functions do."""

    def __init__(
        self, definitions: Mapping[str, ast.stmt], resolved: Callable[[ast.AST], str | None]
    ) -> None:
        self.definitions, self.resolved = definitions, resolved
        self.summaries: dict[ast.arguments, Summary] = {}
        self.unlike: dict[str, Sequence[ast.FunctionDef]] = {}
        """The methods of a name, one for each thing that they do."""
        self.by_method: dict[str, list[ast.FunctionDef]] = {}
        """The methods of the classes, by name."""
        for one in definitions.values():
            for each in one.body if isinstance(one, ast.ClassDef) else ():
                if isinstance(each, ast.FunctionDef):
                    self.by_method.setdefault(each.name, []).append(each)


class SharedValues(ABC):
    """The nodes of a function's variables, and those of the values of its expressions."""

    def __init__(self, variables: Iterable[str], functions: Functions, kinds: Kinds | None = None) -> None:
        self.nodes = {name: _node_of(name) for name in variables}
        self.variables = frozenset(self.nodes)
        self.functions, self.definitions, self.resolved = functions, functions.definitions, functions.resolved
        self.kinds = kinds
        self.frames: list[dict[str, Node]] = []
        self.rounds: list[frozenset[str]] = []
        """What the loops around a statement set in each round."""
        self.changes: dict[int, tuple[ast.AST, list[Node]]] = {}
        self.is_first = True
        """Whether statements are seen for the first time."""
        self.doubled: list[Node] = []
        """Objects that one container may hold more than once."""
        self.common: dict[str, list[Node]] = {}
        """Objects that more than one part of a variable's tuple may hold."""
        self.iterators: set[str] = set()
        """The variables that hold an iterator, which is another one when an item was taken."""

    def node(self, name: str) -> Node:
        """The object of a variable."""
        for frame in reversed(self.frames):
            if name in frame:
                return frame[name]
        known = self.nodes.get(name)
        if known is None:
            known = self.nodes[name] = _node_of(name)
        return known

    def seeing(self, names: Iterable[str], changed: Iterable[Node]) -> set[str]:
        """The variables among these that see a change of one of these objects."""
        return holding(((name, self.node(name)) for name in names), frozenset(map(find, changed)))

    def is_doubled(self, node: Node, name: str = "") -> bool:
        """Whether one container, or the tuple of this variable, may hold an object more than once."""
        return any(find(one) is find(node) for one in (*self.doubled, *self.common.get(name, ())))

    def is_top(self, name: str, node: Node) -> bool:
        """Whether an object is that of a variable itself."""
        return find(self.node(name)) is find(node)

    def double_inside(self, node: Node) -> None:
        """Note that an object may hold any object inside it more than once."""
        inner = inside(node)
        inner = merge(inside(inner), inner)
        self.doubled.append(inner)

    def _note_twice(self, parts: Sequence[ast.expr]) -> None:
        """Note the objects that a literal holds in more than one of its parts, as in `[row, row]`."""
        is_joined = any(isinstance(one, ast.Starred) for one in parts)
        self.doubled += _common([self.node(one.id) for one in parts if isinstance(one, ast.Name)])
        if is_joined:
            self._note_joined(
                inside(self.value(one.value)) if isinstance(one, ast.Starred) else self.value(one)
                for one in parts
            )

    def _note_joined(self, parts: Iterable[Node]) -> None:
        """Note the objects that more than one part of a new container holds."""
        if self.is_first:
            self.doubled += _common([*parts])

    def note_parts(self, name: str) -> None:
        """Note the objects that more than one of the parts of a variable's tuple are or hold."""
        self.common[name] = _common(find(self.node(name)).fields or ())

    def _double(
        self, node: ast.expr, own: set[str], value: Node, again: Collection[str] = frozenset()
    ) -> None:
        """What a comprehension or a repetition puts into a container again and again."""
        made = chain(value)
        for one in own_nodes(node):
            if not isinstance(one, ast.Name) or not isinstance(one.ctx, ast.Load):
                continue
            is_flat = self.kinds is not None and self.kinds.known.get(one.id) in FLAT
            if (one.id in self.nodes or one.id in again) and one.id not in own and not is_flat:
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
            case ast.Subscript(value=value) if self._has_flat_items(value):
                return Node()
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
                self._note_twice(parts)
                for one in parts:
                    if isinstance(one, ast.Starred):
                        put(made, inside(self.value(one.value)))
                    else:
                        put(made, self.value(one))
                return made
            case ast.Dict(keys=keys, values=values):
                made = Node()
                self._note_twice(values)
                if keys and all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in keys):
                    for key, one in zip(keys, values, strict=True):
                        name = str(cast("ast.Constant", key).value)
                        made.named[name] = self.value(one)
                    return made
                for key, one in zip(keys, values, strict=True):
                    put(made, inside(self.value(one)) if key is None else self.value(one))
                return made
            case ast.BinOp(left=left, op=op, right=right):
                made = Node()
                sides = [one for one in (left, right) if not is_plain(one)]
                if isinstance(op, (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)) or (
                    len(sides) < 2 and not isinstance(op, ast.Mult)
                ):
                    return made  # a number or text
                self._note_joined(inside(self.value(one)) for one in sides)
                for one in sides:
                    merge(inside(made), inside(self.value(one)))
                if isinstance(op, ast.Mult):
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

    def _has_flat_items(self, node: ast.expr) -> bool:
        """Whether an expression is a constant of the file that holds nothing which could be changed."""
        if not isinstance(node, ast.Name) or any(node.id in one for one in (self.variables, *self.frames)):
            return False
        found = self.definitions.get(node.id)
        value = found.value if isinstance(found, (ast.Assign, ast.AnnAssign)) else None
        if isinstance(value, ast.Call) and len(value.args) == 1 and not value.keywords:
            is_copy = (dotted(value.func) or "").rpartition(".")[2] in {"OrderedDict", "dict", "frozenset"}
            value = value.args[0] if is_copy else value
        match value:
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items) | ast.Dict(values=items):
                return all(map(_is_frozen, items))
            case _:
                return False

    def _comprehension(self, node: Comprehension) -> Node:
        made = Node()
        element = node.value if isinstance(node, ast.DictComp) else node.elt
        with self.inside_of(node) as frame:
            if self.kinds is None or self.kinds.of(element) not in FLAT:
                value = self.value(element)
                again = _repeated(node)
                self._double(element, set(frame) - again, value, again)
                put(made, value)
        return made

    @contextmanager
    def inside_of(self, node: Comprehension) -> Generator[dict[str, Node]]:
        """Let the variables of a comprehension be items of its sources for as long as the context is open."""
        yield self._enter(node)
        self.frames.pop()

    def _enter(self, node: Comprehension) -> dict[str, Node]:
        frame: dict[str, Node] = {}
        self.frames.append(frame)
        for one in node.generators:
            held = self.value(one.iter)
            for part in walk(one.target):
                if isinstance(part, ast.Name):
                    frame[part.id] = Node()
            self.bind(one.target, self.item_of(one.iter, held))
        return frame

    def nodes_in(self, root: ast.AST) -> Iterator[ast.AST]:
        """The nodes that `own_nodes` gives, those of comprehensions and loops while these are entered."""
        stack: list[ast.AST | list[Any]] = [root]
        while stack:
            node = stack.pop()
            if isinstance(node, list):
                node.pop()
                continue
            yield node
            if isinstance(node, COMPREHENSIONS):
                self._enter(node)
                stack.append(self.frames)
            elif isinstance(node, (ast.For, ast.While)):
                self.rounds.append(frozenset(names_bound(node)))
                stack.append(self.rounds)
            if node.__class__ in SCOPES and node is not root:
                stack += reversed(list(outside_of(node)))
            else:
                push_children(node, stack)

    def note_rounds(self, value: ast.expr) -> None:
        """Note what each round of a loop around a place puts into a container there."""
        if self.rounds and self.is_first:
            self._double(
                value, {*self.rounds[-1], *(name for one in self.frames for name in one)}, self.value(value)
            )

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

    def _call(self, node: ast.Call) -> Node:  # noqa: PLR0911, PLR0912, PLR0915 - a case for each function
        given = [*node.args, *(word.value for word in node.keywords)]
        if isinstance(node.func, ast.Attribute):
            method = node.func.attr
            is_flat = method == "get" and self._has_flat_items(node.func.value)
            holder = Node() if is_flat else self.value(node.func.value)
            if self.resolved(node.func) is None:
                if method in FRESH_METHODS or method in NUMBER_DRAWS:
                    return Node()
                if method in ITEM_DRAWS and given:
                    items = inside(self.value(given[0]))
                    drawn = Node()
                    put(drawn, items)
                    return items if method == "choice" else drawn
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
        if last in FRESH_TEXTS or name.startswith(
            ("re.", "math.", "json.", "datetime.", "statistics.", "hashlib.", "base64.", "random.")
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
        if last == "reduce" and isinstance(node.args[0] if node.args else None, ast.Lambda):
            return self._reduced(cast("ast.Lambda", node.args[0]), node, given)
        if name == "dataclasses.replace" and node.args:
            made = Node()
            made.is_object = True
            merge(inside(made), inside(self.value(node.args[0])))
            for one in given[1:]:
                put(made, self.value(one))
            return made
        if last in SHALLOW:
            made = Node()
            made.fills_itself = last == "defaultdict"
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
        if last == "map" and node.args:
            return self._mapped(*node.args)
        if last in {"zip", "enumerate"} or name.startswith("itertools."):
            made = Node()
            if last == "repeat" and given:
                put(made, self.value(given[0]))
                self.doubled += chain(self.value(given[0]))
                return made
            if last == "chain":
                self._note_joined(inside(self.value(one)) for one in given)
            for one in given:
                merge(inside(made), inside(self.value(one)))
            return made
        return self._unknown(node, given)

    def _mapped(self, step: ast.expr, *sources: ast.expr) -> Node:
        """What `map` gives: what a lambda makes of the items, or any part of what its function may know."""
        made, items = Node(), [inside(self.value(one)) for one in sources]
        if isinstance(step, ast.Lambda):
            self.frames.append(dict(zip((one.arg for one in parameters_of(step.args)), items, strict=False)))
            put(made, self.value(step.body))
            self.frames.pop()
            return made
        found = function_of(dotted(step) or "", self.definitions.get(dotted(step) or ""))
        known = sorted(self.summary(found).gives) if found is not None else []
        outer = [self.node(one) for one in known]
        outer += [self.value(step.value)] if isinstance(step, ast.Attribute) else []
        for one in (*items, *(each for held in outer for each in chain(held))):
            merge(inside(made), one)
        return made

    def _reduced(self, step: ast.Lambda, node: ast.Call, given: list[ast.expr]) -> Node:
        """What `reduce` gives: the result of its lambda, whose parameters are that and an item."""
        names = [one.arg for one in parameters_of(step.args)]
        if len(names) != 2 or len(node.args) < 2 or self.changed(step.body):
            return self._unknown(node, given)
        item = inside(self.value(node.args[1]))
        made = merge(Node(), self.value(node.args[2]) if len(node.args) > 2 else item)
        self.frames.append({names[0]: made, names[1]: item})
        made = merge(made, self.value(step.body))
        self.frames.pop()
        return find(made)

    def _unknown(self, node: ast.Call, given: list[ast.expr]) -> Node:
        """A function of the program, or an unknown one: its result may be any part of its arguments."""
        name = dotted(node.func)
        outer: list[Node] = []
        if name is not None and self._makes_object(name):
            made = Node()
            made.is_object = True
            fields = fields_given(self.definitions.get(name), node)
            if fields is not None:
                for field, one in fields:
                    merge(named_part(made, field), self.value(one))
                return made
            for one in given:
                put(made, self.value(one))
            return made
        if name is not None:
            found = function_of(name, self.definitions.get(name))
            if found is not None:
                summary = self.summary(found)
                outer = [each for one in sorted(summary.gives) for each in chain(self.node(one))]
                given = [*given, *defaults_of(found)]
                if summary.is_new and not outer:
                    return Node()
                known = self.given_back(found, node, [])
                if known is not None:
                    return known
        if isinstance(node.func, ast.Attribute) and self.resolved(node.func) is None:
            methods = self.methods(node.func.attr)
            methods = self.functions.unlike.get(node.func.attr, methods)
            if methods and all(self.summary(one).is_new for one in methods):
                return Node()
            known = self.given_back(methods[0], node, [node.func.value]) if len(methods) == 1 else None
            if known is not None:
                return known
            given = [*given, *([node.func.value] if methods else [])]
            outer = [*outer, *chain(self.value(node.func.value))] if given else outer
        made = Node()
        inner = inside(made)
        merge(inner, inner)
        for each in outer:
            merge(inner, each)
        for one in given:
            for each in chain(self.value(one)):
                merge(inner, each)
        top = inside(made)
        merge(inside(top), top)
        return merge(made, top) if given or outer else made

    def methods(self, name: str) -> Sequence[ast.FunctionDef]:
        """The methods of a name in the classes of the program."""
        return self.functions.by_method.get(name, ())

    def unlike_methods(self, name: str) -> Sequence[ast.FunctionDef]:
        """The methods of a name, of those that do the same to what they are given the first alone."""
        known = self.functions.unlike.get(name)
        if known is not None:
            return known
        methods = self.methods(name)
        if len(methods) < 2:
            return methods
        summaries = [self.summary(one) for one in methods]
        if any(one.shape is None for one in summaries):  # one that is being looked at
            return methods
        found: dict[Hashable, ast.FunctionDef] = {}
        for one, summary in zip(methods, summaries, strict=True):
            of = one.args
            names = tuple(each.arg for each in parameters_of(of))
            counts = len(of.posonlyargs) + len(of.args), of.vararg is None, bool(one.decorator_list)
            form = form_of(summary.shape or NOTHING_SHARED)
            found.setdefault((names, counts, summary._replace(shape=None), form), one)
        made = self.functions.unlike[name] = tuple(found.values())
        return made

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
                returns = [each.value for each in among(own_nodes(ast.Module(one.body, [])), ast.Return)]
                return bool(returns) and all(
                    isinstance(each, ast.Call) and dotted(each.func) in {"cls", owner} for each in returns
                )
        return False

    # ------------------------------------------------------------ what targets get

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
                self.store(self.value(holder), value, attr)
            case ast.Subscript(value=holder, slice=ast.Slice()):
                self.store(self.value(holder), inside(value))
            case ast.Subscript(value=holder, slice=key):
                name = getattr(key, "value", None)
                self.store(self.value(holder), value, name if isinstance(name, str) else None)
            case _:
                pass

    def store(self, holder: Node, value: Node, name: str | None = None) -> None:
        """Put an object into another one; a part of that one is in it twice then."""
        top = find(holder)
        if self.is_first and any(node in chain(holder) for node in chain(value)):
            self.doubled += chain(value)
        if name is not None and top.fields is None and top.content is None and not top.held:
            merge(named_part(top, name), value)
        else:
            put(holder, value)

    @abstractmethod
    def given_back(self, function: ast.FunctionDef, node: ast.Call, itself: list[ast.expr]) -> Node | None:
        """What a function of the program gives; None where that is not known part by part."""

    @abstractmethod
    def changed(self, root: ast.AST) -> list[Node]:
        """The objects that a tree changes."""

    @abstractmethod
    def summary(self, function: ast.FunctionDef) -> Summary:
        """What a pure function does to what it is given, and to the variables around it."""


def _common(parts: Sequence[Node]) -> list[Node]:
    """The objects that more than one of some objects are or hold."""
    found: list[Node] = []
    seen: set[Node] = set()
    for one in parts if len(parts) > 1 else ():
        inner = chain(one)
        found += [each for each in inner if each in seen]
        seen.update(inner)
    return found


def _repeated(node: Comprehension) -> set[str]:
    """The variables of a comprehension that have the same object in more than one of its rounds."""
    *outer, last = node.generators
    around = {name for one in outer for name in names_bound(one.target)}
    return names_bound(last.target) if outer and not around & names_read(last.iter) else set()


def _node_of(name: str) -> Node:
    made = Node()
    made.is_object = name == "self"
    return made


def _is_frozen(node: ast.expr) -> bool:
    """Whether an expression is a constant, or a tuple of such."""
    match node:
        case ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
            return True
        case ast.Tuple(elts=items):
            return all(map(_is_frozen, items))
        case _:
            return False
