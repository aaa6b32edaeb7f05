"""Endpoints that branch runs (rerun, fork) and delete runs."""

from __future__ import annotations

from starlette.responses import Response

from callsheet.apps.hosting import ForkRequest, RerunRequest
from callsheet.apps.hosting.recorded import delete_run
from callsheet.apps.http import bodies, responses
from callsheet.apps.http.endpoint import ApiRequest, Empty, Endpoint, ResponseSpec
from callsheet.apps.http.endpoints.runs import accepted, terms_of
from callsheet.apps.http.problems import Problem
from callsheet.runtime.forking import Edits

_ACCEPTED = ResponseSpec(202, "The new run is in the journal.", responses.STARTED)


async def rerun(req: ApiRequest[bodies.RerunBody, Empty]) -> Response:
    """Rerun a plan from a step as a new run, which keeps the earlier results.

    If later steps may change something outside, `effects` must be true; otherwise the response is 409, lists
    the calls as `effects`, and has a `consent`, the code that allows exactly these calls.
    """
    state, body, run_id = req.state, req.body, req.path["run_id"]
    await state.host.beside(lambda: state.host.info(run_id))
    request = RerunRequest(
        place=body.step,
        effects=body.effects or body.consent,
        run_id=body.run_id,
        by=body.by,
        terms=terms_of(body),
    )
    return accepted(state, await state.host.rerun(run_id, request))


async def fork(req: ApiRequest[bodies.ForkBody, Empty]) -> Response:
    """Continue from an event in a new run, with edits; `effects` as for rerun."""
    state, body, run_id = req.state, req.body, req.path["run_id"]
    await state.host.beside(lambda: state.host.info(run_id))
    arguments = {(each.step, each.name): each.value for each in body.arguments}
    if len(arguments) < len(body.arguments):
        raise Problem("API008", "arguments: an argument of a step occurs twice")
    request = ForkRequest(
        at=body.at,
        edits=Edits(dict(body.variables), arguments, dict(body.steps), body.by),
        effects=body.effects or body.consent,
        run_id=body.run_id,
        terms=terms_of(body),
    )
    return accepted(state, await state.host.fork(run_id, request))


async def delete(req: ApiRequest[Empty, Empty]) -> Response:
    """Delete a run that has ended, with all of its events."""
    host, run_id = req.state.host, req.path["run_id"]
    await host.beside(lambda: delete_run(host.journal, host.info(run_id)))
    return Response(None, 204)


ENDPOINTS = (
    Endpoint(
        method="DELETE",
        path="/v1/runs/{run_id}",
        summary="Delete a run",
        tag="runs",
        handler=delete,
        responses=(ResponseSpec(204, "The run was deleted.", None, ""),),
        problems=(404, 409, 503),
    ),
    Endpoint(
        method="POST",
        path="/v1/runs/{run_id}/rerun",
        summary="Rerun from a step",
        tag="runs",
        handler=rerun,
        responses=(_ACCEPTED,),
        body=bodies.RerunBody,
        problems=(404, 409, 503),
    ),
    Endpoint(
        method="POST",
        path="/v1/runs/{run_id}/fork",
        summary="Fork from an event with edits",
        tag="runs",
        handler=fork,
        responses=(_ACCEPTED,),
        body=bodies.ForkBody,
        problems=(404, 409, 503),
    ),
)
