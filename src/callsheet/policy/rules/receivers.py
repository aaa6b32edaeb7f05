"""Determines who learns about a call: from its tool, the host of its address, and the recipients it names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

from callsheet.ir.labels import MODEL, TRUSTED, USER
from callsheet.policy.audiences import NOBODY_KNOWN, mail_addresses, mailbox_of
from callsheet.policy.builtins import Reach, Traits
from callsheet.policy.calls import Argument, CallView
from callsheet.policy.rules.base import Setting, is_nameless, leaves, of_name, pairs, texts
from callsheet.policy.urls import authority_of

Receiver: TypeAlias = "tuple[str, frozenset[str]]"
"""A description of somebody, and the audiences that they belong to."""

ALWAYS = MappingProxyType(
    {
        Reach.MODEL: ("the language model", frozenset({MODEL})),
        Reach.USER: ("the user", frozenset({USER})),
        Reach.MEMORY: ("the memory of later runs", frozenset({MODEL})),
        Reach.WORLD: ("outside", NOBODY_KNOWN),
    }
)
"""The receiver of every call of a tool with this reach, whatever its arguments."""

_RECIPIENTS = re.compile(
    r"(?:(?:also|copy|deliver|envelope|errors|forward|mail|redirect|reply|resend|resent|send|share)_?)?"
    r"to(?:_?(?:addr|mail|list|user).*)?"
    r"|return_path|b?cc(?:_.*)?|(?:blind_)?carbon_cop(?:y|ies)|rcpt.*|recipients?(?:_.*)?|receivers?|shared?_with|invites?"
    r"|(?:.*_)?(?:addressees?|attendees?|distribution|guests?|invitees?|mailing|participants?|recipients?|subscribers?)"
    r"(?:_?(?:addr|e?mail|list).*)?"
)
"""Arguments and headers that name recipients, besides the one named in the policy."""
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
PROSE = frozenset({"body", "content", "data", "html", "json", "message", "payload", "text"})
"""Arguments with the content to be sent, which names no recipients."""
BODIES = PROSE - {"message"}
"""Those of them that are the body of a web request."""
_WEB = re.compile(r"https?://", re.IGNORECASE)
_BEGINS_AS_ADDRESS = re.compile(r"\s*(?:[A-Za-z][A-Za-z0-9+.-]*:)?//")
_OTHER_ADDRESS = re.compile(
    r".*(?:proxy|proxies|endpoint|webhook|callback|redirect|override|referer|referrer).*"
    r"|(?:.*_)?(?:host|server|gateway|mirror|url|uri|via)s?(?:_.*)?"
)
"""Arguments of a request besides its address that may redirect it or report it elsewhere."""
_TOLD_BESIDE = re.compile(r".*(?:proxy|proxies|endpoint|webhook|callback|redirect).*")
"""Arguments of a message whose address is notified of it; other addresses are part of its content."""
_HEADERS = re.compile(r"(?:.*_)?(?:headers?|envelope)")
"""Arguments that may name recipients among other things, if their content is unknown."""
_OF_SENDERS = re.compile(
    r"from(?:_.*)?|sender(?:_.*)?|author|user(?:_?name)?|account|login|identity|on_behalf_of|signature"
    r"|in_reply_to|references|(?:.*_)?u?u?id"
)
"""Arguments whose mail addresses identify the sender or another message."""
_IS_ADDRESS = frozenset(
    {"address", "e_mail", "email", "email_address", "emailaddress", "mail", "mail_address"}
)
"""Fields of a recipient given as a dict that hold its address."""
_DESCRIBES = frozenset(
    {"comment", "display_name", "displayname", "first_name", "full_name", "is_optional", "kind", "label",
     "last_name", "name", "optional", "required", "response_status", "role", "status", "type"}
)  # fmt: skip
"""Fields of a recipient given as a dict that only describe it."""
_TELLS = frozenset({"", "false", "true"})
"""Values that never name a recipient, in any field (`"self": true`)."""
_WEB_ADDRESS = re.compile(r"(?:.*_)?(?:endpoint|href|link|ur[il]|webhook)")
"""Arguments that hold one web address, whatever its path."""
_BARE_ADDRESS = re.compile(r"(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}(?::\d{1,5})?(?:[/?#][^\s\\@]*)?")
"""A web address without its scheme, which tools complete in one way only."""
_PLACES = frozenset({"address", "endpoint", "host", "link", "uri", "url"})
_WHENCE = ("from_", "old_", "origin_", "source_")
_ANYBODY: Receiver = ("a recipient that the policy trusts", frozenset({TRUSTED}))
_UNKNOWN: Receiver = ("recipients that are not known before the run", NOBODY_KNOWN)
_LONG_NAME = 4
_LONGEST = 80
_PLAIN_WORDS = re.compile(r"[A-Za-z0-9_ ,;!?'-]*(?:[.:] [A-Za-z0-9_ ,;!?'-]*)*")
"""Words and punctuation that can neither begin nor continue an address, a tag or a header."""
_INJECTED = re.compile(r"[\r\n]\s*(?:resent-)?(?:to|b?cc|from|sender|reply-to)\s*:", re.IGNORECASE)
"""A line that a careless mailer would take for another header (header injection)."""


def receivers(setting: Setting, traits: Traits, call: CallView) -> Iterator[Receiver]:
    """Everybody who learns about the call."""
    match traits.reach:
        case Reach.NOBODY:
            return
        case Reach.ADDRESS:
            assert traits.address is not None
            argument = of_name(call, traits.address)
            yield _host_of(setting, argument)
            if len(call.arguments) > (argument is not None):
                yield from _other_hosts(setting, traits.address, call)
        case Reach.RECIPIENT:
            yield from _recipients(setting, traits, call)
        case reach:
            yield ALWAYS[reach]


def _host_of(setting: Setting, argument: Argument | None) -> Receiver:
    authority = authority_of(argument) if argument is not None else None
    if authority is None or authority.host is None:
        return "outside", NOBODY_KNOWN
    return authority.host, setting.audiences.of_host(authority.host)


def _other_hosts(setting: Setting, address: str, call: CallView) -> Iterator[Receiver]:
    """The hosts that other arguments of a request may redirect it or report it to."""
    if any(is_nameless(argument) for argument in call.arguments):
        yield "outside", NOBODY_KNOWN
    for argument in call.arguments:
        name = plain_name(argument.name)
        if name == address or name in PROSE:
            continue
        for member in _members((argument,)):
            leads = _OTHER_ADDRESS.fullmatch(plain_name(member.name)) is not None
            for leaf in () if member.items else (member,):
                if leads or _BEGINS_AS_ADDRESS.match("".join(texts(leaf))):
                    yield _host_of(setting, leaf)


def names_recipients(argument: Argument, audience: str | None = None) -> bool:
    """Whether an argument decides who gets a message; `audience` is the policy's recipients argument.

    >>> [names_recipients(Argument(name, ("x",))) for name in ("Reply-To", "guests", "subject")]
    [True, True, False]
    """
    name = plain_name(argument.name)
    if audience is not None and _is_like(name, plain_name(audience)):
        return True
    return _is_recipient(name) or _is_closed_header(argument, name)


@lru_cache(maxsize=4_096)
def _is_recipient(name: str) -> bool:
    return _RECIPIENTS.fullmatch(name) is not None


def _is_closed_header(argument: Argument, name: str) -> bool:
    return not argument.items and _HEADERS.fullmatch(name) is not None


def plain_texts(audience: str, name: str) -> Callable[[str], object] | None:
    """Which texts of an argument contain only words that are part of no address; None if each one matters.

    `audience` is the recipients argument. All such texts of another argument are treated alike by every rule.

    >>> [bool(plain_texts("to", "subject")(text)) for text in ("Number 7: done", "see c.example/7")]
    [True, False]
    >>> plain_texts("to", "cc"), plain_texts("to", "webhook")
    (None, None)
    """
    plain, own = plain_name(name), plain_name(audience)
    if name[:1].isdigit() or plain == own or _is_like(plain, own) or _is_recipient(plain):
        return None
    if _HEADERS.fullmatch(plain) or _OTHER_ADDRESS.fullmatch(plain):
        return None
    return _PLAIN_WORDS.fullmatch


def in_bodies(traits: Traits, call: CallView) -> frozenset[str]:
    """The plain names of arguments whose members name no recipients, even if a member is called `to`.

    For a web request these are its body, which goes to its host. For a message the body may be the complete
    request, including recipients, so the result is empty.

    >>> post = Traits(reach=Reach.RECIPIENT, audience="url")
    >>> call = CallView("S1", "POST", (Argument("url", ("https://c.example/",)), Argument("json", ("x",))))
    >>> "json" in in_bodies(post, call), in_bodies(post, call._replace(arguments=()))
    (True, frozenset())
    """
    argument = None if traits.audience is None else of_name(call, traits.audience)
    is_web = argument is not None and all(map(_begins_with_scheme, leaves(argument)))
    return BODIES if is_web else frozenset()


def _begins_with_scheme(leaf: Argument) -> bool:
    """Whether a value is certainly a web address, whatever data it contains."""
    first = leaf.parts[0] if leaf.parts else None
    written = leaf.text if first is None or not isinstance(first, str) else first
    return written is not None and _WEB.match(written) is not None


def _recipients(setting: Setting, traits: Traits, call: CallView) -> Iterator[Receiver]:
    assert traits.audience is not None
    own = plain_name(traits.audience)
    seen = False
    closed = in_bodies(traits, call)
    if closed:
        yield from _other_hosts(setting, own, call)
    elif any(is_nameless(argument) for argument in call.arguments):
        yield "outside", NOBODY_KNOWN
    by_mail = not closed and _is_mail_to(call, traits.audience)
    for argument in _members(call.arguments, closed, own):
        name = plain_name(argument.name)
        if not _says_who(name, own):
            yield from _told_beside(setting, name, argument)
            if by_mail and name not in PROSE and not argument.items and not _OF_SENDERS.fullmatch(name):
                yield from _by_mail(setting, traits, argument.text or "")
            continue
        is_own = argument.name.casefold() == traits.audience.casefold()
        for leaf in _named_in(argument):
            if _is_empty(leaf):
                continue
            seen = seen or is_own
            if _is_web_address(leaf, name):
                yield _by_web(setting, traits, leaf)
                continue
            is_place = _WEB_ADDRESS.fullmatch(name) is not None or _leads_to_web(leaf)
            if is_place and leaf.text is not None and _BARE_ADDRESS.fullmatch(leaf.text):
                _, readers = _by_web(setting, traits, leaf._replace(parts=("https://", *leaf.parts)))
                yield _recipient_text(leaf.text), readers
                continue
            is_chosen = traits.private_to_named and not leaf.label.untrusted and not is_place
            if leaf.text is None:
                yield _ANYBODY if is_chosen or "*" in traits.trusted_audience else _UNKNOWN
                continue
            for who, audiences in setting.audiences.of_recipients(leaf.text, traits.trusted_audience):
                yield _recipient_text(who), audiences | {TRUSTED} if is_chosen else audiences
    if not seen and not traits.private_without_audience:
        yield "recipients that the call does not name", NOBODY_KNOWN


def _is_empty(argument: Argument) -> bool:
    """Whether an argument names nobody: `cc=""`, `cc=null`, `cc=[]`."""
    return not argument.items and argument.text is not None and argument.text.strip() in ("", "[]", "{}")


def _named_in(argument: Argument) -> Iterator[Argument]:
    """Each recipient that an argument names, including those given as a dict with an address field.

    The values and names of other fields (`{"ada@c.example": "Ada"}`) count as recipients too, unless the
    field is known to describe one: `name`, `role`.

    >>> ada = (("email", "ada@c.example"), ("name", "Ada"), ("via", "x"))
    >>> items = tuple(a for key, text in ada for a in (Argument("to", (key,)), Argument(key, (text,))))
    >>> [leaf.text for leaf in _named_in(Argument("to", (), items=items))]
    ['ada@c.example', 'via', 'x']
    """
    members = pairs(argument)
    if members is None:
        if not argument.items:
            yield argument
        for item in argument.items:
            yield from _named_in(item)
        return
    keys = [plain_name(member.name) for member in members]
    named = list(zip(keys, members, strict=True))
    is_told = any(key in _IS_ADDRESS and member.text not in _TELLS for key, member in named)
    for key, member in named:
        is_address = key in _IS_ADDRESS
        if is_told and not is_address and not member.items and (key in _DESCRIBES or member.text in _TELLS):
            continue
        if not is_address:
            yield Argument(member.name, (member.name,))
        yield from _named_in(member)


def _is_web_address(leaf: Argument, name: str) -> bool:
    """Whether an argument of this plain name holds one web address with a known beginning."""
    return _WEB_ADDRESS.fullmatch(name) is not None and _begins_with_scheme(leaf)


def _leads_to_web(leaf: Argument) -> bool:
    """Whether a recipient is written like a web address, wherever it stands."""
    return _BEGINS_AS_ADDRESS.match("".join(texts(leaf))) is not None


def _by_web(setting: Setting, traits: Traits, leaf: Argument) -> Receiver:
    """The receiver behind a web address, as far as its host is known."""
    host = authority_of(leaf).host
    if host is None:
        return _UNKNOWN if leaf.text is None else (_recipient_text(leaf.text), NOBODY_KNOWN)
    audiences = setting.audiences.of_web_host(host, traits.trusted_audience)
    return host if leaf.text is None else _recipient_text(leaf.text), audiences


def _told_beside(setting: Setting, name: str, argument: Argument) -> Iterator[Receiver]:
    """Who else learns about a message through an argument of plain name `name` that names no recipient."""
    if name in PROSE:
        return
    if any(_INJECTED.search(text) for text in texts(argument)):
        yield f"whom the lines in {argument.name} name", NOBODY_KNOWN
    if argument.text is None and _is_closed_header(argument, name):
        yield f"whom {argument.name} names", NOBODY_KNOWN
    if not argument.items and _TOLD_BESIDE.fullmatch(name):
        own = "".join(texts(argument))
        if _BEGINS_AS_ADDRESS.match(own) or (argument.text is None and not own):
            yield _host_of(setting, argument)


def _is_mail_to(call: CallView, audience: str) -> bool:
    """Whether the policy's recipients argument holds mail addresses."""
    argument = of_name(call, audience)
    return argument is not None and any(leaf.text and "@" in leaf.text for leaf in leaves(argument))


