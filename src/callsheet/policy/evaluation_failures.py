"""What the failure of an evaluation tells: the label of what decides whether an expression has a value.

In: the values that operations work with, by what they may fail for. Out: joins over a whole evaluation. A
failure by content tells the content, one by the form of a value only what decides its form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from callsheet.ir.labels import LITERAL, Label, join
from callsheet.ir.types import Basic, Record, Type, names_values
from callsheet.policy.labelled import Labelled, has_data


class EvaluationFailures:
    """Collects what is read, and what decides whether evaluations fail."""

    __slots__ = ("can_fail", "content", "fails_by_content", "reads")

    def __init__(self) -> None:
        self.content: Label = LITERAL
        """The label of what decides whether an evaluation fails by a test of content."""
        self.reads: Label = LITERAL
        """The join of everything that is read."""
        self.can_fail = False
        """Whether an evaluation may fail at all."""
        self.fails_by_content = False
        """Whether it may fail by a test of content, or by what the plan itself composes."""

    def fails(self, value: Labelled) -> None:
        """What is done with a value may fail by its content."""
        self.reads = self.reads.join(value.label)
        self._fails((value,))

    def casts(self, value: Labelled, type_: Type | None, named: Mapping[str, Record]) -> None:
        """A value is checked against a type: one that names values tests the content, any other the form."""
        if type_ is None or type_ is Basic.JSON:
            return
        self.reads = self.reads.join(value.label)
        self._typed((value,))
        if names_values(type_, named):
            self.fails(value)

    def _typed(self, values: tuple[Labelled, ...]) -> None:
        """An operation that fails for values of other types, which depends on what decides their types."""
        self.can_fail = True
        self.content = self.content.join(join(value.presence for value in values))
        if all(value.shapes and not any(map(has_data, value.shapes)) for value in values):
            self.fails_by_content = True

    def _fails(self, values: Iterable[Labelled]) -> None:
        """The evaluation may fail by the content of these values."""
        self.can_fail = self.fails_by_content = True
        self.content = self.content.join(join(value.label for value in values))
