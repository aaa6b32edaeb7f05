"""The page of the words of the language, from the tables that the parser, grammars and machine use."""

from __future__ import annotations

from pathlib import Path

from scripts.reference.tables import code, table

from callsheet.diagnostics import CODES
from callsheet.frontends.dag.fields import FAILURE_FIELDS, PLAN_FIELDS, STEP_FIELDS, Field
from callsheet.frontends.export.operations import OPERATIONS
from callsheet.frontends.ltp.words import CASTS_MEANT, CONTROL, RESERVED
from callsheet.frontends.micro.verbs import VERBS
from callsheet.ir.expr import Cast, CompareOp
from callsheet.ports.builtin import BuiltinSettings, builtin_tools
from callsheet.ports.tools import Tool, asking_tool
from callsheet.ports.transforms import transform_tools
from callsheet.ports.transforms.functions import FUNCTIONS, Function

_HEAD = """# Words of the language

Generated from the tables that the parser, the grammars for models and the machine use. [The
language](../language.md) describes what each construct means.
"""


def words_page() -> str:
    """The whole page."""
    return "\n".join(
        [
            _HEAD,
            "## Actions\n\n" + table(["word", "written"], [[code(n), code(w)] for n, w in CONTROL.items()]),
            f"Names that no tool can have: {', '.join(map(code, sorted(RESERVED)))}.\n",
            "## Conditions\n\n" + table(["operator"], [[code(op.value)] for op in CompareOp]),
            _casts(),
            _loose(),
            "## Model operations\n\n" + _operations(),
            "## Built-in tools\n\n" + _tools(),
            "## Functions of `@SELECT`, in addition to those of JMESPath\n\n" + _functions(),
            "## Verbs of Micro-CLI\n\n" + _verbs(),
            "## Fields of JSON plans\n\n" + _fields("of the plan", PLAN_FIELDS),
            _fields("of a step", STEP_FIELDS),
            _fields("of `on_fail`", FAILURE_FIELDS),
        ]
    )


def _casts() -> str:
    meant = {cast: [word for word, own in CASTS_MEANT.items() if own == cast.value] for cast in Cast}
    rows = [[code(f":{cast.value}"), ", ".join(map(code, words))] for cast, words in meant.items()]
    return "## Types\n\n" + table(["cast", "also accepted, with a hint"], rows)


def _loose() -> str:
    rows = [[code(name), entry.title] for name, entry in CODES.items() if "LTP101" <= name <= "LTP199"]
    return "## Loose spellings that `callsheet fmt` corrects\n\n" + table(["hint", "what was written"], rows)


def _operations() -> str:
    rows = list[list[str]]()
    for name, shape in OPERATIONS.items():
        least, most = shape.data
        named = ", ".join(code(n if must else f"{n}?") for n, must in shape.named)
        rows.append([code(f"@{name}"), f"{least} to {most}" if least != most else str(least), named])
    return table(["operation", "values", "named"], rows)


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
