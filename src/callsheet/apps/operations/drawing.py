"""Draws a plan: as a Mermaid flow chart, as terminal lines, or as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from callsheet.apps.operations.reading import PlanText
from callsheet.diagnostics import to_json


class DrawingFormat(StrEnum):
    """The format of a drawing."""

    TERMINAL = "terminal"
    MERMAID = "mermaid"
    GRAPH = "graph"
    """Steps and edges with coordinates, as data."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A text and the drawing of its plan."""

    text: PlanText
    shape: DrawingFormat
    drawn: str
    graph: dict[str, Any] | None = None

    @property
    def fenced(self) -> str:
        """The drawing in a Markdown code fence, as the documented `visualize_plan` returns it."""
        language = "mermaid" if self.shape is DrawingFormat.MERMAID else "text"
        return f"```{language}\n{self.drawn.rstrip()}\n```"

    def to_json(self) -> dict[str, Any]:
        """The drawing as data."""
        rows = to_json(self.text.diagnostics, self.text.source)
        more = {} if self.graph is None else {"plan": self.graph}
        return {"ok": True, "format": str(self.shape), "graph": self.drawn, **more, "diagnostics": rows}


def draw(
    text: PlanText, shape: DrawingFormat = DrawingFormat.MERMAID, *, ansi: bool = False, columns: int = 120
) -> Drawing:
    """Draw the plan of a text; tools are not checked.

    `ansi` and `columns` apply to terminal drawings. Raises CallsheetError with all errors of an invalid text.

    >>> from callsheet.apps.operations.reading import plan_text
    >>> print(draw(plan_text("respond 1")).drawn.splitlines()[0])
    graph TD
    """
    plan = text.require()
    if shape is DrawingFormat.MERMAID:
        from callsheet.views.mermaid import mermaid  # noqa: PLC0415 - one of three

        return Drawing(text, shape, mermaid(plan))
    if shape is DrawingFormat.GRAPH:
        from callsheet.views.lanes import sketch  # noqa: PLC0415 - one of three

        return Drawing(text, shape, "", sketch(plan))
    from callsheet.views.terminal import terminal_graph  # noqa: PLC0415 - one of three

    return Drawing(text, shape, terminal_graph(plan, ansi=ansi, columns=columns))
