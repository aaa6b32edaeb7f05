"""`callsheet plan create`: compiles a goal into a dependency plan with a model, and saves it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_diagnostics, print_json, print_text, to_stderr
from callsheet.apps.cli.plan_argument import open_library
from callsheet.apps.rendering.values import preview

if TYPE_CHECKING:
    from callsheet.apps.setup import Setup
    from callsheet.ports.tools import ToolSpec


@click.command()
@click.argument("goal", metavar="GOAL")
@options.planning_tools
@click.option("--context", default="", metavar="TEXT", help="Additional data about the goal for the model.")
@click.option("--id", "plan_id", metavar="ID", help="The id of the plan; default: derived from its title.")
@click.option("--replace", "replaces", is_flag=True, help="Replace an existing plan of this id.")
@click.option("--prompt", "only_prompt", is_flag=True, help="Print the prompt for the model and stop.")
@options.plans_folder
@options.as_json
def create(
    goal: str,
    setup: Setup,
    context: str,
    plan_id: str | None,
    replaces: bool,
    only_prompt: bool,
    plans_folder: Path | None,
    as_json: bool,
) -> int:
    """Compile GOAL into a plan with a model, check it, and save it in the plan library. Nothing is executed.

    The model is asked once, with all reachable tools.
    """
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.store.library import check_plan_id  # noqa: PLC0415 - not for --help

    if plan_id is not None:
        check_plan_id(plan_id)
    if only_prompt:
        return _print_prompt(goal, context, setup, as_json=as_json)
    from callsheet.apps.operations.compiling import plan_for  # noqa: PLC0415 - as above

    result = run_async(plan_for(goal, context, setup))
    stored = result.saved(open_library(plans_folder), plan_id, replaces=replaces)
    if as_json:
        from callsheet.apps.operations.library import stored_json  # noqa: PLC0415 - as above

        print_json({**stored_json(stored), "goal": goal, "usage": result.used.to_json()})
        return Exit.OK
    from callsheet.views.terminal import terminal_graph  # noqa: PLC0415 - not for JSON

    print_diagnostics(result.doubts, None)
    click.echo(f"{stored.id}  {preview(result.plan.title or '')}".rstrip())
    click.echo(f"\n{terminal_graph(stored.require()).rstrip()}")
    to_stderr(f"used {result.used.describe()}")
    to_stderr(f"saved in {stored.place}; run it with: callsheet plan run {stored.id}")
    return Exit.OK


def _print_prompt(goal: str, context: str, setup: Setup, *, as_json: bool) -> Exit:
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - as above
    from callsheet.authoring.planner import plan_prompt  # noqa: PLC0415

    prompt = plan_prompt(goal, run_async(_specs(setup)), context)
    if as_json:
        print_json({"messages": prompt.messages})
    else:
        print_text("\n\n".join(message["content"] for message in prompt.messages))
        to_stderr("save the answer with: callsheet plan save -")
    return Exit.OK


async def _specs(setup: Setup) -> list[ToolSpec]:
    from callsheet.apps.toolbox import open_toolbox  # noqa: PLC0415 - as above

    async with open_toolbox(setup, calls=False) as toolbox:
        return [tool.spec for tool in toolbox.registry]
