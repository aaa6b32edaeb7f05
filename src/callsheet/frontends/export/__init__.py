"""Exports grammars and a JSON schema of plans, from a catalogue of tools, for constrained decoding.

Each export allows only plans that call tools of the catalogue with their own arguments. Those of version 1
are also held to values that the tools accept, and to variables that are set. Plans decoded with one are still
checked.
"""

from __future__ import annotations

from collections.abc import Sequence

from callsheet.frontends.export.blocks import structured_grammar
from callsheet.frontends.export.flat import plan_schema, read_flat
from callsheet.frontends.export.plans import plan_grammar
from callsheet.frontends.export.programs import program_grammar
from callsheet.frontends.export.rules import as_gbnf, as_lark, is_sentence
from callsheet.frontends.export.shapes import ExportOptions, Form, ToolShape

__all__ = [
    "ExportOptions",
    "Form",
    "ToolShape",
    "as_gbnf",
    "as_lark",
    "is_sentence",
    "plan_gbnf",
    "plan_grammar",
    "plan_lark",
    "plan_schema",
    "program_grammar",
    "read_flat",
    "structured_grammar",
]


def plan_lark(tools: Sequence[ToolShape], options: ExportOptions | None = None) -> str:
    """The grammar of plans in Lark's syntax for llguidance.

    llama.cpp, vLLM, SGLang and OpenAI's grammar tools accept it. Raises ValueError as `plan_grammar` does.

    >>> print(plan_lark([], ExportOptions(max_steps=1)).splitlines()[1])
    start: plan
    """
    return as_lark(plan_grammar(tools, options or ExportOptions()))


def plan_gbnf(tools: Sequence[ToolShape], options: ExportOptions | None = None) -> str:
    """The same grammar in llama.cpp's GBNF. Raises ValueError as `plan_grammar` does.

    >>> print(plan_gbnf([], ExportOptions(max_steps=1)).splitlines()[0])
    root ::= plan
    """
    return as_gbnf(plan_grammar(tools, options or ExportOptions()))
