"""The MCP tools that make plans and save them in the plan library."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from callsheet.api.requirements import pins_for_library
from callsheet.apps.compiling import ProofTerms, save_compiled
from callsheet.apps.mcp import arguments as given
from callsheet.apps.mcp.client_request import ClientRequest
from callsheet.apps.mcp.replies import Reply, with_diagnostics
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.mcp.text_tools import plan_text_of
from callsheet.apps.mcp.tool import ADDS, READ_ONLY, READ_ONLY_OPEN_WORLD, ToolDefinition
from callsheet.apps.operations import json_schema, schemas
from callsheet.apps.operations.compiling import compile_text
from callsheet.apps.operations.creating import plan_on
from callsheet.apps.operations.plans import listed_json, stored_json
from callsheet.diagnostics import to_json
from callsheet.store.library import Listed, StoredPlan, check_plan_id
from callsheet.views.terminal import terminal_graph

_WIDTH = 120


async def create_plan(
    server_context: ServerContext, goal: str, context: str, plan_id: str = ""
) -> StoredPlan:
    """Create a plan for a goal with the model and save it; raises CallsheetError as `plan_on`."""
    created = await plan_on(await server_context.toolbox(), goal, context, server_context.setup)
    return await asyncio.to_thread(created.saved, server_context.library, plan_id or None)


async def _create(server_context: ServerContext, args: given.CreateArguments, caller: ClientRequest) -> Reply:
    if args.plan_id:
        check_plan_id(args.plan_id)
    stored = await create_plan(server_context, args.goal, args.context, args.plan_id)
    return Reply(
        f"{_plan_summary(stored)}\n\nrun it with plan_execute, plan_id {stored.id}", stored_json(stored)
    )


async def _compile(
    server_context: ServerContext, args: given.CompileArguments, caller: ClientRequest
) -> Reply:
    if args.save_as:
        check_plan_id(args.save_as)
    library = server_context.library if args.use_library else None
    policy = server_context.policy
    compiled = await compile_text(
        args.goal,
        server_context.setup,
        await server_context.toolbox(),
        context=args.context,
        library=library,
        terms=None if policy is None else ProofTerms(policy, server_context.host.journal.path),
    )
    data, text = compiled.to_json(), compiled.made.text or ""
    if args.save_as and compiled.ok:
        stored = await asyncio.to_thread(
            save_compiled, args.save_as, args.goal, compiled.made, server_context.library
        )
        data["saved"] = None if stored is None else {"id": stored.id, "version": stored.version}
    shown = text if compiled.ok else "the model's answer is not a plan that can run"
    return Reply(
        with_diagnostics(shown, compiled.diagnostics, compiled.source), data, is_error=not compiled.ok
    )


async def _list(server_context: ServerContext, args: given.NoneArguments, caller: ClientRequest) -> Reply:
    plans = await asyncio.to_thread(server_context.library.list)
    width = max((len(plan.id) for plan in plans), default=0)
    text = "\n".join(_line(plan, width) for plan in plans) or "no plans are saved yet; save_plan saves one"
    return Reply(text, {"plans": [listed_json(plan) for plan in plans]})


def _line(plan: Listed, width: int) -> str:
    steps = "errors" if plan.steps is None else f"{plan.steps} steps"
    params = f"  ({', '.join(map(str, plan.params))})" if plan.params else ""
    return f"{plan.id.ljust(width)}  {steps}  {plan.title or plan.goal or ''}{params}".rstrip()


async def _show(server_context: ServerContext, args: given.PlanIdArguments, caller: ClientRequest) -> Reply:
    stored = await asyncio.to_thread(server_context.library.load, args.plan_id)
    return Reply(f"{_plan_summary(stored)}\n\n{stored.text}", stored_json(stored))


async def _save(server_context: ServerContext, args: given.SavePlanArguments, caller: ClientRequest) -> Reply:
    text = plan_text_of(args)
    plan = text.require()
    registry = (await server_context.declared_tools_for(text)).local
    is_text = not text.is_json
    save = partial(
        server_context.library.save,
        plan,
        args.plan_id or None,
        text=text.source.text if is_text else None,
        syntax=text.syntax,
        replaces=args.replace,
        tools=pins_for_library(plan, registry),
        goal=args.goal or None,
    )
    stored = await asyncio.to_thread(save)
    message = with_diagnostics(f"saved as {stored.name}", text.diagnostics, text.source)
    return Reply(message, stored_json(stored) | {"diagnostics": to_json(text.diagnostics, text.source)})


def _plan_summary(stored: StoredPlan) -> str:
    plan = stored.require()
    head = f"{stored.name}  {plan.title or stored.goal or ''}".rstrip()
    return f"{head}\n\n{terminal_graph(plan, ansi=False, columns=_WIDTH).rstrip()}"


PLAN_TOOLS: tuple[ToolDefinition[Any], ...] = (
    ToolDefinition(
        "compile_plan",
        "Compile a goal",
        "Compile a goal to a plan with the server's model, and check it against the available tools. A plan "
        "that was saved for the same goal is returned instead. Nothing is run.",
        given.CompileArguments,
        schemas.COMPILED,
        READ_ONLY_OPEN_WORLD,
        _compile,
    ),
    ToolDefinition(
        "plan_create",
        "Create a plan",
        "Create a plan for a goal that takes several coordinated tool calls with the server's model: a graph "
        "of steps, saved in the library under an id. Nothing is run.",
        given.CreateArguments,
        schemas.STORED,
        ADDS,
        _create,
    ),
    ToolDefinition(
        "list_plans",
        "List the plans",
        "List the plans of the library: id, steps, title or goal, parameters.",
        given.NoneArguments,
        json_schema.table({"plans": json_schema.rows(schemas.LISTED)}),
        READ_ONLY,
        _list,
    ),
    ToolDefinition(
        "show_plan",
        "Show a plan",
        "Show a plan of the library: its steps as a graph, its text, parameters and tools.",
        given.PlanIdArguments,
        schemas.STORED,
        READ_ONLY,
        _show,
    ),
    ToolDefinition(
        "save_plan",
        "Save a plan",
        "Save a plan in the library, to run it by its id.",
        given.SavePlanArguments,
        schemas.KEPT,
        ADDS,
        _save,
    ),
)
"""The tools that create and save plans."""
