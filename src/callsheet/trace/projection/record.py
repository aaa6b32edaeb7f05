"""Data model of a recorded run: its visits with what each read and wrote, and the confidence of each value.

A variable that is set again is a new write, so that a reader refers to exactly the value that it was given.

The numbers are a policy; they are not measured. An operator can set others per tool.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from callsheet import ir
from callsheet.machine import Result, Status, ToolFacts
from callsheet.trace.lctl.receive import MOST_STATED

BEFORE_ALL = -1
"""The place of writes from before the first step."""


class Outcome(StrEnum):
    """The outcome of a visit."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"
    STOPPED = "stopped"
    """It was under way when the run ended, or a limit ended the run within it."""
    OPEN = "open"
    """It is under way."""


class Item(NamedTuple):
    """One result of a FOREACH as text; `is_error` if it is the text of an error."""

    text: str
    is_error: bool


class Write(NamedTuple):
    """A value that a variable was set to.

    `number` counts the writes of a run from 1; `text` is the value as text; `visit` is the place of the visit
    that set it, or BEFORE_ALL. `is_error` if the value is the text of an error. `items` are the single
    results of a FOREACH, if they were asked for.
    """

    number: int
    var: str
    text: str
    visit: int
    is_error: bool = False
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class Visit:
    """One visit of a step, the making of a new plan, or an edit by hand.

    `label` is its name in the run, such as `r1/S3@2`; `step` is None if no step did it. `plan` counts the
    plans of the run from 0, `number` the steps of that plan. `data` are the writes that its arguments were
    made from, `control` those that its conditions read. `wrote` is in order. `started` and `settled` are
    logical times that can be compared within the run; `seconds` is the duration. `failures` counts the items
    of a FOREACH that failed. `expired` if nobody answered its question in time. `stated` is the confidence
    that an agent has stated, from 0 to 1, the lowest if there are several.
    """

    label: str
    step: ir.Step | None
    plan: int
    number: int
    outcome: Outcome
    detail: str = ""
    data: tuple[Write, ...] = ()
    control: tuple[Write, ...] = ()
    wrote: tuple[Write, ...] = ()
    started: int = 0
    settled: int = 0
    seconds: float = 0.0
    attempts: int = 1
    failures: int = 0
    cast_failed: bool = False
    expired: bool = False
    cuts: tuple[str, ...] = ()
    is_edit: bool = False
    """Whether this is an edit: somebody set a variable by hand."""
    stated: float | None = None
    word: str = ""
    """The word for the statement of a plan with blocks; "" for the step of another plan."""
    deed: str = ""
    """What such a statement does, in words."""
    items: int = 0
    """How many items a FOREACH goes through; 0 for other steps."""
    is_unused: bool = False
    """Whether its result came too late and was not used; `detail` says why."""
    begun: int = -1
    """The number that it has in the lineage of the run; -1 if no step did it."""

    @property
    def reads(self) -> tuple[Write, ...]:
        """All writes that it read, each once."""
        return tuple(dict.fromkeys((*self.data, *self.control)))


@dataclass(frozen=True, slots=True)
class Record:
    """A run: its initial variables, its settled visits in order, those under way, and its result.

    `given` are the writes from before the first step, `own` the numbers of those that come from the plan
    itself. `facts` are the properties of the tools, by name.
    """

    plans: tuple[ir.Plan, ...]
    given: tuple[Write, ...]
    own: frozenset[int]
    visits: tuple[Visit, ...]
    under_way: tuple[Visit, ...]
    result: Result | None
    facts: Mapping[str, ToolFacts]
    numbers: Mapping[int, int] = field(default_factory=dict[int, int])
    """The number that each write has in the lineage of the run."""

    def current(self, upto: int) -> dict[str, Write]:
        """The last write of each variable after the first `upto` visits."""
        current = {write.var: write for write in self.given}
        current.update((write.var, write) for visit in self.visits[:upto] for write in visit.wrote)
        return current

    def batches(self) -> list[int]:
        """For each visit the number of its batch, from 0.

        The visits of a batch had begun before any of them was settled: none has read what another wrote.
        """
        numbers: list[int] = []
        first = -1
        for visit in self.visits:
            if not numbers or visit.started > first:
                numbers.append(numbers[-1] + 1 if numbers else 0)
                first = visit.settled
            else:
                numbers.append(numbers[-1])
        return numbers

    def ending(self) -> int | None:
        """The place of the visit that ended the run; None if no visit did."""
        if self.result is None or not self.result.ended_at:
            return None
        step = self.result.ended_at
        places = range(len(self.visits) - 1, BEFORE_ALL, -1)
        place = next((p for p in places if _is_of(self.visits[p], step)), None)
        if place is None or self.result.status is Status.DONE or self.visits[place].outcome is not Outcome.OK:
            return place
        return None  # it ended well, and a later visit of this step never began


