"""The LSP requests for inlay hints and semantic tokens.

In: a server and its open documents. Out: nothing; the requests are registered.
"""

from __future__ import annotations

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from callsheet.apps.lsp import convert
from callsheet.apps.lsp.documents import OpenDocuments
from callsheet.diagnostics import Span
from callsheet.views.editor.annotations import MODIFIERS, TYPES, hints_in, tokens

_LEGEND = lsp.SemanticTokensLegend([*TYPES], [*MODIFIERS])


def register(server: LanguageServer, documents: OpenDocuments) -> None:
    """Register the handlers of these requests."""

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def _(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        opened = documents.newest_plan(params.text_document.uri)
        if opened is None:
            return []
        snapshot, plan = opened
        span = convert.span_of(snapshot.places, params.range)
        found = hints_in(plan, documents.latest_analysis(snapshot).knowledge, span)
        return [convert.hint(snapshot.places, hint) for hint in found]

    def semantic_tokens(uri: str, within: lsp.Range | None) -> lsp.SemanticTokens:
        opened = documents.newest_plan(uri)
        if opened is None:
            return lsp.SemanticTokens([])
        snapshot, plan = opened
        span: Span | None = None if within is None else convert.span_of(snapshot.places, within)
        spans = tokens(plan, documents.latest_analysis(snapshot).knowledge, span)
        return lsp.SemanticTokens(convert.token_data(snapshot.places, spans))

    @server.feature(
        lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL,
        lsp.SemanticTokensRegistrationOptions(legend=_LEGEND, full=True),
    )
    def _(params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
        return semantic_tokens(params.text_document.uri, None)

    @server.feature(
        lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, lsp.SemanticTokensRegistrationOptions(legend=_LEGEND)
    )
    def _(params: lsp.SemanticTokensRangeParams) -> lsp.SemanticTokens:
        return semantic_tokens(params.text_document.uri, params.range)
