"""Describes tools and operations for a model, in one compact line each.

Pure. In: declarations of tools; callsheet's own operations are defined here. Out: offers, each with its
line and the texts by which it can be found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from callsheet import lazy
from callsheet.authoring.compiler.goal_parts import Fields
from callsheet.ir import CallKind, call_kind
from callsheet.ports.models.prompts import one_line
from callsheet.ports.tools import ToolSpec

_PIECE = lazy.pattern(r"[A-Za-z]+|[ \t]+|\s|[^\sA-Za-z]")
_LETTERS = 7
"""Letters per token in a word; common words are one token whatever their length."""
_WIDE = 0x0800
"""From this code point on, a character may take up to three tokens."""


def estimate_tokens(text: str) -> int:
    """An upper estimate of a text's tokens.

    >>> estimate_tokens('S1: @read_file (path="notes.md") > $v1')
    20
    >>> estimate_tokens("")
    0
    """
    return sum(map(_tokens, _PIECE.findall(text)))


def _tokens(piece: str) -> int:
    first = piece[0]
    if first in " \t":  # a single blank is part of the next word's token
        return 0 if len(piece) == 1 else 1
    if first.isascii():
        return -(-len(piece) // _LETTERS) if first.isalpha() else 1
    return 3 if ord(first) >= _WIDE else 2


_MAX_DESCRIPTION = 90
_MAX_VALUES = 8
"""The most values of an enumeration that are listed."""
_MAX_LINE = 600
"""The most characters of one line, whatever a server declares."""
_NAME_COUNTS, _TEXT_COUNTS, _ARGUMENT_COUNTS = 2.0, 1.0, 0.5
_GIVES = lazy.pattern(r"(?:gives?|returns?|yields?|the result)\b", re.IGNORECASE)
_A_LIST = lazy.pattern(r"\b(?:gives?|returns?|yields?) an? list\b", re.IGNORECASE)
"""Describes the result, and says nothing about what to do."""
_SENTENCE = lazy.pattern(r"(?<=[.!?])\s")
_KINDS = {"integer": "int", "boolean": "bool", "array": "list", "object": "dict"}


@dataclass(frozen=True, slots=True)
class Offer:
    """Something that a plan may call.

    `name` is canonical, `line` is its line in the prompt, `about` are the texts by which it is found.
    `parameters` is the JSON schema of a tool's arguments, None for one of callsheet's own operations.
    """

    name: str
    line: str
    about: Fields
    parameters: Mapping[str, Any] | None = None

    @property
    def tokens(self) -> int:
        """The estimated tokens of its line."""
        return estimate_tokens(self.line) + 1


def offer_of(spec: ToolSpec) -> Offer | None:
    """A tool as an offer; None for an operation, which is defined in `OPERATIONS`."""
    if call_kind(spec.name) in (CallKind.MODEL, CallKind.AGENT, CallKind.TRANSFORM):
        return None
    about = (
        (spec.name.lower(), _NAME_COUNTS),
        (_A_LIST.sub("", spec.description[:2_000]), _TEXT_COUNTS),
        (" ".join(spec.parameter_names), _ARGUMENT_COUNTS),
    )
    return Offer(spec.name, line_of(spec), about, spec.parameters)


def line_of(spec: ToolSpec) -> str:
    """A tool on one line: how to call it, and what it does.

    >>> schema = {"properties": {"path": {"type": "string"}, "n": {"type": "integer"}}, "required": ["path"]}
    >>> line_of(ToolSpec("READ_FILE", "read_file", "Read a file. Slowly. Gives lines.", schema))
    '@read_file (path, n?: int) Read a file. Gives lines'
    """
    about = _summary_of(spec.description)
    call = f"@{spec.name.lower()} ({', '.join(_arguments(spec.parameters))})"
    line = one_line(f"{call} {about}" if about else call)
    return line if len(line) <= _MAX_LINE else line[: _MAX_LINE - 1] + "…"


def _summary_of(description: str) -> str:
    """The first sentence of a description and the one about the result, without the last full stop."""
    sentences = _SENTENCE.split(" ".join(description[:2_000].split()))
    gives = [sentence for sentence in sentences[1:] if _GIVES.match(sentence)][:1]
    return ". ".join(_short(sentence.rstrip(".")) for sentence in (*sentences[:1], *gives))


def _short(text: str) -> str:
    return text if len(text) <= _MAX_DESCRIPTION else text[: _MAX_DESCRIPTION - 1].rstrip() + "…"


def _arguments(parameters: Mapping[str, Any]) -> list[str]:
    """The arguments, required ones first, in the order in which a constrained answer has them."""
    properties = cast("Mapping[str, Any]", parameters.get("properties") or {})
    required = cast("list[str]", parameters.get("required") or [])
    must = [_argument(name, schema, "") for name, schema in properties.items() if name in required]
    return must + [
        _argument(name, schema, "?") for name, schema in properties.items() if name not in required
    ]


def _argument(name: str, schema: object, mark: str) -> str:
    kind = _kind(schema)
    return f"{name}{mark}: {kind}" if kind else f"{name}{mark}"


def _kind(schema: object) -> str:
    """The type of an argument; empty for strings, which are the most common."""
    if not isinstance(schema, Mapping):
        return "any"
    table = cast("Mapping[str, Any]", schema)
    if isinstance(table.get("enum"), list):
        values = cast("list[object]", table["enum"])
        summary = "|".join(json.dumps(value, ensure_ascii=False) for value in values[:_MAX_VALUES])
        return summary + ("|…" if len(values) > _MAX_VALUES else "")
    kinds = [kind for kind in _kinds_of(table) if kind != "null"]
    return "" if kinds == ["string"] else "|".join(_KINDS.get(kind, kind) for kind in kinds) or "any"


def _kinds_of(table: Mapping[str, Any]) -> list[str]:
    kind: Any = table.get("type")
    if isinstance(kind, str):
        return [kind]
    if isinstance(kind, list):
        return [str(each) for each in cast("list[object]", kind)]
    choices: Any = table.get("anyOf") or table.get("oneOf") or ()
    kinds: list[str] = []
    for choice in cast("list[object]", choices if isinstance(choices, list) else []):
        if isinstance(choice, Mapping):
            kinds += _kinds_of(cast("Mapping[str, Any]", choice))
    return list(dict.fromkeys(kinds))


def _operation(name: str, line: str, found_by: str) -> Offer:
    return Offer(name, line, ((name.removeprefix("LLM_").lower(), _NAME_COUNTS), (found_by, _TEXT_COUNTS)))


OPERATIONS: tuple[Offer, ...] = (
    _operation(
        "LLM_EXTRACT",
        "@llm_extract ($v1, target) Pick something out of a text",
        "take out pick of text value number name mentioned contained in results",
    ),
    _operation(
        "LLM_CLASSIFY",
        "@llm_classify ($v1, categories: list) Sort a text into one category",
        "sort into category categories kind kinds label as positive negative sentiment",
    ),
    _operation(
        "LLM_SUMMARIZE",
        "@llm_summarize ($v1, format?) Summarize texts",
        "summary summaries shorten in sentences brief overview what is about",
    ),
    _operation(
        "LLM_TRANSLATE",
        "@llm_translate ($v1, target_lang) Translate a text",
        "translation language into french german spanish italian english dutch chinese japanese norwegian",
    ),
    _operation(
        "LLM_EVALUATE",
        "@llm_evaluate ($v1, condition) TRUE or FALSE: whether something holds for a text",
        "judge whether decide assess true mentions sounds",
    ),
    _operation(
        "LLM_ANALYZE",
        "@llm_analyze ($v1, $v2, task) Compare or study texts",
        "compare comparison analysis study differences trends problems",
    ),
    _operation(
        "LLM_GENERATE",
        "@llm_generate (context=$v1, format) Write a text from material",
        "draft compose formulate phrase poem story letter notes from",
    ),
    _operation(
        "CALC",
        '@calc ("$v1 * 2") Compute with numbers: + - * /, round, sum, min, max, avg',
        "calculate compute sum total average percent round multiply divide add up plus minus times",
    ),
    _operation(
        "SELECT",
        '@select ($v1, query="[?open].name") Ask data for parts of it in JMESPath: filter, sort, length',
        "filter sort by count how many only those with highest lowest newest first",
    ),
)
"""callsheet's own operations that are offered: the common model operations, and transforms."""
