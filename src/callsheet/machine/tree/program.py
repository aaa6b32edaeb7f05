"""A plan of version 2 ready to run: for each body its operations, with variables as slots.

The main plan, each sub-plan and the body of each FOREACH is a `Body`: a list of operations, of which an
activation executes one after the other. Blocks that share the scope around them (?IF, TRY, REPEAT, handlers)
are jumps within their body; @PARALLEL has a body for each member that shares the slots around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from callsheet.ir.tree import Ends, Input, Word
from callsheet.ir.types import Record, Type
from callsheet.lazy import dataclass
from callsheet.machine.expressions import Compiled
from callsheet.machine.usage import OwnBudget

if TYPE_CHECKING:
    from callsheet.ir.inverse import Inverse
    from callsheet.machine.expressions.values import Environment
    from callsheet.machine.program import StepCode

NONE = -1
"""Stands for no slot and no place."""


class Const(NamedTuple):
    """A literal."""

    value: Any


Operand: TypeAlias = "int | Const | Compiled"
"""What a statement evaluates: a slot by its number, a literal, or any other expression."""


def value_of(operand: Operand, slots: list[Any], env: Environment) -> Any:
    """The value of an operand over the slots of a body; raises ExpressionFailed."""
    if isinstance(operand, int):
        return slots[operand]
    return operand.value if isinstance(operand, Const) else operand(slots, env)


@dataclass(slots=True)
class Body:
    """The operations of one scope.

    `size` is the number of its slots. `captures` are pairs of a slot outside and the slot inside that starts
    with its value; `returns` are pairs of a slot inside and the slot outside that gets its value at the end,
    for variables that the body SETs.
    """

    operations: list[Operation] = field(default_factory=list["Operation"])
    names: list[str] = field(default_factory=list[str])
    captures: tuple[tuple[int, int], ...] = ()
    returns: tuple[tuple[int, int], ...] = ()

    @property
    def size(self) -> int:
        """The number of slots."""
        return len(self.names)


@dataclass(slots=True)
class Store:
    """Where a result goes: a slot, after a check against a type."""

    slot: int
    name: str
    type: Type | None = None


@dataclass(slots=True)
class CallOp:
    """A call; `remedy` is what is done about its failure here, without a guard."""

    code: StepCode
    segment: str
    """Its id in keys."""
    positional: tuple[Operand, ...]
    named: tuple[tuple[str, Operand], ...]
    into: Store | None
    remedy: RemedyCode | None
    is_undoable: bool = False
    """Whether an ON_FAIL UNDO around it, here or around a CALL of this plan, must know of it."""


@dataclass(slots=True)
class ComputeOp:
    """Pure Python: reads `names`, sets `into`."""

    code: StepCode
    source: str
    names: tuple[tuple[str, int], ...]
    into: tuple[tuple[str, int], ...]
    remedy: RemedyCode | None
    has_clock: bool = False
    """Whether it is given the time."""


@dataclass(slots=True)
class LetOp:
    """An expression into a slot."""

    id: str
    slot: int
    name: str
    value: Operand
    type: Type | None = None


@dataclass(slots=True)
class RequireOp:
    """A failure unless the condition is true."""

    id: str
    condition: Operand
    message: Operand | None
    text: str
    """The condition as the plan writes it."""


@dataclass(slots=True)
class SayOp:
    """RESPOND, TERMINATE, RETURN, NOTE, FAIL, WAIT."""

    id: str
    word: Word
    values: tuple[Operand, ...]
    kind: str = ""


@dataclass(slots=True)
class YieldOp:
    """The result of a loop's item."""

    id: str
    value: Operand


@dataclass(slots=True)
class JumpOp:
    """Go to another operation of the body."""

    to: int = NONE


@dataclass(slots=True)
class BranchOp:
    """Go on if the condition is true, else go to another operation."""

    id: str
    condition: Operand
    otherwise: int = NONE
    branch: int = 0
    """Which condition of its `?IF` it is, from 0."""


@dataclass(slots=True)
class EnterOp:
    """The beginning of a REPEAT. `slot` holds its state: its rounds so far, and what stands around it."""

    id: str
    slot: int
    most: Operand | None


@dataclass(slots=True)
class RoundOp:
    """The head of a REPEAT: begins the next round, or fails when there is none left."""

    id: str
    slot: int
    while_: Operand | None
    end: int = NONE
    next: int = NONE
    """Where CONTINUE goes."""


@dataclass(slots=True)
class UntilOp:
    """The foot of a REPEAT: ends it, or waits and goes to its head."""

    id: str
    slot: int
    until: Operand | None
    every: Operand | None
    head: int = NONE


@dataclass(slots=True)
class LeaveRoundsOp:
    """After a REPEAT: the keys are again those of the place around it."""

    slot: int


@dataclass(slots=True)
class BreakOp:
    """BREAK or CONTINUE of a REPEAT in the same body: `to` its end or its foot; NONE for a loop's item."""

    id: str
    word: Word
    repeat: int = NONE
    """The slot of the REPEAT's state."""
    head: int = NONE
    """The place of its RoundOp."""
    finals: int = 0
    """How many FINALLY blocks of the REPEAT it is in."""


@dataclass(slots=True)
class Distinction:
    """Whether the items of a loop differ in what they touch, as the body's slots give it at their start.

    `arguments` are the names of those that name it, `outer` the variables of outside that they read; `decide`
    gets what the values say, and gives what counts, so that it can be recorded.
    """

    arguments: tuple[str, ...]
    named: tuple[tuple[Operand, ...], ...]
    outer: tuple[str, ...]
    decide: Callable[[bool], bool] = bool


