"""A message carries no private data on: in no link and no address that its reader's program opens."""

from __future__ import annotations

from callsheet.policy.builtins import BUILTINS, Reach, Traits
from callsheet.policy.calls import CallView, Rule
from callsheet.policy.rules.answers import links_data
from callsheet.policy.rules.base import Notes, OfLabels, Setting
from callsheet.policy.rules.receivers import in_bodies


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """FLOW for private data in an address.

    What stands apart, as `stand_apart` has it, is no such address, whatever it says.
    """
    if traits is None or not is_message(tool, traits):
        return None
    held = traits

    def check(call: CallView, notes: Notes) -> None:
        if in_bodies(held, call):
            return  # a request: nobody looks at it who would follow links; else each argument is by itself
        if any(links_data(setting, call._replace(arguments=(one,))) for one in call.arguments):
            notes.object(
                Rule.FLOW,
                f"@{tool} would put private data into the address of a link or an image",
                help="show the data beside the link",
                reaches="the host of the address",
            )

    return OfLabels(check)


def is_message(tool: str, traits: Traits) -> bool:
    """Whether what a tool of the operator is given comes before somebody's eyes."""
    return tool not in BUILTINS and traits.reach is Reach.RECIPIENT
