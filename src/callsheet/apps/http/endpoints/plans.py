"""Endpoints of the plan library: list, read, save, delete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from starlette.responses import Response

from callsheet.api.requirements import pins_for_library
from callsheet.apps.http import bodies, responses
from callsheet.apps.http.endpoint import ApiRequest, Empty, Endpoint, ResponseSpec, json_response
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
    """A body with a plan: its text, or its id in the library."""

    @property
    def plan(self) -> str | None:
        """The text."""
        ...

    @property
    def plan_id(self) -> str | None:
        """The id in the library."""
        ...

    @property
    def syntax(self) -> bodies.SyntaxName | None:
        """The syntax of the text; None to detect it."""
        ...

    @property
    def name(self) -> str:
        """The name of the text in diagnostics."""
        ...


async def text_for(state: State, body: NamesPlan, variables: Iterable[str]) -> PlanText:
    """The plan of a body; raises Problem (API008) unless it has exactly one of text and id."""
    if (body.plan is None) == (body.plan_id is None):
        raise Problem("API008", "the plan must be given as `plan` or as `plan_id`", "use one of them")
    names = tuple(variables)
    if body.plan_id is not None:
        plan_id = body.plan_id
        return await state.host.beside(lambda: text_of_stored(state.library().load(plan_id), names))
    text = body.plan or ""
    if len(text) <= _SHORT_TEXT:
        return read_text(text, body, names)
    return await state.host.beside(lambda: read_text(text, body, names))


_SHORT_TEXT = 2_000
"""The length up to which reading a text costs less than handing it to a thread."""


def read_text(text: str, body: bodies.PlanBody | NamesPlan, variables: Iterable[str] = ()) -> PlanText:
    """The plan in a text of a body."""
    syntax = None if body.syntax is None else Syntax(body.syntax)
    return plan_text(text, body.name, syntax=syntax, variables=variables)


async def list_plans(req: ApiRequest[Empty, Empty]) -> Response:
    """All plans, ordered by id."""
    state = req.state
    listed = await state.host.beside(lambda: state.library().list())
    return json_response({"plans": [listed_json(each) for each in listed]})


async def get_plan(req: ApiRequest[Empty, Empty]) -> Response:
    """A plan of the library; ID@N names a version."""
    state, plan_id = req.state, req.path["plan_id"]
    return json_response(await state.host.beside(lambda: stored_json(state.library().load(plan_id))))


async def save_plan(req: ApiRequest[bodies.SavePlanBody, Empty]) -> Response:
    """Save a plan under an id, with the hashes of its tools' declarations."""
    state, body, plan_id = req.state, req.body, req.path["plan_id"]
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
    return json_response(stored_json(stored), 201 if is_new else 200)


async def delete_plan(req: ApiRequest[Empty, Empty]) -> Response:
    """Delete a plan with all its versions; the id must be complete."""
    state, plan_id = req.state, req.path["plan_id"]

    def delete() -> None:
        library = state.library()
        if plan_id not in library.ids():
            raise Problem("PLN002", f"the library has no plan {plan_id[:80]!a}", "use the complete id")
        library.delete(plan_id)

    await state.host.beside(delete)
    return Response(None, 204)


_PLAN = ResponseSpec(200, "The plan.", STORED)
ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/v1/plans",
        summary="List the plans of the library",
        tag=_TAG,
        handler=list_plans,
        responses=(ResponseSpec(200, "The plans.", responses.PLANS),),
        problems=(422,),
    ),
    Endpoint(
        method="GET",
        path="/v1/plans/{plan_id}",
        summary="Show a plan of the library",
        tag=_TAG,
        handler=get_plan,
        responses=(_PLAN,),
        problems=(404, 422),
    ),
    Endpoint(
        method="PUT",
        path="/v1/plans/{plan_id}",
        summary="Save a plan in the library",
        tag=_TAG,
        handler=save_plan,
        responses=(_PLAN, ResponseSpec(201, "The new plan.", STORED)),
        body=bodies.SavePlanBody,
        problems=(404, 409),
    ),
    Endpoint(
        method="DELETE",
        path="/v1/plans/{plan_id}",
        summary="Delete a plan of the library",
        tag=_TAG,
        handler=delete_plan,
        responses=(ResponseSpec(204, "The plan was deleted.", None, ""),),
        problems=(404, 422),
    ),
)
