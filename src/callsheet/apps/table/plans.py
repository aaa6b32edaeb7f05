"""Operations on the plan library: list, show, save, delete, create from a goal."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from callsheet.api.requirements import pins_for_library
from callsheet.apps.operations.compiling import plan_on
from callsheet.apps.operations.library import PlanList, StoredResult, listed_json, stored_json
from callsheet.apps.operations.schema import diagnostic_rows
from callsheet.apps.table.arguments import UNNAMED, GoalArguments, Line, PlanArguments
from callsheet.apps.table.operation import (
    HTTP_ONLY,
    MCP_ONLY,
    Arguments,
    Context,
    Hint,
    HttpFace,
    NoArguments,
    Operation,
    Reply,
    ToolFace,
    in_mcp,
    operation,
    with_diagnostics,
)
from callsheet.diagnostics import CallsheetError, Diagnostic, Source
from callsheet.store.library import Listed, StoredPlan, check_plan_id, read_params
from callsheet.views.terminal import terminal_graph

_WIDTH = 120
_TAG = "plans"


class PlanIdArguments(Arguments):
    """A plan of the library."""

    plan_id: str = Field(description="The id of a plan of the library, or ID@N for version N of it.")


class SavePlanArguments(PlanArguments):
    """A plan to save in the library."""

    name: Annotated[Line, MCP_ONLY, UNNAMED] = "<plan>"
    plan_id: str = Field("", description="The id to save it under; default: made from its title.")
    replace: Annotated[bool, in_mcp(description="Save a new version if the id exists.")] = Field(
        False, description="Whether an existing plan with this id gets a new version."
    )
    params: Annotated[list[Line] | None, HTTP_ONLY] = Field(
        None, description="Parameters of the plan: NAME[:KIND][=DEFAULT]."
    )
    goal: Annotated[
        Line | None,
        in_mcp(kind=Annotated[str, Field(max_length=20_000)], unset="", description="The goal of the plan."),
    ] = None


class CreateArguments(GoalArguments):
    """A goal to make a plan for."""

    plan_id: str = Field("", description="The id to save it under; default: made from its title.")


class SavedPlan(NamedTuple):
    """A plan that was saved, with the diagnostics of its text; `is_new` if there was none with its id."""

    stored: StoredPlan
    is_new: bool
    diagnostics: tuple[Diagnostic, ...]
    source: Source

    def to_json(self) -> StoredResult:
        """The plan as data."""
        return {**stored_json(self.stored), "diagnostics": diagnostic_rows(self.diagnostics, self.source)}


async def list_plans(context: Context, args: NoArguments) -> list[Listed]:
    """All plans, ordered by id."""
    return await context.host.beside(lambda: context.library().list())


def _list_json(plans: list[Listed]) -> PlanList:
    return {"plans": [listed_json(plan) for plan in plans]}


def _list_reply(context: Context, args: NoArguments, plans: list[Listed]) -> Reply:
    width = max((len(plan.id) for plan in plans), default=0)
    text = "\n".join(_line(plan, width) for plan in plans) or "no plans are saved yet; save_plan saves one"
    return Reply(text, _list_json(plans))


def _line(plan: Listed, width: int) -> str:
    steps = "errors" if plan.steps is None else f"{plan.steps} step{'' if plan.steps == 1 else 's'}"
    params = f"  ({', '.join(map(str, plan.params))})" if plan.params else ""
    return f"{plan.id.ljust(width)}  {steps}  {plan.title or plan.goal or ''}{params}".rstrip()


async def show_plan(context: Context, args: PlanIdArguments) -> StoredPlan:
    """A plan of the library; ID@N names a version."""
    return await context.host.beside(lambda: context.library().load(args.plan_id))


def _shown_reply(context: Context, args: PlanIdArguments, stored: StoredPlan) -> Reply:
    return Reply(f"{_summary(stored)}\n\n{stored.text}", stored_json(stored))


def _summary(stored: StoredPlan) -> str:
    plan = stored.require()
    head = f"{stored.name}  {plan.title or stored.goal or ''}".rstrip()
    return f"{head}\n\n{terminal_graph(plan, ansi=False, columns=_WIDTH).rstrip()}"


async def save_plan(context: Context, args: SavePlanArguments) -> SavedPlan:
    """Save a plan under an id, with the hashes of its tools' declarations."""
    plan_id = args.plan_id or None
    if plan_id is not None:
        check_plan_id(plan_id)
    params = None if args.params is None else read_params(args.params)
    names = [param.name for param in params or ()]
    text = await context.host.beside(lambda: args.text(names, named=plan_id))
    plan = text.require()
    declared = await context.declared_tools(text)

    def save() -> tuple[StoredPlan, bool]:
        library = context.library()
        before = library.ids()
        stored = library.save(
            plan,
            plan_id,
            text=None if text.is_json else text.source.text,
            syntax=text.syntax,
            replaces=args.replace,
            params=params,
            tools=pins_for_library(plan, declared.local),
            goal=args.goal,
            label=context.reads,
        )
        return stored, stored.id not in before

    stored, is_new = await context.host.beside(save)
    return SavedPlan(stored, is_new, text.diagnostics, text.source)


