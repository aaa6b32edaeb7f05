"""Endpoints that branch runs off (rerun, fork), and that delete runs."""

from __future__ import annotations

from starlette.responses import Response

from callsheet.apps.hosting import ForkRequest, RerunRequest
from callsheet.apps.hosting.deleting import delete_run
from callsheet.apps.http import bodies, shapes
from callsheet.apps.http.page import Answer, Asked, Nothing, Page
from callsheet.apps.http.pages.runs import accepted, terms_of
from callsheet.apps.http.problems import Problem
from callsheet.runtime.forking import Edits

_ACCEPTED = Answer(202, "The new run is in the journal.", shapes.STARTED)


async def rerun(asked: Asked[bodies.RerunBody, Nothing]) -> Response:
    """Run a plan again from a step, as a new run that keeps the results of what came before.

    Where something ahead may change something outside, `effects` has to be true; else the answer is 409 and
    lists it.
    """
    state, body, run_id = asked.state, asked.body, asked.path["run_id"]
    await state.host.beside(lambda: state.host.info(run_id))
    request = RerunRequest(
        place=body.step,
        effects=body.effects,
        run_id=body.run_id,
        by=body.by,
        terms=terms_of(body.limits, accepts=body.accept_changed_tools),
    )
    return accepted(state, await state.host.rerun(run_id, request))


async def fork(asked: Asked[bodies.ForkBody, Nothing]) -> Response:
    """Go on from an event in a new run, with something edited there; as for `rerun` with `effects`."""
    state, body, run_id = asked.state, asked.body, asked.path["run_id"]
    await state.host.beside(lambda: state.host.info(run_id))
    arguments = {(each.step, each.name): each.value for each in body.arguments}
    if len(arguments) < len(body.arguments):
        raise Problem("API008", "arguments: one argument of a step is given twice")
    request = ForkRequest(
        at=body.at,
        edits=Edits(dict(body.variables), arguments, dict(body.steps), body.by),
        effects=body.effects,
        run_id=body.run_id,
        terms=terms_of(body.limits, accepts=body.accept_changed_tools),
    )
    return accepted(state, await state.host.fork(run_id, request))


async def delete(asked: Asked[Nothing, Nothing]) -> Response:
    """Delete a run that has ended, with all that the journal knows of it."""
    host, run_id = asked.state.host, asked.path["run_id"]
    await host.beside(lambda: delete_run(host.journal, host.info(run_id)))
    return Response(None, 204)


PAGES = (
    Page(
        method="DELETE",
        path="/v1/runs/{run_id}",
        summary="Delete a run",
        tag="runs",
        answer=delete,
        answers=(Answer(204, "It is gone.", None, ""),),
        problems=(404, 409, 503),
    ),
    Page(
        method="POST",
        path="/v1/runs/{run_id}/rerun",
        summary="Run again from a step",
        tag="runs",
        answer=rerun,
        answers=(_ACCEPTED,),
        body=bodies.RerunBody,
        problems=(404, 409, 503),
    ),
    Page(
        method="POST",
        path="/v1/runs/{run_id}/fork",
        summary="Go on from an event with something edited",
        tag="runs",
        answer=fork,
        answers=(_ACCEPTED,),
        body=bodies.ForkBody,
        problems=(404, 409, 503),
    ),
)
