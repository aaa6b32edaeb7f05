"""Pure statements of a function as LET and SET where expressions can say them, else as COMPUTE.

In: runs of pure statements, and the facts about their variables. Out: statements of a plan. What a change
of an object would have to do to a second name of it is kept in one COMPUTE, or `Refused`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, TypeAlias, cast

from callsheet.diagnostics import Span
from callsheet.frontends.pure_code.facts import FACTORY
from callsheet.frontends.python import core
from callsheet.frontends.python.atomicity import kept_after_failure, may_end_half_done, methods_of
from callsheet.frontends.python.container_words import calculated_with, generators_in, sets_item, sources_seen
from callsheet.frontends.python.definitions import has_functions, is_built_in
from callsheet.frontends.python.exceptions import DENIED, TOOL_ERROR
from callsheet.frontends.python.expressions import Lowering, NotSimple, made_span
from callsheet.frontends.python.kinds import ANY, FLAT, NUMBERS, OPAQUE, Kinds
from callsheet.frontends.python.links import Facts
from callsheet.frontends.python.objects import Node, Shape, chain, counterparts, find, holds
from callsheet.frontends.python.products import guarded, in_place, is_product
from callsheet.frontends.python.program import Program
from callsheet.frontends.python.sharing import Sharing, pairs_of, sharing_of
from callsheet.frontends.python.source import (
    Refused,
    Text,
    dotted,
    names_bound,
    names_read,
    own_nodes,
    parameters_of,
    walk,
)
from callsheet.frontends.python.syntax import marked_failure
from callsheet.frontends.python.tree_results import is_tree
from callsheet.frontends.python.unset import with_tests
from callsheet.frontends.python.unshared import changes_own, unshared
from callsheet.frontends.python.variables import PureFlow, Variables, bound_names
from callsheet.ir import expression as ir
from callsheet.ir import tree
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression

Path: TypeAlias = "tuple[core.Loop, ...]"


class Ids:
    """The ids of the steps of a plan, made from names."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def make(self, function: str, name: str) -> str:
        """`function.name`, with a number from the second on."""
        stem = own = f"{function}.{name}"
        number = 1
        while own in self.taken:
            number += 1
            own = f"{stem}{number}"
        self.taken.add(own)
        return own


class Result(NamedTuple):
    """What an async function returns: of which kind, and what is sure of it.

    Whether it is nothing that the function was given, and whether no object stands in it twice; what it
    shares with that, and that within itself. `changed` are the kinds of the variables that the function
    changes.
    """

    kind: str
    is_fresh: bool
    is_tree: bool
    shape: Shape
    changed: tuple[str | None, ...] = ()


_Made: TypeAlias = "tuple[str, Expression, Span | None] | tree.Require"


