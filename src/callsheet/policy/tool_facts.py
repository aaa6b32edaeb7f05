"""What the names of a tool's arguments say of it: who is told, where it connects, what decides what it does.

In: a tool's declaration. Out: `ToolFacts` for the rules of its class, and the argument that stands for the
path or address of the built-in tool of the same name. Names are the only evidence, so whoever knows better
says so in the policy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from callsheet.ir.operations import ToolClass
from callsheet.policy.builtins import BUILTINS, PROGRAMS, fold
from callsheet.policy.calls import Argument
from callsheet.policy.classes import ToolFacts
from callsheet.policy.rules.files import FILE_NAMES, TITLES
from callsheet.policy.rules.receivers import PROSE, names_recipients, plain_name

_WEB = re.compile(r"(?:.*_)?(?:endpoint|href|link|ur[il]|webhook|website)s?|host(?:name)?|domain|site")
"""Arguments that say where a tool connects."""
_TOLD = (
    "channel",
    "channels",
    "email",
    "user_email",
    "phone",
    "phone_number",
    "chat_id",
    "address",
    "room",
    "user",
)
"""Arguments that name who is told, if none has a name for recipients; the likeliest first."""
_COPIES = re.compile(r"b?cc(?:_.*)?|reply_?to(?:_.*)?|in_reply_to")
_WEIGHTY = re.compile(
    r"(?:.*_)?(?:access|account|amount|currency|iban|permissions?|price|privilege|public|quantity|role|roles|scope"
    r"|scopes|share|visibility)"
)
"""Arguments that decide who may do or see what, or how much is paid."""
_PLACES = ("path", "file_path", "filepath", "filename", "file_name", "file")
_ADDRESSES = ("url", "uri", "link", "address", "href", "page_url")


def facts_of(parameters: Sequence[str], does: ToolClass | None = None, to: str | None = None) -> ToolFacts:
    """The facts of a tool with these parameters; `to` is the argument that was declared to name who is told.

    >>> facts = facts_of(["recipients", "subject", "cc", "permission"])
    >>> facts.audience, facts.address, facts.deciding
    ('recipients', None, ('recipients', 'cc', 'permission'))
    >>> facts_of(["url"]).address, facts_of(["sql"]).programs
    ('url', ('sql',))
    """
    plain = {name: plain_name(name) for name in parameters}
    told = [name for name in parameters if names_recipients(Argument(name, ("x",)))]
    first = next((name for name in told if not _COPIES.fullmatch(plain[name])), None)
    others = (name for likely in _TOLD for name in parameters if plain[name] == likely)
    address = next((name for name in parameters if _WEB.fullmatch(plain[name])), None)
    programs = tuple(name for name in parameters if plain[name] in PROGRAMS)
    decides = {to, address, *told, *programs}
    deciding = tuple(name for name in parameters if name in decides or _is_weighty(plain[name]))
    return ToolFacts(does, to or first or next(others, None), address, deciding, programs)


def _is_weighty(plain: str) -> bool:
    return _WEIGHTY.fullmatch(plain) is not None or (plain in FILE_NAMES - TITLES - PROSE)


def place_of(tool: str, parameters: Sequence[str]) -> str | None:
    """The argument for the path or address of the built-in tool with the same name, if it has another name.

    None if the tool's name is no built-in one's, if the argument is called the same, or if there is none.

    >>> place_of("READ_FILE", ["file_path"]), place_of("READ_FILE", ["path"]), place_of("SEND", ["path"])
    ('file_path', None, None)
    """
    traits = BUILTINS.get(fold(tool))
    if traits is None or (own := traits.path or traits.address) is None:
        return None
    place = _first_of(_PLACES if traits.path else _ADDRESSES, parameters)
    return None if place == own else place


def path_among(names: Iterable[str]) -> str:
    """The argument that holds the path of a call with a built-in tool's name, by the names of its arguments.

    >>> path_among(["content", "file_path"]), path_among(["content"])
    ('file_path', 'path')
    """
    return _first_of(_PLACES, names) or "path"


def _first_of(wanted: Iterable[str], names: Iterable[str]) -> str | None:
    plain = {plain_name(name): name for name in names}
    return next((plain[name] for name in wanted if name in plain), None)
