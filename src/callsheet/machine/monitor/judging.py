"""Judges a call by the policy's rules: admitted, admitted after an approval, or refused.

In: a call whose arguments have labels, and the steps that its data came from. Out: an `Admitted`, or
RefusedByPolicy with the flow of its data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from callsheet.ir import JSON
from callsheet.ir.labels import LITERAL, MODEL, Label, join
from callsheet.machine.monitor.variable_labels import (
    NONE,
    NOTHING_SHOWN,
    Admitted,
    Extended,
    Origins,
    VariableLabels,
    merged,
)
from callsheet.machine.notes import ASKED, REFUSED
from callsheet.machine.program import StepCode
from callsheet.machine.result import PolicyRefusal, RefusedByPolicy
from callsheet.policy.calls import Argument, CallView, Judgement, Objection, Rule, bare
from callsheet.policy.judge import Judge
from callsheet.policy.limits import CallHistory, note_breaches
from callsheet.policy.rules.base import Verdicts, shown

_MODEL = frozenset({MODEL})
_IN_A_STEP = "remove the tool from the agent's tools, and call it in a step"


def objected(call: CallView, objection: Objection, origins: Origins) -> RefusedByPolicy:
    """The exception for an objection to a call whose data came from the steps `origins`."""
    argument = None if objection.argument is None else call.argument(objection.argument)
    label = join(a.label for a in call.arguments) if argument is None else argument.label
    return RefusedByPolicy(
        PolicyRefusal(
            call.step,
            call.tool,
            str(objection.rule),
            objection.message,
            objection.argument,
            str(label),
            str(call.pc),
            (*origins, call.step),
            objection.help,
        )
    )


def unseen(code: StepCode, label: Label, origins: Origins) -> RefusedByPolicy | None:
    """The refusal to show the result of an agent's call to the agent's model; None if it may be shown."""
    if label.may_reach(_MODEL):
        return None
    call = CallView(code.id, code.tool, (Argument("", (), label),), LITERAL, in_agent=True)
    why = f"{shown(label)} that @{code.tool} gave the agent would reach the language model"
    steps = tuple(step for step in origins if step != code.id)
    return objected(call, Objection(Rule.FLOW, why, help=_IN_A_STEP), steps)


def session_of(label: Label) -> Admitted:
    """The admission of a client's session, which sends nothing itself; it begins with data of a label."""
    return bare(Admitted, (label, label, NONE, (), NOTHING_SHOWN))


class Judging:
    """Judges calls by one set of rules; `variables` knows where variables come from.

    Under a policy that only observes, `observe` is told what would have been refused or asked, and the call
    is admitted.
    """

    __slots__ = ("_approved", "_variables", "extended", "history", "judge", "observe")

    def __init__(
        self,
        judge: Callable[[CallView], Judgement],
        variables: VariableLabels,
        observe: Callable[[str, str], None] | None = None,
        *,
        history: CallHistory | None = None,
        approved: frozenset[str] = frozenset(),
    ) -> None:
        self.judge = judge
        self._variables = variables
        self.extended = Extended()
        self.observe = observe
        self.history = history if history is not None and history.is_needed else None
        """The calls so far; None if the policy has no limits over them."""
        self._approved = approved

    def apply(
        self, judge: Callable[[CallView], Judgement], history: CallHistory, approved: frozenset[str]
    ) -> None:
        """Judge by another policy from now on, whose limits go on with the calls of this history."""
        self.judge, self._approved = judge, approved
        self.history = history if history.is_needed else None

    def refuse(self, refused: RefusedByPolicy) -> None:
        """Raise a refusal, or tell of it if nothing is refused."""
        if self.observe is None:
            raise refused
        self.observe(refused.refusal.step, f"{REFUSED}{refused.refusal.reason()}")

    def admitted(
        self,
        call: CallView,
        origins: Origins,
        *,
        is_asked: bool,
        origins_of: Callable[[str], Origins] | None = None,
    ) -> Admitted:
        """Judge a call; `is_asked` says that a person is asked before it anyway. Raises RefusedByPolicy.

        `origins_of` tells the origins of an argument by its name, where its variables do not tell them.
        """
        pc, arguments = call.pc, call.arguments
        judgement = self.judge(call)
        if self.history is not None:
            judgement = self._within_limits(call, judgement, self.history)
        if judgement.objections:
            self.refuse(objected(call, judgement.objections[0], origins))
            judgement = judgement._replace(approvals=())
        elif judgement.approvals and not is_asked:
            approved = self.judge(call._replace(approved=True))
            if approved.objections:  # an approval would not help
                self.refuse(objected(call, approved.objections[0], origins))
                judgement = judgement._replace(approvals=())
        if judgement.approvals and self.observe is not None:
            self.observe(call.step, f"{ASKED}@{call.tool}: {'; '.join(judgement.approvals)}")
            judgement = judgement._replace(approvals=())
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
        return Admitted(
            result, sent, made_by, judgement.approvals, self._shown(arguments, origins, origins_of)
        )

    def _within_limits(self, call: CallView, judgement: Judgement, history: CallHistory) -> Judgement:
        """The judgement with what the policy's limits say against one more call."""
        notes = Verdicts()
        is_approved = call.step in self._approved
        note_breaches(history.breaches(call), call, notes, is_approved=is_approved)
        history.add(call)
        if notes.is_empty:
            return judgement
        return judgement._replace(
            objections=(*judgement.objections, *notes.objections),
            approvals=(*judgement.approvals, *notes.approvals),
        )

    def judge_shown(self, call: CallView, origins: Origins) -> None:
        """Judge a text for the person who runs the plan; raises RefusedByPolicy."""
        for objection in self.judge(call).objections:
            self.refuse(objected(call, objection, origins))
            return

    def _shown(
        self,
        arguments: tuple[Argument, ...],
        origins: Origins,
        origins_of: Callable[[str], Origins] | None,
    ) -> dict[str, JSON]:
        """What a person who approves is told of the arguments with labels."""
        labels: dict[str, JSON] = {}
        for argument in arguments:
            if argument.label != LITERAL:
                name = argument.name
                known = self._origins_of(argument, origins) if origins_of is None else origins_of(name)
                steps: JSON = [*known]
                labels[name] = {"label": str(argument.label), "from": steps}
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