def _is_of(visit: Visit, step: str) -> bool:
    name = visit.label if visit.word else None if visit.step is None else visit.step.id
    return name == step and visit.outcome is not Outcome.SKIPPED


MOST_OF_A_VALUE = 200
MOST_OF_A_TEXT = 300
MOST_OF_A_NAME = 80
_DIGITS = 12


def shown_value(value: ir.JSON, most: int = MOST_OF_A_VALUE) -> str:
    """A value as JSON; if longer than `most` characters, its start, its length and the start of its SHA-256.

    >>> shown_value({"total": "120.5"})
    '{"total": "120.5"}'
    >>> shown_value("a" * 300, 10)
    '"aaaaaaaaa… (302 characters, sha256 807cbaadeb1a)'
    """
    text = _unicode(json.dumps(value, ensure_ascii=False))
    if len(text) <= most:
        return text
    digest = sha256(text.encode()).hexdigest()[:_DIGITS]
    return f"{text[:most]}… ({len(text):,} characters, sha256 {digest})"


def shown_text(text: str, most: int = MOST_OF_A_TEXT) -> str:
    """A text on one line, cut after `most` characters.

    >>> shown_text("no such\\n file", 9)
    'no such f…'
    """
    line = " ".join(_unicode(text[: most * 4]).split())
    return line if len(line) <= most else f"{line[:most]}…"


