"""The pages of diagnostics: one per area, with the page of each code as `callsheet explain` prints it."""

from __future__ import annotations

import re
from itertools import groupby

from scripts.reference.tables import table

from callsheet.diagnostics import CODES, Code, explain

AREAS = {
    "AGT": "agents",
    "API": "the HTTP API",
    "CFG": "configuration and usage",
    "CHK": "checks of a plan",
    "CMP": "compiling a goal",
    "DAG": "JSON plans",
    "DIF": "differences between plans",
    "GRM": "flat JSON plans of models",
    "JRN": "the journal",
    "LSP": "the editor",
    "LTP": "LTP text",
    "MCP": "callsheet as an MCP server",
    "MDL": "models",
    "MIC": "Micro-CLI",
    "PLN": "the plan library and its planner",
    "PYT": "Python plans",
    "POL": "policies: 0xx the file, 1xx refusals",
    "RUN": "ends of runs",
    "SEC": "secrets and their keys",
    "TMP": "runs on Temporal",
    "TST": "tests of plans",
    "TOL": "tools and servers",
    "TRC": "exports of traces",
}


def code_pages() -> dict[str, str]:
    """A page for each area, and one that lists all codes."""
    areas = {area: list(codes) for area, codes in groupby(sorted(CODES.values(), key=_name), _area)}
    made = {f"codes-{area.lower()}.md": _area_page(area, codes) for area, codes in areas.items()}
    return {"codes.md": _list_page(areas), **made}


def _name(entry: Code) -> str:
    return entry.name


def _area(entry: Code) -> str:
    return entry.name[:3]


def _list_page(areas: dict[str, list[Code]]) -> str:
    parts = ["# Diagnostic codes\n\nEvery message has a code; `callsheet explain CODE` prints its page.\n"]
    for area, codes in areas.items():
        rows = [
            [f"[{entry.name}](codes-{area.lower()}.md#{entry.name.lower()})", entry.title] for entry in codes
        ]
        parts.append(f"## {area}: {AREAS[area]}\n\n{table(['code', 'meaning'], rows)}")
    return "\n".join(parts)


def _area_page(area: str, codes: list[Code]) -> str:
    parts = [f"# {area}: {AREAS[area]}\n"]
    for entry in codes:
        body = (explain(entry.name) or "").strip().split("\n", 1)
        text = body[1].strip() if len(body) > 1 else ""
        # no headings: the search would list each "Repair" before the page that explains
        text = re.sub(r"^##+ (.+)$", r"**\1**", text, flags=re.MULTILINE)
        text = re.sub(r"^```(\w+) (?:bad|good)$", r"```\1", text, flags=re.MULTILINE)
        parts.append(f"## {entry.name}: {entry.title} {{ #{entry.name.lower()} }}\n\n{text}\n")
    return "\n".join(parts)
