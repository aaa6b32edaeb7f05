"""FLOW and IMPLICIT: a call's arguments, and the fact that it is made, reach only permitted readers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from callsheet.ir.labels import LINKS, LITERAL, USER, Label
from callsheet.policy.builtins import ANSWERS, Reach, Traits
from callsheet.policy.calls import Argument, CallView, Rule
from callsheet.policy.model import When
from callsheet.policy.rules.base import (
    Notes,
    OfLabels,
    Setting,
    flowing,
    is_nameless,
    leaves,
    shown,
)
from callsheet.policy.rules.receivers import ALWAYS, PROSE, Receiver, plain_texts, receivers

_OUT_OF_LINKS = (
    "a step combined private data with an address, and may have put the data into the address: leave the "
    "address "
    "out of that step and show both separately; a tool whose results repeat none of its arguments has "
    "`no_echo = true` in the policy"
)


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """FLOW for arguments that would reach a non-reader, IMPLICIT if making the call would reveal private
    data.
    """
    if traits is None:
        traits = Traits(reach=Reach.WORLD)
    if traits.reach is Reach.NOBODY:
        return None
    known_traits = traits
    fixed = ALWAYS.get(traits.reach)

    def check(call: CallView, notes: Notes) -> None:
        data = flowing(call)
        if data.is_public and call.pc.is_public:
            return
        named = list(receivers(setting, known_traits, call)) if fixed is None else [fixed]
        if known_traits.approval is not When.NEVER and not data.is_secret and not call.pc.is_secret:
            if not setting.is_approved(call):
                _ask(tool, call, data, named, notes)
            return
        for who, audiences in named:
            if not data.may_reach(audiences):
                _flow(tool, call, who, audiences, notes)
                return
            if not call.pc.may_reach(audiences):
                notes.object(
                    Rule.IMPLICIT,
                    f"whether {_called(tool)} is called tells {who} about {shown(call.pc)}",
                    help="decide by public data, or call it unconditionally",
                )
                return

    if fixed is not None:
        return OfLabels(check)
    if traits.reach is not Reach.RECIPIENT:  # else the arguments name the receivers
        return OfLabels(check, private=False)
    audience = traits.audience or ""
    prose = PROSE - {audience.casefold()}
    return OfLabels(check, prose=prose, plain=partial(plain_texts, audience))


def _ask(tool: str, call: CallView, data: Label, named: Sequence[Receiver], notes: Notes) -> None:
    """Ask about everybody who would learn what they may not; nobody is left out of the question."""
    told = [(who, audiences) for who, audiences in named if not data.may_reach(audiences)]
    if told:
        (first, audiences), everybody = told[0], _listed([who for who, _ in told])
        guilty, label = _guilty(call, audiences)
        only_user = label.readers is not None and label.readers <= {USER, LINKS}
        what = "data that only the user may read" if only_user else shown(label)
        why = f"@{tool} sends {what} to {everybody}"
        notes.ask(why, Rule.FLOW, guilty.name, reaches=first, audiences=audiences)
        return
    guessing = [who for who, audiences in named if not call.pc.may_reach(audiences)]
    if guessing:
        why = f"whether {_called(tool)} is called tells {_listed(guessing)} about {shown(call.pc)}"
        notes.ask(why, Rule.IMPLICIT)


_MOST_LISTED = 20


def _listed(names: Sequence[str]) -> str:
    several = list(dict.fromkeys(names))
    more = len(several) - _MOST_LISTED
    shown_names = ", ".join(several[:_MOST_LISTED])
    return f"{shown_names} and {more} more" if more > 0 else shown_names


def _flow(tool: str, call: CallView, who: str, audiences: frozenset[str], notes: Notes) -> None:
    guilty, label = _guilty(call, audiences)
    what = shown(label)
    is_answer = tool in ANSWERS and not label.is_secret
    notes.object(
        Rule.ANSWER if is_answer else Rule.FLOW,
        f"{what} in {_place(guilty)} of {_called(tool)} would reach {who}",
        guilty.name,
        help=_OUT_OF_LINKS
        if is_answer
        else "send public data, or send it to a host or address that the policy trusts",
        reaches=who,
        audiences=audiences,
    )


def _guilty(call: CallView, audiences: frozenset[str]) -> tuple[Argument, Label]:
    """The argument because of which the data of a call may not reach a receiver, and the label of that data.

    Each argument may reach it while all of them together may not: an audience has to be among the readers of
    every one. Then it is the first argument that leaves no common reader, with the join up to it.
    """
    for argument in call.arguments:
        if not argument.label.may_reach(audiences):
            return argument, argument.label
    joined = LITERAL
    for argument in call.arguments:
        joined = joined.join(argument.label)
        if not joined.may_reach(audiences):
            return argument, joined
    raise AssertionError("the data of the call may reach the receiver")


def _place(argument: Argument) -> str:
    parts = (part for leaf in leaves(argument) for part in leaf.parts)
    holes = [part.name for part in parts if not isinstance(part, str) and part.name]
    name = "the text" if is_nameless(argument) else argument.name
    return f"{name} (${', $'.join(dict.fromkeys(holes))})" if holes else name


def _called(tool: str) -> str:
    return tool if tool in ("TERMINATE", "RE-PLAN") else f"@{tool}"
