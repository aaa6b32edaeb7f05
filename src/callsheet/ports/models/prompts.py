"""The prompts of the model operations: version, and what each asks for.

A prompt holds the inputs and arguments of its own step and nothing else. Inputs are data: they
stand between marks that do not occur in them, and nothing in them is filled in or carried out.
What is longer than MAX_CHARACTERS is cut, and the prompt says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from callsheet.ir import JSON
from callsheet.machine import to_text

PROMPT_VERSION = 1
"""Changes whenever a text here does, so that a journal tells which prompts a run used."""

MAX_CHARACTERS = 200_000
"""How much of one input or argument a prompt holds."""

Messages: TypeAlias = "list[dict[str, str]]"
"""A conversation: each message has `role` and `content`."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What a model operation asks for.

    `task` is the instruction; `parameters` are its own arguments in the order in which they
    are told, with the words that introduce them; `inputs` names arguments that are data.
    """

    task: str
    parameters: tuple[tuple[str, str], ...] = ()
    inputs: tuple[str, ...] = ()


_ANSWER_ONLY = "Answer with the result alone: no introduction, no explanation."

OPERATIONS: Mapping[str, Operation] = {
    "LLM_EXTRACT": Operation(
        f"Extract what is asked for from the text. If it is not there, answer with nothing. {_ANSWER_ONLY}",
        (("target", "Extract"),),
    ),
    "LLM_CLASSIFY": Operation(
        f"Say which one of the categories fits the text best. {_ANSWER_ONLY}",
        (("categories", "Categories"),),
    ),
    "LLM_SUMMARIZE": Operation(f"Summarize the text. {_ANSWER_ONLY}", (("format", "Format"),)),
    "LLM_ANALYZE": Operation(f"Analyze the texts together. {_ANSWER_ONLY}", (("task", "Task"),)),
    "LLM_EVALUATE": Operation(
        "Decide whether the condition holds for the texts. Answer with one word: TRUE or FALSE.",
        (("condition", "Condition"),),
    ),
    "LLM_GENERATE": Operation(
        f"Write what is asked for, from the material. {_ANSWER_ONLY}", (("format", "Write"),), ("context",)
    ),
    "LLM_TRANSLATE": Operation(
        f"Translate the text. {_ANSWER_ONLY}", (("target_lang", "Into the language"),)
    ),
    "AGENT_CRITIQUE": Operation(
        "Review the text by the criteria: name each fault, where it is and how to mend it.",
        (("criteria", "Criteria"),),
    ),
    "CONSENSUS": Operation(
        "Find what the views share and how they can be brought together on the topic.",
        (("topic", "Topic"),),
    ),
    "SELF_REFINE": Operation(
        f"Improve the text towards the goal, and keep what is good in it. {_ANSWER_ONLY}",
        (("goal", "Goal"),),
    ),
}


def messages_for(tool: str, inputs: list[JSON], args: Mapping[str, Any]) -> Messages:
    """The conversation for one call of an operation: every input and argument, in order."""
    operation = OPERATIONS[tool]
    known = dict(operation.parameters)
    told = [(known[name], args[name]) for name in known if name in args]
    told += [(name, args[name]) for name in args if name not in known and name not in operation.inputs]
    data = [*inputs, *(args[name] for name in operation.inputs if name in args)]
    lines = [f"{label}: {_cut(_argument(value))}" for label, value in told]
    texts = [_cut(to_text(value)) for value in data]
    name = _mark(texts)
    marked = [
        f"<{name}>\n{text}\n</{name}>" if len(texts) == 1 else f"<{name} {n}>\n{text}\n</{name} {n}>"
        for n, text in enumerate(texts, 1)
    ]
    return [
        {"role": "system", "content": operation.task},
        {"role": "user", "content": "\n\n".join(["\n".join(lines), *marked] if lines else marked)},
    ]


def _argument(value: JSON) -> str:
    if isinstance(value, list):
        return ", ".join(to_text(item) for item in value)
    return to_text(value)


def _cut(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}… (cut here: {MAX_CHARACTERS} of {len(text)} characters)"


def _mark(texts: list[str]) -> str:
    """A name for the marks around inputs that no input closes from inside."""
    name, number = "text", 1
    while any(f"</{name}" in text for text in texts):
        number += 1
        name = f"text_{number}"
    return name
