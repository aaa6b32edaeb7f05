"""The LSP requests about a position or document, each answered by a function of `views.editor`.

In: a server and its open documents. Out: nothing; the requests are registered.
"""

from __future__ import annotations

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from callsheet.apps.lsp import annotations, convert, edits
from callsheet.apps.lsp.documents import OpenDocuments
from callsheet.diagnostics import Span
from callsheet.views.editor.document import folds, outline
from callsheet.views.editor.edits import formatting
from callsheet.views.editor.hover import hover_at
from callsheet.views.editor.occurrences import definitions_at, references_at


def register(server: LanguageServer, documents: OpenDocuments) -> None:
    """Register the handlers of all requests."""
    _register_places(server, documents)
    _register_text(server, documents)
    edits.register(server, documents)
    annotations.register(server, documents)


def _register_places(server: LanguageServer, documents: OpenDocuments) -> None:
    """Requests about a position: hover, definition, references, highlights."""

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def _(params: lsp.HoverParams) -> lsp.Hover | None:
        opened = documents.newest_plan(params.text_document.uri)
        if opened is None:
            return None
        snapshot, plan = opened
        known = documents.latest_analysis(snapshot).knowledge
        found = hover_at(plan, convert.offset_of(snapshot.places, params.position), known)
        if found is None:
            return None
        content = lsp.MarkupContent(lsp.MarkupKind.Markdown, found.markdown)
        return lsp.Hover(content, convert.range_of(snapshot.places, found.span))

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def _(params: lsp.DefinitionParams) -> list[lsp.Location]:
        opened = documents.newest_plan(params.text_document.uri)
        if opened is None:
            return []
        snapshot, plan = opened
        found = definitions_at(plan, convert.offset_of(snapshot.places, params.position))
        return [convert.location(snapshot.uri, snapshot.places, span) for span in found]

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def _(params: lsp.ReferenceParams) -> list[lsp.Location]:
        opened = documents.newest_plan(params.text_document.uri)
        if opened is None:
            return []
        snapshot, plan = opened
        offset = convert.offset_of(snapshot.places, params.position)
        found = references_at(plan, offset, with_definitions=params.context.include_declaration)
        return [convert.location(snapshot.uri, snapshot.places, o.span) for o in found]

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def _(params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight]:
        opened = documents.newest_plan(params.text_document.uri)
        if opened is None:
            return []
        snapshot, plan = opened
        found = references_at(plan, convert.offset_of(snapshot.places, params.position))
        return [convert.highlight(snapshot.places, o) for o in found]


def _register_text(server: LanguageServer, documents: OpenDocuments) -> None:
    """Requests about a whole text: formatting, outline, folding ranges."""

    def formatted(uri: str, within: lsp.Range | None) -> list[lsp.TextEdit]:
        opened = documents.newest_plan(uri)
        if opened is None:
            return []
        snapshot, plan = opened
        span: Span | None = None if within is None else convert.span_of(snapshot.places, within)
        return convert.text_edits(snapshot.places, formatting(plan, span))

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def _(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        return formatted(params.text_document.uri, None)

    @server.feature(lsp.TEXT_DOCUMENT_RANGE_FORMATTING)
    def _(params: lsp.DocumentRangeFormattingParams) -> list[lsp.TextEdit]:
        return formatted(params.text_document.uri, params.range)

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def _(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        opened = documents.newest_plan(params.text_document.uri)
        if opened is None:
            return []
        snapshot, plan = opened
        return [convert.symbol(snapshot.places, found) for found in outline(plan)]

    @server.feature(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
    def _(params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange]:
        opened = documents.newest_plan(params.text_document.uri)
        if opened is None:
            return []
        snapshot, plan = opened
        return [convert.fold(snapshot.places, found) for found in folds(plan)]
