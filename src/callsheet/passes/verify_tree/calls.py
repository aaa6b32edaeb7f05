"""The calls of a tree as the rules judge them, and the labels of their results and of what they store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from callsheet.ir.labels import LITERAL, Label, join
from callsheet.ir.tree import Act, Statement
from callsheet.passes.verify.persisted_labels import NOTHING_LEFT, PersistedLabels, Storing
from callsheet.passes.verify.places import (
    ALL_FILES,
    BELOW,
    FOLDER,
    NOTHING,
    SOME_FILE,
    Access,
    access_of,
)
from callsheet.passes.verify.subject import PLACES
from callsheet.passes.verify_tree.state import Site
from callsheet.policy.builtins import fold
from callsheet.policy.calls import Argument, CallView
from callsheet.policy.composing import retells
from callsheet.policy.field_labels import FieldLabels, either
from callsheet.policy.judge import Judge
from callsheet.policy.labelled import Labelled, Says, said_by
from callsheet.policy.prepared import Prepared
from callsheet.policy.rules.attachments import sends_files
from callsheet.policy.rules.files import keeps_files, names_files
from callsheet.policy.rules.opened_files import seen_by

_SENT = "what it reads"
"""Pseudo-argument for the files, facts or notes that a call sends along."""
_LOOKING_UP = frozenset({"READ_FILE", "GET_WM"})
"""Tools that return what is stored under a name."""


REMARK = "(remark)"
"""The name of what the plan itself says beside its results, which is no name of a tool."""


@dataclass(slots=True)
class Record:
    """A statement that is judged, as the last visit saw it: the calls that it may make.

    `order` is when the analysis first came to it, `again` whether it may be executed more than once, `beside`
    the block of @PARALLEL that it is in. `values` are its arguments, `why` the decisions that lead to it.
    """

    site: Site
    statement: Statement
    tool: str
    prepared: Prepared
    calls: list[CallView]
    values: tuple[tuple[str, Labelled], ...]
    pc: Label
    why: tuple[int, ...]
    order: int
    again: bool
    beside: str | None = None
    access: Access = NOTHING
    result: Label = LITERAL
    reads_left: bool = False
    shown: Label = LITERAL
    """What decided which of several values an answer shows."""
    failure: Label | None = None
    """The label of the message of a failure that ends the run; None if it cannot end it."""


@dataclass(slots=True)
class CallLabels:
    """Computes the labels of calls from what they read, under one policy."""

    judge: Judge
    left: PersistedLabels = NOTHING_LEFT

    def access(self, prepared: Prepared, calls: Sequence[CallView]) -> Access:
        """The places besides variables that a call accesses."""
        name, traits = prepared.tool, prepared.traits
        if traits is None:
            return NOTHING
        if keeps_files(name, traits):
            if not any(map(names_files, calls)):
                return NOTHING
        elif traits.path is None and name not in PLACES and not sends_files(name, traits):
            return NOTHING
        seen = partial(seen_by, self.judge.setting, name)
        return access_of(name, traits, lambda: calls, self.judge.setting.agent_tools, seen)

    def with_sent(self, calls: list[CallView], access: Access, read: Label, *, own: bool) -> list[CallView]:
        """The calls with what they send along from places as an argument."""
        if not access.sent:
            return calls
        label = read
        left = LITERAL if self.left is NOTHING_LEFT else self.left.of_places(access.sent)
        if not left.flows_to(label) and not own:
            label = label.join(left)
        if label.is_public:
            return calls
        along = Argument(_SENT, (), Label(False, label.readers))
        return [call._replace(arguments=(*call.arguments, along)) for call in calls]

    def left_for(self, prepared: Prepared, calls: Sequence[CallView], access: Access) -> Label:
        """The label of what earlier runs have left in the places that a call reads."""
        if self.left is NOTHING_LEFT:
            return LITERAL
        return self.left.read_by(self.judge.setting, prepared, calls, access.reads)

    def result(
        self, act: Act, prepared: Prepared, calls: Sequence[CallView], read: Label, values: Iterable[Labelled]
    ) -> Label:
        """The label of a call's result, including the words of its failure."""
        judge, traits = self.judge, prepared.traits
        label = judge.result(calls[0]) if len(calls) == 1 else join(judge.result(call) for call in calls)
        if prepared.tool == "GET_WM":
            label = join(argument.label for call in calls for argument in call.arguments)
            label = label.join(join(call.pc for call in calls))
        if read is not LITERAL:
            label = label.join(read)
        may_show = not label.is_public and not label.untrusted
        if may_show and said_by(values) & Says.ADDRESS and any(retells(traits, call) for call in calls):
            label = judge.unshown(label)
        return self.declassified(act, label)

    def fields(self, prepared: Prepared, calls: Sequence[CallView], result: Label) -> FieldLabels | None:
        """The labels of the fields of a call's result, if nothing but the policy says what label it has."""
        if not calls or prepared.traits is None or prepared.traits.fields is None:
            return None
        if result != join(self.judge.result(call) for call in calls):
            return None
        return reduce(either, (self.judge.fields(call) for call in calls))

    def declassified(self, act: Act, label: Label) -> Label:
        """The label, without its readers if the policy declassifies the step."""
        declassify = self.judge.policy.declassify
        return Label(label.untrusted, None) if declassify and act.id in declassify else label

    def present(
        self, act: Act, prepared: Prepared, values: Sequence[Labelled], pc: Label, result: Label
    ) -> Label:
        """The label of whether the call gives a result, beyond the one bit that its data is."""
        label = pc
        for value in values:
            label = label.join(value.presence)
        if prepared.tool in _LOOKING_UP:  # presence depends only on which entry is looked up
            label = label.join(join(value.label for value in values))
        if prepared.is_program:
            label = label.join(result)
        return self.declassified(act, label)

    def stored(
        self,
        prepared: Prepared,
        calls: Sequence[CallView],
        access: Access,
        read: Label,
        result: Label,
        pc: Label,
    ) -> Label:
        """The label of what a call writes to a place."""
        data = self.judge.policy.planner.join(join(a.label for call in calls for a in call.arguments))
        storing = Storing(data, read, join(map(self.judge.source, calls)), pc, result)
        return storing.stored(self.judge, prepared, lambda: calls, self.left.of_places(access.reads))


def only_file(access: Access) -> str | None:
    """The single file that a call reads; None if it reads others too, or none."""
    places = [place for place in access.reads if place != SOME_FILE and not place.startswith((FOLDER, BELOW))]
    is_one = len(places) == 1 and places[0] != ALL_FILES and places[0].startswith("file:")
    return places[0] if is_one else None


def replaced_file(tool: str, access: Access) -> Iterable[str]:
    """The files whose whole content a call replaces."""
    if fold(tool) != "WRITE_FILE":
        return ()
    return [
        place for place in access.writes if place.startswith("file:") and place not in (SOME_FILE, ALL_FILES)
    ]
