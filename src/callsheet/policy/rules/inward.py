"""ADDRESS for operators' tools: no call leads them to a cloud's metadata service, and untrusted data leads
them to nothing inside this network.
"""

from __future__ import annotations

import re

from callsheet.policy.builtins import BUILTINS, Traits
from callsheet.policy.calls import Argument, CallView, Rule
from callsheet.policy.loose_hosts import is_metadata, loose_host
from callsheet.policy.rules.addresses import inside
from callsheet.policy.rules.base import Notes, OfLabels, Setting
from callsheet.policy.rules.receivers import plain_name
from callsheet.policy.urls import MARK, authority_of

NAMES = frozenset(
    {"address", "addresses", "base_url", "domain", "endpoint", "endpoints", "host", "hostname", "hosts",
     "href", "image_url", "image_urls", "link", "links", "origin", "page", "page_url", "pages", "server",
     "site", "source_url", "start_url", "start_urls", "target", "target_url", "targets", "uri", "uris", "url",
     "urls", "webhook", "webhook_url", "website"}
)  # fmt: skip
"""Plain names of arguments that may hold an address to which a tool connects."""
_SEEN = tuple({*NAMES, *(name.replace("_", "") for name in NAMES), *(n.replace("_", "-") for n in NAMES)})
_WEB = re.compile(r"\s*(?:https?|wss?):[/\\]", re.IGNORECASE)
_HINT = "name the host in an audience of the policy if the tool may reach it"


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """ADDRESS for a tool of the operator that is given an address as one of the usual arguments."""
    if tool in BUILTINS:
        return None
    trusted = () if traits is None else traits.trusted_audience
    named = tuple(pattern for pattern in trusted if pattern != "*")

    def check(call: CallView, notes: Notes) -> None:
        for argument in _addresses(call.arguments):
            authority = authority_of(argument)
            if MARK in authority.written or _is_word(authority.written):
                continue
            host = loose_host(authority.written)
            if is_metadata(host):
                if not setting.audiences.of_web_host(host, named):
                    notes.object(
                        Rule.ADDRESS,
                        f"{host} may be the metadata service of a cloud, which gives out credentials",
                        argument.name,
                        help=_HINT,
                    )
                continue
            if not authority.chosen_by.untrusted or _WEB.match(authority.written) is None:
                continue
            is_inside = host and inside(host) is not None and not setting.audiences.of_web_host(host, trusted)
            if is_inside and not setting.is_approved(call):
                notes.object(
                    Rule.ADDRESS,
                    f"untrusted data chooses {host}, which is inside this network",
                    argument.name,
                    help=f"write the address in the plan, or {_HINT}",
                )

    return OfLabels(check, sees=_SEEN)


def _is_word(text: str) -> bool:
    """Whether a text is a single name or number, which other arguments of these names hold too."""
    return not any(mark in text for mark in ".:/\\")


def _addresses(arguments: tuple[Argument, ...]) -> list[Argument]:
    """The arguments that may hold an address by their names, also among the members of others."""
    addresses: list[Argument] = []
    for argument in arguments:
        if argument.items:
            addresses += _addresses(argument.items)
        elif plain_name(argument.name) in NAMES:
            addresses.append(argument)
    return addresses
