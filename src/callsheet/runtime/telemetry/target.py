"""The collector to send telemetry to: an address, and headers whose values come from the environment.

In: a user's settings. Out: a `Target`, or CallsheetError (TRC003, TRC004).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from types import MappingProxyType
from urllib.parse import urlsplit

from callsheet import lazy
from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import check_fields, wanted
from callsheet.lazy import dataclass

_HEADER = lazy.pattern(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_FROM_ENVIRONMENT = "env:"
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class OtelSettings:
    """The table `[otel]` of the configuration: the collector to which runs are sent while they go on.

    `url` is its address, empty for none. Each value of `headers` is `env:VARIABLE`. With `content`,
    arguments, results and error texts are sent too. Raises ValueError for invalid settings. It names
    variables and holds no secret, so it may be stored in a journal.
    """

    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        try:
            if self.url:
                checked_url(self.url)
            for name, value in self.headers.items():
                checked_header(name, value)
        except CallsheetError as error:
            raise ValueError(error.diagnostics[0].message) from error

    def target(self) -> Target | None:
        """The collector, None if there is none; raises CallsheetError (TRC004) if a variable is not set."""
        return target_of(self.url, self.headers) if self.url else None


class Signal(StrEnum):
    """The OTLP signals, each with an endpoint of its own."""

    TRACES = "traces"
    METRICS = "metrics"
    LOGS = "logs"


@dataclass(frozen=True, slots=True)
class Target:
    """A collector: its address without `/v1/traces`, and headers, whose values no message shows."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def address(self, signal: Signal) -> str:
        """The endpoint of a signal."""
        return f"{self.url}/v1/{signal}"


def target_of(url: str, headers: Mapping[str, str] = _NOTHING) -> Target:
    """The collector at an address; the headers' values are `env:VARIABLE` and are resolved now.

    Raises CallsheetError: TRC003 for an invalid address, TRC004 for a header.

    >>> target_of("http://localhost:4318/v1/traces").url
    'http://localhost:4318'
    """
    return Target(checked_url(url), {name: _value(name, value) for name, value in headers.items()})


def checked_url(url: str) -> str:
    """The address without OTLP's path suffix; raises CallsheetError (TRC003)."""
    try:
        parts = urlsplit(url.strip())
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        parts, is_good = None, False
    if parts is None or not is_good:
        raise _no_target(
            f"{url[:80]!a} is not the address of a collector", "write http://HOST:4318 or https://HOST"
        )
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        hint = "pass credentials as a header: --header authorization=env:VARIABLE"
        raise _no_target("the address of the collector contains a user name, a password or a query", hint)
    path = parts.path.rstrip("/")
    for signal in Signal:
        path = path.removesuffix(f"/v1/{signal}")
    return f"{parts.scheme}://{parts.netloc}{path}"


def headers_of(given: Iterable[str]) -> dict[str, str]:
    """The headers of `--header NAME=env:VARIABLE`, with unresolved values; raises CallsheetError (TRC004)."""
    headers: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise _no_header(f"--header {name[:40]!a} has no =")
        headers[checked_header(name, value)] = value
    return headers


def checked_header(name: str, value: str) -> str:
    """The name of a header in lower case; raises CallsheetError (TRC004)."""
    wanted(f"headers[{name!r}]", value, str, "env:VARIABLE")
    if _HEADER.fullmatch(name) is None:
        raise _no_header(f"{name[:40]!a} is not the name of a header")
    if not value.startswith(_FROM_ENVIRONMENT) or not value.removeprefix(_FROM_ENVIRONMENT):
        raise _no_header(f"the header {name} has its value on the command line, where others can read it")
    return name.lower()


def _value(name: str, value: str) -> str:
    checked_header(name, value)
    variable = value.removeprefix(_FROM_ENVIRONMENT)
    setting = os.environ.get(variable, "").strip()
    if not setting:
        raise _no_header(f"the environment variable {variable}, for the header {name}, is not set")
    if not (setting.isascii() and setting.isprintable()):
        raise _no_header(
            f"the environment variable {variable} contains characters that are not allowed in a header"
        )
    return setting


def _no_target(message: str, hint: str) -> CallsheetError:
    return CallsheetError.single("TRC003", message, help=hint)


def _no_header(message: str) -> CallsheetError:
    hint = "write NAME=env:VARIABLE, and put the value into that environment variable"
    return CallsheetError.single("TRC004", message, help=hint)
