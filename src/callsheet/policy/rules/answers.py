"""ANSWER: what is shown to the user leaks no private data through links, images or addresses."""

from __future__ import annotations

from callsheet.ir.labels import Label
from callsheet.policy.builtins import ANSWERS, Traits
from callsheet.policy.calls import Argument, CallView, Duty, Hole, Part, Rule
from callsheet.policy.links import carries_data, hosts_named, images
from callsheet.policy.markup import is_active
from callsheet.policy.rules.base import Check, Notes, Setting, is_nameless, leaves, own_texts, texts


def prepare(setting: Setting, tool: str, traits: Traits | None) -> Check | None:
    """ANSWER for private data in an address, or an image whose presence reveals private data."""
    if tool not in ANSWERS:
        return None

    def check(call: CallView, notes: Notes) -> None:
        if links_data(setting, call):
            notes.object(
                Rule.ANSWER,
                f"{tool} would put private data into the address of a link or an image",
                help="show the data separately from the link",
            )
            return
        if _reads_what_is_shown(setting, call):
            notes.object(
                Rule.ANSWER,
                f"{tool} would show private data beside a script, a form or a page that can send it away",
                help="leave the script, the form or the page out, or show the data without it",
            )
            return
        if links_data(setting, call, is_strict=True):
            notes.oblige(Duty.VERIFY_AGAIN, call, "adjacent fields must not form an address")
        if any(argument.label.is_retold for argument in call.arguments):
            notes.oblige(Duty.VERIFY_AGAIN, call, "links that may come from untrusted content are defanged")
        if not call.pc.is_public and leaks_through_image(setting, call):
            notes.object(
                Rule.ANSWER,
                f"{tool} would show an external image depending on private data",
                help="show it unconditionally, or answer with text",
            )

    return check


def links_data(setting: Setting, call: CallView, *, is_strict: bool = False) -> bool:
    """Whether the call's text contains an address with data that its host may not read."""
    planner = setting.policy.planner
    if planner.is_public and all(argument.label.is_public for argument in call.arguments):
        return False

    def may_have(host: str | None, hole: Hole | None) -> bool:
        label = planner if hole is None else hole.label
        return host is not None and label.may_reach(setting.audiences.of_host(host))

    return carries_data(parts_of(call), may_have, planner.is_public, is_strict=is_strict)


def parts_of(call: CallView) -> list[Part]:
    """The text that is shown: the values separated by blanks, or by line ends if they are named."""
    parts: list[Part] = []
    for argument in call.arguments:
        if parts:
            parts.append(" " if is_nameless(argument) else "\n")
        for leaf in leaves(argument):
            parts.extend(leaf.parts)
            if leaf is not argument and not _is_open(leaf):
                parts.append(" ")
    return parts


def _is_open(member: Argument) -> bool:
    """Whether a list member ends like an address that continues; programs read past its closing quote."""
    end = member.parts[-1] if member.parts else ""
    return isinstance(end, str) and end.endswith(("=", "?", "&", "#"))


def _reads_what_is_shown(setting: Setting, call: CallView) -> bool:
    """Whether the plan itself puts active markup beside private data."""
    if setting.policy.planner.is_public and all(argument.label.is_public for argument in call.arguments):
        return False
    return is_active(" ".join(text for argument in call.arguments for text in own_texts(argument)))


def leaks_through_image(setting: Setting, call: CallView) -> bool:
    """Whether the call's text loads an image from a host that may not learn what controls the call."""
    text = " ".join(text for argument in call.arguments for text in texts(argument))
    return images(text) and leads_outside(setting, text, call.pc)


def leads_outside(setting: Setting, text: str, label: Label) -> bool:
    """Whether a text names a host that may not read data of this label."""
    return any(
        host is None or not label.may_reach(setting.audiences.of_host(host)) for host in hosts_named(text)
    )
