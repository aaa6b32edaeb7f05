"""Endpoints on runs: list, start, read, cancel, resume, decide, answer."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, get_args

from starlette.responses import Response

from callsheet.api.policies import load_policy
from callsheet.apps.hosting import Host, ResumeOptions, RunRequest, Started
from callsheet.apps.http import bodies, responses
from callsheet.apps.http.endpoint import ApiRequest, Empty, Endpoint, ResponseSpec, json_response
from callsheet.apps.http.endpoints.plans import text_for
from callsheet.apps.http.problems import Problem, problem_json, status_of
from callsheet.apps.http.state import State
from callsheet.apps.operations.outcomes import ask_json, doubt_json, run_doubt_json
from callsheet.apps.operations.run_details import run_details, run_details_json
from callsheet.apps.operations.runs import plan_name, run_names, shown_outcome, stored_statuses
from callsheet.apps.rendering.values import iso
from callsheet.diagnostics import CallsheetError, Source, to_json
from callsheet.machine import Decision, Limits, TookPlace
from callsheet.machine.approvals import approval_timeouts
from callsheet.runtime.answers import Answer as Said
from callsheet.runtime.answers import PendingAsk
from callsheet.runtime.doubt import Resolution, RunOutcome
from callsheet.runtime.inbox import calls_in_doubt, inbox
from callsheet.store.runs import RunInfo, RunOutline

_TAG = "runs"
_STATUS_WORDS = tuple(
    word for status in get_args(bodies.Status) for word in (status, status.replace("_", " "))
)
_ACCEPTED = ResponseSpec(202, "The run is recorded in the journal and queued.", responses.STARTED)


async def list_runs(req: ApiRequest[Empty, bodies.RunsQuery]) -> Response:
    """The runs, newest first; `more` tells whether there are older ones."""
    state, query = req.state, req.query
    rows = await state.host.beside(lambda: _rows(state, query))
    return json_response({"runs": rows[: query.limit], "more": len(rows) > query.limit})


def _rows(state: State, query: bodies.RunsQuery) -> list[dict[str, Any]]:
    """The requested runs, plus one if there are more."""
    host = state.host
    before = None if query.before is None else host.info(query.before)
    statuses = None if query.status is None else stored_statuses(query.status)
    found = (run.run_id for run in host.journal.outlines(statuses, before) if _matches(host, run, query))
    infos = host.journal.infos(list(islice(found, query.limit + 1)))
    shown = [(info, host.status(info)) for info in infos]
    return [
        _row(info, status, shown_outcome(info, status), plan_name(host.journal, info))
        for info, status in shown
    ]


def _matches(host: Host, run: RunOutline, query: bodies.RunsQuery) -> bool:
    """Whether a run is wanted. Its status may cost a look at a lock, so it comes last."""
    if query.status is not None:
        status = host.status(run)
        if query.status not in (status, shown_outcome(run, status)):
            return False
    wanted = (query.text or "").strip().lower()
    if query.plan is None and not wanted:
        return True
    names = run_names(host.journal, run)
    if query.plan is not None and query.plan.lower() not in names.name.lower():
        return False
    if any(wanted in part.lower() for part in (run.run_id, names.name, names.goal or "")):
        return True
    if not any(wanted in word for word in _STATUS_WORDS):
        return False
    outcome = shown_outcome(run, host.status(run))
    return wanted in outcome or wanted in outcome.replace("_", " ")


def _row(info: RunInfo, status: str, outcome: str, name: str) -> dict[str, Any]:
    return {
        "run_id": info.run_id,
        "status": status,
        "outcome": outcome,
        "plan": name,
        "plan_hash": info.plan_hash,
        "created": iso(info.created),
        "updated": iso(info.updated),
        "events": info.events,
        "parent": None if info.forked_at is None else info.parent_run,
        "forked_at": info.forked_at,
    }


async def start_run(req: ApiRequest[bodies.RunBody, Empty]) -> Response:
    """Check a plan and queue its run; errors of the plan are reported before anything runs."""
    state, body = req.state, req.body
    given = {**body.inputs, **body.secrets}
    twice = sorted(body.inputs.keys() & body.secrets.keys())
    if twice:
        raise CallsheetError.single(
            "SEC005", f"{twice[0]} is given twice", help="give it once: in inputs or in secrets"
        )
    text = await text_for(state, body, given)
    request = RunRequest(
        text=text,
        inputs=given,
        secrets=frozenset(body.secrets),
        run_id=body.run_id,
        limits=changes_of(body.limits),
        approve=tuple(body.approve),
        approval_timeout=approval_timeouts(body.approval_timeout),
        on_in_doubt=body.on_in_doubt,
        policy=None if body.policy is None else load_policy(body.policy),
        approved=tuple(body.approved),
        accepts_changed_tools=body.accept_changed_tools,
        state=body.state,
    )
    started = await state.host.start(request)
    return accepted(state, started, text.source)


def accepted(state: State, started: Started, source: Source | None = None) -> Response:
    """The response for a run that has been recorded."""
    data = {
        "run_id": started.run_id,
        "status": state.host.stage(started.run_id),
        "diagnostics": to_json(started.diagnostics, source),
    }
    return json_response(data, 202, {"Location": f"/v1/runs/{started.run_id}"})


def changes_of(limits: bodies.LimitsBody) -> Mapping[str, Any]:
    """The limits that a request sets."""
    return limits.model_dump(exclude_none=True)


async def get_run(req: ApiRequest[Empty, Empty]) -> Response:
    """A run: its steps with their results, pending questions, usage."""
    state, run_id = req.state, req.path["run_id"]
    return json_response(await state.host.beside(lambda: _run(state, run_id)))


def _run(state: State, run_id: str) -> dict[str, Any]:
    host = state.host
    info = host.info(run_id)
    details = run_details_json(run_details(host.journal, info, host.journal.verify(run_id)))
    problem = host.problem(run_id)
    data = None if problem is None else problem_json(problem, status_of(problem))
    status = host.status(info)
    return {**details, "status": status, "outcome": shown_outcome(info, status), "problem": data}


async def cancel_run(req: ApiRequest[bodies.CancelBody, Empty]) -> Response:
    """End a run for good, in whatever process it runs; it makes no further calls."""
    host, run_id = req.state.host, req.path["run_id"]
    outcome = await host.cancel(run_id, req.body.reason, req.body.patience)
    if outcome is None:
        state = await host.beside(lambda: host.state(run_id))
        return json_response({"run_id": run_id, "status": state.status, "in_doubt": []}, 202)
    return json_response(await _state_json(req.state, host.masker.outcome(outcome)))


async def resume_run(req: ApiRequest[bodies.ResumeBody, Empty]) -> Response:
    """Resume a run where its journal ends."""
    state, body, run_id = req.state, req.body, req.path["run_id"]
    verdict = None if body.in_doubt is None else resolution(body.in_doubt)
    await state.host.resume(run_id, terms_of(body, verdict))
    return accepted(state, Started(run_id))


def terms_of(
    body: bodies.ResumeBody | bodies.RerunBody | bodies.ForkBody, verdict: Resolution | None = None
) -> ResumeOptions:
    """The options of a resumption."""
    from callsheet.apps.hosting.requests import tightened  # noqa: PLC0415 - beside its only use

    changes = changes_of(body.limits)

    def change(own: Limits) -> Limits:
        return tightened(own, changes)

    return ResumeOptions(
        in_doubt=verdict,
        accepts_changed_tools=body.accept_changed_tools,
        as_recorded=body.as_recorded,
        limits=change if changes else None,
    )


def resolution(body: bodies.InDoubtBody) -> Resolution:
    """The decision on calls in doubt."""
    return TookPlace(body.value) if body.decision == "value" else Decision(body.decision)


async def decide_calls(req: ApiRequest[bodies.DecideBody, Empty]) -> Response:
    """Decide on calls in doubt: those that were sent and have no outcome."""
    host, body, run_id = req.state.host, req.body, req.path["run_id"]
    outcome = await host.decide(run_id, body.calls, resolution(body), every=body.every)
    if body.resume and outcome.result is None and not outcome.in_doubt:
        await host.resume(run_id)
    return json_response(await _state_json(req.state, host.masker.outcome(outcome)))


async def _state_json(state: State, outcome: RunOutcome) -> dict[str, Any]:
    run = await state.host.beside(lambda: state.host.state(outcome.run_id))
    return {
        "run_id": outcome.run_id,
        "status": run.status,
        "in_doubt": [doubt_json(call) for call in outcome.in_doubt],
    }


async def approve_call(req: ApiRequest[bodies.ApproveBody, Empty]) -> Response:
    """Answer a question of a run, and resume the run if it waits for the answer."""
    body, run_id = req.body, req.path["run_id"]
    has_answer = "answer" in body.model_fields_set
    if body.deny and has_answer:
        raise Problem("API008", "deny and answer cannot be combined", "use one of them")

    def said(ask: PendingAsk) -> Said:
        if body.deny:
            return Said.deny(by=body.by, note=body.note)
        if has_answer:
            return Said.of(body.answer, by=body.by, note=body.note)
        return Said.approve(by=body.by, note=body.note)

    ask = await req.state.host.answer(run_id, said, body.key, digest=body.digest)
    return json_response(ask_json(ask))


async def list_asks(req: ApiRequest[Empty, Empty]) -> Response:
    """The unanswered questions and the calls in doubt of all runs, oldest first."""
    host, known = req.state.host, req.state.doubts
    asks = await host.beside(lambda: inbox(host.journal))
    doubts = await host.beside(lambda: calls_in_doubt(host.journal, known))
    return json_response(
        {
            "asks": [ask_json(ask) for ask in asks if not ask.is_answered],
            "in_doubt": [run_doubt_json(run_id, call) for run_id, calls in doubts.items() for call in calls],
        }
    )


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/v1/runs",
        summary="List runs",
        tag=_TAG,
        handler=list_runs,
        responses=(ResponseSpec(200, "The runs.", responses.RUNS),),
        query=bodies.RunsQuery,
        problems=(404,),
    ),
    Endpoint(
        method="POST",
        path="/v1/runs",
        summary="Start a run",
        tag=_TAG,
        handler=start_run,
        responses=(_ACCEPTED,),
        body=bodies.RunBody,
        problems=(403, 404, 409, 503),
    ),
    Endpoint(
        method="GET",
        path="/v1/runs/{run_id}",
        summary="Show a run",
        tag=_TAG,
        handler=get_run,
        responses=(ResponseSpec(200, "The run.", responses.RUN),),
        problems=(404, 409),
    ),
    Endpoint(
        method="POST",
        path="/v1/runs/{run_id}/cancel",
        summary="End a run for good",
        tag=_TAG,
        handler=cancel_run,
        responses=(
            ResponseSpec(200, "The run has ended; with its calls in doubt.", responses.CANCELLED),
            ResponseSpec(
                202,
                "Its process was asked to end it, but has not done so yet.",
                responses.CANCELLED,
            ),
        ),
        body=bodies.CancelBody,
        needs_body=False,
        problems=(404, 409, 503),
    ),
    Endpoint(
        method="POST",
        path="/v1/runs/{run_id}/resume",
        summary="Resume a run",
        tag=_TAG,
        handler=resume_run,
        responses=(_ACCEPTED,),
        body=bodies.ResumeBody,
        needs_body=False,
        problems=(404, 409, 503),
    ),
    Endpoint(
        method="POST",
        path="/v1/runs/{run_id}/decide",
        summary="Decide on calls in doubt",
        tag=_TAG,
        handler=decide_calls,
        responses=(ResponseSpec(200, "The calls still in doubt.", responses.DECIDED),),
        body=bodies.DecideBody,
        problems=(404, 409, 503),
    ),
    Endpoint(
        method="POST",
        path="/v1/runs/{run_id}/approve",
        summary="Answer a question of a run",
        tag=_TAG,
        handler=approve_call,
        responses=(ResponseSpec(200, "The question that was answered.", responses.ASK),),
        body=bodies.ApproveBody,
        needs_body=False,
        problems=(404, 409, 503),
    ),
    Endpoint(
        method="GET",
        path="/v1/inbox",
        summary="List pending questions and calls in doubt",
        tag=_TAG,
        handler=list_asks,
        responses=(ResponseSpec(200, "The questions and calls.", responses.INBOX),),
        problems=(409,),
    ),
)
