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
"""The only address that is listened on: an editor's texts are nobody else's."""


def reserve_stdout() -> BinaryIO:
    """Standard output, which is the editor's alone from now on.

    Whatever else is printed, as by a Python file of tools, goes to standard error.
    """
    sys.stdout.flush()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return out


def serve_stdio(server: LanguageServer, out: BinaryIO) -> None:
    """Talk to the editor that has started this process, until it goes; `out` is what leads to it."""
    with out:
        server.start_io(sys.stdin.buffer, out)


async def serve_tcp(make: Callable[[], LanguageServer], port: int, ready: Callable[[int], None]) -> None:
    """Listen on a port of this machine, a server for each connection; `ready` is told the port."""

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
