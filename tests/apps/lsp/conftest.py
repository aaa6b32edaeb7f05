"""Fixtures: a real LSP client that starts `callsheet lsp` as editors do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient
from tests import forked

SECONDS = 60.0
TOOLS = '''
from callsheet.ports.python_tools import tool


@tool(effect="read")
def add(a: int, b: int = 1) -> int:
    """The sum of two numbers."""
    return a + b
'''


class Editor:
    """An editor with one connection; documents are identified by file name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = LanguageClient("editor", "1")
        self.capabilities: lsp.ServerCapabilities | None = None
        self.messages: list[str] = []
        self._found: dict[tuple[str, int | None], lsp.PublishDiagnosticsParams] = {}
        self._news = asyncio.Event()

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def _(params: lsp.PublishDiagnosticsParams) -> None:
            self._found[params.uri, params.version] = params
            self._news.set()

        @self.client.feature(lsp.WINDOW_SHOW_MESSAGE)
        def _(params: lsp.ShowMessageParams) -> None:
            self.messages.append(params.message)
            self._news.set()

        @self.client.feature(lsp.WORKSPACE_INLAY_HINT_REFRESH)
        def _(params: Any) -> None:
            return None

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def document(self, name: str) -> lsp.TextDocumentIdentifier:
        return lsp.TextDocumentIdentifier(self.uri(name))

    async def initialize(self, encodings: list[str] | None = None) -> None:
        general = None if encodings is None else lsp.GeneralClientCapabilities(position_encodings=encodings)
        workspace = lsp.WorkspaceClientCapabilities(
            inlay_hint=lsp.InlayHintWorkspaceClientCapabilities(refresh_support=True)
        )
        asked = lsp.InitializeParams(
            capabilities=lsp.ClientCapabilities(general=general, workspace=workspace),
            root_uri=self.folder.as_uri(),
            initialization_options={"lenses": True},
        )
        answer = await self.client.initialize_async(asked)
        self.capabilities = answer.capabilities
        self.client.initialized(lsp.InitializedParams())

    def open(self, name: str, text: str, language: str = "ltp") -> None:
        item = lsp.TextDocumentItem(self.uri(name), language, 1, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))

    def change(self, name: str, text: str, version: int) -> None:
        document = lsp.VersionedTextDocumentIdentifier(version, self.uri(name))
        whole = lsp.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [whole]))

    async def findings(self, name: str, version: int = 1) -> list[lsp.Diagnostic]:
        await self.until(lambda: (self.uri(name), version) in self._found)
        return [*self._found[self.uri(name), version].diagnostics]

    def was_told(self, name: str, version: int | None) -> bool:
        return (self.uri(name), version) in self._found

    def forget(self) -> None:
        """Discard earlier diagnostics."""
        self._found.clear()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not holds():
                self._news.clear()
                await self._news.wait()

    async def goes(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)


class Editors:
    """Starts editors: `async with editor("--tools", "tools.py") as it:`, each with a server of its own.

    With a `port` it connects to the server that listens there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @asynccontextmanager
    async def __call__(
        self,
        *arguments: str,
        encodings: list[str] | None = None,
        prepare: dict[str, str] | None = None,
        port: int | None = None,
    ) -> AsyncIterator[Editor]:
        for name, text in (prepare or {}).items():
            (self.folder / name).write_text(text)
        it = Editor(self.folder)
        if port is None:
            await it.client.start_io(*forked.line("-m", "callsheet", "lsp", *arguments))
        else:
            await it.client.start_tcp("127.0.0.1", port)
        await it.initialize(encodings)
        try:
            yield it
            await it.goes()
        except BaseException:
            server = it.client._server  # which would be waited for, and nobody has told it to go
            if server is not None and server.returncode is None:
                server.kill()
            raise
        finally:
            await it.client.stop()

    @asynccontextmanager
    async def listening(self, *arguments: str) -> AsyncIterator[int]:
        """A server on a free port, which is returned."""
        line = forked.line("-m", "callsheet", "lsp", "--tcp", "0", *arguments)
        server = await asyncio.create_subprocess_exec(*line, stderr=asyncio.subprocess.PIPE)
        try:
            assert server.stderr is not None
            said = (await server.stderr.readline()).decode()
            assert "listening on 127.0.0.1:" in said
            yield int(said.rsplit(":", 1)[1])
        finally:
            server.terminate()
            await server.wait()


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editors:
    """Editors in a separate folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CALLSHEET_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "tools.py").write_text(TOOLS)
    return Editors(tmp_path)
