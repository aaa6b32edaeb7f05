"""Which variables may hold the same object, and what is changed: Python has references, a plan has values.

In: the statements of a function. Out: the nodes of its variables, merged wherever an assignment may make them
one object, and those that a statement changes. A change is seen by all variables that reach its node.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, pairwise, permutations
from typing import Final

from callsheet.frontends.pure_code.laziness import CHANGING_FUNCTIONS
from callsheet.frontends.python import core
from callsheet.frontends.python.analysis.container_words import (
    BINDERS,
    HEAP_STORES,
    MUTATORS,
    STORES,
    calculated_with,
    defaults_of,
    function_of,
    iterators_set,
    looked_through,
    may_be_container,
    taken_from,
)
from callsheet.frontends.python.analysis.kinds import FLAT
from callsheet.frontends.python.analysis.objects import (
    Node,
    Pairs,
    Shape,
    chain,
    counterparts,
    find,
    inside,
    merge,
    put,
    transfer,
)
from callsheet.frontends.python.analysis.shared_values import SharedValues, Summary
from callsheet.frontends.python.source import (
    Refused,
    children,
    dotted,
    given_by_default,
    names_bound,
    names_read,
    own_nodes,
    parameters_of,
    walk,
)

_NO_NAME: Final = ""
_DISPLAYS: Final = (ast.Dict, ast.List, ast.Tuple, ast.Set)
_FUNCTIONS: Final = (ast.FunctionDef, ast.Lambda)


class Sharing(SharedValues):
    """The nodes of a function's variables, after its statements, and what these change."""

    # ------------------------------------------------------------ assignments and changes

    def take(self, root: ast.AST) -> None:  # noqa: PLR0912
        """Merge what the statements and expressions of a tree make one object."""
        for node in self.nodes_in(root):
            if node.__class__ not in BINDERS:
                continue
            self.iterators |= iterators_set(node, self._full_name)
            if isinstance(node, ast.Call):
                self._share_given(node)
            match node:
                case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Tuple(elts=values)) if len(
                    parts
                ) == len(values):
                    for one, each in zip(parts, values, strict=True):
                        self.bind(one, self.value(each))
                case ast.Assign(targets=targets, value=value):
                    made = self.value(value)
                    if not isinstance(targets[0], ast.Name) or isinstance(value, _DISPLAYS):
                        self.note_rounds(value)
                    for one in looked_through(value):
                        merge(made, self.value(one))
                    for one in targets:
                        self.bind(one, made)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self.bind(target, self.value(value))
                case ast.AugAssign(target=target, value=value):
                    held = self.value(target)
                    if not isinstance(value, (ast.Constant, ast.JoinedStr)):
                        self.store(held, inside(self.value(value)))
                case ast.For(target=target, iter=source):
                    self.bind(target, self.item_of(source, self.value(source)))
                case ast.Call(func=ast.Attribute(attr=method, value=holder)) if (
                    method in STORES and self.resolved(node.func) is None
                ):
                    held = self.value(holder)
                    if find(held).is_object:
                        continue
                    key = getattr(node.args[0], "value", None) if node.args else None
                    if method == "setdefault" and isinstance(key, str) and len(node.args) == 2:
                        self.store(held, self.value(node.args[1]), key)
                        continue
                    for one in node.args[1:] if method in {"setdefault", "insert"} else node.args:
                        self.note_rounds(one)
                        given = self.value(one)
                        self.store(held, inside(given) if method in {"update", "extend"} else given)
                case ast.Call(args=[holder, given, *_]) if self.resolved(node.func) in HEAP_STORES:
                    self.store(self.value(holder), self.value(given))
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

    def _share_given(self, node: ast.Call) -> None:
        """Let the arguments of a call share what the functions of its name make one object."""
        for function, itself in self._called(node):
            shape = self.summary(function).shape
            if shape is not None:
                given = [*itself, *node.args, *(word.value for word in node.keywords)]
                self.share(self._pairs(function, shape, node, itself), shape, given)

    def share(self, pairs: Pairs, shape: Shape, given: Iterable[ast.expr]) -> None:
        """Let objects share what those of a function share that is called with them."""
        staying = self._staying(given) if self.is_first and self.rounds else frozenset[Node]()
        for (holder, outer), (one, inner) in permutations(pairs, 2) if self.is_first else ():
            top, put_in = find(outer), find(inner)
            is_again = put_in in chain(top) or (top in staying and put_in in staying)
            if top is not put_in and is_again and find(one) in chain(holder):
                self.doubled += chain(put_in)
        self.doubled += transfer(pairs, shape.doubled)

    def _staying(self, given: Iterable[ast.expr]) -> frozenset[Node]:
        """The objects among these that the loop around a place has in all its rounds."""
        set_anew = {*self.rounds[-1], *(name for one in self.frames for name in one)}
        named = [one.id for one in given if isinstance(one, ast.Name)]
        return frozenset(find(self.node(name)) for name in named if name not in set_anew)

    def _pairs(
        self, function: ast.FunctionDef, shape: Shape, node: ast.Call, itself: list[ast.expr]
    ) -> list[tuple[Node, Node]]:
        """The objects of a function, each with the one that a call gives it."""
        given = self._given_to(function, node, itself)
        return [(one, given.get(name) or self.node(name)) for name, one in shape.roots]

    def _changed_in_call(
        self, function: ast.FunctionDef, node: ast.Call, itself: list[ast.expr]
    ) -> list[Node]:
        """What a function of the program changes of what a call gives it."""
        summary = self.summary(function)
        if summary.shape is not None:
            return counterparts(self._pairs(function, summary.shape, node, itself), summary.shape.changed)
        given = [*itself, *node.args, *(word.value for word in node.keywords), *defaults_of(function)]
        return [each for one in given for each in chain(self.value(one))]

    def given_back(self, function: ast.FunctionDef, node: ast.Call, itself: list[ast.expr]) -> Node | None:
        """What a function of the program gives; None where that is not known part by part."""
        shape = self.summary(function).shape
        if shape is None or defaults_of(function):
            return None
        made = Node()
        pairs = [*self._pairs(function, shape, node, itself), *((one, made) for one in shape.results)]
        transfer(pairs, ())
        return made

    def _called(self, node: ast.Call) -> Iterator[tuple[ast.FunctionDef, list[ast.expr]]]:
        """The functions of the program that a call may be of, each with the object that it is given first."""
        match node.func:
            case ast.Name(id=name):
                found = function_of(name, self.definitions.get(name))
                if found is not None:
                    yield found, []
                elif name not in self.definitions:
                    for each in self.unlike_methods("__call__"):
                        yield each, [node.func]
            case ast.Attribute(attr=method, value=holder) if self.resolved(node.func) is None:
                of_class = isinstance(holder, ast.Name) and isinstance(
                    self.definitions.get(holder.id), ast.ClassDef
                )
                for each in self.unlike_methods(method):
                    yield each, [] if of_class else [holder]
            case _:
                pass

    def _given_to(self, function: ast.FunctionDef, node: ast.Call, itself: list[ast.expr]) -> dict[str, Node]:
        """The objects that the parameters of a function get."""
        of, made = function.args, dict[str, Node]()
        names = [one.arg for one in (*of.posonlyargs, *of.args)]
        places = [*itself, *node.args]
        for number, one in enumerate(places):
            if isinstance(one, ast.Starred):
                for name in names[number:]:
                    made[name] = inside(self.value(one.value))
                break
            if number < len(names):
                made[names[number]] = self.value(one)
            elif of.vararg is not None:
                put(made.setdefault(of.vararg.arg, Node()), self.value(one))
        for word in node.keywords:
            if word.arg is not None:
                made[word.arg] = self.value(word.value)
        for one in parameters_of(of):
            made.setdefault(one.arg, Node())
        return made

    def changed(self, root: ast.AST) -> list[Node]:
        """The objects that a tree changes."""
        known = self.changes.get(id(root))
        if known is None:
            known = self.changes[id(root)] = root, list(dict.fromkeys(map(find, self._changed(root))))
        return list(dict.fromkeys(map(find, known[1])))

    def _changed(self, root: ast.AST) -> list[Node]:  # noqa: PLR0912 - a case for each change
        found: list[Node] = []
        gives_items = not self.functions.by_method.keys().isdisjoint({"__iter__", "__next__"})
        for node in self.nodes_in(root):
            match node:
                case ast.Subscript(value=holder, ctx=ast.Store() | ast.Del()):
                    found.append(find(self.value(holder)))
                case ast.Attribute(value=holder, ctx=ast.Store() | ast.Del()):
                    found.append(find(self.value(holder)))
                case ast.Attribute(value=holder, attr=attr):
                    read = ast.copy_location(ast.Call(node, [], []), node)
                    for each in self.unlike_methods(attr):
                        if each.decorator_list:
                            found += self._changed_in_call(each, read, [holder])
                case ast.Subscript(value=holder) if (held := find(self.value(holder))).fills_itself:
                    found.append(held)
                case ast.AugAssign(target=target, op=op, value=value):
                    if self._changes_in_place(target, op, value):  # the list in x[k] is changed itself
                        found.append(find(self.value(target)))
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="list" | "dict" | "set"), attr=method),
                    args=[one, *_],
                ) if method in MUTATORS:
                    found.append(find(self.value(one)))
                case ast.Call(func=ast.Attribute(attr=method, value=holder)):
                    for function, itself in self._called(node):
                        found += self._changed_in_call(function, node, itself)
                    if self.resolved(node.func) is None and method in MUTATORS:
                        found.append(find(self.value(holder)))
                        if method == "shuffle" and node.args:
                            found.append(find(self.value(node.args[0])))
                    elif self.resolved(node.func) in CHANGING_FUNCTIONS and node.args:
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
            taken = taken_from(node) if self.iterators or gives_items else ()
            for one in taken:
                if isinstance(one, ast.Name) and one.id in self.iterators:
                    found.append(find(self.node(one.id)))
            if taken and gives_items:
                for each in (*self.unlike_methods("__iter__"), *self.unlike_methods("__next__")):
                    for one in taken:
                        if isinstance(one, ast.Name):
                            found += self._changed_in_call(each, ast.Call(one, [], []), [one])
        return found

    def _full_name(self, value: ast.expr) -> str:
        """The name of what a value calls, with its module."""
        if not isinstance(value, ast.Call):
            return ""
        return self.resolved(value.func) or dotted(value.func) or ""

    def identities(
        self, part: ast.AST, is_singleton: Callable[[ast.expr, ast.expr], bool]
    ) -> Iterator[tuple[ast.expr, list[Node]]]:
        """Where `is` compares what may be one object, directly or in a function that is given both."""
        match part:
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                with self.inside_of(part):
                    for one in children(part):
                        yield from self.identities(one, is_singleton)
                return
            case ast.Compare(left=left, ops=ops, comparators=others):
                for how, (one, other) in zip(ops, pairwise((left, *others)), strict=True):
                    if isinstance(how, (ast.Is, ast.IsNot)) and not is_singleton(one, other):
                        both = self._in_both(one, other)
                        if both:
                            yield part, both
            case ast.Call(args=given, keywords=words):
                values = [*given, *(word.value for word in words)]
                named = [
                    self.definitions.get(one.id) for one in (part.func, *values) if isinstance(one, ast.Name)
                ]
                if any(_asks_identity(one) for one in (*named, *values) if isinstance(one, _FUNCTIONS)):
                    for one, other in combinations(values, 2):
                        both = self._in_both(one, other)
                        if both:
                            yield part, both
            case ast.Lambda() if _asks_identity(part):
                around = [chain(self.node(name)) for name in sorted(names_read(part.body) & self.variables)]
                if around:
                    yield part, [each for one in around for each in one]
            case _:
                pass
        for one in children(part):
            yield from self.identities(one, is_singleton)

    def _in_both(self, one: ast.expr, other: ast.expr) -> list[Node]:
        """The objects that two expressions may hold both."""
        held = set(chain(self.value(other)))
        return [each for each in chain(self.value(one)) if each in held]

    def _changes_in_place(self, target: ast.expr, op: ast.operator, value: ast.expr) -> bool:
        """Whether `target op= value` may change the container itself."""
        kinds = self.kinds
        if isinstance(op, ast.Mult):
            return kinds is not None and kinds.of(target) == "list"
        is_flat = kinds is not None and FLAT.intersection((kinds.of(value), kinds.of(target)))
        in_place = isinstance(op, ast.Add | ast.BitOr | ast.Sub | ast.BitAnd | ast.BitXor)
        return in_place and not is_flat and may_be_container(value)

    def _changed_around(self, name: str) -> list[Node]:
        """What a function changes of the variables around it, wherever it is called that names it."""
        found = function_of(name, self.definitions.get(name))
        if found is None:
            return []
        return [each for one in sorted(self.summary(found).around) for each in chain(self.node(one))]

    def _changed_by_arguments(self, node: ast.Call) -> list[Node]:
        """What the functions that a call is given change, as in `map(f, xs)`: its other arguments."""
        values = [*node.args, *(word.value for word in node.keywords)]
        for one in values:
            name = one.id if isinstance(one, ast.Name) else ""
            found = function_of(_NO_NAME, one) or function_of(name, self.definitions.get(name))
            if found is not None and self.summary(found).changes:
                others = [each for each in values if each is not one]
                return [each for other in others for each in chain(self.value(other))]
        return []

    def _changed_by(self, name: str, node: ast.Call) -> list[Node]:
        if self.resolved(node.func) in CHANGING_FUNCTIONS or name == "next":
            return [find(self.value(node.args[0]))] if node.args else []
        return [
            each
            for found, itself in self._called(node)
            for each in self._changed_in_call(found, node, itself)
        ]

    def summary(self, function: ast.FunctionDef) -> Summary:
        """What a pure function does to what it is given, and to the variables around it."""
        known = self.functions.summaries.get(function.args)
        if known is not None and function.name != _NO_NAME:
            return known
        self.functions.summaries[function.args] = Summary(True, False, frozenset(), frozenset(), None)
        made = self._summarized(function)
        if made.shape is not None and function.name in names_read(*function.body):
            made = self._summarized(function)
        return made

    def _summarized(self, function: ast.FunctionDef) -> Summary:
        inner = Sharing((), self.functions)
        parameters = [one.arg for one in parameters_of(function.args)]
        for name in parameters:
            inner.node(name)
        for number in range(2):
            inner.is_first = not number
            for one in function.body:
                inner.take(one)
        touched = [node for one in function.body for node in inner.changed(one)]
        outer = [name for name in inner.nodes if name in parameters]
        seeing = inner.seeing(list(inner.nodes), touched)
        changes = not seeing.isdisjoint(outer)
        for name, default in given_by_default(function.args):
            if name in seeing and not isinstance(default, ast.Constant):
                raise Refused(
                    "PYT015",
                    default,
                    f"the default of {name} is one object for all calls of {function.name}, which changes it",
                    f"write {name}=None, and make the object in the function",
                )
        results = _results(function, inner)
        given = [each for one in results for each in chain(one)]
        is_new = not any(each in given for name in outer for each in chain(inner.node(name)))
        own = names_bound(*function.body)
        free = [name for name in inner.nodes if name not in parameters and name not in own]
        around = frozenset(seeing.intersection(free))
        gives = frozenset(name for name in free if any(each in given for each in chain(inner.node(name))))
        numbers = calculated_with(function.body)
        roots = tuple(
            (name, inner.node(name)) for name in dict.fromkeys((*parameters, *free)) if name not in numbers
        )
        within = [each for _, one in roots for each in chain(one)]
        doubled = tuple(one for one in map(find, inner.doubled) if one in within)
        shape = Shape(roots, results, tuple(touched), doubled)
        made = self.functions.summaries[function.args] = Summary(changes, is_new, around, gives, shape)
        return made


