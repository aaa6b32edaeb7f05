"""`callsheet plan create`: a goal, told to a model with the tools that there are, becomes a kept plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exits import Exit
from callsheet.apps.cli.output import preview, print_diagnostics, print_json, print_text, say
from callsheet.apps.cli.plan.library import as_json as plan_json
from callsheet.apps.cli.plan.library import open_library

if TYPE_CHECKING:
    from callsheet.apps.session import Setup
    from callsheet.diagnostics import Diagnostic
    from callsheet.ir import Plan
    from callsheet.machine import Usage
    from callsheet.ports.tools import ToolSpec


@click.command()
@click.argument("goal", metavar="GOAL")
@options.planning_tools
@click.option("--context", default="", metavar="TEXT", help="Data about the goal that the model is told.")
@click.option("--id", "plan_id", metavar="ID", help="The plan's id; default: one made of its title.")
@click.option("--replace", "replaces", is_flag=True, help="Take the place of a plan of this id.")
@click.option("--prompt", "only_prompt", is_flag=True, help="Print what the model would be asked, and stop.")
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
    """Have a model make a plan for GOAL, check it, and keep it in the plan library. Nothing is run.

    The model is asked once, with all tools that are reachable here. It is that of --model, of
    CALLSHEET_MODEL or of [model] in config.toml.
    """
    from callsheet.apps.cli.loop import run_to_end  # noqa: PLC0415 - brings asyncio
    from callsheet.store.library import check_plan_id  # noqa: PLC0415 - not for --help

    if plan_id is not None:
        check_plan_id(plan_id)
    if only_prompt:
        return _print_prompt(goal, context, setup, as_json=as_json)
    plan, tools, doubts, used = run_to_end(_made(goal, context, setup))
    stored = open_library(plans_folder).save(plan, plan_id, replaces=replaces, tools=tools, goal=goal)
    if as_json:
        print_json({**plan_json(stored), "goal": goal, "usage": used.to_json()})
        return Exit.OK
    from callsheet.views.terminal import terminal_graph  # noqa: PLC0415 - not for JSON

    print_diagnostics(doubts, None)
    click.echo(f"{stored.id}  {preview(plan.title or '')}".rstrip())
    click.echo(f"\n{terminal_graph(stored.require()).rstrip()}")
    say(f"used {used.describe()}")
    say(f"kept in {stored.path}; run it with: callsheet plan run {stored.id}")
    return Exit.OK


async def _made(
    goal: str, context: str, setup: Setup
) -> tuple[Plan, dict[str, str | None], tuple[Diagnostic, ...], Usage]:
    """The checked plan, without an id, its tools, what was doubtful about them, and what it took."""
    from dataclasses import replace  # noqa: PLC0415 - as above

    from callsheet.api.checking import check_plan  # noqa: PLC0415
    from callsheet.api.compiling import offered  # noqa: PLC0415
    from callsheet.api.reach import pins_for_library  # noqa: PLC0415
    from callsheet.apps.models import required_planner  # noqa: PLC0415
    from callsheet.apps.session import open_toolbox  # noqa: PLC0415
    from callsheet.machine import Spent, Usage  # noqa: PLC0415
    from callsheet.ports.calls import CallContext  # noqa: PLC0415
    from callsheet.ports.models.failures import as_error  # noqa: PLC0415
    from callsheet.ports.models.model import ModelFailed  # noqa: PLC0415

    planner = required_planner(setup)
    async with open_toolbox(setup) as toolbox:
        registry = toolbox.registry
        call = CallContext("", "plan")
        try:
            plan = await planner.create(
                goal, context, offered(registry), call, lambda plan: check_plan(plan, registry)
            )
        except ModelFailed as error:
            raise as_error(error) from error
        used = Usage.of(call.spent or Spent())
        return replace(plan, id=None), pins_for_library(plan, registry), toolbox.diagnostics, used


def _print_prompt(goal: str, context: str, setup: Setup, *, as_json: bool) -> Exit:
    from callsheet.apps.cli.loop import run_to_end  # noqa: PLC0415 - as above
    from callsheet.authoring.planner import plan_prompt  # noqa: PLC0415

    prompt = plan_prompt(goal, run_to_end(_specs(setup)), context)
    if as_json:
        print_json({"messages": prompt.messages})
    else:
        print_text("\n\n".join(message["content"] for message in prompt.messages))
        say("save the answer with: callsheet plan save -")
    return Exit.OK


async def _specs(setup: Setup) -> list[ToolSpec]:
    from callsheet.apps.session import open_toolbox  # noqa: PLC0415 - as above

    async with open_toolbox(setup) as toolbox:
        return [tool.spec for tool in toolbox.registry]
