"""ADDRESS: only public addresses and those the policy trusts are fetched; the runtime guards connections."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

from callsheet.policy.addresses import AllowedHosts, host_address, is_public
from callsheet.policy.builtins import BUILTINS, Traits
from callsheet.policy.calls import Argument, CallView, Duty, Rule
from callsheet.policy.rules.base import Notes, OfLabels, Setting, of_name
from callsheet.policy.rules.receivers import plain_name
from callsheet.policy.urls import MARK, Authority, authority_of, is_metadata, loose_host

_INSIDE = (
    ".localhost", ".local", ".localdomain", ".internal", ".intranet", ".lan", ".home", ".corp", ".private",
    ".svc", ".home.arpa", ".localtest.me", ".lvh.me", ".vcap.me", ".lacolhost.com", ".test.invalid",
    ".metadata.goog", ".rbndr.us", ".1u.ms",
)  # fmt: skip
_INSIDE_NAMES = frozenset(name.removeprefix(".") for name in _INSIDE)
_EMBEDDED = re.compile(
    r"(?:^|[.-])(\d{1,3})[.-](\d{1,3})[.-](\d{1,3})[.-](\d{1,3})\.(?:nip|sslip|xip|ipq)\.\w+$"
)
_HEX_EMBEDDED = re.compile(r"(?:^|[.-])([0-9a-f]{8})\.(?:nip|sslip|xip)\.\w+$")
_WHOLE_HOST = re.compile(rf"(\[[^\]{MARK}]*\]|[^:\[\]{MARK}]+):")
"""A host that is complete before a partly unknown port."""
_NUMBERS = re.compile(r"[\d.x]*\d\.[\d.]*\Z")
_BEGINNINGS = re.compile(r"\[.*|localhost\Z|0x[0-9a-fx.]*\Z", re.DOTALL)
"""Prefixes of a host that data could complete to one of this machine or network."""


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """ADDRESS for an address that is not public; an obligation to guard every connection."""
    if traits is None or traits.address is None:
        return None
    name = traits.address
    only = None if setting.policy.egress_hosts is None else AllowedHosts.parse(setting.policy.egress_hosts)
    hint = "fetch a public https:// address"
    if setting.policy.egress_hosts is not None:
        named = ", ".join(setting.policy.egress_hosts) or "none"
        hint = f"name a host that [network] hosts of the policy allows ({named}), or add this one there"

    def check(call: CallView, notes: Notes) -> None:
        argument = of_name(call, name)
        if argument is None:
            notes.object(Rule.ADDRESS, f"@{tool} has no {name}", name, help=f"name the {name} in the plan")
            return
        authority = authority_of(argument)
        refusal = _refusal(setting, authority, only)
        if refusal is not None:
            notes.object(Rule.ADDRESS, refusal, name, help=hint)
            return
        detail = (
            "untrusted content chooses the host" if authority.chosen_by.untrusted else authority.host or ""
        )
        notes.oblige(Duty.SSRF_GUARD, call, detail)

    return OfLabels(check, sees=(name,))


def _refusal(setting: Setting, authority: Authority, only: AllowedHosts | None) -> str | None:
    if authority.error is not None:
        return authority.error
    host = authority.host
    if host is None:
        if only is not None:
            return "the policy limits the hosts that may be reached, and this one is not known before the run"
        return _refusal_of_pieces(setting, authority)
    audiences = setting.audiences.of_host(host)
    if audiences and authority.chosen_by.untrusted:
        return f"untrusted data chooses {host}, which the policy trusts"
    if audiences:
        return None
    if only is not None and not only.allow_name(host) and not _in_network(only, host):
        return f"{host} is not among the hosts that the policy allows"
    return inside(host)


def _in_network(allowed: AllowedHosts, host: str) -> bool:
    address = host_address(host)
    return address is not None and allowed.allow_network(address)


@lru_cache(maxsize=1_024)
def inside(host: str) -> str | None:
    """Why a host is certainly not on the public internet, by its name alone; None if it may be.

    >>> inside("example.org"), inside("localhost")
    (None, 'localhost is a local name')
    """
    address = host_address(host)
    if address is not None:
        return None if is_public(address) else f"{host} is not a public address"
    if host in _INSIDE_NAMES or host.endswith(_INSIDE) or "." not in host:
        return f"{host} is a local name"
    embedded = _EMBEDDED.search(host)
    if embedded is not None and not _public_text(".".join(embedded.groups())):
        return f"{host} contains an address that is not public"
    in_hex = _HEX_EMBEDDED.search(host)
    if in_hex is not None and not is_public(ipaddress.IPv4Address(int(in_hex[1], 16))):
        return f"{host} contains an address that is not public"
    return None


def _public_text(text: str) -> bool:
    address = host_address(text)
    return address is not None and is_public(address)


def _chosen_among_trusted(setting: Setting, authority: Authority, tail: str) -> bool:
    """Whether untrusted data chooses a trusted host, including the bare suffix if the data is empty."""
    of_host = setting.audiences.of_host
    return authority.chosen_by.untrusted and bool(of_host(f"x{tail}") or of_host(tail.removeprefix(".")))


def _refusal_of_pieces(setting: Setting, authority: Authority) -> str | None:
    """The objection to a partly known host that looks like an internal one."""
    _, _, rest = authority.written.partition("://")
    whole = _WHOLE_HOST.match(rest if MARK in rest else f"{rest}:")
    if whole is not None and (refusal := inside(whole[1].lower().strip("[]").rstrip("."))) is not None:
        return refusal
    before, _, after = rest.rpartition(MARK)
    tail = re.split(r":\d*\Z", after)[0].lower().rstrip(".")
    if MARK in rest and "." in tail:
        if inside(f"x{tail}") is not None:
            return f"hosts that end in {tail} are on the local network"
        if _chosen_among_trusted(setting, authority, tail):
            return f"untrusted data chooses among the hosts that end in {tail}, which the policy trusts"
    head = before.replace(MARK, "1")
    if "@" in rest or "\\" in rest:
        return "an address with a user name in it is refused"
    if _NUMBERS.match(head) or _BEGINNINGS.match(head.lower()):
        guess = head.rstrip(".") + ".1" * max(0, 3 - head.rstrip(".").count("."))
        if not _public_text(guess):
            return "the host begins with an address that is not public"
    return None


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


def prepare_inward(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
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
