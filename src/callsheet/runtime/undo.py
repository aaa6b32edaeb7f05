"""Prepares the undoing of a run: the calls that take back what its calls did, newest first.

In: a recorded run, and the inverses that its tools declare. Out: a plan of inverse calls with its inputs, and
what cannot be undone, with the reason. The plan runs like any other, so that an undoing is journaled, resumed
after a crash, judged by the policy of the run and asked about as that says. No tool is called here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from callsheet.ir import JSON, Plan
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Variable
from callsheet.ir.inverse import Fate, Inverse, reversal
from callsheet.ir.labels import LITERAL, UNKNOWN, Label
from callsheet.ir.tree import Act, Input, Say, Tree, Word
from callsheet.ir.tree_edits import plan_of_tree
from callsheet.ir.types import Basic
from callsheet.machine import CallTool, Decided, Decision, Fact, Failed, Succeeded, TookPlace
from callsheet.machine.keys import item_of
from callsheet.policy.model import Policy
from callsheet.runtime.edits import ParentHistory
from callsheet.runtime.forking import parent_of
from callsheet.sealing.known import Known
from callsheet.sealing.masking import mask_value
from callsheet.store import EventType, Journal, JournalError
from callsheet.store.events import Event as Row
from callsheet.store.folded import Folded
from callsheet.store.kept_calls import REMARK
from callsheet.store.records import recorded_event
from callsheet.store.replay import begin_with, fold_on
from callsheet.store.runs import RunInfo
from callsheet.store.undoings import INVERSE, UNDOES, undoings

_WORST = Label(untrusted=True, readers=frozenset())


class MadeCall(NamedTuple):
    """A call of a run that may have changed something; `label` is that of all that it sent and gave.

    `seq` is the number of the event of its outcome; if there is none, of the run's last event.
    """

    seq: int
    key: str
    step: str
    tool: str
    args: Mapping[str, JSON]
    value: JSON
    fate: Fate
    label: Label


@dataclass(frozen=True, slots=True)
class Reversal:
    """A call that takes back another; `secret` are the arguments of it that hold a sealed value."""

    call: MadeCall
    tool: str
    args: Mapping[str, JSON]
    secret: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Irreversible:
    """A call that is not taken back, and why."""

    call: MadeCall
    why: str


@dataclass(frozen=True, slots=True)
class Undoing:
    """What the undoing of a run does; `run_id` is that of the new run, nothing of which is recorded yet.

    `reversals` and `irreversible` are newest first. `undone` counts calls that earlier undoings have taken
    back, and `inherited` those that belong to `parent`, the run that this one branched off. `unfinished` is
    an earlier undoing that has not ended: it has to be resumed first. `heirs` are the runs that branched off
    this one, and may have kept calls of it.
    """

    of: RunInfo
    run_id: str
    reversals: tuple[Reversal, ...]
    irreversible: tuple[Irreversible, ...]
    undone: int = 0
    inherited: int = 0
    unfinished: str | None = None
    heirs: tuple[RunInfo, ...] = ()
    known: Known = field(default_factory=Known)
    policy: Policy | None = None
    """The policy of the run."""
    label: Label = LITERAL
    """The label of all that the calls which are taken back sent and gave."""

    @property
    def parent(self) -> str | None:
        """The run that this one branched off, if any."""
        return self.of.parent_run

    @property
    def plan(self) -> Plan:
        """The plan of the inverse calls; its inputs are their arguments."""
        calls = [
            Act(
                _step_of(each),
                each.tool,
                named=tuple((name, Variable(_input_of(each, name))) for name in each.args),
            )
            for each in self.reversals
        ]
        inputs = [
            Input(_input_of(each, name), Basic.JSON, is_secret=name in each.secret)
            for each in self.reversals
            for name in each.args
        ]
        told = Say("answer", Word.RESPOND, (Literal(self._answer),), is_named=False)
        return plan_of_tree(Tree((*calls, told), tuple(inputs)), goal=f"Undo run {self.of.run_id}")

    @property
    def _answer(self) -> str:
        count = len(self.reversals)
        left = f"; {len(self.irreversible)} cannot be undone" if self.irreversible else ""
        return f"{count} call{'' if count == 1 else 's'} of run {self.of.run_id} undone{left}"

    @property
    def inputs(self) -> dict[str, JSON]:
        """The inputs of the plan."""
        return {_input_of(each, name): v for each in self.reversals for name, v in each.args.items()}

    @property
    def secret(self) -> frozenset[str]:
        """The inputs that hold sealed values."""
        return frozenset(_input_of(each, name) for each in self.reversals for name in each.secret)


InverseOf = Callable[[str], "tuple[str, Inverse] | None"]
"""The inverse of a tool, with the name by which plans call it; None if none is declared."""


def prepare_undo(
    journal: Journal,
    run_id: str,
    inverse_of: InverseOf,
    *,
    start: str = "",
    known: Known | None = None,
) -> Undoing:
    """What undoing a run takes; with `start`, only what was called from that step on.

    `inverse_of` gives the inverse of a tool, `known` are secrets of the configuration. Raises JournalError:
    JRN002 for an unknown run, JRN012, JRN015, JRN020 or JRN022 if its events cannot be read, JRN081 for a
    step that made no call, JRN086 for a run that has not ended or that undoes another.
    """
    parent = parent_of(journal, run_id)
    history = ParentHistory(journal, parent, known)
    first = history.first()
    if UNDOES in first.launch:
        raise JournalError(
            "JRN086",
            f"run {parent.run_id} undoes run {first.launch[UNDOES]}",
            hint="to do again what it took back, run the plan again",
        )
    if not parent.status.is_final:
        raise JournalError(
            "JRN086",
            f"run {parent.run_id} has not ended",
            hint=f"end it first: callsheet cancel {parent.run_id}, or let it go on: "
            f"callsheet resume {parent.run_id}",
        )
    made = _MadeCalls(history, parent)
    calls = _from(made.calls, start, parent.run_id)
    before = _earlier_undoings(journal, parent.run_id)
    known = history.known()
    finder = history.finder(known)
    reversals: list[Reversal] = []
    irreversible: list[Irreversible] = []
    undone = 0
    for call in reversed(calls):
        earlier = before.fates.get(call.seq)
        if earlier is not None and earlier[0] is not Fate.UNKNOWN:
            undone += 1
            continue
        if earlier is not None:
            why = f"its undoing by run {earlier[1]} may have taken place"
            irreversible.append(Irreversible(call, why))
            continue
        found = _reversed(call, inverse_of)
        if isinstance(found, Irreversible):
            irreversible.append(found)
        else:
            hidden = frozenset(n for n, value in found.args.items() if mask_value(value, finder) != value)
            reversals.append(replace(found, secret=hidden))
    label = LITERAL
    for each in reversals:
        label = label.join(each.call.label)
    return Undoing(
        parent,
        before.next_id,
        tuple(reversals),
        tuple(irreversible),
        undone,
        made.inherited,
        before.unfinished,
        tuple(journal.children(parent.run_id)),
        known,
        first.policy,
        label,
    )


def _reversed(call: MadeCall, inverse_of: InverseOf) -> Reversal | Irreversible:
    declared = None if call.fate is Fate.UNKNOWN else inverse_of(call.tool)
    tool, inverse = declared or ("", None)
    found = reversal(call.tool, inverse, call.fate, call.args, call.value)
    return Irreversible(call, found) if isinstance(found, str) else Reversal(call, tool, found)


def _step_of(reversal: Reversal) -> str:
    return f"{INVERSE}{reversal.call.seq}"


def _input_of(reversal: Reversal, name: str) -> str:
    """The input for an argument, such as `event_id_12`."""
    return f"{name}_{reversal.call.seq}"


def _from(calls: Sequence[MadeCall], start: str, run_id: str) -> Sequence[MadeCall]:
    if not start:
        return calls
    first = next((number for number, call in enumerate(calls) if call.step == start), None)
    if first is None:
        steps = ", ".join(dict.fromkeys(call.step for call in calls)) or "none"
        raise JournalError(
            "JRN081",
            f"step {start} of run {run_id} has made no call that may have changed something",
            hint=f"steps with such calls: {steps}",
        )
    return calls[first:]


# ---------------------------------------------------------------- what a run did


class _MadeCalls:
    """The calls of a run that may have changed something, in the order of their outcomes."""

    def __init__(self, history: ParentHistory, info: RunInfo, *, even_reads: bool = False) -> None:
        self._even_reads = even_reads
        self.calls: list[MadeCall] = []
        self.inherited = 0
        """The calls whose effects belong to an earlier run."""
        self._info = info
        self._unsettled: dict[str, MadeCall] = {}
        """Failed deliveries of a call that may have had their effect, by what the call's keys begin with."""
        self._sent: set[str] = set()
        rows = history.events()
        self._folded = begin_with(history.plan, next(rows))
        fold_on(self._folded, self._noted(rows, history), history.plan_of)
        for key, command in self._folded.waiting.items():
            if isinstance(command, CallTool) and key in self._sent:
                self._add(info.events, key, command, None, Fate.UNKNOWN)
        self.calls.extend(self._unsettled.values())
        self.calls.sort(key=lambda call: call.seq)

    def _noted(self, rows: Iterator[Row], history: ParentHistory) -> Iterator[Row]:
        for row in rows:
            if row.key is not None:
                if row.type is EventType.INTENT:
                    self._sent.add(row.key)
                command = self._folded.waiting.get(row.key)
                if isinstance(command, CallTool):
                    self._take(row, row.key, command, history)
            yield row

    def _take(self, row: Row, key: str, command: CallTool, history: ParentHistory) -> None:
        outcome = recorded_event(row, history.plan_of)
        match outcome:
            case Succeeded(value=value, remarks=remarks):
                kept = any(isinstance(one, Fact) and one.name == REMARK for one in remarks)
                self._add(row.seq, key, command, value, Fate.DONE, is_inherited=kept or self._is_copy(row))
            case Decided(decision=TookPlace(value=value)):
                self._add(row.seq, key, command, value, Fate.DONE, is_inherited=self._is_copy(row))
            case Decided(decision=Decision.SKIP | Decision.FAIL):
                self._add(row.seq, key, command, None, Fate.UNKNOWN, is_inherited=self._is_copy(row))
            case Failed(final=True):
                self._add(row.seq, key, command, None, Fate.LOST, is_inherited=self._is_copy(row))
            case Failed(unsettled=True) if not self._is_copy(row):
                if not self._folded.effect_of(command).only_reads:
                    call = self._call(row.seq, key, command, None, Fate.UNKNOWN)
                    self._unsettled[item_of(key)] = call
            case _:
                pass

    def _is_copy(self, row: Row) -> bool:
        """Whether an event was copied from the run that this one branched off."""
        return self._info.parent_run is not None and row.ts < self._info.created

    def _add(
        self, seq: int, key: str, command: CallTool, value: JSON, fate: Fate, *, is_inherited: bool = False
    ) -> None:
        effect = self._folded.effect_of(command)
        if effect.only_reads and not self._even_reads:
            return
        if effect.may_rerun:  # a later delivery of it has settled the earlier ones
            self._unsettled.pop(item_of(key), None)
        tree = self._folded.machine.tree
        taken_back = None if tree is None else tree.undone.get(key.rpartition("/")[0])
        if taken_back is not None:  # by an ON_FAIL UNDO of the plan
            self._settle(taken_back, fate)
            return
        if is_inherited:
            self.inherited += 1
            return
        self.calls.append(self._call(seq, key, command, value, fate))

    def _settle(self, place: str, fate: Fate) -> None:
        """A call of the run has been undone by the run itself, or nobody knows whether it has."""
        made = [call for call in self.calls if item_of(call.key) == place]
        self.calls = [call for call in self.calls if item_of(call.key) != place]
        if fate is Fate.UNKNOWN:
            self.calls += [call._replace(fate=Fate.UNKNOWN) for call in made]

    def _call(self, seq: int, key: str, command: CallTool, value: JSON, fate: Fate) -> MadeCall:
        label = _label_of(self._folded, key)
        return MadeCall(seq, key, command.step, command.tool, dict(command.args), value, fate, label)


def _label_of(folded: Folded, key: str) -> Label:
    """The label of all that an open call sends and gives; without a policy nobody knows it."""
    monitor = folded.machine.monitor
    if monitor is None:
        return UNKNOWN
    admitted = monitor.open_calls.calls.get(key)
    return _WORST if admitted is None else admitted.sent.join(admitted.result)


# ---------------------------------------------------------------- earlier undoings of the same run


class _Before(NamedTuple):
    """What earlier undoings of a run have done, the id of the next, and the one that has not ended."""

    fates: Mapping[int, tuple[Fate, str]]
    """What became of the reversals of calls, by the event of the call, and the run that made them."""
    next_id: str
    unfinished: str | None


def _earlier_undoings(journal: Journal, run_id: str) -> _Before:
    fates: dict[int, tuple[Fate, str]] = {}
    name = ""
    for name, info in undoings(journal, run_id):
        if info is not None and not info.status.is_final:
            return _Before(fates, name, name)
        made = None if info is None else _MadeCalls(ParentHistory(journal, info), info, even_reads=True)
        for call in () if made is None else made.calls:
            if call.step.startswith(INVERSE):
                fates[int(call.step.removeprefix(INVERSE))] = call.fate, name
    return _Before(fates, name, None)
