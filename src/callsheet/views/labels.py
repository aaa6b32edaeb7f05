"""The labels of a plan's data: who may have written and who may read what each step takes and gives.

In: a plan and what the proof knows of its steps. Out: text, or a Mermaid flowchart. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from callsheet.ir import Call, Plan, Step
from callsheet.ir.labels import LITERAL, Label
from callsheet.passes.verify import StepLabels
from callsheet.views.columns import cut, printable
from callsheet.views.describe import describe_action, describe_guard, describe_output
from callsheet.views.mermaid import mermaid

_WIDEST = 100
_CLASSES = {
    "plain": "fill:#eef6ee,stroke:#3b7a3b,color:#111",
    "untrusted": "fill:#fff4d6,stroke:#a06a00,color:#111",
    "private": "fill:#e3ecfb,stroke:#2b5aa0,color:#111",
    "both": "fill:#ece3fb,stroke:#6a3ba0,color:#111",
    "refused": "fill:#fbe0e0,stroke:#b00020,stroke-width:3px,color:#111",
}
_NODE = re.compile(r"\s+(\w+)(?:\(\[|\[)\"")

LEGEND = """\
T trusted, U from outside; pub everybody may read it, priv the user, the model and whom the policy trusts,
secret nobody. What a step gives has the labels of all it is made of."""


def labels_text(
    plan: Plan,
    steps: Sequence[StepLabels],
    refused: Mapping[str, Sequence[str]],
    asked: Mapping[str, Sequence[str]],
) -> str:
    """Each step with the labels of what it reads, of what decides about it, and of what it gives.

    `refused` has by step id what speaks against it, `asked` why a person has to say yes first.
    """
    lines: list[str] = []
    for step, known in zip(plan.steps, steps, strict=True):
        lines.append(cut(f"{step.id}: {_head(step)}", _WIDEST))
        lines.extend(f"    {line}" for line in _lines(step, known))
        lines.extend(f"    asks   for a yes: {printable(why)}" for why in asked.get(step.id, ()))
        lines.extend(f"    ✗ {printable(why)}" for why in refused.get(step.id, ()))
    return "\n".join([*lines, "", LEGEND])


def _head(step: Step) -> str:
    guard = describe_guard(step) if step.foreach is not None or step.condition is not None else ""
    text = f"{guard} THEN {describe_action(step.action)}" if guard else describe_action(step.action)
    return printable(f"{text} {describe_output(step)}" if step.output is not None else text)


def _lines(step: Step, known: StepLabels) -> Iterator[str]:
    if known.reads:
        yield f"reads  {', '.join(f'${name} {label}' for name, label in known.reads)}"
    if known.way != LITERAL:
        yield f"done   only as {known.way} data decides"
    if isinstance(step.action, Call):
        because = f", because of {', '.join(known.because)}" if known.because else ""
        yield f"gives  {known.result}{because}"


def labels_mermaid(plan: Plan, steps: Sequence[StepLabels], refused: Mapping[str, Sequence[str]]) -> str:
    """The plan as a flowchart: steps are coloured by the labels of what they give, refused ones are red."""
    drawn = mermaid(plan)
    names = [match[1] for match in map(_NODE.match, drawn.splitlines()) if match is not None]
    lines = [f"    classDef {name} {style}" for name, style in _CLASSES.items()]
    for name, step, known in zip(names, plan.steps, steps, strict=False):
        lines.append(f"    class {name} {'refused' if step.id in refused else _class(known.result)}")
    return "\n".join([drawn, *lines])


def _class(label: Label) -> str:
    if label.is_public:
        return "untrusted" if label.untrusted else "plain"
    return "both" if label.untrusted else "private"


def labels_json(steps: Sequence[StepLabels]) -> list[dict[str, object]]:
    """The same as JSON data."""
    return [
        {
            "step": known.step,
            "reads": {name: str(label) for name, label in known.reads},
            "decided_by": str(known.way),
            "gives": str(known.result),
            "because": list(known.because),
        }
        for known in steps
    ]
