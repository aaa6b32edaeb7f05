"""The state of steps in progress: frames (visits of a step), attempts (calls) and groups (@PARALLEL)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeAlias

from callsheet.ir import JSON
from callsheet.ir.labels import Label
from callsheet.lazy import NamedTuple, dataclass
from callsheet.machine.budget import Refusal
from callsheet.machine.program import Program, StepCode
from callsheet.machine.result import Status

if TYPE_CHECKING:
    from callsheet.ir.inverse import Fate
    from callsheet.machine.tree.activations import Activation


@dataclass(frozen=True, slots=True)
class Jump:
    """Continue at the step with this number; `target` is the name it was given in the plan."""

    number: int
    target: str


class End(NamedTuple):
    """End the run; the result has the variables at the moment the run ends.

    `terminated` marks an end that stops a graph at once: by a TERMINATE, a message of ON_FAIL, or a RE-PLAN
    over its limit.
    """

    status: Status
    response: str
    terminated: bool = False
    error: str | None = None
    ended_at: str | None = None
    refusal: Refusal | None = None
    answer: JSON = None


@dataclass(frozen=True, slots=True)
class NewPlan:
    """Continue with a new plan; `context` is the label of what its planner was shown, with its reason."""

    program: Program
    context: Label | None = None


Control: TypeAlias = "Jump | End | NewPlan"
"""How a step changes the control flow once it is committed."""


class Skipped:
    """The result of a FOREACH item whose condition did not hold."""

    __slots__ = ()


SKIPPED = Skipped()


Plain: TypeAlias = "tuple[StepCode, dict[str, Any], int, Frame | Activation | None]"
"""A first attempt of a tool call, before anything but success happens to it: code, arguments, index, frame.

In a plan tree it has IN_TREE for the index, and its activation.

The index is that of the item in the frame; without a frame, the position in the open group (NOWHERE outside
of one). It saves making a frame and an attempt for most calls: `Run.call` makes them, from this and the key,
when they are needed.
"""
Kept: TypeAlias = "tuple[StepCode, JSON, str]"
"""The outcome of a plain call in a group until the group is committed: code, value, key of the call."""

_NONE: list[Any] = []
_NO_FAILURES: frozenset[int] = frozenset()


class Frame:
    """One visit of a step.

    `items` is None for a step without FOREACH; `next` is the next item to start, `open` counts open attempts
    and `stopped` says that no further item starts. When `open` is zero and nothing is left to start, the
    frame is settled: `ran`, `value`, `failed` (indices of failed items, or 0 for a step without FOREACH) and
    `control` are its outcome. `grouped` says that a group or graph commits the frame.
    """

    __slots__ = (
        "code",
        "control",
        "failed",
        "grouped",
        "items",
        "next",
        "open",
        "prefix",
        "ran",
        "results",
        "stopped",
        "value",
    )

    def begin(self, code: StepCode, prefix: str, grouped: bool) -> Self:
        """Initialise a new visit; a method, because a constructor takes 1.5 times as long."""
        self.code = code
        self.prefix = prefix
        self.grouped = grouped
        self.items: list[JSON] | None = None
        self.results: list[Any] = _NONE
        self.next = 0
        self.open = 0
        self.stopped = False
        self.ran = False
        self.failed = _NO_FAILURES
        self.value: JSON = None
        self.control: Control | None = None
        return self

    def key(self, index: int, number: int) -> str:
        """The key of an attempt for an item."""
        return f"{self.prefix}{index}.{number}"

    @property
    def name(self) -> str:
        """The name of the visit in notes: the id of its step."""
        return self.code.id


class TreeFrame(Frame):
    """A call or a timer of a plan tree: `act` is the activation that waits for it, `visit` its place.

    `kind` is the kind of its failure, "" for that of a tool. `fate` says what is known of the effect of a
    call that has failed, None for that it had none, and `gave` what it gave nevertheless.
    """

    __slots__ = ("act", "fate", "gave", "kind", "visit")

    def of(self, code: StepCode, act: Activation, visit: str) -> Self:
        """Initialise the frame of a call at a place."""
        self.begin(code, f"{visit}.", grouped=False)
        self.act, self.visit, self.kind = act, visit, ""
        self.fate: Fate | None = None
        self.gave: Any = None
        self.ran, self.open = True, 1
        return self

    def key(self, index: int, number: int) -> str:
        """The key of an attempt: the path has its item."""
        return f"{self.prefix}{number}"

    @property
    def name(self) -> str:
        """Its place in the tree."""
        return self.visit


class HeldResult(NamedTuple):
    """A result that counts only once a person has approved it, and why."""

    value: JSON
    why: str


class Attempt:
    """One open call: its frame and item (`index`), its attempt `number` from 1, its arguments.

    `delivery` is the key of an earlier attempt whose answer was lost, otherwise ""; `redelivered` counts how
    often this attempt was made again; `is_probing` says that a probe is looking for its effect. `held` is its
    result while a person is asked to approve it.
    """

    __slots__ = (
        "args",
        "delivery",
        "frame",
        "held",
        "index",
        "inputs",
        "is_probing",
        "key",
        "number",
        "redelivered",
    )

    def begin(self, frame: Frame, index: int, key: str, args: dict[str, Any], inputs: list[JSON]) -> Self:
        """Initialise a first attempt; a method, because a constructor takes 1.5 times as long."""
        self.frame = frame
        self.index = index
        self.number = 1
        self.key = key
        self.args = args
        self.inputs = inputs
        self.delivery = ""
        self.redelivered = 0
        self.is_probing = False
        self.held: HeldResult | None = None
        return self

    @property
    def code(self) -> StepCode:
        """The code of the step or tool that is called."""
        return self.frame.code


class Wait(Attempt):
    """A timer of a plan tree."""

    __slots__ = ("seconds",)

    def of(self, frame: TreeFrame, seconds: float) -> Self:
        """Initialise the timer of a place."""
        self.begin(frame, 0, frame.key(0, 1), {}, [])
        self.seconds = seconds
        return self


class Group:
    """An open @PARALLEL block; its steps are committed together, in text order.

    `next` is the number of the next step to start, `end` that of the first step after the block; `open`
    counts open members. `frames` has an entry for each started member, a Kept for a plain call; the value in
    it is meaningful only once the call has succeeded.
    """

    __slots__ = ("end", "frames", "next", "open")

    def __init__(self, first: int, end: int) -> None:
        self.next = first
        self.end = end
        self.frames: list[Frame | Kept] = []
        self.open = 0
