"""Executes the operations of an activation of a plan tree until it waits or ends; its values and variables.

What each operation does is in `statements` and `blocks`; what goes on when an activation ends, in
`interpreter`. Under a policy, `monitored` does more at `blamed`, `admit`, `bound` and the texts shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

from callsheet.ir import JSON
from callsheet.ir.failing import Failing
from callsheet.ir.labels import Label
from callsheet.machine.budget import Refusal
from callsheet.machine.commands import Command
from callsheet.machine.expressions import ExpressionFailed
from callsheet.machine.expressions.encoding import to_text
from callsheet.machine.expressions.values import DEFAULT_WORK, Environment
from callsheet.machine.frames import Attempt, End
from callsheet.machine.keys import segment
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.result import Status
from callsheet.machine.tree.activations import (
    ENDED,
    NEXT,
    STAY,
    WAITING,
    Activation,
    Done,
    Ended,
    Guard,
    Loop,
    Members,
    Tried,
    new_environment,
    unwind,
)
from callsheet.machine.tree.failures import Failure, StatementFailed
from callsheet.machine.tree.program import (
    CallOp,
    CatchOp,
    ComputeOp,
    Const,
    Distinction,
    GuardOp,
    InvokeOp,
    LoopOp,
    Operand,
    ParallelOp,
    ReplanOp,
    RoundOp,
    SayOp,
    Store,
    TreeProgram,
    UntilOp,
    statement_of,
)
from callsheet.machine.tree.values import conformed, plain
from callsheet.machine.usage import Spent

if TYPE_CHECKING:
    from callsheet.machine.run import Run
    from callsheet.machine.tree.statements import Taken


def enter(tree: Execution, act: Activation, op: InvokeOp, inner: Activation) -> Tried | None:
    """A sub-plan with a budget begins; gives what earlier attempts at its call have spent, which share it."""
    guard = _guard_of(act, op)
    tried = None if guard is None else guard.tried
    inner.spent = Spent() if tried is None else tried.spent
    tree.capped += 1
    return tried


def leave(tree: Execution, act: Activation, op: InvokeOp, inner: Activation, label: Label | None) -> None:
    """It has ended; what it has spent, with its label, is kept for another attempt."""
    tree.capped -= 1
    guard = _guard_of(act, op)
    if guard is not None and inner.spent is not None:
        act.guards[-1] = guard._replace(tried=Tried(inner.spent, label))


def _guard_of(act: Activation, op: InvokeOp) -> Guard | None:
    """The guard of a CALL itself, which leads to its attempts; None if it is made only once."""
    if act.guards:
        operation = act.body.operations[act.guards[-1].at]
        if isinstance(operation, GuardOp) and operation.id == op.id:
            return act.guards[-1]
    return None


def spend(act: Activation, spent: Spent) -> None:
    """A call inside of an activation has spent this."""
    one: Activation | None = act
    while one is not None:
        if one.spent is not None:
            one.spent = one.spent.plus(spent)
        one = one.parent


def overspent(tree: Execution, act: Activation) -> str:
    """Why an activation may make no further call, for a sub-plan around it has spent its budget; else ""."""
    if not tree.capped or act.path[:-1] in tree.undone:
        return ""
    one: Activation | None = act
    while one is not None and not one.pending:
        if one.spent is not None:
            op = cast("InvokeOp", one.role)
            used = one.spent.input_tokens + one.spent.output_tokens, one.spent.cost
            if op.budget is not None and op.budget.is_spent(*used):
                return f"the budget of {op.plan} is spent: {op.budget.words(*used)}"
        one = one.parent
    return ""


def failure_of(why: str, place: str) -> Failure:
    """The failure of a call that is not made."""
    return Failure(Failing.BUDGET.value, why, place)


_WORK_OF_UNIT = 64
"""So much work of an expression counts as a unit, so that a driver hears of signals in time."""
_LEFT_OF_UNIT = DEFAULT_WORK - _WORK_OF_UNIT


class RunEnds(Exception):
    """Unwinds to the driver of the tree: the run ends, and nothing in the plan can catch it."""

    def __init__(self, end: End) -> None:
        super().__init__(end.response)
        self.end = end


CarryOut: TypeAlias = Callable[[Any, "Run", Activation, Any, "list[Command]"], int]
"""Executes an operation of an activation in a run of a tree; what it leads to, as in `guards`."""


HearsEdit: TypeAlias = Callable[[Activation, int, "tuple[Activation, int] | None"], None]
"""Hears that a slot of an activation is set by hand, or has the value that another one was given."""


HearsFailedItem: TypeAlias = Callable[[str, int, int], None]
"""Hears that an item of a loop has failed: the place of the loop, the item from 0, and how many there are."""


HearsFailure: TypeAlias = Callable[[Activation, Failure], None]
"""Hears that the current statement of an activation has failed, before anything is done about it."""


class Execution:
    """Executes operations; `carry_out` says how each kind of them is executed."""

    __slots__ = (
        "capped", "carry_out", "ending", "env", "hears_edit", "hears_failed_item", "hears_failure", "layout",
        "main", "paused", "program", "stopping", "undone", "was_edited", "worked",
    )  # fmt: skip

    def __init__(
        self, program: TreeProgram, slots: list[Any], carry_out: Mapping[type, CarryOut], path: str = ""
    ) -> None:
        self.program = program
        self.carry_out = carry_out
        """How each kind of operation is executed; who records reads and writes puts itself between."""
        self.hears_edit: HearsEdit | None = None
        """Who records what a person sets, if anyone."""
        self.hears_failed_item: HearsFailedItem | None = None
        """Who wants to know which items of loops fail, if anyone."""
        self.hears_failure: HearsFailure | None = None
        """Who wants to know where statements fail, if anyone."""
        self.main = Activation(program.main, slots, path)
        self.paused: list[Activation | Loop | Members] = []
        self.stopping: int = 0
        """How many tasks have to end before their next call, as their group has failed."""
        self.capped: int = 0
        """How many sub-plans with a budget of their own are under way."""
        self.ending: End | None = None
        """How the run ends once the calls that have left have their outcomes; nothing else starts."""
        self.env: Environment = new_environment()
        self.layout = ""
        """A digest of the program's operations, once a snapshot has asked for it."""
        self.worked = 0
        """The work of the expressions since the last operation that did at least that of a unit."""
        self.undone: dict[str, str] = {}
        """The place of each call that an ON_FAIL UNDO takes back, by that of the item which does so."""
        self.was_edited = False
        """Whether a person has set variables of the run."""

    def watch(self, hears: Callable[[str, str], None]) -> None:
        """Tell of each statement that begins, its place in the run and its id; used before the run begins."""

        def told(execute: CarryOut, *given: Any) -> int:
            _, _, act, operation, _ = given
            id_ = statement_of(operation)
            if id_ and not isinstance(operation, RoundOp | UntilOp | CatchOp):
                hears(act.path + segment(id_), id_)
            return execute(*given)

        self.carry_out = {kind: partial(told, execute) for kind, execute in self.carry_out.items()}

    def set_inputs(self, run: Run, given: Mapping[str, JSON]) -> None:
        """Set the variables of the inputs: those given and the defaults, as their types say."""
        for slot, one in self.program.inputs:
            if one.name in given:
                value: Any = given[one.name]
            elif one.must_be_given:
                continue
            else:
                value = one.default
            run.scope.assign(slot, conformed(value, one.type, self.program.types)[0])

    def spent(self) -> int:
        """The units of the work of expressions since the last time that this was asked."""
        units, self.worked = self.worked // _WORK_OF_UNIT, 0
        return units

    def _execute(self, run: Run, act: Activation, out: list[Command], first: Callable[[], int] | None) -> int:
        """Execute operations until the activation waits or ends."""
        operations, carry_out = act.body.operations, self.carry_out
        count = len(operations)
        while True:
            try:
                if first is not None:
                    step, first = first, None
                    signal = step()
                elif act.pc >= count:
                    act.ended = Ended(None, act.yielded)
                    return ENDED
                elif self.worked:
                    run.units_left -= self.spent()
                    continue
                elif run.units_left <= 0:
                    run.is_paused = True
                    self.paused.append(act)
                    return WAITING
                else:
                    run.units_left -= 1
                    operation = operations[act.pc]
                    signal = carry_out[type(operation)](self, run, act, operation, out)
            except StatementFailed as failed:
                signal = self._unwound(run, act, failed.failure)
            except ExpressionFailed as failed:
                signal = self._unwound(run, act, Failure.of(failed, self._place(act)))
            if signal == NEXT:
                act.pc += 1
            elif signal != STAY:
                return signal

    def _heed(self, act: Activation, place: str) -> None:
        """Fail before a call or wait of a task that is stopped; raises StatementFailed.

        What a FINALLY block does is done to its end.
        """
        if self._is_told(act):
            self._raise_stop(act, place)

    def _is_told(self, act: Activation) -> bool:
        """Whether the task of an activation ends at its next call or wait."""
        return bool(self.stopping) and act.task.stopping is not None and not act.is_in_final

    def _raise_stop(self, act: Activation, place: str) -> NoReturn:
        task = act.task
        why = task.stopping
        assert why is not None
        self._forget_stop(task)
        raise StatementFailed(why._replace(step=place))

    def _forget_stop(self, task: Activation) -> None:
        """A task has been told that its group has failed, or has ended."""
        if task.stopping is not None:
            task.stopping = None
            self.stopping -= 1

    def _unwound(self, run: Run, act: Activation, failure: Failure) -> int:
        if failure.kind == Failing.CANCELLED and self.stopping:
            self._forget_stop(act.task)
        if self.hears_failure is not None:
            self.hears_failure(act, failure)
        return unwind(act, self.blamed(run, act, failure))

    @staticmethod
    def _place(act: Activation) -> str:
        return act.path + statement_of(act.body.operations[act.pc])

    def _may_spend(self, run: Run, act: Activation, visit: str) -> Failure | None:
        """The failure of a call for which a sub-plan around it has no budget left; None if there is any."""
        why = overspent(self, act)
        if not why:
            return None
        run.notify(NoteKind.FAILED, visit, why)
        return failure_of(why, visit)

    # -------------------------------------------------------------- under a policy

    def budget_begins(self, inner: Activation, tried: Tried | None) -> None:
        """A sub-plan begins of which its own budget decides how far it comes, as earlier attempts left it."""

    def budget_ends(self, act: Activation, op: InvokeOp) -> Label | None:
        """Such a sub-plan has ended; gives the label of what it has spent, None if it is not known."""
        return None

    def blamed(self, run: Run, act: Activation, failure: Failure) -> Failure:
        """A failure of the current statement of an activation, before it is handled."""
        return failure

    def admit(self, run: Run, act: Activation, attempt: Attempt) -> None:
        """A call is about to be made."""

    def admit_planning(self, act: Activation, op: ReplanOp, attempt: Attempt) -> None:
        """The next part of the plan is about to be asked for."""

    def unmade(self, act: Activation, op: CallOp) -> None:
        """The arguments of a call cannot be evaluated."""

    def computed(self, act: Activation, op: ComputeOp, made: Mapping[str, Any]) -> None:
        """A COMPUTE has given these values."""

    def edited(self, act: Activation, name: str) -> None:
        """A person has set a variable of an activation."""

    def blamed_call(self, act: Activation, op: CallOp, done: Done) -> Done:
        """A call that may have to be undone."""
        return done

    def bound_undo(self, act: Activation, op: CatchOp, name: str, failure: Failure, taken: Taken) -> None:
        """A variable holds a failure and what the calls that are undone have sent and given."""

    def bound(
        self, act: Activation, id_: str, name: str, failure: Failure, *, is_failure: bool = False
    ) -> None:
        """A variable holds a failure (surely so with `is_failure`), or what takes the place of a result."""

    def time_over(self, act: Activation, op: ParallelOp | LoopOp) -> None:
        """A block of which time decided how far it came has ended, or something has ended it."""

    def may_tell_apart(self, act: Activation, op: LoopOp, distinction: Distinction) -> bool:
        """Whether the order of calls may show that the items of a loop differ in what they touch."""
        return True

    def shown_failure(self, failure: Failure) -> str:
        """What the end of the run says of a failure."""
        return failure.text

    def shown_message(self, run: Run, act: Activation, id_: str, values: list[Any], text: str) -> str:
        """What the run answers for an ON_FAIL TERMINATE."""
        return text

    def shown_remark(self, act: Activation, id_: str, text: str) -> str:
        """What the run says for a NOTE, or for what pure code prints."""
        return text

    def shown_answer(
        self, run: Run, act: Activation, op: SayOp, values: list[Any], text: str, answer: JSON
    ) -> tuple[str, JSON]:
        """An answer as it may be shown: its text, and its value."""
        return text, answer

    # -------------------------------------------------------------- values and variables

    def value(self, act: Activation, operand: Operand) -> Any:
        """The value of an operand at the current statement of an activation."""
        if isinstance(operand, int):
            return act.slots[operand]
        if isinstance(operand, Const):
            return operand.value
        env = self.env
        env.work, env.now = DEFAULT_WORK, act.now
        made = operand(act.slots, env)
        if env.work <= _LEFT_OF_UNIT:
            self.worked += DEFAULT_WORK - env.work
        return made

    def text(self, value: Any) -> str:
        """A value as text."""
        self.env.work = DEFAULT_WORK
        made = to_text(self.env, value)
        if self.env.work <= _LEFT_OF_UNIT:
            self.worked += DEFAULT_WORK - self.env.work
        return made

    def store(
        self, run: Run, act: Activation, into: Store, value: Any, step: str, *, of_tool: bool = False
    ) -> Any:
        """Store a result, after the check of its type; returns what is stored."""
        if into.type is not None:
            value, wrong = conformed(value, into.type, self.program.types, reads_text=of_tool)
            if wrong:
                raise StatementFailed(Failure(Failing.CAST.value, f"${into.name}: {wrong}", step))
        self.put(run, act, into.slot, value)
        return value

    def put(self, run: Run, act: Activation, slot: int, value: Any) -> None:
        """Set a variable."""
        act.slots[slot] = value
        if act.slots is run.slots:
            run.scope.was_set[slot] = 1

    # -------------------------------------------------------------- budget and progress

    def _refused(self, refusal: Refusal, visit: str) -> RunEnds:
        why = refusal.describe()
        return RunEnds(End(Status.FAILED, why, error=why, ended_at=visit or None, refusal=refusal))

    def _count(self, run: Run, act: Activation, visit: str) -> None:
        """Count a step, outside the items of loops."""
        if not act.is_inner:
            self._count_step(run, visit)

    def _count_step(self, run: Run, visit: str) -> None:
        budget, most = run.budget, run.limits.max_steps
        if budget.steps >= most:
            raise self._refused(Refusal("max_steps", most, budget.steps), visit)
        budget.steps += 1
        budget.ahead -= 1

    def _finished(
        self, run: Run, visit: str, var: str | None = None, value: Any = None, *, why_unused: str = ""
    ) -> None:
        if run.observer is not None:
            is_secret = run.monitor is not None and run.monitor.holds_secrets_of(visit)
            note = Note(NoteKind.FINISHED, visit, why_unused, var, plain(value), is_secret)
            run.observer(note._replace(is_unused=True) if why_unused else note)
