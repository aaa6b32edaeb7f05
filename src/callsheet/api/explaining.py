"""`Runtime.why`, `at` and `blame`: explain recorded runs from their journals.

In: a journal and runs of it. Out: typed values, from which the command line and the HTTP API make their text
and their data. Nothing is executed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from callsheet.api.named_values import sliced
from callsheet.ir import JSON, Effect
from callsheet.ir.gc_pause import gc_paused
from callsheet.machine import Usage
from callsheet.machine.events import SAME_PLACE
from callsheet.machine.keys import parse_key
from callsheet.machine.tree.variables import LoopUnderWay
from callsheet.runtime.inbox import GivenAnswer, given_answers
from callsheet.store import Journal, JournalError
from callsheet.store.errors import require_event
from callsheet.store.events import Event
from callsheet.store.folded import Folded
from callsheet.trace.blame import Blame, blame_of
from callsheet.trace.lineage.blocks import TreeLineage
from callsheet.trace.lineage.lineage import NONE, Lineage, Visit, differing
from callsheet.trace.lineage.reads import Path
from callsheet.trace.lineage.record import run_lineage
from callsheet.trace.lineage.slices import (
    Flow,
    Graph,
    Node,
    item_at,
    reached_by,
    tool_of,
)
from callsheet.trace.replay import state_at_event
from callsheet.views.lineage import where_lines, why_lines

_MOST = 1_000


# ---------------------------------------------------------------- why


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call of a run: the event at which it left, and the type and event of its outcome, if there is one.

    `item` is that of a FOREACH, 0 without one; `attempt` counts from 1.
    """

    key: str
    tool: str
    item: int
    attempt: int
    left: int | None
    outcome: str | None
    answered: int | None
    label: str = ""
    """Which label its server has given to the outcome, in words; empty if none that counts."""


@dataclass(frozen=True, slots=True)
class ValueFlow:
    """How a value goes into another: as an `argument`, an `item`, a condition, …

    `variable` and `path` name the value at the other end; `place` is its index in `places`, None if it is not
    among them, as for a variable that was not set.
    """

    role: str
    argument: str
    item: int | None
    variable: str
    path: Path
    place: int | None


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """A value of a run, or a part of one.

    `made` says how it came to be (`input`, `step`, …) at the event `event`; `fits_cast` is false for one
    that does not fit its cast. `step` is None for an input; `plan` counts the new plans of the run before its
    step, `visit` the visits of it, `item` is that of a FOREACH. `calls` made it, `literals` of the plan went
    into these, by argument. `flows` lead to what it was made of; forward, to what was made of it. `unused` is
    why it was not used, "" if it was: it came too late.
    """

    variable: str
    path: Path
    value: JSON
    made: str
    event: int
    fits_cast: bool
    step: str | None = None
    visit: int = 0
    plan: int = 0
    item: int | None = None
    calls: tuple[RecordedCall, ...] = ()
    literals: tuple[tuple[str, JSON], ...] = ()
    flows: tuple[ValueFlow, ...] = ()
    unused: str = ""


@dataclass(frozen=True, slots=True)
class ReachedCall:
    """A call that a value went into, and as what."""

    call: RecordedCall
    effect: Effect
    role: str
    argument: str


