"""The requests of an editor, answered by `views.editor`: at a position, of a text, lenses, edits.

In: a server and its open documents. Out: nothing; the requests are registered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from callsheet.apps.lsp import convert
from callsheet.apps.lsp.documents import DocumentVersion, OpenDocuments
from callsheet.apps.operations.reading import plan_text
from callsheet.apps.operations.texts import DrawingFormat, draw
from callsheet.diagnostics import CallsheetError, Fix, Span
from callsheet.frontends.spelling import Syntax
from callsheet.views.editor.annotations import MODIFIERS, TYPES, hints_in, tokens
from callsheet.views.editor.completion import proposals_at
from callsheet.views.editor.document import PlanDocument, folds, lens_at, outline
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
