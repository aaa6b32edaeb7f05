"""The language server: receives documents and publishes diagnostics, over stdio or a port."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Event
from typing import BinaryIO, cast

from lsprotocol import types as lsp
from pygls.io_ import run_async
from pygls.lsp.server import LanguageServer

from callsheet import __version__
from callsheet.apps.lsp import convert, features
from callsheet.apps.lsp.documents import DocumentVersion, OpenDocuments, server_tools_of
from callsheet.apps.operations.editing import AnalysisContext, tools_of
from callsheet.apps.toolbox import DeclaredTools
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.views.editor.document import Units

PAUSE = 0.15
"""The pause without changes after which a text is analysed, in seconds."""
RELOAD = "callsheet.reloadTools"
"""The command that reloads the tools of Python files and servers."""


@dataclass(slots=True)
class ServerState:
    """The server with its open documents and running tasks."""

    server: LanguageServer
    documents: OpenDocuments
    pause: float = PAUSE
    _analysis_tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"])
    _other_tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def text_changed(self, uri: str, *, at_once: bool = False) -> None:
        """Parse the editor's version of a text, and analyse it after the pause."""
        document = self.server.workspace.get_text_document(uri)
        path = document.path or uri
        snapshot = self.documents.add_version(
            uri, path, document.source, document.version, document.language_id
        )
        self._schedule_analysis(snapshot, 0.0 if at_once else self.pause)

    def close(self, uri: str) -> None:
        """Remove a text, and its diagnostics in the editor."""
        task = self._analysis_tasks.pop(uri, None)
        if task is not None:
            task.cancel()
        self.documents.close(uri)
        self.server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    def analyse_all(self) -> None:
        """Analyse all open texts, because the tools have changed."""
        for snapshot in self.documents.all_open():
            self._schedule_analysis(snapshot, 0.0)

    def add_task(self, work: asyncio.Task[None]) -> None:
        """Keep a reference to a task until it is done."""
        self._other_tasks.add(work)
        work.add_done_callback(self._other_tasks.discard)

    def _schedule_analysis(self, snapshot: DocumentVersion, pause: float) -> None:
        before = self._analysis_tasks.get(snapshot.uri)
        if before is not None:
            before.cancel()
        self._analysis_tasks[snapshot.uri] = asyncio.get_running_loop().create_task(
            self._publish(snapshot, pause)
        )

    async def _publish(self, snapshot: DocumentVersion, pause: float) -> None:
        await asyncio.sleep(pause)
        analysis = await asyncio.to_thread(self.documents.analyse, snapshot)
        if not self.documents.store_analysis(snapshot, analysis):
            return
        diagnostics = [convert.diagnostic(snapshot.places, d) for d in analysis.diagnostics]
        self.server.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(snapshot.uri, diagnostics, version=snapshot.version)
        )
        self._refresh_hints()

    def _refresh_hints(self) -> None:
        """Ask the editor to request hints again, since labels and schedules have changed."""
        workspace = self.server.client_capabilities.workspace
        hints = None if workspace is None else workspace.inlay_hint
        if hints is not None and hints.refresh_support:
            self.server.workspace_inlay_hint_refresh(None)

    async def load_tools(self) -> None:
        """Reload the tools; servers are queried only if their configuration was named."""
        setup = self.documents.context.setup
        try:
            tools = tools_of(DeclaredTools(setup))
            diagnostics: tuple[Diagnostic, ...] = ()
            if setup.mcp_configs:
                tools, diagnostics = await server_tools_of(setup)
        except CallsheetError as error:
            diagnostics = error.diagnostics
        else:
            self.documents.context = replace(self.documents.context, tools=tools)
        for diagnostic in diagnostics:
            self._show(diagnostic)
        self.analyse_all()

    def _show(self, diagnostic: Diagnostic) -> None:
        kind = lsp.MessageType.Error if diagnostic.severity is Severity.ERROR else lsp.MessageType.Warning
        help_ = f" ({diagnostic.help})" if diagnostic.help else ""
        text = f"callsheet: {diagnostic.code}: {diagnostic.message}{help_}"
        if diagnostic.severity is Severity.ERROR:
            self.server.window_show_message(lsp.ShowMessageParams(kind, text))
        else:
            self.server.window_log_message(lsp.LogMessageParams(kind, text))


def make_server(context: AnalysisContext, *, pause: float = PAUSE) -> LanguageServer:
    """A server for one editor."""
    server = LanguageServer(
        "callsheet", __version__, text_document_sync_kind=lsp.TextDocumentSyncKind.Full, max_workers=2
    )
    state = ServerState(server, OpenDocuments(context), pause)
    _register_synchronization(server, state)
    features.register(server, state.documents)
    return server


def _register_synchronization(server: LanguageServer, state: ServerState) -> None:
    @server.feature(lsp.INITIALIZE)
    def _(params: lsp.InitializeParams) -> None:
        options: object = params.initialization_options
        given = cast("dict[str, object]", options) if isinstance(options, dict) else {}
        state.documents.has_lenses = given.get("lenses") is True

    @server.feature(lsp.INITIALIZED)
    def _(params: lsp.InitializedParams) -> None:
        agreed = server.server_capabilities.position_encoding
        state.documents.units = Units(
            agreed.value if isinstance(agreed, lsp.PositionEncodingKind) else agreed
        )
        if state.documents.context.setup.mcp_configs:
            state.add_task(asyncio.get_running_loop().create_task(state.load_tools()))

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def _(params: lsp.DidOpenTextDocumentParams) -> None:
        state.text_changed(params.text_document.uri, at_once=True)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def _(params: lsp.DidChangeTextDocumentParams) -> None:
        state.text_changed(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def _(params: lsp.DidSaveTextDocumentParams) -> None:
        state.text_changed(params.text_document.uri, at_once=True)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def _(params: lsp.DidCloseTextDocumentParams) -> None:
        state.close(params.text_document.uri)

    @server.command(RELOAD)
    async def _() -> None:
        await state.load_tools()


LOOPBACK = "127.0.0.1"
"""The address to listen on; other machines must not reach an editor's texts."""


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
