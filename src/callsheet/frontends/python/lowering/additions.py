"""Calls side by side that only add to variables around them: each adds to something empty, added after.

In: the loop over the calls, and the function that they call. Such a call sees nothing of what the others add;
so each is given an empty list, dict or set, or zero, and what it gives back is added when all have ended, in
the order of the items. A container whose kind is not known is left to calls one after another.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from callsheet.frontends.python import core
from callsheet.frontends.python.analysis.turns import is_blind
from callsheet.frontends.python.error_values import is_marked
from callsheet.frontends.python.source import dotted, is_named, names_read, own_nodes
from callsheet.frontends.python.syntax import assigned, marked_failure, parsed, parsed_lines

_MAKERS: Final = {"list": "list", "dict": "dict", "set": "set"}
_METHODS: Final = {"append": "list", "extend": "list", "add": "set"}


def added_after(
    one: core.Loop,
    call: core.Call,
    found: core.Function,
    around: ast.AsyncFunctionDef,
    fresh: Callable[[str], str],
    own_errors: tuple[str, ...],
    *,
    is_seen: bool,
) -> core.Block | None:
    """The loop with additions behind it; None where the calls have to run one after another.

    `around` is the function of the loop; `is_seen` says whether something may look at what was added though a
    call has failed and its group was stopped.
    """
    place, count = one.node, len(found.changes)
    if not _is_addable(found, stops=one.stops) or (one.stops and is_seen):
        return None
    keeps, item = _keeps_errors(one, call)
    if item is None:
        return None
    each, all_of, held = fresh("one"), fresh("given"), fresh(call.callee)
    lines = _give_empty(call, found, around, each, one.target)
    if lines is None:
        return None
    wanted = one.into
    call.into, one.into = held, all_of
    body: core.Block = [call, core.Give(parsed(held, place), place)]
    if not one.stops:
        binds = fresh("error")
        failed: core.Block = [core.Give(marked_failure(binds, place, own_errors), place)]
        body = [core.Attempt(body, [core.Caught((), binds, failed, place)], None, place)]
    one.body = body
    is_error = ast.unparse(is_marked(ast.Name(each, ast.Load())))
    if not one.stops:
        lines = [f"if not ({is_error}):", *(f"    {line}" for line in lines)]
    loop = [f"for {each} in {all_of}:", *(f"    {line}" for line in lines)]
    made: core.Block = [one, *(core.Pure(stmt) for stmt in parsed_lines(loop, place))]
    if not keeps and not one.stops:
        checks: core.Block = [raised_if(is_error, each, place)]
        if found.keeps_failure:
            failure = fresh("failure")
            checks.append(assigned(failure, parsed(f"{each}[{count + 1}]", place), place))
            checks.append(raised_if(f"{failure} is not None", failure, place))
        made.append(core.Loop(each, parsed(all_of, place), checks, place))
    if wanted is not None:
        value = f"{each}[0]"
        if keeps and found.keeps_failure:
            value = f"{each}[{count + 1}] if {each}[{count + 1}] is not None else {value}"
        if keeps:
            value = f"{each} if {is_error} else ({value})"
        made.append(assigned(wanted, parsed(f"[{value} for {each} in {all_of}]", place), place))
    return made


def _give_empty(
    call: core.Call, found: core.Function, around: ast.AsyncFunctionDef, result: str, target: str = ""
) -> list[str] | None:
    """Let a call add to something empty; the statements that add it from its result, in a variable.

    None, and the call as it was, if what it changes is not known, or is the item `target` of a loop.
    """
    empty: dict[int, str] = {}
    lines: list[str] = []
    for number, name in enumerate(found.changes, 1):
        given = [n for n, argument in enumerate(call.arguments) if argument.name == name]
        value = call.arguments[given[0]].value if len(given) == 1 else None
        if not isinstance(value, ast.Name) or value.id == target or _returns(found, name):
            return None
        if sum(value.id in names_read(argument.value) for argument in call.arguments) != 1:
            return None
        told = _addition(found, name, _set_to(around, value.id), value.id, f"{result}[{number}]")
        if told is None:
            return None
        empty[given[0]] = told[0]
        lines += told[1]
    for number, text in empty.items():
        call.arguments[number].value = parsed(text, call.node)
    call.changes = tuple(f"{result}_{number}" for number in range(len(found.changes)))
    call.added = tuple(found.changes)
    return lines


def added_after_all(
    one: core.Together,
    functions: Callable[[core.Core], core.Function | None],
    around: ast.AsyncFunctionDef,
    fresh: Callable[[str], str],
    own_errors: tuple[str, ...],
    *,
    is_seen: bool,
) -> core.Block | None:
    """Calls that are written out, with additions behind them; None where they have to run in turn."""
    if len(one.members) < 2 or (one.stops and is_seen):
        return None
    calls: list[tuple[core.Call, bool]] = []
    for member in one.members:
        match member:
            case core.Call():
                calls.append((member, False))
            case core.Attempt(
                body=[core.Call() as call],
                handlers=[core.Caught(kinds=(), body=[core.Pure()])],
                final=None,
                within=None,
            ):
                calls.append((call, True))
            case _:
                return None
    changed: set[str] = set()
    for call, _ in calls:
        found = functions(call)
        if found is not None:
            if call.changes or not _is_addable(found, stops=one.stops):
                return None
            given = [argument.value for argument in call.arguments if argument.name in found.changes]
            changed |= {value.id for value in given if isinstance(value, ast.Name)}
    before = [[argument.value for argument in call.arguments] for call, _ in calls]
    parts = _Parts(one, fresh, own_errors)
    for number, (call, keeps) in enumerate(calls):
        found, held = functions(call), fresh(call.callee)
        lines = [] if found is None else _give_empty(call, found, around, held)
        read = {name for argument in call.arguments for name in names_read(argument.value)}
        if lines is None or read & changed:
            _take_back([call for call, _ in calls], before)
            return None
        parts.add(one.members[number], call, found, held, lines, keeps=keeps)
    one.members = parts.members
    return [one, *parts.additions, *parts.raised, *parts.taken]


def _is_addable(found: core.Function, *, stops: bool) -> bool:
    """Whether what a function adds may be added when its call has ended."""
    is_known = is_blind(found) and not found.made_here and (found.is_late or found.keeps_failure)
    return is_known and not (stops and found.keeps_failure)


def _take_back(calls: list[core.Call], before: list[list[ast.expr]]) -> None:
    for call, values in zip(calls, before, strict=True):
        call.changes = call.added = ()
        for argument, value in zip(call.arguments, values, strict=True):
            argument.value = value


class _Parts:
    """The calls of a group, and what follows it: additions, errors that are raised, results."""

    def __init__(
        self, group: core.Together, fresh: Callable[[str], str], own_errors: tuple[str, ...]
    ) -> None:
        self.place, self.stops, self.fresh, self.own_errors = group.node, group.stops, fresh, own_errors
        self.members: core.Block = []
        self.additions: core.Block = []
        self.raised: core.Block = []
        self.taken: core.Block = []

    def add(
        self,
        member: core.Core,
        call: core.Call,
        found: core.Function | None,
        held: str,
        lines: list[str],
        *,
        keeps: bool,
    ) -> None:
        """Add a call whose result is in the variable `held`, and the statements that add what it gives."""
        place, into = self.place, call.into
        if found is None and (keeps or self.stops):
            self.members.append(member)
            return
        call.into = held
        if self.stops:
            self.members.append(call)
            self.additions += [core.Pure(stmt) for stmt in parsed_lines(lines, place)] if lines else []
            self.taken += [assigned(into, parsed(f"{held}[0]", place), place)] if into is not None else []
            return
        binds, is_error = self.fresh("error"), ast.unparse(is_marked(ast.Name(held, ast.Load())))
        stored: core.Block = [assigned(held, marked_failure(binds, place, self.own_errors), place)]
        self.members.append(core.Attempt([call], [core.Caught((), binds, stored, place)], None, place))
        test = [f"if not ({is_error}):", *(f"    {line}" for line in lines)]
        self.additions += [core.Pure(stmt) for stmt in parsed_lines(test, place)] if lines else []
        value = held if found is None else f"{held}[0]"
        failure = f"{held}[{len(found.changes) + 1}]" if found is not None and found.keeps_failure else None
        if not keeps:
            self.raised.append(raised_if(is_error, held, place))
            if failure is not None:
                again = self.fresh("failure")
                self.raised.append(assigned(again, parsed(failure, place), place))
                self.raised.append(raised_if(f"{again} is not None", again, place))
        elif failure is not None:
            value = f"{failure} if {failure} is not None else {value}"
        if into is not None:
            value = f"{held} if {is_error} else ({value})" if keeps else value
            self.taken.append(assigned(into, parsed(value, place), place))


def raised_if(test: str, name: str, place: ast.AST) -> core.Choice:
    """Raise the error that a variable holds, if a test says that it does."""
    return core.Choice(parsed(test, place), [core.Fail(None, None, place, name)], [], place)


def _keeps_errors(one: core.Loop, call: core.Call) -> tuple[bool, core.Call | None]:
    """Whether the errors of the items are kept, and the call if the loop does nothing else."""

    def is_call(body: core.Block) -> bool:
        match body:
            case [core.Call() as only]:
                return only is call
            case [core.Call() as only, core.Give(value=ast.Name(id=name))]:
                return only is call and name == call.into
            case _:
                return False

    match one.body:
        case [
            core.Attempt(
                body=body, handlers=[core.Caught(kinds=(), body=rest)], final=None, within=None, undo=None
            )
        ]:
            gives = all(isinstance(each, core.Give) for each in rest)
            return True, call if gives and is_call(body) else None
        case body:
            return False, call if is_call(body) else None


def _returns(found: core.Function, name: str) -> bool:
    """Whether the result of a function itself may hold what it changes."""
    results = [
        each.value.elts[0]
        for each in core.all_of(found.body)
        if isinstance(each, core.Return) and isinstance(each.value, ast.Tuple)
    ]
    return any(name in names_read(one) for one in results)


def _set_to(around: ast.AsyncFunctionDef, name: str) -> ast.expr | None:
    """What a variable of a function is set to, if that is done once."""
    found: list[ast.expr | None] = []
    for one in own_nodes(around):
        match one:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                        pairs = zip(target.elts, value.elts, strict=False)
                        found += [each for part, each in pairs if is_named(part, name)]
                    elif is_named(target, name):
                        found.append(value)
            case ast.AnnAssign(target=ast.Name(id=known), value=value) if known == name:
                found.append(value)
            case _:
                pass
    stores = sum(is_named(one, name) and not isinstance(one.ctx, ast.Load) for one in own_nodes(around))
    return found[0] if len(found) == 1 and stores == 1 else None


def _kind_of(value: ast.expr | None) -> str | None:
    match value:
        case ast.List() | ast.ListComp():
            return "list"
        case ast.Dict() | ast.DictComp():
            return "dict"
        case ast.Set() | ast.SetComp():
            return "set"
        case ast.Constant(value=int() | float()):
            return "number"
        case ast.Call(func=func, args=args) if len(args) <= 1:
            return _MAKERS.get(dotted(func) or "")
        case _:
            return None


def _addition(
    found: core.Function, name: str, made: ast.expr | None, target: str, part: str
) -> tuple[str, list[str]] | None:
    """The text of something empty for a variable, and of what adds to it what a call has given back."""
    kind, keys, kinds = _kind_of(made), list[object](), set[str]()
    in_loops = {
        id(each)
        for one in core.all_of(found.body)
        if isinstance(one, (core.Loop, core.While))
        for inner in core.all_of(one.body)
        for stmt in core.parts_of(inner)
        for each in ast.walk(stmt)
    }
    for one in core.all_of(found.body):
        if not isinstance(one, core.Pure) or name not in names_read(one.stmt) | {
            each.id for each in ast.walk(one.stmt) if isinstance(each, ast.Name)
        }:
            continue
        match one.stmt:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name())]):
                kinds.add("dict")
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(), attr="update"))):
                kinds.add(kind or "")
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(), attr=attr))):
                kinds.add(_METHODS.get(attr, ""))
            case ast.AugAssign(
                target=ast.Subscript(value=ast.Name(), slice=ast.Constant(value=key)), op=ast.Add()
            ):
                kinds.add("counts")
                keys.append("" if id(one.stmt) in in_loops else key)
            case ast.AugAssign(target=ast.Name(), op=ast.Add()):
                kinds.add("number")
                keys.append("" if id(one.stmt) in in_loops else 0)
            case _:
                return None
    if len(kinds) != 1:
        return None
    (what,) = kinds
    is_once = "" not in keys and len(set(map(repr, keys))) == len(keys)  # other sums are rounded otherwise
    match what:
        case "list" | "set" | "dict" if what == kind:
            empty = {"list": "[]", "dict": "{}", "set": "set()"}[what]
            return empty, [f"{target}.{'extend' if what == 'list' else 'update'}({part})"]
        case "number" if kind == "number" and is_once:
            return "0", [f"{target} += {part}"]
        case "counts" if isinstance(made, ast.Dict) and is_once:
            numbers = [
                key.value
                for key, value in zip(made.keys, made.values, strict=True)
                if isinstance(key, ast.Constant) and _kind_of(value) == "number"
            ]
            if not all(key in numbers for key in keys):
                return None
            zeros = ", ".join(f"{key!r}: 0" for key in keys)
            return f"{{{zeros}}}", [f"{target}[{key!r}] += {part}[{key!r}]" for key in keys]
        case _:
            return None
