"""Judges HTTP redirects against the policy and an agent's argument patterns.

In: a call, the address that answered, the address it redirects to. Out: an objection, or None. That an
address is public is checked elsewhere, by the SSRF guard on every hop.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from callsheet.policy.addresses import AddressRefused, AllowedHosts, host_address, parse_url
from callsheet.policy.audiences import Audiences
from callsheet.policy.builtins import BUILTINS, fold
from callsheet.policy.constraints import Arguments, objection_to
from callsheet.policy.model import Policy


class RedirectRules:
    """The policy's rules for redirects."""

    def __init__(self, policy: Policy) -> None:
        hosts = policy.egress_hosts
        self._only = None if hosts is None else AllowedHosts.parse(hosts)
        self._audiences = Audiences(policy.audiences)
        self.objection = lru_cache(maxsize=256)(self._objection)

    def _objection(self, before: str, after: str) -> str | None:
        """The objection to a redirect from one address to another, or None."""
        try:
            host_before, host_after = parse_url(before).host, parse_url(after).host
        except AddressRefused as error:
            return str(error)
        trusted = self._audiences.of_host(host_after)
        if trusted and not trusted & self._audiences.of_host(host_before):
            return f"{host_before} leads to {host_after}, which the policy trusts"
        if self._only is None or trusted or self._only.allow_name(host_after):
            return None
        address = host_address(host_after)
        if address is not None and self._only.allow_network(address):
            return None
        return f"{host_after} is not among the hosts that the policy allows"


def beyond(arguments: Arguments, tool: str, args: Mapping[str, Any], after: str) -> str | None:
    """The objection of an agent's argument patterns to a redirect, or None.

    >>> beyond({"FETCH_PAGE": {"url": ("https://docs.example/*",)}}, "FETCH_PAGE", {}, "https://evil.example/")
    'url must be https://docs.example/*'
    """
    traits = BUILTINS.get(fold(tool))
    if traits is None or traits.address is None:
        return None
    others = {name: value for name, value in args.items() if name.casefold() != traits.address}
    return objection_to(arguments, tool, {**others, traits.address: after})
