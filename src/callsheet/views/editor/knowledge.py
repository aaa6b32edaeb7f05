"""Data about a plan that is not in its text, for editor features: tools, labels under a policy, the schedule.

In: whatever a face could find out; all of it may be missing. Out: one value for the functions of this folder.
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
    """Tools by the names under which plans call them; labels and schedules by the ids of steps.

    `policy` is the name of the policy under which the labels hold, empty where there is none.
    """

    tools: Mapping[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    labels: Mapping[str, StepLabels] = field(default_factory=dict[str, StepLabels])
    schedule: Mapping[str, StepSchedule] = field(default_factory=dict[str, StepSchedule])
    policy: str = ""

    def read_label(self, step: str, variable: str) -> Label | None:
        """The label of a variable where a step reads it."""
        known = self.labels.get(step)
        return None if known is None else dict(known.reads).get(variable)

    def result_label(self, step: str) -> Label | None:
        """The label of what a step gives."""
        known = self.labels.get(step)
        return None if known is None else known.result


NOTHING = Knowledge()
"""Nothing is known but the text."""
