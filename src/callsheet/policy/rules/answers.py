"""ANSWER: what is shown to the user leaks no private data through links, images or addresses."""

from __future__ import annotations

from json import dumps

from callsheet.ir.labels import Label
from callsheet.policy.builtins import ANSWERS, BUILTINS, Reach, Traits
from callsheet.policy.calls import Argument, CallView, Duty, Hole, Part, Rule
from callsheet.policy.links import PERHAPS, carries_data, hosts_named, images, is_active
from callsheet.policy.rules.base import (
    Check,
    Notes,
    OfLabels,
    OfTexts,
    Setting,
    is_nameless,
    own_texts,
    pairs,
    texts,
)
from callsheet.policy.rules.receivers import in_bodies, names_recipients, plain_name


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


def links_data(setting: Setting, call: CallView, *, is_strict: bool = False, gap: str | None = None) -> bool:
    """Whether the call's text contains an address with data that its host may not read.

    `gap` is as for `parts_of`.
    """
    planner = setting.policy.planner
    if planner.is_public and all(argument.label.is_public for argument in call.arguments):
        return False

    def may_have(host: str | None, hole: Hole | None) -> bool:
        label = planner if hole is None else hole.label
        return host is not None and label.may_reach(setting.audiences.of_host(host))

    if call.tool == "ASK_HUMAN":
        gap = ""  # a question is shown as it is
    return carries_data(parts_of(call, gap), may_have, planner.is_public, is_strict=is_strict)


def parts_of(call: CallView, gap: str | None = None) -> list[Part]:
    """The text that is shown: the values separated by blanks, or by line ends if they are named.

    Lists and dicts are shown as JSON, with a `gap` behind each comma and colon. By default it is a blank, but
    nothing behind a text of the plan that ends like an address that continues.

    >>> address, data = Argument("0", ("https://c.example/?q=",)), Argument("0", ("x",))
    >>> call = CallView("S1", "RESPOND", (Argument("0", (), items=(data, address, data)),))
    >>> "".join(map(str, parts_of(call))).replace(PERHAPS, '"')
    '["x", "https://c.example/?q=","x"]'
    """
    parts: list[Part] = []
    for argument in call.arguments:
        if parts:
            parts.append(" " if is_nameless(argument) else "\n")
        if not argument.items:
            parts.extend(argument.parts)
            continue
        _Json(parts, gap).add(argument)
    return parts


class _Json:
    """Writes a list or dict as JSON, with marks for the quotes that only texts have."""

    def __init__(self, parts: list[Part], gap: str | None) -> None:
        self._parts = parts
        self._gap = " " if gap is None else gap
        self._closes_up = gap is None

    def add(self, argument: Argument) -> None:
        """Write an argument with all its members."""
        if not argument.items:
            self._parts.append(PERHAPS)
            self._parts.extend([_escaped(part) for part in argument.parts])
            if self._closes_up and _is_open(argument):
                self._gap = ""
            self._parts.append(PERHAPS)
            return
        is_dict = pairs(argument) is not None
        self._parts.append("{" if is_dict else "[")
        for number, member in enumerate(argument.items):
            if number:
                self._parts.append((":" if is_dict and number % 2 else ",") + self._gap)
            self.add(member)
        self._parts.append("}" if is_dict else "]")


def _escaped(part: Part) -> Part:
    """A part of a text as JSON writes it."""
    if isinstance(part, str):
        return dumps(part, ensure_ascii=False)[1:-1]
    return part if part.text is None else part._replace(text=dumps(part.text, ensure_ascii=False)[1:-1])


def _is_open(member: Argument) -> bool:
    """Whether a member ends like an address that continues; programs read past its closing quote."""
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


def prepare_messages(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
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


def prepare_images(setting: Setting, tool: str, traits: Traits | None) -> OfTexts | None:
    """FLOW for an image in a privately controlled message; public data may contain one too."""
    if traits is None or not is_message(tool, traits):
        return None
    known_traits = traits

    def check(call: CallView, notes: Notes) -> None:
        if not call.pc.is_public and not in_bodies(known_traits, call) and leaks_through_image(setting, call):
            notes.object(
                Rule.FLOW,
                f"@{tool} would show an external image depending on private data",
                help="show it unconditionally, or answer with text",
                reaches="the host of the image",
            )

    def clears(text: str) -> bool:
        return not images(text)

    return OfTexts(check, clears)
