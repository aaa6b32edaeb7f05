"""Computes the policy label of the data that a planner is shown, which its answer then inherits."""

from __future__ import annotations

from callsheet.authoring.shapes import Shared, is_shared
from callsheet.ir.labels import Label, join
from callsheet.machine import Compile


def label_of_shared(command: Compile, shared: Shared) -> Label:
    """The joined label of the variables whose values a planner is shown.

    Names, kinds and sizes of variables, and kinds of failures, count as public: they carry only a few bits.
    Field names do not; `withheld_variables` gives the variables for which they are withheld.
    """
    labels = command.labels or {}
    return join(label for name, label in labels.items() if is_shared(name, shared))


def withheld_variables(command: Compile) -> frozenset[str]:
    """The variables whose field names are withheld from a planner: untrusted or not public."""
    labels = command.labels or {}
    return frozenset(name for name, label in labels.items() if label.untrusted or not label.is_public)
