"""Executes plan trees under a policy: tells the monitor of each statement before it is executed.

The labels of a statement are computed before its values, so that they are known also when it fails. Which
statement, in which scope, is all that the monitor learns; the rules of labels are in `TreeLabels`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from callsheet.ir import JSON
from callsheet.ir.expression import Expression
from callsheet.ir.labels import LITERAL, Label
from callsheet.ir.tree import Ends, Foreach, If, Leave, Repeat, Require, Say, Try, Word, recovery_of
from callsheet.machine.commands import Command
from callsheet.machine.frames import Attempt
from callsheet.machine.monitor.tree_labels import ABSENT, Scope, Values
from callsheet.machine.monitor.trees import TreeMonitor
from callsheet.machine.tree.activations import Activation, Done, Ended, Loop, Tried
from callsheet.machine.tree.failures import Failure
from callsheet.machine.tree.interpreter import OPERATIONS, CarryOut, TreeRun
from callsheet.machine.tree.program import (
    BranchOp,
    BreakOp,
    CallOp,
    CatchOp,
    ClockOp,
    ComputeOp,
    Distinction,
    EnterOp,
    InvokeOp,
    LetOp,
    LimitOp,
    LoopOp,
    ParallelOp,
    ReplanOp,
    RequireOp,
    RoundOp,
    SayOp,
    Store,
    TreeProgram,
    UntilOp,
    YieldOp,
    statement_of,
)
from callsheet.machine.tree.values import plain

if TYPE_CHECKING:
    from callsheet.machine.run import Run
    from callsheet.machine.tree.statements import Taken


def _scope(act: Activation) -> Scope:
    assert act.labels is not None
    return act.labels


class MonitoredTreeRun(TreeRun):
    """The part of a run under a policy that only a plan tree has."""

    __slots__ = ("_names", "labels", "monitor")

    def __init__(self, program: TreeProgram, slots: list[Any], monitor: TreeMonitor, path: str = "") -> None:
        super().__init__(program, slots, path)
        self.monitor = monitor
        self.labels = monitor.labels
        self.carry_out = _MONITORED
        self._names: dict[int, dict[str, int]] = {}
        """The slots of variables by name, for each list of names."""

    def advance(self, run: Run, out: list[Command]) -> None:
        """Begin the plan."""
        self.main.labels = self.monitor.main
        super().advance(run, out)

    def _values(self, act: Activation) -> Values:
        """The present values of the variables of an activation, as JSON data."""
        names = act.body.names
        slot_of = self._names.get(id(names))
        if slot_of is None:
            slot_of = self._names[id(names)] = {name: slot for slot, name in enumerate(names)}

        def value(name: str) -> Any:
            slot = slot_of.get(name)
            return ABSENT if slot is None else plain(act.slots[slot])

        return value

    # -------------------------------------------------------------- failures

    def blamed(self, run: Run, act: Activation, failure: Failure) -> Failure:
        """The failure with the label of its words."""
        operation = act.body.operations[act.pc]
        if isinstance(operation, ClockOp):
            return failure._replace(label=failure.label or LITERAL)
        id_ = statement_of(operation)
        label = self.labels.failed(_scope(act), id_)
        label = label if failure.label is None else label.join(failure.label)
        _scope(act).failure = label
        self.monitor.note_secret(failure.step, label)
        return failure._replace(label=label)

    def led_to_stop(self, act: Activation) -> None:
        """What has stopped a group has led to all that its sub-plans under way do from now on."""
        inside: list[Activation] = []
        one: Activation | None = act
        while one is not None:
            inside.append(one)
            one = one.parent
        for outer, inner in pairwise(reversed(inside)):
            if isinstance(inner.role, InvokeOp):
                self.labels.led_to(_scope(inner), self.labels.counter(_scope(outer), inner.role.id))
            else:
                self.labels.led_to(_scope(inner), _scope(outer).base)

    def edited(self, act: Activation, name: str) -> None:
        """A person has set a variable; it gets the label of an input."""
        self.labels.edited(_scope(act), name)

    def bound(
        self, act: Activation, id_: str, name: str, failure: Failure, *, is_failure: bool = False
    ) -> None:
        """A variable holds a failure, or what takes the place of a result."""
        label = LITERAL if failure.label is None else failure.label
        self.labels.caught(_scope(act), id_, name, label, is_failure=is_failure)

    def blamed_call(self, act: Activation, op: CallOp, done: Done) -> Done:
        """A call that may have to be undone, with the labels of its data and of what led to it."""
        scope, id_ = _scope(act), op.code.id
        return done._replace(label=scope.told.get(id_, LITERAL), led=self.labels.counter(scope, id_))

    def bound_undo(self, act: Activation, op: CatchOp, name: str, failure: Failure, taken: Taken) -> None:
        """A variable holds a failure and what the calls that are undone have sent and given."""
        label = LITERAL if failure.label is None else failure.label
        self.labels.undoing(_scope(act), op.id, name, label, taken.given, taken.led)

    def shown_failure(self, failure: Failure) -> str:
        """What the end of the run says of a failure: its words, or that they are withheld."""
        return self.monitor.shown_failure(failure.step.rpartition("/")[2], failure.text, failure.label)

    # -------------------------------------------------------------- calls

    def admit(self, run: Run, act: Activation, attempt: Attempt) -> None:
        """Judge a call; raises RefusedByPolicy."""
        if isinstance(act.body.operations[act.pc], ClockOp):
            return
        written = attempt.args
        self.monitor.admit_call(attempt, self._values(act), is_asked=attempt.code.number in run.gated)
        run.note_observed(attempt.frame.name)
        run.note_apart(attempt, written)

    def admit_planning(self, act: Activation, op: ReplanOp, attempt: Attempt) -> None:
        """Judge what the planner of the next part is told; raises RefusedByPolicy."""
        statement = self.labels.statement(op.code.id)
        assert isinstance(statement, Say)
        self.monitor.admit_planning(attempt, statement.values, self._values(act))

    def unmade(self, act: Activation, op: CallOp) -> None:
        """The arguments of a call cannot be evaluated."""
        self.labels.unmade(_scope(act), op.code.id, self._values(act))

    def computed(self, act: Activation, op: ComputeOp, made: Mapping[str, Any]) -> None:
        """A COMPUTE has given these values."""
        self.labels.computed(_scope(act), op.code.id, made)

    def store(
        self, run: Run, act: Activation, into: Store, value: Any, step: str, *, of_tool: bool = False
    ) -> Any:
        """Store a result; of one that is a text, anybody may have written what it says under a key."""
        if of_tool and isinstance(value, str):
            self.labels.is_text(_scope(act), into.name)
        return super().store(run, act, into, value, step, of_tool=of_tool)

    # -------------------------------------------------------------- texts

    def shown_message(self, run: Run, act: Activation, id_: str, values: list[Any], text: str) -> str:
        """What the run answers for an ON_FAIL TERMINATE; raises RefusedByPolicy."""
        recovery = recovery_of(self.labels.statement(id_))
        assert recovery is not None
        assert isinstance(recovery.remedy, Leave)
        said = recovery.remedy.values
        shown = self.monitor.shown_answer(_scope(act), id_, "TERMINATE", said, values, self._values(act))
        return run.shown(id_, text, shown.text(text))

    def shown_answer(
        self, run: Run, act: Activation, op: SayOp, values: list[Any], text: str, answer: JSON
    ) -> tuple[str, JSON]:
        """An answer as it may be shown: its text, and its value; raises RefusedByPolicy."""
        statement = self.labels.statement(op.id)
        assert isinstance(statement, Say)
        tool = "RESPOND" if op.word is Word.RETURN else op.word.value
        scope, get = _scope(act), self._values(act)
        shown = self.monitor.shown_answer(scope, op.id, tool, statement.values, values, get)
        self.labels.left(scope, op.id, get)
        return run.shown(op.id, text, shown.text(text)), shown.value(answer)

    def shown_remark(self, act: Activation, id_: str, text: str) -> str:
        """What the run says for a NOTE, or for what pure code prints: the text, or that it is withheld."""
        return self.monitor.shown_remark(id_, text, self.labels.words_of(_scope(act), id_))

    # -------------------------------------------------------------- simple statements

    def _let(self, run: Run, act: Activation, op: LetOp, out: list[Command]) -> int:
        self.labels.assigned(_scope(act), op.id, self._values(act))
        return super()._let(run, act, op, out)

    def _require(self, run: Run, act: Activation, op: RequireOp, out: list[Command]) -> int:
        statement = self.labels.statement(op.id)
        assert isinstance(statement, Require)
        self._tested(act, op.id, statement.condition)
        return super()._require(run, act, op, out)

    def _say(self, run: Run, act: Activation, op: SayOp, out: list[Command]) -> int:
        is_inner_return = op.word is Word.RETURN and act.is_of_sub_plan
        if is_inner_return or op.word in (Word.NOTE, Word.FAIL, Word.WAIT):
            self.labels.left(_scope(act), op.id, self._values(act))
        return super()._say(run, act, op, out)

    def _yield(self, run: Run, act: Activation, op: YieldOp, out: list[Command]) -> int:
        self.labels.left(_scope(act), op.id, self._values(act))
        return super()._yield(run, act, op, out)

    def _break(self, run: Run, act: Activation, op: BreakOp, out: list[Command]) -> int:
        self.labels.left(_scope(act), op.id, self._values(act))
        return super()._break(run, act, op, out)

    def _branch(self, run: Run, act: Activation, op: BranchOp, out: list[Command]) -> int:
        statement = self.labels.statement(op.id)
        assert isinstance(statement, If)
        self._tested(act, op.id, statement.branches[op.branch].condition)
        return super()._branch(run, act, op, out)

    def _tested(self, act: Activation, id_: str, condition: Expression | None) -> None:
        if condition is not None:
            self.labels.tested(_scope(act), id_, condition, self._values(act))

    # -------------------------------------------------------------- loops

    def _repeat_of(self, id_: str) -> Repeat:
        return cast("Repeat", self.labels.statement(id_))

    def _enter(self, run: Run, act: Activation, op: EnterOp, out: list[Command]) -> int:
        self._tested(act, op.id, self._repeat_of(op.id).most)
        return super()._enter(run, act, op, out)

    def _round(self, run: Run, act: Activation, op: RoundOp, out: list[Command]) -> int:
        self._tested(act, op.id, self._repeat_of(op.id).while_)
        return super()._round(run, act, op, out)

    def _until(self, run: Run, act: Activation, op: UntilOp, out: list[Command]) -> int:
        loop = self._repeat_of(op.id)
        self._tested(act, op.id, loop.until)
        if loop.every is not None:
            self.labels.waited(_scope(act), op.id, loop.every, self._values(act))
        return super()._until(run, act, op, out)

    def _loop(self, run: Run, act: Activation, op: LoopOp, out: list[Command]) -> int:
        assert isinstance(self.labels.statement(op.id), Foreach)
        self.labels.looped(_scope(act), op.id, self._values(act))
        return super()._loop(run, act, op, out)

    def may_tell_apart(self, act: Activation, op: LoopOp, distinction: Distinction) -> bool:
        """Whether the order of calls may show that the items of a loop differ in what they touch."""
        return self.labels.may_tell_apart(_scope(act), op.id, distinction.outer)

    def _begin(self, run: Run, loop: Loop) -> None:
        super()._begin(run, loop)
        if loop.op.ends is Ends.FIRST:
            self.labels.against_time()

    def _item(self, loop: Loop, index: int) -> Activation:
        item = super()._item(loop, index)
        item.labels = self.labels.item(_scope(loop.act), loop.op.id)
        return item

    def _item_ended(self, run: Run, loop: Loop, item: Activation, ended: Ended) -> None:
        is_undone = isinstance(ended.by, Failure) and loop.op.skips
        self.labels.item_done(_scope(loop.act), loop.op.id, _scope(item), is_undone=is_undone)
        super()._item_ended(run, loop, item, ended)

    def _loop_done(self, run: Run, act: Activation, loop: Loop) -> int:
        self.monitor.note_secret(loop.path, self.labels.listed(_scope(act), loop.op.id))
        self.labels.loop_checked(_scope(act), loop.op.id)
        signal = super()._loop_done(run, act, loop)
        self.labels.loop_done(_scope(act), loop.op.id)
        return signal

    # -------------------------------------------------------------- time limits

    def _limit(self, run: Run, act: Activation, op: LimitOp, out: list[Command]) -> int:
        within = cast("Try", self.labels.statement(op.id)).within
        assert within is not None
        label = self.labels.waited(_scope(act), op.id, within, self._values(act))
        signal = super()._limit(run, act, op, out)
        self.labels.against_time(label)
        return signal

    def time_over(self, act: Activation, op: ParallelOp | LoopOp) -> None:
        """A block of which time decided how far it came has ended."""
        self.labels.time_over(_scope(act), op.id)

    # -------------------------------------------------------------- sub-plans

    def _callee(self, act: Activation, op: InvokeOp, visit: str) -> Activation:
        inner = super()._callee(act, op, visit)
        inner.labels = self.labels.invoked(_scope(act), op.id, self._values(act))
        return inner

    def budget_begins(self, inner: Activation, tried: Tried | None) -> None:
        """A sub-plan begins of which its own budget decides how far it comes: as time does of a block."""
        if tried is None:
            self.labels.against_time()
        else:
            self.labels.against_time(self.labels.clock if tried.label is None else tried.label)
        _scope(inner).is_timed = True

    def budget_ends(self, act: Activation, op: InvokeOp) -> Label:
        """Such a sub-plan has ended; gives the label of what it has spent, as that of the time it took."""
        spent = self.labels.elapsed
        self.labels.time_over(_scope(act), op.id)
        return spent

    def _returned(self, run: Run, act: Activation, op: InvokeOp, inner: Activation) -> int:
        scope = _scope(inner)
        self.labels.called(_scope(act), op.id, scope)
        if inner.ended is not None and not isinstance(inner.ended.by, Failure):
            self.labels.returned(_scope(act), op.id, scope)
            self.monitor.note_secret(inner.path.removesuffix("/"), scope.result.label)
        return super()._returned(run, act, op, inner)


_MONITORED: Mapping[type, CarryOut] = {
    operation: getattr(MonitoredTreeRun, execute.__name__) for operation, execute in OPERATIONS.items()
}