def _unicode(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


CALLER = "caller"
"""The agent that starts a run and receives its answer."""
COMPILER = "compiler"
"""The agent that makes new plans."""
OPERATOR = "operator"
"""The agent that sets variables by hand."""

_MOST_FACTS = 8


def fact_id(write: Write) -> str:
    """The id of the fact for a write."""
    return f"F{write.number}"


def item_ids(write: Write) -> tuple[str, ...]:
    """The ids of the facts for the single results of a FOREACH."""
    return tuple(f"F{write.number}-{n}" for n in range(len(write.items)))


def agent_of(visit: Visit) -> str:
    """The name of a visit as an agent, such as `S3:@FETCH_PAGE`; unique within a run."""
    label = shown_text(visit.label, MOST_OF_A_NAME)
    return f"{label}:{_word(visit)}"


def _word(visit: Visit) -> str:
    if visit.step is None:
        return OPERATOR if visit.is_edit else COMPILER
    if visit.word:
        return visit.word
    call = visit.step.call
    if call is not None:
        return f"@{shown_text(call.tool, MOST_OF_A_NAME)}"
    return ir.word_of(visit.step.action).removeprefix("@")


def action_of(visit: Visit) -> str:
    """What a visit did, with the facts that it read, and its outcome unless it succeeded."""
    parts = [_deed(visit)]
    if visit.control:
        parts.append(f"decided by {_named(visit.control)}")
    if visit.outcome is Outcome.SKIPPED:
        return f"SKIPPED: {visit.detail}" + (f"; {parts[-1]}" if visit.control else "")
    if visit.attempts > 1:
        parts[0] += f" ({visit.attempts} attempts)"
    if visit.failures:
        parts.append(f"{visit.failures} item{'' if visit.failures == 1 else 's'} failed")
    if visit.cast_failed:
        parts.append("the result did not fit its cast")
    if visit.is_unused:
        parts.append(visit.detail)
    summary = "; ".join(parts)
    return f"FAILED: {summary}" if visit.outcome in (Outcome.FAILED, Outcome.STOPPED) else summary


def _deed(visit: Visit) -> str:
    if visit.step is None:
        return visit.detail or "made a new plan"
    title = f" ({shown_text(visit.step.title, MOST_OF_A_NAME)})" if visit.step.title else ""
    of = f" of {_named(visit.data)}" if visit.data else ""
    if visit.deed:
        return f"{visit.deed}{of}{title}"
    items = ", for each item" if visit.step.foreach is not None else ""
    match visit.step.action:
        case ir.Call(tool=tool):
            return f"called @{shown_text(tool, MOST_OF_A_NAME)}{of}{items}{title}"
        case ir.Respond():
            return f"answered{of}{items}{title}"
        case ir.Terminate():
            return f"ended the plan{of}{items}{title}"
        case ir.Goto(target=target):
            return f"went to {shown_text(target, MOST_OF_A_NAME)}{title}"
        case ir.Replan():
            return f"asked for a new plan{of}{title}"


def _named(writes: tuple[Write, ...]) -> str:
    shown = [f"${shown_text(write.var, MOST_OF_A_NAME)} ({fact_id(write)})" for write in writes[:_MOST_FACTS]]
    return ", ".join([*shown, *(["…"] if len(writes) > _MOST_FACTS else [])])


def error_of(visit: Visit) -> str | None:
    """The error of a visit that failed or was stopped; None otherwise, even if some items failed."""
    if visit.outcome is Outcome.FAILED:
        return visit.detail or "it failed"
    if visit.outcome is Outcome.STOPPED:
        return visit.detail or "it was under way when the run ended"
    return None


_WEB = frozenset({"FETCH_PAGE", "WEB_SEARCH"})
_CHECKED_CASTS = frozenset({ir.Cast.INT, ir.Cast.FLOAT, ir.Cast.BOOL, ir.Cast.JSON})


class Basis(NamedTuple):
    """A confidence from 0 to 1, and the reason for it in words."""

    value: float
    why: str


GIVEN = Basis(1.0, "given")
WRITTEN = Basis(1.0, "written in the plan")
COMPUTED = Basis(1.0, "computed by the plan")
ERROR = Basis(0.0, "the text of an error")
UNCAST = Basis(0.0, "the cast failed")
ITEM_FAILED = Basis(0.0, "an item failed")
LOCAL = Basis(1.0, "deterministic, on this machine")
PERSON = Basis(1.0, "a person said so")
NOBODY = Basis(0.70, "nobody answered; the default of the question, assumed")
WEB = Basis(0.80, "from the web")
READ = Basis(0.95, "read by a declared tool")
DECLARED = Basis(0.95, "told by a declared tool")
UNDECLARED = Basis(0.80, "told by a tool whose effect is not known")
CHECKED = Basis(0.90, "a model said so, in a form that was checked")
ASSUMED = Basis(0.70, "a model said so; assumed")
AGENT = Basis(0.60, "an agent said so; assumed")

_BY_KIND = {
    ir.CallKind.TRANSFORM: LOCAL,
    ir.CallKind.AGENT: AGENT,
}
_BY_EFFECT = {ir.Effect.PURE: LOCAL, ir.Effect.READ: READ, ir.Effect.UNSAFE: UNDECLARED}


def own_basis(visit: Visit, facts: Mapping[str, ToolFacts], by_tool: Mapping[str, float]) -> Basis:
    """The confidence of a visit's result, regardless of its inputs.

    `by_tool` are the confidences that an operator has set, by canonical tool name.
    """
    step = visit.step
    if any(write.is_error for write in visit.wrote):
        return ERROR
    if visit.cast_failed:
        return UNCAST
    if visit.failures:
        return ITEM_FAILED
    if step is None or step.call is None:
        if visit.word and visit.data:
            return COMPUTED
        return PERSON if visit.is_edit else WRITTEN
    if step.call.tool in by_tool:
        return Basis(by_tool[step.call.tool], "set for this tool")
    return _of_call(visit, step, step.call, facts)


def _of_call(visit: Visit, step: ir.Step, call: ir.Call, facts: Mapping[str, ToolFacts]) -> Basis:
    match call.kind:
        case ir.CallKind.AGENT if visit.stated is not None:
            most = AGENT.value if step.foreach is not None else MOST_STATED
            return Basis(min(visit.stated, most), "an agent said so, and how sure it is")
        case ir.CallKind.MODEL:
            return CHECKED if _is_checked(step, call) else ASSUMED
        case ir.CallKind.HUMAN:
            return NOBODY if visit.expired else PERSON
        case ir.CallKind.TOOL if call.tool in _WEB:
            return WEB
        case ir.CallKind.TOOL:
            effect = facts.get(call.tool, ToolFacts()).effect
            return _BY_EFFECT.get(effect, DECLARED)
        case kind:
            return _BY_KIND[kind]


def _is_checked(step: ir.Step, call: ir.Call) -> bool:
    """Whether the form of a model's answer is checked: as a verdict, against categories or by a cast."""
    if call.tool == "LLM_EVALUATE" or (
        call.tool == "LLM_CLASSIFY" and any(name == "categories" for name, _ in call.named)
    ):
        return True
    return step.output is not None and step.output.cast in _CHECKED_CASTS


class Worth(NamedTuple):
    """The confidence of a written value: its own basis, and `value`, the least of that and of its inputs."""

    basis: Basis
    value: float


def worth_of(record: Record, by_tool: Mapping[str, float]) -> dict[int, Worth]:
    """The worth of each write, by its number; `by_tool` as for `own_basis`."""
    worths: dict[int, Worth] = {}
    for write in record.given:
        worths[write.number] = _worth(WRITTEN if write.number in record.own else GIVEN, (), worths)
    for visit in record.visits:
        basis = own_basis(visit, record.facts, by_tool)
        for write in visit.wrote:
            worths[write.number] = _worth(basis, made_of(visit), worths)
    return worths


def made_of(visit: Visit) -> tuple[Write, ...]:
    """The writes whose confidence limits that of the visit's result: none if a person answered or set it.

    A person has seen what the question shows and vouches for the answer themselves.
    """
    return () if visit.step is None or _is_of_a_person(visit) else visit.data


def affirmed(visit: Visit) -> tuple[Write, ...]:
    """The writes that a person or a checked model was shown and whose value it returned unchanged."""
    step = visit.step
    if step is None or visit.failures or visit.cast_failed or step.call is None:
        return ()
    is_check = step.call.kind is ir.CallKind.MODEL and _is_checked(step, step.call)
    if not (is_check or _is_of_a_person(visit)):
        return ()
    given = {write.text for write in visit.wrote if not write.is_error}
    return tuple(write for write in visit.data if write.text in given and not write.is_error)


def affirming(record: Record, first: int, upto: int) -> dict[int, int]:
    """The place of the last visit that affirmed each write, by the write's number.

    Only visits from `first` on and before `upto` are considered.
    """
    places = range(first, upto)
    return {write.number: place for place in places for write in affirmed(record.visits[place])}


def _is_of_a_person(visit: Visit) -> bool:
    """Whether the value comes from a person: an edit, or an answer that is not the question's default."""
    if visit.step is None or visit.step.call is None:
        return visit.is_edit
    return visit.step.call.kind is ir.CallKind.HUMAN and not visit.expired


def _worth(basis: Basis, parents: tuple[Write, ...], known: Mapping[int, Worth]) -> Worth:
    return Worth(basis, min([basis.value, *(known[parent.number].value for parent in parents)]))
