"""A step under way: its visits, items, attempts and what it led to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

from callsheet.ir import JSON
from callsheet.ir.labels import Label
from callsheet.machine.budget import Refusal
from callsheet.machine.program import Program, StepCode
from callsheet.machine.result import Status


@dataclass(frozen=True, slots=True)
class Jump:
    """Go on at the step of this number."""

    number: int
    target: str


class End(NamedTuple):
    """End the run in this way; the result has the variables of the moment the run ends."""

    status: Status
    response: str
    terminated: bool = False
    error: str | None = None
    ended_at: str | None = None
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class NewPlan:
    """Go on with a new plan; `context` is the label of what its planner was shown, and of its reason."""

    program: Program
    context: Label | None = None


Control: TypeAlias = "Jump | End | NewPlan"
"""What a step does to the order of the plan, once it is committed."""


class Skipped:
    """Stands in the place of an item whose condition did not hold."""

    __slots__ = ()


SKIPPED = Skipped()


Plain: TypeAlias = "tuple[StepCode, dict[str, Any], int, Frame | None]"
"""A call of a tool, as long as nothing has happened to it: what is called, with what arguments, and for which
item of the frame; without a frame, at which place in its group (NOWHERE outside of one).

All that a frame and an attempt say besides follows from that and the call's key: `Run.call` makes them
where somebody wants to look.
"""
Kept: TypeAlias = "tuple[StepCode, JSON, str]"
"""What a plain call of a group has given, until the group is committed, and the key of the call."""

_NONE: list[Any] = []
_NO_FAILURES: frozenset[int] = frozenset()


class Frame:
    """One visit of a step.

    `items` is None for a step without FOREACH. `open` counts attempts under way; when it is
    zero and nothing is left to start, the frame is settled and `value`, `ran`, `failed` (the
    items, or 0 for the step itself) and `control` say what it led to.
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
        """Be a new visit; done by a method, as a constructor takes half as long again."""
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


class Held(NamedTuple):
    """An answer that counts only when a person has said yes to it, and why."""

    value: JSON
    why: str


class Attempt:
    """One call under way: of which frame and item, the how manieth, and with what arguments.

    `delivery` is the key of the attempt whose answer was lost, "" where none was; `redelivered`
    counts how often this attempt was made again, `is_probing` says that a probe looks for it. `held` is its
    answer while a person is asked about it.
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
        """Be a first attempt; done by a method, as a constructor takes half as long again."""
        self.frame = frame
        self.index = index
        self.number = 1
        self.key = key
        self.args = args
        self.inputs = inputs
        self.delivery = ""
        self.redelivered = 0
        self.is_probing = False
        self.held: Held | None = None
        return self

    @property
    def code(self) -> StepCode:
        """What is called, and what is known of it."""
        return self.frame.code


class Group:
    """Steps of one @PARALLEL block under way: they are committed together, in text order.

    `next` is the number of the member that is started next, `open` counts those under way. Of `frames`
    those of plain calls have only the value, which counts as soon as it is there.
    """

    __slots__ = ("end", "frames", "next", "open")

    def __init__(self, first: int, end: int) -> None:
        self.next = first
        self.end = end
        self.frames: list[Frame | Kept] = []
        self.open = 0
