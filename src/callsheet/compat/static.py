"""The documented static functions: validation and the Mermaid block."""

from __future__ import annotations

from callsheet.compat import validate
from callsheet.compat.models import LTPPlan
from callsheet.compat.rebuild import plan_of
from callsheet.ir import Plan
from callsheet.passes import ToolSignature
from callsheet.ports.transforms import literal_check, transform_tools
from callsheet.views.mermaid import mermaid


def mermaid_block(plan: Plan) -> str:
    """The plan as a Mermaid flowchart in a code fence, ready for Markdown.

    >>> print(mermaid_block(Plan(())))
    ```mermaid
    graph TD
        empty["Empty plan"]
    ```
    """
    return f"```mermaid\n{mermaid(plan)}\n```"


def validate_plan(plan: LTPPlan) -> list[str]:
    """The problems of a plan as texts; an empty list if there are none.

    Only the transforms are known: any other tool may exist and take any argument.
    """
    return validate.validate_plan(plan_of(plan), tools=_transforms())


def _transforms() -> dict[str, ToolSignature]:
    specs = [tool.spec for tool in transform_tools()]
    return {
        spec.name: ToolSignature.from_schema(spec.parameters, spec.effect, literal_check(spec.name))
        for spec in specs
    }


def plan_to_mermaid(plan: LTPPlan) -> str:
    """The plan as a fenced Mermaid flowchart."""
    return mermaid_block(plan_of(plan))
