"""The language server: receives documents and publishes diagnostics.

In: what plans are held against. Out: a pygls server that is ready to be connected. Findings follow a change
after a short pause in which none came; they are made in a thread, and those of a text that has changed
meanwhile are dropped.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from callsheet import __version__
from callsheet.apps.lsp import convert, features
from callsheet.apps.lsp.analysis import AnalysisContext
from callsheet.apps.lsp.documents import DocumentVersion, OpenDocuments
from callsheet.apps.lsp.tools import tools_here, tools_of_servers
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.views.editor.positions import Units

PAUSE = 0.15
"""Seconds without a change after which findings are made."""
RELOAD = "callsheet.reloadTools"
"""The command that looks again at Python files and servers."""


@dataclass(slots=True)
class ServerState:
    """The server with its open documents and running tasks."""

    server: LanguageServer
    documents: OpenDocuments
    pause: float = PAUSE
    _waiting: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"])
    _others: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def take(self, uri: str, *, at_once: bool = False) -> None:
        """Take in what the editor has of a text, and look at it after the pause."""
        document = self.server.workspace.get_text_document(uri)
        path = document.path or uri
        sheet = self.documents.put(uri, path, document.source, document.version, document.language_id)
        self._look(sheet, 0.0 if at_once else self.pause)

    def close(self, uri: str) -> None:
        """Forget a text, and its findings in the editor."""
        task = self._waiting.pop(uri, None)
        if task is not None:
            task.cancel()
        self.documents.close(uri)
        self.server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    def look_again(self) -> None:
        """Look at all open texts, because something else has changed."""
        for sheet in self.documents.open():
            self._look(sheet, 0.0)

    def start(self, work: asyncio.Task[None]) -> None:
        """Keep a task until it is done."""
        self._others.add(work)
        work.add_done_callback(self._others.discard)

    def _look(self, sheet: DocumentVersion, pause: float) -> None:
        before = self._waiting.get(sheet.uri)
        if before is not None:
            before.cancel()
        self._waiting[sheet.uri] = asyncio.get_running_loop().create_task(self._publish(sheet, pause))

    async def _publish(self, sheet: DocumentVersion, pause: float) -> None:
        await asyncio.sleep(pause)
        found = await asyncio.to_thread(self.documents.analysed, sheet)
        if not self.documents.keep(sheet, found):
            return
        diagnostics = [convert.diagnostic(sheet.places, d) for d in found.diagnostics]
        self.server.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(sheet.uri, diagnostics, version=sheet.version)
        )
        self._refresh_hints()

    def _refresh_hints(self) -> None:
        """Ask the editor to fetch hints again: labels and schedules are known only now."""
        workspace = self.server.client_capabilities.workspace
        hints = None if workspace is None else workspace.inlay_hint
        if hints is not None and hints.refresh_support:
            self.server.workspace_inlay_hint_refresh(None)

    async def load_tools(self) -> None:
        """Look again at the tools; servers are asked where their configuration was named."""
        setup = self.documents.here.setup
        try:
            tools = tools_here(setup)
            found: tuple[Diagnostic, ...] = ()
            if setup.mcp_configs:
                tools, found = await tools_of_servers(setup)
        except CallsheetError as error:
            found = error.diagnostics
        else:
            self.documents.here = replace(self.documents.here, tools=tools)
        for diagnostic in found:
            self._show(diagnostic)
        self.look_again()

    def _show(self, diagnostic: Diagnostic) -> None:
        kind = lsp.MessageType.Error if diagnostic.severity is Severity.ERROR else lsp.MessageType.Warning
        help_ = f" ({diagnostic.help})" if diagnostic.help else ""
        text = f"callsheet: {diagnostic.code}: {diagnostic.message}{help_}"
        if diagnostic.severity is Severity.ERROR:
            self.server.window_show_message(lsp.ShowMessageParams(kind, text))
        else:
            self.server.window_log_message(lsp.LogMessageParams(kind, text))


def make_server(here: AnalysisContext, *, pause: float = PAUSE) -> LanguageServer:
    """A server for one editor."""
    server = LanguageServer(
        "callsheet", __version__, text_document_sync_kind=lsp.TextDocumentSyncKind.Full, max_workers=2
    )
    work = ServerState(server, OpenDocuments(here), pause)
    _follow_texts(server, work)
    features.register(server, work.documents)
    return server


def _follow_texts(server: LanguageServer, work: ServerState) -> None:
    @server.feature(lsp.INITIALIZED)
    def _(params: lsp.InitializedParams) -> None:
        agreed = server.server_capabilities.position_encoding
        work.documents.units = Units(agreed.value if isinstance(agreed, lsp.PositionEncodingKind) else agreed)
        if work.documents.here.setup.mcp_configs:
            work.start(asyncio.get_running_loop().create_task(work.load_tools()))

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def _(params: lsp.DidOpenTextDocumentParams) -> None:
        work.take(params.text_document.uri, at_once=True)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def _(params: lsp.DidChangeTextDocumentParams) -> None:
        work.take(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def _(params: lsp.DidSaveTextDocumentParams) -> None:
        work.take(params.text_document.uri, at_once=True)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def _(params: lsp.DidCloseTextDocumentParams) -> None:
        work.close(params.text_document.uri)

    @server.command(RELOAD)
    async def _() -> None:
        await work.load_tools()
