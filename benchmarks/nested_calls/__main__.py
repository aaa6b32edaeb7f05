"""Runs gold sequences of nested calls as plans: `python -m benchmarks.nested_calls DATA.jsonl`.

DATA has one JSON object per line (id, goal, tools, calls with references, gold_answer, run). Sequences of
arithmetic are run by callsheet and their answers compared; all others are converted, parsed and checked.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple, cast

from benchmarks.nested_calls.convert import BadRow, Row, plan_of, rows_of
from benchmarks.nested_calls.functions import function_tools
from benchmarks.nested_calls.tokens import Cost, compiled, react

from callsheet import Runtime
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.ltp import format_plan, parse
from callsheet.passes import check
from callsheet.passes.finding import ToolSignature

SHORT = 2
"""Chains of up to so many calls are told apart."""


class Outcome(NamedTuple):
    """The result of a row: whether it is right, what was wrong, and the results by label."""

    row: Row | BadRow
    is_right: bool
    wrong: str
    results: dict[str, Any]


def converted(row: Row | BadRow) -> Outcome:
    """The row converted to text, parsed and checked."""
    if isinstance(row, BadRow):
        return Outcome(row, False, row.why, {})
    try:
        text = format_plan(plan_of(row))
    except (CallsheetError, ValueError, TypeError) as error:
        return Outcome(row, False, f"it cannot be written as a plan: {error}", {})
    result = parse(text)
    if result.plan is None:
        return Outcome(row, False, "; ".join(d.message for d in result.diagnostics), {})
    tools = {tool.canonical: ToolSignature.from_schema(tool.parameters) for tool in row.shapes()}
    wrong = [str(d.message) for d in check(result.plan, tools=tools) if d.is_error]
    return Outcome(row, not wrong and result.plan == plan_of(row), "; ".join(wrong), {})


def executed(row: Row, runtime: Runtime) -> Outcome:
    """The row's plan, parsed from its text and run, compared with the gold answer."""
    try:
        result = runtime.run_sync(format_plan(plan_of(row)))
    except (CallsheetError, ValueError, TypeError) as error:
        return Outcome(row, False, f"it cannot be run: {error}", {})
    if not result.ok:
        return Outcome(row, False, str(result.error), {})
    results = {call.label: result.variables.get(call.label) for call in row.calls}
    try:
        said, gold = float(cast("Any", result.response)), float(row.answer or 0.0)
    except (ValueError, TypeError):
        return Outcome(row, False, f"{result.response!r} is not {row.answer!r}", results)
    is_right = math.isclose(said, gold, rel_tol=1e-9, abs_tol=1e-9)
    return Outcome(row, is_right, "" if is_right else f"{said} is not {gold}", results)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; returns 1 if less than 99 % of the rows that can be run give their gold answer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path, help="the rows, one JSON object per line")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    said = parser.parse_args(arguments)
    rows = rows_of(said.data)
    runtime = Runtime(tools=function_tools(), builtins=False)
    run = [executed(row, runtime) for row in rows if isinstance(row, Row) and row.is_executable]
    read = [converted(row) for row in rows]
    for outcome in (*run, *read):
        if not outcome.is_right:
            print(f"  {outcome.row.id}: {outcome.wrong}", file=sys.stderr)
    answered, kept = (sum(outcome.is_right for outcome in outcomes) for outcomes in (run, read))
    figures: dict[str, Any] = {
        "executable": len(run),
        "gold answers": answered,
        "rows": len(read),
        "convert and validate": kept,
        "tokens": token_figures([outcome for outcome in run if outcome.is_right]),
    }
    print(json.dumps(figures, indent=1) if said.json else _table(figures))
    return 0 if answered >= 0.99 * len(run) and kept == len(read) else 1


def token_figures(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The savings of compiling compared with a loop, by the number of calls in a chain."""
    groups = {
        f"up to {SHORT} calls": [o for o in outcomes if _length(o) <= SHORT],
        f"more than {SHORT} calls": [o for o in outcomes if _length(o) > SHORT],
        "all": list(outcomes),
    }
    return [_group(name, found) for name, found in groups.items() if found]


def _length(outcome: Outcome) -> int:
    return len(outcome.row.calls) if isinstance(outcome.row, Row) else 0


def _group(name: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    made = [(o.row, o.results) for o in outcomes if isinstance(o.row, Row)]
    plans = [compiled(row) for row, _ in made]
    loops = {
        "loop": [react(row, results, side_by_side=False) for row, results in made],
        "loop, side by side": [react(row, results, side_by_side=True) for row, results in made],
    }
    figures: dict[str, Any] = {"chains": name, "goals": len(outcomes), "compiled": _means(plans)}
    for kind, costs in loops.items():
        pairs = list(zip(costs, plans, strict=True))
        figures[kind] = _means(costs) | {
            "times cold": round(median(cost.cold / plan.cold for cost, plan in pairs), 2),
            "times warm": round(median(cost.warm / plan.warm for cost, plan in pairs), 2),
        }
    return figures


def _means(costs: Sequence[Cost]) -> dict[str, float]:
    return {
        "calls": round(mean(cost.calls for cost in costs), 2),
        "cold": round(mean(cost.cold for cost in costs)),
        "warm": round(mean(cost.warm for cost in costs)),
        "new": round(mean(cost.new for cost in costs)),
        "written": round(mean(cost.written for cost in costs)),
    }


_HEAD = "  means a goal         calls    cold    warm     new  written  median times cold, warm"


def _table(figures: dict[str, Any]) -> str:
    lines = [
        f"{figures['gold answers']} of {figures['executable']} executable sequences give the gold answer",
        f"{figures['convert and validate']} of {figures['rows']} convert, read back to the same and validate",
        "tokens of 4 characters; cold: all; warm: those from a cache at a tenth; new: from no cache",
    ]
    for group in figures["tokens"]:
        lines += ["", f"{group['chains']} ({group['goals']} goals)", _HEAD]
        for kind in ("compiled", "loop", "loop, side by side"):
            one = group[kind]
            counts = f"{one['calls']:7} {one['cold']:7} {one['warm']:7} {one['new']:7} {one['written']:8}"
            times = "" if kind == "compiled" else f"  {one['times cold']:11} {one['times warm']:6}"
            lines.append(f"  {kind:19}{counts}{times}")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
