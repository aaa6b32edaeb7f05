"""Goes through loops: what an item or round sees, and what holds after the last one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from callsheet.diagnostics import Severity
from callsheet.ir.expression import Variable
from callsheet.ir.tree import Foreach, Repeat, Say, Word, all_statements, statements, variables_set
from callsheet.passes.structured import operations as of
from callsheet.passes.structured.shapes import (
    ANY,
    NOTHING,
    NULL,
    Shape,
    Special,
    families,
    is_within,
    join,
    list_of,
    widened,
)
from callsheet.passes.structured.state import YIELDED, Changes, Holding, Loop, can_be
from callsheet.passes.structured.typing import waited

if TYPE_CHECKING:
    from callsheet.passes.structured.flow import Flow

_MOST_DEPTH = 4
"""How deep loops nest that are gone through a second time with what they change."""


def foreach(flow: Flow, one: Foreach) -> None:
    """Go through a ?FOREACH."""
    typer = flow.typer(one)
    source = typer.data(one.source)
    item = typer.items(one.source, source, "be gone through")
    if families(source) == {of.TEXT}:
        message = "?FOREACH goes through a list, and this is a text"
        help_ = 'take it apart: $text.splitlines(), $text.split(",")'
        flow.report.add("CHK123", message, one, span=one.source.span, help=help_)
        item = ANY
    if one.limit is not None:
        limit = typer.data(one.limit)
        typer.expect(one.limit, limit, of.NUM, "LIMIT takes a number")
    if one.most is not None and one.most < 1:
        flow.report.add("CHK045", "MAX must be at least 1", one)
    yielded = items_of(flow, one, item)
    if one.into is not None and yielded == NULL and not _yields(one):
        message = f"no item gives a value, so ${one.into.name} is a list of nulls"
        help_ = "YIELD (value) in the loop's body gives an item's; without the list leave out the arrow"
        flow.report.add("CHK122", message, one, help=help_, severity=Severity.WARNING)
    flow.result(one, one.into, list_of(yielded), one.recovery)


def _yields(one: Foreach) -> bool:
    """Whether a loop says what its items give, though it may be null."""
    return any(isinstance(each, Say) and each.word is Word.YIELD for each in statements(one.body))


def items_of(flow: Flow, one: Foreach, item: Shape) -> Shape:
    """Go through the body of a loop; gives what its items yield."""
    body = flow.scopes.items[one.id]
    outer = flow.scope
    yielded, comes_on = NOTHING, True

    def run() -> list[Changes]:
        nonlocal yielded, comes_on
        mark = flow.state.mark()
        loop = Loop(mark)
        flow.loops.append(loop)
        flow.scope = body
        flow.state.set(YIELDED, None)
        flow.make(one.var, item if item.kinds else ANY, one)
        flow.block(one.body)
        if not flow.state.is_dead:
            loop.ends.append(flow.state.changes(mark))
        flow.state.undo(mark)
        flow.state.is_dead = False
        flow.loops.pop()
        flow.scope = outer
        broken = [changes[YIELDED] for changes in loop.breaks]
        given = (holding.shape for holding in broken if holding is not None)
        yielded = join(*map(_yielded_by, loop.ends), *given)
        comes_on = bool(loop.ends)
        return [_only(changes, body.sets) for changes in (*loop.ends, *loop.breaks)]

    outcomes = rounds(flow, body.sets, run)
    flow.state.merge([{}, *outcomes])
    if not comes_on and not _takes_first(flow, one):
        message = f"the loop never comes to its second {one.var}: it ends with the first in any case"
        help_ = "let what ends it stand behind the loop, or in a condition"
        flow.report.add("CHK135", message, one, help=help_, severity=Severity.WARNING)
    return yielded


def _takes_first(flow: Flow, one: Foreach) -> bool:
    """Whether a loop is to take the first item: it does nothing else, or that is the first to be done."""
    if len(one.body) == 1 or not isinstance(one.source, Variable):
        return len(one.body) == 1
    loops = (each for each in all_statements(flow.tree) if isinstance(each, Foreach) and each.as_done)
    return any(each.into is not None and each.into.name == one.source.name for each in loops)


def repeat(flow: Flow, one: Repeat) -> None:
    """Go through the rounds of a ?REPEAT."""
    typer = flow.typer(one)
    if one.most is not None:
        typer.expect(one.most, typer.data(one.most), of.NUM, "max takes a number of rounds")
    if one.every is not None:
        waited(typer, one.every, "every")
    names = dict.fromkeys(name for inner in statements(one.body) for name in variables_set(inner))
    after: list[Changes] = []

    def run() -> list[Changes]:
        after.clear()
        mark = flow.state.mark()
        loop = Loop(mark)
        flow.loops.append(loop)
        if one.while_ is not None:
            tests = flow.typer(one)
            tests.data(one.while_)
            inner = flow.state.mark()
            flow.learn(tests.tests(one.while_, truth=False))
            if can_be(one.while_, truth=False):
                after.append(flow.state.changes(mark))
            flow.state.undo(inner)
            flow.learn(tests.tests(one.while_, truth=True))
        flow.block(one.body)
        if not flow.state.is_dead:
            loop.ends.append(flow.state.changes(mark))
        flow.state.undo(mark)
        flow.state.is_dead = False
        flow.loops.pop()
        if loop.ends:
            flow.state.merge(loop.ends)
            whole = flow.state.changes(mark)
            tests = flow.typer(one)
            is_left = True
            if one.until is not None:
                tests.data(one.until)
                flow.learn(tests.tests(one.until, truth=True))
                is_left = can_be(one.until, truth=True)
            elif one.while_ is not None:
                flow.learn(tests.tests(one.while_, truth=False))
                is_left = can_be(one.while_, truth=False)
            if is_left:
                after.append(flow.state.changes(mark))
            flow.state.undo(mark)
            after.extend(loop.breaks)
            return [whole]
        after.extend(loop.breaks)
        return []

    rounds(flow, names, run)
    flow.state.merge(list(after))


def rounds(flow: Flow, names: Iterable[str], run: Callable[[], list[Changes]]) -> list[Changes]:
    """Go through a loop whose later rounds see what earlier ones have set of these variables.

    What they hold is taken to be of the shape that it has before; where a round changes that, the
    findings are dropped, and the loop is gone through again with this not known.
    """
    mark = flow.state.mark()
    kept = {name: held for name in names if (held := flow.state.get(name)) is not None}
    for name, held in kept.items():
        flow.state.set(name, Holding(widened(held.shape), held.always))
        if flow.depth >= _MOST_DEPTH:
            forget(flow, name)
    found, told = flow.report.mark(), len(flow.told)
    flow.depth += 1
    made = run()
    changed = [
        name
        for one in made
        for name, holding in one.items()
        if holding is not None
        and (known := flow.state.get(name)) is not None
        and not is_within(known.shape, holding.shape)
    ]
    if changed and flow.depth <= _MOST_DEPTH:
        flow.report.forget(found)
        while len(flow.told) > told:
            flow.told.popitem()
        for name in changed:
            forget(flow, name)
        made = run()
    flow.depth -= 1
    flow.state.undo(mark)
    return made


def forget(flow: Flow, name: str) -> None:
    """Nothing is known any more of what a variable holds."""
    held = flow.state.get(name)
    if held is not None:
        failed = [Special.FAILURE] if held.shape.may_fail else []
        flow.state.set(name, Holding(Shape((*ANY.kinds, *failed)), held.always))


def _yielded_by(changes: Changes) -> Shape:
    holding = changes.get(YIELDED)
    if holding is None:
        return NULL
    return holding.shape if holding.always else join(holding.shape, NULL)


def _only(changes: Changes, names: Mapping[str, None]) -> Changes:
    return {name: holding for name, holding in changes.items() if name in names}
