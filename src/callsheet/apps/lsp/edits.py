"""The LSP requests that edit a text: completion, renaming, fixes.

In: a server and its open documents. Out: nothing; the requests are registered.
"""

from __future__ import annotations

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from callsheet.apps.lsp import convert
from callsheet.apps.lsp.documents import OpenDocuments
from callsheet.diagnostics import CallsheetError, Fix
from callsheet.views.editor.completion import proposals_at
from callsheet.views.editor.edits import fix_all, repairs_in
from callsheet.views.editor.occurrences import renamable_at, rename

_TRIGGERS = ["@", "$", "(", ",", " ", ">", ":", "?", "{", "=", '"']
_FIX_ALL = lsp.CodeActionKind.SourceFixAll
_REFUSED = -32803
"""The error code `RequestFailed` of the protocol: the request is valid but failed."""


def register(server: LanguageServer, documents: OpenDocuments) -> None:
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
