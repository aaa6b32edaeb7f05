"""The proof before a run: no call of a plan does what a policy forbids, whatever its data turn out to be.

In: a plan, a policy, the labels of what the run is given. Out: a verdict, with the way of the data for each
violation, and what the runtime has to see to. Nothing runs.
"""

from callsheet.passes.verify.analysis import verify
from callsheet.passes.verify.left import NOTHING_LEFT, Left
from callsheet.passes.verify.standing import Standing
from callsheet.passes.verify.verdict import StepLabels, Verdict, Violation

__all__ = ["NOTHING_LEFT", "Left", "Standing", "StepLabels", "Verdict", "Violation", "verify"]
