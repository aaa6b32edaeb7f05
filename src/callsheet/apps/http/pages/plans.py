"""Endpoints of the plan library: list, read, save, delete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from starlette.responses import Response

from callsheet.api.reach import pins_for_library
from callsheet.apps.http import bodies, shapes
from callsheet.apps.http.page import Answer, Asked, Nothing, Page, answered
from callsheet.apps.http.problems import Problem
from callsheet.apps.http.state import State
from callsheet.apps.operations.library import text_of_stored
from callsheet.apps.operations.plans import listed_json, stored_json
from callsheet.apps.operations.reading import PlanText, plan_text
from callsheet.apps.operations.schemas import STORED
from callsheet.frontends.spelling import Syntax
from callsheet.store.library import StoredPlan, check_plan_id, read_params

_TAG = "plans"


class NamesPlan(Protocol):
    """A body that names a plan: by its text, or by an id of the library."""

    @property
    def plan(self) -> str | None:
        """The text."""
        ...

    @property
    def plan_id(self) -> str | None:
        """The id."""
        ...

    @property
    def syntax(self) -> bodies.SyntaxName | None:
        """How the text is written."""
        ...

    @property
    def name(self) -> str:
        """What diagnostics call the text."""
        ...


async def text_for(state: State, body: NamesPlan, variables: Iterable[str]) -> PlanText:
    """The plan that a body names; raises Problem where it names none or two."""
    if (body.plan is None) == (body.plan_id is None):
        raise Problem("API008", "a plan is named by `plan` or by `plan_id`", "give one of them")
    names = tuple(variables)
    if body.plan_id is not None:
        plan_id = body.plan_id
        return await state.host.beside(lambda: text_of_stored(state.library().load(plan_id), names))
    return await state.host.beside(lambda: read_text(body.plan or "", body, names))


def read_text(text: str, body: bodies.PlanBody | NamesPlan, variables: Iterable[str] = ()) -> PlanText:
    """The plan in a text of a body."""
    syntax = None if body.syntax is None else Syntax(body.syntax)
    return plan_text(text, body.name, syntax=syntax, variables=variables)


async def list_plans(asked: Asked[Nothing, Nothing]) -> Response:
    """All plans, in the order of their ids."""
    state = asked.state
    listed = await state.host.beside(lambda: state.library().list())
    return answered({"plans": [listed_json(each) for each in listed]})


async def get_plan(asked: Asked[Nothing, Nothing]) -> Response:
    """A plan of the library, or with ID@N a version of it."""
    state, plan_id = asked.state, asked.path["plan_id"]
    return answered(await state.host.beside(lambda: stored_json(state.library().load(plan_id))))


async def save_plan(asked: Asked[bodies.SavePlanBody, Nothing]) -> Response:
    """Keep a plan under an id, with the hashes of the declarations of its tools."""
    state, body, plan_id = asked.state, asked.body, asked.path["plan_id"]
    check_plan_id(plan_id)
    params = None if body.params is None else read_params(body.params)
    names = [param.name for param in params or ()]
    syntax = None if body.syntax is None else Syntax(body.syntax)
    text = await state.host.beside(lambda: plan_text(body.plan, plan_id, syntax=syntax, variables=names))
    plan = text.require()
    toolbox = await state.host.tools.for_plan(plan)
    is_new = plan_id not in await state.host.beside(lambda: state.library().ids())

    def save() -> StoredPlan:
        return state.library().save(
            plan,
            plan_id,
            text=None if text.is_json else text.source.text,
            syntax=text.syntax,
            replaces=body.replace,
            params=params,
            tools=pins_for_library(plan, toolbox.registry),
            goal=body.goal,
        )

    stored = await state.host.beside(save)
    return answered(stored_json(stored), 201 if is_new else 200)


async def delete_plan(asked: Asked[Nothing, Nothing]) -> Response:
    """Delete a plan with all its versions; the whole id is needed."""
    state, plan_id = asked.state, asked.path["plan_id"]

    def delete() -> None:
        library = state.library()
        if plan_id not in library.ids():
            raise Problem("PLN002", f"the library has no plan {plan_id[:80]!a}", "give the whole id")
        library.delete(plan_id)

    await state.host.beside(delete)
    return Response(None, 204)


_PLAN = Answer(200, "The plan.", STORED)
PAGES = (
    Page(
        method="GET",
        path="/v1/plans",
        summary="List the plans of the library",
        tag=_TAG,
        answer=list_plans,
        answers=(Answer(200, "The plans.", shapes.PLANS),),
        problems=(422,),
    ),
    Page(
        method="GET",
        path="/v1/plans/{plan_id}",
        summary="Look at a plan of the library",
        tag=_TAG,
        answer=get_plan,
        answers=(_PLAN,),
        problems=(404, 422),
    ),
    Page(
        method="PUT",
        path="/v1/plans/{plan_id}",
        summary="Keep a plan in the library",
        tag=_TAG,
        answer=save_plan,
        answers=(_PLAN, Answer(201, "The plan, which is new.", STORED)),
        body=bodies.SavePlanBody,
        problems=(404, 409),
    ),
    Page(
        method="DELETE",
        path="/v1/plans/{plan_id}",
        summary="Delete a plan of the library",
        tag=_TAG,
        answer=delete_plan,
        answers=(Answer(204, "It is gone.", None, ""),),
        problems=(404, 422),
    ),
)
