"""The refusal by which a policy ends a run: the call, the rule, and the flow of its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from callsheet.ir.labels import LITERAL, MODEL, Label, join
from callsheet.machine.monitor.admitted import Origins
from callsheet.machine.program import StepCode
from callsheet.policy.calls import Argument, CallView, Objection, Rule
from callsheet.policy.rules.base import shown

_MODEL = frozenset({MODEL})
_IN_A_STEP = "remove the tool from the agent's tools, and call it in a step"


class PolicyRefusal(NamedTuple):
    """What a policy refused during a run.

    `rule` is one of `policy.calls.Rule`; `argument` is the name of the offending argument, None if it is the
    call as a whole. `label` is that of the argument, or of all arguments; `decided_by` is the label of what
    decided that the call is made. `flow` are the steps that the data came from, then the step itself. `help`
    is the suggested fix, if one is known.
    """

    step: str
    tool: str
    rule: str
    message: str
    argument: str | None = None
    label: str = ""
    decided_by: str = ""
    flow: tuple[str, ...] = ()
    help: str | None = None

    def describe(self) -> str:
        """The refusal in one line.

        >>> PolicyRefusal("S4", "SEND", "flow", "private data would reach the outside").describe()
        'the policy refuses S4 @SEND: private data would reach the outside'
        """
        return f"the policy refuses {self.step} @{self.tool}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """The refusal as JSON data."""
        return {**self._asdict(), "flow": list(self.flow)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PolicyRefusal:
        """The refusal from JSON data; raises TypeError or KeyError if it is malformed."""
        given = {**data}
        return cls(flow=tuple(given.pop("flow")), **given)


class RefusedByPolicy(Exception):
    """Unwinds the machine to `Machine.feed`, which ends the run; no part of a plan can catch it."""

    def __init__(self, refusal: PolicyRefusal) -> None:
        super().__init__(refusal.describe())
        self.refusal = refusal


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


def check_seen(code: StepCode, label: Label, origins: Origins) -> None:
    """Raise RefusedByPolicy if the result of an agent's call may not be shown to the agent's model."""
    if label.may_reach(_MODEL):
        return
    call = CallView(code.id, code.tool, (Argument("", (), label),), LITERAL, in_agent=True)
    why = f"{shown(label)} that @{code.tool} gave the agent would reach the language model"
    steps = tuple(step for step in origins if step != code.id)
    raise objected(call, Objection(Rule.FLOW, why, help=_IN_A_STEP), steps)
