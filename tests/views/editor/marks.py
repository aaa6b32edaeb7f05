"""Texts with a mark at the position of the cursor."""

from __future__ import annotations

from callsheet.diagnostics import Edit
from callsheet.ir import Effect
from callsheet.ports.tools import ToolSpec
from callsheet.views.editor.document import PlanDocument, open_document
from callsheet.views.editor.knowledge import Knowledge

MARK = "‸"
TOOLS = {
    "ADD": ToolSpec(
        "ADD", "add", "The sum of two numbers.\nMore.",
        {"properties": {"a": {"type": "integer", "description": "the *first*"}, "b": {"type": "integer"}},
         "required": ["a"]},
        Effect.READ, "python:tools.py",
    ),
    "SEND": ToolSpec(
        "SEND", "send", "Sends a text.",
        {"properties": {"to": {"enum": ["team", "me"]}, "text": {"type": "string"},
                        "now": {"type": "boolean"}},
         "required": ["to", "text"]},
    ),
}  # fmt: skip
KNOWN = Knowledge(TOOLS)


def opened(text: str, **more) -> tuple[PlanDocument, int]:
    """The document of a text without its mark, and the position of the mark."""
    return open_document(text.replace(MARK, ""), **more), text.index(MARK)


def applied(text: str, edits: tuple[Edit, ...]) -> str:
    """The text after edits."""
    for edit in sorted(edits, key=lambda e: e.span, reverse=True):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text
