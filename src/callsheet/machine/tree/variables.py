"""The variables of a run of a plan tree by their places: of the main plan, of items and sub-plans under way.

A variable of the main plan has its name, others have the path of their item or sub-plan before it, as in
`S2[4]/left` and `S2[4]/S3/total`. Whoever looks at a run or edits it names them so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from callsheet.ir import JSON
from callsheet.ir.expression import Expression, Variable, variables_in
from callsheet.ir.tree import (
    Assign,
    Block,
    Foreach,
    Invoke,
    Let,
    Say,
    Statement,
    Tree,
    Word,
    all_statements,
    statements,
)
from callsheet.ir.types import Basic
from callsheet.machine.frames import Attempt, TreeFrame
from callsheet.machine.keys import segment
from callsheet.machine.tree.activations import MISSING, Activation, Loop, Members
from callsheet.machine.tree.values import conformed, plain
from callsheet.sealing.keys import WITHHELD

if TYPE_CHECKING:
    from callsheet.machine.run import Run
    from callsheet.machine.tree.program import TreeProgram


def activations_under_way(run: Run) -> list[Activation]:
    """The activations that have begun and not ended, each behind the one around it."""
    assert run.tree is not None
    found: dict[int, Activation] = {}
    for leaf in _waiting(run):
        chain: list[Activation] = []
        act: Activation | None = leaf
        while act is not None and id(act) not in found:
            chain.append(act)
            act = act.parent
        found.update((id(one), one) for one in reversed(chain))
    return list(found.values())


def _waiting(run: Run) -> Iterator[Activation]:
    """The activations that wait for an outcome or the next slice of work."""
    assert run.tree is not None
    for call in run.attempts.values():
        if isinstance(call, Attempt):
            yield cast("TreeFrame", call.frame).act
        else:
            yield cast("Activation", call[3])
    others = [*run.inner.values(), *run.asleep.values(), *run.compiling.values()]
    others += [attempt for attempt, _ in run.asking.open()]
    for attempt in others:
        yield cast("TreeFrame", attempt.frame).act
    if run.tree.returning is not None:
        yield run.tree.returning
    for paused in run.tree.paused:
        yield paused if isinstance(paused, Activation) else paused.act


def place_of(act: Activation) -> str:
    """The path of the item or sub-plan whose variables an activation has, "" for the main plan."""
    while isinstance(act.role, Members) and act.parent is not None:
        act = act.parent
    if act.parent is None or act.role is None:
        return ""
    if isinstance(act.role, Loop):
        return f"{act.role.path}[{act.index}]"
    assert not isinstance(act.role, Members)
    return act.parent.path + segment(act.role.id)


def scopes_under_way(run: Run) -> dict[str, Activation]:
    """The items and sub-plans under way by their paths, and the main plan under ""."""
    assert run.tree is not None
    scopes = {"": run.tree.main}
    for act in activations_under_way(run):
        scopes.setdefault(place_of(act), act)
    return scopes


def names_in(act: Activation) -> list[str]:
    """The names of the variables that a body can have."""
    return [name for name in act.body.names if not name.startswith("#")]


def names_under_way(run: Run) -> Iterator[str]:
    """The names of the variables that can be set now: of the main plan, of items and sub-plans under way."""
    for place, act in scopes_under_way(run).items():
        yield from (f"{place}/{name}" if place else name for name in names_in(act))


def results_under_way(run: Run) -> list[tuple[str, list[Any], list[int]]]:
    """The results so far of the items of each loop under way, and which of them failed."""
    loops = {id(act.role): act.role for act in activations_under_way(run) if isinstance(act.role, Loop)}
    return [(loop.path, [*loop.results], sorted(loop.failures)) for loop in loops.values()]


class LoopUnderWay(NamedTuple):
    """A loop that has begun and not ended, with what its items have come to so far."""

    place: str
    """Its place in the run, as `S2` or `S2[4]/S3`."""
    variable: str | None
    """The name of the variable that its list will be in."""
    items: int
    """How many there are."""
    results: dict[int, JSON]
    """What the items that are done have given, by item, as JSON data; null where there is no variable."""
    failed: dict[int, str]
    """The errors of those that have failed."""


def loops_under_way(run: Run) -> list[LoopUnderWay]:
    """The loops of a plan tree that are under way, the outer ones first."""
    loops = {id(act.role): act.role for act in activations_under_way(run) if isinstance(act.role, Loop)}
    return [
        LoopUnderWay(
            loop.path,
            loop.op.into and loop.op.into.name,
            len(loop.items),
            _results(loop),
            {item: failure.error or failure.message for item, failure in sorted(loop.failures.items())},
        )
        for loop in loops.values()
    ]


def _results(loop: Loop) -> dict[int, JSON]:
    done = ((item, value) for item, value in enumerate(loop.results) if value is not MISSING)
    return {item: plain(value) if loop.op.into is not None else None for item, value in done}


def secret_under_way(run: Run) -> set[str]:
    """The names of the variables of items and sub-plans under way whose labels are secret."""
    from callsheet.machine.monitor.trees import TreeMonitor  # noqa: PLC0415 - only under a policy

    found: set[str] = set()
    if isinstance(run.monitor, TreeMonitor):
        for place, act in scopes_under_way(run).items():
            if place and act.labels is not None:
                known = run.monitor.labels.finals(act.labels)
                found |= {f"{place}/{name}" for name, (label, _) in known.items() if label.is_secret}
    return found


def inner_variables(run: Run) -> dict[str, JSON]:
    """The variables of items and sub-plans under way that are not null, as JSON data to look at."""
    found: dict[str, JSON] = {}
    for place, act in scopes_under_way(run).items():
        if place:
            slot_of = {name: slot for slot, name in enumerate(act.body.names)}
            set_here = ((name, act.slots[slot_of[name]]) for name in names_in(act))
            found.update((f"{place}/{name}", plain(value)) for name, value in set_here if value is not None)
    return found


def value_like(before: Any, given: JSON) -> Any:
    """A value that a person gives for a variable, as of the type of the one before it where JSON lacks it.

    >>> value_like(timedelta(0), "2d"), value_like({1}, [1, 2]), value_like("a", 3)
    (datetime.timedelta(days=2), {1, 2}, 3)
    """
    if isinstance(given, str):
        for type_, of in _TIMES:
            if type(before) is type_:
                value, wrong = conformed(given, of, {})
                return given if wrong else value
    if isinstance(given, list) and type(before) in (tuple, set, frozenset):
        try:
            return cast("type[Any]", type(before))(given)
        except TypeError:
            return given
    return given


_TIMES: tuple[tuple[type, Basic], ...] = (
    (datetime, Basic.DATETIME),
    (date, Basic.DATE),
    (timedelta, Basic.DURATION),
)


def wrong_input(program: TreeProgram, name: str, given: JSON) -> str:
    """Why a value cannot be that of an input of the plan; "" if it can, or if there is no such input."""
    for _, one in program.inputs:
        if one.name == name:
            return conformed(given, one.type, program.types)[1]
    return ""


def computed_from(tree: Tree, names: Iterable[str]) -> set[str]:
    """The names of the variables that a plan computes itself from those of these names; calls do not count.

    What calls and pure code have given is recorded, and not computed again when a run is looked at.
    """
    known = set(names)
    return _reached(tree, known)[0] - known


def _reached(tree: Tree, names: set[str]) -> tuple[set[str], set[str]]:
    """These names with those of all that is made from them, and which of these are more than plain copies.

    A copy, as the items of a loop over a variable are, has true parts beside sealed ones.
    """
    flows = [
        (name, value.name if isinstance(value, Variable) else None, frozenset(variables_in(value)))
        for one in all_statements(tree)
        for name, value in _flows(tree, one)
    ]
    reached, made, before = set(names), set[str](), -1
    while before != len(reached) + len(made):
        before = len(reached) + len(made)
        for name, copied, read in flows:
            if not reached.isdisjoint(read):
                reached.add(name)
                if copied is None or copied in made:
                    made.add(name)
    return reached, made


def _flows(tree: Tree, one: Statement) -> Iterator[tuple[str, Expression]]:
    """The variables that a statement sets itself, with what it makes them from."""
    match one:
        case Let(name=name, value=value) | Assign(name=name, value=value):
            yield name, value
        case Foreach(var=name, source=source, into=into):
            yield name, source
            if into is not None:
                yield from ((into.name, value) for value in _said(one.body, Word.YIELD))
        case Invoke(named=named, into=into):
            yield from named
            plan = tree.plan(one.plan)
            if into is not None and plan is not None:
                yield from ((into.name, value) for value in _said(plan.body, Word.RETURN))
        case _:
            pass


def _said(block: Block, word: Word) -> Iterator[Expression]:
    for one in statements(block):
        if isinstance(one, Say) and one.word is word:
            yield from one.values


def without_computed(
    tree: Tree, values: Mapping[str, JSON], sealed: Callable[[JSON], bool], others: Iterable[str] = ()
) -> dict[str, JSON]:
    """Variables to look at: what is computed from a `sealed` value is withheld, but for copies of it.

    `others` are the names of variables that are or were sealed, also of items and sub-plans that have ended.
    """
    names = {*others, *(name.rpartition("/")[2] for name, value in values.items() if sealed(value))}
    made = _reached(tree, names)[1] if names else set[str]()
    return {
        name: _copies(value, sealed) if name.rpartition("/")[2] in made else value
        for name, value in values.items()
    }


def _copies(value: JSON, sealed: Callable[[JSON], bool]) -> JSON:
    """A computed value with the parts alone that are `sealed`, which a cut or measured placeholder is not."""
    if isinstance(value, list):
        items = [_copies(item, sealed) for item in value]
        return items if any(item != WITHHELD for item in items) else WITHHELD
    if isinstance(value, dict):
        entries = {name: _copies(item, sealed) for name, item in value.items()}
        return entries if any(item != WITHHELD for item in entries.values()) else WITHHELD
    return value if sealed(value) else WITHHELD
