"""Renders the labels of a plan's data flow: trust and readers of what each step reads and returns.

In: a plan, and the labels of its steps from the policy proof. Out: text, a Mermaid flowchart or JSON data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap

from callsheet.ir import Plan, Step
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.passes.verify import StepLabels
from callsheet.views.columns import cut, escape_label, printable
from callsheet.views.describe import (
    LTP,
    ActionTexts,
    Wording,
    describe_action,
    describe_guard,
    describe_output,
    wording_of,
)
from callsheet.views.mermaid import mermaid, node_names

_WIDEST = 100
_NODE_WIDTH = 110
_CLASSES = {
    "plain": "fill:#eef6ee,stroke:#3b7a3b,color:#111",
    "untrusted": "fill:#fff4d6,stroke:#a06a00,color:#111",
    "private": "fill:#e3ecfb,stroke:#2b5aa0,color:#111",
    "both": "fill:#ece3fb,stroke:#6a3ba0,color:#111",
    "refused": "fill:#fbe0e0,stroke:#b00020,stroke-width:3px,color:#111",
    "legend": "fill:none,stroke:none",
}
_NODE = re.compile(r'(?P<start>\s+(?P<name>\w+)\(?\[")(?P<label>.*)(?P<end>"\]\)?)')

LEGEND = """\
T trusted, U untrusted; pub readable by everybody, priv by the user, the model and the readers that the policy
trusts, secret by nobody. The label of a result combines those of all its sources."""


def labels_text(
    plan: Plan,
    steps: Sequence[StepLabels],
    refused: Mapping[str, Sequence[str]],
    asked: Mapping[str, Sequence[str]],
) -> str:
    """Returns each step with the labels of what it reads, of the data that decides about it, of its result.

    `refused` has the policy's objections by step id, `asked` the reasons why a step needs approval.
    """
    lines: list[str] = []
    words, texts = wording_of(plan), ActionTexts(plan, _WIDEST)
    for step, labels in zip(plan.steps, steps, strict=True):
        heading = texts.of(step.id) if plan.in_python else _heading(step)
        lines.append(cut(f"{step.id}: {heading}", _WIDEST))
        lines.extend(f"    {line}" for line in _lines(step, labels, words))
        lines.extend(f"    {words.prose(line)}" for line in _verdicts(step, refused, asked))
    return "\n".join([*lines, "", LEGEND])


def _heading(step: Step) -> str:
    guard = describe_guard(step) if step.foreach is not None or step.condition is not None else ""
    text = f"{guard} THEN {describe_action(step.action)}" if guard else describe_action(step.action)
    return printable(f"{text} {describe_output(step)}" if step.output is not None else text)


def _lines(step: Step, labels: StepLabels, words: Wording) -> Iterator[str]:
    if labels.reads:
        names = {name: words.variable(name) for name, _ in labels.reads}
        if words is not LTP:  # arguments are no variables
            names = {name: said.removeprefix("$") for name, said in names.items()}
        yield f"reads    {', '.join(f'{names[name]} {label}' for name, label in labels.reads)}"
    if labels.pc != LITERAL:
        yield f"decided  by {labels.pc} data"
    if step.call is not None:
        because = f", because of {', '.join(labels.because)}" if labels.because else ""
        yield f"returns  {labels.result}{because}"


def labels_mermaid(
    plan: Plan,
    steps: Sequence[StepLabels],
    refused: Mapping[str, Sequence[str]],
    asked: Mapping[str, Sequence[str]],
) -> str:
    """Returns a Mermaid flowchart with the lines of `labels_text` in each node.

    The colour of a node follows from the label of its result; refused steps are red.
    """
    nodes = {
        name: (step, labels) for name, step, labels in zip(node_names(plan), plan.steps, steps, strict=True)
    }
    words, lines = wording_of(plan), list[str]()
    for line in mermaid(plan).splitlines():
        node = _NODE.fullmatch(line)
        if node is not None and node["name"] in nodes:
            step, labels = nodes[node["name"]]
            texts = [*_lines(step, labels, words), *map(words.prose, _verdicts(step, refused, asked))]
            label = "<br/>".join([node["label"], *_escape_lines(texts)])
            line = f"{node['start']}{label}{node['end']}"  # noqa: PLW2901 - the same line, longer
        lines.append(line)
    lines.append(f'    legend["{"<br/>".join(_escape_lines(LEGEND.splitlines()))}"]')
    lines += [f"    classDef {name} {style}" for name, style in _CLASSES.items()]
    lines += [
        f"    class {name} {'refused' if step.id in refused else _class(_label_of(step, labels))}"
        for name, (step, labels) in nodes.items()
    ]
    return "\n".join([*lines, "    class legend legend"])


def _verdicts(
    step: Step, refused: Mapping[str, Sequence[str]], asked: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yields the reasons for an approval of a step, then the objections to it."""
    yield from (f"needs approval: {printable(why)}" for why in asked.get(step.id, ()))
    yield from (f"✗ {printable(why)}" for why in refused.get(step.id, ()))


def _escape_lines(texts: Iterable[str]) -> list[str]:
    """Returns the lines escaped for a node's label and wrapped, so that none is cut."""
    return [escape_label(line) for text in texts for line in wrap(" ".join(text.split()), _NODE_WIDTH)]


def _label_of(step: Step, labels: StepLabels) -> Label:
    """Returns the label of a call's result; for any other action, the join of the labels it reads."""
    return labels.result if step.call is not None else join(label for _, label in labels.reads)


def _class(label: Label) -> str:
    if label.is_public:
        return "untrusted" if label.untrusted else "plain"
    return "both" if label.untrusted else "private"


def labels_json(steps: Sequence[StepLabels]) -> list[dict[str, object]]:
    """Returns the labels of the steps as JSON data, without verdicts."""
    return [
        {
            "step": labels.step,
            "reads": {name: str(label) for name, label in labels.reads},
            "decided_by": str(labels.pc),
            "gives": str(labels.result),
            "because": list(labels.because),
        }
        for labels in steps
    ]
