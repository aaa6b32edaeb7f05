"""The mutable state of one run, shared by all parts of the machine.

`starting`, `calls`, `outcomes`, `order` and `answers` change it. Their functions take the run and, if calls
may follow, the list that commands are appended to.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import compress
from typing import TYPE_CHECKING, Any, cast

from callsheet.ir import JSON
from callsheet.machine.agents.talk import InnerCall
from callsheet.machine.ahead import Ahead
from callsheet.machine.asking import Asking
from callsheet.machine.budget import Budget, Refusal
from callsheet.machine.closures import compile_value
from callsheet.machine.commands import Command, Finish
from callsheet.machine.decision_log import DecisionLog, Decisions
from callsheet.machine.events import Cut, Failed, PlanCompiled, Succeeded, describe_remark
from callsheet.machine.frames import Attempt, End, Frame, Group, Kept, Plain, TreeFrame
from callsheet.machine.limits import AUTO, Limits
from callsheet.machine.notes import CallPlace, Note, NoteKind
from callsheet.machine.program import FIRST, IN_TREE, NOWHERE, Kind, Program, StepCode
from callsheet.machine.progress import Planning
from callsheet.machine.result import PolicyRefusal, Result, Status, result_of
from callsheet.machine.schedule import Schedule

if TYPE_CHECKING:
    from callsheet.machine.monitor.enforcement import Enforcement
    from callsheet.machine.monitor.monitor import Monitor
    from callsheet.machine.tree.activations import Activation
    from callsheet.machine.tree.apart import Apart
    from callsheet.machine.tree.interpreter import TreeRun
    from callsheet.machine.tree.program import TreeProgram


class Variables:
    """The variables of a run under one program.

    `slots` has the values, as the program's functions read them; `was_set` has a 1 for each that is set. In a
    plan tree values need not be JSON data.
    """

    __slots__ = ("_extra", "_program", "slots", "was_set")

    def __init__(self, program: Program) -> None:
        self._program = program
        self._extra: dict[str, JSON] = {}
        self.was_set = bytearray(len(program.slot_of))
        self.slots: list[Any] = [None] * len(program.slot_of)

    def assign(self, slot: int, value: Any) -> None:
        """Set the variable of a slot."""
        self.slots[slot] = value
        self.was_set[slot] = 1

    def is_set(self, slot: int) -> bool:
        """Whether the variable of a slot has been set."""
        return bool(self.was_set[slot])

    def take_over(self, values: Mapping[str, JSON]) -> None:
        """Set variables by name; those that the program does not name are kept as well."""
        for name, value in values.items():
            slot = self._program.slot_of.get(name)
            if slot is None:
                self._extra[name] = value
            else:
                self.assign(slot, value)

    def set_initial(self) -> None:
        """Set the variables that the plan declares with values."""
        slot_of = self._program.slot_of
        for name, value in self._program.plan.variables:
            self.assign(slot_of[name], compile_value(value, slot_of.__getitem__)(self.slots))

    def parts(self) -> tuple[list[Any], bytearray, dict[str, JSON]]:
        """The values by slot, which of them are set, and those that the program does not name."""
        return self.slots, self.was_set, self._extra

    def restore(self, slots: list[Any], was_set: bytearray, extra: dict[str, JSON]) -> None:
        """Restore what `parts` gave; raises ValueError if the number of slots differs."""
        if len(slots) != len(self.slots) or len(was_set) != len(self.slots):
            raise ValueError(f"{len(slots)} values for {len(self.slots)} slots")
        self.slots[:] = slots
        self.was_set[:] = was_set
        self._extra = extra

    def to_dict(self) -> dict[str, Any]:
        """All variables that are set, by name."""
        values = dict(compress(zip(self._program.names, self.slots, strict=True), self.was_set))
        return {**self._extra, **values} if self._extra else values


Observer = Callable[[Note], None]

_NO_NAMES: frozenset[str] = frozenset()
_APART = "POL181: links that may come from untrusted content are defanged"

ALL = sys.maxsize
"""No limit on the steps and items done before a pause."""


class Run:
    """The state of a run.

    Variables: `scope` holds them, `slots` their values as the program's functions read them; `edits` are
    variables that override what the current event sets; `last` is the value stored last.

    Position: `pc` is the number of the current step, `visits` counts the visits of each step, `group` is the
    open @PARALLEL block, `schedule` the progress of a graph, `generation` the key prefix of the current
    re-plan. `failed_steps` are the steps of the current plan that failed in some visit, or of which an item
    failed, with nothing to handle that, in order; for a graph, `schedule` has them.

    Open calls by key: `attempts` for calls of steps, `inner` for calls within turn-by-turn operations,
    `asleep` for waits before a retry, `compiling` for new plans, `asking` for questions to people.
    `planning` is the open request for a new plan after a graph failed; `plans_asked` counts such requests.

    Pauses: `units_left` is how many steps and items may still be done before a pause, `unfilled` the FOREACH
    that a pause interrupted, `held` the commands issued since the event, which leave after the last pause.

    Control: `is_free` says that no approval rule applies to any step (`gated` has the steps with one).
    `ahead` holds calls issued before their turn, None if none can be. `monitor` enforces the policy, None
    without one. `decision_log` records the decisions that depend on values, or replays recorded ones.
    """

    __slots__ = (
        "ahead",
        "apart",
        "asking",
        "asleep",
        "attempts",
        "budget",
        "compiling",
        "decision_log",
        "edits",
        "failed_steps",
        "gated",
        "generation",
        "group",
        "held",
        "inner",
        "is_free",
        "is_paused",
        "is_started",
        "last",
        "limits",
        "monitor",
        "observer",
        "pc",
        "placeholders",
        "planning",
        "plans_asked",
        "program",
        "result",
        "schedule",
        "scope",
        "slots",
        "told",
        "tree",
        "trees",
        "unfilled",
        "units_left",
        "visits",
        "withdrawn",
    )

    def __init__(
        self,
        program: Program,
        limits: Limits,
        observer: Observer | None,
        approve: Iterable[str],
        approval_timeout: Mapping[str, float] | None = None,
        enforcement: Enforcement | None = None,
    ) -> None:
        self.limits = limits
        self.result: Result | None = None
        self.observer = observer
        self.attempts: dict[str, Attempt | Plain] = {}
        self.inner: dict[str, InnerCall] = {}
        self.asking = Asking(approve, approval_timeout)
        self.asleep: dict[str, Attempt] = {}
        self.compiling: dict[str, Attempt] = {}
        self.planning: Planning | None = None
        self.plans_asked = 0
        self.is_started = False
        self.generation = ""
        self.trees = 0
        """How many plans of version 2 there were; the keys of all but the first begin with their part."""
        self.budget = Budget(limits)
        self.last: JSON = None
        self.units_left = ALL
        self.is_paused = False
        """Whether work is left to do before the next event."""
        self.unfilled: Frame | None = None
        self.held: list[Command] = []
        self.withdrawn: list[str] = []
        """The keys of timers and questions that the last event has ended without an outcome."""
        self.told: list[str] = []
        """The keys of calls under way whose tasks end with them since the last event."""
        self.placeholders: tuple[str, ...] = ()
        """Texts that stand for secrets, which only those know who make the calls."""
        self.edits: Mapping[str, JSON] | None = None
        self.monitor: Monitor | None = None
        if enforcement is not None:
            self.monitor = _monitor(program, enforcement)
        self.decision_log: DecisionLog | None = None
        self.apart: Apart | None = None
        self.load(program)

    def load(self, program: Program) -> None:
        """Begin a program with fresh variables, visits and position."""
        self.program = program
        if self.decision_log is not None:
            self.decision_log.lead(program)
        self.gated = self.asking.gated(program)
        self.is_free = not self.gated
        if self.monitor is not None and program.tree is None:
            self.monitor.load(program)
        self.scope = Variables(program)
        self.slots: list[Any] = self.scope.slots
        self.visits = [0] * len(program.steps)
        self.pc = 0
        self.failed_steps: dict[str, None] = {}
        self.group: Group | None = None
        tools = [code.tool for code in program.steps] if program.graph is not None else []
        self.schedule = None if program.graph is None else Schedule(program.graph, tools)
        self.tree: TreeRun | None = None
        """The activations of a plan of version 2; the position of other plans is in `pc`."""
        if program.tree is not None:
            path = f"{self.generation}/" if self.trees else ""
            self.tree = self._tree_run(program.tree, path)
            self.trees += 1
        self.ahead = self.may_run_ahead() if self.limits.schedule == AUTO else None

    def _tree_run(self, tree: TreeProgram, path: str) -> TreeRun:
        from callsheet.machine.tree.interpreter import TreeRun  # noqa: PLC0415 - version 2

        if self.monitor is None:
            return self._attended(TreeRun(tree, self.slots, path))
        from callsheet.machine.monitor.trees import TreeMonitor  # noqa: PLC0415 - version 2 under a policy
        from callsheet.machine.tree.monitored import MonitoredTreeRun  # noqa: PLC0415 - as above

        assert isinstance(self.monitor, TreeMonitor)
        return self._attended(MonitoredTreeRun(tree, self.slots, self.monitor, path))

    def evaluate_apart(self, apart: Apart) -> None:
        """Ask a driver for the values of large expressions, in this plan and those that follow."""
        self.apart = apart
        if self.tree is not None:
            self._attended(self.tree)

    def _attended(self, tree: TreeRun) -> TreeRun:
        plan = self.program.plan.tree
        if self.apart is not None and plan is not None:
            self.apart.attend(tree, plan)
        return tree

    def use_decision_log(self, decision_log: DecisionLog) -> None:
        """Record decisions in a log, or decide as it says; it must not serve another program."""
        decision_log.lead(self.program)
        self._follow(decision_log)

    def share_decision_log(self, other: Run) -> None:
        """Use the decision log of another run of the same program, if it has one."""
        if other.decision_log is not None:
            self._follow(other.decision_log)

    def _follow(self, decision_log: DecisionLog) -> None:
        self.decision_log = decision_log
        self.budget.weigh = decision_log.weighing(self.budget.weigh)
        if self.monitor is not None:
            self.monitor.use_decision_log(decision_log)

    def follow(self, decisions: Decisions | None) -> None:
        """Use `decisions` for the next event; None if they are not known."""
        if self.decision_log is None:
            if decisions is None:
                return
            self.use_decision_log(DecisionLog(notes=False))
        assert self.decision_log is not None
        self.decision_log.follow(decisions)

    def may_run_ahead(self) -> Ahead | None:
        """The state for running ahead; None under a policy, since any earlier call may end the run."""
        return (
            None if self.monitor is not None or self.tree is not None else Ahead.of(self.program, self.gated)
        )

    def take_over(self, other: Run) -> None:
        """Take over the state of another run of the same program and limits; its objects are shared."""
        self.is_started = True
        self.scope, self.slots, self.visits = other.scope, other.slots, other.visits
        self.pc, self.generation, self.last = other.pc, other.generation, other.last
        self.tree, self.trees = other.tree, other.trees
        self.failed_steps = other.failed_steps
        self.budget, self.group, self.schedule = other.budget, other.group, other.schedule
        self.asking.take_over(other.asking)
        self.planning, self.plans_asked = other.planning, other.plans_asked
        self.attempts, self.asleep, self.compiling = other.attempts, other.asleep, other.compiling
        self.inner = other.inner
        if other.monitor is not None:
            self.monitor, self.ahead = other.monitor, None
        if self.ahead is not None and other.ahead is not None:
            self.ahead.take_over(other.ahead.state)

    def register(self, attempt: Attempt) -> None:
        """Register an open call."""
        if isinstance(attempt, InnerCall):
            self.inner[attempt.key] = attempt
        elif attempt.frame.code.kind is Kind.REPLAN:
            self.compiling[attempt.key] = attempt
        else:
            self.attempts[attempt.key] = attempt

    def call(self, key: str) -> Attempt | None:
        """The open call with this key, if any; compilations of new plans are not included."""
        attempt = self.attempts.get(key)
        if isinstance(attempt, tuple):
            self.attempts[key] = attempt = self.unfolded(key, attempt)
        return attempt or self.inner.get(key)

    def calls(self) -> list[Attempt]:
        """The open calls of steps, each as an Attempt with its frame."""
        return [call for key in self.attempts if (call := self.call(key)) is not None]

    def members(self) -> list[Frame]:
        """The frames of the open group's started steps."""
        if self.group is None:
            return []
        self.calls()
        frames = [self._framed(one) if isinstance(one, tuple) else one for one in self.group.frames]
        self.group.frames = [*frames]
        return frames

    def unfolded(self, key: str, call: Plain) -> Attempt:
        """The Attempt, with its frame, that a plain call stands for."""
        code, args, place, of_items = call
        if place == IN_TREE:
            of_tree = TreeFrame().of(code, cast("Activation", of_items), key.rpartition(".")[0])
            return Attempt().begin(of_tree, 0, key, args, [])
        if isinstance(of_items, Frame):
            return Attempt().begin(of_items, place, key, args, [])
        grouped = place != NOWHERE or self.schedule is not None
        frame = Frame().begin(code, key.removesuffix(FIRST), grouped)
        frame.ran, frame.open = True, 1
        if place != NOWHERE:
            assert self.group is not None
            self.group.frames[place] = frame
        return Attempt().begin(frame, 0, key, args, [])

    def _framed(self, record: Kept) -> Frame:
        code, value, key = record
        frame = Frame().begin(code, key.removesuffix(FIRST), grouped=True)
        frame.ran, frame.value = True, value
        return frame

    def prefix(self, code: StepCode) -> str:
        """The key prefix of the calls that a step makes in its current visit."""
        visit = self.visits[code.identity]
        prefix = code.prefix if visit == 1 else f"{code.prefix[:-1]}@{visit}."
        return self.generation + prefix if self.generation else prefix

    def drop(self, attempt: Attempt) -> None:
        """Remove a call from the open ones."""
        self.attempts.pop(attempt.key, None)
        self.inner.pop(attempt.key, None)

    @property
    def has_open_calls(self) -> bool:
        """Whether a call, a question or a wait is open."""
        return bool(self.attempts or self.inner or self.asleep or self.compiling or self.asking.keys())

    def is_open(self, key: str) -> bool:
        """Whether the call with this key has no outcome yet or waits for an approval.

        Waits before a retry (`asleep`) do not count.
        """
        return (
            key in self.attempts
            or key in self.inner
            or key in self.compiling
            or (self.planning is not None and key == self.planning.key)
            or self.asking.is_open(key)
            or (self.ahead is not None and self.ahead.is_open(key))
        )

    def notify(self, kind: NoteKind, step: str, text: str = "", at: CallPlace | None = None) -> None:
        """Tell the observer, if there is one."""
        if self.observer is not None:
            self.observer(Note(kind, step, text, is_secret=self._has_secrets(step), at=at))

    def notify_of(self, kind: NoteKind, attempt: Attempt, text: str) -> None:
        """Tell the observer, if there is one, of a call: which item and which attempt it is."""
        if self.observer is None:
            return
        frame, at = attempt.frame, None
        attempts = frame.code.retries + 1
        if frame.items is not None:
            at = CallPlace(attempt.index + 1, len(frame.items), attempt.number, attempts)
        elif attempts > 1:
            at = CallPlace(0, 0, attempt.number, attempts)
        self.notify(kind, frame.name, text, at)

    def shown(self, step: str, text: str, as_shown: str) -> str:
        """The text to show to a person, `as_shown`; the observer is told if links were disabled in it."""
        if as_shown != text:
            self.notify(NoteKind.FACT, step, _APART)
        return as_shown

    def note_observed(self, step: str = "") -> None:
        """Tell the observer what a policy that only observes would have refused or asked."""
        monitor = self.monitor
        if monitor is None or not monitor.observed:
            return
        for place, text in monitor.observed:
            self.notify(NoteKind.OBSERVED, step or place, text)
        monitor.observed.clear()

    def note_apart(self, attempt: Attempt, written: Mapping[str, Any]) -> None:
        """Tell the observer if links were disabled in the `written` arguments of a call."""
        if attempt.args is not written and attempt.args != written:
            self.notify(NoteKind.FACT, attempt.frame.name, _APART)

    def _has_secrets(self, step: str) -> bool:
        return self.monitor is not None and self.monitor.holds_secrets_of(step)

    def note_beside(self, step: str, event: Succeeded | Failed | PlanCompiled, head: str = "") -> None:
        """Count what a call has spent, and tell the observer the remarks on its outcome."""
        if event.spent is not None:
            self.budget.spend(event.spent)
        if self.observer is None:
            return
        for remark in event.remarks:
            kind = NoteKind.CUT if isinstance(remark, Cut) else NoteKind.FACT
            self.notify(kind, step, head + describe_remark(remark))

    def has_room(self, frame: Frame, refusal: Refusal | None) -> bool:
        """Whether nothing was refused; otherwise stop the frame, which fails the run once committed."""
        if refusal is None:
            return True
        frame.stopped = True
        frame.ran = frame.ran and frame.items is not None  # a call that was refused gave no result
        frame.control = failure(frame.code, refusal.describe(), refusal)
        return False

    def edit(self, values: Mapping[str, JSON], *, notifies: bool) -> None:
        """Set variables to values that a person gave, and tell the observer if `notifies`."""
        if self.tree is not None:
            self.tree.edit(self, values, is_told=notifies)
        else:
            self.scope.take_over(values)
            if self.monitor is not None:
                self.monitor.edited(values)
        if self.observer is not None and notifies:
            for name, value in values.items():
                self.observer(Note(NoteKind.EDITED, "", "", name, value))

    def hold_edits(self) -> None:
        """Apply the pending edits over what the current event has set."""
        edits, self.edits = self.edits or {}, None
        if self.tree is not None and self.tree.is_edited:
            self.tree.is_edited, self.tree.returning = False, None
            return
        now = self.scope.to_dict()
        for name, value in edits.items():
            if self.last is not None and now.get(name) is self.last:
                self.last = value  # a plan without an answer of its own answers with it
        self.edit(edits, notifies=True)

    def variables(self) -> dict[str, JSON]:
        """The variables that are set now, by name; those of a plan tree are the main plan's, as JSON data."""
        values = self.scope.to_dict()
        if self.tree is None:
            return values
        from callsheet.machine.tree.values import plain  # noqa: PLC0415 - only for version 2

        return {name: plain(value) for name, value in values.items()}

    def all_variables(self) -> dict[str, JSON]:
        """As `variables`, with those of items and sub-plans of a plan tree that are under way, by place."""
        if self.tree is None or self.result is not None:
            return self.variables()
        from callsheet.machine.tree.variables import inner_variables  # noqa: PLC0415 - only for version 2

        return {**self.variables(), **inner_variables(self)}

    def finish(self, end: End, out: list[Command], objection: PolicyRefusal | None = None) -> None:
        """End the run; `objection` is its policy's, if that is the reason."""
        if self.ahead is not None:
            self.ahead.drop(self.budget)
        variables, budget = self.variables(), self.budget
        secret = _NO_NAMES if self.monitor is None else self.monitor.secret_variables()
        failed, usage = self._failed(), budget.usage()
        self.result = final = result_of(end, variables, budget.steps, objection, usage, secret, failed)
        self.notify(NoteKind.ENDED, final.ended_at or "", final.status)
        out.append(Finish(final))

    def _failed(self) -> tuple[str, ...]:
        """The failed steps that did not end the run themselves; in a graph all that failed."""
        if self.schedule is None:
            return tuple(self.failed_steps) if self.failed_steps else ()
        return tuple(self.program.steps[number].id for number in sorted(self.schedule.failures))


def _monitor(program: Program, enforcement: Enforcement) -> Monitor:
    from callsheet.machine.monitor.monitor import Monitor  # noqa: PLC0415 - only under a policy

    if program.tree is None:
        return Monitor(enforcement)
    from callsheet.machine.monitor.trees import TreeMonitor  # noqa: PLC0415 - version 2 under a policy

    assert program.plan.tree is not None
    return TreeMonitor(enforcement, program.plan.tree)


def failure(code: StepCode, message: str, refusal: Refusal | None = None) -> End:
    """An End that fails the run at this step."""
    return End(Status.FAILED, message, error=message, ended_at=code.id, refusal=refusal)
