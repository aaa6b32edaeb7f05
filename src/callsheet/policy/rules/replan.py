"""REPLAN: a run is planned anew only if the policy allows it, and by default only from trusted data."""

from __future__ import annotations

from callsheet.policy.builtins import Traits
from callsheet.policy.calls import CallView, Duty, Rule
from callsheet.policy.rules.base import Check, Notes, Setting, flowing


def prepare(setting: Setting, tool: str, traits: Traits | None) -> Check | None:
    """REPLAN if the policy allows no new plan, or untrusted data would reach the planner."""
    if tool != "RE-PLAN":
        return None
    rule = setting.policy.replan

    def check(call: CallView, notes: Notes) -> None:
        if rule is None:
            notes.object(
                Rule.REPLAN,
                "the policy does not allow a new plan at run time",
                help="write all steps in the plan, or allow it in the policy: [dynamic] replan",
            )
            return
        reason = flowing(call)
        if reason.untrusted and rule.context != "any":
            notes.object(
                Rule.REPLAN,
                "the reason of the RE-PLAN contains untrusted content",
                help="write the reason in the plan, without data",
            )
        notes.oblige(Duty.VERIFY_AGAIN, call, str(reason.join(call.pc)))

    return check
