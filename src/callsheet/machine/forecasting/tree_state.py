"""The state of the walk through a plan with blocks: variables, ways to leave a block, rows of the forecast.

Branches are walked one after another on the same scope: each is undone by its log, and what they have changed
is joined behind them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from callsheet.ir import Step
from callsheet.ir.tree import Say, Statement, Word
from callsheet.machine.forecasting.forecast import Times, Visit, When
from callsheet.machine.forecasting.partial_values import Foreseen, Unknown, is_same

MOST_SETTERS = 8
"""How many of the statements that may have set a variable are told."""
ONCE = Times(1, 1)


class Binding(NamedTuple):
    """The value of a variable, and the statements that may have set it."""

    value: Foreseen
    steps: tuple[str, ...] = ()


Changes: TypeAlias = "dict[str, Binding | None]"
"""What differs from a scope as it was: None for a variable that is not set there any more."""


class Scope:
    """The variables at a place, with a log by which a branch can be left again."""

    def __init__(self) -> None:
        self._values: dict[str, Binding] = {}
        self._log: list[tuple[str, Binding | None]] = []

    def read(self, name: str) -> Foreseen:
        """The value of a variable; Unknown for one that is not set."""
        found = self._values.get(name)
        return Unknown(f"${name}") if found is None else found.value

    def find(self, name: str) -> Binding | None:
        """The binding of a variable; None if it is not set."""
        return self._values.get(name)

    def put(self, name: str, binding: Binding) -> None:
        """Set a variable."""
        self._log.append((name, self._values.get(name)))
        self._values[name] = binding

    def mark(self) -> int:
        """A point to which `undo` can return."""
        return len(self._log)

    def undo(self, mark: int) -> Changes:
        """Return to how it was at a mark; what had changed since."""
        changed: Changes = {}
        while len(self._log) > mark:
            name, before = self._log.pop()
            changed.setdefault(name, self._values.get(name))
            if before is None:
                self._values.pop(name, None)
            else:
                self._values[name] = before
        return changed

    def join(self, ways: Sequence[Changes]) -> None:
        """Go on where one of several ways was taken."""
        for name in dict.fromkeys(name for way in ways for name in way):
            found = [way.get(name, self._values.get(name)) for way in ways]
            first = found[0]
            if first is not None and all(
                one is not None and is_same(first.value, one.value) for one in found
            ):
                self.put(name, first)
                continue
            steps = dict.fromkeys(step for one in found if one is not None for step in one.steps)
            self.put(name, Binding(Unknown(f"${name}"), tuple(steps)[:MOST_SETTERS]))


class Out(NamedTuple):
    """How a block may be left: each True, False, or None for perhaps.

    `on` is its end, `again` CONTINUE, `broken` BREAK, `over` the end of the plan or sub-plan, `failed` a
    failure that is sure; failures that are not are not counted.
    """

    on: bool | None = True
    again: bool | None = False
    broken: bool | None = False
    over: bool | None = False
    failed: bool | None = False
    why: str = ""

    def then(self, other: Out) -> Out:
        """This one, and what follows where it goes on."""
        if self.on is True:
            return other
        again, broken, over, failed = (
            mine if theirs is False else None for mine, theirs in zip(self[1:5], other[1:5], strict=True)
        )
        on = None if other.on is not False else False
        return Out(on, again, broken, over, failed, self.why or other.why)


ON = Out()


def either(ways: Sequence[Out]) -> Out:
    """One of several ways; those that are sure to fail are not counted unless all are."""
    counted = [way for way in ways if way.failed is not True] or list(ways)
    on, again, broken, over, failed = (
        first if all(one is first for one in rest) else None
        for first, *rest in zip(*(way[:5] for way in counted), strict=True)
    )
    return Out(on, again, broken, over, failed, next((way.why for way in ways if way.why), ""))


@dataclass(slots=True)
class Frame:
    """A plan or sub-plan that is walked: its path, the blocks around, and what it has returned so far."""

    path: str = ""
    within: tuple[str, ...] = ()
    returns: list[tuple[Foreseen, bool]] = field(default_factory=list["tuple[Foreseen, bool]"])
    yielded: Foreseen = None


class At(NamedTuple):
    """Where a statement is walked: how often, what its keys begin with, whether only after a failure.

    `key` is None where the item or the round is not known. `item` is the index of the innermost loop.
    """

    times: Times = ONCE
    key: str | None = ""
    after_failure: bool = False
    item: int | None = None
    repeats: bool = False

    def perhaps(self) -> At:
        """The same place, where it is not sure that it is reached."""
        return self._replace(times=Times(0, self.times.most))

    def failing(self) -> At:
        """The same place, reached only after a failure."""
        return self._replace(times=Times(0, self.times.most), after_failure=True)

    def when(self) -> When:
        """When it is reached."""
        if self.times.least:
            return When.ALWAYS
        return When.ON_FAILURE if self.after_failure else When.MAYBE


@dataclass(slots=True)
class Row:
    """A step of the forecast in the making."""

    step: Step
    statement: Statement
    within: tuple[str, ...]
    visits: list[Visit] = field(default_factory=list[Visit])
    times: Times = field(default_factory=Times)
    tries: int = 1
    is_usual: bool = False
    repeats: bool = False
    is_per_item: bool = False
    is_computed: bool = False
    depends_on: dict[str, None] = field(default_factory=dict[str, None])
    results: list[Foreseen] = field(default_factory=list[Foreseen])
    why_not: str = "nothing leads to it"


@dataclass(slots=True)
class BlockRow:
    """A block of the forecast in the making."""

    id: str
    statement: Statement
    part: str
    within: tuple[str, ...]
    times: Times = field(default_factory=Times)
    is_usual: bool = False
    items: Foreseen = None
    count: int | None = 0


_WAITING_WORDS = frozenset({Word.WAIT, Word.REPLAN})


class _Counted(NamedTuple):
    """What was counted as sure in a row, in which of its visits; without a row only that a call waits."""

    row: Row | BlockRow | None
    sure: int
    visit: int

    @property
    def waits(self) -> bool:
        """Whether what comes after it comes after a call."""
        row = self.row
        return row is None or (
            isinstance(row, Row)
            and not (isinstance(row.statement, Say) and row.statement.word not in _WAITING_WORDS)
        )


class Stopped:
    """What was counted as sure in the tasks of groups that stop at a failure, to be taken back after one.

    Before any of its tasks has ended, a group is sure to have come to the first call of each.
    """

    def __init__(self) -> None:
        self._counted: list[_Counted] = []
        self._groups = 0

    def count(self, row: Row | BlockRow | None, times: Times, visit: int = -1) -> None:
        """Note what is counted in a row, or that a call outside of rows waits."""
        if self._groups:
            self._counted.append(_Counted(row, times.least, visit))

    @contextmanager
    def group(self, at: At, *, stops: bool) -> Generator[list[tuple[int, Out]]]:
        """A group; the block adds the place where each task begins, and how it may end."""
        tasks: list[tuple[int, Out]] = []
        self._groups += stops
        yield tasks
        if not stops:
            return
        failed = [number for number, (_, out) in enumerate(tasks) if out.failed is True]
        ends = [*(begin for begin, _ in tasks), self.here][1:]
        for number, ((begin, _), end) in enumerate(zip(tasks, ends, strict=True)):
            if failed and failed != [number]:
                self._take_back(begin, end, at.times.least)
        self._groups -= 1
        if not self._groups:
            self._counted.clear()

    @property
    def here(self) -> int:
        """The place of what is counted next."""
        return len(self._counted)

    def _take_back(self, begin: int, end: int, sure: int) -> None:
        """Leave of what was counted in a task only what comes up to its first call."""
        for place in range(begin, end):
            row, counted, visit = one = self._counted[place]
            left = min(counted, sure)
            sure = 0 if one.waits else sure
            if row is None or left == counted:
                continue
            row.times = Times(row.times.least - counted + left, row.times.most)
            if isinstance(row, Row) and visit >= 0 and not left:
                row.visits[visit] = row.visits[visit]._replace(is_sure=False)
            self._counted[place] = one._replace(sure=left)
