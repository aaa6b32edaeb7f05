"""Checks the arguments of an agent's calls against the policy's patterns for addresses, paths and texts.

In: patterns by tool and argument. Out: an objection to a call, or none. Addresses are parsed as a browser
would, and paths normalised, before they are compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import unquote

from callsheet import lazy
from callsheet.policy.addresses import AddressRefused, AllowedHosts, host_address, parse_url
from callsheet.policy.audiences import Audiences
from callsheet.policy.builtins import BUILTINS, fold
from callsheet.policy.model import Policy
from callsheet.policy.paths import PathRefused, Test, any_text, host_path, matches, workspace_path

Arguments: TypeAlias = "Mapping[str, Mapping[str, tuple[str, ...]]]"
"""Patterns by tool and by argument; the value must match one of them."""


class Kind(Enum):
    """How the values of an argument are compared."""

    ADDRESS = "address"
    PATH = "path"
    HOST_PATH = "path on the host"
    TEXT = "text"


_FREE: Mapping[str, tuple[str, ...]] = MappingProxyType({})
_ADDRESS = lazy.pattern(r"(https?)://([^/?#]+)(/[^?#]*)?(\?[^#]*)?", re.IGNORECASE)
_MOST_DECODINGS = 4


def objection_to(arguments: Arguments, tool: str, args: Mapping[str, Any]) -> str | None:
    """The objection to a call's arguments; None if they match or are unrestricted.

    >>> allowed = {"FETCH_PAGE": {"url": ("https://docs.example/*",)}}
    >>> objection_to(allowed, "FETCH_PAGE", {"url": "https://docs.example/a?b=c"})
    >>> objection_to(allowed, "FETCH_PAGE", {"url": "https://docs.example@evil.example/"})
    'url must be https://docs.example/*'
    """
    for name, patterns in _of_tool(arguments, tool).items():
        summary = " or ".join(patterns)
        given = [value for key, value in args.items() if key.casefold() == name.casefold()]
        if len(given) != 1:
            return f"{name} must be given, as {summary}"
        test = _test_of(fold(tool), name, tuple(patterns))
        leaves = list(_leaves(given[0]))
        if not leaves or not all(test(leaf) for leaf in leaves):
            return f"{name} must be {summary}"
    return None


def check_pattern(tool: str, name: str, pattern: str) -> None:
    """Raise ValueError, saying what is expected, for a pattern that no value of this argument could match."""
    kind = _kind_of(fold(tool), name)
    if kind is Kind.ADDRESS:
        _address(pattern)
    elif kind in (Kind.PATH, Kind.HOST_PATH) and (".." in pattern.split("/") or "\\" in pattern):
        raise ValueError(f"a glob of normal paths such as docs/**; {pattern!r} is not one")


def constrained(arguments: Arguments, tool: str) -> Mapping[str, tuple[str, ...]]:
    """The patterns of a tool's arguments; empty if they are unrestricted."""
    return _of_tool(arguments, tool)


def _of_tool(arguments: Arguments, tool: str) -> Mapping[str, tuple[str, ...]]:
    name = fold(tool) if arguments else tool
    return next((given for key, given in arguments.items() if fold(key) == name), _FREE)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield json.dumps(value, sort_keys=True)
    elif isinstance(value, Sequence):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _leaves(item)
    else:
        yield json.dumps(value)


def _kind_of(tool: str, name: str) -> Kind:
    traits = BUILTINS.get(tool)
    if traits is None:
        return Kind.TEXT
    name = name.casefold()
    if traits.address == name:
        return Kind.ADDRESS
    if traits.path == name:
        return Kind.HOST_PATH if traits.on_host else Kind.PATH
    return Kind.TEXT


@lru_cache(maxsize=1_024)
def _test_of(tool: str, name: str, patterns: tuple[str, ...]) -> Test:
    kind = _kind_of(tool, name)
    tests = [_OF_KIND[kind](pattern) for pattern in patterns]
    return lambda text: any(test(text) for test in tests)


def _address(pattern: str) -> Test:
    """A test for addresses with one scheme, host (`*.docs.example`) and port, and a path in which `*` is any
    text.
    """
    wrong = ValueError(f"a list of addresses such as https://docs.example/*; {pattern!r} is not one")
    if "://" not in pattern:
        if not _is_known(pattern):
            raise wrong
        return lambda text: any(test(text) for test in (_address(f"{s}://{pattern}/*") for s in _SCHEMES))
    read = _ADDRESS.fullmatch(pattern)
    if read is None or "*" in read[2].removeprefix("*."):
        raise wrong
    try:
        sample = parse_url(f"{read[1]}://{read[2].removeprefix('*.')}/")
        hosts = AllowedHosts.parse(["*." + sample.host if read[2].startswith("*.") else sample.host])
    except (AddressRefused, ValueError):
        raise wrong from None
    rest = any_text((read[3] or "/") + (read[4] or ""))

    def test(text: str) -> bool:
        try:
            target = parse_url(text)
        except AddressRefused:
            return False
        if (target.scheme, target.port) != (sample.scheme, sample.port):
            return False
        is_same_host = target.host == sample.host if not hosts.suffixes else hosts.allow_name(target.host)
        return is_same_host and not _climbs(target.path) and rest(target.path)

    return test


_SCHEMES = ("http", "https")


def _is_known(pattern: str) -> bool:
    """Whether a pattern is a bare host."""
    try:
        AllowedHosts.parse([pattern])
    except ValueError:
        return False
    return pattern != "*" and "/" not in pattern


def _climbs(path: str) -> bool:
    """Whether the path of an address has a `.` or `..` component, in any encoding."""
    bare = path.partition("?")[0]
    for _ in range(_MOST_DECODINGS):
        if any(part in (".", "..") for part in bare.replace("\\", "/").split("/")):
            return True
        decoded = unquote(bare)
        if decoded == bare:
            return False
        bare = decoded
    return True


def _path(pattern: str) -> Test:
    """A test for workspace paths, both as written and decoded."""

    def test(text: str) -> bool:
        try:
            return all(
                matches(pattern, workspace_path(reading)) for reading in (text, unquote(unquote(text)))
            )
        except PathRefused:
            return False

    return test


def _host_path(pattern: str) -> Test:
    def test(text: str) -> bool:
        try:
            return matches(pattern, host_path(text))
        except PathRefused:
            return False

    return test


_OF_KIND: Mapping[Kind, Callable[[str], Test]] = {
    Kind.ADDRESS: _address,
    Kind.PATH: _path,
    Kind.HOST_PATH: _host_path,
    Kind.TEXT: any_text,
}


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
