"""A message carries no private data on: in no link and no address that its reader's program opens.

In: a call of a tool that sends messages. Out: what speaks against it, and which of its arguments are read by
whoever gets it.
"""

from __future__ import annotations

from callsheet.policy.builtins import BUILTINS, Reach, Traits
from callsheet.policy.calls import CallView, Duty, Rule
from callsheet.policy.rules.answers import links_data
from callsheet.policy.rules.base import Notes, OfLabels, Setting
from callsheet.policy.rules.receivers import in_bodies, names_recipients, plain_name


def is_message(tool: str, traits: Traits | None) -> bool:
    """Whether a tool sends messages to those whom an argument names."""
    return traits is not None and tool not in BUILTINS and traits.reach is Reach.RECIPIENT


def read_in(traits: Traits, call: CallView) -> frozenset[str]:
    """The arguments of a message that whoever gets it reads; none of a request, which a program gets.

    >>> from callsheet.policy.calls import Argument
    >>> mail = Traits(reach=Reach.RECIPIENT, audience="to")
    >>> call = CallView("S1", "MAIL", (Argument("to", ("ada@c.example",)), Argument("body", ("Hello",))))
    >>> read_in(mail, call)
    frozenset({'body'})
    """
    if in_bodies(traits, call):
        return frozenset()
    own = plain_name(traits.audience or "")
    return frozenset(
        argument.name
        for argument in call.arguments
        if plain_name(argument.name) != own and not names_recipients(argument, traits.audience)
    )


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
        if any(argument.label.may_link for argument in call.arguments):
            notes.oblige(Duty.VERIFY_AGAIN, call, "links that strangers may have asked for are taken apart")
        if any(links_data(setting, call._replace(arguments=(one,))) for one in call.arguments):
            notes.object(
                Rule.FLOW,
                f"@{tool} would put private data into the address of a link or an image",
                help="show the data beside the link",
                reaches="the host of the address",
            )

    return OfLabels(check)
