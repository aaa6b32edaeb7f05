"""The language server, over stdio or a port: publishes diagnostics, and answers the requests of an editor."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any, BinaryIO, NamedTuple, cast

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.io_ import run_async
from pygls.lsp.server import LanguageServer

from callsheet import __version__
from callsheet.apps.lsp import convert
from callsheet.apps.lsp.documents import DocumentVersion, OpenDocuments, server_tools_of
from callsheet.apps.operations.editing import AnalysisContext, tools_of
from callsheet.apps.operations.reading import plan_text
from callsheet.apps.operations.texts import DrawingFormat, draw
from callsheet.apps.toolbox import DeclaredTools
from callsheet.diagnostics import CallsheetError, Diagnostic, Fix, Severity, Span
from callsheet.frontends.spelling import Syntax
from callsheet.views.editor.annotations import MODIFIERS, TYPES, hints_in, tokens
from callsheet.views.editor.completion import proposals_at
from callsheet.views.editor.document import PlanDocument, Units, folds, lens_at, outline
from callsheet.views.editor.edits import fix_all, formatting, repairs_in
from callsheet.views.editor.hover import hover_at
from callsheet.views.editor.occurrences import definitions_at, references_at, renamable_at, rename

_LEGEND = lsp.SemanticTokensLegend([*TYPES], [*MODIFIERS])


class _Requests(NamedTuple):
    """A server, and the open documents that its requests are about."""

    server: LanguageServer
    documents: OpenDocuments

    def answered(
        self, feature: str, none: object, options: object = None
    ) -> Callable[[Callable[[DocumentVersion, PlanDocument, Any], object]], None]:
        """Registers a function of an open plan as the answer to a request; `none` is it for other texts."""

        def register(answer: Callable[[DocumentVersion, PlanDocument, Any], object]) -> None:
            @self.server.feature(feature, options)
            def _(params: Any) -> object:
                opened = self.documents.newest_plan(params.text_document.uri)
                return none if opened is None else answer(*opened, params)

        return register


def _register_annotations(on: _Requests) -> None:
    """Register the handlers of these requests."""

    @on.answered(lsp.TEXT_DOCUMENT_INLAY_HINT, [])
    def _(snapshot: DocumentVersion, plan: PlanDocument, params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        span = convert.span_of(snapshot.places, params.range)
        found = hints_in(plan, on.documents.latest_analysis(snapshot).knowledge, span)
        return [convert.hint(snapshot.places, hint) for hint in found]

    def semantic_tokens(
        snapshot: DocumentVersion, plan: PlanDocument, within: lsp.Range | None
    ) -> lsp.SemanticTokens:
        if plan.syntax is Syntax.PYTHON:  # an editor has a server for Python, which colours it
            return lsp.SemanticTokens([])
        span: Span | None = None if within is None else convert.span_of(snapshot.places, within)
        spans = tokens(plan, on.documents.latest_analysis(snapshot).knowledge, span)
        return lsp.SemanticTokens(convert.token_data(snapshot.places, spans))

    whole = lsp.SemanticTokensRegistrationOptions(legend=_LEGEND, full=True)

    @on.answered(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, lsp.SemanticTokens([]), whole)
    def _(snapshot: DocumentVersion, plan: PlanDocument, _params: Any) -> lsp.SemanticTokens:
        return semantic_tokens(snapshot, plan, None)

    part = lsp.SemanticTokensRegistrationOptions(legend=_LEGEND)

    @on.answered(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, lsp.SemanticTokens([]), part)
    def _(
        snapshot: DocumentVersion, plan: PlanDocument, params: lsp.SemanticTokensRangeParams
    ) -> lsp.SemanticTokens:
        return semantic_tokens(snapshot, plan, params.range)


_TRIGGERS = ["@", "$", "(", ",", " ", ">", ":", "?", "{", "=", '"']
_FIX_ALL = lsp.CodeActionKind.SourceFixAll
_REFUSED = -32803
"""The error code `RequestFailed` of the protocol: the request is valid but failed."""


def _register_edits(on: _Requests) -> None:
    """Register the handlers of these requests."""
    _register_completion(on)
    _register_renaming(on)
    _register_repairs(on)


def _register_completion(on: _Requests) -> None:
    @on.answered(lsp.TEXT_DOCUMENT_COMPLETION, None, lsp.CompletionOptions(trigger_characters=_TRIGGERS))
    def _(
        snapshot: DocumentVersion, plan: PlanDocument, params: lsp.CompletionParams
    ) -> lsp.CompletionList | None:
        known = on.documents.latest_analysis(snapshot).knowledge
        found = proposals_at(plan, convert.offset_of(snapshot.places, params.position), known)
        takes = convert.supports_snippets(on.server.client_capabilities)
        items = [convert.proposal(snapshot.places, p, number, takes) for number, p in enumerate(found)]
        return lsp.CompletionList(is_incomplete=False, items=items)


def _register_renaming(on: _Requests) -> None:
    @on.answered(lsp.TEXT_DOCUMENT_PREPARE_RENAME, None)
    def _(snapshot: DocumentVersion, plan: PlanDocument, params: lsp.PrepareRenameParams) -> lsp.Range | None:
        span = renamable_at(plan, convert.offset_of(snapshot.places, params.position))
        return None if span is None else convert.range_of(snapshot.places, span)

    @on.answered(lsp.TEXT_DOCUMENT_RENAME, None, lsp.RenameOptions(prepare_provider=True))
    def _(
        snapshot: DocumentVersion, plan: PlanDocument, params: lsp.RenameParams
    ) -> lsp.WorkspaceEdit | None:
        try:
            edits = rename(plan, convert.offset_of(snapshot.places, params.position), params.new_name)
        except CallsheetError as error:
            diagnostic = error.diagnostics[0]
            raise JsonRpcException(
                f"{diagnostic.message} ({diagnostic.code}): {diagnostic.help}", _REFUSED
            ) from None
        return lsp.WorkspaceEdit(changes={snapshot.uri: convert.text_edits(snapshot.places, edits)})


def _register_repairs(on: _Requests) -> None:
    kinds = lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix, _FIX_ALL])

    @on.answered(lsp.TEXT_DOCUMENT_CODE_ACTION, [], kinds)
    def _(
        snapshot: DocumentVersion, plan: PlanDocument, params: lsp.CodeActionParams
    ) -> list[lsp.CodeAction]:
        found = on.documents.current_analysis(snapshot)
        only = params.context.only

        def action(fix: Fix, kind: lsp.CodeActionKind, of: list[lsp.Diagnostic]) -> lsp.CodeAction:
            edit = lsp.WorkspaceEdit(changes={snapshot.uri: convert.text_edits(snapshot.places, fix.edits)})
            return lsp.CodeAction(fix.title, kind=kind, diagnostics=of or None, edit=edit)

        actions: list[lsp.CodeAction] = []
        if _is_requested(only, lsp.CodeActionKind.QuickFix):
            span = convert.span_of(snapshot.places, params.range)
            repairs = repairs_in(plan, found.diagnostics, span, found.knowledge)
            actions += [
                action(r.fix, lsp.CodeActionKind.QuickFix, [convert.diagnostic(snapshot.places, r.of)])
                for r in repairs
            ]
        whole = fix_all(plan, found.diagnostics) if _is_requested(only, _FIX_ALL) else None
        if whole is not None:
            actions.append(action(whole, _FIX_ALL, []))
        return actions


def _is_requested(only: object, kind: lsp.CodeActionKind) -> bool:
    """Whether actions of this kind are requested; all are if `only` is missing."""
    if not isinstance(only, list | tuple):
        return True
    names = [str(getattr(one, "value", one)) for one in only]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return any(kind.value == name or kind.value.startswith(f"{name}.") or not name for name in names)


def register(server: LanguageServer, documents: OpenDocuments) -> None:
    """Register the handlers of all requests."""
    on = _Requests(server, documents)
    _register_places(on)
    _register_text(on)
    _register_lenses(on)
    _register_edits(on)
    _register_annotations(on)


def _register_places(on: _Requests) -> None:
    """Requests about a position: hover, definition, references, highlights."""

    @on.answered(lsp.TEXT_DOCUMENT_HOVER, None)
    def _(snapshot: DocumentVersion, plan: PlanDocument, params: lsp.HoverParams) -> lsp.Hover | None:
        known = on.documents.latest_analysis(snapshot).knowledge
        found = hover_at(plan, convert.offset_of(snapshot.places, params.position), known)
        if found is None:
            return None
        content = lsp.MarkupContent(lsp.MarkupKind.Markdown, found.markdown)
        return lsp.Hover(content, convert.range_of(snapshot.places, found.span))

    @on.answered(lsp.TEXT_DOCUMENT_DEFINITION, [])
    def _(snapshot: DocumentVersion, plan: PlanDocument, params: lsp.DefinitionParams) -> list[lsp.Location]:
        found = definitions_at(plan, convert.offset_of(snapshot.places, params.position))
        return [convert.location(snapshot.uri, snapshot.places, span) for span in found]

    @on.answered(lsp.TEXT_DOCUMENT_REFERENCES, [])
    def _(snapshot: DocumentVersion, plan: PlanDocument, params: lsp.ReferenceParams) -> list[lsp.Location]:
        offset = convert.offset_of(snapshot.places, params.position)
        found = references_at(plan, offset, with_definitions=params.context.include_declaration)
        return [convert.location(snapshot.uri, snapshot.places, o.span) for o in found]

    @on.answered(lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, [])
    def _(
        snapshot: DocumentVersion, plan: PlanDocument, params: lsp.DocumentHighlightParams
    ) -> list[lsp.DocumentHighlight]:
        found = references_at(plan, convert.offset_of(snapshot.places, params.position))
        return [convert.highlight(snapshot.places, o) for o in found]


RUN, DRY_RUN, DEBUG, TEST = (f"callsheet.{word}Plan" for word in ("run", "dryRun", "debug", "test"))
"""The commands of an editor that lenses start, with the URI of the plan; only for editors that have them."""
GRAPH = "callsheet.planGraph"
"""The command that draws an open plan. Its arguments: the URI, and `html`, or `graph` for the data in it."""


def _register_lenses(on: _Requests) -> None:
    """The commands over a plan, and its picture."""

    @on.answered(lsp.TEXT_DOCUMENT_CODE_LENS, [])
    def _(snapshot: DocumentVersion, plan: PlanDocument, _params: Any) -> list[lsp.CodeLens]:
        if not on.documents.has_lenses:
            return []
        words = [("$(play) Run", RUN), ("Dry run", DRY_RUN), ("Debug", DEBUG)]
        if snapshot.path.with_name(f"{snapshot.path.stem}.test.toml").is_file():
            words.append(("Test", TEST))
        at = convert.range_of(snapshot.places, Span(start := lens_at(plan), start))
        return [
            lsp.CodeLens(at, lsp.Command(title=word, command=name, arguments=[snapshot.uri]))
            for word, name in words
        ]

    @on.server.command(GRAPH)
    def _(uri: str, shape: str) -> str | dict[str, Any] | None:
        if shape not in [*DrawingFormat]:
            formats = ", ".join(DrawingFormat)
            raise JsonRpcException(f"{GRAPH} has no format {shape!r}: write one of {formats}", _REFUSED)
        opened = on.documents.newest_plan(uri)
        if opened is None:
            return None
        text = plan_text(opened[0].text, opened[0].path.name, syntax=opened[1].syntax)
        if text.plan is None:
            return None
        drawing = draw(text, DrawingFormat(shape))
        return drawing.graph or drawing.drawn


def _register_text(on: _Requests) -> None:
    """Requests about a whole text: formatting, outline, folding ranges."""

    @on.answered(lsp.TEXT_DOCUMENT_FORMATTING, [])
    def _(snapshot: DocumentVersion, plan: PlanDocument, _params: Any) -> list[lsp.TextEdit]:
        return convert.text_edits(snapshot.places, formatting(plan, None))

    @on.answered(lsp.TEXT_DOCUMENT_RANGE_FORMATTING, [])
    def _(
        snapshot: DocumentVersion, plan: PlanDocument, params: lsp.DocumentRangeFormattingParams
    ) -> list[lsp.TextEdit]:
        span = convert.span_of(snapshot.places, params.range)
        return convert.text_edits(snapshot.places, formatting(plan, span))

    @on.answered(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL, [])
    def _(
        snapshot: DocumentVersion, plan: PlanDocument, params: lsp.DocumentSymbolParams
    ) -> list[lsp.DocumentSymbol]:
        return [convert.symbol(snapshot.places, found) for found in outline(plan)]

    @on.answered(lsp.TEXT_DOCUMENT_FOLDING_RANGE, [])
    def _(
        snapshot: DocumentVersion, plan: PlanDocument, params: lsp.FoldingRangeParams
    ) -> list[lsp.FoldingRange]:
        return [convert.fold(snapshot.places, found) for found in folds(plan)]


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
    register(server, state.documents)
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
