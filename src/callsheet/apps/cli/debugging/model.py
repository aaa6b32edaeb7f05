"""The debugger of a run: where it stops, what is seen there, and how it goes on; no interface of its own.

In: the text of a plan, breakpoints by line or step, and a face that is told of each stop and says how to go
on. Out: the pace of the run's driver, and for the face the levels of the stack, with masked values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from callsheet.diagnostics import Source, Span
from callsheet.ir import Plan
from callsheet.ir.tree import Block, Statement, statements
from callsheet.machine import Machine, Status
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.stepping import (
    Level,
    NotEvaluated,
    Point,
    evaluate,
    levels_at_step,
    levels_of,
    misread,
    next_point,
)
from callsheet.sealing.keys import MASK

if TYPE_CHECKING:
    from callsheet.machine.run import Run
    from callsheet.machine.tree.activations import Activation
    from callsheet.machine.tree.failures import Failure
    from callsheet.runtime.answers import Answer, PendingAsk


class Order(StrEnum):
    """How a run goes on after a stop."""

    CONTINUE = "continue"
    OVER = "over"
    """To the next statement of the same level, or of one around it."""
    INTO = "into"
    """To the next statement anywhere: of a block, an item, a sub-plan."""
    OUT = "out"
    """To the next statement of a level around this one."""


class FailureStops(StrEnum):
    """At which failures a run stops."""

    NONE = "none"
    ENDING = "ending"
    """Only at the one that ends the run."""
    ALL = "all"
    """At each failed call and statement, also one that the plan handles."""


@dataclass(slots=True)
class Breakpoint:
    """A place to stop at: the statements of a line, perhaps under a condition.

    `after` is how often it is passed before it stops; `log` is a text with `{expressions}` that is told
    instead of stopping. `steps` is empty if no statement stands there.
    """

    line: int
    steps: tuple[str, ...]
    condition: str = ""
    after: int = 0
    log: str = ""
    passed: int = 0

    def misread(self) -> str:
        """Why its condition or an expression of its text can never be evaluated; "" if they may be."""
        if self.condition and (why := misread(self.condition)) is not None:
            return f"the condition {self.condition!r}: {why}"
        for expression in _EXPRESSION.findall(self.log):
            if (why := misread(expression)) is not None:
                return f"the expression {{{expression}}}: {why}"
        return ""


_EXPRESSION = re.compile(r"\{([^}]*)\}?")


class Stop(NamedTuple):
    """Where and why a run has stopped."""

    reason: str
    """`entry`, `step`, `breakpoint`, `pause` or `failure`."""
    text: str
    levels: tuple[Level, ...]


class Face(Protocol):
    """Who shows a run under the debugger, and steers it."""

    def attach(self, debugger: Debugger) -> None:
        """Take the debugger of the run that is about to begin."""

    async def stopped(self, stop: Stop) -> Order:
        """Show a stop; how to go on."""
        ...

    def log(self, text: str) -> None:
        """Show what a breakpoint tells."""

    async def asked(self, ask: PendingAsk, shown: PendingAsk) -> Answer | None:
        """Ask a question of the run, as it is `shown` without secrets; None leaves it to the inbox."""
        ...


class Places:
    """Where the statements of a plan stand in its text."""

    def __init__(self, plan: Plan, source: Source) -> None:
        self.source = source
        self._spans: dict[str, Span] = {}
        spanned = plan.steps if plan.tree is None else _own_statements(plan)
        for one in spanned:
            if one.span is not None and one.id not in self._spans:
                self._spans[one.id] = one.span
        self._lines = {id_: source.position(span.start).line for id_, span in self._spans.items()}

    def place(self, step: str) -> tuple[int, int] | None:
        """The line and the column of a statement, from 1; None for one of another text."""
        span = self._spans.get(step)
        if span is None:
            return None
        line, column = self.source.position(span.start)
        return line, column

    def lines(self) -> list[int]:
        """The lines at which statements begin."""
        return sorted({*self._lines.values()})

    def at_line(self, line: int) -> tuple[int, tuple[str, ...]]:
        """The line at which a breakpoint for a line stops, and the statements that begin there.

        That is the line itself, else the one where the innermost statement begins that covers it without
        others on the lines between, else the next line with a statement.
        """
        starts = self.lines()
        if line not in starts:
            covering = [
                self._lines[id_]
                for id_, span in self._spans.items()
                if self._lines[id_] < line <= self.source.position(max(span.start, span.end - 1)).line
            ]
            before = max((one for one in starts if one < line), default=0)
            after = next((one for one in starts if one > line), 0)
            line = before if before and before in covering else after
        return line, tuple(id_ for id_, own in self._lines.items() if own == line)

    def has(self, step: str) -> bool:
        """Whether a statement with this id stands in the text."""
        return step in self._spans


def _own_statements(plan: Plan) -> Iterator[Statement]:
    """The statements of a plan and of its sub-plans, without those that stand in other files."""
    assert plan.tree is not None
    blocks: list[Block] = [plan.tree.body, *(one.body for one in plan.tree.plans if one.origin is None)]
    for block in blocks:
        yield from statements(block)


Masked = Callable[[Any], Any]


@dataclass(slots=True)
class Debugger:
    """Decides where a run stops. As the `pace` of its driver it is asked before each statement.

    `mask` hides the secrets in a value that is shown, `mask_ask` those in a question.
    """

    plan: Plan
    places: Places
    path: Path | None
    """The file of the plan, None for one of the library."""
    face: Face
    mask: Masked
    mask_ask: Callable[[PendingAsk], PendingAsk]
    stops_at_entry: bool = True
    failures: FailureStops = FailureStops.ENDING
    breakpoints: list[Breakpoint] = field(default_factory=list[Breakpoint])
    is_pausing: bool = False
    stop: Stop | None = None
    _order: Order = Order.CONTINUE
    _since: Point | None = None
    """Where the run stopped last."""
    _last: Point | None = None
    """The statement that is executed now."""
    _failed: Stop | None = None
    _is_new_failure: bool = False
    _failures: dict[str, Stop] = field(default_factory=dict[str, Stop])
    """Where each failure began, by its place in the run."""
    _heard: object = None

    # -------------------------------------------------------------- the pace of a driver

    def stops(self, machine: Machine) -> bool:
        """Whether the run stops here; `stop` then says why."""
        self._listen(machine)
        self.stop = self._stop_at_failure(machine)
        if self.stop is not None:
            return True
        point = next_point(machine)
        if point is None or (self._last is not None and point.is_again(self._last)):
            return False
        begins, self._last = self._last is None, point
        found = self._reason(machine, point, begins=begins)
        if found is None:
            return False
        self.stop = Stop(*found, levels_of(machine, point))
        self._since = point
        return True

    async def stopped(self) -> None:
        """Show the stop, and take the order."""
        assert self.stop is not None
        self.is_pausing = False
        self._order = await self.face.stopped(self.stop)
        self.stop = None

    async def asked(self, ask: PendingAsk) -> Answer | None:
        """Ask a question of the run; None leaves it to the inbox."""
        return await self.face.asked(ask, self.mask_ask(ask))

    def _reason(self, machine: Machine, point: Point, *, begins: bool) -> tuple[str, str] | None:
        since, order = self._since, self._order
        if begins and self.stops_at_entry:
            return "entry", ""
        if self.is_pausing:
            return "pause", ""
        if order is Order.INTO or (
            since is not None
            and (
                (order is Order.OVER and point.is_left(since))
                or (order is Order.OUT and point.is_outside(since))
            )
        ):
            return "step", ""
        for breakpoint_ in self.breakpoints:
            if self._hits(machine, breakpoint_, point):
                return "breakpoint", f"line {breakpoint_.line}"
        return None

    def _hits(self, machine: Machine, one: Breakpoint, point: Point) -> bool:
        """Whether a breakpoint stops here. Without a condition only the first statement of its line does."""
        if point.step not in one.steps or machine.program.plan != self.plan:
            return False
        if not one.condition and (point.is_item or point.step != one.steps[0]):
            return False
        if one.condition:
            try:
                if not evaluate(levels_of(machine, point), one.condition, datetime.now(UTC))[0]:
                    return False
            except NotEvaluated as error:
                if not point.is_item and len(one.steps) == 1:
                    self.face.log(
                        f"line {one.line}: the condition {one.condition!r}: {self.mask(str(error))}"
                    )
                return False
        one.passed += 1
        if one.passed <= one.after:
            return False
        if one.log:
            self.face.log(self._told(levels_of(machine, point), one.log))
            return False
        return True

    def _told(self, levels: tuple[Level, ...], text: str) -> str:
        """The text of a breakpoint, with its expressions in braces evaluated."""
        parts: list[str] = []
        rest = text
        while "{" in rest:
            head, _, rest = rest.partition("{")
            expression, _, rest = rest.partition("}")
            try:
                value = self.value(levels, expression)
            except NotEvaluated as error:
                value = f"<{error}>"
            parts += [head, value if isinstance(value, str) else str(value)]
        return "".join([*parts, rest])

    # -------------------------------------------------------------- failures

    def _listen(self, machine: Machine) -> None:
        """Hear of failures where they happen; a plan that takes over has parts of its own."""
        if machine.tree is not None:
            if self._heard is not machine.tree:
                self._heard = machine.tree
                machine.tree.hears_failure = lambda act, failure: self._hear(machine, act, failure)
        elif self._heard is None:
            before = self._heard = machine.observer or _ignore

            def note(one: Note) -> None:
                if one.kind is NoteKind.FAILED and machine.tree is None:
                    self._failed = Stop("failure", one.detail, levels_at_step(machine, one.step))
                    self._is_new_failure = True
                before(one)

            machine.observer = note

    def _hear(self, run: Run, act: Activation, failure: Failure) -> None:
        operations = act.body.operations
        if act.pc < len(operations):
            from callsheet.machine.tree.program import statement_of  # noqa: PLC0415 - only where one fails

            step = statement_of(operations[act.pc]) or failure.step.rpartition("/")[2]
            began = self._failures.get(failure.step)
            if began is None:  # else it goes on around the statement in which it began
                levels = levels_of(run, Point(step, act, act.pc))
                began = self._failures[failure.step] = Stop(
                    "failure", f"{failure.kind}: {failure.text}", levels
                )
                self._is_new_failure = True
            self._failed = began

    def _stop_at_failure(self, machine: Machine) -> Stop | None:
        is_new, self._is_new_failure = self._is_new_failure, False
        if self.failures is FailureStops.ALL and is_new:
            return self._failed
        result = machine.result
        if result is None or result.status is Status.DONE or self.failures is FailureStops.NONE:
            return None
        failed, self._failed = self._failed, None
        if self.failures is FailureStops.ALL or failed is None:
            return None
        return failed

    # -------------------------------------------------------------- what a face shows

    def break_at(self, line: int, condition: str = "", after: int = 0, log: str = "") -> Breakpoint:
        """Set a breakpoint at a line of the text; without `steps` if no statement stands there or below."""
        line, steps = self.places.at_line(line)
        one = Breakpoint(line, steps, condition, after, log)
        if steps:
            self.breakpoints.append(one)
        return one

    def break_at_step(self, step: str) -> Breakpoint | None:
        """Set a breakpoint at a statement; None if there is none with this id."""
        place = self.places.place(step)
        if place is None:
            return None
        self.breakpoints.append(Breakpoint(place[0], (step,)))
        return self.breakpoints[-1]

    def shown(self, level: Level) -> list[tuple[str, Any, str]]:
        """The variables of a level: name, value and label, which is "" without a policy."""
        labels = level.labels()
        rows: list[tuple[str, Any, str]] = []
        for name, value in level.variables().items():
            label = labels.get(name)
            hidden = MASK if label is not None and label.is_secret else self.mask(_as_data(value))
            rows.append((name, hidden, "" if label is None else str(label)))
        return rows

    def value(self, levels: Sequence[Level], expression: str) -> Any:
        """The value of an expression at the first of these levels; no part of a secret is in it.

        Secrets in variables are masked before it is evaluated. Raises NotEvaluated.
        """
        value, names = evaluate(tuple(levels), expression, datetime.now(UTC), self._without_secrets)
        for level in levels:
            labels = level.labels()
            if any(name in labels and labels[name].is_secret for name in names):
                return MASK
        return self.mask(value)

    def _without_secrets(self, value: Any) -> Any:
        data = _as_data(value)
        masked = self.mask(data)
        return value if masked == data else masked


def _as_data(value: Any) -> Any:
    from callsheet.machine.tree.values import plain  # noqa: PLC0415 - not before a stop

    return plain(value)


def _ignore(_note: Note) -> None:
    pass


def answer_of(ask: PendingAsk, line: str, by: str) -> Answer | str:
    """The answer that a line in a console gives to a question, or why it gives none.

    `:approve`, `:deny NOTE`, `:answer TEXT`.
    """
    from callsheet.runtime.answers import Answer, misfit, read_answer  # noqa: PLC0415 - only where one is asked
    from callsheet.runtime.inbox import asked_of  # noqa: PLC0415 - as above

    word, _, rest = line.strip().partition(" ")
    if ask.role:
        return f"only somebody with the role {ask.role} may answer: callsheet approve {ask.run_id} {ask.key}"
    match word:
        case ":approve":
            answer = Answer.approve(by=by, note=rest.strip())
        case ":deny":
            answer = Answer.deny(by=by, note=rest.strip())
        case ":answer":
            answer = Answer.of(read_answer(ask, rest.strip()), by=by)
        case _:
            return "the run waits for an answer: :approve, :deny NOTE or :answer TEXT"
    return misfit(asked_of(ask), answer) or answer


def interrupt() -> None:
    """End this process as Ctrl-C does: what was done is in the journal, and the run can be resumed."""
    import signal  # noqa: PLC0415 - only where a run is left

    signal.raise_signal(signal.SIGINT)
