"""CONTROL: untrusted data must not decide what is done: a path, a command, code, a recipient."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.policy.builtins import BUILTINS, Reach, Traits
from callsheet.policy.calls import Argument, CallView, Rule
from callsheet.policy.model import When
from callsheet.policy.rules.attachments import sends_files, surely_attached
from callsheet.policy.rules.base import Notes, OfLabels, Setting, controlling, is_nameless
from callsheet.policy.rules.receivers import in_bodies, names_recipients, plain_name


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """CONTROL for each control argument with untrusted data in it, unless the call is approved.

    An agent may choose workspace paths and sandboxed code itself; its tools were granted for that.
    """
    if traits is None or not (traits.control or sends_files(tool, traits)):
        return None
    known_traits = traits
    deciding_arguments = controlling if tool in BUILTINS else _deciding_anywhere
    given_to_agents = traits.runs_code or (traits.path is not None and not traits.on_host)

    def check(call: CallView, notes: Notes) -> None:
        if call.in_agent and given_to_agents:
            return
        for argument in deciding_arguments(call, known_traits):
            if not argument.label.untrusted or setting.is_approved(call):
                continue
            if known_traits.approval is When.IF_UNTRUSTED_OR_OUTSIDE:
                notes.ask(f"untrusted data decides {argument.name} of @{tool}")
                continue
            notes.object(
                Rule.CONTROL,
                f"untrusted data decides {argument.name} of @{tool}",
                argument.name,
                help="pass data to a program on stdin, not in its code"
                if known_traits.runs_code
                else "write it in the plan, or approve the step",
            )

    return OfLabels(check)


def _deciding_anywhere(call: CallView, traits: Traits) -> Iterator[Argument]:
    """The control arguments, also among the members of others.

    Operators' and servers' tools may take a request as one argument, `message={"to": …}`. Recipients and
    attachments are control arguments under all their usual names.
    """
    names = {name.casefold() for name in traits.control}
    closed = in_bodies(traits, call) if traits.reach is Reach.RECIPIENT else frozenset[str]()
    waiting = list(reversed(call.arguments))
    while waiting:
        argument = waiting.pop()
        is_recipient = traits.reach is Reach.RECIPIENT and names_recipients(argument, traits.audience)
        if argument.name.casefold() in names or is_recipient or (is_nameless(argument) and traits.control):
            yield argument
        elif not closed or plain_name(argument.name) not in closed:
            waiting += reversed(argument.items)
    if traits.reach in (Reach.WORLD, Reach.RECIPIENT):
        for name, path in surely_attached(call):
            if name.casefold() not in names:
                yield path._replace(name=name)
