"""FLOW for messages: no link or image that the reader's program opens may leak private data.

In: a call of a tool that sends messages. Out: objections, and which arguments the recipients read.
"""

from __future__ import annotations

from callsheet.policy.builtins import BUILTINS, Reach, Traits
from callsheet.policy.calls import CallView, Duty, Rule
from callsheet.policy.rules.answers import links_data
from callsheet.policy.rules.base import Notes, OfLabels, Setting
from callsheet.policy.rules.receivers import in_bodies, names_recipients, plain_name


def is_message(tool: str, traits: Traits | None) -> bool:
    """Whether a tool sends messages to recipients named in an argument."""
    return traits is not None and tool not in BUILTINS and traits.reach is Reach.RECIPIENT


def read_in(traits: Traits, call: CallView) -> frozenset[str]:
    """The arguments that a message's recipients read; none for a web request, which a program receives.

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

    Values that stand apart (see `separation`) are never part of such an address.
    """
    if traits is None or not is_message(tool, traits):
        return None
    known_traits = traits

    def check(call: CallView, notes: Notes) -> None:
        if in_bodies(known_traits, call):
            return  # a web request: nobody reads it who would follow links
        if any(argument.label.may_link for argument in call.arguments):
            notes.oblige(Duty.VERIFY_AGAIN, call, "links that may come from untrusted content are defanged")
        if any(links_data(setting, call._replace(arguments=(one,))) for one in call.arguments):
            notes.object(
                Rule.FLOW,
                f"@{tool} would put private data into the address of a link or an image",
                help="show the data separately from the link",
                reaches="the host of the address",
            )

    return OfLabels(check)
