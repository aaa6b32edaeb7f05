"""The state of a run of a plan tree: activations of bodies, with places, variables and guards; their ends."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from callsheet.ir.inverse import Fate
from callsheet.ir.labels import Label
from callsheet.ir.tree import Word
from callsheet.machine.expressions import Environment
from callsheet.machine.tree.failures import Failure, after, gravest
from callsheet.machine.tree.program import NONE, Body, InvokeOp, LoopOp, ParallelOp
from callsheet.machine.usage import Spent

if TYPE_CHECKING:
    from callsheet.machine.monitor.tree_labels import Scope


class Leaving(NamedTuple):
    """An early end on its way out: the word, its value, and for BREAK and CONTINUE of a REPEAT where to go.

    `depth` is the number of guards that stay, `path` what keys begin with there.
    """

    word: Word
    value: Any = None
    to: int = -1
    depth: int = 0
    path: str = ""
    step: str = ""
    error: str = ""
    """The failure that a TERMINATE answers, where it does."""


Pending: TypeAlias = Failure | Leaving | None
"""What goes on after a FINALLY block; None is the next statement."""


class Done(NamedTuple):
    """A call inside an ON_FAIL UNDO that has had its effect, or may have; `label` is of all sent and given.

    `led` is the label of the decisions that led to it.
    """

    step: str
    tool: str
    args: Mapping[str, Any]
    value: Any
    fate: Fate
    label: Label | None = None
    led: Label | None = None


class Tried(NamedTuple):
    """What the attempts so far at a sub-plan with a budget of its own have spent.

    `label` is of all that has decided how much; under a policy, None is that it is not known.
    """

    spent: Spent
    label: Label | None = None


class Guard(NamedTuple):
    """What protects the statements of an activation: where a failure is caught, where FINALLY begins."""

    at: int
    catch: int
    final: int
    path: str
    pending: int
    """How many FINALLY blocks were under way when it began."""
    attempt: int = 1
    done: int = 0
    """How many calls that could be undone its activation had made when it began."""
    undoes: bool = False
    """Whether it is that of an ON_FAIL UNDO."""
    tried: Tried | None = None
    """Of a CALL with a budget, what its attempts so far have spent."""


class Ended(NamedTuple):
    """How an activation ended: an early end or a failure, or neither."""

    by: Failure | Leaving | None
    value: Any = None


class Cause(NamedTuple):
    """Why a group stops: the place of a member, the label of its failure, and what it has come to."""

    step: str
    label: Label | None
    what: str = "has failed"


class Activation:
    """One execution of a body.

    `path` is what the keys of its calls begin with; `parent` and `role` say whose body it is and what for,
    `index` which item or member. `now` is the time of the current statement. `ended` is set at its end.
    """

    __slots__ = (
        "body",
        "done",
        "ended",
        "failure",
        "guards",
        "index",
        "is_inner",
        "labels",
        "now",
        "parent",
        "path",
        "pc",
        "pending",
        "role",
        "slots",
        "spent",
        "stopping",
        "yielded",
    )

    def __init__(
        self,
        body: Body,
        slots: list[Any],
        path: str = "",
        parent: Activation | None = None,
        role: Loop | Members | InvokeOp | None = None,
        index: int = 0,
        is_inner: bool = False,
    ) -> None:
        self.body = body
        self.slots = slots
        self.path = path
        self.parent = parent
        self.role = role
        self.index = index
        self.is_inner = is_inner
        """Whether it is inside the item of a loop; its statements are not counted as steps."""
        self.pc = 0
        self.done: list[Done] = []
        """The calls that an ON_FAIL UNDO may have to take back, in the order of the text."""
        self.guards: list[Guard] = []
        self.pending: list[Pending] = []
        self.failure: tuple[Failure, Guard] | None = None
        self.yielded: Any = None
        self.now = _NO_TIME
        self.labels: Scope | None = None
        """What is known of its variables under a policy."""
        self.ended: Ended | None = None
        self.spent: Spent | None = None
        """Of a sub-plan with a budget of its own, what has been spent inside of it."""
        self.stopping: Failure | None = None
        """Of a task, the failure with which it ends before its next call, as its group has failed."""

    @property
    def task(self) -> Activation:
        """The item or member around it that runs beside others, or the main plan."""
        act = self
        while act.parent is not None and not (
            isinstance(act.role, Members) or (isinstance(act.role, Loop) and act.role.op.side_by_side)
        ):
            act = act.parent
        return act

    @property
    def is_in_final(self) -> bool:
        """Whether a FINALLY block of its task is under way."""
        act = self
        while not act.pending and act.parent is not None and act is not self.task:
            act = act.parent
        return bool(act.pending)

    @property
    def is_of_sub_plan(self) -> bool:
        """Whether it executes a sub-plan, or an item or member inside of one."""
        act: Activation | None = self
        while act is not None and not isinstance(act.role, InvokeOp):
            act = act.parent
        return act is not None


_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)


class _Missing:
    """Stands for the result of an item that failed or did not run."""

    __slots__ = ()


MISSING = _Missing()


class Loop:
    """A FOREACH under way: `open` counts items under way, `leaving` is an early end of an item."""

    __slots__ = (
        "act", "comparing", "done", "failures", "has_stopped", "in_turn", "is_paused", "is_stopped", "items",
        "leaving", "next", "op", "open", "path", "places", "results",
    )  # fmt: skip

    def __init__(self, act: Activation, op: LoopOp, items: list[Any], path: str) -> None:
        self.act, self.op, self.items, self.path = act, op, items, path
        self.next = self.open = 0
        self.results: list[Any] = [MISSING] * len(items)
        self.places: list[int] = []
        """The items that have ended, in this order, where that is the order of the results."""
        self.failures: dict[int, Failure] = {}
        self.done: dict[int, list[Done]] = {}
        """What the items have done that may have to be undone."""
        self.comparing: Generator[None, None, bool] | None = None
        """Tells whether the items differ in what they touch, while that is not known."""
        self.in_turn = False
        """Whether the items run one after another, as they do not differ in what they touch."""
        self.is_stopped = False
        self.has_stopped = False
        """Whether it has told its items that one of them has failed."""
        self.is_paused = False
        """Whether the next items start only when the run goes on after a pause."""
        self.leaving: Leaving | None = None


class Members:
    """A @PARALLEL block under way."""

    __slots__ = (
        "act", "cause", "done", "failures", "has_ended", "has_stopped", "is_paused", "is_started", "leaving",
        "op", "open",
    )  # fmt: skip

    def __init__(self, act: Activation, op: ParallelOp) -> None:
        self.act, self.op = act, op
        self.open = 0
        self.is_started = self.has_stopped = False
        self.is_paused = False
        """Whether it hears of failures only once all members have begun, perhaps behind a pause."""
        self.cause: Cause | None = None
        """Why a loop that is a member has stopped meanwhile."""
        self.has_ended = False
        """Whether the block of a time limit has ended; `leaving` is an early end of it."""
        self.leaving: Leaving | None = None
        self.failures: dict[int, Failure] = {}
        self.done: dict[int, list[Done]] = {}


def new_environment() -> Environment:
    """An environment for expressions, whose time and work are set before each statement."""
    return Environment(_NO_TIME)


NEXT, STAY, WAITING, ENDED = range(4)
"""What an operation leads to: the next one, the one at `pc`, a wait for an outcome, the activation's end."""


