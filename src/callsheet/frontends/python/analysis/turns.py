"""Which async functions may run one after another where a program starts them side by side.

In: a function, and what it changes. Its calls may take turns if none sees in between what the others change:
what a lock guards, what is only added to, and what is touched before the first wait or after the last.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Set

from callsheet.frontends.python import core
from callsheet.frontends.python.source import names_bound, own_nodes, walk
from callsheet.frontends.python.syntax import SHARED_LOCK


def runs_in_turn(function: core.Function) -> bool:
    """Whether the calls of a function, whose changes are known, may run one after another."""
    return any(test(function) for test in (is_locked, is_blind, _is_early, _is_last))


def looks_after_wait(function: core.Function, names: Set[str | None]) -> bool:
    """Whether a function reads some of its variables once it has waited, or in a loop that waits."""
    has_waited = False
    for one in function.body if names else ():
        inside = list(core.all_of([one]))
        waits = any(isinstance(each, (core.Call, core.Wait, core.Together)) for each in inside)
        goes_on = waits and isinstance(one, (core.Loop, core.While, core.Attempt))
        if (has_waited or goes_on) and any(_names_in(_own_part(each)) & names for each in inside):
            return True
        has_waited = has_waited or waits
    return False


def _own_part(one: core.Core) -> list[ast.AST]:
    """What a statement evaluates, without what it gives back."""
    if isinstance(one, core.Return) and isinstance(one.value, ast.Tuple):
        return [one.value.elts[0]]
    return core.parts_of(one)


def _names_in(parts: Iterable[ast.AST]) -> set[str]:
    return {each.id for part in parts for each in ast.walk(part) if isinstance(each, ast.Name)}


def is_locked(function: core.Function) -> bool:
    """Whether a function waits, and touches what it changes, inside of one lock alone."""
    body = function.node.body
    locks = [one for one in body if isinstance(one, ast.AsyncWith)]
    if len(locks) != 1 or len(locks[0].items) != 1:
        return False
    entered = locks[0].items[0].context_expr
    name = entered.id if isinstance(entered, ast.Name) else ""
    made = [one for one in body if isinstance(one, ast.Assign) and name in names_bound(one)]
    if not (all(SHARED_LOCK in vars(one) for one in made) if made else function.most == 1):
        return False
    inside = {id(one) for one in walk(locks[0])}
    return all(
        id(one) in inside
        for one in own_nodes(*body)
        if isinstance(one, ast.Await) or (isinstance(one, ast.Name) and one.id in function.changes)
    )


def is_blind(function: core.Function) -> bool:
    """Whether a function only adds to what it changes, and never looks at it."""
    changes = set(function.changes)
    return not _lists_before_and_after(function) and all(
        not _names_in(_own_part(one)) & changes or (isinstance(one, core.Pure) and _adds(one.stmt, changes))
        for one in core.all_of(function.body)
    )


def _lists_before_and_after(function: core.Function) -> bool:
    """Whether a function lists something before it first waits, and more in the same list later.

    Calls side by side all list the first before any of them lists the second.
    """
    changes = set(function.changes)
    before, after = set[str](), set[str]()
    listed = before
    for one in core.all_of(function.body):
        if isinstance(one, (core.Call, core.Wait, core.Together)):
            listed = after
        match one:
            case core.Pure(
                stmt=ast.Expr(value=ast.Call(func=ast.Attribute(attr="append" | "extend")) as call)
            ):
                listed |= _names_in([call.func]) & changes
            case _:
                pass
    return bool(before & after)


def _adds(stmt: ast.stmt, changes: set[str]) -> bool:
    """Whether a statement adds to one of some containers or numbers without looking at it."""
    match stmt:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=key)], value=value):
            return name in changes and not _names_in([key, value]) & changes
        case ast.AugAssign(target=ast.Name(id=name), value=value):
            return name in changes and not _names_in([value]) & changes
        case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name), slice=key), value=value):
            return name in changes and not _names_in([key, value]) & changes
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method, value=holder), args=args)) if method in {
            "append",
            "add",
            "extend",
            "update",
        }:
            if isinstance(holder, ast.Subscript):
                args, holder = [*args, holder.slice], holder.value
            elif isinstance(holder, ast.Call) and isinstance(holder.func, ast.Attribute):
                if holder.func.attr != "setdefault":
                    return False
                args, holder = [*args, *holder.args], holder.func.value
            return isinstance(holder, ast.Name) and holder.id in changes and not _names_in(args) & changes
        case _:
            return False


def _is_early(function: core.Function) -> bool:
    """Whether a function touches what it changes before it first waits, and never again."""
    changes = set(function.changes)
    is_over = False
    for one in function.body:
        inside = list(core.all_of([one]))
        waits = any(isinstance(each, (core.Call, core.Wait, core.Together)) for each in inside)
        touches = any(_names_in(_own_part(each)) & changes for each in inside)
        if touches and (is_over or waits):
            return False
        is_over = is_over or waits
    return True


def _is_last(function: core.Function) -> bool:
    """Whether a function waits for nothing any more once it has touched what it changes."""
    return _Ending(set(function.changes)).is_last(function.body)


class _Ending:
    """Reads whether something is touched before a wait, on any way through a block."""

    def __init__(self, changes: set[str]) -> None:
        self.changes, self.is_touched, self.attempts = changes, False, 0

    def is_last(self, block: core.Block) -> bool:
        """Whether no statement waits after a touch; notes the touches of the block."""
        return all(map(self._passes, block))

    def _passes(self, one: core.Core) -> bool:
        self.is_touched = self.is_touched or bool(_names_in(_own_part(one)) & self.changes)
        if isinstance(one, (core.Call, core.Wait, core.Together)):
            return not self.is_touched
        if isinstance(one, core.Return) and not self.attempts:
            self.is_touched = False  # nothing follows, on this way
            return True
        self.attempts += isinstance(one, core.Attempt)
        before = self.is_touched
        ends: list[bool] = []
        for number, inner in enumerate(core.blocks_of(one)):
            if isinstance(one, core.Choice) and number:
                ends.append(self.is_touched)
                self.is_touched = before
            if not self.is_last(inner):
                return False
            is_again = isinstance(one, (core.Loop, core.While)) and self.is_touched and not before
            if is_again and not self.is_last(inner):
                return False
        self.is_touched = self.is_touched or any(ends)
        self.attempts -= isinstance(one, core.Attempt)
        return True
