"""What an ON_FAIL UNDO takes back: which of the calls inside it, newest first, with which arguments.

In: the calls that had an effect in the block, in the order of the text, and the inverses that it names.
Out: what its handler (`ir.sagas`) goes through, and what cannot be undone, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from callsheet.ir.inverse import Fate, Inverse, reversal
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.ir.sagas import ARGS, NUMBER, ORDER, TOOL
from callsheet.machine.expressions.values import FailureRecord
from callsheet.machine.frames import TreeFrame
from callsheet.machine.tree.activations import Activation, Done
from callsheet.machine.tree.failures import Failure, record_of

_SHOWN = 5
"""How many calls that cannot be undone a message names."""


class Left(NamedTuple):
    """A call that is not undone, and why."""

    done: Done
    why: str

    def __str__(self) -> str:
        return f"{self.done.step} @{self.done.tool} ({self.why})"


class Taken(NamedTuple):
    """The calls that are undone, newest first, each with the arguments of its inverse; those that are not."""

    calls: tuple[tuple[Done, dict[str, Any]], ...]
    left: tuple[Left, ...]

    @property
    def given(self) -> Label:
        """The label of all that the calls which are undone have sent and given."""
        return join(done.label or LITERAL for done, _ in self.calls)

    @property
    def led(self) -> Label:
        """The label of all decisions that led to a call, and of what says why one is not undone."""
        every = [done for done, _ in self.calls] + [one.done for one in self.left]
        says = [one.done.label or LITERAL for one in self.left if one.done.fate is not Fate.UNKNOWN]
        return join((*(done.led or LITERAL for done in every), *says))

    def failure(self, failure: Failure) -> Failure:
        """The failure of the block with what cannot be undone."""
        if not self.left:
            return failure
        shown = ", ".join(map(str, self.left[:_SHOWN]))
        more = f" and {len(self.left) - _SHOWN} more" if len(self.left) > _SHOWN else ""
        return failure._replace(error=f"{failure.text}; not undone: {shown}{more}")

    def record(self, failure: Failure) -> FailureRecord:
        """What the handler has: the failure, and what it goes through."""
        made = record_of(self.failure(failure))
        made[ORDER] = [{TOOL: done.tool, NUMBER: number} for number, (done, _) in enumerate(self.calls)]
        made[ARGS] = [args for _, args in self.calls]
        return made


def taken_back(done: Sequence[Done], inverses: Mapping[str, Inverse]) -> Taken:
    """What undoing these calls takes, which are in the order in which they were made."""
    calls: list[tuple[Done, dict[str, Any]]] = []
    left: list[Left] = []
    for one in reversed(done):
        found = reversal(one.tool, inverses.get(one.tool), one.fate, one.args, one.value)
        if isinstance(found, str):
            left.append(Left(one, found))
        else:
            calls.append((one, found))
    return Taken(tuple(calls), tuple(left))


def is_undone_around(act: Activation | None) -> bool:
    """Whether a failure here would be met by an ON_FAIL UNDO, of this activation or one around it."""
    while act is not None:
        if any(guard.undoes for guard in act.guards):
            return True
        act = act.parent
    return False


def call_of(frame: TreeFrame, args: Mapping[str, Any], value: Any) -> Done | None:
    """A call that has its outcome, if it had an effect or may have had one."""
    if not frame.failed:
        return Done(frame.visit, frame.code.tool, args, value, Fate.DONE)
    if frame.fate is None:
        return None
    return Done(frame.visit, frame.code.tool, args, frame.gave, frame.fate)


def in_order(parts: Mapping[int, Iterable[Done]]) -> list[Done]:
    """What items or members have done, in the order of the text."""
    return [one for number in sorted(parts) for one in parts[number]]
