"""The documented `plan_to_mermaid`: a plan as a fenced Mermaid block."""

from __future__ import annotations

from callsheet.ir import Plan
from callsheet.views.mermaid import mermaid


def plan_to_mermaid(plan: Plan) -> str:
    """The plan as a Mermaid flowchart in a code fence, ready for Markdown.

    >>> print(plan_to_mermaid(Plan(())))
    ```mermaid
    graph TD
        empty["Empty plan"]
    ```
    """
    return f"```mermaid\n{mermaid(plan)}\n```"
