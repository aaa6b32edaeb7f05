"""The ways in which a plan goes on after a failure, and what is set on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, assert_never

from callsheet.ir.expr import Literal
from callsheet.ir.expression import Variable
from callsheet.ir.tree import (
    Assign,
    Block,
    GoOn,
    If,
    Invoke,
    Leave,
    Let,
    Parallel,
    Recovery,
    Repeat,
    Skip,
    Statement,
    Tree,
    Try,
    Use,
    blocks_of_failure,
    is_single,
    own_blocks,
    recovery_of,
    statements,
    variables_set,
)
from callsheet.passes.structured.shapes import ANY, FAILURE, NOTHING, Shape, widened
from callsheet.passes.structured.state import Changes, Holding, joined

if TYPE_CHECKING:
    from callsheet.passes.structured.flow import Flow


class Ways(NamedTuple):
    """What has changed where a TRY came to its end, and where a failure in it was handled."""

    ended: Changes
    failed: Changes


def recovered(
    flow: Flow,
    one: Statement,
    recovery: Recovery | None,
    run: Callable[[], None],
    store: Callable[[Shape], None],
) -> Ways | None:
    """Go through what `run` does and the ways in which its failure is handled.

    `store` stores in place of the result what may be that or a value of the given shape. Gives the ways
    through a TRY without FINALLY behind which the plan goes on both after its end and after a failure.
    """
    if recovery is None:
        run()
        return None
    mark = flow.state.mark()
    around, flow.is_caught = flow.is_caught, flow.is_caught or goes_on(recovery)
    run()
    flow.is_caught = around
    outcomes: list[Changes] = []
    is_dead = flow.state.is_dead
    is_block = isinstance(one, Parallel | Try | Repeat)
    during = flow.state.every(mark) if is_block else {}
    before: Changes = {name: joined(held) for name, held in during.items()}
    done = flow.state.undo(mark)
    if not is_dead:
        outcomes.append(done)
    flow.state.is_dead = False
    instead = remedy(flow, one, recovery, store, before, mark)
    if instead is not None:
        outcomes.append(instead)
        if not is_block:
            outcomes = [instead]
    for handler in recovery.handlers:
        flow.state.apply(before)
        around = flow.state.get(handler.binds)
        flow.state.set(handler.binds, Holding(FAILURE if recovery.undo is None else ANY))
        flow.block(handler.body)
        for name, held in flow.state.every(mark).items():
            if name != handler.binds:
                before[name] = joined([before.get(name, held[0]), *held])
        flow.state.set(handler.binds, around)
        made = flow.state.undo(mark)
        if not flow.state.is_dead:
            outcomes.append(made)
        flow.state.is_dead = False
    ways: Ways | None = None
    if isinstance(one, Try) and recovery.final is None and not is_dead and len(outcomes) > 1:
        flow.state.merge(outcomes[1:])
        ways = Ways(done, flow.state.undo(mark))
    flow.state.merge(outcomes)
    if recovery.final is not None:
        final(flow, recovery.final, before, mark)
    return ways


def goes_on(recovery: Recovery | None) -> bool:
    """Whether a plan may go on after a failure with this recovery."""
    return recovery is not None and (recovery.remedy is not None or bool(recovery.handlers))


def called_where_caught(tree: Tree) -> set[str]:
    """The sub-plans of which some call stands where a failure is handled, by their callers or further out."""
    found: set[str] = set()
    inside: dict[str, set[str]] = {}

    def go(block: Block, owner: str, *, is_caught: bool) -> None:
        for one in block:
            if is_single(one) and not isinstance(one, Invoke):
                continue
            recovery = recovery_of(one)
            caught = is_caught or goes_on(recovery)
            if isinstance(one, Invoke):
                found.update((one.plan,) if caught else ())
                inside.setdefault(owner, set()).add(one.plan)
            for each in own_blocks(one):
                go(each, owner, is_caught=caught)
            for each in () if recovery is None else blocks_of_failure(recovery):
                go(each, owner, is_caught=is_caught)

    go(tree.body, "", is_caught=False)
    for plan in tree.plans:
        go(plan.body, plan.name, is_caught=False)
    waiting = list(found)
    while waiting:
        more = inside.get(waiting.pop(), set()) - found
        found |= more
        waiting += more
    return found


def is_told_its_end(block: Block, number: int) -> bool:
    """Whether a statement is an ?IF of the variable that tells whether the TRY before it came to its end.

    It is false right before the TRY, the last line of the TRY makes it true, and nothing else sets it.
    """
    if not isinstance(block[number], If):  # most statements
        return False
    match block[max(number - 2, 0) : number + 1]:
        case (
            Let(name=name, value=Literal(value=False)) | Assign(name=name, value=Literal(value=False)),
            Try(
                body=(*body, Let(value=Literal(value=True)) | Assign(value=Literal(value=True)) as last)
            ) as one,
            If(branches=(first, *_)),
        ):
            inside = (*body, *(each for handler in one.recovery.handlers for each in handler.body))
            return (
                last.name == name
                and isinstance(first.condition, Variable)
                and first.condition.name == name
                and not any(name in variables_set(each) for each in statements(inside))
            )
        case _:
            return False


def remedy(
    flow: Flow,
    one: Statement,
    recovery: Recovery,
    store: Callable[[Shape], None],
    before: Changes,
    mark: int,
) -> Changes | None:
    """What has changed where a remedy is taken; None where it goes nowhere."""
    remedy = recovery.remedy
    match remedy:
        case None:
            return None
        case Use(value=value):
            flow.state.apply(before)
            shape = flow.typer(one).data(value)
            flow.state.undo(mark)
            store(widened(shape))
        case GoOn():
            flow.state.apply(before)
            store(FAILURE)
        case Skip():
            store(NOTHING)
        case Leave(values=values):
            flow.state.apply(before)
            typer = flow.typer(one)
            typer.message(values)
            flow.state.undo(mark)
            return None
        case _:
            assert_never(remedy)
    return flow.state.undo(mark)


def final(flow: Flow, final: Block, before: Changes, mark: int) -> None:
    """FINALLY, which sees what was set before, and runs on all ways."""
    was_dead = flow.state.is_dead
    after = flow.state.undo(mark)
    flow.state.is_dead = False
    flow.state.apply(before)
    inner = flow.state.mark()
    flow.block(final)
    made = flow.state.undo(inner)
    flow.state.undo(mark)
    flow.state.apply(after)
    flow.state.apply(made)
    flow.state.is_dead = flow.state.is_dead or was_dead
