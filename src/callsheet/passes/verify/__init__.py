"""Static verification of a plan: proves that no run of it violates a policy, whatever the data turns out to
be.

In: a plan, a policy, the labels of the run's inputs. Out: a verdict with the data flow behind each violation
and the obligations of the runtime. Nothing is executed.
"""

from callsheet.passes.verify.analysis import verify
from callsheet.passes.verify.persisted_labels import NOTHING_LEFT, PersistedLabels
from callsheet.passes.verify.subject import RunPosition, TreePosition
from callsheet.passes.verify.verdict import StepLabels, Verdict, Violation

__all__ = [
    "NOTHING_LEFT",
    "PersistedLabels",
    "RunPosition",
    "StepLabels",
    "TreePosition",
    "Verdict",
    "Violation",
    "verify",
]