def unwind(act: Activation, failure: Failure) -> int:
    """Give a failure to the innermost guard of an activation, or end the activation with it."""
    act.failure = None
    kept = act.guards[-1].pending if act.guards else 0
    failure = after([one for one in act.pending[kept:] if isinstance(one, Failure)], failure)
    if not act.guards:
        act.pending.clear()
        act.ended = Ended(failure)
        return ENDED
    guard = act.guards.pop()
    del act.pending[guard.pending :]
    act.path = guard.path
    if guard.catch != NONE:
        act.failure = failure, guard
        act.pc = guard.catch
    else:
        act.pending.append(failure)
        act.pc = guard.final
    return STAY


def taken_up(act: Activation, kept: int) -> Failure | None:
    """What goes on in place of an early end in a FINALLY block: a grave failure under way, else nothing.

    What was under way but for the first `kept` is over.
    """
    left = [one for one in act.pending[kept:] if isinstance(one, Failure)]
    del act.pending[kept:]
    return gravest(left)


def leave(act: Activation, leaving: Leaving) -> int:
    """Leave guards, FINALLY blocks first, for an early end; a grave failure under way takes its place."""
    if leaving.to == NONE:
        failure = taken_up(act, 0)
        if failure is not None:
            return unwind(act, failure)
    while len(act.guards) > leaving.depth:
        guard = act.guards.pop()
        del act.pending[guard.pending :]
        if guard.final != NONE:
            act.path = guard.path
            act.pending.append(leaving)
            act.pc = guard.final
            return STAY
    if leaving.to != NONE:
        act.pc, act.path = leaving.to, leaving.path
        return STAY
    act.ended = Ended(leaving, act.yielded)
    return ENDED