def _by_mail(setting: Setting, traits: Traits, text: str) -> Iterator[Receiver]:
    """The recipients in a text that consists of mail addresses only.

    For tools that send mail, such an argument names recipients, whatever it is called.
    """
    if "@" in text and (addresses := mail_addresses(text)):
        for who, audiences in setting.audiences.of_recipients(", ".join(addresses), traits.trusted_audience):
            yield _recipient_text(who), audiences


def _says_who(name: str, own: str) -> bool:
    """Whether an argument of this plain name names recipients; `own` is the policy's recipients argument."""
    return name == own or _is_recipient(name) or _is_like(name, own)


def _is_like(name: str, own: str) -> bool:
    """Whether a name resembles that of the recipients argument: `channels`, `also_to_channel`.

    >>> _is_like("channels", "channel"), _is_like("target_repo", "repo"), _is_like("channel_name", "channel")
    (True, True, False)
    """
    base = own.removesuffix("s")
    if len(base) < _LONG_NAME or base in _PLACES:
        return False
    stem = name.removesuffix("s")
    return stem == base or (stem.endswith(f"_{base}") and not stem.startswith(_WHENCE))


def _recipient_text(who: str) -> str:
    """A recipient as one line of bounded length, since data may be in it.

    Of a mail address with a display name only the address is shown, which no long name can push out of sight.

    >>> _recipient_text('"The boss, boss@corp.example" <eve@evil.example>')
    'eve@evil.example'
    """
    line = mailbox_of(" ".join(who.split()))
    if len(line) <= _LONGEST:
        return line
    return f"{line[: _LONGEST // 2]}…{line[-_LONGEST // 2 :]}"


def _members(
    arguments: Iterable[Argument], closed: frozenset[str] = frozenset(), own: str | None = None
) -> Iterator[Argument]:
    """The arguments and all their members, since headers may name recipients too.

    Arguments in `closed` are not descended into. For dicts that describe recipients, keys are left out; `own`
    is the recipients argument.
    """
    for argument in arguments:
        yield argument
        name = plain_name(argument.name)
        if not closed or name not in closed:
            fields = pairs(argument) if own is not None and _says_who(name, own) else None
            yield from _members(argument.items if fields is None else fields, closed, own)


@lru_cache(maxsize=4_096)
def plain_name(name: str) -> str:
    """An argument name in snake case: headers use hyphens, others camel case."""
    return _HUMP.sub("_", name).casefold().replace("-", "_")