@dataclass(slots=True)
class LoopOp:
    """A FOREACH."""

    id: str
    var: str
    source: Operand
    limit: Operand | None
    body: Body
    item_slot: int
    into: Store | None
    one_by_one: bool
    """Whether the first failure ends it, and each item starts when the one before is done."""
    side_by_side: bool
    most: int | None
    skips: bool
    ends: Ends = Ends.ALL
    as_done: bool = False
    """Whether the results are in the order in which the items have ended."""
    is_declared: bool = False
    """Whether its items run side by side by what is declared of the tools."""
    distinction: Distinction | None = None
    """What must differ from item to item for that."""


@dataclass(slots=True)
class ParallelOp:
    """A @PARALLEL block: each member is a body that uses the slots around it."""

    id: str
    members: tuple[Body, ...]
    stops: bool = False
    """Whether a member that fails stops the others."""
    repeat: tuple[int, int] = (NONE, NONE)
    """Of a block with a time limit, as `BreakOp.repeat` and `head`."""

    @property
    def timer(self) -> TimerOp | None:
        """The timer that is the first member of a block with a time limit; None for any other group."""
        last = next(reversed(self.members[0].operations), None) if self.members else None
        return last if isinstance(last, TimerOp) else None

    def joins(self, index: int) -> bool:
        """Whether a member is a loop that stops, whose failures are those of the group."""
        last = next(reversed(self.members[index].operations), None)
        return self.stops and isinstance(last, LoopOp) and last.ends is Ends.FAILED


@dataclass(slots=True)
class LimitOp:
    """How long the block behind it may take: seconds in a slot, None without a limit."""

    id: str
    slot: int
    limit: Operand


@dataclass(slots=True)
class TimerOp:
    """The timer of a time limit, which fails when it is over."""

    id: str
    slot: int


@dataclass(slots=True)
class InvokeOp:
    """A CALL of a sub-plan."""

    id: str
    plan: str
    body: Body
    arguments: tuple[tuple[int, Operand, Type], ...]
    """The slots of its inputs with their values and types."""
    defaults: tuple[tuple[int, Input], ...]
    into: Store | None
    result: Type | None
    budget: OwnBudget | None = None
    """What it may spend, if the CALL says so."""


@dataclass(slots=True)
class GuardOp:
    """Begins what a handler or FINALLY protects."""

    id: str
    catch: int = NONE
    final: int = NONE


@dataclass(slots=True)
class UnguardOp:
    """Ends what a guard protects, without a failure; goes to its FINALLY, or behind it."""

    final: int = NONE
    end: int = NONE


@dataclass(slots=True)
class CatchOp:
    """Decides about a failure inside a guard: another attempt, a remedy, a handler, or none."""

    id: str
    guard: int
    """The place of its GuardOp."""
    retries: int
    delay: float | None
    backoff: float | None
    remedy: RemedyCode | None
    handlers: tuple[tuple[frozenset[str], int, int], ...]
    """For each handler its kinds, the slot of the failure, and its first operation."""
    final: int = NONE
    end: int = NONE
    into: Store | None = None
    undo: Mapping[str, Inverse] | None = None
    """For ON_FAIL UNDO, the inverses by tool: its one handler gets what is to be undone, also after a no."""


@dataclass(slots=True)
class EndFinalOp:
    """The end of a FINALLY block: what was going on before it goes on."""

    end: int = NONE


@dataclass(slots=True)
class ReplanOp:
    """Asks for the next part of the plan, with which the run goes on."""

    code: StepCode
    values: tuple[Operand, ...]


@dataclass(slots=True)
class ClockOp:
    """Asks for the time, for the statement that follows."""

    code: StepCode


Operation: TypeAlias = (
    CallOp
    | ClockOp
    | ComputeOp
    | LetOp
    | RequireOp
    | SayOp
    | YieldOp
    | JumpOp
    | BranchOp
    | EnterOp
    | RoundOp
    | UntilOp
    | LeaveRoundsOp
    | BreakOp
    | LoopOp
    | ParallelOp
    | LimitOp
    | TimerOp
    | InvokeOp
    | ReplanOp
    | GuardOp
    | UnguardOp
    | CatchOp
    | EndFinalOp
)


def statement_of(operation: Operation) -> str:
    """The id of the statement that an operation belongs to; "" for one that only leads on."""
    match operation:
        case CallOp() | ComputeOp() | ReplanOp():
            return operation.code.id
        case ClockOp():
            return operation.code.id.removesuffix(":clock")
        case JumpOp() | LeaveRoundsOp() | UnguardOp() | EndFinalOp():
            return ""
        case _:
            return operation.id


class RemedyCode(NamedTuple):
    """CONTINUE (no values), USE (one value) or TERMINATE."""

    kind: str
    values: tuple[Operand, ...] = ()


class TreeProgram(NamedTuple):
    """The main body of a plan, with what its inputs are."""

    main: Body
    inputs: tuple[tuple[int, Input], ...]
    types: dict[str, Record]
    result: Type | None = None


def bodies(program: TreeProgram) -> Iterator[Body]:
    """The bodies of a plan, those of its loops, sub-plans and members included, each once."""
    seen: set[int] = set()
    stack = [program.main]
    while stack:
        body = stack.pop()
        if id(body) in seen:
            continue
        seen.add(id(body))
        yield body
        for operation in body.operations:
            match operation:
                case LoopOp(body=inner) | InvokeOp(body=inner):
                    stack.append(inner)
                case ParallelOp(members=members):
                    stack.extend(members)
                case _:
                    pass


def loop_operations(program: TreeProgram) -> Iterator[LoopOp]:
    """The loops of a plan, those of its sub-plans included, each once."""
    for body in bodies(program):
        yield from (operation for operation in body.operations if isinstance(operation, LoopOp))