def _saved_reply(context: Context, args: SavePlanArguments, saved: SavedPlan) -> Reply:
    text = with_diagnostics(f"saved as {saved.stored.name}", saved.diagnostics, saved.source)
    return Reply(text, saved.to_json())


async def delete_plan(context: Context, args: PlanIdArguments) -> None:
    """Delete a plan with all its versions; the id must be complete."""

    def delete() -> None:
        library = context.library()
        if args.plan_id not in library.ids():
            message = f"the library has no plan {args.plan_id[:80]!a}"
            raise CallsheetError.single("PLN002", message, help="use the complete id")
        library.delete(args.plan_id)

    await context.host.beside(delete)


async def create_plan(context: Context, args: CreateArguments) -> StoredPlan:
    """Create a plan for a goal with the model of the server, and save it."""
    if args.plan_id:
        check_plan_id(args.plan_id)
    tools = context.host.tools
    created = await plan_on(await tools.for_plan(None), args.goal, args.context, tools.setup)
    library, plan_id = context.library(), args.plan_id or None
    return await asyncio.to_thread(created.saved, library, plan_id, label=context.reads)


def _created_reply(context: Context, args: CreateArguments, stored: StoredPlan) -> Reply:
    text = f"{_summary(stored)}\n\nrun it with plan_execute, plan_id {stored.id}"
    return Reply(text, stored_json(stored))


PLAN_OPERATIONS: tuple[Operation[Any, Any], ...] = (
    operation(
        list_plans,
        result=PlanList,
        to_json=_list_json,
        http=HttpFace(
            method="GET",
            path="/v1/plans",
            summary="List the plans of the library",
            tag=_TAG,
            responses={200: "The plans."},
            problems=(422,),
        ),
        mcp=ToolFace(
            name="list_plans",
            title="List the plans",
            description="List the plans of the library: id, steps, title or goal, parameters.",
            hint=Hint.READ_ONLY,
            reply=_list_reply,
        ),
    ),
    operation(
        show_plan,
        result=StoredResult,
        to_json=stored_json,
        http=HttpFace(
            method="GET",
            path="/v1/plans/{plan_id}",
            summary="Show a plan of the library",
            tag=_TAG,
            responses={200: "The plan."},
            problems=(404, 422),
        ),
        mcp=ToolFace(
            name="show_plan",
            title="Show a plan",
            description="Show a plan of the library: its steps as a graph, its text, parameters and tools.",
            hint=Hint.READ_ONLY,
            reply=_shown_reply,
        ),
    ),
    operation(
        save_plan,
        http=HttpFace(
            method="PUT",
            path="/v1/plans/{plan_id}",
            summary="Save a plan in the library",
            tag=_TAG,
            responses={200: "The plan.", 201: "The new plan."},
            status=lambda saved: 201 if saved.is_new else 200,
            problems=(404, 409),
        ),
        mcp=ToolFace(
            name="save_plan",
            title="Save a plan",
            description="Save a plan in the library, to run it by its id.",
            hint=Hint.ADDS,
            reply=_saved_reply,
        ),
    ),
    operation(
        delete_plan,
        http=HttpFace(
            method="DELETE",
            path="/v1/plans/{plan_id}",
            summary="Delete a plan of the library",
            tag=_TAG,
            responses={204: "The plan was deleted."},
            problems=(404, 422),
        ),
    ),
    operation(
        create_plan,
        result=StoredResult,
        to_json=stored_json,
        mcp=ToolFace(
            name="plan_create",
            title="Create a plan",
            description="Create a plan for a goal that takes several coordinated tool calls with the "
            "server's model: a graph of steps, saved in the library under an id. Nothing is run.",
            hint=Hint.ADDS,
            reply=_created_reply,
        ),
    ),
)
"""The operations on the plan library."""
