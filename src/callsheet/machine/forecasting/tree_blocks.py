"""The ways through the blocks of a plan: branches, loops, rounds, handlers, sub-plans.

Items and rounds are walked one by one as long as they are known; both branches of an undecided condition are
walked and joined. A sub-plan is walked at each of its calls, as if it were written there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from callsheet.ir.scopes import blocks_of_scope
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Compute,
    Ends,
    Foreach,
    GoOn,
    Handler,
    If,
    Invoke,
    Leave,
    Let,
    Parallel,
    Recovery,
    Repeat,
    Require,
    Say,
    Skip,
    Statement,
    SubPlan,
    Try,
    Use,
    Word,
    own_blocks,
    recovery_of,
    variables_set,
)
from callsheet.machine.expressions import ExpressionFailed
from callsheet.machine.expressions.values import elements
from callsheet.machine.forecasting.forecast import Times
from callsheet.machine.forecasting.partial_values import (
    Fields,
    Foreseen,
    Items,
    Text,
    Unknown,
    is_same,
    list_of,
)
from callsheet.machine.forecasting.step_interpreter import any_item_of
from callsheet.machine.forecasting.tree_calls import (
    MOST_SETTERS,
    ON,
    At,
    Binding,
    BlockRow,
    CallForecast,
    Changes,
    Frame,
    Out,
    Scope,
    cast_failed,
    data_of,
    either,
)
from callsheet.machine.keys import segment
from callsheet.machine.tree.compiling import begins_with_clock, reads_clock

_MOST_ROUNDS = 1_000


def _branch_part(number: int) -> str:
    return "IF" if number == 0 else f"ELSE IF {number}"


def _handler_part(number: int, handler: Handler) -> str:
    kinds = ", ".join(handler.kinds)
    return f"ON_FAIL {kinds}".rstrip() if number == 0 or kinds else f"ON_FAIL {number + 1}"


def parts_of(one: Statement) -> Iterator[tuple[str, Block]]:
    """The blocks directly inside a statement, each with its name."""
    match one:
        case If(branches=branches, otherwise=otherwise):
            yield from ((_branch_part(number), branch.body) for number, branch in enumerate(branches))
            if otherwise is not None:
                yield "ELSE", otherwise
        case _:
            yield from (("", block) for block in own_blocks(one))
    recovery = recovery_of(one)
    if recovery is not None:
        yield from (
            (_handler_part(number, handler), handler.body) for number, handler in enumerate(recovery.handlers)
        )
        if recovery.final is not None:
            yield "FINALLY", recovery.final


def _may_be_stopped(ends: Ends, failed: str, count: int) -> bool:
    """Whether an item of a loop over so many may be stopped by another one: by one that has `failed`."""
    match ends:
        case Ends.ALL:
            return False
        case Ends.FAILED:
            return bool(failed)
        case Ends.FIRST:
            return count > 1


def _assigned(block: Block) -> Iterator[tuple[str, Statement]]:
    """The variables that a block sets, also in loops inside it, with the statement that does."""
    for one in block:
        yield from ((name, one) for name in variables_set(one))
        for inner in (*own_blocks(one), *blocks_of_scope(one)):
            yield from _assigned(inner)


class BlockWalk(CallForecast):
    """Walks blocks in the order of the text; says how each may be left."""

    def _block(self, block: Block, scope: Scope, at: At, frame: Frame) -> Out:
        out = ON
        for number, one in enumerate(block):
            if out.on is False:
                if out.failed is True:
                    self._skip(block[number:], frame, f"{block[number - 1].id} fails: {out.why}")
                break
            self._left -= 1
            out = out.then(self._statement(one, scope, at if out.on is True else at.perhaps(), frame))
        return out

    def _enter(self, one: Statement, part: str, at: At, frame: Frame) -> BlockRow:
        """Note that a block is executed."""
        row = self._blocks[f"{frame.path}{one.id} {part}".rstrip()]
        row.times += at.times
        row.is_usual = row.is_usual or not at.after_failure
        self._stopped.count(row, at.times)
        return row

    def _skip(self, block: Block, frame: Frame, why: str) -> None:
        """Say why the steps of a block are not executed, unless they are elsewhere in the run."""
        for one in block:
            row = self._rows.get(frame.path + one.id)
            if row is not None:
                row.why_not = why
            for _, inner in parts_of(one):
                self._skip(inner, frame, why)

    # -------------------------------------------------------------- statements

    def _own(  # noqa: PLR0911 - a case for each statement
        self, one: Statement, scope: Scope, at: At, frame: Frame
    ) -> Out:
        if begins_with_clock(one):
            self._clock(one, at)
        match one:
            case Act():
                return self._act(one, scope, at, frame)
            case Compute():
                return self._compute(one, scope, at, frame)
            case Invoke():
                return self._invoke(one, scope, at, frame)
            case Let(name=name, value=value, type=kind):
                self._put(scope, name, self._typed(self._value(value, scope), kind), one, frame)
                return ON
            case Assign(name=name, value=value):
                self._put(scope, name, self._value(value, scope), one, frame)
                return ON
            case Require(condition=condition):
                if self._evaluator.truth(condition, scope.read) is False:
                    return Out(False, failed=True, why="a REQUIRE does not hold")
                return ON
            case Say():
                return self._say(one, scope, at, frame)
            case If():
                return self._if(one, scope, at, frame)
            case Foreach():
                return self._foreach(one, scope, at, frame)
            case Repeat():
                return self._repeat(one, scope, at, frame)
            case Try():
                return self._try(one, scope, at, frame)
            case Parallel():
                return self._parallel(one, scope, at, frame)
        assert_never(one)

    def _try(self, one: Try, scope: Scope, at: At, frame: Frame) -> Out:
        """A block, which in the usual course keeps within its time limit."""
        if one.within is not None:
            if reads_clock((one.within,)):
                self._clock(one, at)
            self._value(one.within, scope)
        self._enter(one, "", at, frame)
        return self._block(one.body, scope, at, frame)

    def _parallel(self, one: Parallel, scope: Scope, at: At, frame: Frame) -> Out:
        """Where one fails for sure and stops the others, those perhaps come to their calls."""
        self._enter(one, "", at, frame)
        failed: Out | None = None
        with self._stopped.group(at, stops=one.stops) as tasks:
            for member in one.members:
                here = at.perhaps() if one.stops and failed is not None else at
                begin = self._stopped.here
                out = self._statement(member, scope, here, frame)
                tasks.append((begin, out))
                if out.failed is True and failed is None:
                    failed = out
        return ON if failed is None else failed

    def _say(self, one: Say, scope: Scope, at: At, frame: Frame) -> Out:
        values = tuple(self._value(value, scope) for value in one.values)
        row = self._rows.get(frame.path + one.id)
        if row is not None:
            self._visited(row, one, scope, at, tuple(map(data_of, values)), {})
        match one.word:
            case Word.NOTE | Word.WAIT:
                return ON
            case Word.YIELD:
                frame.yielded = values[0] if at.times.least else Unknown("a YIELD")
                return ON
            case Word.RETURN:
                frame.returns.append((values[0] if values else None, bool(at.times.least)))
                return Out(False, over=True)
            case Word.RESPOND | Word.TERMINATE | Word.REPLAN:
                return Out(False, over=True)
            case Word.FAIL:
                return Out(False, failed=True, why="a FAIL")
            case Word.BREAK:
                return Out(False, broken=True)
            case Word.CONTINUE:
                return Out(False, again=True)
        assert_never(one.word)

    def _invoke(self, one: Invoke, scope: Scope, at: At, frame: Frame) -> Out:
        called = self._tree.plan(one.plan)
        if called is None:
            return Out(False, failed=True, why=f"there is no sub-plan {one.plan}")
        self._enter(one, "", at, frame)
        given = {name: self._value(value, scope) for name, value in one.named}
        inner, within = Scope(), Frame(f"{frame.path}{one.id}/")
        for each in called.inputs:
            value = (
                self._typed(given[each.name], each.type)
                if each.name in given
                else self._default(each, called)
            )
            inner.put(each.name, Binding(value, self._setters(one, scope)[:MOST_SETTERS]))
        key = None if at.key is None else f"{at.key}{segment(one.id)}/"
        out = self._block(called.body, inner, at._replace(key=key), within)
        if out.failed is True:
            return Out(False, failed=True, why=out.why)
        if one.into is not None:
            value = self._returned(one, called, within, out)
            self._put(scope, one.into.name, self._typed(value, called.result), one, frame)
        return ON

    def _returned(self, one: Invoke, called: SubPlan, frame: Frame, out: Out) -> Foreseen:
        returns = frame.returns
        if not returns:
            return None
        first = returns[0][0]
        is_one = out.on is False and all(is_same(first, value) for value, _ in returns)
        return first if returns[0][1] or is_one else Unknown(f"{called.name} result", one.id)

    # -------------------------------------------------------------- failures

    def _statement(self, one: Statement, scope: Scope, at: At, frame: Frame) -> Out:
        recovery = recovery_of(one)
        if recovery is None or not (recovery.handlers or recovery.final is not None):
            return self._remedied(one, recovery, scope, at, frame)
        mark = scope.mark()
        out = self._remedied(one, replace(recovery, handlers=(), final=None), scope, at, frame)
        done = scope.undo(mark)
        ways = [] if out.failed is True else [done]
        handled: list[Out] = []
        is_sure = out.failed is True and bool(recovery.handlers) and not recovery.handlers[0].kinds
        for number, handler in enumerate(recovery.handlers):
            scope.join([{}, done])
            here = at if is_sure and number == 0 else at.failing()
            handled.append(self._handle(one, number, handler, scope, here, frame))
            changed = scope.undo(mark)
            if handled[-1].on is not False:
                ways.append(changed)
        scope.join(ways or [done])
        # what handlers lead to follows a failure, which the usual course does not count
        result = either([*handled, out]) if out.failed is True else out
        if recovery.final is not None:
            self._enter(one, "FINALLY", at, frame)
            final = self._block(recovery.final, scope, at, frame)
            if final.on is not True:
                return final
        return result

    def _handle(
        self, one: Statement, number: int, handler: Handler, scope: Scope, at: At, frame: Frame
    ) -> Out:
        self._enter(one, _handler_part(number, handler), at, frame)
        scope.put(handler.binds, Binding(Unknown(f"${handler.binds}"), ()))
        return self._block(handler.body, scope, at, frame)

    def _remedied(self, one: Statement, recovery: Recovery | None, scope: Scope, at: At, frame: Frame) -> Out:
        """A statement with what it says about its failure in a word."""
        mark = scope.mark()
        try:
            out = self._own(one, scope, at, frame)
        except ExpressionFailed as failed:
            out = Out(False, failed=True, why=failed.message)
            self._note_failed(one, frame, failed.message)
        remedy = None if recovery is None else recovery.remedy
        if remedy is None or (isinstance(remedy, Leave) and out.failed is not True):
            return out
        into = next(iter(variables_set(one)), None)
        if isinstance(remedy, Leave):
            return Out(False, over=True)
        done = scope.undo(mark)
        ways: list[Changes] = [] if out.failed is True else [done]
        if isinstance(remedy, Use) and into is not None:
            value = self._read_all(remedy.value, scope)
            ways.append({**done, into: Binding(value, (frame.path + one.id,))})
        elif isinstance(remedy, GoOn | Skip) and into is not None:
            what = Unknown(f"${into}")
            ways.append({**done, into: Binding(what, (frame.path + one.id,))})
        if isinstance(remedy, Skip) and out.failed is not True:
            ways = [done]
        scope.join(ways or [done])
        return ON if out.failed is True else out

    # -------------------------------------------------------------- branches

    def _if(self, one: If, scope: Scope, at: At, frame: Frame) -> Out:
        mark = scope.mark()
        ways, outs = list[Changes](), list[Out]()
        is_open = at
        for number, branch in enumerate(one.branches):
            if reads_clock((branch.condition,)):
                self._clock(one, at)
            holds = self._evaluator.truth(branch.condition, scope.read)
            part = _branch_part(number)
            if holds is False:
                self._skip(branch.body, frame, "the condition does not hold")
                continue
            here = is_open if holds is True else is_open.perhaps()
            self._enter(one, part, here, frame)
            outs.append(self._block(branch.body, scope, here, frame))
            ways.append(scope.undo(mark))
            if holds is True:
                rest = [each.body for each in one.branches[number + 1 :]]
                for body in (*rest, *(() if one.otherwise is None else (one.otherwise,))):
                    self._skip(body, frame, "a condition before it holds")
                scope.join(ways)
                return either(outs)
            is_open = is_open.perhaps()
        if one.otherwise is not None:
            self._enter(one, "ELSE", is_open, frame)
            outs.append(self._block(one.otherwise, scope, is_open, frame))
            ways.append(scope.undo(mark))
        else:
            outs.append(ON)
            ways.append({})
        scope.join(ways)
        return either(outs)

    # -------------------------------------------------------------- loops

    def _foreach(self, one: Foreach, scope: Scope, at: At, frame: Frame) -> Out:
        if reads_clock((one.source, *(() if one.limit is None else (one.limit,)))):
            self._clock(one, at)
        source = self._value(one.source, scope)
        items = self._items(source)
        limit = None if one.limit is None else self._value(one.limit, scope)
        is_limited = isinstance(limit, Unknown)
        if items is not None and type(limit) is int:
            items = items[:limit]
        row = self._enter(one, "", at._replace(times=Times()), frame)
        row.items = source
        row.count = None if items is None or row.count is None else row.count + len(items)
        if items is not None and not items:
            self._skip(one.body, frame, "there are no items")
        results: list[Foreseen] = []
        op, out = self._loops[one.id], ON
        is_whole, failed = items is not None and not is_limited, ""
        if items is None:
            out = self._any_item(one, source, None, scope, at, frame)
        else:
            with self._stopped.group(at, stops=op.ends is Ends.FAILED) as tasks:
                for index, item in enumerate(items):
                    begin = self._stopped.here
                    if self._left <= 0:
                        more = self._any_item(one, source, len(items) - index, scope, at, frame)
                        tasks.append((begin, more))
                        out, is_whole = more, False
                        break
                    is_stopped = _may_be_stopped(op.ends, failed, len(items))
                    here = at if out.on is True and not is_limited and not is_stopped else at.perhaps()
                    ended, yielded = self._item(one, index, item, scope, here, frame)
                    results.append(yielded)
                    tasks.append((begin, ended))
                    if ended.failed is True and not op.skips:
                        failed = failed or f"item {index} fails: {ended.why}"
                        if op.one_by_one:
                            break
                    if is_stopped or ended.failed is True or ended.on is not True:
                        is_whole = is_whole and ended.again is not False and ended.failed is not True
                    if ended.over is True or ended.broken is True:
                        out = Out(False, over=True) if ended.over is True else ON
                        is_whole = ended.broken is True and ended.over is False and out.on is True
                        break
                    if ended.over is None or ended.broken is None:
                        over = None if ended.over is None or out.over is None else False
                        out, is_whole = Out(None, over=over), False
        if failed:
            return Out(False, failed=True, why=failed)
        if one.into is not None:
            name = one.into.name
            made = list_of(results) if is_whole else Unknown(f"${name}", frame.path + one.id, (), "list")
            made = self._evaluator.admitted(made)
            self._put(scope, name, self._typed(made, one.into.type), one, frame)
        return Out(None, over=None) if out.over is None else ON if out.over is False else out

    def _items(self, source: Foreseen) -> Sequence[Foreseen] | None:
        match source:
            case Unknown() | Text():
                return None
            case Items(items=items):
                return items
            case Fields(pairs=pairs):
                return [name for name, _ in pairs]
            case str():
                raise cast_failed("a text is no list of items; write list($text)")
            case _:
                self._evaluator.env.work = 1 << 40
                return [*elements(self._evaluator.env, source, 1)]

    def _item(
        self, one: Foreach, index: int, item: Foreseen, scope: Scope, at: At, frame: Frame
    ) -> tuple[Out, Foreseen]:
        """One item of a loop: how its body is left, and what it yields."""
        key = None if at.key is None else f"{at.key}{segment(one.id)}[{index}]/"
        return self._body(one, item, scope, at._replace(key=key, item=index), frame)

    def _any_item(
        self, one: Foreach, source: Foreseen, count: int | None, scope: Scope, at: At, frame: Frame
    ) -> Out:
        """All items of a loop, or all that are left, at once: what they SET is not known."""
        least, most = (0, None) if count is None else (count, count)
        self._open(one.body, scope, frame)
        here = at._replace(times=at.times.by(least, most), key=None, item=None)
        out, _ = self._body(one, any_item_of(source), scope, here, frame)
        self._open(one.body, scope, frame)
        return Out(None, over=None) if out.over is not False else ON

    def _body(self, one: Foreach, item: Foreseen, scope: Scope, at: At, frame: Frame) -> tuple[Out, Foreseen]:
        row = self._enter(one, "", at, frame)
        row.items = row.items if row.items is not None else item
        around, frame.yielded = frame.yielded, None
        mark = scope.mark()
        source = scope.find(one.var)
        setters = () if source is None else source.steps
        steps = self._setters(one, scope) or setters
        scope.put(one.var, Binding(item, steps[:MOST_SETTERS]))
        try:
            out = self._block(one.body, scope, at, frame)
        except ExpressionFailed as failed:
            out = Out(False, failed=True, why=failed.message)
        changed = scope.undo(mark)
        for name, binding in changed.items():
            if name != one.var and binding is not None and scope.find(name) is not None:
                scope.put(name, binding)
        yielded, frame.yielded = frame.yielded, around
        return out, yielded

    def _open(self, block: Block, scope: Scope, frame: Frame) -> None:
        """Forget the variables that a block that is repeated sets."""
        for name, one in _assigned(block):
            if scope.find(name) is not None:
                scope.put(name, Binding(Unknown(f"${name}"), (frame.path + one.id,)))

    # -------------------------------------------------------------- rounds

    def _repeat(  # noqa: PLR0912 - each way out of a round
        self, one: Repeat, scope: Scope, at: At, frame: Frame
    ) -> Out:
        most = None if one.most is None else self._value(one.most, scope)
        bound = most if type(most) is int else None
        number = 0
        while True:
            if one.while_ is not None:
                if reads_clock((one.while_,)):
                    self._clock(one, at)
                holds = self._evaluator.truth(one.while_, scope.read)
                if holds is False:
                    if number == 0:
                        self._skip(one.body, frame, "the condition does not hold")
                    return ON
                if holds is None:
                    return self._any_round(one, number, bound, scope, at, frame)
            if number == bound:
                return Out(False, failed=True, why=f"it is not over after {bound} rounds")
            if number >= _MOST_ROUNDS or self._left <= 0:
                return self._any_round(one, number, bound, scope, at, frame)
            number += 1
            key = None if at.key is None else f"{at.key}{segment(one.id)}[#{number}]/"
            here = at._replace(key=key, repeats=at.repeats or number > 1)
            self._enter(one, "", here, frame)
            out = self._block(one.body, scope, here, frame)
            if out.failed is True or out.over is True:
                return out
            if out.broken is True:
                return ON
            if out.over is None or out.broken is None:
                after = self._any_round(one, number, bound, scope, at, frame)
                return Out(None, over=None) if out.over is None else after
            if one.until is not None:
                if reads_clock((one.until,)):
                    self._clock(one, here)
                holds = self._evaluator.truth(one.until, scope.read)
                if holds is True:
                    return ON
                if holds is None:
                    return self._any_round(one, number, bound, scope, at, frame)

    def _any_round(
        self, one: Repeat, done: int, bound: int | None, scope: Scope, at: At, frame: Frame
    ) -> Out:
        """All further rounds at once, if there are any: what they set is not known."""
        left = None if bound is None else bound - done
        if left == 0:
            return ON
        self._open(one.body, scope, frame)
        here = at._replace(times=at.times.by(0, left), key=None, repeats=True)
        self._enter(one, "", here, frame)
        mark = scope.mark()
        out = self._block(one.body, scope, here, frame)
        changed = scope.undo(mark)
        scope.join([{}, changed])
        self._open(one.body, scope, frame)
        return Out(None, over=None) if out.over is not False else ON
