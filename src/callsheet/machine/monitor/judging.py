"""Judges a call by the policy's rules: admitted, admitted after an approval, or refused.

In: a call whose arguments have labels, and the steps that its data came from. Out: an `Admitted`, or
RefusedByPolicy with the flow of its data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from callsheet.ir import JSON
from callsheet.ir.labels import LITERAL
from callsheet.machine.monitor.admitted import NOTHING_SHOWN, Admitted, Origins
from callsheet.machine.monitor.origins import NONE, Extended, merged
from callsheet.machine.monitor.refusal import objected
from callsheet.machine.monitor.variable_labels import VariableLabels
from callsheet.policy.calls import Argument, CallView, Judgement, bare
from callsheet.policy.judge import Judge


class Judging:
    """Judges calls by one set of rules; `variables` knows where variables come from."""

    __slots__ = ("_variables", "extended", "judge")

    def __init__(self, judge: Callable[[CallView], Judgement], variables: VariableLabels) -> None:
        self.judge = judge
        self._variables = variables
        self.extended = Extended()

    def admitted(self, call: CallView, origins: Origins, *, is_asked: bool) -> Admitted:
        """Judge a call; `is_asked` says that a person is asked before it anyway. Raises RefusedByPolicy."""
        pc, arguments = call.pc, call.arguments
        judgement = self.judge(call)
        if judgement.objections:
            raise objected(call, judgement.objections[0], origins)
        if judgement.approvals and not is_asked:
            approved = self.judge(call._replace(approved=True))
            if approved.objections:  # an approval would not help
                raise objected(call, approved.objections[0], origins)
        sent = pc
        for argument in arguments:
            if argument.label is not sent:
                sent = sent.join(argument.label)
        if judgement.links:
            sent = Judge.unshown(sent)
        result = judgement.result
        if pc is not LITERAL:
            result = result.join(pc)
        made_by = self.extended.extend(origins, call.step)
        if not (is_asked or judgement.approvals):
            return bare(Admitted, (result, sent, made_by, (), NOTHING_SHOWN))
        return Admitted(result, sent, made_by, judgement.approvals, self._shown(arguments, origins))

    def judge_shown(self, call: CallView, origins: Origins) -> None:
        """Judge a text for the person who runs the plan; raises RefusedByPolicy."""
        for objection in self.judge(call).objections:
            raise objected(call, objection, origins)

    def _shown(self, arguments: tuple[Argument, ...], origins: Origins) -> dict[str, JSON]:
        """What a person who approves is told of the arguments with labels."""
        labels: dict[str, JSON] = {}
        for argument in arguments:
            if argument.label != LITERAL:
                steps: JSON = [*self._origins_of(argument, origins)]
                labels[argument.name] = {"label": str(argument.label), "from": steps}
        return labels

    def _origins_of(self, argument: Argument, origins: Origins) -> Origins:
        all_origins: Origins = NONE
        for hole in _holes(argument):
            of_hole = self._variables.origins_of(hole.partition(".")[0])
            all_origins = origins if of_hole is None else merged(all_origins, of_hole)
        return all_origins


def _holes(argument: Argument) -> Iterable[str]:
    for part in argument.parts:
        if not isinstance(part, str):
            yield part.name
    for item in argument.items:
        yield from _holes(item)