def _results(function: ast.FunctionDef, within: Sharing) -> tuple[Node, ...]:
    """The objects that a function may return; what a generator gives is in the one that it returns."""
    returned: list[Node] = []
    items, is_generator = Node(), False
    for one in own_nodes(*function.body):
        is_generator |= isinstance(one, (ast.Yield, ast.YieldFrom))
        match one:
            case ast.Return(value=ast.expr() as value):
                returned.append(within.value(value))
            case ast.Yield(value=ast.expr() as value):
                put(items, within.value(value))
            case ast.YieldFrom(value=value):
                put(items, inside(within.value(value)))
            case _:
                pass
    return (*returned, items) if is_generator else tuple(returned)


def sharing_of(
    function: core.Function,
    made: Sharing,
    shape_of: Callable[[core.Call], Shape],
    is_tree: Callable[[core.Call], bool],
) -> None:
    """Merge what the statements of a function make one object.

    `shape_of` says what a call of an async function lets share, `is_tree` whether no object is in its result
    twice.
    """

    def block(statements: core.Block) -> None:
        for one in statements:
            _take(one, made, shape_of)
            if isinstance(one, core.Call) and one.into and one.helper is not None and not is_tree(one):
                held = find(made.node(one.into))
                made.double_inside(held.fields[0] if one.changes and held.fields else held)
            is_loop = isinstance(one, (core.Loop, core.While))
            made.rounds += [_set_anew(one)] if is_loop else []
            for each in core.blocks_of(one):
                block(each)
            del made.rounds[len(made.rounds) - is_loop :]

    for number in range(2):
        made.is_first = not number
        block(function.body)