class Computation:
    """The pure statements of one function, and the facts about its variables."""

    def __init__(  # noqa: PLR0913
        self,
        program: Program,
        function: core.Function,
        definitions: Mapping[str, ast.stmt],
        text: Text,
        ids: Ids,
        fresh: Callable[[str], str],
        plan_names: Mapping[int, str],
        results: dict[int, Result],
        *,
        is_main: bool,
    ) -> None:
        """`definitions` are the pure functions of this function and those around it, by name."""
        self.program, self.function, self.local, self.text, self.ids = (
            program,
            function,
            definitions,
            text,
            ids,
        )
        self.fresh, self.plan_names, self.is_main, self.results = fresh, plan_names, is_main, results
        names = bound_names(function.body) | set(function.parameters) | set(function.captured)
        self.names = frozenset(names - set(definitions))
        self.all_definitions = {**program.definitions, **definitions}
        self.methods = methods_of(self.all_definitions.values())
        extra = {name: self._captured_by(name) for name in definitions}
        self.variables = Variables(function, self.names, extra)
        if self.variables.unset:
            with_tests(function, self.variables, fresh)
            self.names |= bound_names(function.body)
            self.variables = Variables(function, self.names, extra)
        self.kinds = Kinds(
            function, self.all_definitions, program.resolved, self._result_kind, self._changed_kinds
        )
        self.keys = _names_of_keys(function)
        self.sharing = Sharing(self.names, self.all_definitions, program.resolved, self.kinds)
        sharing_of(function, self.sharing, self._shape, self._is_tree)
        self.lowering = Lowering(
            self.kinds,
            self.names,
            self.all_definitions,
            text.span,
            program.resolved,
            tells_attributes=program.tells_attributes,
        )
        if not is_main and id(function.node) not in results:  # once, before its variables are linked
            results[id(function.node)] = self._result()
        self.own = unshared(function, definitions)
        """The variables with a container of their own before each pure statement, by its id."""
        self.shapes: dict[str, int] = {}
        self.shared: list[tuple[Refused, list[Node]]] = []
        """What changes objects that more than one variable holds, and these objects."""
        self.relinked: dict[str, tuple[str, str]] = {}
        """Names of loops whose items are changed: the list that each is an item of, and its number there."""
        self._check_started(function.body)
        for one in core.all_of(function.body):
            if isinstance(one, core.Call) and one.helper is not None:
                self._check_given_twice(one)
            is_linked = isinstance(one, core.Pure) and one.segment is not None
            for part in () if is_linked else core.parts_of(one):
                self._note_identity(part)

    def _note_identity(self, part: ast.AST) -> None:
        """Note in `shared` what `is` asks of two variables: a plan's values would be two objects."""
        for one in () if self.is_main else walk(part):
            if isinstance(one, ast.Compare) and any(isinstance(how, (ast.Is, ast.IsNot)) for how in one.ops):
                self._check_identity(one)
        for node, both in self.sharing.identities(part, self._is_singleton):
            if names_read(node) & self.names:
                refusal = Refused(
                    "PYT015",
                    node,
                    "`is` asks whether two names are one object, and a plan keeps values alone"
                    " between its calls",
                    "compare with ==, or give the objects a field that tells them apart",
                )
                self.shared.append((refusal, both))

    def _check_identity(self, node: ast.Compare) -> None:
        """Raises Refused (PYT015) where `is` asks whether a caller gives one object under two names."""
        sides = [node.left, *node.comparators]
        if any(map(self._is_singleton, sides)):
            return
        roots = [
            {
                name
                for name in (*self.function.parameters, *self.function.captured)
                if not self._is_flat(name)
                and {*chain(self.sharing.node(name))} & {find(self.sharing.value(one))}
            }
            for one in sides
        ]
        if all(roots) and len(set[str]().union(*roots)) > 1:
            raise Refused(
                "PYT015",
                node,
                f"`is` asks whether the caller of {self.function.name} gives it one object twice",
                "compare with ==, or give the objects a field that tells them apart",
            )

    def _is_singleton(self, *sides: ast.expr) -> bool:
        """Whether one side is a constant, or a value that nothing can change."""
        return any(isinstance(one, ast.Constant) or self.kinds.of(one) in FLAT for one in sides)

    def _result(self) -> Result:
        """What the function returns."""
        sharing = Sharing(self.names, self.all_definitions, self.program.resolved, self.kinds)
        sharing_of(self.function, sharing, self._shape, self._is_tree)
        roots = tuple(
            (name, sharing.node(name)) for name in (*self.function.parameters, *self.function.captured)
        )
        values = [one.value for one in core.all_of(self.function.body) if isinstance(one, core.Return)]
        if self.function.changes:  # what it gives back is taken back by its caller
            values = [one.elts[0] if isinstance(one, ast.Tuple) else one for one in values]
        results = tuple(sharing.value(one) for one in values if one is not None)
        kind = self.kinds.returned(self.function)
        numbers = calculated_with(self.function.node.body)
        roots = tuple(
            (name, one) for name, one in roots if name not in numbers and not self.kinds.is_flat(name)
        )
        within = {each for _, one in roots for each in chain(one)}
        is_fresh = within.isdisjoint(each for one in results for each in chain(one))
        returned = is_tree(self.function, self.kinds, self._is_tree)
        touched = [
            find(node)
            for one in core.all_of(self.function.body)
            for node in (
                *(each for part in core.parts_of(one) for each in sharing.changed(part)),
                *self._changed_by_call(one, sharing),
            )
        ]
        shape = Shape(
            roots,
            () if kind in FLAT else results,
            tuple(one for one in dict.fromkeys(touched) if find(one) in within),
            tuple(one for one in map(find, sharing.doubled) if one in within)
            if self.function.changes
            else (),
        )
        changed = tuple(self.kinds.assigned.get(name) for name in self.function.changes)
        return Result(kind, is_fresh, returned, shape, changed)

    def _result_kind(self, call: core.Call) -> str:
        if call.helper is None:
            return ANY
        known = self.results.get(id(call.helper))
        return ANY if known is None else known.kind

    def _changed_kinds(self, call: core.Call) -> tuple[str | None, ...]:
        known = self.results.get(id(call.helper))
        return () if known is None or len(known.changed) != len(call.changes) else known.changed

    def _is_fresh(self, call: core.Call) -> bool:
        known = self.results.get(id(call.helper))
        return known is not None and (known.is_fresh or known.kind in FLAT)

    def _is_tree(self, call: core.Call) -> bool:
        known = self.results.get(id(call.helper))
        return known is not None and (known.is_tree or known.kind in FLAT)

    def _shape(self, call: core.Call) -> Shape:
        return self.results[id(call.helper)].shape

    def _check_started(self, block: core.Block) -> None:
        """Raises Refused (PYT015) for a change, before the next await, of what a task was started with."""
        started: list[core.Call] = []
        for one in block:
            for inner in core.blocks_of(one):
                self._check_started(inner)
            inside = list(core.all_of([one]))
            mine = [each for each in inside if isinstance(each, core.Call) and each.is_started]
            if mine:
                started += mine
                continue
            if any(isinstance(each, (core.Call, core.Wait, core.Together)) for each in inside):
                started = []
            for each in inside if started else ():
                self._check_unchanged(each, started)

    def _check_unchanged(self, one: core.Core, started: Sequence[core.Call]) -> None:
        changed = frozenset(find(node) for part in core.parts_of(one) for node in self.sharing.changed(part))
        bound = core.bound_by(one)
        for call in started:
            own = {each.arg for each in parameters_of(call.helper.args)} if call.helper else frozenset[str]()
            for each in call.arguments:
                value = each.value
                is_seen = isinstance(value, ast.Name) and value.id == each.name and each.name not in own
                if (call.helper and is_seen and each.name in bound) or (
                    changed and holds(self.sharing.value(value), changed)
                ):
                    raise Refused(
                        "PYT015",
                        one.stmt if isinstance(one, core.Pure) else one.node,
                        f"this changes what {call.callee} was started with, before it runs",
                        "change it before the task is started, or give the task a copy",
                    )

    def _changed_by_call(self, one: core.Core, sharing: Sharing) -> list[Node]:
        """The objects that a function has changed whose call a variable is taken back from."""
        if not isinstance(one, core.Pure) or one.takes_back is None or one.of is None:
            return []
        shape, node = self._shape(one.of), sharing.node(one.takes_back)
        given = {each.name: each.value for each in one.of.arguments}
        of_it = [
            (inner, node)
            for name, inner in shape.roots
            if isinstance(value := given.get(name), ast.Name) and value.id == one.takes_back
        ]
        return [find(node), *counterparts(of_it, shape.changed)]

    def _check_given_twice(self, call: core.Call) -> None:
        """Raises Refused (PYT015) where a function changes what it is given under two names."""
        shape = self._shape(call)
        given = dict(pairs_of(call, self.sharing, shape))
        names = {node: name for name, node in shape.roots}
        for node, outer in given.items() if call.changes else ():
            changed = frozenset(counterparts([(node, outer)], shape.changed))
            for other, held in given.items():
                if other is not node and changed and holds(held, changed):
                    raise Refused(
                        "PYT015",
                        call.node,
                        f"{names[node]} of {call.callee} is changed there, and {names[other]}"
                        " may be the same object, or hold it",
                        "give the function one of them, or a copy: list(…), dict(…), copy.deepcopy(…)",
                    )

    def _captured_by(self, name: str) -> frozenset[str]:
        """The variables that a local function reads, also through others."""
        found: set[str] = set()
        todo, seen = [name], {name}
        while todo:
            definition = self.local.get(todo.pop())
            if definition is None:
                continue
            for one in names_read(definition):
                if one in self.local and one not in seen:
                    seen.add(one)
                    todo.append(one)
                found.add(one)
        return frozenset(found)

    def is_here(self, name: str, path: Path) -> bool:
        """Whether a variable belongs to the innermost scope around the place."""
        return self.variables.scope(name, path) is (path[-1] if path else None)

    def flush(
        self,
        group: Sequence[core.Pure],
        needed: frozenset[str] | set[str],
        path: Path,
        out: list[tree.Statement],
        before: frozenset[str] | set[str] | None = None,
        caught: frozenset[str] | None = None,
    ) -> None:
        """Pure statements as LET and SET where their expressions allow it, else as COMPUTE.

        `needed` are the variables that are needed after them, `before` those that have a value before them,
        `caught` those that handlers need if one of them fails.
        """
        for one in group:
            self._guard_product(one)
        first = id(group[0])
        before = self.variables.before.get(first, before or frozenset())
        caught = self.variables.caught.get(first, caught or frozenset()) & self.names
        self._check_sharing(group, before, path)
        for part, rest in self._parts(group, caught, before):
            later = self._reads_first([one.stmt for one in rest])
            self._part(part, frozenset(needed) | later | caught, path, out, before, caught)
            before = frozenset(before) | {name for one in part for name in core.bound_by(one)}

    def _guard_product(self, one: core.Pure) -> None:
        """Let `x *= n` change a list; where its kind is not known, fail if something else may hold it."""
        if any(is_product(each) for each in walk(one.stmt)):
            one.stmt = in_place(one.stmt, lambda target: self.kinds.of(target) == "list")
        stmt = one.stmt
        if not isinstance(stmt, ast.AugAssign) or not is_product(stmt):
            return
        if self.kinds.of(stmt.target) in {*FLAT, "list", "tuple"} or self.kinds.of(stmt.value) == "float":
            return
        node = find(self.sharing.value(stmt.target))
        others = {
            name for name in self.names if self.sharing.reaches(name, (node,)) and not self._is_flat(name)
        }
        given = set[str]() if self.is_main else {*self.function.parameters, *self.function.captured}
        is_name = isinstance(stmt.target, ast.Name)
        if len(others) > 1 or (is_name and others & given):
            one.stmt = ast.copy_location(ast.If(ast.Constant(True), guarded(stmt), []), stmt)

    def _parts(
        self, group: Sequence[core.Pure], caught: frozenset[str], before: frozenset[str] | set[str]
    ) -> list[tuple[list[core.Pure], list[core.Pure]]]:
        """Pure statements in parts, each with its rest: a handler sees what was set before a failure.

        A name and a change that is seen through it stay in one part.
        """
        if not caught:
            return [(list(group), [])]
        ends = {number for number, one in enumerate(group) if self._writes(one.stmt) & caught}
        for start, last in self._references(group, before):
            ends -= set(range(start, last))
        ends = {self._end_of_segment(group, number) for number in ends}
        bounds = [0, *(number + 1 for number in sorted(ends)), len(group)]
        return [(list(group[start:end]), list(group[end:])) for start, end in pairwise(bounds) if start < end]

    @staticmethod
    def _end_of_segment(group: Sequence[core.Pure], number: int) -> int:
        """The last statement of those that follow the changes of shared objects together with this one."""
        segment = group[number].segment
        while segment is not None and number + 1 < len(group) and group[number + 1].segment == segment:
            number += 1
        return number

    def _changed(self, stmt: ast.stmt) -> list[Node]:
        """The objects that a statement changes, if another variable may see them."""
        return [] if self._changes_own(stmt) is not None else self.sharing.changed(stmt)

    def _changes_own(self, stmt: ast.stmt) -> str | None:
        """The variable whose container a statement changes, where no other one has that container."""
        return changes_own(stmt, self.own.get(id(stmt), frozenset()))

    def _touched(self, stmt: ast.stmt, among: frozenset[str]) -> set[str]:
        """The variables among these whose values a statement changes."""
        own = self._changes_own(stmt)
        if own is not None:
            return {own} & among
        changed = frozenset(map(find, self.sharing.changed(stmt)))
        return {name for name in among if self.sharing.reaches(name, changed)} if changed else set()

    def _writes(self, stmt: ast.stmt) -> frozenset[str]:
        """The variables that a statement sets or changes."""
        touched = self._touched(stmt, self.names)
        return frozenset((names_bound(stmt) & self.names) | touched)

    def _part(
        self,
        group: Sequence[core.Pure],
        needed: frozenset[str],
        path: Path,
        out: list[tree.Statement],
        before: frozenset[str] | set[str],
        caught: frozenset[str],
    ) -> None:
        simple = [None if one.segment is not None else self._simple(one.stmt) for one in group]
        first = next((number for number, each in enumerate(simple) if each is None), len(group))
        last = max((number for number, each in enumerate(simple) if each is None), default=-1)
        first, last = self._with_references(group, first, last, before)
        for number in range(first):
            self._lets(cast("list[_Made]", simple[number]), path, out)
            before = frozenset(before) | core.bound_by(group[number])
        if first <= last:
            later = self._reads_first([one.stmt for one in group[last + 1 :]])
            body = [one.stmt for one in group[first : last + 1]]
            if group[last].is_link and not core.bound_by(group[last]) & (needed | later):
                body.pop()  # nothing asks any more which objects are shared
            keeps = self._kept(body, caught)
            self._compute(body, needed | later, path, out, before, keeps)
            for number in range(last + 1, len(group)):
                self._lets(cast("list[_Made]", simple[number]), path, out)

    def _kept(self, body: Sequence[ast.stmt], caught: frozenset[str]) -> frozenset[str]:
        """What of the variables that handlers need statements may have set or changed when they fail."""
        *first, last = body
        written = frozenset[str]().union(*map(self._writes, first)) & caught
        touched = self._writes(last) & caught
        if not written and (not touched or not self._may_end_half_done(last)):
            return frozenset()
        return written | touched

    def _may_end_half_done(self, stmt: ast.stmt) -> bool:
        return may_end_half_done(
            stmt, lambda node: bool(self.sharing.changed(node)), self.kinds.of, self.methods
        )

    def _with_references(
        self, group: Sequence[core.Pure], first: int, last: int, before: frozenset[str] | set[str]
    ) -> tuple[int, int]:
        """What of a group has to be one COMPUTE, since a change in it is seen through a second name of it."""
        for start, end in self._references(group, before):
            first, last = min(first, start), max(last, end)
        return first, last

    def _references(
        self, group: Sequence[core.Pure], before: frozenset[str] | set[str]
    ) -> Iterator[tuple[int, int]]:
        """From where to where a group has a second name of an object and a change that it sees."""
        for number, one in enumerate(group):
            for node in self._changed(one.stmt):
                bound = {name for each in group[:number] for name in core.bound_by(each)}
                seen = [
                    name
                    for name in sorted((bound | set(before)) & self.names)
                    if not self._is_flat(name) and self.sharing.reaches(name, (node,))
                ]
                if len(seen) < 2 and not self.sharing.is_doubled(node):
                    continue
                yield (
                    next((at for at, each in enumerate(group) if core.bound_by(each) & set(seen)), number),
                    number,
                )

    def _is_flat(self, name: str) -> bool:
        """Whether a variable has only values that nothing can change."""
        return self.kinds.known.get(name) in FLAT or (
            name in self.keys and self.kinds.known.get(name) != OPAQUE
        )

    def _reads_first(self, body: Sequence[ast.stmt]) -> frozenset[str]:
        flow = PureFlow()
        flow.run(body)
        return self._with_captured(flow.exposed)

    def _with_captured(self, found: Iterable[str]) -> frozenset[str]:
        made = set(found)
        for name in found:
            if name in self.local:
                made |= self._captured_by(name)
        return frozenset(made & self.names)

    def _lets(self, made: Sequence[_Made], path: Path, out: list[tree.Statement]) -> None:
        for one in made:
            if isinstance(one, tree.Require):
                out.append(one)
            else:
                name, value, span = one
                out.append(self.write(name, value, path, span))

    def write(self, name: str, value: Expression, path: Path, span: Span | None) -> tree.Statement:
        """A statement that gives a variable a value."""
        if self.is_here(name, path) or name not in self.variables.scopes:
            return tree.Let("", name, value, span=span)
        return tree.Assign("", name, value, span=span)

    def _simple(self, stmt: ast.stmt) -> list[_Made] | None:
        """The assignments that a statement is, None if it is more than expressions can say."""
        try:
            return self._as_assignments(stmt)
        except NotSimple:
            return None

    def _as_assignments(self, stmt: ast.stmt) -> list[_Made]:
        span = self.text.span(stmt)
        match stmt:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return [(name, self.lowering.expression(value), span)]
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                return [(name, self.lowering.expression(value), span)]
            case ast.AnnAssign(value=None):
                return []
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                return self._unpacked(targets, value, span)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                return [(name, self._increased(name, op, value, span), span)]
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=key)], value=value):
                self._must_be(name, "dict")
                item = ir.Mapping(((self.lowering.expression(key), self.lowering.expression(value)),), span)
                return [(name, ir.Binary(ir.BinaryOp.UNION, ir.Variable(name, span), item, span), span)]
            case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name), slice=key), op=op, value=value):
                self._must_be(name, "dict")
                if self.kinds.of(value) not in NUMBERS | {"str"}:
                    raise NotSimple
                at = ast.Subscript(ast.Name(name, ast.Load()), key, ast.Load())
                total = ast.fix_missing_locations(ast.copy_location(ast.BinOp(at, op, value), stmt))
                item = ir.Mapping(((self.lowering.expression(key), self.lowering.expression(total)),), span)
                return [(name, ir.Binary(ir.BinaryOp.UNION, ir.Variable(name, span), item, span), span)]
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr=method), args=[value], keywords=[]
                )
            ) if method in {"append", "add"} and name in self.names:
                self._must_be(name, "list" if method == "append" else "set")
                kind = ir.Kind.LIST if method == "append" else ir.Kind.SET
                if isinstance(value, ast.Starred):
                    raise NotSimple
                item = ir.Display(kind, (self.lowering.expression(value),), span)
                op_ = ir.BinaryOp.ADD if method == "append" else ir.BinaryOp.UNION
                return [(name, ir.Binary(op_, ir.Variable(name, span), item, span), span)]
            case ast.Assert(test=test, msg=message):
                condition = self.lowering.expression(test)
                made = None if message is None else self.lowering.expression(message)
                if message is not None and self.kinds.of(message) != "str" and made is not None:
                    made = ir.Call("pystr", (made,), (), made_span(made))
                return [tree.Require("", condition, made, span=span)]
            case _:
                raise NotSimple

    def _must_be(self, name: str, kind: str) -> None:
        if name not in self.names or self.kinds.known.get(name) != kind:
            raise NotSimple

    def _unpacked(self, targets: Sequence[ast.expr], value: ast.expr, span: Span | None) -> list[_Made]:
        names = [one.id for one in targets if isinstance(one, ast.Name)]
        if len(names) < len(targets) or len(set(names)) < len(names):
            raise NotSimple
        if isinstance(value, ast.Name) and self.shapes.get(value.id) == len(names):
            held = ir.Variable(value.id, span)
            return [
                (name, ir.Index(held, Literal(number), False, span), span)
                for number, name in enumerate(names)
            ]
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(names):
            if set(names) & names_read(value):
                raise NotSimple
            return [
                (name, self.lowering.expression(one), span)
                for name, one in zip(names, value.elts, strict=True)
            ]
        raise NotSimple

    def _increased(self, name: str, op: ast.operator, value: ast.expr, span: Span | None) -> Expression:
        kind, other = self.kinds.known.get(name, ANY), self.kinds.of(value)
        fits = (
            kind in NUMBERS
            or (kind == "str" and isinstance(op, ast.Add))
            or (kind == other and kind in {"list", "tuple", "set"})
            or (other in NUMBERS | {"str"} and isinstance(op, (ast.Add, ast.Sub)))
        )
        if name not in self.names or not fits:
            raise NotSimple
        made = ast.copy_location(ast.BinOp(ast.Name(name, ast.Load()), op, value), value)
        ast.fix_missing_locations(made)
        lowered = self.lowering.expression(made)
        return replace(lowered, span=span) if isinstance(lowered, ir.Binary) else lowered

    def _compute(  # noqa: PLR0915 - one after another
        self,
        body: Sequence[ast.stmt],
        needed: frozenset[str],
        path: Path,
        out: list[tree.Statement],
        before: frozenset[str] | set[str],
        keeps: frozenset[str] = frozenset(),
    ) -> None:
        """A COMPUTE; where it fails, `keeps` are set to what they are then, and the failure follows."""
        self._check_functions(body, needed)
        flow = PureFlow()
        done = flow.run(body)
        reads = set(self._with_captured(flow.exposed))
        bound = {name for one in body for name in names_bound(one)} & self.names
        reads -= bound - set(before) - set(flow.exposed)  # a local function reads what is set first here
        changed = [node for one in body for node in self.sharing.changed(one)]
        among = frozenset(needed & self.names)
        touched = {name for one in body for name in self._touched(one, among)}
        outputs = sorted(
            name for name in (bound | touched) & needed if name in (done or set()) or name in before
        )
        self._check_generators(body, outputs)
        carries = bool(self.program.error_fields) and self._may_raise_own(body)
        sure = set[str]() if keeps or done is None else done
        reads |= {name for name in outputs if name not in sure and name in before}
        start: list[str] = []
        for name, (owner, number) in self.relinked.items():
            if name in reads and self.sharing.reaches(name, changed):
                start.append(f"{name} = {owner}[{number}]")
                reads = (reads - {name}) | {owner, number}
                if owner not in outputs:
                    outputs.append(owner)
        for name in sorted(reads & self.kinds.errors):  # a failure is no data: its record is
            record = self.fresh("record")
            plain = marked_failure(name, body[0], self.program.own_errors())
            out.append(tree.Let("", record, self.lowering.expression(plain)))
            start.append(f"{name} = {record}")
            reads = (reads - {name}) | {record}
        renamed = {
            name: self.fresh(name)
            for name in outputs
            if name in self.variables.scopes and not self.is_here(name, path)
        }
        stores = {name: _stored(held, name, body[-1]) for name, held in renamed.items()}
        failed = self.fresh("failed") if keeps or carries else None
        if failed is None:
            body = [*body, *stores.values()]
        else:
            body = kept_after_failure(
                [*body, *(one for name, one in stores.items() if name not in keeps)],
                failed,
                self.program.error_fields,
            )
            body += [one for name, one in stores.items() if name in keeps]
        source = self._source(body, start)
        span = _around(self.text, body)
        into = [renamed.get(name, name) for name in outputs]
        own = self.ids.make(self.function.name, self._compute_label(outputs))
        names = (*into, failed) if failed is not None else tuple(into)
        out.append(tree.Compute(own, source, tuple(sorted(reads)), names, span=span))

        def assign(name: str) -> None:
            out.append(tree.Assign("", name, ir.Variable(renamed[name], span), span=span))

        if failed is not None:
            for name in renamed:
                if name in keeps:
                    assign(name)
            held = ir.Variable(failed, span)
            test = ir.Compared(held, ((ir.Comparison.IS_NOT, Literal(None)),), span)
            again = tree.Say("", tree.Word.FAIL, (held,), span=span)
            out.append(tree.If("", (tree.Branch(test, (again,)),), is_named=False, span=span))
        for name in renamed:
            if name not in keeps:
                assign(name)

    def _may_raise_own(self, body: Sequence[ast.stmt]) -> bool:
        """Whether statements may raise an exception of the program's own class."""
        found = self.program.definitions_for(names_read(*body), self.local)
        own = self.program.exceptions.own
        return any(
            isinstance(one, ast.Raise) and one.exc is not None and bool(names_read(one.exc) & own.keys())
            for part in (*body, *found.values())
            for one in walk(part)
        )

    def _check_functions(self, body: Sequence[ast.stmt], needed: frozenset[str]) -> None:
        """Raises Refused (PYT019) for functions that a variable would have to keep over a call."""
        for one in (each for part in body for each in own_nodes(part)):
            match one:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[ast.Lambda()]
                ) if name in needed:
                    raise Refused(
                        "PYT019",
                        one,
                        "a function is kept in a value, and a plan keeps values alone between its calls",
                        "write the table as one literal, or define the functions with def",
                    )
                case _:
                    pass
        for one in body:
            if not (isinstance(one, ast.Assign) and names_bound(one) & needed):
                continue
            if isinstance(one.value, ast.Call) and (self.program.resolved(one.value.func) or "").startswith(
                "hashlib."
            ):
                raise Refused(
                    "PYT019",
                    one.value,
                    "a hash that is not yet made is kept in a variable, and a plan keeps values alone between"
                    " its calls",
                    "collect what goes into it in a list, and make it at once:"
                    ' hashlib.sha256(b"".join(parts)).hexdigest()',
                )
            if has_functions(
                one.value, self._is_pure_function, self.program.resolved, self.all_definitions.get
            ):
                raise Refused(
                    "PYT019",
                    one.value,
                    "a function is kept in a value, and a plan keeps values alone between its calls",
                    "define it with def, and call it where it is needed",
                )

    def _is_pure_function(self, name: str) -> bool:
        if name in self.names:
            return False
        found = self.all_definitions.get(name)
        return isinstance(found, ast.FunctionDef) or (found is None and is_built_in(name))

    def _check_generators(self, body: Sequence[ast.stmt], outputs: Sequence[str]) -> None:
        """Raises Refused (PYT015) for a generator that is kept over a call, and reads what is set again."""
        for one in body:
            if not isinstance(one, (ast.Assign, ast.AnnAssign)) or one.value is None:
                continue
            is_kept = bool(names_bound(one) & {*outputs})
            if is_kept and _is_view(one.value):
                raise Refused(
                    "PYT015",
                    one.value,
                    "this looks at a dict, and is kept over a call",
                    f"write a list, which is made once: list({ast.unparse(one.value)})",
                )
            for made, late in generators_in(one.value) if is_kept else ():
                for name in sorted(late & self.names):
                    if sum(name in core.bound_by(each) for each in core.all_of(self.function.body)) > 1:
                        is_plain = isinstance(made, ast.GeneratorExp)
                        text = f"[{ast.unparse(made)[1:-1]}]" if is_plain else f"list({ast.unparse(made)})"
                        raise Refused(
                            "PYT015",
                            made,
                            f"this generator would see later values of {name}, and is kept over a call",
                            f"write a list: {text}",
                        )

    def _compute_label(self, outputs: Sequence[str]) -> str:
        named = [name for name in outputs if not name.rpartition("_")[2].isdigit()]
        return named[-1] if named else "compute"

    def _source(self, body: Sequence[ast.stmt], start: Sequence[str]) -> str:
        """The text of a COMPUTE, with the definitions it needs."""
        wanted = names_read(*body)
        own = self.program.exceptions.own
        classes = {
            name
            for name, one in self.all_definitions.items()
            if (isinstance(one, ast.ClassDef) and name not in own) or name.startswith(FACTORY)
        }
        needs_classes = classes if wanted & self.names else set[str]()
        found = self.program.definitions_for(wanted | needs_classes, self.local)
        self.program.computed += body
        self.program.computed_definitions |= found
        parts = [ast.unparse(one) for one in dict.fromkeys(found.values())]
        reached = wanted | names_read(*found.values())
        parts[:0] = [
            f"class {name}(Exception):\n    pass" for name in (DENIED, TOOL_ERROR) if name in reached
        ]
        return "\n".join([*parts, *start, *(ast.unparse(one) for one in body)])

    def facts(self) -> Facts:
        """What is known of the function's variables."""
        return Facts(
            self.names,
            self.kinds,
            self.sharing,
            self._is_fresh,
            self._is_tree,
            self.variables.extra,
            self.all_definitions,
        )

    def _check_sharing(
        self, group: Sequence[core.Pure], before: frozenset[str] | set[str], path: Path
    ) -> None:
        """Note in `shared` where a change would have to be seen through another variable too.

        Raises Refused (PYT015) where no run can be right.
        """
        for one in group:
            changed, every = self._changed(one.stmt), self.sharing.changed(one.stmt)
            self._check_constants(one, every)
            if one.takes_back is not None:
                others = (frozenset(before) | {one.takes_back}) - names_read(one.stmt)
                for node in self._changed_by_call(one, self.sharing):
                    self._check_change(one, node, others)
            for loop in path if every else ():
                for source in [] if loop.together else sources_seen(loop.source):
                    held = find(self.sharing.value(source))
                    if held in every and not _sets_own_item(one.stmt, loop):
                        raise Refused(
                            "PYT015",
                            one.stmt,
                            f"{source.id} is changed while a loop goes through it",
                            f"go through a copy: for … in list({source.id})",
                        )
            if changed:
                self._check_owner(one, changed)
            for node in dict.fromkeys(changed) if one.segment is None else ():
                self._check_change(one, node, before)

    def _check_constants(self, one: core.Pure, changed: Sequence[Node]) -> None:
        """Raises Refused (PYT015) for a change of a constant of the file, which pieces of code make anew."""
        if not changed:
            return
        for name in sorted(self.sharing.nodes.keys() & self.program.definitions.keys() - self.names):
            made = self.program.definitions[name]
            if isinstance(made, (ast.Assign, ast.AnnAssign)) and self.sharing.reaches(name, changed):
                main = self.program.main.name
                raise Refused(
                    "PYT015",
                    one.stmt,
                    f"{name} is a constant of the file, and is changed here",
                    f"make it in {main}, where it is a variable, and define the functions that change it in"
                    f" {main}, or return what is new",
                )

    def _check_change(self, one: core.Pure, node: Node, before: frozenset[str] | set[str]) -> None:
        seen = sorted(
            name
            for name in before
            if name in self.names and not self._is_flat(name) and self.sharing.reaches(name, (node,))
        )
        if (
            len(seen) == 1
            and self.sharing.is_doubled(node, seen[0])
            and not self.sharing.is_top(seen[0], node)
        ):
            refusal = Refused(
                "PYT015",
                one.stmt,
                f"what is changed here may be in {seen[0]} more than once",
                "make an object of its own for each: [dict(x) for …], copy.deepcopy(x)",
            )
            self.shared.append((refusal, [node]))
        if len(seen) < 2:
            return
        relinked = {name: owner for name, (owner, _) in self.relinked.items()}
        pair = [name for name in seen if relinked.get(name) in seen]
        if pair and set(seen) == {pair[0], relinked[pair[0]]}:
            return
        refusal = Refused(
            "PYT015",
            one.stmt,
            f"this changes what {' and '.join(seen[:2])} may share: between calls each variable has a "
            "value of its own",
            f"change it before it gets a second name, or make a copy where it does: {seen[-1]} = list(…) "
            "or dict(…)",
        )
        self.shared.append((refusal, [node]))

    def _check_owner(self, one: core.Pure, changed: Sequence[Node]) -> None:
        if self.is_main:
            return
        for name in (*self.function.parameters, *self.function.captured):
            if (
                name not in self.function.changes
                and name in self.names
                and any(find(node) in chain(self.sharing.node(name)) for node in changed)
            ):
                raise Refused(
                    "PYT015",
                    one.stmt,
                    f"{name} belongs to the caller of {self.function.name}, and is changed here",
                    f"make a copy under another name, return it, and assign it where {self.function.name} "
                    "is called",
                )


