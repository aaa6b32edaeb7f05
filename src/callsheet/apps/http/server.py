"""Endpoints about the server: health, tools, policy, diagnostic pages, sign-in and sign-out."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, TypedDict

from pydantic import Field
from starlette.responses import Response

from callsheet import __version__
from callsheet.api.policies import SHIPPED, load_policy
from callsheet.apps.hosting import Stage
from callsheet.apps.http.clients import SESSION_SECONDS
from callsheet.apps.http.endpoint import (
    ApiRequest,
    Body,
    Empty,
    Endpoint,
    ResponseSpec,
    json_response,
    schema_here,
)
from callsheet.apps.http.guard import cookie_name, session_of
from callsheet.apps.http.people import Person, Right
from callsheet.apps.http.problems import Problem
from callsheet.apps.operations.printed_service_rows import ScheduleRow
from callsheet.apps.operations.schema import Count, Object
from callsheet.apps.operations.tools import ToolList, tools_json
from callsheet.apps.scheduling.scheduler import schedule_rows
from callsheet.policy.canon import policy_hash, policy_to_json

_TAG = "server"


class SignInBody(Body):
    """The token, or a one-time code."""

    secret: Annotated[str, Field(min_length=1, max_length=1_000)]


class Health(TypedDict):
    """The health of the server."""

    ok: bool
    version: str
    running: Count
    queued: Count


class ScheduleList(TypedDict):
    """The schedules of the project."""

    schedules: list[ScheduleRow]


class SessionResult(TypedDict):
    """Whether the client is signed in."""

    signed_in: bool
    seconds: Annotated[Count, "how long the session lasts"]
    person: Annotated[str, "who is signed in, where people are known by name"]
    roles: list[str]
    rights: Annotated[list[str], "what the person may do besides reading"]


class PolicyResult(TypedDict):
    """A policy."""

    name: str
    policy: Object
    hash: str


class Policies(TypedDict):
    """The policy in force, and those that a request may name."""

    in_force: Annotated[PolicyResult | None, "the policy of the server, if any"]
    shipped: list[str]


async def health(req: ApiRequest[Empty, Empty]) -> Response:
    """The health of the server and the number of its runs; needs no token."""
    stages = [run.stage for run in req.state.host.hosted_runs()]
    return json_response(
        {
            "ok": True,
            "version": __version__,
            "running": stages.count(Stage.RUNNING),
            "queued": stages.count(Stage.QUEUED),
        }
    )


async def list_tools(req: ApiRequest[Empty, Empty]) -> Response:
    """The tools that plans can call, including those of MCP servers."""
    return json_response(tools_json(await req.state.host.tools.for_plan(None)))


async def list_schedules(req: ApiRequest[Empty, Empty]) -> Response:
    """The schedules of the project that this server was started for; `callsheet schedule run` runs them."""
    state = req.state
    rows = await state.host.beside(lambda: schedule_rows(state.schedules, state.host.journal))
    return json_response({"schedules": rows})


async def get_policy(req: ApiRequest[Empty, Empty]) -> Response:
    """The policy of the server, and the shipped ones that a request may name if there is none."""
    policy = req.state.host.config.policy
    data: PolicyResult | None = None
    if policy is not None:
        shown = replace(policy, files=())
        data = {"name": policy.name, "policy": policy_to_json(shown), "hash": policy_hash(shown)}
    return json_response({"in_force": data, "shipped": list(SHIPPED)})


async def get_shipped(req: ApiRequest[Empty, Empty]) -> Response:
    """A shipped policy."""
    name = req.path["name"]
    if name not in SHIPPED:
        raise Problem("API009", f"there is no policy {name[:40]!a}", f"there are {', '.join(SHIPPED)}")
    policy = load_policy(name)
    return json_response({"name": name, "policy": policy_to_json(policy), "hash": policy_hash(policy)})


async def sign_in(req: ApiRequest[SignInBody, Empty]) -> Response:
    """Sign in with the token or a one-time code; the response sets a session cookie."""
    state, request = req.state, req.request
    host = request.headers.get("host", "").strip().lower()
    if state.keys.is_open:
        return json_response(_session(state.keys.operator))
    cookie = state.keys.sign_in(req.body.secret)
    if cookie is None:
        client = "" if request.client is None else request.client.host
        wait = state.guesses.wait(client)
        if wait:
            raise Problem("API006", "too many failed sign-ins", "wait", {"Retry-After": str(int(wait) + 1)})
        raise Problem("API015", "this is neither the token nor a valid code")
    response = json_response(_session(state.keys.person_of_session(cookie) or state.keys.operator))
    response.set_cookie(
        cookie_name(host),
        cookie,
        max_age=int(SESSION_SECONDS),
        httponly=True,
        samesite="strict",
        secure=request.headers.get("origin", "").startswith("https://"),
    )
    return response


async def sign_out(req: ApiRequest[Empty, Empty]) -> Response:
    """End the session of this browser."""
    request = req.request
    host = request.headers.get("host", "").strip().lower()
    req.state.keys.sign_out(session_of(request.headers, host))
    response = Response(None, 204)
    response.delete_cookie(cookie_name(host), httponly=True, samesite="strict")
    return response


async def session(req: ApiRequest[Empty, Empty]) -> Response:
    """Confirm that the request is authenticated, and tell as whom; otherwise the status is 401."""
    return json_response(_session(req.person))


def _session(person: Person) -> SessionResult:
    return {
        "signed_in": True,
        "seconds": int(SESSION_SECONDS),
        "person": person.name,
        "roles": sorted(person.roles),
        "rights": [str(right) for right in Right if person.may(right)],
    }


RESULTS = (Health, ScheduleList, SessionResult, PolicyResult, Policies)
ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/v1/health",
        summary="Check the health of the server",
        tag=_TAG,
        handler=health,
        responses=(ResponseSpec(200, "The server is running.", schema_here(Health)),),
        is_open=True,
    ),
    Endpoint(
        method="GET",
        path="/v1/tools",
        summary="List tools",
        tag=_TAG,
        handler=list_tools,
        responses=(ResponseSpec(200, "The tools.", schema_here(ToolList)),),
        problems=(422,),
    ),
    Endpoint(
        method="GET",
        path="/v1/schedules",
        summary="List schedules",
        tag=_TAG,
        handler=list_schedules,
        responses=(ResponseSpec(200, "The schedules of the project.", schema_here(ScheduleList)),),
    ),
    Endpoint(
        method="GET",
        path="/v1/policy",
        summary="Show the policy in force",
        tag=_TAG,
        handler=get_policy,
        responses=(ResponseSpec(200, "The policy.", schema_here(Policies)),),
    ),
    Endpoint(
        method="GET",
        path="/v1/policy/{name}",
        summary="Show a shipped policy",
        tag=_TAG,
        handler=get_shipped,
        responses=(ResponseSpec(200, "The policy.", schema_here(PolicyResult)),),
        problems=(404,),
    ),
    Endpoint(
        method="GET",
        path="/v1/session",
        summary="Check whether the request is authenticated",
        tag=_TAG,
        handler=session,
        responses=(ResponseSpec(200, "The request is authenticated.", schema_here(SessionResult)),),
    ),
    Endpoint(
        method="POST",
        path="/v1/session",
        summary="Sign a browser in",
        tag=_TAG,
        handler=sign_in,
        responses=(ResponseSpec(200, "The session cookie is set.", schema_here(SessionResult)),),
        body=SignInBody,
        problems=(401,),
        is_open=True,
    ),
    Endpoint(
        method="DELETE",
        path="/v1/session",
        summary="Sign a browser out",
        tag=_TAG,
        handler=sign_out,
        responses=(ResponseSpec(204, "The session has ended.", None, ""),),
    ),
)
