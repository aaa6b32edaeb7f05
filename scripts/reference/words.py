"""The page of the words of the language, from the tables that the parser, grammars and machine use."""

from __future__ import annotations

from pathlib import Path

from scripts.reference.tables import code, table

from callsheet.frontends.dag.fields import FAILURE_FIELDS, PLAN_FIELDS, STEP_FIELDS, Field
from callsheet.frontends.ltp.words import RESERVED
from callsheet.frontends.micro.verbs import VERBS
from callsheet.ports.builtin import BuiltinSettings, builtin_tools
from callsheet.ports.tools import Tool, asking_tool
from callsheet.ports.transforms import transform_tools
from callsheet.ports.transforms.functions import FUNCTIONS, Function

_HEAD = """# Tools, functions, verbs and fields

Generated from the tables of the machine and the parsers. [The language](../blocks.md) and
[version 1](../language.md) say what plans are made of.
"""


def words_page() -> str:
    """The whole page."""
    return "\n".join(
        [
            _HEAD,
            "## Built-in tools\n\n" + _tools(),
            f"Names that no tool can have: {', '.join(map(code, sorted(RESERVED)))}.\n",
            "## Functions of `@SELECT`, in addition to those of JMESPath\n\n" + _functions(),
            "## Verbs of Micro-CLI\n\n" + _verbs(),
            "## Fields of JSON plans\n\n" + _fields("of the plan", PLAN_FIELDS),
            _fields("of a step", STEP_FIELDS),
            _fields("of `on_fail`", FAILURE_FIELDS),
        ]
    )


def _tools() -> str:
    tools = [
        *builtin_tools(BuiltinSettings(workspace=Path(), data=Path("data"))),
        *transform_tools(),
        asking_tool(),
    ]
    return table(["tool", "arguments", "effect", "what it does"], [_tool(tool) for tool in tools])


def _tool(tool: Tool) -> list[str]:
    spec = tool.spec
    required = spec.parameters.get("required", [])
    names = [name if name in required else f"{name}?" for name in spec.parameters.get("properties", {})]
    return [code(f"@{spec.name}"), ", ".join(map(code, names)), spec.effect.value, spec.description]


def _functions() -> str:
    return table(["function", "arguments"], [[code(name), _arguments(f)] for name, f in FUNCTIONS.items()])


def _arguments(function: Function) -> str:
    kinds = [" or ".join(sorted(kinds)) if len(kinds) < 6 else "any" for kinds in function.kinds]
    shown = [kind if place < function.least else f"[{kind}]" for place, kind in enumerate(kinds)]
    return ", ".join([*shown, *(["…"] if function.more else [])])


def _verbs() -> str:
    return table(["written", "is"], [[code(verb.usage), code(f"@{verb.tool}")] for verb in VERBS.values()])


def _fields(of: str, fields: tuple[Field, ...]) -> str:
    rows = [[code(f.name), "yes" if f.is_required else "", f.holds, f.meaning] for f in fields]
    return table([of, "required", "holds", "for"], rows)
