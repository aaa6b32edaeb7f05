"""Data about a plan that is not in its text, for editor features: tools, labels under a policy, the schedule.

In: whatever the caller knows; all of it may be missing. Out: one value for the functions of this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from callsheet.ir.labels import Label
from callsheet.machine.ahead.waits import StepSchedule
from callsheet.passes.verify import StepLabels
from callsheet.ports.tools import ToolSpec


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Tools by canonical name; labels and schedules by step id.

    `policy` is the name of the policy of the labels, empty without one.
    """

    tools: Mapping[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    labels: Mapping[str, StepLabels] = field(default_factory=dict[str, StepLabels])
    schedule: Mapping[str, StepSchedule] = field(default_factory=dict[str, StepSchedule])
    policy: str = ""

    def read_label(self, step: str, variable: str) -> Label | None:
        """Returns the label of a variable that a step reads, or None if it is unknown."""
        known = self.labels.get(step)
        return None if known is None else dict(known.reads).get(variable)

    def result_label(self, step: str) -> Label | None:
        """Returns the label of a step's result, or None if it is unknown."""
        known = self.labels.get(step)
        return None if known is None else known.result


NOTHING = Knowledge()
"""No knowledge besides the text."""
