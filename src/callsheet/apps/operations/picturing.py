"""Draws a plan: as a Mermaid flow chart, as terminal lines, or as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from callsheet.apps.operations.reading import PlanText
from callsheet.diagnostics import to_json


class Shape(StrEnum):
    """How a plan is drawn."""

    TERMINAL = "terminal"
    MERMAID = "mermaid"
    GRAPH = "graph"
    """Steps and arrows with their places."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A text and the drawing of its plan."""

    text: PlanText
    shape: Shape
    drawn: str
    graph: dict[str, Any] | None = None

    @property
    def fenced(self) -> str:
        """The drawing as a block of Markdown, which the documented `visualize_plan` gives."""
        language = "mermaid" if self.shape is Shape.MERMAID else "text"
        return f"```{language}\n{self.drawn.rstrip()}\n```"

    def to_json(self) -> dict[str, Any]:
        """The drawing as data."""
        rows = to_json(self.text.diagnostics, self.text.source)
        more = {} if self.graph is None else {"plan": self.graph}
        return {"ok": True, "format": str(self.shape), "graph": self.drawn, **more, "diagnostics": rows}


def draw(text: PlanText, shape: Shape = Shape.MERMAID, *, ansi: bool = False, columns: int = 120) -> Picture:
    """The plan of a text as a picture; tools are not looked at.

    `ansi` and `columns` are for a terminal. Raises CallsheetError with all that is wrong with a text that
    is no plan.

    >>> from callsheet.apps.operations.reading import plan_text
    >>> print(draw(plan_text("respond 1")).drawn.splitlines()[0])
    graph TD
    """
    plan = text.require()
    if shape is Shape.MERMAID:
        from callsheet.views.mermaid import mermaid  # noqa: PLC0415 - one of three

        return Picture(text, shape, mermaid(plan))
    if shape is Shape.GRAPH:
        from callsheet.views.sketch import sketch  # noqa: PLC0415 - one of three

        return Picture(text, shape, "", sketch(plan))
    from callsheet.views.terminal import terminal_graph  # noqa: PLC0415 - one of three

    return Picture(text, shape, terminal_graph(plan, ansi=ansi, columns=columns))
