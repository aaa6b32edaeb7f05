"""No request of an editor fails on any text, however broken."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.diagnostics import CallsheetError, Span
from callsheet.views.editor.annotations import hints_in, tokens
from callsheet.views.editor.completion import proposals_at
from callsheet.views.editor.document import folds, open_document, outline
from callsheet.views.editor.edits import fix_all, formatting, repairs_in
from callsheet.views.editor.hover import hover_at
from callsheet.views.editor.occurrences import (
    definitions_at,
    occurrences,
    references_at,
    renamable_at,
    rename,
)
from views.editor.marks import KNOWN

CORPUS = Path(__file__).parents[2] / "frontends" / "corpus"
TEXTS = [path.read_text("utf-8") for path in sorted(CORPUS.rglob("*.*"))]
PIECES = ('"', "'", '"""', "(", ")", "{", "}", "[", "$", "${", "@", "?IF ", "?FOREACH ", "> $x", "\n", "S1: ",
          "GOTO ", "#", ",", "=", "\\", "😀", "\r\n", "ON_FAIL ", ":int", 'r"', "@PARALLEL {")  # fmt: skip


@st.composite
def broken(draw: st.DrawFn) -> str:
    """A plan of the corpus with a few fragments inserted or removed, perhaps truncated."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(0, 4))):
        at, lost = draw(st.integers(0, len(text))), draw(st.integers(0, 5))
        text = text[:at] + draw(st.sampled_from(PIECES)) + text[at + lost :]
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


@settings(max_examples=200)
@given(broken(), st.data())
def test_every_request_is_answered_for_any_text(text: str, data: st.DataObject) -> None:
    """All answers lie within the text, and a renamable name is renamed or refused with a reason."""
    document = open_document(text)
    offset = data.draw(st.integers(0, len(text)))
    everywhere = Span(0, len(text))
    spans = [proposal.span for proposal in proposals_at(document, offset, KNOWN)]
    spans += [*definitions_at(document, offset), *(o.span for o in references_at(document, offset))]
    spans += [symbol.span for symbol in outline(document)] + [fold.span for fold in folds(document)]
    spans += [token.span for token in tokens(document, KNOWN)]
    spans += [edit.span for edit in formatting(document)]
    repairs = repairs_in(document, document.diagnostics, everywhere, KNOWN)
    spans += [edit.span for repair in repairs for edit in repair.fix.edits]
    hover, whole = hover_at(document, offset, KNOWN), fix_all(document, document.diagnostics)
    spans += [] if hover is None else [hover.span]
    spans += [] if whole is None else [edit.span for edit in whole.edits]
    assert all(0 <= span.start <= span.end <= len(text) for span in spans)
    assert all(0 <= hint.offset <= len(text) for hint in hints_in(document, KNOWN))
    assert all(text[slice(*o.span)] == o.entity.name for o in occurrences(document))
    if renamable_at(document, offset) is not None:
        with suppress(CallsheetError):
            assert rename(document, offset, "fresh_9")
