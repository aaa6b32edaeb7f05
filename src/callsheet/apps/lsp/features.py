"""The requests of an editor, each answered by a function of `views.editor`: at a position, of a text, edits.

In: a server and its open documents. Out: nothing; the requests are registered.
"""

from __future__ import annotations

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from callsheet.apps.lsp import convert
from callsheet.apps.lsp.documents import OpenDocuments
from callsheet.diagnostics import CallsheetError, Fix, Span
from callsheet.views.editor.annotations import MODIFIERS, TYPES, hints_in, tokens
from callsheet.views.editor.completion import proposals_at
from callsheet.views.editor.document import folds, outline
from callsheet.views.editor.edits import fix_all, formatting, repairs_in
from callsheet.views.editor.hover import hover_at
from callsheet.views.editor.occurrences import definitions_at, references_at, renamable_at, rename

_LEGEND = lsp.SemanticTokensLegend([*TYPES], [*MODIFIERS])


def _register_annotations(server: LanguageServer, documents: OpenDocuments) -> None:
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


_TRIGGERS = ["@", "$", "(", ",", " ", ">", ":", "?", "{", "=", '"']
_FIX_ALL = lsp.CodeActionKind.SourceFixAll
_REFUSED = -32803
"""The error code `RequestFailed` of the protocol: the request is valid but failed."""


def _register_edits(server: LanguageServer, documents: OpenDocuments) -> None:
    """Register the handlers of these requests."""
    _register_completion(server, documents)
    _register_renaming(server, documents)
    _register_repairs(server, documents)


def _register_completion(server: LanguageServer, documents: OpenDocuments) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=_TRIGGERS))
    def _(params: lsp.CompletionParams) -> lsp.CompletionList | None:
        opened = documents.newest_plan(params.text_document.uri)
        if opened is None:
            return None
        snapshot, plan = opened
        known = documents.latest_analysis(snapshot).knowledge
        found = proposals_at(plan, convert.offset_of(snapshot.places, params.position), known)
        takes = convert.supports_snippets(server.client_capabilities)
        items = [convert.proposal(snapshot.places, p, number, takes) for number, p in enumerate(found)]
        return lsp.CompletionList(is_incomplete=False, items=items)


def _register_renaming(server: LanguageServer, documents: OpenDocuments) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def _(params: lsp.PrepareRenameParams) -> lsp.Range | None:
        opened = documents.newest_plan(params.text_document.uri)
        if opened is None:
            return None
        snapshot, plan = opened
        span = renamable_at(plan, convert.offset_of(snapshot.places, params.position))
        return None if span is None else convert.range_of(snapshot.places, span)

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    def _(params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        opened = documents.newest_plan(params.text_document.uri)
        if opened is None:
            return None
        snapshot, plan = opened
        try:
            edits = rename(plan, convert.offset_of(snapshot.places, params.position), params.new_name)
        except CallsheetError as error:
            diagnostic = error.diagnostics[0]
            raise JsonRpcException(
                f"{diagnostic.message} ({diagnostic.code}): {diagnostic.help}", _REFUSED
            ) from None
        return lsp.WorkspaceEdit(changes={snapshot.uri: convert.text_edits(snapshot.places, edits)})


def _register_repairs(server: LanguageServer, documents: OpenDocuments) -> None:
    kinds = lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix, _FIX_ALL])

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, kinds)
    def _(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        opened = documents.newest_plan(params.text_document.uri)
        if opened is None:
            return []
        snapshot, plan = opened
        found = documents.current_analysis(snapshot)
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
    _register_places(server, documents)
    _register_text(server, documents)
    _register_edits(server, documents)
    _register_annotations(server, documents)


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
