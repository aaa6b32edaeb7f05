"""Fakes: what stands in for tools, models and agents in a test, and which of them answers a call.

In: fakes, as a test gives them or a cassette records them. Out: for each call the fake that answers it, or
none. A fake that names arguments answers only calls with exactly these values for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, cast

from callsheet.ir import JSON, canonical_tool_name
from callsheet.ports.calls import ToolFailed

REPLAN = "RE_PLAN"
"""The canonical name under which a fake answers a RE-PLAN: with the text of the new plan."""
FailureKind: TypeAlias = Literal["", "TIMEOUT", "SCHEMA"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fake:
    """An answer to calls of one tool, model operation, agent (`AGENT_SOLVE`) or RE-PLAN.

    - `args`: the arguments that a call must have, with exactly these values; others are free.
    - `answer`: the value that the call gives; `does` computes it from the call's arguments instead.
    - `fails`: the error with which the call fails instead; `kind` is TIMEOUT or SCHEMA where the plan tells
      such failures apart. With `lost` nobody knows whether the call took place, as after a server died.
    - `seconds`: how long the call takes, in virtual time.
    - `times`: how many calls it answers; None for any number.

    >>> Fake(tool="list_issues", answer=[]).tool
    'LIST_ISSUES'
    """

    tool: str
    args: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    answer: JSON = None
    does: Callable[..., Any] | None = None
    fails: str = ""
    kind: FailureKind = ""
    lost: bool = False
    seconds: float = 0.0
    times: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tool", canonical_tool_name(self.tool))
        if self.kind not in ("", "TIMEOUT", "SCHEMA"):
            raise ValueError(f"kind must be TIMEOUT or SCHEMA, not {self.kind!r}")
        if not 0 <= self.seconds < math.inf:
            raise ValueError(f"seconds must be a number from 0: it is {self.seconds}")
        if self.times is not None and self.times < 1:
            raise ValueError(f"times must be at least 1: it is {self.times}")

    def fits(self, tool: str, args: Mapping[str, JSON]) -> bool:
        """Whether it answers a call, as far as its tool and arguments say."""
        return tool == self.tool and all(
            name in args and same(args[name], wanted) for name, wanted in self.args.items()
        )

    def give(self, args: Mapping[str, JSON]) -> Any:
        """The value of a call, or an awaitable of it; raises ToolFailed if the call fails."""
        if self.lost:
            raise ToolFailed(self.fails or "the answer was lost", in_doubt=True, kind=self.kind)
        if self.fails or self.kind:
            raise ToolFailed(self.fails or f"a failure of the kind {self.kind}", kind=self.kind)
        return self.answer if self.does is None else self.does(**args)


def fails(text: str, *, kind: FailureKind = "", seconds: float = 0.0, times: int | None = None) -> Fake:
    """A call that fails, to be given as a fake of a tool: `fakes={"send_mail": fails("no route")}`."""
    return Fake(tool="", fails=text, kind=kind, seconds=seconds, times=times)


def gives(
    answer: JSON, *, seconds: float = 0.0, times: int | None = None, args: Mapping[str, JSON] | None = None
) -> Fake:
    """A call that gives a value, where more than the value is to be said."""
    return Fake(tool="", answer=answer, seconds=seconds, times=times, args=args or {})


FakeLike: TypeAlias = "Fake | Callable[..., Any] | JSON"
"""What stands in for a tool: a Fake, a function of its arguments, a value, or a list of Fakes in order."""
Fakes: TypeAlias = "Iterable[Fake] | Mapping[str, FakeLike | Sequence[Fake]]"


def fakes_of(given: Fakes) -> tuple[Fake, ...]:
    """The fakes of a test; a list whose items are all Fakes is several of them, any other a value.

    >>> [fake.answer for fake in fakes_of({"a": [1, 2], "b": [gives(1, times=1), gives(2)]})]
    [[1, 2], 1, 2]
    """
    if not isinstance(given, Mapping):
        return tuple(given)
    found: list[Fake] = []
    for tool, one in cast("Mapping[str, Any]", given).items():
        several = _only_fakes(one)
        if several:
            found += [replace(each, tool=tool) for each in several]
        elif callable(one):
            found.append(Fake(tool=tool, does=one))
        else:
            found.append(Fake(tool=tool, answer=one))
    return tuple(found)


def _only_fakes(given: object) -> list[Fake]:
    """The Fakes of a list of nothing else, or the one that is given; none for anything else."""
    several = cast("Sequence[object]", given) if isinstance(given, list | tuple) else [given]
    fakes = [each for each in several if isinstance(each, Fake)]
    return fakes if len(fakes) == len(several) else []


class Cast:
    """The fakes of one run, each with the calls that it still answers. The first that fits answers."""

    def __init__(self, fakes: Iterable[Fake]) -> None:
        self.fakes = tuple(fakes)
        self._left = [fake.times for fake in self.fakes]

    def names(self) -> frozenset[str]:
        """The tools that have a fake."""
        return frozenset(fake.tool for fake in self.fakes)

    def take(self, tool: str, args: Mapping[str, JSON]) -> Fake | None:
        """The fake that answers a call; None if none does."""
        for number, fake in enumerate(self.fakes):
            left = self._left[number]
            if left == 0 or not fake.fits(tool, args):
                continue
            if left is not None:
                self._left[number] = left - 1
            return fake
        return None

    def why_none(self, tool: str) -> str:
        """Why no fake answers a call of a tool, in words."""
        if tool not in self.names():
            return f"no fake stands in for @{tool}"
        used_up = all(
            left == 0 for fake, left in zip(self.fakes, self._left, strict=True) if fake.tool == tool
        )
        if used_up:
            return f"the fakes of @{tool} have answered as often as they may"
        return f"no fake of @{tool} fits these arguments"


def same(a: JSON, b: JSON) -> bool:
    """Whether two values are the same JSON: 1 and true are not, 1 and 1.0 are.

    >>> same(1, True), same(1, 1.0), same([{"a": 1}], [{"a": 1.0}])
    (False, True, True)
    """
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(value, b[name]) for name, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b
