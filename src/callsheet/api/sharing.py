"""What a planner is shown of the data of a run, as the label that all it then says has."""

from __future__ import annotations

from callsheet.authoring.shapes import Shared, is_shared
from callsheet.ir.labels import Label, join
from callsheet.machine import Compile


def label_of_shared(command: Compile, shared: Shared) -> Label:
    """The label of what a planner is told of the variables: of the values that are shared.

    Names of variables, kinds and sizes, and the kinds of failures, count as public: they are a few bits. The
    names of fields do not: `odd_of` says of which variables they are not told.
    """
    labels = command.labels or {}
    return join(label for name, label in labels.items() if is_shared(name, shared))


def odd_of(command: Compile) -> frozenset[str]:
    """The variables whose fields are not named to a planner: strangers chose them, or they are private."""
    labels = command.labels or {}
    return frozenset(name for name, label in labels.items() if label.untrusted or not label.is_public)
