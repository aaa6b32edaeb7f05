"""Transports of the language server: one editor over standard input and output, or many over a port."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Event
from typing import BinaryIO

from pygls.io_ import run_async
from pygls.lsp.server import LanguageServer

LOOPBACK = "127.0.0.1"
"""The address to listen on; other machines must not reach an editor's texts."""


def reserve_stdout() -> BinaryIO:
    """Return standard output as a stream for the protocol, and redirect it for all other code.

    Other output, such as that of a Python file of tools, goes to standard error.
    """
    sys.stdout.flush()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return out


def serve_stdio(server: LanguageServer, out: BinaryIO) -> None:
    """Serve the editor that has started this process until it disconnects; `out` is the stream to it."""
    with out:
        server.start_io(sys.stdin.buffer, out)


async def serve_tcp(make: Callable[[], LanguageServer], port: int, ready: Callable[[int], None]) -> None:
    """Listen on a local port, with a server per connection; `ready` is called with the port."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = make()
        server.protocol.set_writer(writer)  # pyright: ignore[reportArgumentType] - pygls itself passes one
        with suppress(ConnectionError, asyncio.IncompleteReadError, SystemExit):
            await run_async(Event(), reader, server.protocol)
        writer.close()

    listening = await asyncio.start_server(connected, LOOPBACK, port)
    ready(int(listening.sockets[0].getsockname()[1]))
    async with listening:
        await listening.serve_forever()
