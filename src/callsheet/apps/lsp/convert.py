"""Converts the results of `views.editor` to the types of the language server protocol.

In: spans, diagnostics, symbols and the positions of a text. Out: values of `lsprotocol`.
"""

from __future__ import annotations

from collections.abc import Iterable

from lsprotocol import types as lsp

from callsheet.diagnostics import Diagnostic, Edit, Severity, Span
from callsheet.views.editor.annotations import MODIFIERS, TYPES, About, Hint, Token
from callsheet.views.editor.document import Fold, Place, Places, Shape, Symbol
from callsheet.views.editor.occurrences import Occurrence, Role
from callsheet.views.editor.proposals import Proposal, Sort

_SEVERITIES = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.HINT: lsp.DiagnosticSeverity.Hint,
}
_SYMBOLS = {
    Shape.CALL: lsp.SymbolKind.Function,
    Shape.CONTROL: lsp.SymbolKind.Event,
    Shape.GROUP: lsp.SymbolKind.Namespace,
    Shape.UNREAD: lsp.SymbolKind.Null,
}
_ITEMS = {
    Sort.TOOL: lsp.CompletionItemKind.Function,
    Sort.ARGUMENT: lsp.CompletionItemKind.Property,
    Sort.VARIABLE: lsp.CompletionItemKind.Variable,
    Sort.STEP: lsp.CompletionItemKind.Reference,
    Sort.WORD: lsp.CompletionItemKind.Keyword,
    Sort.VALUE: lsp.CompletionItemKind.EnumMember,
    Sort.TYPE: lsp.CompletionItemKind.TypeParameter,
    Sort.FUNCTION: lsp.CompletionItemKind.Function,
}
SOURCE = "callsheet"
"""What editors show as the origin of diagnostics."""


def position(places: Places, offset: int) -> lsp.Position:
    """The position of an offset."""
    return lsp.Position(*places.place(offset))


def range_of(places: Places, span: Span) -> lsp.Range:
    """The range of a span."""
    return lsp.Range(position(places, span.start), position(places, span.end))


def offset_of(places: Places, at: lsp.Position) -> int:
    """The offset of a position."""
    return places.offset(Place(at.line, at.character))


def span_of(places: Places, given: lsp.Range) -> Span:
    """The span of a range."""
    return Span(offset_of(places, given.start), offset_of(places, given.end))


def diagnostic(places: Places, finding: Diagnostic) -> lsp.Diagnostic:
    """A diagnostic; one without a span is at the beginning of the text."""
    message = finding.message if not finding.help else f"{finding.message}\n{finding.help}"
    span = _visible_span(places.text, finding.span or Span(0, 0))
    return lsp.Diagnostic(
        range_of(places, span), message, _SEVERITIES[finding.severity], code=finding.code, source=SOURCE
    )


def _visible_span(text: str, span: Span) -> Span:
    """The span, extended by a character if it is empty, since editors do not show empty ranges."""
    if span.start < span.end or span.end >= len(text) or text[span.end] in "\r\n":
        return span
    return Span(span.start, span.end + 1)


def text_edits(places: Places, edits: Iterable[Edit]) -> list[lsp.TextEdit]:
    """Edits of one text."""
    return [lsp.TextEdit(range_of(places, edit.span), edit.text) for edit in edits]


def symbol(places: Places, entry: Symbol) -> lsp.DocumentSymbol:
    """An entry of the outline with its children."""
    return lsp.DocumentSymbol(
        entry.name or "step",
        _SYMBOLS[entry.shape],
        range_of(places, entry.span),
        range_of(places, entry.name_span),
        detail=entry.detail,
        children=[symbol(places, child) for child in entry.children],
    )


def fold(places: Places, folding: Fold) -> lsp.FoldingRange:
    """A range that can be folded to its first line."""
    kind = lsp.FoldingRangeKind.Comment if folding.is_comment else lsp.FoldingRangeKind.Region
    start, end = places.place(folding.span.start), places.place(folding.span.end)
    return lsp.FoldingRange(start.line, end.line, kind=kind)


def location(uri: str, places: Places, span: Span) -> lsp.Location:
    """A span of the text with this URI."""
    return lsp.Location(uri, range_of(places, span))


def highlight(places: Places, occurrence: Occurrence) -> lsp.DocumentHighlight:
    """An occurrence of the name under the cursor."""
    kind = (
        lsp.DocumentHighlightKind.Write if occurrence.role is Role.WRITE else lsp.DocumentHighlightKind.Read
    )
    return lsp.DocumentHighlight(range_of(places, occurrence.span), kind)


def supports_snippets(capabilities: lsp.ClientCapabilities) -> bool:
    """Whether an editor supports snippets: completions with tab stops."""
    text = capabilities.text_document
    completion = None if text is None else text.completion
    item = None if completion is None else completion.completion_item
    return item is not None and bool(item.snippet_support)


def proposal(places: Places, candidate: Proposal, number: int, takes_snippet: bool) -> lsp.CompletionItem:
    """A completion item; `number` is its position in the list."""
    is_snippet = takes_snippet and bool(candidate.snippet)
    text = candidate.snippet if is_snippet else candidate.insert
    about = lsp.MarkupContent(lsp.MarkupKind.Markdown, candidate.about) if candidate.about else None
    return lsp.CompletionItem(
        candidate.label,
        kind=_ITEMS[candidate.sort],
        detail=candidate.detail or None,
        documentation=about,
        sort_text=f"{number:05}",
        filter_text=candidate.label,
        text_edit=lsp.TextEdit(range_of(places, candidate.span), text),
        insert_text_format=lsp.InsertTextFormat.Snippet if is_snippet else lsp.InsertTextFormat.PlainText,
    )


def hint(places: Places, inlay: Hint) -> lsp.InlayHint:
    """An inlay hint."""
    kind = lsp.InlayHintKind.Type if inlay.about is About.LABEL else None
    at = position(places, inlay.offset)
    return lsp.InlayHint(at, inlay.text, kind=kind, tooltip=inlay.tip, padding_left=True)


def token_data(places: Places, tokens: Iterable[Token]) -> list[int]:
    """Tokens in the encoding of the protocol: five numbers each, positions relative to the last token."""
    data: list[int] = []
    line = character = 0
    for token in tokens:
        start, end = places.place(token.span.start), places.place(token.span.end)
        bits = sum(1 << MODIFIERS.index(modifier) for modifier in token.modifiers)
        since = start.character - (character if start.line == line else 0)
        length = end.character - start.character
        data += [start.line - line, since, length, TYPES.index(token.kind), bits]
        line, character = start
    return data
