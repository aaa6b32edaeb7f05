"""What decides what is done — a path, a command, code, a recipient — is chosen by no stranger."""

from __future__ import annotations

from callsheet.policy.builtins import Traits
from callsheet.policy.calls import CallView, Rule
from callsheet.policy.model import When
from callsheet.policy.rules.base import Notes, OfLabels, Setting, controlling


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """CONTROL for each control argument that untrusted data has a part in, unless somebody has said yes.

    An agent chooses paths itself, and code for the sandbox: for that its tools are given to it.
    """
    if traits is None or not traits.control:
        return None
    held = traits
    given_to_agents = traits.runs_code or (traits.path is not None and not traits.on_host)

    def check(call: CallView, notes: Notes) -> None:
        if call.in_agent and given_to_agents:
            return
        for argument in controlling(call, held):
            if not argument.label.untrusted or setting.is_approved(call):
                continue
            if held.approval is When.IF_UNTRUSTED_OR_OUTSIDE:
                notes.ask(f"untrusted data decides {argument.name} of @{tool}")
                continue
            notes.object(
                Rule.CONTROL,
                f"untrusted data decides {argument.name} of @{tool}",
                argument.name,
                help="hand data to a program on stdin, not in its code"
                if held.runs_code
                else "write it in the plan, or let somebody approve the step",
            )

    return OfLabels(check)
