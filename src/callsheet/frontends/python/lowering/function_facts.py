"""What is known of a function before it is lowered: its variables, and which of its changes others would see.

In: a function of `core` statements. Out: the facts about its variables, and refusals of changes that another
name would see: between calls a plan's variables hold values, and not references.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import NamedTuple, TypeAlias

from callsheet.frontends.python import core
from callsheet.frontends.python.analysis.atomicity import methods_of
from callsheet.frontends.python.analysis.container_words import calculated_with, sets_item, sources_seen
from callsheet.frontends.python.analysis.kinds import ANY, FLAT, OPAQUE, Kinds
from callsheet.frontends.python.analysis.objects import Node, Shape, chain, counterparts, find, holds
from callsheet.frontends.python.analysis.sharing import Sharing, pairs_of, sharing_of
from callsheet.frontends.python.analysis.tree_results import Calls, Trees, is_tree
from callsheet.frontends.python.analysis.unset import with_tests
from callsheet.frontends.python.analysis.unshared import changes_own, unshared, values_in
from callsheet.frontends.python.analysis.variables import Variables
from callsheet.frontends.python.lowering.expressions import Lowering
from callsheet.frontends.python.lowering.links import Facts
from callsheet.frontends.python.program import Program
from callsheet.frontends.python.rewrites.changed_constants import ConstantChanged
from callsheet.frontends.python.source import (
    Refused,
    Text,
    dotted,
    names_bound,
    names_read,
    parameters_of,
    walk,
)

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


class FunctionFacts:
    """The facts about the variables of one function, and the checks of what it changes."""

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
        given: Mapping[str, str],
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
        names = core.bound_names(function.body) | set(function.parameters) | set(function.captured)
        self.names = frozenset(names - set(definitions))
        self.functions = program.functions(definitions)
        self.all_definitions = self.functions.definitions
        self.methods = methods_of(self.all_definitions.values())
        extra = {name: self._captured_by(name) for name in definitions}
        self.variables = Variables(function, self.names, extra)
        if self.variables.unset or self.variables.at_start:
            with_tests(function, self.variables, fresh)
            self.names |= core.bound_names(function.body)
            self.variables = Variables(function, self.names, extra)
        self.kinds = Kinds(
            function, self.all_definitions, program.resolved, self._result_kind, self._changed_kinds, given
        )
        self.keys = _names_of_keys(function)
        self.sharing = Sharing(self.names, self.functions, self.kinds)
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
                self._check_given_new(one)
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
        sharing = Sharing(self.names, self.functions, self.kinds)
        sharing_of(self.function, sharing, self._shape, self._is_tree)
        values = [one.value for one in core.all_of(self.function.body) if isinstance(one, core.Return)]
        if self.function.changes:  # what it gives back is taken back by its caller
            values = [one.elts[0] if isinstance(one, ast.Tuple) else one for one in values]
        results = tuple(sharing.value(one) for one in values if one is not None)
        touched = [
            node
            for one in core.all_of(self.function.body)
            for node in (
                *(each for part in core.parts_of(one) for each in sharing.changed(part)),
                *self._changed_by_call(one, sharing),
            )
        ]
        trees = Trees(self.function, self.kinds, self._carried, self._calls, sharing)
        twice = [
            node
            for name in self.function.changes
            for node in chain(sharing.node(name))
            if not trees.hold_once(_read(name), node)
        ]
        kind = self.kinds.returned(self.function)
        numbers = calculated_with(self.function.node.body)
        roots = tuple(
            (name, sharing.node(name))
            for name in (*self.function.parameters, *self.function.captured)
            if name not in numbers and not self.kinds.is_flat(name)
        )
        within = {each for _, one in roots for each in chain(one)}
        is_fresh = within.isdisjoint(each for one in results for each in chain(one))
        returned = is_tree(self.function, self.kinds, self._carried, self._calls)
        shape = Shape(
            roots,
            () if kind in FLAT else results,
            tuple(one for one in dict.fromkeys(map(find, touched)) if one in within),
            tuple(one for one in map(find, (*sharing.doubled, *twice)) if one in within)
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

    @cached_property
    def _calls(self) -> Calls:
        return Calls(self._is_fresh, self._is_tree)

    def _carried(self, loop: core.Loop | core.While) -> frozenset[str]:
        target = {loop.target} if isinstance(loop, core.Loop) else frozenset[str]()
        return self.variables.entry.get(id(loop.body), frozenset[str]()) - target

    def _holds_once(self, value: ast.expr, node: Node) -> bool:
        """Whether a value surely has each object that a node stands for in one of its places alone."""
        return not self.sharing.is_doubled(node) and self.trees.hold_once(value, node)

    @cached_property
    def trees(self) -> Trees:
        """What is known of the places of objects in values."""
        return Trees(self.function, self.kinds, self._carried, self._calls, self.sharing)

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
        names = {node: name for name, node in shape.roots}
        for node, other in self._given_twice(call, self.sharing) if call.changes else ():
            if not self._is_apart_before(call, names[node]):
                raise Refused(
                    "PYT015",
                    call.node,
                    f"{names[node]} of {call.callee} is changed there, and {names[other]}"
                    " may be the same object, or hold it",
                    "give the function one of them, or a copy: list(…), dict(…), copy.deepcopy(…)",
                )

    def _check_given_new(self, call: core.Call) -> None:
        """Raises Refused (PYT015) where a function changes objects that a literal around them hands on."""
        shape = self._shape(call)
        given = {each.name: each.value for each in call.arguments} if call.changes else {}
        for name, root in shape.roots:
            value = given.get(name)
            if value is None or isinstance(value, ast.Name):
                continue
            outer = self.sharing.value(value)
            changed = counterparts([(root, outer)], shape.changed)
            if self.sharing.seeing(self.names, [one for one in changed if one is not find(outer)]):
                raise Refused(
                    "PYT015",
                    value,
                    f"{call.callee} changes what this {name} holds, which other variables hold too",
                    f"give it a name, as in {name} = …, and read the changed objects from there",
                )

    def _given_twice(self, call: core.Call, sharing: Sharing) -> Iterator[tuple[Node, Node]]:
        """What a function is given and changes, each with what it is given that may be or hold that."""
        shape = self._shape(call)
        given = dict(pairs_of(call, sharing, shape))
        for node, outer in given.items():
            changed = frozenset(counterparts([(node, outer)], shape.changed))
            for other, held in given.items():
                if other is not node and changed and holds(held, changed):
                    yield node, other

    def _is_apart_before(self, call: core.Call, name: str) -> bool:
        """Whether what a function is given under a name gets into its other arguments in this call alone.

        In a loop it has to be a new object in each round, as those of earlier rounds are in them already.
        """
        shape = self._shape(call)
        others = shape._replace(roots=tuple(one for one in shape.roots if one[0] != name))
        before = Sharing(self.names, self.functions, self.kinds)
        sharing_of(
            self.function, before, lambda one: others if one is call else self._shape(one), self._is_tree
        )
        root = dict(shape.roots)[name]
        if any(node is root for node, _ in self._given_twice(call, before)):
            return False
        if not core.is_repeated(call, self.function.body):
            return True
        value = next(each.value for each in call.arguments if each.name == name)
        held = before.value(value)
        return (
            all(find(one) is find(held) for one in counterparts([(root, held)], shape.changed))
            and isinstance(value, ast.Name)
            and core.is_made_before(value.id, call, self.function.body)
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

    def _changed(self, stmt: ast.stmt) -> list[Node]:
        """The objects that a statement changes, if another variable may see them."""
        return [] if self._changes_own(stmt) is not None else self.sharing.changed(stmt)

    def _changes_own(self, stmt: ast.stmt) -> str | None:
        """The variable whose container a statement changes, where no other one has that container."""
        own = changes_own(stmt, self.own.get(id(stmt), frozenset()))
        return None if own is None or any(map(self.sharing.changed, values_in(stmt))) else own

    def _touched(self, stmt: ast.stmt, among: frozenset[str]) -> set[str]:
        """The variables among these whose values a statement changes."""
        own = self._changes_own(stmt)
        if own is not None:
            return {own} & among
        return self.sharing.seeing(among, self.sharing.changed(stmt))

    def _writes(self, stmt: ast.stmt, among: frozenset[str]) -> set[str]:
        """The variables among these that a statement sets or changes."""
        among &= self.names
        return (names_bound(stmt) & among) | self._touched(stmt, among) if among else set()

    def _seers(self, node: Node, among: Iterable[str]) -> list[str]:
        """The variables among these that may see a change of an object, sorted."""
        known = [name for name in among if name in self.names and not self._is_flat(name)]
        return sorted(self.sharing.seeing(known, (node,)))

    def _is_flat(self, name: str) -> bool:
        """Whether a variable has only values that nothing can change."""
        return self.kinds.known.get(name) in FLAT or (
            name in self.keys and self.kinds.known.get(name) != OPAQUE
        )

    def facts(self) -> Facts:
        """What is known of the function's variables."""
        return Facts(
            self.names,
            self.kinds,
            self.sharing,
            self._is_fresh,
            self._is_tree,
            self._holds_once,
            self._changed_by_call,
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
            by_call = self._changed_by_call(one, self.sharing)
            self._check_constants(one, [*every, *by_call])
            if one.takes_back is not None:
                held = names_read(one.stmt)
                for node in by_call:
                    self._check_change(one, node, (frozenset(before) | {one.takes_back}) - held)
                before = frozenset(before) - (held - self.variables.after[id(one)])
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
            for loop in path if changed or by_call else ():
                self._check_items(one, loop, [*changed, *by_call])
            self._check_owner(one, [*changed, *by_call])
            for node in dict.fromkeys(changed) if one.segment is None else ():
                self._check_change(one, node, before)

    def _check_items(self, one: core.Pure, loop: core.Loop, changed: Sequence[Node]) -> None:
        """Note where the item of a loop that is changed may come again in a later round."""
        within = chain(self.sharing.node(loop.target))
        for node in dict.fromkeys(changed):
            if find(node) in within and not loop.together and not self._holds_once(loop.source, node):
                self._note_twice(one, node, ast.unparse(loop.source))

    def _check_constants(self, one: core.Pure, changed: Sequence[Node]) -> None:
        """Note the constants of the file that a statement changes, which pieces of code make anew."""
        if not changed:
            return
        constants = self.sharing.nodes.keys() & self.program.definitions.keys() - self.names
        for name in sorted(self.sharing.seeing(constants, changed)):
            if isinstance(self.program.definitions[name], (ast.Assign, ast.AnnAssign)):
                refusal = ConstantChanged(one.stmt, name, self.program.main.name)
                self.program.changed.setdefault(name, refusal)

    def _check_change(self, one: core.Pure, node: Node, before: frozenset[str] | set[str]) -> None:
        seen = self._seers(node, before)
        if (
            len(seen) == 1
            and not self.sharing.is_top(seen[0], node)
            and (
                self.sharing.is_doubled(node, seen[0])
                or not (seen[0] in self._held or self._holds_once(_read(seen[0]), node))
            )
        ):
            self._note_twice(one, node, self._said(seen[0]))
        if len(seen) < 2:
            return
        kept = next((name for name in reversed(seen) if self._said(name) == name), "x")
        owners = {name: self.relinked[name][0] for name in seen if name in self.relinked}
        pair = [name for name in seen if owners.get(name) in seen]
        if pair and set(seen) == {pair[0], owners[pair[0]]}:
            if not self._holds_once(_read(owners[pair[0]]), node):
                self._note_twice(one, node, owners[pair[0]])
            return
        refusal = Refused(
            "PYT015",
            one.stmt,
            f"this changes what {' and '.join(map(self._said, seen[:2]))} may share: between calls each"
            " variable has a value of its own",
            f"change it before it gets a second name, or make a copy where it does: {kept} = list(…) or"
            " dict(…)",
        )
        self.shared.append((refusal, [node]))

    @cached_property
    def _held(self) -> Set[str]:
        """The variables from which others are taken back after calls, and that nothing reads afterwards."""
        return {
            one.into or ""
            for one in core.all_of(self.function.body)
            if isinstance(one, core.Call) and one.changes
        }

    def _note_twice(self, one: core.Pure, node: Node, holder: str) -> None:
        refusal = Refused(
            "PYT015",
            one.stmt,
            f"what is changed here may be in {holder} more than once",
            "make an object of its own for each: [dict(x) for …], copy.deepcopy(x)",
        )
        self.shared.append((refusal, [node]))

    @cached_property
    def _written_names(self) -> Set[str]:
        """The names that the program writes in the function."""
        return {one.id for one in walk(self.function.node) if isinstance(one, ast.Name)}

    def _said(self, name: str) -> str:
        """A variable as the program calls it: one that holds what a call gives has no name there."""
        is_own = name in self.function.parameters or name in self.function.captured
        if is_own or name in self._written_names:
            return name
        called = next(
            (one.callee for one in core.all_of(self.function.body) if getattr(one, "into", "") == name
             and isinstance(one, core.Call)), None,
        )  # fmt: skip
        return name if called is None else f"the result of {called}"

    def _check_owner(self, one: core.Pure, changed: Sequence[Node]) -> None:
        if self.is_main:
            return
        for name in (*self.function.parameters, *self.function.captured):
            if (
                name not in {*self.function.changes, one.takes_back}
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


def _names_of_keys(function: core.Function) -> frozenset[str]:
    """Variables that are used as keys or indices: their values have a hash, so nothing changes them."""
    found: set[str] = set()
    for one in core.all_of(function.body):
        for part in core.parts_of(one):
            for node in walk(part):
                if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
                    found.add(node.slice.id)
    return frozenset(found)


def _read(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())