@dataclass(frozen=True)
class Explanation:
    """What a value of a run was made of; with `is_forward`, what was made of it.

    `places` begins with the value itself, the nearest first; `is_cut` says that there are more. `calls` are
    those that it reached, if `is_forward`. `str()` gives the tree that `callsheet why` prints.
    """

    run_id: str
    is_forward: bool
    lineage: Lineage = field(repr=False)
    graph: Graph = field(repr=False)
    start: Node = field(repr=False)
    given: tuple[GivenAnswer, ...] = field(default=(), repr=False)
    """All answers of people to the run."""

    @property
    def people(self) -> tuple[GivenAnswer, ...]:
        """The answers of people to the calls and questions that the places come from."""
        keys = {call.key for place in self.places for call in place.calls}
        return tuple(each for each in self.given if each.key in keys)

    @property
    def variable(self) -> str:
        """The name of the variable that has the value."""
        return self.lineage.writes[self.start.write].name

    @property
    def path(self) -> Path:
        """The path of the value in its variable."""
        return self.start.path

    @property
    def is_cut(self) -> bool:
        """Whether there are further places, beyond `most` or `depth`."""
        flows = (flow for found in self.graph.values() for flow in found)
        return any(flow.node.write != NONE and flow.node not in self.graph for flow in flows)

    @cached_property
    def places(self) -> tuple[ValuePlace, ...]:
        """The values that it was made of, or that were made of it, itself first."""
        numbers = {node: n for n, node in enumerate(self.graph)}
        return tuple(_place(self.lineage, node, flows, numbers) for node, flows in self.graph.items())

    @cached_property
    def calls(self) -> tuple[ReachedCall, ...]:
        """The calls that the value, or what was made of it, went into; only if `is_forward`."""
        if not self.is_forward:
            return ()
        return tuple(
            ReachedCall(_call(self.lineage, each.key), each.effect, str(each.role), each.argument)
            for each in reached_by(self.lineage, self.graph)
        )

    def lines(self, depth: int = 6) -> list[str]:
        """The tree of the places, down to `depth` levels."""
        lines = where_lines if self.is_forward else why_lines
        tree = lines(self.lineage, self.graph, self.start, depth)
        return [*tree, *(each.describe() for each in self.people), *self.warnings]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is not known of the run, as where another version recorded what this one does not follow."""
        told = differing(self.lineage)
        return (told,) if told else ()

    def __str__(self) -> str:
        return "\n".join(self.lines())


def explain_value(
    journal: Journal,
    run_id: str,
    variable: str,
    *,
    forward: bool = False,
    most: int | None = _MOST,
    depth: int | None = None,
) -> Explanation:
    """Explain where a value of a run came from, or with `forward` what came of it.

    `variable` is a variable with its last value, or `answer`, with an optional path: `rows.0.amount`. Raises
    JournalError: JRN002 for an unknown run, JRN040 for an unknown variable or path.
    """
    with gc_paused(True):
        info = journal.find_run(run_id)
        lineage, start, graph = sliced(journal, info, variable, (most, depth), is_forward=forward)
        given = tuple(given_answers(journal, info.run_id))
    return Explanation(info.run_id, forward, lineage, graph, start, given)


def _place(lineage: Lineage, node: Node, flows: tuple[Flow, ...], numbers: Mapping[Node, int]) -> ValuePlace:
    write = lineage.writes[node.write]
    about: dict[str, Any] = {}
    if write.visit != NONE:
        visit = lineage.visits[write.visit]
        item, _ = item_at(lineage, visit, node.path)
        keys = lineage.keys_of(visit) if item is None else lineage.keys_of_item(visit, item)
        about = {
            "step": lineage.place(visit),
            "visit": visit.visit,
            "plan": visit.program,
            "item": item,
            "calls": tuple(_call(lineage, key) for key in keys),
            "literals": tuple(lineage.reads_of(visit).literals),
            "unused": lineage.unused.get(visit.id, "") if isinstance(lineage, TreeLineage) else "",
        }
    return ValuePlace(
        write.name,
        node.path,
        lineage.value_at(node),
        str(write.made),
        write.seq,
        not write.is_odd,
        flows=tuple(_flow(flow, numbers) for flow in flows),
        **about,
    )


def _flow(flow: Flow, numbers: Mapping[Node, int]) -> ValueFlow:
    return ValueFlow(
        str(flow.role), flow.argument, flow.item, flow.name, flow.node.path, numbers.get(flow.node)
    )


def _call(lineage: Lineage, key: str) -> RecordedCall:
    outcome = lineage.outcomes.get(key)
    kind, seq = (None, None) if outcome is None else (str(outcome.type), outcome.seq)
    where = parse_key(key)
    tool, left = tool_of(lineage, key), lineage.left.get(key)
    said = "" if outcome is None else outcome.label
    return RecordedCall(key, tool, where.index, where.attempt, left, kind, seq, said)


# ---------------------------------------------------------------- at


@dataclass(frozen=True, slots=True)
class RunMoment:
    """A run after one of its events.

    `status` is `running`, or how it had ended. `turn` is the step whose turn it was, None in a graph and at
    the end; in a graph `done` and `failed` are its steps, else None. `pending` has the tools of the calls,
    questions and waits without an outcome, by key, `visits` how often each step was reached.
    """

    run_id: str
    event: Event
    folded: Folded = field(repr=False)

    @property
    def status(self) -> str:
        """The status at the event: `running`, or the final status."""
        result = self.folded.machine.result
        return "running" if result is None else str(result.status)

    @property
    def turn(self) -> str | None:
        """The step whose turn it was; None in a graph and a plan with blocks, and behind the last step."""
        machine = self.folded.machine
        steps = machine.program.steps
        if machine.tree is not None or machine.schedule is not None:
            return None
        if machine.result is not None or machine.pc >= len(steps):
            return None
        return steps[machine.pc].id

    @property
    def done(self) -> tuple[str, ...] | None:
        """The finished steps of a graph; None for a plan in text order."""
        machine = self.folded.machine
        if machine.schedule is None:
            return None
        return tuple(machine.program.steps[n].id for n in sorted(machine.schedule.numbers_done()))

    @property
    def failed(self) -> Mapping[str, str] | None:
        """The failed steps of a graph, with their errors; None for a plan in text order."""
        machine = self.folded.machine
        if machine.schedule is None:
            return None
        return {machine.program.steps[n].id: why for n, why in machine.schedule.failures.items()}

    @property
    def pending(self) -> Mapping[str, str | None]:
        """The tools of calls without an outcome by key; None for a wait, a question or a new plan."""
        return {key: getattr(command, "tool", None) for key, command in self.folded.waiting.items()}

    @property
    def variables(self) -> Mapping[str, JSON]:
        """The variables that were set."""
        return self.folded.variables_to_show()

    @property
    def loops(self) -> Sequence[LoopUnderWay]:
        """The loops of a plan with blocks that were under way, with the results of their items so far."""
        return self.folded.loops_to_show()

    @property
    def visits(self) -> Mapping[str, int]:
        """How often each step had been reached, by its id."""
        machine = self.folded.machine
        return {code.id: n for code, n in zip(machine.program.steps, machine.visits, strict=True) if n}

    @property
    def response(self) -> str | None:
        """The answer, if the run had ended."""
        return self.folded.response_to_show

    @property
    def error(self) -> str | None:
        """The error, if the run had ended with one."""
        result = self.folded.machine.result
        return None if result is None else result.error

    @property
    def usage(self) -> Usage:
        """What the run had used."""
        return self.folded.usage()


def run_at(journal: Journal, run_id: str, event: int | None = None) -> RunMoment:
    """The state of a run after one of its events, by default after the last one.

    Raises JournalError: JRN002 for an unknown run, JRN041 for an event that it does not have.
    """
    info = journal.find_run(run_id)
    if event is None:
        event = info.events
    require_event(event, info.events)
    with gc_paused(True):
        return RunMoment(info.run_id, *state_at_event(journal, info, event))


# ---------------------------------------------------------------- blame


@dataclass(frozen=True, slots=True)
class FaultyValue:
    """A value that flowed into the failure and may have caused it.

    `what` is `error` (an error in place of a result), `cast` (it did not fit its cast), `unset` or `empty`.
    `event` is the one at which it arose; `call` is the call that failed with `error`, if one did; `step` made
    the value. `way` leads from it to the failed step.
    """

    what: str
    variable: str
    path: Path
    value: JSON
    step: str | None
    event: int
    call: str | None
    error: str | None
    traceback: str | None
    """Where the tool's code raised that error, None if it did not."""
    way: tuple[ValueFlow, ...]


