"""`callsheet explain-schedule`: shows what each step of a plan waits for, and why. Nothing is executed.

Servers are started only if --mcp-config is given. An unknown tool is assumed to write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.output import print_json, to_stderr
from callsheet.ir import Plan, canonical_tool_name

if TYPE_CHECKING:
    from callsheet.apps.setup import Setup
    from callsheet.machine.ahead.waits import StepSchedule


@click.command(name="explain-schedule")
@options.plan
@options.checked_tools
@click.option(
    "--approve",
    multiple=True,
    metavar="TOOL",
    help="Assume that each call of this tool needs approval; may be repeated.",
)
@options.as_json
def explain_schedule(plan: options.NamedPlan, setup: Setup, approve: tuple[str, ...], as_json: bool) -> None:
    """Show what each step of PLAN, a file or - for standard input, waits for with `--schedule auto`, and why.

    A step that only reads or computes starts as soon as its inputs are known and no earlier step can still
    change the control flow. A step that may write starts in its turn.
    """
    text = plan.read()
    rules = tuple(map(canonical_tool_name, (*setup.settings.approve, *approve)))
    schedule, absent = _schedule(text.require(), setup, rules)
    if as_json:
        steps = [step.to_json() for step in schedule]
        print_json({"plan": text.source.name, "unknown_tools": list(absent), "steps": steps})
        return
    for step in schedule:
        click.echo(step.describe())
    if absent:
        names = ", ".join(f"@{name}" for name in absent)
        to_stderr(
            f"unknown tools, which are assumed to write: {names}; give their files with --tools,"
            " or their servers with --mcp-config"
        )


def _schedule(plan: Plan, setup: Setup, rules: tuple[str, ...]) -> tuple[list[StepSchedule], tuple[str, ...]]:
    """The schedule, and the names of unknown tools."""
    from callsheet.api.requirements import absent_tools, facts_of  # noqa: PLC0415 - not for --help
    from callsheet.apps.tool_declarations import DeclaredTools  # noqa: PLC0415 - as above
    from callsheet.machine.ahead.waits import schedule_of  # noqa: PLC0415 - as above
    from callsheet.machine.approvals import covers  # noqa: PLC0415 - as above

    registry, _, _ = DeclaredTools(setup).tools_for(plan, asks_servers=bool(setup.mcp_configs))
    schedule = schedule_of(plan, facts_of(plan, registry), lambda tool: covers(rules, tool))
    return schedule, tuple(absent_tools(plan, registry))
