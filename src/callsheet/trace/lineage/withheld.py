"""Withholds what a plan with blocks has computed from sealed values, where only placeholders are there.

In: what is recorded of a run over placeholders: writes and calls of its lineage, notes of its machine. Out:
the same, with `WITHHELD` in place of each value, argument and text that the plan itself has computed from a
placeholder. What calls and pure code have given is recorded and stays; a value with a placeholder in it says
by that what it is. All that shows a run reads its lineage or its visits, so it is said everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from callsheet.ir import JSON
from callsheet.ir.tree import Act, Assign, Compute, Let, Require, Say, Tree, all_statements, variables_read
from callsheet.machine import AgentTurn, Awaited, CallModel, CallTool, RunAgent
from callsheet.machine.keys import place_in_tree
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.tree.variables import computed_from
from callsheet.sealing.keys import WITHHELD, has_placeholder
from callsheet.trace.lineage.blocks import TreeLineage
from callsheet.trace.lineage.lineage import NONE, ValueSource, Write
from callsheet.trace.lineage.reads import Role

_OF_TEXTS = (NoteKind.SAID, NoteKind.FAILED)
"""The notes whose details a statement has made."""


class Withholding:
    """Withholds in a lineage that is being recorded; `take` when there is more of it."""

    def __init__(self, lineage: TreeLineage) -> None:
        self._lineage = lineage
        self._sealed: set[int] = set()
        """The writes that have a placeholder, or are withheld."""
        self._upto = 0

    def take(self, keys: Iterable[str] = ()) -> None:
        """Withhold in the writes that are new, and in the calls with these keys."""
        lineage, sealed = self._lineage, self._sealed
        for number in range(self._upto, len(lineage.writes)):
            write = lineage.writes[number]
            if has_placeholder(write.value):
                sealed.add(number)
            elif not self._is_recorded(write) and self._reads_sealed(number):
                sealed.add(number)
                lineage.writes[number] = write._replace(value=WITHHELD)
        self._upto = len(lineage.writes)
        if sealed:
            for key in keys:
                lineage.commands[key] = self._without_computed(key, lineage.commands[key])

    def answered(self, response: str | None) -> None:
        """The run has ended with this response, if it was recorded; it has taken all that is before."""
        machine = self._lineage.machine
        result = machine.result
        if result is None:
            return
        answers = (write for write in self._lineage.writes if write.made is ValueSource.ANSWER)
        last = max(answers, key=lambda write: write.id, default=None)
        if last is not None and last.value == WITHHELD:
            machine.result = replace(result, response=response or WITHHELD, answer=WITHHELD)

    def _is_recorded(self, write: Write) -> bool:
        """Whether a value is in the journal or in the plan, and was not computed."""
        lineage = self._lineage
        if write.made in (ValueSource.EDIT, ValueSource.EARLIER):
            return True
        if write.visit == NONE:
            return write.id not in lineage.parts
        is_result = write.made in (ValueSource.STEP, ValueSource.INNER, ValueSource.ERROR)
        return is_result and isinstance(lineage.site(lineage.visits[write.visit]).statement, Act | Compute)

    def _reads_sealed(self, number: int) -> bool:
        return any(part.flow.node.write in self._sealed for part in self._lineage.parts_of(number))

    def _without_computed(self, key: str, command: Awaited) -> Awaited:
        """A call without the arguments that were computed from placeholders."""
        lineage = self._lineage
        visit = lineage.visit_at(place_in_tree(key))
        if visit is None or not isinstance(command, CallTool | CallModel | RunAgent | AgentTurn):
            return command
        statement = lineage.site(visit).statement
        named = {name for name, _ in statement.named} if isinstance(statement, Act) else set[str]()
        read = {
            flow.argument
            for flow in lineage.own_flows(visit)
            if flow.role is Role.ARGUMENT and flow.node.write in self._sealed
        }
        if not read:
            return command
        positional = any(argument not in named for argument in read)
        args = {
            name: _shown(value) if name in read or (positional and name not in named) else value
            for name, value in command.args.items()
        }
        if isinstance(command, CallTool):
            return command._replace(args=args)
        inputs = [_shown(value) if str(n) in read else value for n, value in enumerate(command.inputs)]
        return command._replace(args=args, inputs=inputs)


class NameVeil:
    """Withholds in the notes of a machine that runs over placeholders, by the names of variables."""

    def __init__(self, tree: Tree, inputs: Mapping[str, JSON]) -> None:
        self._tree = tree
        self._statements = {one.id: one for one in all_statements(tree)}
        self._sealed = {name for name, value in inputs.items() if has_placeholder(value)}
        self._made = computed_from(tree, self._sealed)

    def over(self, note: Note) -> Note:
        """A note without what was computed from a placeholder."""
        statement = self._statements.get(note.step.rpartition("/")[2].partition("[")[0])
        if note.var is not None:
            if has_placeholder(note.value):
                if note.var not in self._sealed:
                    self._sealed.add(note.var)
                    self._made = computed_from(self._tree, self._sealed)
            elif note.var in self._made and not isinstance(statement, Act | Compute):
                note = note._replace(value=WITHHELD)
        if (
            note.kind in _OF_TEXTS
            and note.detail
            and isinstance(statement, Say | Let | Assign | Require)
            and self._reads(statement)
        ):
            note = note._replace(detail=str(_shown(note.detail)))
        return note

    def _reads(self, statement: Say | Let | Assign | Require) -> bool:
        return any(name in self._sealed or name in self._made for name in variables_read(statement))


def _shown(value: JSON) -> JSON:
    return value if has_placeholder(value) else WITHHELD