def grouped(node: ast.expr) -> ast.expr:
    """What `groupby` gives, as a list of keys with the list of each group."""
    made = cast("ast.ListComp", ast.parse("[(_key, list(_group)) for _key, _group in x]", mode="eval").body)
    made.generators[0].iter = node
    inside = {id(one) for one in walk(node)}
    for one in walk(made):
        if id(one) not in inside:
            ast.copy_location(one, node)
    return made


def _is_view(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="keys" | "values" | "items"), args=[], keywords=[]):
            return True
        case _:
            return False


def _sets_own_item(stmt: ast.stmt, loop: core.Loop) -> bool:
    """Whether a statement sets the very item at which a loop over `enumerate` is."""
    match loop.body[0] if loop.body else None, stmt:
        case (
            core.Pure(stmt=ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=number), *_])])),
            ast.Assign(targets=[ast.Subscript(slice=ast.Name(id=at))])
            | ast.AugAssign(target=ast.Subscript(slice=ast.Name(id=at))),
        ):
            is_counted = isinstance(loop.source, ast.Call) and dotted(loop.source.func) == "enumerate"
            return is_counted and at == number and sets_item(stmt)
        case _:
            return False


def _stored(name: str, value: str, place: ast.stmt) -> ast.stmt:
    made = ast.Assign([ast.Name(name, ast.Store())], ast.Name(value, ast.Load()))
    return ast.fix_missing_locations(ast.copy_location(made, place))


def _names_of_keys(function: core.Function) -> frozenset[str]:
    """Variables that are used as keys or indices: their values have a hash, so nothing changes them."""
    found: set[str] = set()
    for one in core.all_of(function.body):
        for part in core.parts_of(one):
            for node in walk(part):
                if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
                    found.add(node.slice.id)
    return frozenset(found)


def _around(text: Text, body: Sequence[ast.stmt]) -> Span | None:
    spans = [span for one in body if (span := text.span(one)) is not None]
    return None if not spans else Span(min(one.start for one in spans), max(one.end for one in spans))
