"""CONSEQUENTIAL: destructive calls need approval, and untrusted data must not control them."""

from __future__ import annotations

from callsheet.policy.builtins import Traits
from callsheet.policy.calls import CallView, Rule
from callsheet.policy.model import When
from callsheet.policy.rules.base import Notes, OfLabels, Setting


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """Require approval; CONSEQUENTIAL if untrusted data controls a destructive call, approved or not."""
    if traits is None and setting.policy.refuse_unknown_tools:
        return None
    is_destructive = traits is None or traits.destructive
    always = traits is not None and traits.approval is When.ALWAYS
    if not is_destructive and not always:
        return None

    def check(call: CallView, notes: Notes) -> None:
        if is_destructive and call.pc.untrusted:
            notes.object(
                Rule.CONSEQUENTIAL,
                f"untrusted data decides whether @{tool} is called, which cannot be undone",
                help="decide by trusted data, or ask a person first",
            )
        if not setting.is_approved(call):
            notes.ask(
                f"the policy has no entry for @{tool}, so it may do anything"
                if traits is None
                else f"@{tool} cannot be undone"
                if is_destructive
                else f"the policy requires approval for @{tool}"
            )

    return OfLabels(check)
