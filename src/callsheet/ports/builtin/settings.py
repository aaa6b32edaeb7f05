"""The operator's settings of the built-in tools: folders, limits, providers, permissions.

The defaults are the restrictive choice. Settings that cannot be used are refused when the tools are
assembled, not during a run.
"""

from __future__ import annotations

import os
from dataclasses import field
from pathlib import Path
from typing import Literal

from callsheet import lazy
from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import check_fields
from callsheet.lazy import dataclass

_NAMESPACE = lazy.pattern(r"[a-z0-9][a-z0-9._-]{0,63}\Z")
KEY_VARIABLES = {"brave": "BRAVE_API_KEY", "tavily": "TAVILY_API_KEY"}
"""The environment variable that holds the key of a search provider, unless another is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """How pages are fetched.

    `allow_private_hosts` lists the non-public hosts that may be reached: names (`api.internal`,
    `*.corp.example`), addresses, CIDR ranges, or `*` for everything. `timeout` is in seconds and covers a
    page with all its redirects; `max_bytes` limits the body after decompression.
    """

    allow_private_hosts: tuple[str, ...] = ()
    timeout: float = 30.0
    max_bytes: int = 5_000_000
    max_redirects: int = 5
    user_agent: str = "Mozilla/5.0 (compatible; callsheet)"

    def __post_init__(self) -> None:
        check_fields(self, positive=("timeout", "max_bytes"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """The web search service: a SearXNG instance, or Brave or Tavily with a key.

    `url` is the base URL; SearXNG needs it, the others have a default. `key_env` names the environment
    variable that holds the key; the key itself is never in the configuration.
    """

    provider: Literal["searxng", "brave", "tavily"] | None = None
    url: str | None = None
    key_env: str | None = None
    results: int = 8
    timeout: float = 20.0

    def __post_init__(self) -> None:
        check_fields(self, positive=("results", "timeout"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSettings:
    """How code is run. Times are in seconds, sizes in bytes; limits apply to each process of the program.

    `require="sandbox"` refuses to run code if the system offers no isolation; `"best-effort"` then runs it
    with resource limits only, with the rights of this process. `workspace="read"` makes the workspace the
    working folder of the code, read-only in a sandbox; otherwise code gets an empty folder of its own.
    """

    require: Literal["sandbox", "best-effort"] = "sandbox"
    network: bool = False
    workspace: Literal["hidden", "read"] = "hidden"
    timeout: float = 60.0
    cpu_seconds: int = 60
    memory_bytes: int = 1 << 30
    processes: int = 64
    file_bytes: int = 100_000_000
    scratch_bytes: int = 256_000_000
    open_files: int = 256
    output_bytes: int = 1_000_000
    allow_install: bool = False
    install_timeout: float = 300.0

    def __post_init__(self) -> None:
        check_fields(self, positive=("timeout", "cpu_seconds", "memory_bytes", "install_timeout"))


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinSettings:
    """All settings of the built-in tools.

    `workspace` is the folder that the file tools are confined to; `data` is where memory and installed
    packages are kept; `namespace` separates one user's memory from another's. `host` adds the tools that act
    on the machine itself, outside any folder or sandbox.

    Paths may be texts. Raises TypeError or ValueError, which names the setting, for a value that is none.
    """

    workspace: Path
    data: Path
    namespace: str = "default"
    fetch: FetchSettings = field(default_factory=FetchSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    execution: ExecutionSettings = field(default_factory=ExecutionSettings)
    host: bool = False
    max_read_bytes: int = 2_000_000
    max_write_bytes: int = 20_000_000
    max_matches: int = 200

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def packages(self) -> Path:
        """The folder of the packages that `@INSTALL_PKG` installed for this namespace."""
        return self.data / "packages" / self.namespace

    @property
    def memory(self) -> Path:
        """The SQLite file of facts and working memory."""
        return self.data / "memory.sqlite3"

    def check(self) -> None:
        """Raise CallsheetError (TOL101) for a setting that cannot be used."""
        if not os.path.isdir(self.workspace):
            raise _wrong(f"the workspace {self.workspace} is not a folder", "create it, or name another")
        if not _NAMESPACE.match(self.namespace):
            raise _wrong(
                f"{self.namespace!r} is not a namespace",
                "use up to 64 of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit",
            )
        from callsheet.policy.addresses import AllowedHosts  # noqa: PLC0415 - costs more than all here

        try:
            AllowedHosts.parse(self.fetch.allow_private_hosts)
        except ValueError as error:
            raise _wrong(
                str(error), "allow_private_hosts takes host names, addresses, CIDR ranges or *"
            ) from None
        _check_search(self.search)


def _check_search(search: SearchSettings) -> None:
    if search.provider == "searxng" and not search.url:
        raise _wrong("SearXNG needs the address of an instance", 'set url = "https://…" beside the provider')
    if search.url is not None and not search.url.startswith(("http://", "https://")):
        raise _wrong(f"{search.url!r} is not a web address", "write it with http:// or https://")


def _wrong(message: str, help_text: str) -> CallsheetError:
    return CallsheetError.single("TOL101", message, help=help_text)
