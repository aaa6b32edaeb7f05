"""What a planner is shown of the data of a run, as the label that all it then says has."""

from __future__ import annotations

from callsheet.authoring.shapes import Shared, is_shared
from callsheet.ir.labels import Label, join
from callsheet.machine import Compile


def label_of_shared(command: Compile, shared: Shared) -> Label:
    """The label of what a planner is told of the variables: of the values that are shared.

    Names, kinds and sizes, and the kinds of failures, count as public: they are a few bits.
    """
    labels = command.labels or {}
    return join(label for name, label in labels.items() if is_shared(name, shared))
