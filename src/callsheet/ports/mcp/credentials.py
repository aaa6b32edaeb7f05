"""Lists the credentials in the configuration of servers, so that they can be masked elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from callsheet.ports.mcp.servers import HttpServer, McpServerConfig, StdioServer
from callsheet.sealing.configured import configured, in_address, in_arguments, in_environment, in_headers
from callsheet.sealing.masking import Finder
from callsheet.sealing.shapes import Shapes


def credentials_of(configs: Iterable[McpServerConfig]) -> Iterator[str]:
    """The credentials in environments, arguments, headers and URLs of these servers."""
    for config in configs:
        yield from _credentials(config.transport)


def _credentials(transport: StdioServer | HttpServer) -> Iterator[str]:
    if isinstance(transport, HttpServer):
        yield from in_headers(transport.headers)
        yield from in_address(transport.url)
    else:
        yield from in_environment(transport.env)
        yield from in_arguments(transport.args)


def finder_for(transport: StdioServer | HttpServer, secrets: Iterable[str] = ()) -> Finder:
    """A finder for a server's credentials, the `secrets` of its login, and credential patterns."""
    return Finder(configured((*_credentials(transport), *secrets)), Shapes())