def _set_anew(loop: core.Core) -> frozenset[str]:
    """What each round of a loop gives another object: not what a call in it only changes."""
    inside = list(core.all_of([loop]))
    same = {one.takes_back for one in inside if isinstance(one, core.Pure)}
    anew = [one for one in inside if not isinstance(one, core.Pure) or one.takes_back is None]
    names = frozenset(name for one in anew for name in core.bound_by(one))
    return names | (core.bound_names([loop]) - same)


def _take(one: core.Core, made: Sharing, shape_of: Callable[[core.Call], Shape]) -> None:
    if isinstance(one, core.Pure) and one.is_link:
        return
    for part in core.parts_of(one):
        made.take(part)
    match one:
        case core.Call(helper=ast.AsyncFunctionDef()):
            shape = shape_of(one)
            pairs = pairs_of(one, made, shape)
            if one.into is not None:
                result = Node()
                names = [made.node(name) for name in one.changes]
                merge(made.node(one.into), Node([result, *names, Node()]) if names else result)
                pairs += [(each, result) for each in shape.results if not one.is_apart]
                added = dict(zip(one.added, one.changes, strict=bool(one.added)))
                pairs += [(node, made.node(added[name])) for name, node in shape.roots if name in added]
            made.share(pairs, shape, [each.value for each in one.arguments])
            if made.is_first and one.changes and one.into is not None:
                made.note_parts(one.into)
        case core.Loop(target=target, source=source, body=body, into=into):
            merge(made.node(target), made.item_of(source, made.value(source)))
            if into is not None:
                for each in core.all_of(body):
                    if isinstance(each, core.Give):
                        merge(inside(made.node(into)), made.value(each.value))
        case _:
            pass


def pairs_of(call: core.Call, made: Sharing, shape: Shape) -> list[tuple[Node, Node]]:
    """The objects of an async function's parameters, each with the one that a call gives it."""
    given = {each.name: each.value for each in call.arguments}
    return [(node, made.value(given[name])) for name, node in shape.roots if name in given]


def _asks_identity(function: ast.FunctionDef | ast.Lambda) -> bool:
    """Whether a function asks if two of its values are one object."""
    for node in walk(function):
        if isinstance(node, ast.Compare) and any(isinstance(how, (ast.Is, ast.IsNot)) for how in node.ops):
            sides = (node.left, *node.comparators)
            if not any(isinstance(one, ast.Constant) for one in sides):
                return True
    return False
