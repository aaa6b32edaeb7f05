"""Describes a tool or a built-in operation in Markdown: signature, purpose, arguments.

In: a tool's declaration, or the name of an operation of callsheet itself. Out: text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from callsheet.ir import CallKind, call_kind
from callsheet.passes.schema import wanted
from callsheet.passes.signatures import OPERATIONS
from callsheet.ports.tools import ToolSpec

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
    return f"_effect {spec.effect} · {plain(spec.origin)}_{refused}"


def plain(text: str) -> str:
    """Escapes a text for Markdown, so that it contains no links, images, HTML or markup.

    >>> plain("![x](http://h.test) <b>*hi*")
    '!\\\\[x\\\\](http://h.test) \\\\<b\\\\>\\\\*hi\\\\*'
    """
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|~&" else c for c in text)