@dataclass(frozen=True)
class FailureReport:
    """Where a run failed, and the likely causes, the likeliest first: a guess by rule.

    `step` is None if no step failed, as for a cancelled run. `call` is the key of the call that failed, with
    its `arguments`.
    """

    run_id: str
    lineage: Lineage = field(repr=False)
    blame: Blame = field(repr=False)

    @property
    def _visit(self) -> Visit | None:
        return None if self.blame.visit == NONE else self.lineage.visits[self.blame.visit]

    @property
    def step(self) -> str | None:
        """The step that failed."""
        return None if self._visit is None else self.lineage.place(self._visit)

    @property
    def visit(self) -> int | None:
        """Which visit of the step failed, from 1."""
        return None if self._visit is None else self._visit.visit

    @property
    def event(self) -> int:
        """The event with the failure."""
        return self.blame.seq

    @property
    def error(self) -> str:
        """The error."""
        return self.blame.error

    @property
    def call(self) -> str | None:
        """The key of the call that failed with it."""
        return self.blame.key or None

    @property
    def arguments(self) -> Mapping[str, JSON]:
        """The arguments of that call; positional inputs of models and agents have their numbers as names."""
        if not self.blame.key:
            return {}
        command: Any = self.lineage.commands[self.blame.key]
        inputs = {str(number): value for number, value in enumerate(getattr(command, "inputs", ()))}
        return {**inputs, **getattr(command, "args", {})}

    @property
    def traceback(self) -> str | None:
        """Where the tool's code raised the error; None if it did not."""
        return traceback_of(self.lineage, self.blame.key)

    @cached_property
    def causes(self) -> tuple[FaultyValue, ...]:
        """The faults that flowed into the failed step, the likeliest cause first."""
        lineage, found = self.lineage, list[FaultyValue]()
        for suspect in self.blame.suspects:
            node = suspect.node
            made_by = NONE if node.write == NONE else lineage.writes[node.write].visit
            found.append(
                FaultyValue(
                    str(suspect.odd),
                    suspect.name,
                    node.path,
                    lineage.value_at(node),
                    None if made_by == NONE else lineage.place(lineage.visits[made_by]),
                    suspect.seq,
                    suspect.key or None,
                    str(lineage.outcomes[suspect.key].value) if suspect.key else None,
                    traceback_of(lineage, suspect.key),
                    tuple(_flow(flow, {}) for flow in suspect.path),
                )
            )
        return tuple(found)


def traceback_of(lineage: Lineage, key: str) -> str | None:
    """Where the tool's code raised the error of a call; None if it did not.

    A call whose remark only names another call has the traceback of that one.
    """
    outcome = lineage.outcomes.get(key)
    text = "" if outcome is None else outcome.traceback
    same = text.removeprefix(SAME_PLACE)
    if same not in (text, key):
        return traceback_of(lineage, same) or text
    return text or None


def blame_run(journal: Journal, run_id: str) -> FailureReport:
    """Where a run failed, and the likely cause.

    Raises JournalError: JRN002 for an unknown run, JRN042 for one that has not failed.
    """
    with gc_paused(True):
        info = journal.find_run(run_id)
        lineage = run_lineage(journal, info)
        blamed = blame_of(lineage)
    if blamed is None:
        hint = f"to see where a value came from: callsheet why {info.run_id} VAR"
        raise JournalError("JRN042", f"run {info.run_id} has not failed", hint)
    return FailureReport(info.run_id, lineage, blamed)
