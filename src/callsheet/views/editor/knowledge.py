"""What is known of a plan beyond its text, and in words: tools, keywords, types, labels, the schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from callsheet.ir import Call, CallKind, Cast, ListExpr, Literal, Step, call_kind
from callsheet.ir.labels import Label
from callsheet.machine.ahead.waits import StepSchedule
from callsheet.passes.finding import OPERATIONS
from callsheet.passes.schema import wanted
from callsheet.passes.verify import StepLabels
from callsheet.ports.tools import ToolSpec


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Tools by canonical name; labels and schedules by step id.

    `policy` is the name of the policy of the labels, empty without one.
    """

    tools: Mapping[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    labels: Mapping[str, StepLabels] = field(default_factory=dict[str, StepLabels])
    schedule: Mapping[str, StepSchedule] = field(default_factory=dict[str, StepSchedule])
    policy: str = ""

    def read_label(self, step: str, variable: str) -> Label | None:
        """Returns the label of a variable that a step reads, or None if it is unknown."""
        known = self.labels.get(step)
        return None if known is None else dict(known.reads).get(variable)

    def result_label(self, step: str) -> Label | None:
        """Returns the label of a step's result, or None if it is unknown."""
        known = self.labels.get(step)
        return None if known is None else known.result


NOTHING = Knowledge()
"""No knowledge besides the text."""


_MOST_DESCRIPTION = 2_000
_ANY = wanted({})
"""The phrase for an argument of any type."""
_OPERATION_WORDS = {
    "LLM_EXTRACT": "Asks a model to extract something from a text.",
    "LLM_CLASSIFY": "Asks a model which of the categories fits.",
    "LLM_SUMMARIZE": "Asks a model for a summary.",
    "LLM_ANALYZE": "Asks a model to analyze data for a task.",
    "LLM_EVALUATE": "Asks a model whether a condition holds: TRUE or FALSE.",
    "LLM_GENERATE": "Asks a model to write a text.",
    "LLM_TRANSLATE": "Asks a model for a translation.",
    "AGENT_CRITIQUE": "Asks a model what is wrong with a text.",
    "CONSENSUS": "Asks a model what several texts agree on.",
    "SELF_REFINE": "Lets a model improve a text in rounds.",
    "AGENT_SOLVE": "Gives a goal to an agent with a limited number of turns.",
}
"""The purpose of each operation."""


class Parameter(NamedTuple):
    """A parameter: its type as a phrase, whether it is required, its description and JSON schema."""

    name: str
    takes: str
    is_required: bool
    about: str
    schema: Mapping[str, Any]


def parameters_of(tool: str, spec: ToolSpec | None) -> tuple[Parameter, ...]:
    """Returns the parameters of a tool or operation, in positional order."""
    operation = OPERATIONS.get(tool)
    if operation is not None:
        needed = {*operation.required, *operation.expected}
        return tuple(Parameter(name, "", name in needed, "", {}) for name in operation.names)
    if spec is None:
        return ()
    return tuple(_declared(spec))


def _declared(spec: ToolSpec) -> Iterator[Parameter]:
    properties = cast("Mapping[str, object]", spec.parameters.get("properties") or {})
    required: object = spec.parameters.get("required") or ()
    needed = set(cast("list[str]", required)) if isinstance(required, list | tuple) else set[str]()
    for name in spec.parameter_names:
        declared_schema = properties.get(name)
        schema = cast("Mapping[str, Any]", declared_schema if isinstance(declared_schema, Mapping) else {})
        about: object = schema.get("description")
        text = about if isinstance(about, str) else ""
        takes = wanted(schema) if schema else ""
        yield Parameter(name, "" if takes == _ANY else takes, name in needed, text, schema)


def signature(tool: str, spec: ToolSpec | None) -> str:
    """Returns the signature of a tool: `@ADD (a, b?)`."""
    names = (p.name if p.is_required else f"{p.name}?" for p in parameters_of(tool, spec))
    return f"@{tool} ({', '.join(names)})"


def summary(tool: str, spec: ToolSpec | None) -> str:
    """Returns the first line of a tool's description."""
    text = _OPERATION_WORDS.get(tool, "") if spec is None else spec.description
    return text.strip().partition("\n")[0]


def markdown(tool: str, spec: ToolSpec | None) -> str:
    """Returns signature, description and parameters of a tool; its own description is a quotation.

    >>> print(markdown("LLM_TRANSLATE", None).splitlines()[1])
    @LLM_TRANSLATE (target_lang)
    """
    lines = ["```ltp", signature(tool, spec), "```"]
    if spec is None:
        summary_text = _OPERATION_WORDS.get(tool)
        lines += ["", summary_text or "No tool with this name is known."]
    elif spec.description.strip():
        text = spec.description.strip()[:_MOST_DESCRIPTION]
        lines += ["", *(f"> {plain(line)}".rstrip() for line in text.splitlines())]
    parameters = parameters_of(tool, spec)
    if parameters:
        lines.append("")
    for parameter in parameters:
        need = "" if parameter.is_required else ", optional"
        takes = f": {plain(parameter.takes)}" if parameter.takes else ""
        about = f" — {plain(' '.join(parameter.about.split()))}" if parameter.about else ""
        lines.append(f"- `{parameter.name}`{takes}{need}{about}")
    lines += ["", _status_line(tool, spec)]
    return "\n".join(lines).rstrip()


def _status_line(tool: str, spec: ToolSpec | None) -> str:
    if spec is None:
        return {CallKind.MODEL: "_asks a model_", CallKind.AGENT: "_runs an agent_"}.get(call_kind(tool), "")
    refused = f" · **not trusted** ({spec.refusal.code})" if spec.refusal is not None else ""
    said = f" ({plain(spec.effect_source)})" if spec.effect_source else ""
    return f"_effect {spec.effect}{said} · {plain(spec.origin)}_{refused}"


def plain(text: str) -> str:
    """Escapes a text for Markdown, so that it contains no links, images, HTML or markup.

    >>> plain("![x](http://h.test) <b>*hi*")
    '!\\\\[x\\\\](http://h.test) \\\\<b\\\\>\\\\*hi\\\\*'
    """
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|~&" else c for c in text)


WORDS: Mapping[str, str] = {
    "PLAN_START": "The plan begins here; the text before it is its header and prose.",
    "PLAN_END": "The plan ends here; the text after it is ignored.",
    "@PARALLEL": "`@PARALLEL { … }`: the steps inside run concurrently. They read the variables as of "
    "the opening brace; their results are stored in text order.",
    "?IF": "`?IF (condition) THEN …`: the step runs only if the condition holds.",
    "?FOREACH": "`?FOREACH ($item IN $list) THEN …`: the step runs once for each item; its result is the "
    "list of their results.",
    "THEN": "Separates a guard from the guarded action.",
    "IN": "Separates a loop variable from the list or dict of the loop.",
    "ON_FAIL": "`ON_FAIL @RETRY(n)`, `ON_FAIL GOTO S9`, `ON_FAIL TERMINATE (…)`: what happens if the step "
    "fails. Without it, the error's text is stored and the plan continues.",
    "@RETRY": "`@RETRY(n, delay=s, backoff=x)`: up to n more attempts, with delays between them.",
    "GOTO": "`GOTO S5`: the plan continues at that step.",
    "TERMINATE": '`TERMINATE ("why")`: the plan ends early with this message.',
    "@RESPOND": "`@RESPOND (values)`: the plan ends with this answer: its values, joined with spaces. If "
    "all are empty and steps follow, it is skipped.",
    "RE-PLAN": "`RE-PLAN (reason)`: a model writes a new plan, which is checked like this one and continues "
    "with its variables.",
    "AND": "Both conditions hold.",
    "OR": "At least one of the conditions holds.",
    "NOT": "`NOT (condition)`: the condition does not hold.",
    "IS_EMPTY": "`IS_EMPTY(value)`: null, blank text, an empty list or dict. 0 and false are not empty.",
    "NOT_EMPTY": "`NOT_EMPTY(value)`: anything but null, blank text, an empty list or dict.",
    "CONTAINS": "`a contains b`: a substring of a text, an item of a list, a key of a dict.",
}
"""Explanations by canonical keyword, in capitals."""


_CASTS = {
    Cast.INT: "whole number",
    Cast.FLOAT: "number",
    Cast.BOOL: "true or false",
    Cast.LIST: "list",
    Cast.JSON: "JSON value",
}
_OPERATIONS = {
    "LLM_EVALUATE": "TRUE or FALSE",
    "CALC": "number",
    "FORMAT": "text",
    "SELECT": "JSON value",
    "ASK_HUMAN": "a person's answer",
}


def kind_of_result(step: Step) -> str:
    """Returns the type of a step's result as a phrase.

    >>> from callsheet.ir import Output
    >>> kind_of_result(Step("S1", Call("READ_FILE"), output=Output("n", Cast.INT)))
    'whole number'
    """
    if step.output is not None and step.output.cast is not None:
        each = _CASTS[step.output.cast]
    elif step.call is not None:
        each = _of_call(step.call)
    else:
        return "no result"
    return f"list, for each item: {each}" if step.foreach is not None else each


def _of_call(call: Call) -> str:
    if call.tool == "LLM_CLASSIFY":
        categories = dict(call.named).get("categories")
        items = categories.items if isinstance(categories, ListExpr) else ()
        words = [f'"{item.value}"' for item in items if isinstance(item, Literal)]
        return f"one of {', '.join(words)}" if words and len(words) == len(items) else "one of its categories"
    if call.tool in _OPERATIONS:
        return _OPERATIONS[call.tool]
    return "text" if call.kind is CallKind.MODEL else f"result of @{call.tool}"
