"""Async functions that change what belongs to their caller: they return it, and the call takes it back.

In: a function of `core` statements. Out: the same function, whose result is a tuple of its own result and of
what it has changed; and callers that assign each part. That is what Python does as long as such calls stand
one after another.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from callsheet.frontends.python import core
from callsheet.frontends.python.analysis.atomicity import may_end_half_done, methods_of
from callsheet.frontends.python.analysis.container_words import LAZY
from callsheet.frontends.python.analysis.kinds import ANY, Kinds
from callsheet.frontends.python.analysis.objects import NOTHING_SHARED, chain, find
from callsheet.frontends.python.analysis.shared_values import Functions
from callsheet.frontends.python.analysis.sharing import Sharing, sharing_of
from callsheet.frontends.python.analysis.turns import is_locked, looks_after_wait, runs_in_turn
from callsheet.frontends.python.error_values import as_group, is_marked
from callsheet.frontends.python.lowering.additions import added_after, added_after_all, raised_if
from callsheet.frontends.python.rewrites.inlining import name_called
from callsheet.frontends.python.rewrites.task_words import RUNNERS
from callsheet.frontends.python.source import (
    Refused,
    among,
    dotted,
    is_named,
    names_read,
    own_nodes,
    returned_names,
    walk,
)
from callsheet.frontends.python.syntax import assigned, marked_failure, parsed, parsed_lines


def sharing_alone(function: core.Function, functions: Functions) -> Sharing:
    """What the statements of a function make one object, every call of another giving what is new."""
    names = core.bound_names(function.body) | set(function.parameters) | set(function.captured)
    kinds = Kinds(function, functions.definitions, functions.resolved, lambda _: ANY, lambda _: ())
    sharing = Sharing(names, functions, kinds)
    sharing_of(function, sharing, lambda _: NOTHING_SHARED, lambda _: True)
    return sharing


def changes_of(function: core.Function, sharing: Sharing, fresh: Callable[[str], str]) -> tuple[str, ...]:
    """The parameters whose values a function changes, and the captured variables that it changes or sets."""
    bound = core.bound_names(function.body)
    pure = _pure(function.body)
    parts = [part for one in core.all_of(function.body) for part in core.parts_of(one)]
    taken_back = {one.takes_back for one in pure if one.takes_back is not None}
    changed = [node for part in parts for node in sharing.changed(part)]
    changed += map(sharing.node, sorted(taken_back))
    taken_back -= {name for one in core.all_of(function.body) if _is_own(one) for name in core.bound_by(one)}
    found = [name for name in function.captured if name in bound]
    function.sets = _set_anew(function) & frozenset(found)
    function.always_sets = frozenset(name for name in function.sets if _always_sets(function.body, name))
    in_place = {one.takes_back for one in pure if not one.is_another} | taken_back
    function.changes_in_place = frozenset(
        name
        for name in function.captured
        if name in in_place or any(find(node) in chain(sharing.node(name)) for node in changed)
    )
    for name in (*function.parameters, *function.captured):
        within = chain(sharing.node(name))
        is_changed = any(find(node) in within for node in changed)
        if name not in found and (is_changed or name in taken_back):
            if name in bound and name in function.parameters and name not in taken_back:
                if not core.is_set_if_none(function.body, name):
                    continue  # another value under the name of a parameter: its check is that of sharing
                function.made_here[name] = fresh(name)
            found.append(name)
    for name in found:
        default = function.defaults.get(name)
        if default is not None and not isinstance(default, ast.Constant):
            raise Refused(
                "PYT015",
                default,
                f"the default of {name} is one object for all calls of {function.name}, which changes it",
                f"write {name}=None, and make a new one if it is None",
            )
    return tuple(found)


def _set_anew(function: core.Function) -> frozenset[str]:
    """The variables that a function gives another object: not what only `+=` sets, or a call takes back."""
    found: set[str] = set()
    for one in core.all_of(function.body):
        match one:
            case core.Pure(takes_back=str() as name):
                found |= {name} if one.is_another else set()
            case core.Pure(stmt=stmt):
                added = {id(each.target) for each in among(walk(stmt), ast.AugAssign)}
                stored = (each for each in among(walk(stmt), ast.Name) if isinstance(each.ctx, ast.Store))
                found |= core.bound_by(one) & {each.id for each in stored if id(each) not in added}
            case core.Loop(target=target):
                found |= {target, *core.bound_by(one)}
            case core.Attempt(handlers=handlers):
                found |= {each.binds for each in handlers}
            case _:
                found |= core.bound_by(one)
    return frozenset(found)


def _always_sets(block: core.Block, name: str) -> bool:
    """Whether a block gives a variable an object before it can end."""
    for one in block:
        match one:
            case core.Pure(stmt=ast.Assign() | ast.AnnAssign(), is_another=False):
                if name in core.bound_by(one) and one.takes_back is None:
                    return True
            case core.Call(into=into):
                if into == name:
                    return True
            case core.Choice(then=then, otherwise=otherwise):
                if _always_sets(then, name) and _always_sets(otherwise, name):
                    return True
            case _:
                pass
        if any(isinstance(each, core.Return) for each in core.all_of([one])):
            return False
    return False


def _is_own(one: core.Core) -> bool:
    """Whether what a statement binds is set there by the function itself."""
    return not (isinstance(one, core.Pure) and one.takes_back is not None)


class Effects(NamedTuple):
    """What is known of the parts of a function: whether one changes something, and then may fail."""

    changes: Callable[[ast.AST], bool]
    half_done: Callable[[ast.stmt], bool]


def effects_in(sharing: Sharing) -> Effects:
    """What the parts of a function do to what is shared."""
    methods = methods_of(sharing.definitions.values())

    def changes(node: ast.AST) -> bool:
        return bool(sharing.changed(node))

    def half_done(stmt: ast.stmt) -> bool:
        return may_end_half_done(stmt, changes, lambda _: ANY, methods)

    return Effects(changes, half_done)


def _pure(block: core.Block) -> list[core.Pure]:
    return [one for one in core.all_of(block) if isinstance(one, core.Pure)]


def give_back(
    function: core.Function,
    changes: tuple[str, ...],
    effects: Effects,
    functions: Mapping[int, core.Function],
) -> None:
    """Let a function return what it changes behind its result, and behind that None for a failure."""
    function.changes = changes
    place = function.node.body[-1]
    for name, flag in function.made_here.items():
        test = ast.Compare(ast.Name(name, ast.Load()), [ast.Is()], [ast.Constant(None)])
        function.body.insert(
            0, assigned(flag, ast.fix_missing_locations(ast.copy_location(test, place)), place)
        )
    for one in core.all_of(function.body):
        if isinstance(one, core.Return):
            one.value = _given_back(one.value or ast.copy_location(ast.Constant(None), one.node), function)
    taken_back = {one.takes_back for one in _pure(function.body) if one.takes_back is not None}
    late = _Late(frozenset({*changes, *taken_back}), effects, functions)
    function.is_late = late.is_late(function.body, ends=True)
    last = ast.copy_location(ast.Constant(None), place)
    if core.goes_on(function.body):
        function.body.append(core.Return(_given_back(last, function), place))
    function.is_apart = runs_in_turn(function)


def keep_failure(
    function: core.Function, fresh: Callable[[str], str], own_errors: tuple[str, ...], kinds: Sequence[str]
) -> None:
    """Let a function that fails return the failure, behind what it has changed until then.

    `kinds` are those that must be named to be caught.
    """
    function.keeps_failure = True
    place = function.node.body[-1]
    handlers: list[core.Caught] = []
    for caught in ((), *((one,) for one in kinds)):
        binds = fresh("error")
        nothing = ast.copy_location(ast.Constant(None), place)
        value = _given_back(nothing, function, marked_failure(binds, place, own_errors))
        handlers.append(core.Caught(caught, binds, [core.Return(value, place)], place))
    notes = len(function.made_here)
    attempt = core.Attempt(function.body[notes:], handlers, None, place)
    function.body = [*function.body[:notes], attempt]


def _given_back(value: ast.expr, function: core.Function, failure: ast.expr | None = None) -> ast.expr:
    names: list[ast.expr] = []
    for name in function.changes:
        one: ast.expr = ast.Name(name, ast.Load())
        if name in function.made_here:
            one = ast.IfExp(ast.Name(function.made_here[name], ast.Load()), ast.Constant(None), one)
        names.append(one)
    parts = [value, *names, failure or ast.Constant(None)]
    return ast.fix_missing_locations(ast.copy_location(ast.Tuple(parts, ast.Load()), value))


def guarded_names(nodes: Iterable[ast.AST], helpers: Mapping[str, ast.AST]) -> frozenset[str]:
    """The names of functions whose failure the program may go on after, as it is caught around them."""
    todo: set[str] = set()
    for node in nodes:
        match node:
            case ast.Try(body=body) | ast.With(body=body) | ast.AsyncWith(body=body):
                todo |= names_read(*body)
            case ast.Call(func=func) if (dotted(func) or "").rpartition(".")[2] in RUNNERS:
                todo |= names_read(node)
            case _:
                pass
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in found and name in helpers:
            found.add(name)
            todo |= names_read(helpers[name])
    return frozenset(found)


def _touches(one: core.Core, names: frozenset[str], changes: Callable[[ast.AST], bool]) -> bool:
    if core.bound_by(one) & names:
        return True
    return any(
        isinstance(each, ast.Name) and each.id in names and (isinstance(one, core.Pure) or changes(part))
        for part in core.parts_of(one)
        for each in ast.walk(part)
    )


def _cannot_fail(one: core.Core) -> bool:
    """Whether a statement surely ends: a return, or a plain value put into a container under a plain name."""
    match one:
        case core.Return() | core.Continue() | core.Break():
            return True
        case core.Pure(stmt=ast.Assign(value=value)):
            return isinstance(value, (ast.Name, ast.Constant))
        case core.Pure(stmt=ast.Expr(value=ast.Call(func=ast.Attribute(attr="append" | "add"), args=[only]))):
            return isinstance(only, (ast.Name, ast.Constant))
        case _:
            return False


class _Late:
    """Whether nothing that could fail follows what touches the changed variables."""

    def __init__(
        self, changes: frozenset[str], effects: Effects, functions: Mapping[int, core.Function]
    ) -> None:
        self.changes, self.effects, self.functions = changes, effects, functions

    def is_late(self, block: core.Block, *, ends: bool) -> bool:
        for number, one in enumerate(block):
            rest = [each for each in block[number + 1 :] if not _cannot_fail(each)]
            is_last = ends and not rest
            if self._touched(one) and not (is_last and self._is_whole(one)):
                return False
            in_loop = isinstance(one, (core.Loop, core.While))
            inner = core.blocks_of(one)
            if any(not self.is_late(each, ends=is_last and not in_loop) for each in inner):
                return False
        return True

    def _touched(self, one: core.Core) -> bool:
        return _touches(one, self.changes, self.effects.changes) or (
            isinstance(one, core.Call) and bool(set(one.changes) & self.changes)
        )

    def _is_whole(self, one: core.Core) -> bool:
        if isinstance(one, core.Pure):
            return not self.effects.half_done(one.stmt)
        if any(map(self.effects.changes, core.parts_of(one))):
            return False
        called = self.functions.get(id(one.helper)) if isinstance(one, core.Call) else None
        return called is None or called.is_late


class Taking:
    """Puts an assignment of each changed part after the calls of such functions. Raises Refused (PYT015)."""

    def __init__(
        self,
        functions: Mapping[int, core.Function],
        fresh: Callable[[str], str],
        warn: Callable[[Refused], None],
        own_errors: tuple[str, ...] = (),
        *,
        around: ast.AsyncFunctionDef,
        is_guarded: bool,
    ) -> None:
        """`around` is the function whose blocks these are; `is_guarded`: its failure may be caught."""
        self.own_errors, self.around, self.is_guarded = own_errors, around, is_guarded
        self.functions, self.fresh, self.warn = functions, fresh, warn
        self.is_limited = False
        """Whether a time limit may stop a call, and what it has changed by then is looked at."""

    def block(self, block: core.Block, *, caught: bool = False) -> core.Block:
        """The block; `caught` says that an error in it is caught."""
        made: core.Block = []
        for one in block:
            found = self._changing(one)
            if isinstance(one, core.Loop) and one.together and self._changing_in(one.body):
                apart = (
                    None if self.is_limited else self._each_its_own(one) or self._added(one, caught=caught)
                )
                made += self._one_by_one(one) if apart is None else apart
                continue
            if isinstance(one, core.Together) and self._changing_in(one.members):
                self._check_seen(one.members)
                is_seen = caught or self.is_guarded
                names = self._changing, self.around, self.fresh, self.own_errors
                together = None if self.is_limited else added_after_all(one, *names, is_seen=is_seen)
                made += self._in_a_row(one) if together is None else together
                continue
            if found is not None and isinstance(one, core.Call) and not one.changes:
                made += self._named(one, found)
            made.append(one)
            if found is not None and isinstance(one, core.Call) and not one.changes:
                self._check_limit(one, found)
                if caught and not found.is_late and not found.keeps_failure:
                    raise _refused(one, found, "may fail after it was changed, and the error is caught here")
                made += _taken(one, found, self.fresh)
            self._inner(one, caught=caught)
        return made

    def _named(self, call: core.Call, found: core.Function) -> core.Block:
        """Give names to what a call gives that it may change as a part of something else."""
        parts = [
            each.value
            for each in call.arguments
            if each.name in found.changes and not (isinstance(each.value, ast.Name) or _is_new(each.value))
        ]
        made: core.Block = []
        for each in call.arguments if parts else ():
            if not isinstance(each.value, (ast.Name, ast.Constant)):
                name = self.fresh("value")
                made.append(assigned(name, each.value, each.value))
                each.value = ast.copy_location(ast.Name(name, ast.Load()), each.value)
        return made

    def _changing(self, one: core.Core) -> core.Function | None:
        found = self.functions.get(id(one.helper)) if isinstance(one, core.Call) else None
        return found if found is not None and found.changes else None

    def _changing_in(self, block: core.Block) -> list[tuple[core.Call, core.Function]]:
        return [
            (one, found)
            for one in core.all_of(block)
            if isinstance(one, core.Call) and (found := self._changing(one)) is not None
        ]

    def _inner(self, one: core.Core, *, caught: bool) -> None:
        match one:
            case core.Choice():
                one.then = self.block(one.then, caught=caught)
                one.otherwise = self.block(one.otherwise, caught=caught)
            case core.Loop() | core.While():
                one.body = self.block(one.body, caught=caught)
            case core.Attempt():
                before, is_seen = self.is_limited, caught or self.is_guarded or bool(one.handlers)
                self.is_limited = before or (one.within is not None and is_seen)
                one.body = self.block(one.body, caught=True)
                self.is_limited = before
                for each in one.handlers:
                    each.body = self.block(each.body, caught=caught)
                if one.final is not None:
                    one.final = self.block(one.final, caught=caught)
            case _:
                pass

    def _check_limit(self, call: core.Call, found: core.Function) -> None:
        if self.is_limited and not found.is_late:
            raise _refused(call, found, "may be stopped by a time limit after it was changed")

    # ------------------------------------------------------------ calls that were to run side by side

    def _check_order(self, block: core.Block) -> None:
        """Raises Refused where calls side by side see what the others change; a warning if they do not."""
        for number, (call, found) in enumerate(self._changing_in(block)):
            if not found.is_apart:
                raise _refused(call, found, "is changed and read by calls that run side by side")
            self._check_limit(call, found)
            if number or is_locked(found):
                continue
            self.warn(
                Refused(
                    "PYT102",
                    call.node,
                    f"these calls run one after another, since each changes {' and '.join(found.changes)}",
                    f"let {found.name} return what it adds, and put the results together after the gather",
                )
            )

    def _check_seen(self, block: core.Block) -> None:
        """Raises Refused where a call waits, and then looks at what another one beside it changes."""
        calls = [one for one in core.all_of(block) if isinstance(one, core.Call)]
        for call, found in self._changing_in(block):
            given = {one.name: one.value for one in call.arguments}
            changed = {name.id for one in found.changes if isinstance(name := given.get(one), ast.Name)}
            for other in calls:
                of = None if other is call else self.functions.get(id(other.helper))
                if of is None:
                    continue
                names = {one.name for one in other.arguments if names_read(one.value) & changed}
                if looks_after_wait(of, names - {*of.changes}):
                    raise _refused(call, found, f"is changed, and {of.name} looks at it while it runs")

    def _each_its_own(self, one: core.Loop) -> core.Block | None:
        """Let calls side by side that each change their own item give it back; None for other calls.

        The items are then taken back one after another, as a loop does that changes what it goes through.
        """
        match one.body:
            case [core.Call() as call, *rest] if len(rest) <= 1 and isinstance(
                one.source, (ast.Name, ast.Subscript)
            ):
                found = self._changing(call)
            case _:
                return None
        if found is None or len(found.changes) != 1 or call.changes:
            return None
        given = [each.value for each in call.arguments if each.name == found.changes[0]]
        items = [
            each
            for argument in call.arguments
            for each in ast.walk(argument.value)
            if isinstance(each, ast.Name) and each.id in {one.target, *names_read(one.source)}
        ]
        if len(items) != 1 or given != items or items[0].id != one.target or found.captured:
            return None
        returned = returned_names(found.node)
        gives_item = returned == {found.changes[0]}
        if not _changes_a_record(found.node, found.changes[0]) or (
            found.changes[0] in returned and not gives_item
        ):
            return None
        wanted, source = one.into, one.source
        if not isinstance(source, ast.Name):
            source = ast.copy_location(ast.Name(self.fresh("items"), ast.Load()), source)
        held, count = self.fresh(call.callee), self.fresh("count")
        all_of = self.fresh("given")
        call.into, one.into = held, all_of
        call.changes, call.is_apart = (self.fresh("own"),), gives_item
        place = one.node
        one.body = [call, core.Give(ast.copy_location(ast.Name(held, ast.Load()), place), place)]
        text = (
            f"for {count} in range(len({all_of})):\n    {source.id}[{count}].clear()\n"
            f"    {source.id}[{count}].update({all_of}[{count}][1])"
        )
        (back,) = parsed_lines([text], place)
        made: core.Block = [one, core.Pure(back)]
        if source is not one.source:
            made.insert(0, assigned(source.id, one.source, place))
            one.source = source
        if found.keeps_failure:
            failure = self.fresh("failure")
            each_one = self.fresh("one")
            failed: core.Block = [
                assigned(failure, parsed(f"{each_one}[2]", place), place),
                raised_if(f"{failure} is not None", failure, place),
            ]
            given_name = ast.copy_location(ast.Name(all_of, ast.Load()), place)
            made.append(core.Loop(each_one, given_name, failed, place))
        if wanted is not None:
            text = f"list({source.id})" if gives_item else f"[one[0] for one in {all_of}]"
            made.append(assigned(wanted, parsed(text, place), place))
        return made

    def _added(self, one: core.Loop, *, caught: bool) -> core.Block | None:
        """Let calls side by side that only add to something do so when all have ended; None for others."""
        (call, found), *more = self._changing_in(one.body)
        if more or call.changes:
            return None
        is_seen = caught or self.is_guarded
        return added_after(one, call, found, self.around, self.fresh, self.own_errors, is_seen=is_seen)

    def _one_by_one(self, one: core.Loop) -> core.Block:
        self._check_order(one.body)
        one.together, one.most = False, None
        if one.stops:
            one.stops, one.body = False, self.block(one.body, caught=True)
            return [core.Attempt([one], [as_group(one.node, self.fresh, self.own_errors)], None, one.node)]
        if any(isinstance(each, core.Attempt) for each in one.body):
            one.body = self.block(one.body)
            return [one]
        one.into = one.into or self.fresh("results")
        if not any(isinstance(each, core.Give) for each in one.body):
            one.body.append(core.Give(ast.copy_location(ast.Constant(None), one.node), one.node))
        binds = self.fresh("error")
        handler = core.Caught(
            (), binds, [core.Give(marked_failure(binds, one.node, self.own_errors), one.node)], one.node
        )
        one.body = self.block([core.Attempt(one.body, [handler], None, one.node)])
        each = self.fresh("one")
        source = ast.copy_location(ast.Name(one.into, ast.Load()), one.node)
        return [one, core.Loop(each, source, [_raised(each, one.node)], one.node)]

    def _in_a_row(self, one: core.Together) -> core.Block:
        if len(one.members) > 1 or not isinstance(one.members[0], core.Call):
            self._check_order(one.members)
        if one.stops:
            body = self.block(one.members, caught=True)
            return [core.Attempt(body, [as_group(one.node, self.fresh, self.own_errors)], None, one.node)]
        made: core.Block = []
        names: list[str] = []
        for each in one.members:
            if not isinstance(each, core.Call):
                made.append(each)
                continue
            each.into = each.into or self.fresh(each.callee)
            names.append(each.into)
            binds = self.fresh("error")
            kept = assigned(each.into, marked_failure(binds, one.node, self.own_errors), one.node)
            handler = core.Caught((), binds, [kept], one.node)
            made.append(core.Attempt([each], [handler], None, one.node))
        made = self.block(made)
        return [*made, *(_raised(name, one.node) for name in names)]


def _changes_a_record(function: ast.AsyncFunctionDef, name: str) -> bool:
    """Whether all that an async function does to a parameter is to set fields of a dict by their names."""
    read = [one for part in function.body for one in ast.walk(part) if is_named(one, name)]
    fields = [
        one
        for part in function.body
        for one in ast.walk(part)
        if isinstance(one, ast.Subscript)
        and is_named(one.value, name)
        and isinstance(one.slice, ast.Constant)
        and isinstance(one.slice.value, str)
    ]
    stored = any(isinstance(one.ctx, ast.Store) for one in fields)
    whole = [
        one
        for part in function.body
        for one in ast.walk(part)
        if isinstance(one, ast.Return) and is_named(one.value, name)
    ]
    is_read = all(isinstance(one.ctx, ast.Load) for one in read)
    return stored and is_read and len(read) == len(fields) + len(whole)


def _raised(name: str, place: ast.AST) -> core.Choice:
    """Raise the error that a variable may hold."""
    return raised_if(ast.unparse(is_marked(ast.Name(name, ast.Load()))), name, place)


def _refused(one: core.Call, found: core.Function, why: str) -> Refused:
    name = found.changes[0]
    return Refused(
        "PYT015",
        one.node,
        f"{name} in {found.name} {why}",
        f"let {found.name} return what it adds, and put the results together where it is called",
    )


_NEW: Final = (
    *(ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.Constant),
    ast.GeneratorExp,
)
"""What makes an object that nothing else has."""


def _is_new(node: ast.expr) -> bool:
    return isinstance(node, _NEW) or (isinstance(node, ast.Call) and name_called(node) in LAZY)


def _taken(one: core.Call, found: core.Function, fresh: Callable[[str], str]) -> core.Block:
    held, into = fresh(one.callee), one.into
    one.into = held
    targets: list[str] = []
    for name in found.changes:
        given = next((each.value for each in one.arguments if each.name == name), None)
        targets.append(given.id if isinstance(given, ast.Name) else "")
    one.changes = tuple(name or held for name in targets)
    made: core.Block = []
    for number, (inner, name) in enumerate(zip(found.changes, targets, strict=True), 1):
        if not name:
            continue
        part, is_set = _part_of(held, number, name, one.node), inner in found.sets
        is_same = not is_set or inner in found.changes_in_place
        is_another = is_set and (is_same or found.keeps_failure or inner not in found.always_sets)
        made.append(core.Pure(part, takes_back=name if is_same else None, of=one, is_another=is_another))
    if found.keeps_failure:
        failure = fresh("failure")
        made.append(core.Pure(_part_of(held, len(targets) + 1, failure, one.node)))
        made.append(raised_if(f"{failure} is not None", failure, one.node))
    if into:
        itself = returned_names(found.node)
        name = dict(zip(found.changes, targets, strict=True)).get(min(itself, default=""), "")
        kept = [each for each, target in zip(found.changes, targets, strict=True) if target]
        if any(each in found.made_here and _may_return(found.node, each) for each in kept):
            raise _refused(one, found, "may be what is returned, and then has two names")
        if len(itself) == 1 and name:  # it returns what it was given: one object, under two names
            one.is_apart = True
            made.append(assigned(into, ast.copy_location(ast.Name(name, ast.Load()), one.node), one.node))
        else:
            made.append(core.Pure(_part_of(held, 0, into, one.node)))
    return made


def _may_return(function: ast.AsyncFunctionDef, name: str) -> bool:
    """Whether what a function returns may be, or hold, the object of its parameter."""
    returns = [one.value for one in own_nodes(function) if isinstance(one, ast.Return) and one.value]
    return any(
        name in names_read(one)
        for one in returns
        if not (isinstance(one, ast.Call) and dotted(one.func) == "len")
    )


def _part_of(held: str, number: int, name: str, place: ast.AST) -> ast.stmt:
    part = ast.Subscript(ast.Name(held, ast.Load()), ast.Constant(number), ast.Load())
    stmt = ast.Assign([ast.Name(name, ast.Store())], part)
    return ast.fix_missing_locations(ast.copy_location(stmt, place))
