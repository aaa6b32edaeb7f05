"""A plan as an Agent Skill: a folder whose `SKILL.md` has a model run the plan as a whole.

In: a plan, the name of the file with its text, and its inputs. Out: the text of `SKILL.md`. The steps are in
the plan, not in the words of the skill, so a model cannot skip or reorder them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from callsheet.ir import Plan
from callsheet.ir.types import type_text

_LONGEST_NAME = 64
_LONGEST = 900
"""The most characters of a description; skills may have 1,024."""


def skill_name(text: str) -> str:
    """A name as skills have them: lower-case letters, digits and hyphens.

    >>> skill_name("Answer the Mails!")
    'answer-the-mails'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.casefold()).strip("-")[:_LONGEST_NAME].strip("-") or "plan"


def skill_text(plan: Plan, file: str, inputs: Sequence[str]) -> str:
    """The text of `SKILL.md`; `inputs` are the names of variables that a plan of version 1 is given."""
    about = " ".join((plan.goal or plan.title or f"Runs the plan {file}.").split())[:_LONGEST]
    rows = _rows(plan, inputs)
    given = "".join(f" --var {name}=…" for name, _ in rows)
    table = "".join(f"- `{name}`: {what}\n" for name, what in rows) or "It has no inputs.\n"
    return f"""---
name: {skill_name(plan.title or plan.id or file)}
description: {_quoted(about)}
---

# {plan.title or plan.goal or file}

Run the plan as it is, as a whole. Do not make its calls yourself, in another order or in part: the plan is
checked, recorded and resumed by callsheet.

    callsheet run {file}{given}

## Inputs

{table}
Ask the user for what you do not know; do not invent an input. Lists and objects are written as JSON.

## After the run

- It prints the answer and the id of the run; `callsheet show RUN` tells what happened.
- If it waits for a person, say so and stop: only the user may answer (`callsheet inbox`).
- If it was interrupted, `callsheet resume RUN` continues it; no call is made twice. Never start it anew.
"""


def _rows(plan: Plan, inputs: Sequence[str]) -> list[tuple[str, str]]:
    if plan.tree is None:
        return [(name, "a value") for name in inputs]
    rows: list[tuple[str, str]] = []
    for one in plan.tree.inputs:
        about = f", {one.help}" if one.help else ""
        optional = "" if one.is_required else " (optional)"
        rows.append((one.name, f"{type_text(one.type)}{about}{optional}"))
    return rows


def _quoted(text: str) -> str:
    """A text as a YAML string in double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
